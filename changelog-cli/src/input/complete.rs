//! What a shell offers when somebody presses Tab behind `--service`, `--host` or
//! in place of a change's id.
//!
//! Names are kept for ten minutes. When they are older, a process of its own
//! asks for new ones, and the shell waits for it as long as nobody notices; a
//! service that is farther away than that answers the next Tab. Nothing that
//! goes wrong is told: a prompt is no place for it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use changelog_client::{Client, RetryPolicy};
use changelog_core::text::printable;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::CompleteEnv;
use etcetera::BaseStrategy;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::base::failure::be_silent;
use crate::base::private_fs::create_private;
use crate::base::time;
use crate::environment::app::App;
use crate::environment::global::Global;

/// By this a shell says that it wants completions, and of which shell.
const COMPLETE: &str = "COMPLETE";
/// By this a process is told to ask the service for something.
const REFRESH: &str = "CHLOG_REFRESH_NAMES";
/// How long all of it may take, from the first moment of the process.
const LIMIT: Duration = Duration::from_millis(250);
/// How long it is waited for new names; what is left is for showing old ones.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long the process that asks may take.
const REFRESH_LIMIT: Duration = Duration::from_secs(5);
/// How many changes are offered.
const CHANGES: u64 = 25;
/// The longest title beside an id, in characters.
const MAX_TITLE: usize = 60;

/// What can be offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Services,
    Hosts,
    Changes,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Services, Self::Hosts, Self::Changes];

    fn name(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::Hosts => "hosts",
            Self::Changes => "changes",
        }
    }

    /// Returns for how many milliseconds it is offered without being asked for
    /// again.
    fn lifetime(self) -> i64 {
        match self {
            Self::Services | Self::Hosts => 10 * 60 * 1000,
            // Whoever has just logged a change wants to name it now.
            Self::Changes => 5 * 1000,
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

/// Answers a shell, if it was one that started this process.
pub(crate) fn answer(command: fn() -> clap::Command) -> Option<ExitCode> {
    if let Some(kind) = std::env::var_os(REFRESH) {
        be_silent();
        let kind = Kind::ALL.into_iter().find(|one| kind == one.name());
        kind.and_then(refresh);
        return Some(ExitCode::SUCCESS);
    }
    let shell = std::env::var_os(COMPLETE)?;
    if shell.is_empty() || shell == "0" {
        return None;
    }
    be_silent();
    let folder = std::env::current_dir().ok();
    // Whatever went wrong, the shell goes on with its prompt.
    let _ = CompleteEnv::with_factory(command)
        .bin("chlog")
        .completer("chlog")
        .try_complete(std::env::args_os(), folder.as_deref());
    Some(ExitCode::SUCCESS)
}

/// Returns what there is to choose from, in time.
fn offer(kind: Kind) -> Vec<CompletionCandidate> {
    let begun = Instant::now();
    let (found, finding) = mpsc::channel();
    // Even reading a file may take for ever, where it is a pipe.
    thread::spawn(move || {
        let _ = found.send(find(kind, begun));
    });
    let values = finding.recv_timeout(LIMIT).ok().flatten();
    values
        .unwrap_or_default()
        .into_iter()
        .map(|Value { value, help }| CompletionCandidate::new(value).help(help.map(Into::into)))
        .collect()
}

fn find(kind: Kind, begun: Instant) -> Option<Vec<Value>> {
    let place = Place::find(connection(std::env::args().skip(1)))?;
    let now = time::now().millis();
    let kept = Kept::read(&place.file);
    if let Some(list) = kept.0.get(kind.name())
        && (0..kind.lifetime()).contains(&(now - list.at))
    {
        return Some(list.values.clone());
    }
    ask_elsewhere(&place, kind, begun + PATIENCE);
    Kept::read(&place.file)
        .0
        .remove(kind.name())
        .map(|list| list.values)
}

/// Starts a process that asks the service, and waits for it until then. It goes
/// on after this one has ended.
fn ask_elsewhere(place: &Place, kind: Kind, until: Instant) -> Option<()> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command
        .env(REFRESH, kind.name())
        .env("CHLOG_URL", &place.url)
        .env("CHLOG_PROFILE", &place.profile)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    #[cfg(unix)]
    {
        // Ctrl-C at the prompt is not meant for it.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
    }
    let mut child = command.spawn().ok()?;
    while child.try_wait().ok()?.is_none() {
        if Instant::now() >= until {
            return None;
        }
        thread::sleep(Duration::from_millis(2));
    }
    Some(())
}

/// Asks the service, and keeps what it says.
fn refresh(kind: Kind) -> Option<()> {
    let place = Place::find(Global::connection(None, None))?;
    let client = Client::builder()
        .url(&place.url)
        .api_key(place.key.clone())
        .user_agent(concat!("chlog/", env!("CARGO_PKG_VERSION")))
        .retry(RetryPolicy::NEVER)
        .attempt_timeout(REFRESH_LIMIT)
        .total_timeout(REFRESH_LIMIT)
        .build()
        .ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    let values = runtime.block_on(async {
        let asked = ask(&client, kind);
        tokio::time::timeout(REFRESH_LIMIT, asked).await.ok()?
    });
    runtime.shutdown_background();
    let values = values?;
    let mut kept = Kept::read(&place.file);
    let at = time::now().millis();
    kept.0.insert(kind.name().to_owned(), List { at, values });
    kept.write(&place.file)
}

async fn ask(client: &Client, kind: Kind) -> Option<Vec<Value>> {
    // What steers a terminal has no place behind a prompt.
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
        Kind::Changes => {
            let page = client
                .changes()
                .list()
                .per_page(CHANGES)
                .send()
                .await
                .ok()?;
            let value = |change: changelog_core::Change| Value {
                value: change.id.to_string(),
                help: Some(
                    crate::output::table::one_line(&change.title)
                        .chars()
                        .take(MAX_TITLE)
                        .collect(),
                ),
            };
            page.data.into_iter().map(value).collect()
        }
    };
    Some(values.into_iter().filter(is_plain).collect())
}

/// Reads the connection off the words that are being completed, which nothing
/// has parsed yet.
fn connection(words: impl Iterator<Item = String>) -> Global {
    let mut words = words.skip_while(|word| word != "--").skip(1);
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
    Global::connection(url, profile)
}

/// Whom to ask, and where what was said is kept.
struct Place {
    url: String,
    profile: String,
    key: SecretString,
    file: PathBuf,
}

impl Place {
    fn find(connection: Global) -> Option<Self> {
        let app = App::new(connection).ok()?;
        let url = app.url().ok()?.value.clone();
        let key = app.key().ok()??.value;
        let cache = etcetera::choose_base_strategy().ok()?.cache_dir();
        // By the key too, because each organization has names of its own.
        let name = Sha256::digest(format!("{url}\n{}", key.expose_secret()));
        let file = format!("{}.json", &hex::encode(name)[..32]);
        Some(Self {
            file: cache.join("chlog").join("names").join(file),
            profile: app.config.profile.clone(),
            url,
            key,
        })
    }
}

/// What was said, by its kind.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept(BTreeMap<String, List>);

#[derive(Debug, Serialize, Deserialize)]
struct List {
    /// When, in milliseconds since 1970.
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
}

impl Kept {
    /// Reads what is kept; a damaged file is as good as none.
    fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// Replaces the file by one that nobody else can read.
    fn write(&self, path: &Path) -> Option<()> {
        let folder = path.parent()?;
        create_private(folder).ok()?;
        // tempfile opens its files with mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(folder).ok()?;
        file.write_all(&serde_json::to_vec(self).ok()?).ok()?;
        file.persist(path).ok()?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_is_read_off_the_words() {
        for (line, url, profile) in [
            ("-- chlog list --service", None, None),
            ("-- chlog --url http://a list", Some("http://a"), None),
            ("-- chlog list --profile=p --url=x", Some("x"), Some("p")),
            ("--url http://a -- chlog list", None, None),
            ("-- chlog --url", None, None),
        ] {
            let global = connection(line.split(' ').map(str::to_owned));
            assert_eq!(global.url.as_deref(), url, "{line}");
            assert_eq!(global.profile.as_deref(), profile, "{line}");
        }
    }

    #[test]
    fn a_damaged_file_is_as_good_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/names.json");
        assert!(Kept::read(&path).0.is_empty());
        let mut kept = Kept::default();
        let values = vec![Value::bare("web".to_owned())];
        kept.0.insert("services".to_owned(), List { at: 1, values });
        kept.write(&path).unwrap();
        assert_eq!(Kept::read(&path).0["services"].values[0].value, "web");
        fs::write(&path, "{").unwrap();
        assert!(Kept::read(&path).0.is_empty());
    }
}
