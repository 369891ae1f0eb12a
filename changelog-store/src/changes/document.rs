//! What is stored of a change as JSON.

use changelog_core::change::fields::{FIELDS, Field, FieldKind, ShortText};
use changelog_core::{AuthorType, Change};
use serde::ser::{Serialize, SerializeMap, Serializer};
use sqlx::types::Uuid;

/// Returns the person that recorded a change.
pub(super) fn person(change: &Change) -> Option<Uuid> {
    let author = change.created_by.as_ref()?;
    (author.kind == AuthorType::Person).then_some(author.id)
}

/// Serializes a change as it is stored: without the services, the host and the person
/// that recorded it, which are added when it is read because their names may change.
struct Document<'c>(&'c Change);

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let change = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &change.id)?;
        for Field { name, kind } in FIELDS {
            match kind {
                FieldKind::Title => map.serialize_entry(name, &change.title),
                FieldKind::LongText(text) | FieldKind::ShortText(ShortText { field: text, .. }) => {
                    map.serialize_entry(name, (text.of)(change))
                }
                FieldKind::RiskLevel => map.serialize_entry(name, &change.risk_level),
                FieldKind::Status => map.serialize_entry(name, &change.status),
                FieldKind::Outcome(field) => map.serialize_entry(name, (field.of)(change)),
                FieldKind::Service | FieldKind::Host => Ok(()),
                FieldKind::Services => map.serialize_entry(name, &change.service_ids),
                FieldKind::Environment(field) => map.serialize_entry(name, (field.of)(change)),
                FieldKind::Tags => map.serialize_entry(name, &change.tags),
                FieldKind::Links => map.serialize_entry(name, &change.links),
                FieldKind::Time(time) => map.serialize_entry(name, (time.of)(change)),
                FieldKind::Agent(field) => map.serialize_entry(name, (field.of)(change)),
                FieldKind::OccurredAt => map.serialize_entry(name, &change.occurred_at),
            }?;
        }
        map.serialize_entry("source", &change.source)?;
        map.serialize_entry("organization_id", &change.organization_id)?;
        if person(change).is_none() {
            map.serialize_entry("created_by", &change.created_by)?;
        }
        map.serialize_entry("created_at", &change.created_at)?;
        map.serialize_entry("updated_at", &change.updated_at)?;
        map.end()
    }
}

/// Returns the JSON of a change as it is stored: without the closing brace, because
/// members are added to it when it is read.
pub(super) fn of(change: &Change) -> String {
    // Strings, numbers and lists of them always serialize.
    let mut json = serde_json::to_string(&Document(change)).unwrap_or_default();
    json.pop();
    json
}
