//! What an identity provider publishes, and how it is fetched.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use changelog_core::Timestamp;
use http::{HeaderMap, Method};
use serde::Deserialize;

use super::error::{ProviderError, TokenError, shown};
use super::keys::KeySet;
use super::token::Parsed;
use crate::integrations::http::{ReceiverClient, ReceiverRequest, ReceiverResponse};

/// How long a provider may take: for its discovery document and its keys together, or for
/// another request.
pub const PROVIDER_TIMEOUT: Duration = Duration::from_secs(5);
/// The largest answer of a provider that is read, in bytes.
pub const MAX_PROVIDER_BYTES: usize = 256 * 1024;

/// The address of the discovery document, after the issuer.
const DISCOVERY_PATH: &str = "/.well-known/openid-configuration";

/// An issuer of tokens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Issuer {
    url: String,
    is_insecure: bool,
}

impl Issuer {
    /// Names an issuer by its URL, exactly as it writes it. An insecure issuer, for trials,
    /// may be reached by plain http and in any network.
    pub fn new(url: &str, is_insecure: bool) -> Self {
        Self {
            url: url.to_owned(),
            is_insecure,
        }
    }

    /// Returns the URL.
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// What a provider says about itself (`OpenID` Connect Discovery 1.0).
#[derive(Clone, Debug, Deserialize)]
pub struct Discovery {
    /// Its own name for itself, which is the issuer that was set.
    pub issuer: String,
    /// Where its keys are.
    pub jwks_uri: String,
    /// Where people sign in; not for providers of pipelines only.
    pub authorization_endpoint: Option<String>,
    /// Where a code is exchanged for tokens.
    pub token_endpoint: Option<String>,
    /// Where more about a person is to be had.
    pub userinfo_endpoint: Option<String>,
    /// Where a person signs out of the provider.
    pub end_session_endpoint: Option<String>,
    /// The ways in which the token endpoint takes the client's secret; by default
    /// `client_secret_basic`.
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// The scopes that it knows.
    pub scopes_supported: Option<Vec<String>>,
    /// How it takes the secret of PKCE (RFC 7636).
    pub code_challenge_methods_supported: Option<Vec<String>>,
    /// Whether it names itself when it returns people (RFC 9207).
    #[serde(default)]
    pub authorization_response_iss_parameter_supported: bool,
    /// Whether the provider tells when a person has signed out.
    #[serde(default)]
    pub backchannel_logout_supported: bool,
    /// Whether it says with what session.
    #[serde(default)]
    pub backchannel_logout_session_supported: bool,
}

/// What a provider published at a time.
#[derive(Clone, Debug)]
pub struct Provider {
    /// What it says about itself.
    pub discovery: Discovery,
    /// When it was fetched.
    pub fetched_at: Timestamp,
    keys: KeySet,
}

impl Provider {
    /// Returns whether a token that names this key may have been signed by the provider.
    pub(super) fn has_key(&self, id: Option<&str>) -> bool {
        self.keys.has(id)
    }

    pub(super) fn check_signature(&self, token: &Parsed<'_>) -> Result<(), TokenError> {
        let id = token.claims.key_id();
        (self.keys).check(token.algorithm, id, token.message, &token.signature)
    }
}

/// Sends requests to providers. Redirects are not followed, and addresses are those that
/// receivers may have, except for insecure issuers.
#[derive(Clone)]
pub struct ProviderClient {
    checked: ReceiverClient,
    unchecked: ReceiverClient,
}

impl fmt::Debug for ProviderClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderClient").finish_non_exhaustive()
    }
}

impl ProviderClient {
    pub(super) fn new(checked: ReceiverClient) -> Self {
        Self {
            unchecked: checked.without_limits(),
            checked,
        }
    }

    /// Sends a request to an address that the provider of an issuer has named, and reads its
    /// answer, of any status.
    ///
    /// # Errors
    /// [`ProviderError`], after [`PROVIDER_TIMEOUT`] at the latest; `what` names the answer, as
    /// in "the token".
    pub async fn send(
        &self,
        issuer: &Issuer,
        what: &str,
        request: ReceiverRequest<'_>,
    ) -> Result<ReceiverResponse, ProviderError> {
        tokio::time::timeout(PROVIDER_TIMEOUT, self.exchange(issuer, what, request))
            .await
            .unwrap_or(Err(ProviderError::Timeout))
    }

    async fn exchange(
        &self,
        issuer: &Issuer,
        what: &str,
        request: ReceiverRequest<'_>,
    ) -> Result<ReceiverResponse, ProviderError> {
        let client = if issuer.is_insecure {
            &self.unchecked
        } else {
            &self.checked
        };
        let response = client.exchange(request, MAX_PROVIDER_BYTES).await?;
        if response.is_cut {
            return Err(ProviderError::TooLarge(what.to_owned()));
        }
        Ok(response)
    }

    async fn get(&self, issuer: &Issuer, what: &str, url: &str) -> Result<Vec<u8>, ProviderError> {
        let request = ReceiverRequest {
            method: Method::GET,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
        };
        let response = self.exchange(issuer, what, request).await?;
        if response.status == http::StatusCode::OK {
            return Ok(response.body);
        }
        Err(ProviderError::Status {
            what: what.to_owned(),
            status: response.status.as_u16(),
            hint: if response.status.is_redirection() {
                ", a redirect, which is not followed"
            } else {
                ""
            },
        })
    }

    /// Fetches what a provider publishes.
    pub(super) async fn fetch(
        &self,
        issuer: &Issuer,
        now: Timestamp,
    ) -> Result<Provider, ProviderError> {
        tokio::time::timeout(PROVIDER_TIMEOUT, self.fetch_both(issuer, now))
            .await
            .unwrap_or(Err(ProviderError::Timeout))
    }

    async fn fetch_both(&self, issuer: &Issuer, now: Timestamp) -> Result<Provider, ProviderError> {
        const DOCUMENT: &str = "the discovery document";
        const KEYS: &str = "the list of keys";
        let url = format!("{}{DISCOVERY_PATH}", issuer.url.trim_end_matches('/'));
        let document = self.get(issuer, DOCUMENT, &url).await?;
        let discovery: Discovery =
            serde_json::from_slice(&document).map_err(|_| ProviderError::Invalid {
                what: DOCUMENT.to_owned(),
                why: "is not a JSON object with `issuer` and `jwks_uri`".to_owned(),
            })?;
        // Exactly, so that no other issuer can speak for this one.
        if discovery.issuer != issuer.url {
            return Err(ProviderError::OtherIssuer {
                expected: issuer.url.clone(),
                got: shown(&discovery.issuer),
            });
        }
        let keys = self.get(issuer, KEYS, &discovery.jwks_uri).await?;
        let keys = KeySet::parse(&keys).map_err(|why| ProviderError::Invalid {
            what: KEYS.to_owned(),
            why,
        })?;
        Ok(Provider {
            discovery,
            fetched_at: now,
            keys,
        })
    }
}
