// An identity provider for the tests: the package oidc-provider, with people and clients that
// the test sets. Its settings are the first line of the input; its address is the first line of
// the output. `POST /test/people` sets the people, `POST /test/rotate` replaces its keys.

import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { Provider } from 'oidc-provider';

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const settings = JSON.parse((await lines.next()).value);
let people = settings.people;
let issuer;
let provider;

function newKey() {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), alg: 'RS256', use: 'sig' };
}

function newProvider() {
  const made = new Provider(issuer, {
    clients: settings.clients,
    jwks: { keys: [newKey()] },
    cookies: { keys: [randomUUID()] },
    // The claims of an address and of groups are told to those who ask with the access token.
    claims: {
      openid: ['sub'],
      email: ['email', 'email_verified'],
      profile: ['name'],
      groups: ['groups'],
    },
    scopes: ['openid', 'email', 'profile', 'groups'],
    pkce: { required: () => true },
    features: { devInteractions: { enabled: true }, backchannelLogout: { enabled: true } },
    findAccount: (_, sub) =>
      people[sub] && { accountId: sub, claims: () => ({ sub, ...people[sub] }) },
  });
  made.on('server_error', (_, error) => console.error(error));
  made.on('grant.error', (_, error) => console.error(error.message, error.error_description));
  made.on('backchannel.error', (_, error) => console.error(error));
  return made.callback();
}

async function body(request) {
  let text = '';
  for await (const chunk of request) text += chunk;
  return text;
}

const server = createServer(async (request, response) => {
  if (request.url === '/test/people') {
    people = JSON.parse(await body(request));
    response.end();
  } else if (request.url === '/test/rotate') {
    provider = newProvider();
    response.end();
  } else {
    provider(request, response);
  }
});
server.listen(settings.port, '127.0.0.1', () => {
  issuer = `http://127.0.0.1:${server.address().port}`;
  provider = newProvider();
  console.log(issuer);
});
// The test is over.
lines.next().then(() => process.exit());
