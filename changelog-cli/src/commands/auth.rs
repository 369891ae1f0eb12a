//! `chlog auth`: stores, checks and removes the API key.

use std::io::{self, IsTerminal, Read};

use changelog_client::{Error, ErrorKind, KeyInfo};
use changelog_core::api_key::{is_well_formed, mask};
use clap::{Args, Subcommand};
use inquire::{Password, PasswordDisplayMode, Select, Text};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;

use crate::base::failure::{Exit, Failure, Outcome, note, warn};
use crate::base::prompting::is_interactive;
use crate::base::text::one_line;
use crate::environment::app::{App, no_url, unknown_profile};
use crate::environment::config::DEFAULT_PROFILE;
use crate::environment::config_files::set_profile;
use crate::environment::credentials::{Credential, StoredKey};
use crate::environment::sourced::Sourced;
use crate::input::message::prompts::prompt_failure;
use crate::output::fitted::{Cell, Kind};
use crate::output::format::Format;
use crate::output::record::{Column, Record};

/// The most that is read as a key, in bytes; a key has 44.
const MAX_KEY: u64 = 4096;

#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Check an API key and store it
    Login(LoginArgs),
    /// Show which server and key are used, for which organization, and whether the
    /// server accepts the key
    Status,
    /// List the profiles: servers and stored keys
    #[command(visible_alias = "ls")]
    List,
    /// Choose the profile that is used by default
    Switch(SwitchArgs),
    /// Remove the stored key
    Logout,
}

/// Stores a key.
#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// Read the key from standard input instead of prompting
    #[arg(long)]
    with_token: bool,
}

/// Chooses a profile.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  chlog auth switch staging
  chlog --profile prod list    # another profile for one command")]
pub(crate) struct SwitchArgs {
    /// Profile; without it, on a terminal, a choice
    #[arg(value_name = "PROFILE")]
    name: Option<String>,
}

/// Runs the subcommand.
pub(crate) async fn run(app: App, command: AuthCommand) -> Outcome {
    match command {
        AuthCommand::Login(args) => login(app, &args).await,
        AuthCommand::Status => status(app).await,
        AuthCommand::List => list(app),
        AuthCommand::Switch(args) => switch(&app, args),
        AuthCommand::Logout => logout(app),
    }
}

async fn login(mut app: App, args: &LoginArgs) -> Outcome {
    if !args.with_token && !is_interactive() {
        return Err(
            Failure::usage("there is no terminal to prompt for the key on")
                .hint("pass the key on standard input: chlog auth login --with-token < FILE"),
        );
    }
    let url = match &app.config.url {
        Some(url) => url.value.clone(),
        None if args.with_token => return Err(no_url(&app.config)),
        None => Text::new("URL of the server:")
            .with_placeholder("https://changes.example.com")
            .prompt()
            .map_err(prompt_failure)?,
    };
    // An invalid URL fails before the key is typed.
    app.client_for(&url, None)?;
    let key = if args.with_token {
        read_key()?
    } else {
        Password::new(&format!("API key for {url}:"))
            .with_display_mode(PasswordDisplayMode::Hidden)
            .without_confirmation()
            .prompt()
            .map_err(prompt_failure)?
    };
    let key = key.trim();
    if key.is_empty() {
        return Err(Failure::usage("no key was given")
            .hint("keys are created in the dashboard under API keys, and are shown once"));
    }
    if !is_well_formed(key) {
        return Err(Failure::new(
            Exit::NotAuthorized,
            "that key looks mistyped or truncated (checksum mismatch)",
        )
        .hint("a key begins with chlog_ and has 44 characters"));
    }
    let key = SecretString::from(key);
    let client = app.client_for(&url, Some(key.clone()))?;
    // In the client's spelling, so that it is found again.
    let url = client.url().as_str().trim_end_matches('/').to_owned();
    let info = client.key().await?;
    let profile = app.config.profile.clone();
    let organization = &info.organization.name;
    app.credentials.set(&profile, &url, key, organization);
    let path = app.credentials.save()?;
    note(&format!(
        "signed in to {url} with the key {} of the organization {organization} (profile \
         {profile}); it may {}; the key is stored in {}",
        info.name,
        permissions(&info),
        path.display()
    ));
    for name in ["CHLOG_API_KEY", "CHLOG_API_KEY_FILE"] {
        if std::env::var_os(name).is_some_and(|value| !value.is_empty()) {
            warn(&format!(
                "{name} is set and takes precedence over the stored key"
            ));
        }
    }
    Ok(())
}

/// Returns what a key may do, as words after "it may".
fn permissions(key: &KeyInfo) -> String {
    let joined = |words: Vec<String>| words.join(", ");
    let scopes = key.scopes.iter().map(ToString::to_string).collect();
    let mut text = joined(scopes);
    if !key.environments.is_empty() {
        let words = key.environments.iter().map(ToString::to_string).collect();
        text = format!("{text}; record in {} only", joined(words));
    }
    if !key.services.is_empty() {
        let names = key.services.iter().map(|one| one.name.clone()).collect();
        text = format!("{text}; record changes of {} only", joined(names));
    }
    one_line(&text)
}

fn read_key() -> Outcome<String> {
    if io::stdin().is_terminal() {
        note("reading the key from standard input (omit --with-token to be prompted)");
    }
    let mut key = String::new();
    io::stdin()
        .lock()
        .take(MAX_KEY)
        .read_to_string(&mut key)
        .map_err(|error| Failure::usage(format!("cannot read standard input: {error}")))?;
    Ok(key)
}

async fn status(mut app: App) -> Outcome {
    let url = app.url()?.clone();
    let profile = app.config.profile.clone();
    let (masked, source, client) = match app.required_credential()? {
        Credential::Key(Sourced { value: key, source }) => {
            let masked = mask(key.expose_secret());
            (masked, source, app.client_for(&url.value, Some(key))?)
        }
        Credential::Token(source) => {
            let name = source.name();
            ("id token".to_owned(), name, app.token_client(source)?)
        }
    };
    let result = client.key().await;
    let verdict = match result.as_ref().map_err(Error::kind) {
        Ok(_) => "accepted",
        Err(Some(ErrorKind::Unauthorized)) => "not accepted",
        Err(Some(ErrorKind::PlanRequired | ErrorKind::ScopeRequired | ErrorKind::Forbidden)) => {
            "valid, but not permitted"
        }
        Err(_) => "not checked",
    };
    if app.output.format() == Format::Table {
        let mut lines = vec![
            format!("server URL    {} (from {})", url.value, url.source),
            format!("profile       {profile}"),
        ];
        if let Ok(info) = &result {
            let (organization, plan) = (one_line(&info.organization.name), &info.plan);
            lines.push(format!("organization  {organization} (plan {plan})"));
            lines.push(format!("key name      {}", one_line(&info.name)));
            lines.push(format!("key may       {}", permissions(info)));
        }
        lines.push(format!("key           {masked} (from {source})"));
        lines.push(format!("key state     {verdict}"));
        let text = lines.join("\n");
        app.output.text(&changelog_core::text::printable(&text))?;
    } else {
        let info = result.as_ref().ok();
        app.output.json(&serde_json::json!({
            "url": url.value,
            "url_source": url.source,
            "profile": profile,
            "key": masked,
            "key_source": source,
            "key_state": verdict,
            "key_name": info.map(|info| &info.name),
            "organization": info.map(|info| &info.organization),
            "plan": info.map(|info| &info.plan),
            "expires_at": info.and_then(|info| info.expires_at),
            "scopes": info.map(|info| &info.scopes),
            "environments": info.map(|info| &info.environments),
            "services": info.map(|info| &info.services),
        }))?;
    }
    match result {
        Ok(_) => Ok(()),
        // The usual hint is this command.
        Err(error) => Err(Failure::from(error).hint(
            "keys are created in the dashboard under API keys; store one with `chlog auth login`",
        )),
    }
}

/// A profile, as `chlog auth list` prints it.
#[derive(Serialize)]
pub(crate) struct ProfileRow {
    profile: String,
    is_active: bool,
    url: Option<String>,
    /// The organization at the time of the sign-in.
    organization: Option<String>,
    /// The masked key; none without a stored key.
    key: Option<String>,
}

impl Record for ProfileRow {
    const PLURAL: &'static str = "profiles";
    const COLUMNS: &'static [&'static str] =
        &["profile", "is_active", "url", "organization", "key"];

    fn id(&self) -> String {
        self.profile.clone()
    }

    fn columns() -> Vec<Column<Self>> {
        vec![
            Column::new("active", Kind::Fixed, |row: &Self, _| {
                Cell::new(if row.is_active { "*" } else { "" })
            }),
            Column::new("profile", Kind::Whole, |row: &Self, _| {
                Cell::new(&row.profile)
            }),
            Column::new("url", Kind::Text, |row: &Self, _| {
                Cell::of(row.url.as_ref())
            }),
            Column::new("organization", Kind::Text, |row: &Self, _| {
                Cell::of(row.organization.as_ref())
            }),
            Column::new("key", Kind::Fixed, |row: &Self, _| {
                Cell::new(row.key.as_deref().unwrap_or("no stored key"))
            }),
        ]
    }
}

fn list(mut app: App) -> Outcome {
    let row = |(name, url): (&String, &Option<String>)| {
        let stored = app.credentials.get(name);
        ProfileRow {
            profile: name.clone(),
            is_active: *name == app.config.profile,
            url: url.clone(),
            organization: stored.map(|stored| stored.organization.clone()),
            key: stored.map(StoredKey::masked),
        }
    };
    let rows: Vec<ProfileRow> = app.config.profiles.iter().map(row).collect();
    app.output.records(&rows)
}

fn switch(app: &App, args: SwitchArgs) -> Outcome {
    let profiles = &app.config.profiles;
    let name = match args.name {
        Some(name) if name == DEFAULT_PROFILE || profiles.contains_key(&name) => name,
        Some(name) => return Err(unknown_profile(&app.config, &name)),
        None if !is_interactive() => {
            return Err(
                Failure::usage("no profile was named").hint("`chlog auth list` shows all profiles")
            );
        }
        None => Select::new("Profile:", profiles.keys().cloned().collect())
            .prompt()
            .map_err(prompt_failure)?,
    };
    let path = set_profile(&name)?;
    note(&format!(
        "{name} is the default profile now ({})",
        path.display()
    ));
    for variable in ["CHLOG_PROFILE", "CHLOG_URL"] {
        if std::env::var_os(variable).is_some_and(|value| !value.is_empty()) {
            warn(&format!("{variable} is set and takes precedence over it"));
        }
    }
    Ok(())
}

fn logout(mut app: App) -> Outcome {
    let profile = app.config.profile.clone();
    if !app.credentials.remove(&profile) {
        note(&format!("no key is stored for profile {profile}"));
        return Ok(());
    }
    let path = app.credentials.save()?;
    // A default profile that does not exist would stop every command.
    if app.config.is_default_by_key {
        set_profile(DEFAULT_PROFILE)?;
        note(&format!(
            "{DEFAULT_PROFILE} is the default profile again: {profile} has no settings in config.toml"
        ));
    }
    note(&format!(
        "removed the key for profile {profile} from {}; it stays valid until you revoke it in the dashboard",
        path.display()
    ));
    Ok(())
}
