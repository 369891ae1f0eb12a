//! By what requests are authenticated: the id token of a pipeline's job, or API keys, from the
//! environment or stored by `chlog auth login`.
//!
//! Stored keys are in a file of their own that only its owner can read. Each is
//! stored with its server's URL and is sent nowhere else, whatever `--url` is.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use changelog_client::IdTokenSource;
use changelog_core::api_key::mask;
use changelog_core::problem::BadValue;
use changelog_core::{OrganizationId, VerifiedRun};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::Value;

use super::dirs;
use super::sourced::Sourced;
use crate::base::failure::{Exit, Failure, Outcome, warn};
use crate::base::private_fs;

/// The variable that holds the key.
pub(crate) const KEY_VARIABLE: &str = "CHLOG_API_KEY";
/// The variable that names the file that holds the key.
pub(crate) const KEY_FILE_VARIABLE: &str = "CHLOG_API_KEY_FILE";
/// The variable that holds the id token of a pipeline's job.
const TOKEN_VARIABLE: &str = "CHLOG_ID_TOKEN";
/// The variable that names the file that holds it.
const TOKEN_FILE_VARIABLE: &str = "CHLOG_ID_TOKEN_FILE";
/// The variable with the id of the organization that tokens are for.
const ORGANIZATION_VARIABLE: &str = "CHLOG_ORGANIZATION";
/// The variables with secrets of `chlog`, which commands that it starts do not get.
pub(crate) const SECRET_VARIABLES: [&str; 4] = [
    KEY_VARIABLE,
    KEY_FILE_VARIABLE,
    TOKEN_VARIABLE,
    TOKEN_FILE_VARIABLE,
];
/// Set for a command from whose environment `chlog run` has removed the key.
pub(crate) const KEY_REMOVED_VARIABLE: &str = "CHLOG_RUN";

/// Which keys may be sent to the server's URL, the first one first. A stored key is
/// never sent to another URL than its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyOrder {
    /// The key of the environment, then the stored one.
    Environment,
    /// The stored key, then that of the environment: `--url` is not `CHLOG_URL`, with
    /// which the key of the environment was probably given.
    Stored,
    /// Only the stored key: the URL is that of a profile that was chosen by a flag, and
    /// the key of the environment was not given for it.
    OnlyStored,
}

/// By what requests are authenticated.
#[derive(Clone, Debug)]
pub(crate) enum Credential {
    /// An API key.
    Key(Sourced<SecretString>),
    /// The id token of a pipeline's job, of which there may be another one for each command.
    Token(IdTokenSource),
}

impl Credential {
    /// Returns a secret text that stays the same for all commands with this credential.
    pub(crate) fn identity(&self) -> String {
        match self {
            Self::Key(key) => key.value.expose_secret().to_owned(),
            Self::Token(source) => {
                let organization = variable(ORGANIZATION_VARIABLE).unwrap_or_default();
                let Some(claims) = source.claims() else {
                    let repository = variable("GITHUB_REPOSITORY").unwrap_or_default();
                    return format!("{} {repository} {organization}", source.name());
                };
                // Each job has another token: the repository stays, or else the subject.
                let issuer = claims.get("iss").and_then(Value::as_str);
                let run = VerifiedRun::of(issuer.unwrap_or_default(), &claims);
                let who = run.repository.or(run.subject);
                let who = who.unwrap_or_default();
                format!("{} {who} {organization}", run.issuer)
            }
        }
    }
}

/// Finds the id token of a pipeline's job for a URL. One that was made before for some audience
/// is not sent to the server of a profile that was chosen by a flag; GitHub Actions makes one
/// for the URL.
pub(crate) fn id_token(order: KeyOrder) -> Option<IdTokenSource> {
    let source = IdTokenSource::from_env()?;
    let is_for_any_url = matches!(source, IdTokenSource::GithubActions { .. });
    (is_for_any_url || order != KeyOrder::OnlyStored).then_some(source)
}

/// Returns the organization that tokens are for, if one is named.
pub(crate) fn organization() -> Outcome<Option<OrganizationId>> {
    let Some(id) = variable(ORGANIZATION_VARIABLE) else {
        return Ok(None);
    };
    let id = id.parse().map_err(|bad: BadValue| {
        Failure::usage(format!("{ORGANIZATION_VARIABLE}: the id {bad}"))
            .hint("the page Settings, Workload identities of the dashboard shows it")
    });
    id.map(Some)
}

/// A stored key and the URL that it may be sent to.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredKey {
    pub(crate) url: String,
    pub(crate) key: Key,
    /// The name of the organization at the time of the sign-in.
    pub(crate) organization: String,
}

impl StoredKey {
    /// Returns the key as it may be shown.
    pub(crate) fn masked(&self) -> String {
        mask(self.key.0.expose_secret())
    }
}

/// A key in the file.
#[derive(Debug, Deserialize)]
#[serde(from = "String")]
pub(crate) struct Key(SecretString);

impl From<String> for Key {
    fn from(key: String) -> Self {
        Self(key.into())
    }
}

/// The stored keys by profile.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Credentials(BTreeMap<String, StoredKey>);

impl Credentials {
    /// Reads the file; empty if there is none.
    pub(crate) fn load() -> Outcome<Self> {
        let Some(path) = path() else {
            return Ok(Self::default());
        };
        let shown = path.display();
        let Some(text) = private_fs::read(&path)? else {
            return Ok(Self::default());
        };
        if is_readable_by_others(&path) {
            warn(&format!(
                "{shown} is readable by other users; run `chmod 600 {shown}`"
            ));
        }
        // The parser's message would quote the line with the key.
        toml::from_str(&text).map_err(|_| {
            Failure::usage(format!("{shown} is damaged"))
                .hint("remove it and store the key again with `chlog auth login`")
        })
    }

    pub(crate) fn get(&self, profile: &str) -> Option<&StoredKey> {
        self.0.get(profile)
    }

    pub(crate) fn set(&mut self, profile: &str, url: &str, key: SecretString, organization: &str) {
        let stored = StoredKey {
            url: url.to_owned(),
            key: Key(key),
            organization: organization.to_owned(),
        };
        self.0.insert(profile.to_owned(), stored);
    }

    /// Removes a key; returns whether there was one.
    pub(crate) fn remove(&mut self, profile: &str) -> bool {
        self.0.remove(profile).is_some()
    }

    pub(crate) fn profiles(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Writes the file, and returns its path.
    pub(crate) fn save(&self) -> Outcome<PathBuf> {
        let path = path().ok_or_else(|| {
            Failure::new(Exit::Other, "there is no home directory to store the key in").hint(
                "set HOME or XDG_CONFIG_HOME, or set the key with CHLOG_API_KEY or CHLOG_API_KEY_FILE",
            )
        })?;
        private_fs::write(&path, self.to_toml().as_bytes())
            .map_err(|error| Failure::unwritable(&path, &error))?;
        Ok(path)
    }

    fn to_toml(&self) -> String {
        let table: toml::Table = self
            .0
            .iter()
            .map(|(profile, entry)| {
                let fields = toml::Table::from_iter([
                    ("url".to_owned(), entry.url.clone().into()),
                    ("key".to_owned(), entry.key.0.expose_secret().into()),
                    ("organization".to_owned(), entry.organization.clone().into()),
                ]);
                (profile.clone(), fields.into())
            })
            .collect();
        table.to_string()
    }
}

/// Returns the path of the file; none without a home directory.
fn path() -> Option<PathBuf> {
    Some(dirs::config()?.join("credentials.toml"))
}

/// Returns whether other users can read a file.
fn is_readable_by_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o077 != 0)
}

/// Finds the key for a URL.
pub(crate) fn find(
    credentials: &Credentials,
    profile: &str,
    url: &str,
    order: KeyOrder,
) -> Outcome<Option<Sourced<SecretString>>> {
    let stored = stored(credentials, profile, url);
    match order {
        KeyOrder::Environment => Ok(from_environment()?.or(stored)),
        KeyOrder::Stored if stored.is_some() => Ok(stored),
        KeyOrder::Stored => from_environment(),
        KeyOrder::OnlyStored => Ok(stored),
    }
}

/// Returns the key that is stored for a URL.
fn stored(credentials: &Credentials, profile: &str, url: &str) -> Option<Sourced<SecretString>> {
    let entry = credentials.get(profile)?;
    is_same_url(&entry.url, url).then(|| Sourced {
        value: entry.key.0.clone(),
        source: "chlog auth login".to_owned(),
    })
}

/// Returns the key of the environment.
fn from_environment() -> Outcome<Option<Sourced<SecretString>>> {
    if let Some(key) = variable(KEY_VARIABLE) {
        return Ok(Some(Sourced {
            value: key.into(),
            source: KEY_VARIABLE.to_owned(),
        }));
    }
    if let Some(path) = variable(KEY_FILE_VARIABLE) {
        // A file that is named and cannot be used is a mistake, not a missing key.
        let text = fs::read_to_string(&path).map_err(|error| {
            Failure::usage(format!("{KEY_FILE_VARIABLE}: cannot read {path}: {error}"))
        })?;
        let key = text.trim();
        if key.is_empty() {
            return Err(Failure::usage(format!(
                "{KEY_FILE_VARIABLE}: {path} is empty"
            )));
        }
        return Ok(Some(Sourced {
            value: key.to_owned().into(),
            source: format!("{KEY_FILE_VARIABLE} ({path})"),
        }));
    }
    Ok(None)
}

/// Explains why there is no key and how to set one.
pub(crate) fn missing(
    credentials: &Credentials,
    profile: &str,
    url: &str,
    order: KeyOrder,
) -> Failure {
    let mut failure = Failure::new(
        Exit::NotAuthorized,
        format!("there is no API key for {url}"),
    );
    let name = [KEY_VARIABLE, KEY_FILE_VARIABLE]
        .into_iter()
        .find(|name| variable(name).is_some());
    match name {
        Some(name) if order == KeyOrder::OnlyStored => {
            return failure
                .line(format!(
                    "{name} is not sent to the server of a profile that --profile names"
                ))
                .hint(format!(
                    "store a key with `chlog auth login --profile {profile}`, or name the server \
                     with --url {url}"
                ));
        }
        None if std::env::var(KEY_VARIABLE).is_ok() => {
            failure = failure.line(format!("{KEY_VARIABLE} is set but empty"));
        }
        _ => {}
    }
    if std::env::var_os(KEY_REMOVED_VARIABLE).is_some() {
        return failure.hint(
            "the `chlog run` that started this command has removed the key from the environment; \
             `chlog run --pass-key` keeps it",
        );
    }
    if let Some(entry) = credentials.get(profile) {
        failure = failure.line(format!(
            "the stored key for profile {profile} belongs to {} and is not sent to other servers",
            entry.url
        ));
    }
    failure.hint(format!(
        "set {KEY_VARIABLE} or {KEY_FILE_VARIABLE}, or store a key with `chlog auth login`; \
         keys are created in the dashboard under API keys. A pipeline needs none: give its job \
         an id token (docs/pipelines-without-keys.md)"
    ))
}

/// Returns an environment variable that is not blank: CI systems pass a missing
/// secret as a blank variable.
fn variable(name: &str) -> Option<String> {
    let value = std::env::var(name).ok()?;
    let value = value.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

/// Returns whether two URLs are the same regardless of spelling.
pub(crate) fn is_same_url(one: &str, other: &str) -> bool {
    let plain = |text: &str| {
        url::Url::parse(text.trim())
            .map(|url| url.as_str().trim_end_matches('/').to_owned())
            .ok()
    };
    let one = plain(one);
    one.is_some() && one == plain(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored() -> Credentials {
        let mut credentials = Credentials::default();
        credentials.set(
            "default",
            "https://a.example",
            "chlog_secret".to_owned().into(),
            "Acme",
        );
        credentials
    }

    #[test]
    fn a_key_is_sent_only_to_its_server() {
        for (url, same) in [
            ("https://a.example", true),
            ("https://A.example/", true),
            ("https://a.example:443", true),
            ("https://a.example/prefix", false),
            ("http://a.example", false),
            ("https://evil.example", false),
        ] {
            let entry = stored();
            let entry = entry.get("default").unwrap();
            assert_eq!(is_same_url(&entry.url, url), same, "{url}");
        }
    }

    #[test]
    fn the_file_is_read_back() {
        let mut again: Credentials = toml::from_str(&stored().to_toml()).unwrap();
        let entry = again.get("default").unwrap();
        assert_eq!(entry.key.0.expose_secret(), "chlog_secret");
        assert_eq!(entry.organization, "Acme");
        assert!(again.remove("default"));
        assert!(!again.remove("default"));
    }

    #[test]
    fn debug_does_not_show_the_key() {
        assert!(!format!("{:?}", stored()).contains("chlog_secret"));
    }
}
