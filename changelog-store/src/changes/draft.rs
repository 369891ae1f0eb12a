//! A change that is about to be created, with everything that can be prepared without
//! the database, because other creates wait while it is written.

use changelog_core::activity::AGENT;
use changelog_core::ids::uuid_v7;
use changelog_core::limits::MAX_NAME_CHARS;
use changelog_core::{
    Action, ActivityId, Change, ChangeCreated, ChangeEvent, ChangeId, EventKind, HostId, NewChange,
    ResourceType, Timestamp,
};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};

use super::document;
use super::row::{ChangeRow, facets};
use crate::activity::{Entry, NewEntry};
use crate::change_notifier::StreamEntry;
use crate::idempotency::CreatedChange;
use crate::index::search;
use crate::index::sort_key;

use crate::{Actor, StoreError, Tenant, new_id};

/// A change that is about to be created.
#[derive(Clone, Debug)]
pub struct Draft {
    pub(super) tenant: Tenant,
    pub(super) actor: Actor,
    /// The change, without its services and host, whose names are not known yet.
    pub(super) change: Change,
    /// Whether the first service was given by itself.
    pub(super) has_service_id: bool,
    pub(super) host_id: Option<HostId>,
    pub(super) now: DateTime<Utc>,
    pub(super) sort_key: i64,
    pub(super) document: String,
    pub(super) words: String,
    /// The event that receivers are sent, as JSON; empty if none is sent.
    event: String,
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

    /// Prepares one change of a list. If the request gives `occurred_at`, `nanos` is the
    /// offset of the id within that millisecond, so that changes of the same time are
    /// listed in the order in which they were sent.
    pub fn in_list(
        tenant: Tenant,
        actor: &Actor,
        new: NewChange,
        now: DateTime<Utc>,
        nanos: Option<u32>,
    ) -> Result<Self, StoreError> {
        let id = match new.occurred_at.or(new.started_at) {
            Some(at) => uuid_v7(at, nanos, rand::random()),
            None => new_id(now),
        };
        let (has_service_id, host_id) = (new.service_id.is_some(), new.host_id);
        let mut change = new.into_change(id.into(), tenant.id(), actor.author(), now.into());
        change.source.clone_from(&actor.source);
        if let Some(pipeline) = &actor.pipeline {
            // What the token says, where the client claims nothing else.
            let given = |text: &Option<String>| {
                let text = text.clone()?;
                (text.chars().count() <= MAX_NAME_CHARS).then_some(text)
            };
            change.commit = change.commit.or_else(|| given(&pipeline.run.commit));
            change.on_behalf_of = change.on_behalf_of.or_else(|| given(&pipeline.run.actor));
        }
        let mut metadata = json!({ "risk_level": change.risk_level, "status": change.status });
        if let Some(outcome) = &change.outcome {
            metadata["outcome"] = json!(outcome);
        }
        if let Some(agent) = &change.agent {
            metadata[AGENT] = json!(agent.name);
            if let Some(person) = &change.on_behalf_of {
                metadata["on_behalf_of"] = json!(person);
            }
        }
        let words = search::indexed_text(tenant, &change.title, &facets(&change, host_id));
        let mut draft = Self {
            tenant,
            actor: actor.clone(),
            change,
            has_service_id,
            host_id,
            now,
            sort_key: 0,
            document: String::new(),
            words,
            event: String::new(),
            activity_id: new_id(now).into(),
            metadata: metadata.as_object().cloned().unwrap_or_default(),
        };
        draft.assign_id(id.into())?;
        Ok(draft)
    }

    /// Assigns a random id of the same millisecond.
    pub(super) fn assign_random_id(&mut self) -> Result<(), StoreError> {
        let at = self.change.occurred_at;
        self.assign_id(uuid_v7(at, None, rand::random()).into())
    }

    /// Assigns an id with which the change has this sort key.
    pub(super) fn set_sort_key(&mut self, sort_key: i64) -> Result<(), StoreError> {
        let millis = self.change.occurred_at.millis();
        self.assign_id(sort_key::id_of(millis, sort_key, rand::random()).into())
    }

    /// Returns the entry of the activity log that records it.
    pub(super) fn creation_entry(&self) -> (Tenant, StreamEntry) {
        let entry = StreamEntry {
            id: self.activity_id,
            resource: self.change.id.0,
            event: ChangeEvent::Created,
        };
        (self.tenant, entry)
    }

    /// Returns the entry of the activity log as it is written.
    pub(super) fn entry(&self) -> NewEntry<'_> {
        let entry = Entry {
            action: Action::Created,
            resource_type: ResourceType::Change,
            resource_id: self.change.id.0,
            label: &self.change.title,
            metadata: self.metadata.clone(),
        };
        NewEntry::new(self.tenant, self.activity_id, &self.actor, entry, self.now)
    }

    /// Sets the id of the change, and what depends on it.
    fn assign_id(&mut self, id: ChangeId) -> Result<(), StoreError> {
        self.change.id = id;
        let at = self.change.effective_at().millis();
        self.sort_key = sort_key::at(at, id.0).ok_or_else(|| {
            StoreError::Unavailable("the clock is beyond what an id can hold".into())
        })?;
        self.document = document::of(&self.change);
        if self.actor.has_receivers {
            self.event = self.event_json();
        }
        Ok(())
    }

    /// Returns the event as `events` stores it.
    fn event_json(&self) -> String {
        let mut head = json!({
            "id": self.activity_id,
            "kind": EventKind::Created,
            "at": Timestamp::from(self.now),
            "actor": self.actor.name,
            "actor_id": self.actor.person,
            "host_id": self.host_id,
        });
        if let Some(trace) = self.actor.trace {
            head["trace"] = json!(trace);
        }
        let mut json = head.to_string();
        json.pop();
        json.push_str(",\"change\":");
        json.push_str(&self.document);
        if document::person(&self.change).is_some() {
            json.push_str(",\"created_by\":");
            json.push_str(&serde_json::to_string(&self.change.created_by).unwrap_or_default());
        }
        json.push_str("}}");
        json
    }

    /// Returns the event that receivers are sent: organization, JSON, time.
    pub(super) fn event(&self) -> Option<(Tenant, &str, Timestamp)> {
        (!self.event.is_empty()).then(|| (self.tenant, self.event.as_str(), self.now.into()))
    }

    /// Returns the change as it is stored.
    pub(super) fn row(&self) -> ChangeRow<'_> {
        ChangeRow::prepared(
            self.tenant,
            self.sort_key,
            &self.change,
            self.host_id,
            self.document.as_str().into(),
            self.words.as_str().into(),
        )
    }

    /// Returns the part of the change that is stored under an idempotency key.
    pub(super) fn created_change(&self) -> CreatedChange {
        CreatedChange {
            id: self.change.id,
            created_at: self.change.created_at,
        }
    }

    /// Returns the result of creating the change.
    pub(super) fn created(&self) -> ChangeCreated {
        ChangeCreated {
            id: self.change.id,
            title: self.change.title.clone(),
            risk_level: self.change.risk_level.clone(),
            status: self.change.status.clone(),
            organization_id: self.tenant.id(),
            created_at: self.change.created_at,
        }
    }
}
