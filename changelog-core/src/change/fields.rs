//! The fields of a change that a client sets: the one list that the JSON bodies,
//! CSV, the store, the dashboard and the flags of `chlog` follow.
//!
//! To add an optional field of an existing kind, add a member to [`Change`],
//! [`NewChange`] and [`ChangePatch`], a line to [`NewChange::into_change`] and to
//! [`FIELDS`], and a method to the SDK's builders.

use super::{Agent, Change, ChangePatch, NewChange, Outcome};
use crate::host::Environment;
use crate::limits::{MAX_EMAIL_CHARS, MAX_NAME_CHARS};
use crate::time::Timestamp;

/// A field of a change.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name of the JSON member and of the CSV column.
    pub name: &'static str,
    /// What the field holds.
    pub kind: FieldKind,
}

impl Field {
    /// Returns whether a change can be without the field.
    pub fn is_clearable(&self) -> bool {
        !matches!(
            self.kind,
            FieldKind::Title | FieldKind::RiskLevel | FieldKind::Status | FieldKind::OccurredAt
        )
    }
}

/// What a field of a change holds.
#[derive(Clone, Copy, Debug)]
pub enum FieldKind {
    /// The title: required, one line.
    Title,
    /// A string of several lines in Markdown, of at most
    /// [`MAX_LONG_TEXT_CHARS`](crate::limits::MAX_LONG_TEXT_CHARS).
    LongText(Optional<String>),
    /// A string of one line.
    ShortText(ShortText),
    /// The risk level.
    RiskLevel,
    /// The status.
    Status,
    /// How the change ended.
    Outcome(Optional<Outcome>),
    /// The id of the first service.
    Service,
    /// The ids of all services.
    Services,
    /// The id of the host.
    Host,
    /// The environment.
    Environment(Optional<Environment>),
    /// The list of tags.
    Tags,
    /// The list of links.
    Links,
    /// A time.
    Time(Optional<Timestamp>),
    /// The automation that acted.
    Agent(Optional<Agent>),
    /// The time at which the change happened. Cannot be updated: the id of the
    /// change is derived from it.
    OccurredAt,
}

/// An optional field: how people read about it, and where it is.
#[derive(Debug)]
pub struct Optional<T: 'static> {
    /// The heading.
    pub label: &'static str,
    /// What to write there.
    pub help: &'static str,
    /// Returns the value of a change.
    pub of: fn(&Change) -> &Option<T>,
    /// Returns the value of a change, to set it.
    pub of_mut: fn(&mut Change) -> &mut Option<T>,
    /// Returns the value of a change that is to be created.
    pub of_new: fn(&NewChange) -> &Option<T>,
    /// Returns the value of a change that is to be created, to set it.
    pub of_new_mut: fn(&mut NewChange) -> &mut Option<T>,
    /// Returns the value of an update: `None` keeps it, `Some(None)` clears it.
    pub of_patch_mut: fn(&mut ChangePatch) -> &mut Option<Option<T>>,
}

impl<T> Clone for Optional<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Optional<T> {}

/// An optional string of one line.
#[derive(Clone, Copy, Debug)]
pub struct ShortText {
    /// The most characters.
    pub max_chars: usize,
    /// The field.
    pub field: Optional<String>,
}

/// The accessors of an optional field that has the same name in [`Change`],
/// [`NewChange`] and [`ChangePatch`].
macro_rules! optional {
    ($name:ident, $label:literal, $help:literal) => {
        Optional {
            label: $label,
            help: $help,
            of: |change| &change.$name,
            of_mut: |change| &mut change.$name,
            of_new: |new| &new.$name,
            of_new_mut: |new| &mut new.$name,
            of_patch_mut: |patch| &mut patch.$name,
        }
    };
}

const fn field(name: &'static str, kind: FieldKind) -> Field {
    Field { name, kind }
}

/// Every field that a client sets. The last one can be set on create only.
pub const FIELDS: &[Field] = &[
    field("title", FieldKind::Title),
    field(
        "description",
        FieldKind::LongText(optional!(
            description,
            "Description",
            "What was done and how to undo it. Markdown supported"
        )),
    ),
    field("risk_level", FieldKind::RiskLevel),
    field("status", FieldKind::Status),
    field(
        "outcome",
        FieldKind::Outcome(optional!(
            outcome,
            "Outcome",
            "How it ended, if the status does not say it"
        )),
    ),
    field(
        "impact",
        FieldKind::LongText(optional!(
            impact,
            "Impact",
            "What to expect from the change"
        )),
    ),
    field("service_id", FieldKind::Service),
    field("service_ids", FieldKind::Services),
    field("host_id", FieldKind::Host),
    field(
        "environment",
        FieldKind::Environment(optional!(
            environment,
            "Environment",
            "That of the host if it is not given"
        )),
    ),
    field("tags", FieldKind::Tags),
    field("links", FieldKind::Links),
    field(
        "scheduled_for",
        FieldKind::Time(optional!(scheduled_for, "Scheduled for", "Planned start")),
    ),
    field(
        "started_at",
        FieldKind::Time(optional!(
            started_at,
            "Started at",
            "When the change was started; not for a planned change"
        )),
    ),
    field(
        "ended_at",
        FieldKind::Time(optional!(
            ended_at,
            "Ended at",
            "When the change was completed or rolled back"
        )),
    ),
    field(
        "on_behalf_of",
        FieldKind::ShortText(ShortText {
            max_chars: MAX_EMAIL_CHARS,
            field: optional!(on_behalf_of, "On behalf of", "Person the API key acted for"),
        }),
    ),
    field(
        "agent",
        FieldKind::Agent(optional!(agent, "Agent", "The automation that acted")),
    ),
    field(
        "commit",
        FieldKind::ShortText(ShortText {
            max_chars: MAX_NAME_CHARS,
            field: optional!(commit, "Commit", "The commit that was deployed"),
        }),
    ),
    field(
        "committed_at",
        FieldKind::Time(optional!(
            committed_at,
            "Committed at",
            "The time of that commit"
        )),
    ),
    field("occurred_at", FieldKind::OccurredAt),
];

/// The names of [`FIELDS`].
pub(super) const NAMES: [&str; FIELDS.len()] = {
    let mut names = [""; FIELDS.len()];
    let mut index = 0;
    while index < FIELDS.len() {
        names[index] = FIELDS[index].name;
        index += 1;
    }
    names
};

/// The names of what a new change may have: [`NAMES`], and names instead of ids.
pub(super) const NEW_NAMES: [&str; NAMES.len() + 2] = {
    let mut names = [""; NAMES.len() + 2];
    let mut index = 0;
    while index < NAMES.len() {
        names[index] = NAMES[index];
        index += 1;
    }
    names[NAMES.len()] = "service_name";
    names[NAMES.len() + 1] = "hostname";
    names
};

/// Returns the optional long texts of a change, with their names.
pub fn long_texts() -> impl Iterator<Item = (&'static str, Optional<String>)> {
    FIELDS.iter().filter_map(|field| match field.kind {
        FieldKind::LongText(text) => Some((field.name, text)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Input;

    #[test]
    fn only_the_last_field_cannot_be_updated() {
        let (last, updatable) = NAMES.split_last().unwrap();
        assert_eq!(*last, "occurred_at");
        let (reason, others) = ChangePatch::FIELDS.split_last().unwrap();
        assert_eq!((*reason, others), ("reason", updatable));
    }

    #[test]
    fn every_long_text_is_its_own_member() {
        for (name, text) in long_texts() {
            let mut new = NewChange::default();
            *(text.of_new_mut)(&mut new) = Some(name.to_owned());
            let expected = serde_json::json!({ "title": "", name: name });
            assert_eq!(serde_json::to_value(&new).unwrap(), expected);
            let mut patch = ChangePatch::default();
            *(text.of_patch_mut)(&mut patch) = Some(None);
            let expected = serde_json::json!({ name: null });
            assert_eq!(serde_json::to_value(&patch).unwrap(), expected);
        }
    }
}
