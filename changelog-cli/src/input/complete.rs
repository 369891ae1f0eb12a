//! Completions of service names, host names, and the ids of changes and incidents.
//!
//! Names are cached for ten minutes. If they are older, another process fetches
//! new ones, and the shell waits for it as long as the delay is not noticeable; a
//! slower server completes the next Tab. Failures are not printed, because they
//! would disturb the prompt.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use changelog_client::{ChangeQuery, Client, RetryPolicy};
use changelog_core::text::printable;
use changelog_core::{IncidentStatus, Status};
use clap::ValueEnum;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::base::failure::silence_warnings;
use crate::base::private_fs;
use crate::base::text::{one_line, sha256_hex};
use crate::base::time;
use crate::environment::app::App;
use crate::environment::dirs;
use crate::environment::global::Global;

/// The variable by which a shell requests completions; its value names the shell.
const COMPLETE_VARIABLE: &str = "COMPLETE";
/// The variable that makes a process fetch names; its value names the kind.
const REFRESH_VARIABLE: &str = "CHLOG_REFRESH_NAMES";
/// How long a completion may take in all.
const COMPLETION_TIMEOUT: Duration = Duration::from_millis(250);
/// How long a completion waits for new names; the rest of the time is for
/// reading cached ones.
const FETCH_WAIT: Duration = Duration::from_millis(200);
/// How long the fetching process may take.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(5);
/// How many changes or incidents are offered.
const OFFERED_CHANGES: u64 = 25;
/// The longest title next to an id, in characters.
const MAX_HELP_TITLE: usize = 60;

/// The hexadecimal digits in the name of a cache file.
const CACHE_DIGITS: usize = 32;

/// A kind of completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Services,
    Hosts,
    Changes,
    OpenChanges,
    Incidents,
    OpenIncidents,
}

impl Kind {
    /// Returns how long values are cached, in milliseconds.
    fn lifetime(self) -> i64 {
        match self {
            Self::Services | Self::Hosts => 10 * 60 * 1000,
            // Short, so that a change can be named right after it was recorded.
            Self::Changes | Self::OpenChanges | Self::Incidents | Self::OpenIncidents => 5 * 1000,
        }
    }
}

/// Offers the names of services.
pub(crate) fn services() -> ArgValueCandidates {
    ArgValueCandidates::new(|| offer(Kind::Services))
}

/// Offers the names of hosts.
pub(crate) fn hosts() -> ArgValueCandidates {
    ArgValueCandidates::new(|| offer(Kind::Hosts))
}

/// Offers the ids of the newest changes, with their titles.
pub(crate) fn changes() -> ArgValueCandidates {
    ArgValueCandidates::new(|| offer(Kind::Changes))
}

/// Offers the ids of the newest changes that are planned or in progress.
pub(crate) fn open_changes() -> ArgValueCandidates {
    ArgValueCandidates::new(|| offer(Kind::OpenChanges))
}

/// Offers the ids of incidents, with their titles: open ones, then the latest.
pub(crate) fn incidents() -> ArgValueCandidates {
    ArgValueCandidates::new(|| offer(Kind::Incidents))
}

/// Offers the ids of open incidents.
pub(crate) fn open_incidents() -> ArgValueCandidates {
    ArgValueCandidates::new(|| offer(Kind::OpenIncidents))
}

/// Completes for a shell, or fetches names, if this process was started for
/// that.
pub(crate) fn run_if_requested(command: fn() -> clap::Command) -> Option<ExitCode> {
    if let Some(kind) = std::env::var_os(REFRESH_VARIABLE) {
        silence_warnings();
        let kind = Kind::from_str(&kind.to_string_lossy(), false);
        kind.ok().and_then(refresh);
        return Some(ExitCode::SUCCESS);
    }
    let shell = std::env::var_os(COMPLETE_VARIABLE)?;
    if !is_request(&shell, std::env::args_os().nth(1).as_deref()) {
        return None;
    }
    silence_warnings();
    let folder = std::env::current_dir().ok();
    // After a failure the shell goes on with its prompt.
    let _ = CompleteEnv::with_factory(command)
        .bin("chlog")
        .completer("chlog")
        .try_complete(std::env::args_os(), folder.as_deref());
    Some(ExitCode::SUCCESS)
}

/// Returns whether a process was started by a shell's script, or to print that script. The
/// variable alone does not say so: it may be of another program, and what is wrapped must
/// run.
fn is_request(shell: &OsStr, first_argument: Option<&OsStr>) -> bool {
    if let Some(argument) = first_argument {
        // Scripts pass the line to complete after it; no command line begins with it.
        return argument == "--" && !shell.is_empty() && shell != "0";
    }
    let name = Path::new(shell).file_stem().and_then(OsStr::to_str);
    name.is_some_and(|name| Shells::builtins().completer(name).is_some())
}

/// Returns the candidates within [`COMPLETION_TIMEOUT`].
fn offer(kind: Kind) -> Vec<CompletionCandidate> {
    let begun = Instant::now();
    let (found, finding) = mpsc::channel();
    // Reading a file may never end if it is a pipe.
    thread::spawn(move || {
        let _ = found.send(find(kind, begun));
    });
    let values = finding.recv_timeout(COMPLETION_TIMEOUT).ok().flatten();
    values
        .unwrap_or_default()
        .into_iter()
        .map(|Value { value, help }| CompletionCandidate::new(value).help(help.map(Into::into)))
        .collect()
}

fn find(kind: Kind, begun: Instant) -> Option<Vec<Value>> {
    let words = std::env::args().skip_while(|word| word != "--");
    let cache = Cache::find(connection(words))?;
    let now = time::now().millis();
    let cached = CachedValues::read(&cache.file);
    if let Some(list) = cached.0.get(&kind)
        && (0..kind.lifetime()).contains(&(now - list.at))
    {
        return Some(list.values.clone());
    }
    refresh_in_background(&cache, kind, begun + FETCH_WAIT);
    CachedValues::read(&cache.file)
        .0
        .remove(&kind)
        .map(|list| list.values)
}

/// Starts a process that fetches names, and waits for it until a deadline. The
/// process continues after this one has ended.
fn refresh_in_background(cache: &Cache, kind: Kind, deadline: Instant) -> Option<()> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    // The same flags, so that the process finds the same server and key.
    command
        .args(&cache.flags)
        .env(REFRESH_VARIABLE, kind.to_possible_value()?.get_name())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C at the prompt must not reach it.
        .process_group(0);
    let mut child = command.spawn().ok()?;
    while child.try_wait().ok()?.is_none() {
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(Duration::from_millis(2));
    }
    Some(())
}

/// Fetches names and caches them.
fn refresh(kind: Kind) -> Option<()> {
    let cache = Cache::find(connection(std::env::args()))?;
    let client = Client::builder()
        .url(&cache.url)
        .api_key(cache.key.clone())
        .user_agent(concat!("chlog/", env!("CARGO_PKG_VERSION")))
        .retry(RetryPolicy::NEVER)
        .attempt_timeout(REFRESH_TIMEOUT)
        .total_timeout(REFRESH_TIMEOUT)
        .build()
        .ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    let values = runtime.block_on(async {
        let fetching = fetch(&client, kind);
        tokio::time::timeout(REFRESH_TIMEOUT, fetching).await.ok()?
    });
    runtime.shutdown_background();
    let values = values?;
    let mut cached = CachedValues::read(&cache.file);
    let at = time::now().millis();
    cached.0.insert(kind, List { at, values });
    cached.write(&cache.file)
}

async fn fetch(client: &Client, kind: Kind) -> Option<Vec<Value>> {
    // Values with control characters are not offered.
    let is_plain = |value: &Value| printable(&value.value) == value.value;
    let values: Vec<Value> = match kind {
        Kind::Services => {
            let services = client.services().list().await.ok()?;
            services
                .into_iter()
                .map(|one| Value::bare(one.name))
                .collect()
        }
        Kind::Hosts => {
            let hosts = client.hosts().list().await.ok()?;
            hosts
                .into_iter()
                .map(|one| Value::bare(one.hostname))
                .collect()
        }
        Kind::Changes | Kind::OpenChanges => {
            let mut query = ChangeQuery::new();
            if kind == Kind::OpenChanges {
                query = query.statuses([Status::Planned, Status::InProgress]);
            }
            let page = client
                .changes()
                .list()
                .matching(query)
                .per_page(OFFERED_CHANGES)
                .send()
                .await
                .ok()?;
            let changes = page.data.into_iter();
            changes
                .map(|one| Value::titled(&one.id, &one.title))
                .collect()
        }
        Kind::Incidents | Kind::OpenIncidents => {
            let mut list = client.incidents().list().limit(OFFERED_CHANGES);
            if kind == Kind::OpenIncidents {
                list = list.status(IncidentStatus::Open);
            }
            let incidents = list.send().await.ok()?.into_iter();
            incidents
                .map(|one| Value::titled(&one.id, &one.title))
                .collect()
        }
    };
    Some(values.into_iter().filter(is_plain).collect())
}

/// Returns the connection flags of a command line.
fn connection(words: impl Iterator<Item = String>) -> (Option<String>, Option<String>) {
    let mut words = words.skip(1);
    let (mut url, mut profile) = (None, None);
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some(("--url", value)) => url = Some(value.to_owned()),
            Some(("--profile", value)) => profile = Some(value.to_owned()),
            _ if word == "--url" => url = words.next(),
            _ if word == "--profile" => profile = words.next(),
            _ => {}
        }
    }
    (url, profile)
}

/// A connection and the file of its cached names.
struct Cache {
    url: String,
    /// The flags of the connection.
    flags: Vec<String>,
    key: SecretString,
    file: PathBuf,
}

impl Cache {
    fn find((url, profile): (Option<String>, Option<String>)) -> Option<Self> {
        let flags = [("--url", &url), ("--profile", &profile)];
        let flags = flags
            .into_iter()
            .filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?)))
            .collect();
        let app = App::new(Global::connection(url, profile)).ok()?;
        let url = app.url().ok()?.value.clone();
        let key = app.key().ok()??.value;
        // The key is part of the name, because names belong to an organization.
        let name = sha256_hex(&format!("{url}\n{}", key.expose_secret()), CACHE_DIGITS);
        Some(Self {
            file: dirs::cache()?.join("names").join(format!("{name}.json")),
            flags,
            url,
            key,
        })
    }
}

/// The content of the file: the values of each kind.
#[derive(Debug, Default, Serialize, Deserialize)]
struct CachedValues(BTreeMap<Kind, List>);

#[derive(Debug, Serialize, Deserialize)]
struct List {
    /// When they were fetched, in milliseconds since 1970.
    at: i64,
    values: Vec<Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Value {
    value: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    help: Option<String>,
}

impl Value {
    fn bare(value: String) -> Self {
        Self { value, help: None }
    }

    fn titled(id: &impl ToString, title: &str) -> Self {
        Self {
            value: id.to_string(),
            help: Some(one_line(title).chars().take(MAX_HELP_TITLE).collect()),
        }
    }
}

impl CachedValues {
    /// Reads a file; a missing or damaged one is empty.
    fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// Replaces the file.
    fn write(&self, path: &Path) -> Option<()> {
        let json = serde_json::to_vec(self).ok()?;
        let folder = path.parent()?;
        private_fs::create_directory(folder).ok()?;
        // Not synced to the disk: it can be fetched again, and the shell waits.
        let mut file = tempfile::NamedTempFile::new_in(folder).ok()?;
        file.write_all(&json).ok()?;
        file.persist(path).ok()?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_is_read_from_the_command_line() {
        for (line, url, profile) in [
            ("chlog list --service", None, None),
            ("chlog --url http://a list", Some("http://a"), None),
            ("chlog list --profile=p --url=x", Some("x"), Some("p")),
            ("chlog --url", None, None),
        ] {
            let found = connection(line.split(' ').map(str::to_owned));
            assert_eq!(
                (found.0.as_deref(), found.1.as_deref()),
                (url, profile),
                "{line}"
            );
        }
    }

    #[test]
    fn only_scripts_of_shells_request_completions() {
        for (shell, first, expected) in [
            ("bash", Some("--"), true),
            ("bash", None, true),
            ("/usr/bin/zsh", None, true),
            ("bash", Some("run"), false),
            ("yes", Some("run"), false),
            ("yes", None, false),
            ("1", Some("terraform"), false),
            ("0", Some("--"), false),
            ("", Some("--"), false),
            ("", None, false),
        ] {
            let found = is_request(OsStr::new(shell), first.map(OsStr::new));
            assert_eq!(found, expected, "{shell} {first:?}");
        }
    }

    #[test]
    fn a_damaged_file_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/names.json");
        assert!(CachedValues::read(&path).0.is_empty());
        let mut cached = CachedValues::default();
        let values = vec![Value::bare("web".to_owned())];
        cached.0.insert(Kind::Services, List { at: 1, values });
        cached.write(&path).unwrap();
        assert_eq!(
            CachedValues::read(&path).0[&Kind::Services].values[0].value,
            "web"
        );
        fs::write(&path, "{").unwrap();
        assert!(CachedValues::read(&path).0.is_empty());
    }
}
