//! The files of settings: the user's `config.toml` and the project's
//! `.chlog.toml`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use changelog_core::RiskLevel;
use serde::Deserialize;

use super::defaults::Defaults;
use super::dirs;
use crate::base::failure::{Exit, Failure, Outcome, warn};

/// The name of the project's file.
const PROJECT_FILE: &str = ".chlog.toml";
/// The settings that the project's file may have.
const PROJECT_SETTINGS: [&str; 4] = ["service", "host", "tags", "risk"];

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
}

/// The project's file.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ProjectFile {
    /// The path, for messages.
    #[serde(skip)]
    pub(super) path: String,
    service: Option<String>,
    host: Option<String>,
    tags: Option<Vec<String>>,
    risk: Option<RiskLevel>,
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
                }
            }
        }
    )+};
}

impl_defaults!(UserFile, Profile, ProjectFile);

impl UserFile {
    /// Reads the file; empty if there is none.
    pub(super) fn load() -> Outcome<Self> {
        let Some(path) = dirs::config().map(|directory| directory.join("config.toml")) else {
            return Ok(Self::default());
        };
        let mut file = match read(&path)? {
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
    /// settings that it must not have; empty if there is none.
    pub(super) fn load() -> Outcome<Self> {
        let directory = std::env::current_dir().ok();
        let Some(path) = directory.and_then(|directory| project_file(&directory)) else {
            return Ok(Self::default());
        };
        let text = read(&path)?.unwrap_or_default();
        let (mut file, ignored) = Self::parse(&text).map_err(|why| invalid(&path, &why))?;
        for name in ignored {
            warn(&ignored_setting(&path, &name));
        }
        file.path = path.display().to_string();
        Ok(file)
    }

    /// Parses the file; returns also the names of the settings that it must not
    /// have or that do not exist.
    pub(super) fn parse(text: &str) -> Result<(Self, Vec<String>), String> {
        let explain = |error: toml::de::Error| error.to_string().trim_end().to_owned();
        let mut table: toml::Table = toml::from_str(text).map_err(explain)?;
        let names: Vec<String> = table.keys().cloned().collect();
        let ignored: Vec<String> = names
            .into_iter()
            .filter(|name| !PROJECT_SETTINGS.contains(&name.as_str()))
            .collect();
        for name in &ignored {
            table.remove(name);
        }
        let file: Self = table.try_into().map_err(explain)?;
        if let Some(risk) = &file.risk {
            check_risk(risk)?;
        }
        Ok((file, ignored))
    }
}

/// Reads a file; none if it does not exist.
fn read(path: &Path) -> Outcome<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let path = path.display();
            Err(Failure::new(
                Exit::Usage,
                format!("cannot read {path}: {error}"),
            ))
        }
    }
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

fn ignored_setting(path: &Path, name: &str) -> String {
    let path = path.display();
    let allowed = PROJECT_SETTINGS.join(", ");
    match name {
        "url" | "profile" | "profiles" | "api_key" => format!(
            "{path}: {name} is ignored: a repository must not decide where a key is sent; it may \
             set {allowed}"
        ),
        _ => format!(
            "{path}: {name} is ignored: it is not a setting of this file; it may set {allowed}"
        ),
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
        assert!(
            ProjectFile::parse("risk = \"hihg\"")
                .unwrap_err()
                .contains("high")
        );
        assert!(ProjectFile::parse("service = 1").is_err());
    }

    #[test]
    fn a_project_cannot_redirect_a_key() {
        let text =
            "url = \"https://evil.example\"\napi_key = \"x\"\nprofile = \"p\"\nservice = \"s\"";
        let (project, ignored) = ProjectFile::parse(text).unwrap();
        assert_eq!(ignored, ["api_key", "profile", "url"]);
        assert_eq!(project.defaults().service.as_deref(), Some("s"));
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
