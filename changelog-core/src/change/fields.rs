//! The fields of a change that a client sets: the one list that the JSON bodies,
//! CSV, the store, the dashboard and the flags of `chlog` follow.
//!
//! To add an optional long text, add a member to [`Change`], [`NewChange`] and
//! [`ChangePatch`], a line to [`NewChange::into_change`] and to [`FIELDS`], and a
//! method to the SDK's builders.

use super::{Change, ChangePatch, NewChange};

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
    /// An optional text of several lines.
    LongText(LongText),
    /// The risk level.
    RiskLevel,
    /// The status.
    Status,
    /// The id of the service.
    Service,
    /// The id of the host.
    Host,
    /// The list of tags.
    Tags,
    /// The list of links.
    Links,
    /// The time for which the change is scheduled.
    ScheduledFor,
    /// The time at which the change happened. Cannot be updated: the id of the
    /// change is derived from it.
    OccurredAt,
}

/// An optional text of several lines in Markdown, of at most
/// [`MAX_LONG_TEXT_CHARS`](crate::limits::MAX_LONG_TEXT_CHARS): how people read
/// about it, and where it is.
#[derive(Clone, Copy, Debug)]
pub struct LongText {
    /// The heading.
    pub label: &'static str,
    /// What to write there.
    pub help: &'static str,
    /// Returns the text of a change.
    pub of: fn(&Change) -> &Option<String>,
    /// Returns the text of a change, to set it.
    pub of_mut: fn(&mut Change) -> &mut Option<String>,
    /// Returns the text of a change that is to be created.
    pub of_new: fn(&NewChange) -> &Option<String>,
    /// Returns the text of a change that is to be created, to set it.
    pub of_new_mut: fn(&mut NewChange) -> &mut Option<String>,
    /// Returns the text of an update: `None` keeps it, `Some(None)` clears it.
    pub of_patch_mut: fn(&mut ChangePatch) -> &mut Option<Option<String>>,
}

macro_rules! long_text {
    ($name:ident, $label:literal, $help:literal) => {
        field(
            stringify!($name),
            FieldKind::LongText(LongText {
                label: $label,
                help: $help,
                of: |change| &change.$name,
                of_mut: |change| &mut change.$name,
                of_new: |new| &new.$name,
                of_new_mut: |new| &mut new.$name,
                of_patch_mut: |patch| &mut patch.$name,
            }),
        )
    };
}

const fn field(name: &'static str, kind: FieldKind) -> Field {
    Field { name, kind }
}

/// Every field that a client sets. The last one can be set on create only.
pub const FIELDS: &[Field] = &[
    field("title", FieldKind::Title),
    long_text!(
        description,
        "Description",
        "Markdown: what was done and how to undo it"
    ),
    field("risk_level", FieldKind::RiskLevel),
    field("status", FieldKind::Status),
    long_text!(impact, "Impact", "What to expect from the change"),
    field("service_id", FieldKind::Service),
    field("host_id", FieldKind::Host),
    field("tags", FieldKind::Tags),
    field("links", FieldKind::Links),
    field("scheduled_for", FieldKind::ScheduledFor),
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

/// Returns the optional long texts of a change, with their names.
pub fn long_texts() -> impl Iterator<Item = (&'static str, LongText)> {
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
        let (last, updatable) = NewChange::FIELDS.split_last().unwrap();
        assert_eq!(*last, "occurred_at");
        assert_eq!(ChangePatch::FIELDS, updatable);
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
