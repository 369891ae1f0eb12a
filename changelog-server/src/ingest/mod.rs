//! Sources: reads the requests that senders have sent, and records what they tell of.

mod alerts;
mod apply;
mod changes;
mod edits;
mod runs;
mod sessions;
pub(crate) mod setup;
pub(crate) mod worker;

pub(crate) use setup::open_secret;
