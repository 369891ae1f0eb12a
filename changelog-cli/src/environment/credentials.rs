//! Keys: the environment's, and those that `chlog auth login` stored.
//!
//! They live in a file of their own, readable by nobody else from the moment
//! it exists. Each is stored with the address that it was made for and is sent
//! nowhere else, whatever `--url` says.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use crate::base::failure::{Exit, Failure, Outcome, warn};
use crate::base::private_fs;
use crate::environment::config::{Sourced, directory};

/// The variable with the key in it.
pub(crate) const KEY_VARIABLE: &str = "CHLOG_API_KEY";
/// The variable that names a file with the key in it.
pub(crate) const KEY_FILE_VARIABLE: &str = "CHLOG_API_KEY_FILE";

/// A key that was stored, and where it may be sent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    pub(crate) url: String,
    pub(crate) key: Key,
}

/// A key as it stands in the file.
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
pub(crate) struct Credentials(BTreeMap<String, Entry>);

impl Credentials {
    /// Reads the file of this machine, if there is one.
    pub(crate) fn load() -> Outcome<Self> {
        let Some(path) = path() else {
            return Ok(Self::default());
        };
        let shown = path.display();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => {
                return Err(Failure::usage(format!("cannot read {shown}: {error}")));
            }
        };
        if is_open(&path) {
            warn(&format!(
                "{shown} can be read by others; close it with `chmod 600 {shown}`"
            ));
        }
        // The parser's own message would quote the line, and with it the key.
        toml::from_str(&text).map_err(|_| {
            Failure::usage(format!("{shown} is damaged"))
                .hint("remove it and store the key again with `chlog auth login`")
        })
    }

    pub(crate) fn get(&self, profile: &str) -> Option<&Entry> {
        self.0.get(profile)
    }

    pub(crate) fn set(&mut self, profile: &str, url: &str, key: SecretString) {
        let entry = Entry {
            url: url.to_owned(),
            key: Key(key),
        };
        self.0.insert(profile.to_owned(), entry);
    }

    /// Forgets a key; tells whether there was one.
    pub(crate) fn remove(&mut self, profile: &str) -> bool {
        self.0.remove(profile).is_some()
    }

    pub(crate) fn profiles(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Writes the file of this machine, and returns where it is.
    pub(crate) fn save(&self) -> Outcome<PathBuf> {
        let path = path().ok_or_else(|| {
            Failure::new(Exit::Other, "there is no home directory to store the key in").hint(
                "set HOME or XDG_CONFIG_HOME, or give the key by CHLOG_API_KEY or CHLOG_API_KEY_FILE",
            )
        })?;
        self.write_to(&path).map_err(|error| {
            Failure::new(
                Exit::Other,
                format!("cannot write {}: {error}", path.display()),
            )
        })?;
        Ok(path)
    }

    fn write_to(&self, path: &Path) -> io::Result<()> {
        private_fs::write_private(path, self.to_toml().as_bytes(), |_| Ok(()))?;
        Ok(())
    }

    fn to_toml(&self) -> String {
        let table: toml::Table = self
            .0
            .iter()
            .map(|(profile, entry)| {
                let fields = toml::Table::from_iter([
                    ("url".to_owned(), entry.url.clone().into()),
                    ("key".to_owned(), entry.key.0.expose_secret().into()),
                ]);
                (profile.clone(), fields.into())
            })
            .collect();
        table.to_string()
    }
}

/// Returns where the keys are stored, if this machine has a home.
fn path() -> Option<PathBuf> {
    Some(directory()?.join("credentials.toml"))
}

/// Tells whether others than the owner can read a file.
#[cfg(unix)]
fn is_open(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn is_open(_path: &Path) -> bool {
    false
}

/// Finds the key to use: the environment's, or the stored one if it was made
/// for this address.
pub(crate) fn find(
    credentials: &Credentials,
    profile: &str,
    url: &str,
) -> Outcome<Option<Sourced<SecretString>>> {
    if let Some(key) = variable(KEY_VARIABLE) {
        return Ok(Some(Sourced {
            value: key.into(),
            source: KEY_VARIABLE.to_owned(),
        }));
    }
    if let Some(path) = variable(KEY_FILE_VARIABLE) {
        // Named and not usable is a mistake, not the absence of a key.
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
    let stored = credentials
        .get(profile)
        .filter(|entry| is_same_address(&entry.url, url));
    Ok(stored.map(|entry| Sourced {
        value: entry.key.0.clone(),
        source: "chlog auth login".to_owned(),
    }))
}

/// Says that there is no key, why, and how to give one.
pub(crate) fn missing(credentials: &Credentials, profile: &str, url: &str) -> Failure {
    let mut failure = Failure::new(
        Exit::NotAuthorized,
        format!("there is no API key for {url}"),
    );
    if std::env::var(KEY_VARIABLE).is_ok() {
        failure = failure.line(format!("{KEY_VARIABLE} is set, and empty"));
    }
    if let Some(entry) = credentials.get(profile) {
        failure = failure.line(format!(
            "the stored key of profile {profile} is for {}, and is not sent elsewhere",
            entry.url
        ));
    }
    failure.hint(format!(
        "set {KEY_VARIABLE} or {KEY_FILE_VARIABLE}, or store a key with `chlog auth login`; \
         keys are made in the dashboard under API keys"
    ))
}

/// Returns an environment variable that says something; a key of only white
/// space says nothing, as CI systems pass a secret that is not there.
fn variable(name: &str) -> Option<String> {
    let value = std::env::var(name).ok()?;
    let value = value.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

/// Tells whether two addresses are the same but for their spelling.
pub(crate) fn is_same_address(one: &str, other: &str) -> bool {
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
        );
        credentials
    }

    #[test]
    fn a_key_is_sent_only_where_it_was_made_for() {
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
            assert_eq!(is_same_address(&entry.url, url), same, "{url}");
        }
    }

    #[test]
    fn the_file_is_private_and_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("chlog/credentials.toml");
        stored().write_to(&path).unwrap();
        let mut again: Credentials = toml::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let entry = again.get("default").unwrap();
        assert_eq!(entry.key.0.expose_secret(), "chlog_secret");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&path), 0o600);
            assert_eq!(mode(path.parent().unwrap()), 0o700);
        }
        assert!(again.remove("default"));
        assert!(!again.remove("default"));
    }

    #[test]
    fn debug_does_not_show_the_key() {
        assert!(!format!("{:?}", stored()).contains("chlog_secret"));
    }
}
