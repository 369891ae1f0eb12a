//! Changes that wait for the service: one file each, written so that it is
//! there whole or not at all, without the key, and bound to the address and the
//! organization that it was meant for.
//!
//! ```text
//! $XDG_STATE_HOME/chlog/spool/     or CHLOG_SPOOL_DIR
//!   ID.json          what waits, oldest first in the order of the names
//!   refused/ID.json  what the service did not take, with its reason
//!   runs/ID.json     what runs now; see `journal`
//!   keys/DIGEST      the organization of a key; see `owner`
//!   reminded         changed when the user was last reminded; see `reminder`
//!   lock             held by the one that delivers
//! ```

pub(crate) mod delivery;
pub(crate) mod journal;
pub(crate) mod owner;
pub(crate) mod reminder;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use changelog_core::input::from_object;
use changelog_core::{ChangeId, ChangePatch, Input, OrganizationId, Timestamp};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::base::failure::{Cause, Outcome};
use crate::base::private_fs;
use crate::base::time;
use crate::environment::app::App;
use crate::recording::submit::Draft;
use owner::Owner;

/// Names the directory of what waits.
const DIRECTORY_VARIABLE: &str = "CHLOG_SPOOL_DIR";
/// How the names of the files end.
const SUFFIX: &str = "json";
/// The end of the year 9999: what was checked when it was kept is not held
/// against a clock that has been set back since.
const LATEST: i64 = 253_402_300_799_999;

/// What waits: a change that is to be created, what became of one, or both.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Where it is sent, and nowhere else.
    pub(crate) url: String,
    /// The organization that it is of, under whose keys alone it is sent; none
    /// as long as that is not known.
    pub(crate) organization: Option<OrganizationId>,
    /// The fingerprint of the key that it was made under; see `owner`.
    pub(crate) key_fingerprint: String,
    /// Under which the service records it once, however often it is sent.
    pub(crate) idempotency_key: String,
    /// When it was kept.
    pub(crate) kept_at: Timestamp,
    /// What kind of failure it was kept for.
    pub(crate) cause: Cause,
    /// Why it was kept, or is refused.
    pub(crate) reason: String,
    /// The change, unless it exists already.
    pub(crate) draft: Option<Draft>,
    /// The id of the change, where it is known.
    pub(crate) id: Option<ChangeId>,
    /// What became of it.
    #[serde(default, deserialize_with = "maybe_input")]
    pub(crate) patch: Option<ChangePatch>,
}

impl Entry {
    /// Makes what waits of a change that is to be created.
    pub(crate) fn of_draft(app: &App, key: String, draft: Draft) -> Outcome<Self> {
        let entry = Self::new(app, key)?;
        Ok(Self {
            draft: Some(draft),
            ..entry
        })
    }

    /// Makes what waits of an update.
    pub(crate) fn of_patch(app: &App, id: ChangeId, patch: ChangePatch) -> Outcome<Self> {
        let entry = Self::new(app, changelog_client::new_idempotency_key())?;
        Ok(Self {
            id: Some(id),
            patch: Some(patch),
            ..entry
        })
    }

    fn new(app: &App, idempotency_key: String) -> Outcome<Self> {
        let owner = Owner::of(app)?;
        Ok(Self {
            url: app.url()?.value.clone(),
            organization: owner.organization(),
            key_fingerprint: owner.fingerprint,
            idempotency_key,
            kept_at: time::now(),
            cause: Cause::Unavailable,
            reason: String::new(),
            draft: None,
            id: None,
            patch: None,
        })
    }

    /// Returns what a person knows it by.
    pub(crate) fn title(&self) -> String {
        match (&self.draft, &self.id) {
            (Some(draft), _) => draft.change.title.clone(),
            (None, Some(id)) => format!("an update of {id}"),
            (None, None) => "nothing".to_owned(),
        }
    }

    /// Returns the entry as one line of JSON.
    pub(crate) fn to_json(&self) -> String {
        // It has string keys only, and no numbers that JSON does not have.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Reads what is checked as the body of a request is.
pub(crate) fn input<'de, D: Deserializer<'de>, T: Input>(from: D) -> Result<T, D::Error> {
    let object = Map::<String, Value>::deserialize(from)?;
    from_object(object, Timestamp::from_millis(LATEST)).map_err(|invalid| {
        let broken = invalid.violations.first().map(ToString::to_string);
        serde::de::Error::custom(broken.unwrap_or_default())
    })
}

fn maybe_input<'de, D: Deserializer<'de>, T: Input>(from: D) -> Result<Option<T>, D::Error> {
    match Option::<Value>::deserialize(from)? {
        None => Ok(None),
        Some(value) => input(value).map(Some).map_err(serde::de::Error::custom),
    }
}

/// Returns the directory of what waits, if this machine has a home.
pub(crate) fn directory() -> Option<PathBuf> {
    if let Some(directory) = std::env::var_os(DIRECTORY_VARIABLE).filter(|path| !path.is_empty()) {
        return Some(directory.into());
    }
    Some(private_fs::state_directory()?.join("spool"))
}

/// Returns whether the directory was chosen by the user, who knows then how
/// long it lasts.
pub(crate) fn is_chosen() -> bool {
    std::env::var_os(DIRECTORY_VARIABLE).is_some_and(|path| !path.is_empty())
}

/// Returns the directory of what the service did not take.
pub(crate) fn refused(spool: &Path) -> PathBuf {
    spool.join("refused")
}

/// Keeps an entry, and returns its file.
pub(crate) fn keep(entry: &Entry) -> io::Result<PathBuf> {
    let directory = directory().ok_or_else(no_directory)?;
    let path = new_path(&directory);
    write(&path, entry)?;
    Ok(path)
}

/// Keeps an entry that the service did not take, and returns its file.
pub(crate) fn refuse(entry: &Entry) -> io::Result<PathBuf> {
    let directory = directory().ok_or_else(no_directory)?;
    let path = new_path(&refused(&directory));
    write(&path, entry)?;
    Ok(path)
}

/// Replaces the file of an entry.
fn write(path: &Path, entry: &Entry) -> io::Result<()> {
    private_fs::write_private(path, entry.to_json().as_bytes(), |_| Ok(()))?;
    Ok(())
}

fn new_path(directory: &Path) -> PathBuf {
    directory.join(format!("{}.{SUFFIX}", Uuid::now_v7()))
}

fn no_directory() -> io::Error {
    io::Error::other(format!(
        "there is no home directory; set HOME, XDG_STATE_HOME or {DIRECTORY_VARIABLE}"
    ))
}

/// A file of the spool, and what stands in it.
pub(crate) struct Kept {
    pub(crate) path: PathBuf,
    /// None when the file is not one of ours, or was damaged.
    pub(crate) entry: Result<Entry, String>,
}

impl Kept {
    /// Returns the name by which commands know it.
    pub(crate) fn name(&self) -> String {
        name_of(&self.path)
    }
}

fn name_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// Lists the files of a directory, oldest first; none where there is no such
/// directory.
pub(crate) fn paths(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let is_hidden = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !is_hidden && path.extension().is_some_and(|suffix| suffix == SUFFIX) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Reads a file of the spool; none when it has gone.
pub(crate) fn read(path: PathBuf) -> Option<Kept> {
    let entry = match fs::read(&path) {
        Ok(content) => serde_json::from_slice(&content).map_err(|error| error.to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => Err(error.to_string()),
    };
    Some(Kept { path, entry })
}

/// Reads all files of a directory.
pub(crate) fn list(directory: &Path) -> io::Result<Vec<Kept>> {
    Ok(paths(directory)?.into_iter().filter_map(read).collect())
}
