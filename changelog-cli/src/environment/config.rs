//! The settings in force.
//!
//! A flag overrides the environment, the environment the project's file, that
//! file the chosen profile, and the profile the user's file. The project's file
//! comes with a repository that anyone may have written. It can therefore set
//! fields of a change, but not where a change is sent or with which key.
//!
//! A URL and a key belong together: a profile that is chosen by a flag overrides both
//! `CHLOG_URL` and `CHLOG_API_KEY`. See [`KeyOrder`].

use std::collections::BTreeMap;

use super::config_files::{ProjectFile, UserFile};
use super::credentials::{Credentials, KeyOrder, is_same_url};
use super::defaults::{Defaults, TAGS};
use super::sourced::Sourced;
use crate::base::failure::Outcome;

/// The profile when none is named.
pub(crate) const DEFAULT_PROFILE: &str = "default";

/// The connection settings from flags and environment.
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
    /// The server's URL.
    pub(crate) url: Option<Sourced<String>>,
    /// Which keys may be sent to it.
    pub(crate) key_order: KeyOrder,
    /// The profile in use.
    pub(crate) profile: String,
    /// Whether the profile exists in the user's file or has a stored key, or is not needed:
    /// the URL is given, and only the user's file names the profile.
    pub(crate) profile_known: bool,
    /// Whether the user's file names the profile as the default one, and has no settings
    /// of it: it exists by its stored key.
    pub(crate) is_default_by_key: bool,
    /// All profiles by name, with their URLs.
    pub(crate) profiles: BTreeMap<String, Option<String>>,
    pub(crate) defaults: Defaults,
    /// The fields of `defaults` with their sources.
    pub(crate) settings: Vec<Setting>,
}

/// A setting in force, for `chlog doctor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) source: String,
}

impl Config {
    /// Reads the files of this machine and merges all settings.
    pub(crate) fn load(overrides: &Overrides, credentials: &Credentials) -> Outcome<Self> {
        let user = UserFile::load()?;
        let project = ProjectFile::load();
        Ok(merge(overrides, &project, &user, credentials))
    }
}

/// Merges the settings by precedence.
fn merge(
    overrides: &Overrides,
    project: &ProjectFile,
    user: &UserFile,
    credentials: &Credentials,
) -> Config {
    let non_empty = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let profile_flag = non_empty(&overrides.profile_flag);
    let is_chosen = profile_flag.is_some();
    let given = profile_flag.or_else(|| non_empty(&overrides.profile_env));
    let is_given = given.is_some();
    let profile = given
        .or_else(|| user.profile.clone())
        .unwrap_or_else(|| DEFAULT_PROFILE.to_owned());
    let chosen = user.profiles.get(&profile).cloned();
    let stored = credentials.get(&profile).map(|stored| stored.url.clone());
    let is_default = profile == DEFAULT_PROFILE;
    let exists = is_default || chosen.is_some();
    let is_default_by_key = !exists && user.profile.as_deref() == Some(profile.as_str());
    let has_url = non_empty(&overrides.url_flag).or(non_empty(&overrides.url_env));
    let profile_known = exists || stored.is_some() || (!is_given && has_url.is_some());
    let chosen = chosen.unwrap_or_default();
    let from = |value: &Option<String>, source: &str| {
        let source = source.to_owned();
        non_empty(value).map(|value| Sourced { value, source })
    };
    // The URL of a sign-in belongs to its profile. The default profile is the
    // user's file itself, whose URL therefore comes before the sign-in's.
    let of_profile = from(&chosen.url, &format!("profile {profile} in config.toml"))
        .or_else(|| from(&stored, "chlog auth login").filter(|_| !is_default));
    let of_user = from(&user.url, "config.toml").or_else(|| from(&stored, "chlog auth login"));
    let of_environment = from(&overrides.url_env, "CHLOG_URL");
    let of_flag = from(&overrides.url_flag, "--url");
    let of_profile = of_profile.or_else(|| of_user.clone().filter(|_| is_default && is_chosen));
    let (is_of_flag, is_of_profile) = (of_flag.is_some(), of_profile.is_some());
    let url = if is_chosen {
        of_flag.or(of_profile).or(of_environment).or(of_user)
    } else {
        of_flag.or(of_environment).or(of_profile).or(of_user)
    };
    let is_of_environment = |url: &Sourced<String>| {
        overrides
            .url_env
            .as_deref()
            .is_some_and(|of_environment| is_same_url(of_environment, &url.value))
    };
    let key_order = match &url {
        Some(url) if is_of_environment(url) && !is_chosen => KeyOrder::Environment,
        Some(url) if is_of_environment(url) => KeyOrder::Stored,
        _ if is_of_flag && non_empty(&overrides.url_env).is_none() && !is_chosen => {
            KeyOrder::Environment
        }
        _ if is_of_flag => KeyOrder::Stored,
        _ if is_chosen && is_of_profile => KeyOrder::OnlyStored,
        _ => KeyOrder::Environment,
    };
    let by_precedence = [
        (project.path.clone(), project.defaults.clone()),
        (
            format!("profile {profile} in {}", user.path),
            chosen.defaults(),
        ),
        (user.path.clone(), user.defaults()),
    ];
    let mut settings: Vec<Setting> = Vec::new();
    for (source, defaults) in &by_precedence {
        for (name, value) in defaults.named() {
            // Tags of several files are added up.
            let is_set = name != TAGS && settings.iter().any(|setting| setting.name == name);
            if let Some(value) = value.filter(|_| !is_set) {
                settings.push(Setting {
                    name,
                    value,
                    source: source.clone(),
                });
            }
        }
    }
    let defaults = by_precedence
        .into_iter()
        .map(|(_, defaults)| defaults)
        .reduce(Defaults::or)
        .unwrap_or_default();
    Config {
        url,
        key_order,
        profile,
        profile_known,
        is_default_by_key,
        profiles: profiles(user, credentials),
        defaults,
        settings,
    }
}

/// Returns all profiles with their URLs.
fn profiles(user: &UserFile, credentials: &Credentials) -> BTreeMap<String, Option<String>> {
    let mut profiles: BTreeMap<String, Option<String>> = user
        .profiles
        .iter()
        .map(|(name, profile)| (name.clone(), profile.url.clone()))
        .collect();
    if let Some(url) = &user.url {
        profiles.insert(DEFAULT_PROFILE.to_owned(), Some(url.clone()));
    }
    for name in credentials.profiles() {
        let url = profiles.entry(name.to_owned()).or_default();
        let stored = credentials.get(name);
        *url = url
            .take()
            .or_else(|| stored.map(|stored| stored.url.clone()));
    }
    profiles
}

#[cfg(test)]
mod tests {
    use super::*;
    use changelog_core::RiskLevel;

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
        let (project, _) = ProjectFile::parse(project);
        let user = UserFile::parse(user).unwrap();
        merge(overrides, &project, &user, &Credentials::default())
    }

    fn url_of(url: Option<Sourced<String>>) -> String {
        url.map(|url| url.value).unwrap_or_default()
    }

    fn url(config: &Config) -> &str {
        config.url.as_ref().map_or("", |url| &url.value)
    }

    #[test]
    fn flags_override_the_environment_and_that_the_files() {
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
    fn a_profile_of_the_command_line_overrides_the_environment() {
        let user = USER.to_owned() + "\n[profiles.bare]\nservice = \"s\"";
        let merged = |url: Option<&str>, profile: Option<&str>, environment: Option<&str>| {
            let text = |text: Option<&str>| text.map(str::to_owned);
            let overrides = Overrides {
                url_flag: text(url),
                url_env: text(environment),
                profile_flag: text(profile),
                profile_env: None,
            };
            let merged = config(&overrides, "", &user);
            (url_of(merged.url), merged.key_order)
        };
        let (prod, env) = ("https://prod.example", "https://env.example");
        let (flag, users) = ("https://flag.example", "https://user.example");
        for (url, profile, environment, expected) in [
            (None, None, Some(env), (env, KeyOrder::Environment)),
            (None, None, None, (users, KeyOrder::Environment)),
            (None, Some("prod"), Some(env), (prod, KeyOrder::OnlyStored)),
            (None, Some("prod"), None, (prod, KeyOrder::OnlyStored)),
            (None, Some("prod"), Some(prod), (prod, KeyOrder::Stored)),
            (
                None,
                Some("default"),
                Some(env),
                (users, KeyOrder::OnlyStored),
            ),
            (None, Some("bare"), Some(env), (env, KeyOrder::Stored)),
            (None, Some("bare"), None, (users, KeyOrder::Environment)),
            (Some(flag), None, None, (flag, KeyOrder::Environment)),
            (Some(flag), None, Some(flag), (flag, KeyOrder::Environment)),
            (Some(flag), None, Some(env), (flag, KeyOrder::Stored)),
            (Some(flag), Some("prod"), None, (flag, KeyOrder::Stored)),
        ] {
            let (address, order) = merged(url, profile, environment);
            assert_eq!(
                (address.as_str(), order),
                expected,
                "{url:?} {profile:?} {environment:?}"
            );
        }
    }

    #[test]
    fn the_users_file_names_the_usual_profile() {
        let user = format!("profile = \"prod\"\n{USER}");
        let config = config(&Overrides::default(), "", &user);
        assert_eq!(config.profile, "prod");
        assert_eq!(url(&config), "https://prod.example");
    }

    #[test]
    fn a_sign_in_sets_the_url_of_its_profile() {
        let mut credentials = Credentials::default();
        let key = || "k".to_owned().into();
        credentials.set("staging", "https://staging.example", key(), "Acme");
        credentials.set(DEFAULT_PROFILE, "https://stored.example", key(), "Acme");
        let url = |profile: Option<&str>, user: &str| {
            let overrides = Overrides {
                profile_flag: profile.map(str::to_owned),
                ..Overrides::default()
            };
            let user = UserFile::parse(user).unwrap();
            let config = merge(&overrides, &ProjectFile::default(), &user, &credentials);
            url_of(config.url)
        };
        assert_eq!(url(Some("staging"), USER), "https://staging.example");
        assert_eq!(url(Some("prod"), USER), "https://prod.example");
        assert_eq!(url(None, ""), "https://stored.example");
        assert_eq!(url(None, USER), "https://user.example");
    }

    #[test]
    fn the_project_overrides_the_profile_and_that_the_users_file() {
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
                create_missing: None,
            }
        );
    }

    #[test]
    fn tags_of_all_files_are_added_up() {
        let overrides = Overrides {
            profile_flag: Some("prod".to_owned()),
            ..Overrides::default()
        };
        let user = "tags = [\"a\", \"team=users\"]\ncreate_missing = true\n[profiles.prod]\n\
                    tags = [\"deployed\", \"stage=prod\"]";
        let project = "tags = [\"deploy\", \"a\", \"team=shop\"]";
        let config = config(&overrides, project, user);
        let expected = ["deploy", "a", "team=shop", "deployed", "stage=prod"];
        assert_eq!(config.defaults.tags.unwrap(), expected);
        assert_eq!(config.defaults.create_missing, Some(true));
        let sources = config
            .settings
            .iter()
            .filter(|setting| setting.name == TAGS);
        assert_eq!(sources.count(), 3);
    }

    #[test]
    fn a_project_sets_neither_url_nor_profile() {
        let text = "url = \"https://evil.example\"\nprofile = \"p\"\nservice = \"s\"";
        let config = config(&Overrides::default(), text, "");
        assert_eq!(config.url, None);
        assert_eq!(config.profile, DEFAULT_PROFILE);
        assert_eq!(config.defaults.service.as_deref(), Some("s"));
    }
}
