//! Settings: where they come from, and which of them wins.
//!
//! A flag beats the environment, the environment beats the project's file,
//! that beats the chosen profile, and that the user's file. The project's file
//! comes with a repository that anybody may have written, so it can say what a
//! change is about and never where it goes or with which key.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use serde::Deserialize;

use changelog_core::RiskLevel;

use crate::base::failure::{Exit, Failure, Outcome, warn};
use crate::environment::credentials::Credentials;

/// The name of the project's file.
const PROJECT_FILE: &str = ".chlog.toml";
/// What the project's file may set.
const PROJECT_FIELDS: [&str; 4] = ["service", "host", "tags", "risk"];
/// The profile when none is named.
pub(crate) const DEFAULT_PROFILE: &str = "default";

/// What a change is about when `log` does not say it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Defaults {
    pub(crate) service: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) tags: Option<Vec<String>>,
    pub(crate) risk: Option<RiskLevel>,
}

impl Defaults {
    /// Returns what is set, as it is shown.
    fn shown(&self) -> [(&'static str, Option<String>); 4] {
        [
            ("default service", self.service.clone()),
            ("default host", self.host.clone()),
            (
                "default tags",
                self.tags.as_ref().map(|tags| tags.join(", ")),
            ),
            ("default risk", self.risk.as_ref().map(ToString::to_string)),
        ]
    }

    /// Fills what is not set from a source of lower rank.
    fn or(self, lower: Self) -> Self {
        Self {
            service: self.service.or(lower.service),
            host: self.host.or(lower.host),
            tags: self.tags.or(lower.tags),
            risk: self.risk.or(lower.risk),
        }
    }
}

/// A setting together with where it was found, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sourced<T> {
    pub(crate) value: T,
    pub(crate) source: String,
}

/// What flags and environment say about the connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrides {
    pub(crate) url_flag: Option<String>,
    pub(crate) url_env: Option<String>,
    pub(crate) profile_flag: Option<String>,
    pub(crate) profile_env: Option<String>,
}

/// The settings in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    /// Where the service is.
    pub(crate) url: Option<Sourced<String>>,
    /// The profile in use.
    pub(crate) profile: String,
    /// Whether the user's file has something under that name.
    pub(crate) profile_known: bool,
    pub(crate) defaults: Defaults,
    /// What `defaults` has, and where each of it is from.
    pub(crate) settings: Vec<Setting>,
}

/// A setting that is in force, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) source: String,
}

/// The user's file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct UserFile {
    /// The profile when neither flag nor environment names one.
    profile: Option<String>,
    url: Option<String>,
    service: Option<String>,
    host: Option<String>,
    tags: Option<Vec<String>>,
    risk: Option<RiskLevel>,
    /// Where it is, for messages.
    #[serde(skip)]
    path: String,
    #[serde(default)]
    profiles: std::collections::BTreeMap<String, Profile>,
}

/// A profile in the user's file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Profile {
    url: Option<String>,
    service: Option<String>,
    host: Option<String>,
    tags: Option<Vec<String>>,
    risk: Option<RiskLevel>,
}

/// The project's file.
#[derive(Debug, Default, Deserialize)]
struct ProjectFile {
    /// Where it is, for messages.
    #[serde(skip)]
    path: String,
    service: Option<String>,
    host: Option<String>,
    tags: Option<Vec<String>>,
    risk: Option<RiskLevel>,
}

impl Config {
    /// Reads the files of this machine and puts the settings together.
    pub(crate) fn load(overrides: &Overrides, credentials: &Credentials) -> Outcome<Self> {
        let user_path = directory().map(|directory| directory.join("config.toml"));
        let mut user = match &user_path {
            Some(path) => match read(path)? {
                Some(text) => parse_user_file(&text).map_err(|why| broken(path, &why))?,
                None => UserFile::default(),
            },
            None => UserFile::default(),
        };
        user.path = user_path.map_or_else(String::new, |path| path.display().to_string());
        let project = match std::env::current_dir()
            .ok()
            .and_then(|at| project_file(&at))
        {
            Some(path) => {
                let text = read(&path)?.unwrap_or_default();
                let (mut project, ignored) =
                    parse_project_file(&text).map_err(|why| broken(&path, &why))?;
                for name in ignored {
                    warn(&ignored_setting(&path, &name));
                }
                project.path = path.display().to_string();
                project
            }
            None => ProjectFile::default(),
        };
        Ok(resolve(overrides, project, user, credentials))
    }
}

/// Returns the directory of `chlog`'s own files, if this machine has a home.
pub(crate) fn directory() -> Option<PathBuf> {
    let strategy = etcetera::choose_base_strategy().ok()?;
    Some(strategy.config_dir().join("chlog"))
}

/// Reads a file that need not exist.
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

fn broken(path: &Path, why: &str) -> Failure {
    Failure::usage(format!("{}: {why}", path.display()))
}

fn parse_user_file(text: &str) -> Result<UserFile, String> {
    let file: UserFile = toml::from_str(text).map_err(|error| {
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

/// Reads the project's file, and names what it must not set or does not know.
fn parse_project_file(text: &str) -> Result<(ProjectFile, Vec<String>), String> {
    let explain = |error: toml::de::Error| error.to_string().trim_end().to_owned();
    let mut table: toml::Table = toml::from_str(text).map_err(explain)?;
    let names: Vec<String> = table.keys().cloned().collect();
    let ignored: Vec<String> = names
        .into_iter()
        .filter(|name| !PROJECT_FIELDS.contains(&name.as_str()))
        .collect();
    for name in &ignored {
        table.remove(name);
    }
    let file: ProjectFile = table.try_into().map_err(explain)?;
    if let Some(risk) = &file.risk {
        check_risk(risk)?;
    }
    Ok((file, ignored))
}

/// Decoding takes any word; a setting must be one that the service takes.
fn check_risk(risk: &RiskLevel) -> Result<(), String> {
    match risk.as_str().parse::<RiskLevel>() {
        Ok(_) => Ok(()),
        Err(bad) => Err(format!("risk {bad}")),
    }
}

fn ignored_setting(path: &Path, name: &str) -> String {
    let path = path.display();
    match name {
        "url" | "profile" | "profiles" | "api_key" => format!(
            "{path}: {name} is ignored: a repository must not decide where a key is sent; \
             it may set {}",
            PROJECT_FIELDS.join(", ")
        ),
        _ => format!(
            "{path}: {name} is ignored: it is not a setting here; this file may set {}",
            PROJECT_FIELDS.join(", ")
        ),
    }
}

/// Finds the project's file: here or upwards to the repository's root. Outside
/// of a repository only here, or else any directory above could speak for this
/// one.
fn project_file(here: &Path) -> Option<PathBuf> {
    let root = here.ancestors().find(|at| at.join(".git").exists());
    let root = root.unwrap_or(here);
    here.ancestors()
        .take_while(|at| at.starts_with(root))
        .map(|at| at.join(PROJECT_FILE))
        .find(|path| path.is_file())
}

/// Puts the settings together by rank.
fn resolve(
    overrides: &Overrides,
    project: ProjectFile,
    user: UserFile,
    credentials: &Credentials,
) -> Config {
    let name = |given: &Option<String>| given.clone().filter(|text| !text.is_empty());
    let profile = name(&overrides.profile_flag)
        .or_else(|| name(&overrides.profile_env))
        .or(user.profile)
        .unwrap_or_else(|| DEFAULT_PROFILE.to_owned());
    let chosen = user.profiles.get(&profile).cloned();
    let stored = credentials.get(&profile).map(|entry| entry.url.clone());
    let is_default = profile == DEFAULT_PROFILE;
    let profile_known = is_default || chosen.is_some() || stored.is_some();
    let chosen = chosen.unwrap_or_default();
    let from = |value: &Option<String>, source: &str| {
        let value = value.clone().filter(|text| !text.is_empty())?;
        let source = source.to_owned();
        Some(Sourced { value, source })
    };
    // What a sign-in left behind belongs to its profile. For the default one
    // that is the user's file itself, and what is written there counts first.
    let url = from(&overrides.url_flag, "--url")
        .or_else(|| from(&overrides.url_env, "CHLOG_URL"))
        .or_else(|| from(&chosen.url, &format!("profile {profile} in config.toml")))
        .or_else(|| from(&stored, "chlog auth login").filter(|_| !is_default))
        .or_else(|| from(&user.url, "config.toml"))
        .or_else(|| from(&stored, "chlog auth login"));
    let of_profile = format!("profile {profile} in {}", user.path);
    let ranks = [
        (
            project.path,
            Defaults {
                service: project.service,
                host: project.host,
                tags: project.tags,
                risk: project.risk,
            },
        ),
        (
            of_profile,
            Defaults {
                service: chosen.service,
                host: chosen.host,
                tags: chosen.tags,
                risk: chosen.risk,
            },
        ),
        (
            user.path,
            Defaults {
                service: user.service,
                host: user.host,
                tags: user.tags,
                risk: user.risk,
            },
        ),
    ];
    let mut settings: Vec<Setting> = Vec::new();
    for (source, defaults) in &ranks {
        for (name, value) in defaults.shown() {
            let is_set = settings.iter().any(|setting| setting.name == name);
            if let Some(value) = value.filter(|_| !is_set) {
                let source = source.clone();
                settings.push(Setting {
                    name,
                    value,
                    source,
                });
            }
        }
    }
    let ranks = ranks.into_iter().map(|(_, defaults)| defaults);
    let defaults = ranks.reduce(Defaults::or).unwrap_or_default();
    Config {
        url,
        profile,
        profile_known,
        defaults,
        settings,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: &str = r#"
        url = "https://user.example"
        service = "user-service"
        host = "user-host"
        risk = "low"
        [profiles.prod]
        url = "https://prod.example"
        service = "prod-service"
    "#;

    fn config(overrides: &Overrides, project: &str, user: &str) -> Config {
        let (project, _) = parse_project_file(project).unwrap();
        let user = parse_user_file(user).unwrap();
        resolve(overrides, project, user, &Credentials::default())
    }

    fn url(config: &Config) -> &str {
        config.url.as_ref().map_or("", |url| &url.value)
    }

    #[test]
    fn a_flag_beats_the_environment_and_that_the_files() {
        let mut overrides = Overrides::default();
        assert_eq!(url(&config(&overrides, "", USER)), "https://user.example");
        overrides.profile_env = Some("prod".to_owned());
        assert_eq!(url(&config(&overrides, "", USER)), "https://prod.example");
        overrides.url_env = Some("https://env.example".to_owned());
        assert_eq!(url(&config(&overrides, "", USER)), "https://env.example");
        overrides.url_flag = Some("https://flag.example".to_owned());
        assert_eq!(url(&config(&overrides, "", USER)), "https://flag.example");
        overrides.profile_flag = Some("other".to_owned());
        let config = config(&overrides, "", USER);
        assert_eq!(
            (config.profile.as_str(), config.profile_known),
            ("other", false)
        );
    }

    #[test]
    fn the_users_file_names_the_usual_profile() {
        let user = format!("profile = \"prod\"\n{USER}");
        let config = config(&Overrides::default(), "", &user);
        assert_eq!(config.profile, "prod");
        assert_eq!(url(&config), "https://prod.example");
    }

    #[test]
    fn a_sign_in_names_the_address_of_its_profile() {
        let mut credentials = Credentials::default();
        let key = || "k".to_owned().into();
        credentials.set("staging", "https://staging.example", key());
        credentials.set(DEFAULT_PROFILE, "https://stored.example", key());
        let url = |profile: Option<&str>, user: &str| {
            let overrides = Overrides {
                profile_flag: profile.map(str::to_owned),
                ..Overrides::default()
            };
            let user = parse_user_file(user).unwrap();
            let config = resolve(&overrides, ProjectFile::default(), user, &credentials);
            config.url.map(|url| url.value).unwrap_or_default()
        };
        assert_eq!(url(Some("staging"), USER), "https://staging.example");
        assert_eq!(url(Some("prod"), USER), "https://prod.example");
        assert_eq!(url(None, ""), "https://stored.example");
        assert_eq!(url(None, USER), "https://user.example");
    }

    #[test]
    fn the_project_beats_the_profile_and_that_the_users_file() {
        let overrides = Overrides {
            profile_flag: Some("prod".to_owned()),
            ..Overrides::default()
        };
        let config = config(&overrides, "tags = [\"a\"]\nrisk = \"high\"", USER);
        assert_eq!(
            config.defaults,
            Defaults {
                service: Some("prod-service".to_owned()),
                host: Some("user-host".to_owned()),
                tags: Some(vec!["a".to_owned()]),
                risk: Some(RiskLevel::High),
            }
        );
    }

    #[test]
    fn a_project_cannot_redirect_a_key() {
        let text =
            "url = \"https://evil.example\"\napi_key = \"x\"\nprofile = \"p\"\nservice = \"s\"";
        let (project, ignored) = parse_project_file(text).unwrap();
        assert_eq!(ignored, ["api_key", "profile", "url"]);
        let config = resolve(
            &Overrides::default(),
            project,
            UserFile::default(),
            &Credentials::default(),
        );
        assert_eq!(config.url, None);
        assert_eq!(config.profile, DEFAULT_PROFILE);
        assert_eq!(config.defaults.service.as_deref(), Some("s"));
    }

    #[test]
    fn files_that_are_wrong_say_so() {
        assert!(parse_user_file("ulr = \"x\"").unwrap_err().contains("ulr"));
        assert!(
            parse_user_file("api_key = \"x\"")
                .unwrap_err()
                .contains("auth login")
        );
        assert!(
            parse_user_file("risk = \"hihg\"")
                .unwrap_err()
                .contains("high")
        );
        assert!(
            parse_project_file("risk = \"hihg\"")
                .unwrap_err()
                .contains("high")
        );
        assert!(parse_project_file("service = 1").is_err());
    }

    #[test]
    fn the_projects_file_is_sought_up_to_the_repositorys_root() {
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
