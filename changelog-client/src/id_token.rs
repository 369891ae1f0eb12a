//! Tokens that a CI system signs for each job, by which a pipeline needs no API key.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderValue;
use reqwest::redirect;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use tokio::sync::Mutex;
use url::Url;

use crate::base_url::BaseUrl;
use crate::error::{Error, TransportError, TransportErrorKind};
use crate::{reqwest_error, tls};

/// The variable that holds a token.
pub(crate) const TOKEN_VARIABLE: &str = "CHLOG_ID_TOKEN";
/// The variable that names the file that holds a token.
pub(crate) const FILE_VARIABLE: &str = "CHLOG_ID_TOKEN_FILE";
/// Where a job of GitHub Actions asks for a token, if it has the permission `id-token: write`.
pub(crate) const GITHUB_URL_VARIABLE: &str = "ACTIONS_ID_TOKEN_REQUEST_URL";
pub(crate) const GITHUB_TOKEN_VARIABLE: &str = "ACTIONS_ID_TOKEN_REQUEST_TOKEN";

/// How long before it expires a token is replaced.
const RENEW_BEFORE: Duration = Duration::from_mins(1);
/// How long the CI system may take to sign a token.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The largest answer of the CI system that is read, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// Where the job of a pipeline has its token from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum IdTokenSource {
    /// A token that the job was given, as GitLab does with `id_tokens`.
    Token(SecretString),
    /// A file with the token, which is read again before the token expires, as Kubernetes
    /// replaces it.
    File(PathBuf),
    /// GitHub Actions, which signs a token for each audience.
    GithubActions {
        /// Where tokens are asked for.
        request_url: String,
        /// What allows the job to ask.
        request_token: SecretString,
    },
}

impl IdTokenSource {
    /// Finds where the job of this process has its token from: `CHLOG_ID_TOKEN`, the file that
    /// `CHLOG_ID_TOKEN_FILE` names, or GitHub Actions if the job has the permission
    /// `id-token: write`. Blank variables count as not set.
    pub fn from_env() -> Option<Self> {
        Self::from_variables(|name| env::var(name).ok())
    }

    pub(crate) fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let variable = |name: &str| not_blank(&variable(name)?);
        if let Some(token) = variable(TOKEN_VARIABLE) {
            return Some(Self::Token(token.into()));
        }
        if let Some(path) = variable(FILE_VARIABLE) {
            return Some(Self::File(path.into()));
        }
        Some(Self::GithubActions {
            request_url: variable(GITHUB_URL_VARIABLE)?,
            request_token: variable(GITHUB_TOKEN_VARIABLE)?.into(),
        })
    }

    /// Returns what people know the source by, such as the name of its variable.
    pub fn name(&self) -> String {
        match self {
            Self::Token(_) => TOKEN_VARIABLE.to_owned(),
            Self::File(path) => format!("{FILE_VARIABLE} ({})", path.display()),
            Self::GithubActions { .. } => "GitHub Actions".to_owned(),
        }
    }

    /// Returns what the token claims, as [`claims_of`] does; `None` if the CI system must be
    /// asked for a token.
    pub fn claims(&self) -> Option<serde_json::Map<String, serde_json::Value>> {
        match self {
            Self::Token(token) => claims_of(token.expose_secret()),
            Self::File(path) => claims_of(fs::read_to_string(path).ok()?.trim()),
            Self::GithubActions { .. } => None,
        }
    }

    /// Returns a token for an audience, which the CI system chooses itself unless it is GitHub
    /// Actions.
    ///
    /// # Errors
    /// [`Error::Builder`] if a file cannot be read, [`Error::Transport`] if the CI system gives
    /// none.
    pub async fn token(&self, audience: &str) -> Result<SecretString, Error> {
        match self {
            Self::Token(token) => Ok(token.clone()),
            Self::File(path) => {
                let shown = path.display();
                let text = fs::read_to_string(path).map_err(|error| {
                    Error::Builder(format!("{FILE_VARIABLE}: cannot read {shown}: {error}"))
                })?;
                let token = text.trim();
                if token.is_empty() {
                    return Err(Error::Builder(format!("{FILE_VARIABLE}: {shown} is empty")));
                }
                Ok(token.to_owned().into())
            }
            Self::GithubActions {
                request_url,
                request_token,
            } => {
                let asked = ask_github(request_url, request_token, audience);
                tokio::time::timeout(TIMEOUT, asked)
                    .await
                    .unwrap_or_else(|_| Err(failed("no answer within 5 s")))
            }
        }
    }
}

/// Returns the value of a variable without the white space around it, or `None` if it is blank:
/// CI systems pass a missing secret as a blank variable.
pub(crate) fn not_blank(value: &str) -> Option<String> {
    let trimmed = value.trim();
    (!trimmed.is_empty()).then(|| trimmed.to_owned())
}

/// Asks GitHub Actions for a token.
async fn ask_github(
    request_url: &str,
    request_token: &SecretString,
    audience: &str,
) -> Result<SecretString, Error> {
    #[derive(Deserialize)]
    struct Answer {
        value: String,
    }
    let mut url = Url::parse(request_url)
        .map_err(|_| Error::Builder(format!("{GITHUB_URL_VARIABLE} is not a URL")))?;
    url.query_pairs_mut().append_pair("audience", audience);
    let origin = BaseUrl::parse(&url.origin().ascii_serialization())?;
    let http = reqwest::Client::builder()
        .redirect(redirect::Policy::none())
        .tls_backend_preconfigured(tls::config(&origin, &[])?)
        .build()
        .map_err(|error| Error::Builder(reqwest_error::with_causes(&error)))?;
    let request = http.get(url).bearer_auth(request_token.expose_secret());
    let mut answer = request
        .send()
        .await
        .map_err(|error| failed(&reqwest_error::with_causes(&error.without_url())))?;
    if !answer.status().is_success() {
        return Err(failed(&format!("it answered {}", answer.status())));
    }
    let mut body = Vec::new();
    while let Some(chunk) = answer
        .chunk()
        .await
        .map_err(|error| failed(&reqwest_error::with_causes(&error.without_url())))?
    {
        if body.len() + chunk.len() > MAX_ANSWER {
            return Err(failed("its answer is too large"));
        }
        body.extend_from_slice(&chunk);
    }
    let answer: Answer =
        serde_json::from_slice(&body).map_err(|_| failed("its answer has no token"))?;
    Ok(answer.value.into())
}

fn failed(why: &str) -> Error {
    let message = format!("GitHub Actions has given no id token: {why}");
    TransportError::new(TransportErrorKind::Connect, message).into()
}

/// The token of a client, for its URL.
#[derive(Debug)]
pub(crate) struct IdToken {
    source: IdTokenSource,
    audience: String,
    current: Mutex<Option<Current>>,
}

#[derive(Clone, Debug)]
struct Current {
    /// Marked as sensitive, so that `Debug` does not show it.
    header: HeaderValue,
    renew_at: SystemTime,
}

impl IdToken {
    pub(crate) fn new(source: IdTokenSource, audience: String) -> Self {
        Self {
            source,
            audience,
            current: Mutex::new(None),
        }
    }

    /// Returns the header of a request: the token that was used before, or another one before
    /// it expires.
    pub(crate) async fn header(&self) -> Result<HeaderValue, Error> {
        let mut current = self.current.lock().await;
        if let Some(current) = &*current
            && current.renew_at > SystemTime::now()
        {
            return Ok(current.header.clone());
        }
        let token = self.source.token(&self.audience).await?;
        let bearer = format!("Bearer {}", token.expose_secret());
        let mut header = HeaderValue::from_str(&bearer)
            .map_err(|_| Error::Builder("the id token contains invalid characters".to_owned()))?;
        header.set_sensitive(true);
        let expires_at = expiry_of(token.expose_secret()).unwrap_or(SystemTime::UNIX_EPOCH);
        *current = Some(Current {
            header: header.clone(),
            renew_at: expires_at.checked_sub(RENEW_BEFORE).unwrap_or(expires_at),
        });
        Ok(header)
    }
}

/// Returns when a token expires, as it says itself.
fn expiry_of(token: &str) -> Option<SystemTime> {
    let seconds = claims_of(token)?.get("exp")?.as_u64()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// Returns what a token claims. Its signature is not checked: this only serves to tell people
/// which token they have.
pub fn claims_of(token: &str) -> Option<serde_json::Map<String, serde_json::Value>> {
    let claims = token.split('.').nth(1)?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_in_the_variables_of_ci_systems() {
        let source = |variables: &[(&str, &str)]| {
            let found = IdTokenSource::from_variables(|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            });
            found.map(|source| source.name())
        };
        let github = [
            (GITHUB_URL_VARIABLE, "https://x.example/token?api=1"),
            (GITHUB_TOKEN_VARIABLE, "t"),
        ];
        assert_eq!(source(&[]), None);
        assert_eq!(source(&github[..1]), None);
        assert_eq!(source(&github).as_deref(), Some("GitHub Actions"));
        let both = [github[0], github[1], (TOKEN_VARIABLE, "eyJ.x.y")];
        assert_eq!(source(&both).as_deref(), Some(TOKEN_VARIABLE));
        let blank = [(TOKEN_VARIABLE, " "), (FILE_VARIABLE, "\n")];
        assert_eq!(source(&blank), None);
        let file = [(TOKEN_VARIABLE, " "), (FILE_VARIABLE, "/var/token\n")];
        assert_eq!(
            source(&file).as_deref(),
            Some("CHLOG_ID_TOKEN_FILE (/var/token)")
        );
        let secret = IdTokenSource::Token("eyJsecret.x.y".to_owned().into());
        assert!(!format!("{secret:?}").contains("eyJsecret"));
    }

    #[tokio::test]
    async fn a_token_is_used_until_it_nearly_expires() {
        let file = env::temp_dir().join(format!("changelog-token-{}", std::process::id()));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap().as_secs();
        let write = |expires: u64| {
            let claims = format!("{{\"exp\":{expires}}}");
            let token = format!("eyJh.{}.{expires}", URL_SAFE_NO_PAD.encode(claims));
            fs::write(&file, &token).unwrap();
            format!("Bearer {token}")
        };
        let token = IdToken::new(IdTokenSource::File(file.clone()), String::new());
        let soon = write(now + 30);
        assert_eq!(token.header().await.unwrap(), soon);
        let later = write(now + 300);
        assert_eq!(token.header().await.unwrap(), later);
        write(now + 600);
        assert_eq!(token.header().await.unwrap(), later);
        fs::remove_file(&file).unwrap();
    }
}
