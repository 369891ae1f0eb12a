//! Changes that wait for the server, one file each. A file appears atomically,
//! holds everything that is to be sent but the key, and belongs to one server
//! and one organization.
//!
//! ```text
//! $XDG_STATE_HOME/chlog/spool/     or CHLOG_SPOOL_DIR
//!   ID.json          waiting changes; the names sort from old to new
//!   rejected/ID.json changes that the server rejected, with the reason
//!   recorded/ID      the id of a recorded change; see `recorded`
//!   runs/ID.json     running commands; see `journal`
//!   keys/DIGEST      the organization of a key; see `owner`
//!   reminded         modified when the user was last reminded; see `reminder`
//!   lock             locked by the process that sends
//! ```

pub(crate) mod claim;
pub(crate) mod delivery;
pub(crate) mod entry;
pub(crate) mod folder;
pub(crate) mod item;
pub(crate) mod journal;
pub(crate) mod owner;
pub(crate) mod queued;
pub(crate) mod recorded;
pub(crate) mod reminder;
