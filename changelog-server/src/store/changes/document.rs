//! What is stored of a change as one text: the members of its JSON that names of services,
//! hosts and people are not part of, and the ids of those, whose references are inserted
//! when it is read.
//!
//! The text has four lines, each ended: the members, without the closing brace; the person
//! that recorded it; the services, as the elements of a JSON array; the host. JSON has no
//! line ends within, so that the texts of a page can be put together by the database.

use changelog_core::change::fields::{FIELDS, Field, FieldKind, ShortText};
use changelog_core::{AuthorType, Change, HostId};
use serde::ser::{Serialize, SerializeMap, Serializer};
use sqlx::types::Uuid;

use crate::store::references::References;
use crate::store::{Database, StoreError, Tenant};

/// Returns the person that recorded a change.
fn person(change: &Change) -> Option<Uuid> {
    let author = change.created_by.as_ref()?;
    (author.kind == AuthorType::Person).then_some(author.id)
}

/// Serializes the members of a change that are stored.
struct Members<'c>(&'c Change);

impl Serialize for Members<'_> {
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
                FieldKind::Service | FieldKind::Services | FieldKind::Host => Ok(()),
                FieldKind::Environment(field) => map.serialize_entry(name, (field.of)(change)),
                FieldKind::Tags => map.serialize_entry(name, &change.tags),
                FieldKind::Links => map.serialize_entry(name, &change.links),
                FieldKind::Time(time) => map.serialize_entry(name, (time.of)(change)),
                FieldKind::Agent(field) => map.serialize_entry(name, (field.of)(change)),
                FieldKind::OccurredAt => map.serialize_entry(name, &change.occurred_at),
            }?;
        }
        map.serialize_entry("organization_id", &change.organization_id)?;
        if person(change).is_none() {
            map.serialize_entry("created_by", &change.created_by)?;
        }
        map.serialize_entry("created_at", &change.created_at)?;
        map.serialize_entry("updated_at", &change.updated_at)?;
        map.end()
    }
}

/// Returns the text of a change.
pub(super) fn of(change: &Change, host_id: Option<HostId>) -> String {
    // Strings, numbers and lists of them always serialize.
    let mut text = serde_json::to_string(&Members(change)).unwrap_or_default();
    text.pop();
    let services = serde_json::to_string(&change.service_ids).unwrap_or_default();
    let services = services.trim_matches(['[', ']']);
    let id = |id: Option<Uuid>| id.map(|id| id.to_string()).unwrap_or_default();
    let (person, host) = (id(person(change)), id(host_id.map(|id| id.0)));
    text.extend(["\n", &person, "\n", services, "\n", &host, "\n"]);
    text
}

/// Returns the ids in a line.
fn ids_in(line: &str) -> impl Iterator<Item = Uuid> {
    let ids = line.split(',').map(|id| id.trim_matches('"'));
    ids.filter_map(|id| Uuid::try_parse(id).ok())
}

/// Returns the ids of what changes refer to.
pub(super) fn ids(texts: &str) -> impl Iterator<Item = Uuid> {
    let lines = texts.lines().filter(|line| !line.starts_with('{'));
    lines.flat_map(ids_in)
}

/// Returns the references to what a line has the ids of.
fn shown<'r>(line: &str, references: &'r References) -> impl Iterator<Item = &'r str> {
    ids_in(line).filter_map(|id| references.json(id))
}

/// Returns the JSON of changes, with commas in between.
pub(super) fn json(texts: &str, references: &References) -> String {
    let mut json = String::with_capacity(texts.len() * 3 / 2);
    let mut lines = texts.lines();
    while let (Some(members), Some(person), Some(services), Some(host)) =
        (lines.next(), lines.next(), lines.next(), lines.next())
    {
        json.extend([if json.is_empty() { "" } else { "," }, members]);
        if let Some(person) = shown(person, references).next() {
            json.extend([",\"created_by\":", person]);
        }
        json.extend([",\"service_ids\":[", services, "]"]);
        let services: Vec<&str> = shown(services, references).collect();
        if services.len() > 1 {
            json.extend([",\"services\":[", &services.join(","), "]"]);
        }
        let service = services.first().copied().unwrap_or("null");
        let host = shown(host, references).next().unwrap_or("null");
        json.extend([",\"service\":", service, ",\"host_ref\":", host, "}"]);
    }
    json
}

/// A row that was read: what the document is of, the text of one or several changes, and
/// the version of the references at that moment.
pub(super) type Row<K> = (K, String, i64);

impl Database {
    /// Returns the JSON of the changes of each row, with commas in between.
    pub(super) async fn to_json<K>(
        &self,
        tenant: Tenant,
        rows: Vec<Row<K>>,
    ) -> Result<Vec<(K, String)>, StoreError> {
        let version = rows.iter().map(|(.., version)| *version).max();
        let ids = rows.iter().flat_map(|(_, text, _)| ids(text)).collect();
        let references = self.references(tenant, version.unwrap_or(0), ids).await?;
        let rows = rows.into_iter();
        let rows = rows.map(|(key, text, _)| (key, json(&text, &references)));
        Ok(rows.collect())
    }
}

#[cfg(test)]
mod tests {
    use changelog_core::Author;

    use super::*;

    #[test]
    fn references_are_inserted() {
        let [one, two, host, person] = [1, 2, 3, 4].map(Uuid::from_u128);
        let texts = format!(
            "{{\"id\":1\n\n\n\n{{\"id\":2\n\n\"{one}\"\n\n{{\"id\":3\n{person}\n\"{one}\",\"{two}\"\n{host}\n"
        );
        let found: Vec<Uuid> = ids(&texts).collect();
        assert_eq!(found, [one, person, one, two, host]);
        let author = Author {
            kind: AuthorType::Person,
            name: "Ada".to_owned(),
            id: person,
        };
        assert_eq!(
            json(&texts, &References::of_author(&author)),
            format!(
                "{{\"id\":1,\"service_ids\":[],\"service\":null,\"host_ref\":null}},\
                 {{\"id\":2,\"service_ids\":[\"{one}\"],\"service\":null,\"host_ref\":null}},\
                 {{\"id\":3,\"created_by\":{{\"type\":\"person\",\"name\":\"Ada\",\"id\":\"{person}\"}},\
                 \"service_ids\":[\"{one}\",\"{two}\"],\
                 \"service\":null,\"host_ref\":null}}"
            )
        );
    }
}
