//! Changes.
//!
//! A change is stored as the JSON that responses contain, without the closing brace, so that reading it needs no
//! decoding or encoding; the other columns are there to find it. Services, the host and
//! the person that recorded it are inserted on reading, because their names may change.
//!
//! A change is found by its id through the [sort key](super::index::sort_key) that the
//! id determines. The few changes that were started at another time than they were
//! recorded for have another sort key; a second statement finds them by `moved_id`.

mod by_id;
pub(super) mod candidates;
pub(super) mod create;
mod delete;
mod document;
mod draft;
pub(super) mod list;
mod lock;
mod named;
mod replace_taken_ids;
mod row;
mod runs;
mod schedule;
mod update;

use changelog_core::{Author, AuthorType, Change, HostId};
use sqlx::QueryBuilder;
use sqlx::types::Uuid;

use super::engine::Dialect;
use super::index::counts::CountDelta;
use super::index::search;
use super::{StoreError, Tenant};

pub(super) use by_id::batcher;
pub use candidates::{CandidateSource, NewestOf};
pub use create::{Created, Creation};
pub use draft::Draft;
pub use list::{ChangeList, ChangesJson};

/// Writes the JSON of a change: the document, which lacks its closing brace, the person
/// that recorded it, all services if there are several, the first one, and the host. In
/// parentheses, so that the document is copied once and not by each operator. Few changes
/// have the first two, so that one comparison skips both. Without an organization, the changes
/// may be of several, which [Citus](Dialect::MIXES_ORGANIZATIONS) would read on every server.
fn push_json<DB: Dialect>(query: &mut QueryBuilder<DB>, tenant: Option<Tenant>) {
    let push_tenant = |query: &mut QueryBuilder<DB>| match tenant {
        Some(tenant) => DB::bind(query, tenant.uuid().into()),
        None => drop(query.push("c.organization_id")),
    };
    query.push(
        "c.document || (CASE WHEN c.author_key IS NULL AND c.more_service_ids IS NULL \
         THEN ',\"service\":' \
         ELSE CASE WHEN c.author_key IS NULL THEN '' ELSE COALESCE(\
         (SELECT ',\"created_by\":' || a.reference FROM activity_actors a \
         WHERE a.actor_key = c.author_key AND a.organization_id = ",
    );
    push_tenant(query);
    query.push(
        "), '') END || CASE WHEN c.more_service_ids IS NULL THEN '' ELSE \
         ',\"services\":[' || s.reference || (SELECT string_agg(reference, '') \
         FROM (SELECT ',' || r.reference AS reference FROM change_services m \
         JOIN services r ON r.id = m.service_id AND r.organization_id = ",
    );
    push_tenant(query);
    query.push(" WHERE m.sort_key = c.sort_key AND m.organization_id = ");
    push_tenant(query);
    query.push(
        " ORDER BY m.place) AS further) || ']' END || ',\"service\":' END \
         || COALESCE(s.reference, 'null') \
         || ',\"host_ref\":' || COALESCE(h.reference, 'null') || '}')",
    );
}

/// Joins the first service and the host of a change.
const SERVICE_AND_HOST: &str = "
LEFT JOIN services s ON s.organization_id = c.organization_id AND s.id = c.service_id
LEFT JOIN hosts h ON h.organization_id = c.organization_id AND h.id = c.host_id";

/// A change as JSON, in its detail shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeJson(pub String);

impl ChangeJson {
    /// Parses the change.
    pub fn parse(&self) -> Result<Change, StoreError> {
        serde_json::from_str(&self.0).map_err(|error| broken(&error))
    }
}

/// Parses a change from the columns of its row: without the service, the host and the name of
/// the person, which are read from other tables.
pub(super) fn stored(document: &str, author_key: Option<&str>) -> Result<Change, StoreError> {
    let mut json = document.to_owned();
    json.push_str(",\"service\":null,\"host_ref\":null");
    if let Some(id) = author_key {
        let id = Uuid::parse_str(id).unwrap_or_default();
        let author = Author {
            kind: AuthorType::Person,
            name: String::new(),
            id,
            verified: None,
        };
        json.push_str(",\"created_by\":");
        json.push_str(&serde_json::to_string(&author).map_err(|error| broken(&error))?);
    }
    json.push('}');
    ChangeJson(json).parse()
}

/// Returns the terms of a [`stored`] change in the search index.
pub(super) fn search_terms(tenant: Tenant, change: &Change, host: Option<HostId>) -> String {
    search::indexed_text(tenant, &change.title, &row::facets(change, host))
}

/// Returns what a [`stored`] change adds to the counts.
pub(super) fn count_delta(
    tenant: Tenant,
    sort_key: i64,
    change: &Change,
    host: Option<HostId>,
) -> CountDelta<'_> {
    CountDelta {
        tenant,
        facets: row::facets(change, host),
        millis: super::index::sort_key::millis(sort_key),
    }
}

/// Returns the error for a stored value that cannot be parsed.
pub(super) fn broken(error: &impl std::fmt::Display) -> StoreError {
    StoreError::Database(std::sync::Arc::new(sqlx::Error::Decode(
        format!("a stored value cannot be parsed: {error}").into(),
    )))
}
