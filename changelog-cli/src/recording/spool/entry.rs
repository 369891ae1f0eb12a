//! What a file of the spool holds.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use changelog_core::{ChangeId, OrganizationId, Timestamp};
use serde::{Deserialize, Serialize};

use super::folder;
use super::owner::Owner;
use crate::base::failure::{Cause, Outcome};
use crate::base::private_fs;
use crate::base::time;
use crate::environment::app::App;
use crate::recording::draft::Draft;
use crate::recording::update::Update;

/// A change to create, an update of one, or both.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SpoolEntry {
    /// The id of the file to write, if commands know it already.
    #[serde(skip)]
    pub(crate) file_id: Option<String>,
    /// The server's URL; the entry is sent nowhere else.
    pub(crate) url: String,
    /// The organization; the entry is sent only with its keys. None while it is
    /// not known.
    pub(crate) organization: Option<OrganizationId>,
    /// The fingerprint of the key; see [`Owner`].
    pub(crate) key_fingerprint: String,
    /// The key with which the server records the change once, however often it
    /// is sent.
    pub(crate) idempotency_key: String,
    /// When the entry was written.
    pub(crate) kept_at: Timestamp,
    /// The kind of failure that it was kept for.
    pub(crate) cause: Cause,
    /// Why it was kept or rejected.
    pub(crate) reason: String,
    /// The change to create, unless it exists.
    pub(crate) draft: Option<Draft>,
    /// The id of the change, if it is known: of the recorded change, or of the entry that
    /// is to create it.
    pub(crate) id: Option<ChangeId>,
    /// The update to apply to the change.
    pub(crate) update: Option<Update>,
}

impl SpoolEntry {
    /// Returns the entry for a change to create.
    pub(crate) fn of_draft(app: &App, key: String, draft: Draft) -> Outcome<Self> {
        let entry = Self::new(app, key)?;
        Ok(Self {
            draft: Some(draft),
            ..entry
        })
    }

    /// Returns the entry for an update.
    pub(crate) fn of_update(app: &App, id: ChangeId, update: Update) -> Outcome<Self> {
        let entry = Self::new(app, changelog_client::new_idempotency_key())?;
        Ok(Self {
            id: Some(id),
            update: Some(update),
            ..entry
        })
    }

    fn new(app: &App, idempotency_key: String) -> Outcome<Self> {
        let owner = Owner::of(app)?;
        Ok(Self {
            file_id: None,
            organization: owner.organization(),
            url: owner.url,
            key_fingerprint: owner.fingerprint,
            idempotency_key,
            kept_at: time::now(),
            cause: Cause::Unavailable,
            reason: String::new(),
            draft: None,
            id: None,
            update: None,
        })
    }

    /// Returns the title for lists.
    pub(crate) fn title(&self) -> String {
        match (&self.draft, &self.id) {
            (Some(draft), _) => draft.change.title.clone(),
            (None, Some(id)) => format!("update of {id}"),
            (None, None) => "nothing".to_owned(),
        }
    }

    /// Returns the organization, if it is known by now.
    pub(crate) fn known_organization(&self) -> Option<OrganizationId> {
        let remembered = || {
            let owner = Owner {
                url: self.url.clone(),
                fingerprint: self.key_fingerprint.clone(),
            };
            owner.organization()
        };
        self.organization.or_else(remembered)
    }

    /// Returns the entry as one line of JSON.
    pub(crate) fn to_json(&self) -> String {
        // Cannot fail: all keys are strings, and no number is NaN or infinite.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Writes the entry as a waiting change, and returns its file.
    pub(crate) fn save(&self) -> io::Result<PathBuf> {
        let path = self.path_in(&folder::required_directory()?);
        self.write_to(&path)?;
        Ok(path)
    }

    /// Writes the entry as a rejected change, and returns its file.
    pub(crate) fn save_rejected(&self) -> io::Result<PathBuf> {
        let path = self.path_in(&folder::rejected(&folder::required_directory()?));
        self.write_to(&path)?;
        Ok(path)
    }

    fn path_in(&self, directory: &Path) -> PathBuf {
        match &self.file_id {
            Some(id) => folder::path_of(directory, id),
            None => folder::new_path(directory),
        }
    }

    /// Creates or replaces a file.
    pub(super) fn write_to(&self, path: &Path) -> io::Result<()> {
        private_fs::write(path, self.to_json().as_bytes())
    }
}

/// A file of the spool and its content.
pub(crate) struct SpoolFile {
    pub(crate) path: PathBuf,
    /// The entry, or why it cannot be read.
    pub(crate) entry: Result<SpoolEntry, Unreadable>,
}

/// Why a file of the spool cannot be read.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// The system did not let it be read; another user or a later attempt may read it.
    Now(io::Error),
    /// Its content is none of an entry.
    Damaged(serde_json::Error),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(error) => error.fmt(f),
            Self::Damaged(error) => error.fmt(f),
        }
    }
}

impl SpoolFile {
    /// Reads a file; none if it no longer exists.
    pub(crate) fn read(path: PathBuf) -> Option<Self> {
        let entry = match fs::read(&path) {
            Ok(content) => serde_json::from_slice(&content).map_err(Unreadable::Damaged),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => Err(Unreadable::Now(error)),
        };
        Some(Self { path, entry })
    }

    /// Reads all files of a directory, oldest first.
    pub(crate) fn read_all(directory: &Path) -> Outcome<Vec<Self>> {
        let paths = folder::paths(directory).map_err(|error| folder::unusable(&error))?;
        Ok(paths.into_iter().filter_map(Self::read).collect())
    }

    /// Returns the id that commands take.
    pub(crate) fn id(&self) -> String {
        folder::id_of(&self.path)
    }
}
