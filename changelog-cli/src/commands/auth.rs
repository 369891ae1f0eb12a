//! `chlog auth`: stores, checks and removes the API key.

use std::io::{self, IsTerminal, Read};

use changelog_client::{Client, Error, ErrorKind};
use changelog_core::api_key::{is_well_formed, mask};
use clap::{Args, Subcommand};
use inquire::{Password, PasswordDisplayMode, Text};
use secrecy::{ExposeSecret, SecretString};

use crate::base::failure::{Exit, Failure, Outcome, note, warn};
use crate::environment::app::{App, client, no_url};
use crate::environment::sourced::Sourced;
use crate::input::message::prompts::{is_interactive, prompt_failure};
use crate::output::format::Format;

/// The most that is read as a key, in bytes; a key has 44.
const MAX_KEY: u64 = 4096;

#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Check an API key and store it
    Login(LoginArgs),
    /// Show which key is used, its source, and whether the server accepts it
    Status,
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

/// Runs the subcommand.
pub(crate) async fn run(app: App, command: AuthCommand) -> Outcome {
    match command {
        AuthCommand::Login(args) => login(app, &args).await,
        AuthCommand::Status => status(app).await,
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
        None if args.with_token => return Err(no_url()),
        None => Text::new("URL of the server:")
            .with_placeholder("https://changes.example.com")
            .prompt()
            .map_err(prompt_failure)?,
    };
    // An invalid URL fails before the key is typed.
    client(&url, None)?;
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
            "the key is mistyped or cut off: its checksum is wrong",
        )
        .hint("a key begins with chlog_ and has 44 characters"));
    }
    let key = SecretString::from(key);
    let client = client(&url, Some(key.clone()))?;
    // In the client's spelling, so that it is found again.
    let url = client.url().as_str().trim_end_matches('/').to_owned();
    check(&client).await?;
    let profile = app.config.profile.clone();
    app.credentials.set(&profile, &url, key);
    let path = app.credentials.save()?;
    note(&format!(
        "the server accepts the key; it is stored for {url} (profile {profile}) in {}",
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

fn read_key() -> Outcome<String> {
    if io::stdin().is_terminal() {
        note("reading the key from standard input; without --with-token there is a hidden prompt");
    }
    let mut key = String::new();
    io::stdin()
        .lock()
        .take(MAX_KEY)
        .read_to_string(&mut key)
        .map_err(|error| Failure::usage(format!("cannot read standard input: {error}")))?;
    Ok(key)
}

/// Sends the smallest request that needs a key.
async fn check(client: &Client) -> Result<(), Error> {
    client.changes().list().per_page(1).send().await.map(drop)
}

async fn status(mut app: App) -> Outcome {
    let url = app.url()?.clone();
    let profile = app.config.profile.clone();
    let Some(Sourced { value: key, source }) = app.key()? else {
        return Err(app.missing_key()?);
    };
    let masked = mask(key.expose_secret());
    let result = check(&client(&url.value, Some(key))?).await;
    let verdict = match result.as_ref().map_err(Error::kind) {
        Ok(()) => "accepted",
        Err(Some(ErrorKind::Unauthorized)) => "not accepted",
        Err(Some(ErrorKind::PlanRequired | ErrorKind::Forbidden)) => "valid, but not allowed",
        Err(_) => "not checked",
    };
    if app.output.format() == Format::Table {
        let text = format!(
            "server URL  {} (from {})\nprofile     {profile}\nkey         {masked} (from {source})\nkey state   {verdict}",
            url.value, url.source
        );
        app.output.text(&changelog_core::text::printable(&text))?;
    } else {
        app.output.json(&serde_json::json!({
            "url": url.value,
            "url_source": url.source,
            "profile": profile,
            "key": masked,
            "key_source": source,
            "key_state": verdict,
        }))?;
    }
    Ok(result?)
}

fn logout(mut app: App) -> Outcome {
    let profile = app.config.profile.clone();
    if !app.credentials.remove(&profile) {
        note(&format!("no key is stored for profile {profile}"));
        return Ok(());
    }
    let path = app.credentials.save()?;
    note(&format!(
        "the key of profile {profile} is removed from {}; it still works until it is revoked in the dashboard",
        path.display()
    ));
    Ok(())
}
