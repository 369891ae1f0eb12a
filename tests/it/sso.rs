//! Sign-in by the identity provider of an organization, with requests like those of a browser and
//! a provider that also does what none should.

mod accounts;
mod refused;
mod sign_in;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use changelog_tests::issuer::{DISCOVERY_PATH, SigningKey, encoded};
use changelog_tests::receivers::Receiver;
use changelog_tests::{Answer, Organization, TestApp, TestClient, TestResponse, send};
use ring::digest;
use serde_json::{Value, json};
use url::Url;

const CLIENT_ID: &str = "change-log";
/// The event that a logout token is about.
const LOGOUT_EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";
pub(crate) const CLIENT_SECRET: &str = "client-secret-4711";

/// What a provider publishes and answers.
#[derive(Clone)]
struct Published {
    keys: Vec<Value>,
    /// More members of the discovery document.
    discovery: Value,
    /// The answer to a code; the id token, if it is a string.
    token: Value,
    user_info: Value,
}

/// A provider on 127.0.0.1.
pub(crate) struct Provider {
    server: Receiver,
    published: Arc<Mutex<Published>>,
}

impl Provider {
    pub(crate) async fn start(key: &SigningKey) -> Self {
        let server = Receiver::start().await;
        let published = Arc::new(Mutex::new(Published {
            keys: vec![key.published()],
            discovery: json!({}),
            token: Value::Null,
            user_info: Value::Null,
        }));
        let provider = Self { server, published };
        provider.behave();
        provider
    }

    /// Answers as providers do.
    fn behave(&self) {
        let (url, published) = (self.url(), Arc::clone(&self.published));
        self.server.answer_by(move |request| {
            let now = lock(&published).clone();
            match request.path.split('?').next().unwrap_or_default() {
                DISCOVERY_PATH => {
                    let mut document = json!({
                        "issuer": url,
                        "jwks_uri": format!("{url}/keys"),
                        "authorization_endpoint": format!("{url}/authorize?tenant=1"),
                        "token_endpoint": format!("{url}/token"),
                        "userinfo_endpoint": format!("{url}/userinfo"),
                    });
                    for (name, value) in now.discovery.as_object().into_iter().flatten() {
                        document[name] = value.clone();
                    }
                    Answer::json(200, &document)
                }
                "/keys" => Answer::json(200, &json!({ "keys": now.keys })),
                "/token" => match &now.token {
                    Value::String(token) => Answer::json(
                        200,
                        &json!({ "id_token": token, "access_token": "at", "token_type": "Bearer" }),
                    ),
                    other => Answer::json(400, other),
                },
                "/userinfo" => Answer::json(200, &now.user_info),
                _ => Answer::status(404),
            }
        });
    }

    fn url(&self) -> String {
        self.server.base()
    }

    fn change(&self, change: impl FnOnce(&mut Published)) {
        change(&mut lock(&self.published));
    }

    /// Answers the next codes with a token.
    pub(crate) fn token(&self, token: &str) {
        self.change(|published| published.token = json!(token));
    }

    /// Connects an organization to this provider, with more flags.
    pub(crate) fn connect(
        &self,
        app: &TestApp,
        organization: &Organization,
        flags: &[&str],
    ) -> Value {
        let set = [
            "sso",
            "set",
            "--org",
            &organization.id,
            "--issuer",
            &self.url(),
        ];
        let client = ["--client-id", CLIENT_ID, "--client-secret-file", "-"];
        let all = [&set[..], &client, &["--allow-insecure-issuer"], flags].concat();
        app.admin_with(&all, CLIENT_SECRET)
    }

    /// Returns the claims of a person who has just signed in.
    pub(crate) fn claims(&self, app: &TestApp, begun: &Begun, subject: &str) -> Value {
        let now = app.clock.now().timestamp();
        json!({
            "iss": self.url(), "aud": CLIENT_ID, "sub": subject, "nonce": begun.parameter("nonce"),
            "iat": now, "exp": now + 300,
            "name": "Cleo", "email": "cleo@example.org", "email_verified": true,
            "groups": ["dev"],
        })
    }

    /// Returns the claims of a logout token that ends the session `s1`, or those of a subject.
    pub(crate) fn logout_claims(&self, app: &TestApp, id: &str, subject: &Value) -> Value {
        let now = app.clock.now().timestamp();
        json!({
            "iss": self.url(), "aud": CLIENT_ID, "iat": now, "exp": now + 120,
            "jti": format!("{id} {now}"), "sub": subject, "sid": "s1",
            "events": { LOGOUT_EVENT: {} },
        })
    }

    /// Returns how often it was asked for a token.
    fn exchanges(&self) -> usize {
        let requests = self.server.requests();
        requests.iter().filter(|one| one.path == "/token").count()
    }
}

fn lock(published: &Mutex<Published>) -> std::sync::MutexGuard<'_, Published> {
    published.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a client of another address, if the service trusts proxies of this machine: one client
/// may begin only so many sign-ins.
pub(crate) fn another_client(app: &TestApp) -> TestClient {
    static CLIENTS: AtomicU16 = AtomicU16::new(0);
    let [high, low] = CLIENTS.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let address = format!("10.1.{high}.{low}");
    app.anonymous().with("x-forwarded-for", &address)
}

/// A sign-in that a browser has begun.
pub(crate) struct Begun {
    /// The cookie with what was begun.
    cookie: String,
    /// Where the browser was sent.
    url: Url,
}

impl Begun {
    /// Opens `/sso/ORGANIZATION`.
    pub(crate) async fn begin(app: &TestApp, organization: &Organization) -> Self {
        Self::begin_at(app, &format!("/sso/{}", organization.id)).await
    }

    async fn begin_at(app: &TestApp, path: &str) -> Self {
        let answer = another_client(app).get(path).await;
        answer.is(303);
        let cookie = answer.header("set-cookie");
        assert!(
            cookie.contains("HttpOnly; SameSite=Lax; Path=/; Max-Age=900"),
            "{cookie}"
        );
        Self {
            cookie: answer.cookie().to_owned(),
            url: answer.header("location").parse().expect("a URL"),
        }
    }

    /// Returns the cookie with what was begun.
    pub(crate) fn cookie(&self) -> &str {
        &self.cookie
    }

    fn parameters(&self) -> BTreeMap<String, String> {
        self.url.query_pairs().into_owned().collect()
    }

    pub(crate) fn parameter(&self, name: &str) -> String {
        self.parameters().remove(name).unwrap_or_default()
    }

    /// Returns from the provider, with more parameters.
    pub(crate) async fn finish(&self, app: &TestApp, more: &str) -> TestResponse {
        let redirect: Url = self.parameter("redirect_uri").parse().expect("a URL");
        let state = self.parameter("state");
        let path = format!("{}?code=c0de&state={state}{more}", redirect.path());
        self.open(app, &path).await
    }

    async fn open(&self, app: &TestApp, path: &str) -> TestResponse {
        send(
            app.anonymous()
                .request("GET", path)
                .header("cookie", &self.cookie),
        )
        .await
    }
}

/// Signs a person in who has these claims, in addition to those that everyone has.
async fn try_sign_in(
    app: &TestApp,
    organization: &Organization,
    provider: &Provider,
    key: &SigningKey,
    more: &Value,
) -> TestResponse {
    let begun = Begun::begin(app, organization).await;
    let mut claims = provider.claims(app, &begun, "sub-cleo");
    for (name, value) in more.as_object().into_iter().flatten() {
        claims[name] = value.clone();
    }
    provider.token(&key.sign(&claims));
    begun.finish(app, "").await
}

/// Signs a person in, which must succeed, and returns the browser.
async fn sign_in(
    app: &TestApp,
    organization: &Organization,
    provider: &Provider,
    key: &SigningKey,
    more: &Value,
) -> TestClient {
    let answer = try_sign_in(app, organization, provider, key, more).await;
    answer.is(303);
    app.anonymous().with("cookie", answer.cookie())
}

/// Requires that nobody was signed in, and that the page says why.
#[track_caller]
fn assert_refused(answer: &TestResponse, status: u16, reason: &str) {
    answer.is(status);
    assert!(
        answer.text.contains(reason),
        "no {reason:?}: {}",
        answer.text
    );
    for cookie in answer.headers.get_all("set-cookie") {
        let cookie = cookie.to_str().expect("text");
        assert!(!cookie.starts_with("changelog_session="), "{cookie}");
    }
}

/// Returns the challenge of PKCE for a verifier.
fn challenge(verifier: &str) -> String {
    encoded(digest::digest(&digest::SHA256, verifier.as_bytes()))
}
