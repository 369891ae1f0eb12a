//! The activity log: who did what, and when.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ids::{ActivityId, UserId};
use crate::limits::{DEFAULT_ACTIVITY_ENTRIES, MAX_ACTIVITY_ENTRIES};
use crate::problem::{Code, Invalid};
use crate::query::{Pairs, Query};
use crate::time::Timestamp;
use crate::wire_enum::wire_enum;

/// The value of `actor_id` that selects what API keys did.
pub const API_KEY_ACTOR: &str = "__api_key__";

wire_enum! {
    /// What was done.
    Action, "an action", example "created" {
        /// Made.
        Created = "created",
        /// Changed; `metadata.changes` says what from and to.
        Updated = "updated",
        /// Deleted.
        Deleted = "deleted",
        /// A person was invited.
        Invited = "invited",
        /// An invitation was accepted.
        Joined = "joined",
        /// A member was removed.
        Removed = "removed",
        /// A member's role was changed.
        RoleChanged = "role_changed",
        /// An API key was revoked.
        Revoked = "revoked",
        /// A subscription was started.
        Started = "started",
        /// A subscription was stopped.
        Stopped = "stopped",
        /// An integration was connected.
        Connected = "connected",
        /// An integration was disconnected.
        Disconnected = "disconnected",
        /// A person signed in.
        SignedIn = "signed_in",
    }
}

wire_enum! {
    /// What it was done to.
    ResourceType, "a resource type", example "change" {
        /// Changes logged, updated or deleted.
        Change = "change",
        /// Services created or updated.
        Service = "service",
        /// Hosts created or updated.
        Host = "host",
        /// Members invited, removed, or their role changed.
        Member = "member",
        /// API keys created or revoked.
        ApiKey = "api_key",
        /// Subscriptions to services started or stopped.
        Subscription = "subscription",
        /// Connections to Slack, Teams, Grafana or webhooks.
        Integration = "integration",
    }
}

/// One entry of the activity log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ActivityEntry {
    /// The id of the entry.
    pub id: ActivityId,
    /// The person who did it; null when it was an API key.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub actor_id: Option<UserId>,
    /// The name of the person, or `API key: ` and the key's name.
    #[cfg_attr(feature = "openapi", schema(example = "API key: terraform"))]
    pub actor_name: String,
    /// What was done.
    pub action: Action,
    /// What kind of thing it was done to.
    pub resource_type: ResourceType,
    /// The id of that thing.
    pub resource_id: Uuid,
    /// How a person knows that thing; for a change, its title.
    #[cfg_attr(feature = "openapi", schema(example = "Deploy api 2.3"))]
    pub resource_label: String,
    /// More about it: `risk_level` and `status` of a change created, `changes`
    /// of an update, `{field: {from, to}}`. A text of more than 300 characters is
    /// `{excerpt, length}` there, with its first 200.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub metadata: serde_json::Value,
    /// When it was done.
    pub created_at: Timestamp,
}

/// Somebody who has entries in the activity log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Actor {
    /// The person; null for an API key.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub actor_id: Option<UserId>,
    /// The name of the person, or `API key: ` and the key's name.
    #[cfg_attr(feature = "openapi", schema(example = "API key: terraform"))]
    pub actor_name: String,
}

/// What `GET /api/activity` answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ActivityList {
    /// The entries, newest first.
    pub items: Vec<ActivityEntry>,
}

/// What `GET /api/activity/actors` answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ActorList {
    /// The actors, by name.
    pub actors: Vec<Actor>,
}

/// Selects entries by who did it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActorFilter {
    /// Any API key.
    ApiKeys,
    /// One person.
    Person(UserId),
}

/// Which entries to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityFilter {
    /// At most this many entries, 1 to [`MAX_ACTIVITY_ENTRIES`].
    pub limit: u64,
    /// Leave out this many of the newest.
    pub offset: u64,
    /// Only of this kind of thing.
    pub resource: Option<ResourceType>,
    /// Only by this actor.
    pub actor: Option<ActorFilter>,
}

impl Default for ActivityFilter {
    fn default() -> Self {
        Self {
            limit: DEFAULT_ACTIVITY_ENTRIES,
            offset: 0,
            resource: None,
            actor: None,
        }
    }
}

impl ActivityFilter {
    /// Reads a query string; a `limit` above the maximum becomes the maximum.
    pub fn from_query(raw: &str) -> Result<Self, Invalid> {
        let mut query = Query::new(raw);
        let mut filter = Self {
            limit: query
                .number("limit", 1)
                .unwrap_or(DEFAULT_ACTIVITY_ENTRIES)
                .min(MAX_ACTIVITY_ENTRIES),
            offset: query.number("offset", 0).unwrap_or(0),
            resource: query.parsed("resource"),
            actor: None,
        };
        if let Some(text) = query.one("actor_id") {
            match text.parse() {
                _ if text == API_KEY_ACTOR => filter.actor = Some(ActorFilter::ApiKeys),
                Ok(person) => filter.actor = Some(ActorFilter::Person(person)),
                Err(_) => {
                    let text = crate::rules::quoted(&text);
                    let message = format!("must be a person's id or {API_KEY_ACTOR}, got {text}");
                    query.add("actor_id", Code::InvalidFormat, message);
                }
            }
        }
        query.finish(filter)
    }

    /// Writes the query string that [`Self::from_query`] reads.
    pub fn to_query(&self) -> String {
        let mut pairs = Pairs::default();
        pairs.push("limit", self.limit);
        pairs.push("offset", self.offset);
        pairs.push_some("resource", self.resource.as_ref());
        match self.actor {
            Some(ActorFilter::ApiKeys) => pairs.push("actor_id", API_KEY_ACTOR),
            Some(ActorFilter::Person(person)) => pairs.push("actor_id", person),
            None => {}
        }
        pairs.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_at_their_limits() {
        let read = |query: &str| ActivityFilter::from_query(query).map(|f| (f.limit, f.offset));
        for (query, expected) in [
            ("", (50, 0)),
            ("limit=1", (1, 0)),
            ("limit=99", (99, 0)),
            ("limit=100", (100, 0)),
            ("limit=101", (100, 0)),
            ("offset=0", (50, 0)),
            ("offset=1", (50, 1)),
            ("offset=99999999999999999999", (50, u64::MAX)),
        ] {
            assert_eq!(read(query), Ok(expected), "{query}");
        }
        for query in [
            "limit=0",
            "limit=-1",
            "limit=x",
            "limit=",
            "offset=-1",
            "limit=1&limit=1",
        ] {
            assert!(read(query).is_err(), "{query}");
        }
    }

    #[test]
    fn actors_and_resources_select() {
        let id = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";
        let person = ActorFilter::Person(id.parse().unwrap());
        for (query, actor) in [
            (format!("actor_id={id}"), Some(person)),
            (
                "actor_id=__api_key__".to_owned(),
                Some(ActorFilter::ApiKeys),
            ),
            (String::new(), None),
        ] {
            let filter = ActivityFilter::from_query(&query).unwrap();
            assert_eq!(filter.actor, actor);
            assert_eq!(ActivityFilter::from_query(&filter.to_query()), Ok(filter));
        }
        for bad in [
            "actor_id=",
            "actor_id=ada",
            "actor_id=__API_KEY__",
            "resource=changes",
        ] {
            assert!(ActivityFilter::from_query(bad).is_err(), "{bad}");
        }
        let words = [
            "change",
            "service",
            "host",
            "member",
            "api_key",
            "subscription",
            "integration",
        ];
        assert_eq!(ResourceType::WORDS, words);
        for word in words {
            let filter = ActivityFilter::from_query(&format!("resource={word}")).unwrap();
            assert_eq!(
                filter.resource.map(|r| r.to_string()).as_deref(),
                Some(word)
            );
        }
    }
}
