//! What is sent to a receiver, and what became of it.

use std::time::Duration;

use changelog_core::{Event, Timestamp};
use serde_json::Value;

use super::target::Target;

/// Something to send to a receiver.
#[derive(Clone, Copy, Debug)]
pub struct Message<'m> {
    /// The receiver.
    pub target: &'m Target,
    /// The event.
    pub event: &'m Event,
    /// Further events that are sent in the same message, because many happened at once;
    /// only for chats.
    pub grouped: &'m [Event],
    /// The URL of the dashboard, without a slash at the end.
    pub dashboard: &'m str,
    /// The name of the organization.
    pub organization: &'m str,
    /// What the receiver called its message about this change, as
    /// [`Attempt::reference`] returned it.
    pub reference: Option<&'m Value>,
    /// The present time.
    pub now: Timestamp,
}

/// What became of an attempt to send a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// What follows from it.
    pub verdict: Verdict,
    /// The status code of the answer; `None` without an answer.
    pub status: Option<u16>,
    /// The beginning of the answer's body, at most [`MAX_ANSWER_BYTES`], without secrets.
    pub answer: String,
    /// How long it took.
    pub duration: Duration,
    /// What the receiver calls its message about this change, to be given with the next
    /// event of the change.
    pub reference: Option<Value>,
}

impl Attempt {
    /// The receiver need not know of the event.
    pub fn nothing_to_send() -> Self {
        Self {
            verdict: Verdict::Delivered,
            status: None,
            answer: String::new(),
            duration: Duration::ZERO,
            reference: None,
        }
    }
}

/// The limit on bytes of an answer that are kept.
pub const MAX_ANSWER_BYTES: usize = 2_048;

/// What follows from an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The receiver has it.
    Delivered,
    /// It is to be sent again later.
    Retry {
        /// Why, in a sentence for people.
        reason: String,
        /// The time that the receiver has asked to wait, before any message.
        after: Option<Duration>,
    },
    /// The receiver will never take this message: it is not sent again by itself.
    Refused {
        /// Why, in a sentence for people.
        reason: String,
    },
    /// The receiver will take no message until a person has changed something.
    Disabled {
        /// Why and what to do, in a sentence for people.
        reason: String,
    },
}

impl Verdict {
    /// Returns its name in metrics.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Retry { .. } => "retry",
            Self::Refused { .. } => "refused",
            Self::Disabled { .. } => "disabled",
        }
    }

    /// Returns why the message was not delivered, in a sentence for people.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Delivered => None,
            Self::Retry { reason, .. } | Self::Refused { reason } | Self::Disabled { reason } => {
                Some(reason)
            }
        }
    }
}
