//! Exchanges the code that a browser brings back from a provider for what the provider says of
//! the person.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::person::{self, PersonError};
use super::setup::{self, SecretMethod};
use crate::format;
use crate::identity::{
    Claims, Discovery, Expected, Identity, IdentityError, Issuer, PROVIDER_TIMEOUT, ProviderError,
    TokenKind,
};
use crate::integrations::http::ReceiverRequest;
use crate::store::{SsoPerson, SsoProvider};

/// How long all requests to the provider may take together.
const EXCHANGE_TIMEOUT: Duration = PROVIDER_TIMEOUT;
/// What `application/x-www-form-urlencoded` leaves as it is.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'*');
/// The limit on what a provider says of an error, in characters.
const MAX_ERROR_CHARS: usize = 300;

/// Why it is not known who has signed in. The messages are for the person.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExchangeError {
    /// The provider does not work.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The provider's token is not valid.
    #[error("the token of the identity provider is not valid: {0}")]
    Token(String),
    /// The provider has refused the code.
    #[error("the identity provider refused the sign-in: {0}")]
    Refused(String),
    /// The settings do not fit the provider.
    #[error("{0}")]
    Unsuitable(String),
    /// The person cannot be read.
    #[error(transparent)]
    Person(#[from] PersonError),
}

impl From<IdentityError> for ExchangeError {
    fn from(error: IdentityError) -> Self {
        match error {
            IdentityError::Provider(error) => Self::Provider(error),
            IdentityError::Token(error) => Self::Token(error.to_string()),
        }
    }
}

/// A person who has signed in at the provider.
#[derive(Debug)]
pub(crate) struct Exchanged {
    pub(crate) person: SsoPerson,
    /// The id of the session at the provider.
    pub(crate) sid: Option<String>,
}

/// A code that a browser has brought back, and what it must fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code<'c> {
    pub(crate) value: &'c str,
    pub(crate) redirect_uri: &'c str,
    pub(crate) verifier: &'c str,
    pub(crate) nonce: &'c str,
}

#[derive(Deserialize)]
struct Tokens {
    id_token: Option<String>,
    access_token: Option<String>,
}

/// Exchanges a code, within the time limit of a request to a provider.
pub(crate) async fn exchange(
    identity: &Identity,
    provider: &SsoProvider,
    secret: &str,
    code: Code<'_>,
) -> Result<Exchanged, ExchangeError> {
    let exchanged = exchange_now(identity, provider, secret, code);
    tokio::time::timeout(EXCHANGE_TIMEOUT, exchanged)
        .await
        .unwrap_or(Err(ProviderError::Timeout.into()))
}

async fn exchange_now(
    identity: &Identity,
    provider: &SsoProvider,
    secret: &str,
    code: Code<'_>,
) -> Result<Exchanged, ExchangeError> {
    let issuer = setup::issuer(provider);
    let published = identity.provider(&issuer).await?;
    let discovery = &published.discovery;
    let tokens = tokens(identity, &issuer, discovery, provider, secret, code).await?;
    let Some(id_token) = tokens.id_token else {
        let message = "the identity provider sent no id token; the scope openid must be allowed";
        return Err(ExchangeError::Unsuitable(message.to_owned()));
    };
    let expected = Expected {
        audience: &provider.client_id,
        kind: TokenKind::Identity,
        max_validity: None,
    };
    let claims = identity.verify(&issuer, &id_token, &expected).await?;
    check_sign_in(&claims, provider, code.nonce)?;
    let mut all = claims.all().clone();
    if let Some(token) = &tokens.access_token
        && let Some(need) = need_of(&all, provider)
    {
        let info = user_info(identity, &issuer, discovery, token, &all).await;
        match info {
            Ok(info) => add_user_info(&mut all, info),
            Err(error) if need == Need::Required => return Err(error),
            Err(error) => tracing::debug!(%error, "the user info could not be read"),
        }
    }
    Ok(Exchanged {
        person: person::read(&all, &provider.roles)?,
        sid: person::id(&all, "sid"),
    })
}

/// Checks what a token of this sign-in must claim in addition.
fn check_sign_in(
    claims: &Claims,
    provider: &SsoProvider,
    nonce: &str,
) -> Result<(), ExchangeError> {
    if claims.text("nonce") != Some(nonce) {
        let message = "its nonce is not that of this sign-in";
        return Err(ExchangeError::Token(message.to_owned()));
    }
    if let Some(party) = claims.get("azp")
        && party.as_str() != Some(&*provider.client_id)
    {
        let message = "it was issued to another client";
        return Err(ExchangeError::Token(message.to_owned()));
    }
    if claims.get("iat").is_none() {
        return Err(ExchangeError::Token("the claim iat is missing".to_owned()));
    }
    Ok(())
}

/// Requests the tokens for a code.
async fn tokens(
    identity: &Identity,
    issuer: &Issuer,
    discovery: &Discovery,
    provider: &SsoProvider,
    secret: &str,
    code: Code<'_>,
) -> Result<Tokens, ExchangeError> {
    const TOKEN: &str = "the token";
    let (_, url) = setup::endpoints(discovery).map_err(ExchangeError::Unsuitable)?;
    let method = SecretMethod::of(discovery).map_err(ExchangeError::Unsuitable)?;
    let mut fields = vec![
        ("grant_type", "authorization_code"),
        ("code", code.value),
        ("redirect_uri", code.redirect_uri),
        ("code_verifier", code.verifier),
    ];
    let mut headers = HeaderMap::new();
    let form_type = HeaderValue::from_static("application/x-www-form-urlencoded");
    headers.insert(header::CONTENT_TYPE, form_type);
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    match method {
        SecretMethod::Basic => {
            headers.insert(header::AUTHORIZATION, basic(&provider.client_id, secret)?);
        }
        SecretMethod::Post => {
            fields.push(("client_id", &provider.client_id));
            fields.push(("client_secret", secret));
        }
    }
    let body = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish();
    let request = ReceiverRequest {
        method: Method::POST,
        url,
        headers,
        body: Bytes::from(body),
    };
    let response = identity.client().send(issuer, TOKEN, request).await?;
    if response.status != StatusCode::OK {
        return Err(refused(response.status, &response.body));
    }
    serde_json::from_slice(&response.body).map_err(|_| {
        ProviderError::Invalid {
            what: TOKEN.to_owned(),
            why: "is not a JSON object".to_owned(),
        }
        .into()
    })
}

/// Returns the header with the id and the secret of the client (RFC 6749, 2.3.1).
fn basic(client_id: &str, secret: &str) -> Result<HeaderValue, ExchangeError> {
    let encode = |text: &str| utf8_percent_encode(text, UNRESERVED).to_string();
    let pair = format!("{}:{}", encode(client_id), encode(secret));
    let value = format!("Basic {}", BASE64_STANDARD.encode(pair));
    let mut value = HeaderValue::try_from(value)
        .map_err(|error| ExchangeError::Unsuitable(error.to_string()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns why the provider has refused a code, as it says itself.
fn refused(status: StatusCode, body: &[u8]) -> ExchangeError {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |name: &str| body[name].as_str().map(shown);
    let hint = match body["error"].as_str() {
        Some("invalid_client" | "unauthorized_client") => {
            " (the client id or the secret in the settings is wrong, or has expired)"
        }
        Some("invalid_grant") => {
            " (the code was used before, has expired, or belongs to another sign-in)"
        }
        _ => "",
    };
    let error = text("error").unwrap_or_else(|| format!("status {}", status.as_u16()));
    let description = text("error_description").map(|text| format!(": {text}"));
    ExchangeError::Refused(format!("{error}{}{hint}", description.unwrap_or_default()))
}

/// Returns what a provider says so that it may be shown.
pub(crate) fn shown(text: &str) -> String {
    let line = format::line(text);
    line.chars().take(MAX_ERROR_CHARS).collect()
}

/// Why the user info is requested. Many providers send claims only to those who ask with the
/// access token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Without it, the person cannot be signed in.
    Required,
    /// It may have the name.
    Name,
}

/// Returns what the id token lacks.
fn need_of(claims: &Map<String, Value>, provider: &SsoProvider) -> Option<Need> {
    let roles = &provider.roles;
    let first = roles.groups_claim.split('.').next().unwrap_or_default();
    let has_groups = claims.contains_key(&roles.groups_claim) || claims.contains_key(first);
    if !claims.contains_key("email") || (roles.follow_groups() && !has_groups) {
        return Some(Need::Required);
    }
    (!claims.contains_key("name")).then_some(Need::Name)
}

/// Requests the user info of the person whom an id token is about.
async fn user_info(
    identity: &Identity,
    issuer: &Issuer,
    discovery: &Discovery,
    access_token: &str,
    claims: &Map<String, Value>,
) -> Result<Map<String, Value>, ExchangeError> {
    const USER_INFO: &str = "the user info";
    let Some(url) = &discovery.userinfo_endpoint else {
        return Ok(Map::new());
    };
    let Ok(mut bearer) = HeaderValue::try_from(format!("Bearer {access_token}")) else {
        return Ok(Map::new());
    };
    bearer.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert(header::AUTHORIZATION, bearer);
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let request = ReceiverRequest {
        method: Method::GET,
        url,
        headers,
        body: Bytes::new(),
    };
    let response = identity.client().send(issuer, USER_INFO, request).await?;
    let invalid = |why: &str| ProviderError::Invalid {
        what: USER_INFO.to_owned(),
        why: why.to_owned(),
    };
    if response.status != StatusCode::OK {
        return Err(ProviderError::Status {
            what: USER_INFO.to_owned(),
            status: response.status.as_u16(),
            hint: "",
        }
        .into());
    }
    let info = serde_json::from_slice::<Map<String, Value>>(&response.body)
        .map_err(|_| invalid("is not a JSON object; signed user info is not supported"))?;
    // Otherwise it describes another person (OpenID Connect Core 1.0, 5.3.2).
    if info.get("sub").is_none() || info.get("sub") != claims.get("sub") {
        return Err(invalid("is that of another person").into());
    }
    Ok(info)
}

/// Adds the claims that only the user info has. What the id token says counts: it is signed.
fn add_user_info(claims: &mut Map<String, Value>, info: Map<String, Value>) {
    // An address and whether it is verified belong together.
    let has_email = claims.contains_key("email");
    for (name, value) in info {
        if has_email && matches!(name.as_str(), "email_verified" | "xms_edov") {
            continue;
        }
        claims.entry(name).or_insert(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_is_encoded_as_a_form_first() {
        let header = basic("a b", "c:d/é").expect("a header");
        let encoded = header
            .to_str()
            .ok()
            .and_then(|text| text.strip_prefix("Basic "));
        let pair = BASE64_STANDARD
            .decode(encoded.expect("basic"))
            .expect("base64");
        assert_eq!(pair, b"a%20b:c%3Ad%2F%C3%A9");
    }

    #[test]
    fn what_the_provider_says_of_an_error_is_shown_in_one_line() {
        let body = br#"{"error":"invalid_client","error_description":"bad\nsecret"}"#;
        let error = refused(StatusCode::UNAUTHORIZED, body).to_string();
        assert!(error.contains("invalid_client: bad secret"), "{error}");
        assert!(error.contains("in the settings"), "{error}");
        let error = refused(StatusCode::BAD_GATEWAY, b"<html>").to_string();
        assert!(error.ends_with("status 502"), "{error}");
    }
}
