//! What other systems send about changes, read by pure functions of headers and bytes:
//! the same for `POST /api/ingest/KIND/TOKEN` and for `chlog import --from KIND FILE`.
//!
//! A request becomes [`Observation`]s ([`read`]). Observations of one key are one
//! [`Operation`], however often and in whatever order they arrive, and an operation is
//! shown as one change ([`Operation::change`]). An [`Alert`] opens or resolves an incident.
//!
//! A kind is one file in `kinds/`: to add one, copy the file that is most like it, and name
//! it in `kinds/mod.rs` and in [`SourceKind`](changelog_core::SourceKind). Nothing here does
//! I/O, and nothing panics, whatever the bytes are.

mod alert;
mod environment;
mod handshake;
mod history;
mod json;
mod kinds;
mod observation;
mod operation;
mod proof;
mod received;
mod session;
mod slack_request;

mod settings;

pub use alert::Alert;
pub use environment::environment_of;
pub use handshake::Handshake;
pub use history::History;
pub use kinds::{handshake, is_signed, lacks_secret, read, request_id, takes_secret, verify};
pub use observation::{
    Call, CallProgress, Facts, Observation, Progress, Reading, State, Tool, Unreadable,
};
pub use operation::{ObservedChange, Operation};
pub use proof::Unproven;
pub use received::{Headers, Received};
pub use session::SESSION_PAUSE;
pub use settings::{AlertTemplates, GenericTemplates, RiskRules, Settings};
pub use slack_request::{PressedButton, SlackRequest, SlashCommand, Wish};
