//! A change as the tables store it, and the statements that write it.

use std::borrow::Cow;

use changelog_core::{Change, Environment, HostId, MadeBy, Outcome, ServiceId, Status, Timestamp};
use sqlx::types::Uuid;

use super::document;
use crate::Tenant;
use crate::engine::{Dialect, PushValue, Script, Value};
use crate::index::counts::{self, CountDelta};
use crate::index::search::{self, Facets, SearchDialect};
use crate::index::sort_key;

/// A change as the tables store it.
pub(super) struct ChangeRow<'c> {
    pub(super) tenant: Tenant,
    pub(super) sort_key: i64,
    pub(super) change: &'c Change,
    pub(super) host_id: Option<HostId>,
    /// The ids of the services after the first.
    pub(super) more_service_ids: Option<String>,
    /// The person that recorded it, as `activity_actors` has it.
    pub(super) author_key: Option<String>,
    pub(super) document: Cow<'c, str>,
    /// Its words in the search index.
    pub(super) words: Cow<'c, str>,
}

impl<'c> ChangeRow<'c> {
    /// Returns the row of a change at a sort key.
    pub(super) fn new(tenant: Tenant, sort_key: i64, change: &'c Change) -> Self {
        let host_id = change.host_ref.as_ref().map(|host| host.id);
        let words = search::indexed_text(tenant, &change.title, &facets(change, host_id));
        let document = document::of(change);
        Self::prepared(
            tenant,
            sort_key,
            change,
            host_id,
            document.into(),
            words.into(),
        )
    }

    /// Returns the row of a change whose document and words are known.
    pub(super) fn prepared(
        tenant: Tenant,
        sort_key: i64,
        change: &'c Change,
        host_id: Option<HostId>,
        document: Cow<'c, str>,
        words: Cow<'c, str>,
    ) -> Self {
        let more: Vec<String> = change
            .service_ids
            .iter()
            .skip(1)
            .map(|id| id.0.simple().to_string())
            .collect();
        Self {
            tenant,
            sort_key,
            change,
            host_id,
            more_service_ids: (!more.is_empty()).then(|| more.join(",")),
            author_key: document::person(change).map(|id| id.to_string()),
            document,
            words,
        }
    }

    /// Returns the first service.
    pub(super) fn service_id(&self) -> Option<ServiceId> {
        self.change.service_ids.first().copied()
    }

    /// Returns the id if the sort key does not follow from it.
    pub(super) fn moved_id(&self) -> Option<Uuid> {
        let id = self.change.id.0;
        (sort_key::of(id) != Some(self.sort_key)).then_some(id)
    }

    /// Returns when the change ended, in milliseconds since 1970, if that is not when it
    /// started.
    fn ended_at(&self) -> Option<i64> {
        let change = self.change;
        let ended_later = |at: &Timestamp| Some(*at) != change.started_at;
        change.ended_at.filter(ended_later).map(Timestamp::millis)
    }

    /// Returns when the change was undone, in milliseconds since 1970: when it ended, unless
    /// an update makes it undone later.
    pub(super) fn undone_at(&self) -> Option<i64> {
        let ended_at = self.change.ended_at.filter(|_| self.is_undone());
        ended_at.map(Timestamp::millis)
    }

    /// Returns whether the change was undone. One that was recorded as rolled back, without an
    /// outcome and with one time only, has failed, as the specification says.
    pub(super) fn is_undone(&self) -> bool {
        let change = self.change;
        match &change.outcome {
            Some(outcome) => *outcome == Outcome::Undone,
            None => change.status == Status::RolledBack && change.duration().is_some(),
        }
    }

    /// Returns the columns that an update may change, except the document.
    pub(super) fn updatable_columns(&self) -> [(&'static str, Value<'_>); 14] {
        let change = self.change;
        let environment = change.environment.as_ref();
        [
            ("sort_key", self.sort_key.into()),
            ("risk_level", change.risk_level.as_str().into()),
            ("status", change.status.as_str().into()),
            ("service_id", self.service_id().map(|id| id.0).into()),
            ("host_id", self.host_id.map(|id| id.0).into()),
            (
                "scheduled_for",
                change.scheduled_for.map(Timestamp::millis).into(),
            ),
            ("moved_id", self.moved_id().into()),
            ("title", change.title.as_str().into()),
            ("environment", environment.map(Environment::as_str).into()),
            ("ended_at", self.ended_at().into()),
            (
                "outcome",
                change.outcome.as_ref().map(Outcome::as_str).into(),
            ),
            ("undone_at", self.undone_at().into()),
            ("more_service_ids", self.more_service_ids.as_deref().into()),
            ("agent", agent_name(change).into()),
        ]
    }

    /// Returns the rows of the services after the first: service and place.
    pub(super) fn more_services(&self) -> impl Iterator<Item = (ServiceId, i64)> {
        self.change.service_ids.iter().copied().zip(0..).skip(1)
    }

    /// Returns the values that it is counted by.
    pub(super) fn count_delta(&self) -> CountDelta<'c> {
        CountDelta {
            tenant: self.tenant,
            facets: facets(self.change, self.host_id),
            millis: sort_key::millis(self.sort_key),
        }
    }
}

/// Returns the name of the automation that made a change.
fn agent_name(change: &Change) -> Option<&str> {
    change.agent.as_ref().map(|agent| agent.name.as_str())
}

/// Returns the facets that a change is filtered by.
pub(super) fn facets(change: &Change, host_id: Option<HostId>) -> Facets<'_> {
    Facets {
        risk_level: &change.risk_level,
        status: &change.status,
        environment: change.environment.as_ref(),
        services: &change.service_ids,
        host_id,
        tags: &change.tags,
        author: change.created_by.as_ref().map(|author| author.id),
        source: change.source.as_ref().map(|source| source.name.as_str()),
        agent: agent_name(change),
        made_by: MadeBy::of(
            &change.tags,
            change.agent.as_ref(),
            change.created_by.as_ref(),
            change.on_behalf_of.as_deref(),
        ),
    }
}

/// Adds the statements that insert changes, their services, tags, search entries and
/// counts.
pub(super) fn push_new<DB: SearchDialect>(
    script: &mut Script<DB>,
    changes: &[ChangeRow<'_>],
    slot: i64,
) {
    let rows: Vec<[Value<'_>; 18]> = changes
        .iter()
        .map(|row| {
            let [sort_key, columns @ ..] = row.updatable_columns().map(|(_, value)| value);
            let [
                risk,
                status,
                service,
                host,
                schedule,
                moved,
                title,
                place,
                ended,
                outcome,
                undone,
                more,
                agent,
            ] = columns;
            [
                sort_key,
                row.tenant.uuid().into(),
                row.change.id.0.into(),
                risk,
                status,
                service,
                host,
                schedule,
                moved,
                title,
                place,
                ended,
                outcome,
                undone,
                more,
                agent,
                row.author_key.as_deref().into(),
                row.document.as_ref().into(),
            ]
        })
        .collect();
    script.insert(
        "INSERT INTO changes \
         (sort_key, organization_id, id, risk_level, status, service_id, host_id, scheduled_for, \
         moved_id, title, environment, ended_at, outcome, undone_at, more_service_ids, agent, \
         author_key, document) ",
        &rows,
        "",
    );
    push_more_services(script, changes.iter());
    let tags = changes.iter().flat_map(|row| {
        let tags = row.change.tags.iter();
        tags.map(|tag| (row.tenant, tag.as_str(), row.sort_key))
    });
    push_tags(script, tags);
    let words: Vec<_> = changes
        .iter()
        .map(|change| (change.tenant, change.sort_key, change.words.as_ref()))
        .collect();
    DB::index_new(script, &words);
    let counted = changes.iter().map(|change| (1, change.count_delta()));
    counts::push(script, slot, counted);
}

/// Adds the statement that inserts the services of changes after the first.
pub(super) fn push_more_services<'r, 'c: 'r, DB: Dialect>(
    script: &mut Script<DB>,
    changes: impl Iterator<Item = &'r ChangeRow<'c>>,
) {
    let rows: Vec<[Value<'_>; 4]> = changes
        .flat_map(|row| {
            let (tenant, sort_key) = (row.tenant, row.sort_key);
            row.more_services().map(move |(service, place)| {
                [
                    tenant.uuid().into(),
                    service.0.into(),
                    sort_key.into(),
                    place.into(),
                ]
            })
        })
        .collect();
    script.insert(
        "INSERT INTO change_services (organization_id, service_id, sort_key, place) ",
        &rows,
        "",
    );
}

/// Adds the statement that deletes rows of a table that belong to changes: those with
/// this value in a column of the primary key.
pub(super) fn push_delete_of<DB: Dialect>(
    script: &mut Script<DB>,
    tenant: Tenant,
    (table, column, value): (&str, &str, Value<'_>),
    sort_keys: Vec<i64>,
) {
    let query = script.statement("DELETE FROM ");
    query.push(table).push(" WHERE organization_id = ");
    DB::bind(query, tenant.uuid().into());
    query.push(" AND ").push(column).push_value(" = ", value);
    query.push(" AND sort_key");
    DB::push_in(query, sort_keys);
}

/// Adds the statements that delete the services after the first of a change.
pub(super) fn push_delete_more_services<DB: Dialect>(script: &mut Script<DB>, row: &ChangeRow<'_>) {
    for (service, _) in row.more_services() {
        let rows = ("change_services", "service_id", service.0.into());
        push_delete_of(script, row.tenant, rows, vec![row.sort_key]);
    }
}

/// Adds the statement that deletes a tag of a change.
pub(super) fn push_delete_tag<DB: Dialect>(
    script: &mut Script<DB>,
    row: &ChangeRow<'_>,
    tag: &str,
) {
    let rows = ("change_tags", "tag", tag.into());
    push_delete_of(script, row.tenant, rows, vec![row.sort_key]);
}

/// Adds the statement that inserts tags of changes: organization, tag, sort key.
pub(super) fn push_tags<'c, DB: Dialect>(
    script: &mut Script<DB>,
    tags: impl Iterator<Item = (Tenant, &'c str, i64)>,
) {
    let rows: Vec<[Value<'_>; 3]> = tags
        .map(|(tenant, tag, sort_key)| [tenant.uuid().into(), tag.into(), sort_key.into()])
        .collect();
    script.insert(
        "INSERT INTO change_tags (organization_id, tag, sort_key) ",
        &rows,
        "",
    );
}
