//! The files of settings: the user's `config.toml` and the project's
//! `.chlog.toml`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use changelog_core::RiskLevel;
use serde::Deserialize;
use toml_edit::{DocumentMut, value};

use super::defaults::Defaults;
use super::dirs;
use crate::base::failure::{Exit, Failure, Outcome, warn};
use crate::base::private_fs;

/// The name of the project's file.
const PROJECT_FILE: &str = ".chlog.toml";
/// The settings that the project's file may have.
const PROJECT_SETTINGS: &str = "service, host, tags and risk";

/// The user's file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UserFile {
    /// The profile when neither flag nor environment names one.
    pub(super) profile: Option<String>,
    pub(super) url: Option<String>,
    service: Option<String>,
    host: Option<String>,
    tags: Option<Vec<String>>,
    risk: Option<RiskLevel>,
    create_missing: Option<bool>,
    /// The path, for messages.
    #[serde(skip)]
    pub(super) path: String,
    #[serde(default)]
    pub(super) profiles: BTreeMap<String, Profile>,
}

/// A profile in the user's file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Profile {
    pub(super) url: Option<String>,
    service: Option<String>,
    host: Option<String>,
    tags: Option<Vec<String>>,
    risk: Option<RiskLevel>,
    create_missing: Option<bool>,
}

/// The project's file. It never fails a command: a repository must not be able to turn
/// recording off. What is wrong in it is ignored with a warning.
#[derive(Debug, Default)]
pub(super) struct ProjectFile {
    /// The path, for messages.
    pub(super) path: String,
    pub(super) defaults: Defaults,
}

macro_rules! impl_defaults {
    ($($file:ty),+) => {$(
        impl $file {
            pub(super) fn defaults(&self) -> Defaults {
                Defaults {
                    service: self.service.clone(),
                    host: self.host.clone(),
                    tags: self.tags.clone(),
                    risk: self.risk.clone(),
                    create_missing: self.create_missing,
                }
            }
        }
    )+};
}

impl_defaults!(UserFile, Profile);

impl UserFile {
    /// Reads the file; empty if there is none.
    pub(super) fn load() -> Outcome<Self> {
        let Some(path) = dirs::config().map(|directory| directory.join("config.toml")) else {
            return Ok(Self::default());
        };
        let mut file = match private_fs::read(&path)? {
            Some(text) => Self::parse(&text).map_err(|why| invalid(&path, &why))?,
            None => Self::default(),
        };
        file.path = path.display().to_string();
        Ok(file)
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let file: Self = toml::from_str(text).map_err(|error| {
            if error.message().contains("unknown field `api_key`") {
                return "a key does not belong in this file; store it with `chlog auth login`"
                    .to_owned();
            }
            error.to_string().trim_end().to_owned()
        })?;
        let profiles = file.profiles.values().map(|profile| &profile.risk);
        for risk in profiles.chain([&file.risk]).flatten() {
            check_risk(risk)?;
        }
        Ok(file)
    }
}

impl ProjectFile {
    /// Reads the file of the project in the current directory, and warns of
    /// what is wrong in it; empty if there is none.
    pub(super) fn load() -> Self {
        let directory = std::env::current_dir().ok();
        let Some(path) = directory.and_then(|directory| project_file(&directory)) else {
            return Self::default();
        };
        let shown = path.display().to_string();
        let (mut file, warnings) = match fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text),
            Err(error) => (Self::default(), vec![format!("cannot be read: {error}")]),
        };
        for warning in warnings {
            warn(&format!("{shown}: {warning}"));
        }
        file.path = shown;
        file
    }

    /// Parses the file; returns also what is wrong in it.
    pub(super) fn parse(text: &str) -> (Self, Vec<String>) {
        let mut file = Self::default();
        let table: toml::Table = match toml::from_str(text) {
            Ok(table) => table,
            Err(error) => {
                let why = error.to_string().trim_end().to_owned();
                return (file, vec![format!("the file is ignored: {why}")]);
            }
        };
        let mut warnings = Vec::new();
        for (name, value) in table {
            if let Err(why) = file.set(&name, value) {
                warnings.push(format!("{name} is ignored: {why}"));
            }
        }
        (file, warnings)
    }

    fn set(&mut self, name: &str, value: toml::Value) -> Result<(), String> {
        fn read<T: serde::de::DeserializeOwned>(value: toml::Value) -> Result<Option<T>, String> {
            let value = value.try_into().map_err(|error: toml::de::Error| {
                let message = error.message();
                message.trim_end().to_owned()
            });
            value.map(Some)
        }
        let defaults = &mut self.defaults;
        match name {
            "service" => defaults.service = read(value)?,
            "host" => defaults.host = read(value)?,
            "tags" => defaults.tags = read(value)?,
            "risk" => {
                let risk = read(value)?;
                risk.as_ref().map_or(Ok(()), check_risk)?;
                defaults.risk = risk;
            }
            "url" | "profile" | "profiles" | "api_key" => {
                return Err(format!(
                    "a repository must not decide where a key is sent; it may set {PROJECT_SETTINGS}"
                ));
            }
            _ => {
                return Err(format!(
                    "it is not a setting of this file; it may set {PROJECT_SETTINGS}"
                ));
            }
        }
        Ok(())
    }
}

/// Sets the profile that is used when neither flag nor environment names one, and
/// returns the path of the file. The rest of the file, also its comments, stays.
pub(crate) fn set_profile(name: &str) -> Outcome<PathBuf> {
    let path = dirs::config().map(|directory| directory.join("config.toml"));
    let path = path.ok_or_else(|| {
        Failure::new(Exit::Other, "there is no home directory for config.toml")
            .hint("set HOME or XDG_CONFIG_HOME")
    })?;
    let text = private_fs::read(&path)?.unwrap_or_default();
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error| invalid(&path, &format!("{error}")))?;
    document["profile"] = value(name);
    private_fs::write(&path, document.to_string().as_bytes())
        .map_err(|error| Failure::unwritable(&path, &error))?;
    Ok(path)
}

fn invalid(path: &Path, why: &str) -> Failure {
    Failure::usage(format!("{}: {why}", path.display()))
}

/// Checks that the server knows a risk level: decoding accepts any word.
fn check_risk(risk: &RiskLevel) -> Result<(), String> {
    match risk.as_str().parse::<RiskLevel>() {
        Ok(_) => Ok(()),
        Err(invalid) => Err(format!("risk {invalid}")),
    }
}

/// Finds the project's file in a directory or its parents up to the
/// repository's root. Outside of a repository only the directory itself counts;
/// otherwise any parent directory could set fields.
fn project_file(directory: &Path) -> Option<PathBuf> {
    let root = directory.ancestors().find(|at| at.join(".git").exists());
    let root = root.unwrap_or(directory);
    directory
        .ancestors()
        .take_while(|at| at.starts_with(root))
        .map(|at| at.join(PROJECT_FILE))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_files_are_explained() {
        let user = |text| UserFile::parse(text).unwrap_err();
        assert!(user("ulr = \"x\"").contains("ulr"));
        assert!(user("api_key = \"x\"").contains("auth login"));
        assert!(user("risk = \"hihg\"").contains("high"));
    }

    #[test]
    fn what_is_wrong_in_a_project_is_ignored_with_a_warning() {
        let text = "service = 1\nhost = \"h\"\ntags = \"a\"\nrisk = \"hihg\"\ncolor = \"red\"";
        let (project, warnings) = ProjectFile::parse(text);
        let expected = Defaults {
            host: Some("h".to_owned()),
            ..Defaults::default()
        };
        assert_eq!(project.defaults, expected);
        for name in ["service", "tags", "risk", "color"] {
            let start = format!("{name} is ignored: ");
            assert!(
                warnings.iter().any(|warning| warning.starts_with(&start)),
                "{name}: {warnings:?}"
            );
        }
        assert_eq!(warnings.len(), 4);
        let (project, warnings) = ProjectFile::parse("service = \"s\"\nhost = [");
        assert_eq!(project.defaults, Defaults::default());
        assert_eq!(warnings.len(), 1);
    }

    #[test]
    fn a_project_cannot_redirect_a_key() {
        let text =
            "url = \"https://evil.example\"\napi_key = \"x\"\nprofile = \"p\"\nservice = \"s\"";
        let (project, warnings) = ProjectFile::parse(text);
        for name in ["api_key", "profile", "url"] {
            let start = format!("{name} is ignored: a repository must not decide");
            assert!(
                warnings.iter().any(|warning| warning.starts_with(&start)),
                "{name}: {warnings:?}"
            );
        }
        assert_eq!(project.defaults.service.as_deref(), Some("s"));
    }

    #[test]
    fn the_projects_file_is_found_up_to_the_repositorys_root() {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("repository");
        let deep = root.join("a/b");
        fs::create_dir_all(&deep).unwrap();
        fs::write(outside.path().join(PROJECT_FILE), "").unwrap();
        // No repository: only the directory itself counts.
        assert_eq!(project_file(&deep), None);
        fs::create_dir(root.join(".git")).unwrap();
        assert_eq!(project_file(&deep), None);
        fs::write(root.join(PROJECT_FILE), "").unwrap();
        assert_eq!(project_file(&deep), Some(root.join(PROJECT_FILE)));
        fs::write(deep.join(PROJECT_FILE), "").unwrap();
        assert_eq!(project_file(&deep), Some(deep.join(PROJECT_FILE)));
    }
}
