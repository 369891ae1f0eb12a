//! A change that is about to be created, with everything that can be prepared
//! without the database: other creates wait while it is written.

use changelog_core::ids::uuid_v7;
use changelog_core::{
    ActivityId, Change, ChangeCreated, ChangeId, Link, NewChange, OrganizationId, RiskLevel,
    Status, Timestamp,
};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::ChangeRow;
use crate::store::feed::CreationEntry;
use crate::store::idempotency::CreatedChange;
use crate::store::index::search;
use crate::store::index::sort_key;

use crate::store::{Actor, StoreError, Tenant, new_id};

/// A change that is about to be created.
#[derive(Clone, Debug)]
pub struct Draft {
    pub(super) tenant: Tenant,
    pub(super) actor: Actor,
    pub(super) new: NewChange,
    pub(super) now: DateTime<Utc>,
    pub(super) id: ChangeId,
    pub(super) sort_key: i64,
    pub(super) risk_level: RiskLevel,
    pub(super) status: Status,
    pub(super) document: String,
    pub(super) words: String,
    pub(super) activity_id: ActivityId,
    pub(super) metadata: Map<String, Value>,
}

impl Draft {
    /// Prepares a change.
    pub fn new(
        tenant: Tenant,
        actor: &Actor,
        new: NewChange,
        now: DateTime<Utc>,
    ) -> Result<Self, StoreError> {
        Self::in_list(tenant, actor, new, now, None)
    }

    /// Makes one of several changes. If the request says when it happened, its id
    /// is so many nanoseconds into that millisecond, so that changes of one moment
    /// are listed in the order in which they were sent.
    pub fn in_list(
        tenant: Tenant,
        actor: &Actor,
        new: NewChange,
        now: DateTime<Utc>,
        nanos: Option<u32>,
    ) -> Result<Self, StoreError> {
        let risk_level = new.risk_level.clone().unwrap_or(RiskLevel::Low);
        let status = new.status.clone().unwrap_or(Status::Planned);
        let metadata = json!({ "risk_level": risk_level, "status": status });
        let words = search::indexed_text(
            tenant,
            &new.title,
            &search::Facets {
                risk_level: &risk_level,
                status: &status,
                service_id: new.service_id,
                host_id: new.host_id,
                tags: &new.tags,
            },
        );
        let mut draft = Self {
            tenant,
            actor: actor.clone(),
            new,
            now,
            id: new_id(now).into(),
            sort_key: 0,
            risk_level,
            status,
            document: String::new(),
            words,
            activity_id: new_id(now).into(),
            metadata: metadata.as_object().cloned().unwrap_or_default(),
        };
        let id = match draft.new.occurred_at {
            Some(at) => uuid_v7(at, nanos, rand::random()),
            None => new_id(now),
        };
        draft.assign_id(id.into())?;
        Ok(draft)
    }

    /// Draws another id of the same millisecond at random.
    pub(super) fn redraw_id(&mut self) -> Result<(), StoreError> {
        let at = self.new.occurred_at.unwrap_or(self.now.into());
        self.assign_id(uuid_v7(at, None, rand::random()).into())
    }

    /// Draws an id that has this sort key.
    pub(super) fn set_sort_key(&mut self, sort_key: i64) -> Result<(), StoreError> {
        self.assign_id(sort_key::id_at(sort_key, rand::random()).into())
    }

    /// Returns the entry of the activity log that records it.
    pub(super) fn creation_entry(&self) -> (Tenant, CreationEntry) {
        let entry = CreationEntry {
            id: self.activity_id,
            change: self.id,
        };
        (self.tenant, entry)
    }

    /// Gives the change its id, and what depends on it.
    fn assign_id(&mut self, id: ChangeId) -> Result<(), StoreError> {
        self.id = id;
        self.sort_key = sort_key::of(self.id.0).ok_or_else(|| {
            StoreError::Unavailable("the clock is beyond what an id can hold".into())
        })?;
        let created_at = Timestamp::from(self.now);
        self.document = Document {
            id: self.id,
            title: &self.new.title,
            description: self.new.description.as_deref(),
            risk_level: &self.risk_level,
            status: &self.status,
            impact: self.new.impact.as_deref(),
            tags: &self.new.tags,
            links: &self.new.links,
            scheduled_for: self.new.scheduled_for,
            occurred_at: self.new.occurred_at.unwrap_or(created_at),
            organization_id: self.tenant.id(),
            created_at,
            updated_at: created_at,
        }
        .to_json();
        Ok(())
    }

    /// Returns the change as the tables will keep it.
    pub(super) fn row(&self) -> ChangeRow<'_> {
        ChangeRow {
            tenant: self.tenant,
            sort_key: self.sort_key,
            id: self.id,
            risk_level: &self.risk_level,
            status: &self.status,
            service_id: self.new.service_id,
            host_id: self.new.host_id,
            scheduled_for: self.new.scheduled_for.map(Timestamp::millis),
            tags: &self.new.tags,
            document: self.document.as_str().into(),
            words: self.words.as_str().into(),
        }
    }

    /// Returns what is kept of the change under an idempotency key.
    pub(super) fn created_change(&self) -> CreatedChange {
        CreatedChange {
            id: self.id,
            created_at: self.now.into(),
        }
    }

    /// Returns what the creation of the change answers.
    pub(super) fn created(&self) -> ChangeCreated {
        ChangeCreated {
            id: self.id,
            title: self.new.title.clone(),
            risk_level: self.risk_level.clone(),
            status: self.status.clone(),
            organization_id: self.tenant.id(),
            created_at: self.now.into(),
        }
    }
}

/// A change as it is kept: the detail shape, without the service and the host,
/// whose names may change; they are put in when it is read.
#[derive(Serialize)]
pub(super) struct Document<'c> {
    id: ChangeId,
    title: &'c str,
    description: Option<&'c str>,
    risk_level: &'c RiskLevel,
    status: &'c Status,
    impact: Option<&'c str>,
    tags: &'c [String],
    links: &'c [Link],
    scheduled_for: Option<Timestamp>,
    occurred_at: Timestamp,
    organization_id: OrganizationId,
    created_at: Timestamp,
    /// The last field, and a string: service and host are inserted between it and
    /// the closing brace.
    updated_at: Timestamp,
}

impl Document<'_> {
    fn to_json(&self) -> String {
        // Strings, numbers and lists of them always serialize.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Returns a change as it is kept.
pub(super) fn document(change: &Change) -> String {
    Document {
        id: change.id,
        title: &change.title,
        description: change.description.as_deref(),
        risk_level: &change.risk_level,
        status: &change.status,
        impact: change.impact.as_deref(),
        tags: &change.tags,
        links: &change.links,
        scheduled_for: change.scheduled_for,
        occurred_at: change.occurred_at,
        organization_id: change.organization_id,
        created_at: change.created_at,
        updated_at: change.updated_at,
    }
    .to_json()
}
