//! Input for creating changes.

use serde::Serialize;

use super::checks::{check_services, check_tags, check_text, check_title, read_services};
use super::fields::{FIELDS, FieldKind, NEW_NAMES};
use super::progress::Progress;
use super::{Agent, Author, Change, Link, Outcome, RiskLevel, Status, agent, link};
use crate::host::Environment;
use crate::ids::{ChangeId, HostId, OrganizationId, ServiceId};
use crate::input::{Input, ObjectReader};
use crate::limits::{MAX_BULK_CHANGES, MAX_NAME_CHARS, MAX_TAGS};
use crate::problem::{ViolationCode, Violations};
use crate::rules::{self, TextKind};
use crate::time::Timestamp;

/// Input for creating a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(example = json!({
    "title": "Deploy api 2.3",
    "description": "Rolls out the new rate limiter.",
    "risk_level": "medium",
    "status": "completed",
    "environment": "prod",
    "tags": ["terraform"],
    "links": [{ "label": "pipeline", "url": "https://ci.example.com/runs/42" }],
    "started_at": "2026-01-15T08:30:00.000Z",
    "ended_at": "2026-01-15T08:34:00.000Z",
})))]
#[serde(deny_unknown_fields)]
pub struct NewChange {
    /// What was done, in one line.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Title))]
    pub title: String,
    /// What was done and how to undo it, in Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::LongText>))]
    pub description: Option<String>,
    /// A service of the organization. With `service_ids`, one of them, which becomes
    /// the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_id: Option<ServiceId>,
    /// All services that were changed; duplicates are removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::ServiceIds>))]
    pub service_ids: Vec<ServiceId>,
    /// The name of a service of the organization regardless of ASCII case, instead of
    /// its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::NameInstead>))]
    pub service_name: Option<String>,
    /// A host of the organization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_id: Option<HostId>,
    /// The name of a host of the organization regardless of ASCII case, instead of its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::NameInstead>))]
    pub hostname: Option<String>,
    /// The environment; that of the host by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// The risk level; `low` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<RiskLevel>,
    /// The status; `planned` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// How the change ended; needs another status than `planned`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// What to expect from the change, in Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::LongText>))]
    pub impact: Option<String>,
    /// The tags; duplicates are removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Tags>))]
    pub tags: Vec<String>,
    /// The links.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Links>))]
    pub links: Vec<Link>,
    /// The time for which the change is scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_for: Option<Timestamp>,
    /// The time at which the change was started; `occurred_at` by default. From 1970
    /// until 5 minutes after the server time; needs another status than `planned`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::PastTime>))]
    pub started_at: Option<Timestamp>,
    /// The time at which the change was completed or rolled back, not before
    /// `started_at`; by default `occurred_at` or, without it, now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::PastTime>))]
    pub ended_at: Option<Timestamp>,
    /// The name or address of the person for whom the API key acts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::PersonClaim>))]
    pub on_behalf_of: Option<String>,
    /// The automation that acts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<super::schemas::NewAgent>))]
    pub agent: Option<Agent>,
    /// The commit that is deployed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Commit>))]
    pub commit: Option<String>,
    /// The time of that commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub committed_at: Option<Timestamp>,
    /// The time at which the change happened; `started_at` or else now by default. From
    /// 1970 until 5 minutes after the server time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::PastTime>))]
    pub occurred_at: Option<Timestamp>,
}

impl Input for NewChange {
    const FIELDS: &'static [&'static str] = &NEW_NAMES;

    fn read(object: &mut ObjectReader<'_>) -> Self {
        let mut new = Self {
            title: object.required_string("title"),
            service_id: object.parsed("service_id"),
            service_name: object.string("service_name"),
            hostname: object.string("hostname"),
            service_ids: read_services(object).unwrap_or_default(),
            host_id: object.parsed("host_id"),
            risk_level: object.parsed("risk_level"),
            status: object.parsed("status"),
            tags: object.strings("tags", MAX_TAGS).unwrap_or_default(),
            links: link::read(object, "links").unwrap_or_default(),
            occurred_at: object.parsed("occurred_at"),
            ..Self::default()
        };
        for field in FIELDS {
            let name = field.name;
            match field.kind {
                FieldKind::LongText(text) => *(text.of_new_mut)(&mut new) = object.string(name),
                FieldKind::ShortText(text) => {
                    *(text.field.of_new_mut)(&mut new) = object.string(name);
                }
                FieldKind::Time(time) => *(time.of_new_mut)(&mut new) = object.parsed(name),
                FieldKind::Outcome(field) => *(field.of_new_mut)(&mut new) = object.parsed(name),
                FieldKind::Environment(field) => {
                    *(field.of_new_mut)(&mut new) = object.parsed(name);
                }
                FieldKind::Agent(field) => {
                    *(field.of_new_mut)(&mut new) = agent::read(object, name);
                }
                _ => {}
            }
        }
        new
    }

    fn check(&mut self, problems: &mut Violations, now: Timestamp) {
        check_title(problems, &mut self.title);
        for field in FIELDS {
            check_text(problems, field.name, &field.kind, |text| {
                Some((text.of_new_mut)(self))
            });
        }
        if let Some(agent) = &mut self.agent {
            agent::check(problems, agent);
        }
        check_services(problems, self.service_id, &mut self.service_ids);
        let has_service = self.service_id.is_some() || !self.service_ids.is_empty();
        check_reference(
            problems,
            "service_name",
            &mut self.service_name,
            has_service,
        );
        check_reference(
            problems,
            "hostname",
            &mut self.hostname,
            self.host_id.is_some(),
        );
        check_tags(problems, &mut self.tags);
        link::check(problems, &mut self.links);
        rules::past_time(problems, "/occurred_at", self.occurred_at, now);
        rules::past_time(problems, "/started_at", self.started_at, now);
        rules::past_time(problems, "/ended_at", self.ended_at, now);
        Progress::of_new(self).check(problems, "ended_at");
    }
}

/// Checks a name that is given instead of an id. An empty one is what an environment
/// variable that is not set becomes.
fn check_reference(
    problems: &mut Violations,
    field: &str,
    name: &mut Option<String>,
    has_id: bool,
) {
    let pointer = format!("/{field}");
    rules::optional_text(problems, &pointer, name, MAX_NAME_CHARS, TextKind::Line);
    if name.as_ref().is_some_and(String::is_empty) {
        *name = None;
    }
    if name.is_some() && has_id {
        let message = "cannot be given together with an id";
        problems.add(pointer, ViolationCode::OutOfRange, message);
    }
}

impl NewChange {
    /// Returns the rules about several members that a JSON schema can express.
    #[cfg(feature = "openapi")]
    pub(crate) fn conditions() -> Vec<serde_json::Value> {
        use serde_json::json;

        let given = |name: &str| json!({ "required": [name], "properties": { name: { "type": "string", "minLength": 1 } } });
        let no_service = json!({
            "service_id": { "type": "null" },
            "service_ids": { "type": ["array", "null"], "maxItems": 0 },
        });
        let no_host = json!({ "host_id": { "type": "null" } });
        let names = [("service_name", no_service), ("hostname", no_host)];
        let names = names.map(|(name, no_id)| crate::schema::implies(&given(name), &no_id));
        names
            .into_iter()
            .chain(super::progress::conditions(true))
            .collect()
    }

    /// Returns the ids of all services, the first one first.
    pub fn all_service_ids(&self) -> Vec<ServiceId> {
        match (self.service_id, self.service_ids.as_slice()) {
            (Some(id), []) => vec![id],
            (_, ids) => ids.to_vec(),
        }
    }

    /// Returns the time for which the change is recorded.
    pub fn recorded_for(&self, now: Timestamp) -> Timestamp {
        self.occurred_at.or(self.started_at).unwrap_or(now)
    }

    /// Returns the time by which the created change is listed, see
    /// [`Change::effective_at`].
    pub fn effective_at(&self, now: Timestamp) -> Timestamp {
        let progress = Progress::of_new(self).complete(self.occurred_at, now);
        progress.started_at.unwrap_or(self.recorded_for(now))
    }

    /// Returns the change that this input creates, without the names of its services
    /// and host, which the input does not have.
    pub fn into_change(
        self,
        id: ChangeId,
        organization_id: OrganizationId,
        author: Option<Author>,
        now: Timestamp,
    ) -> Change {
        let progress = Progress::of_new(&self).complete(self.occurred_at, now);
        Change {
            id,
            service_ids: self.all_service_ids(),
            occurred_at: self.recorded_for(now),
            title: self.title,
            description: self.description,
            risk_level: self.risk_level.unwrap_or(RiskLevel::Low),
            status: progress.status,
            outcome: progress.outcome,
            impact: self.impact,
            service: None,
            services: Vec::new(),
            host_ref: None,
            environment: self.environment,
            tags: self.tags,
            links: self.links,
            scheduled_for: self.scheduled_for,
            started_at: progress.started_at,
            ended_at: progress.ended_at,
            on_behalf_of: self.on_behalf_of,
            agent: self.agent,
            commit: self.commit,
            committed_at: self.committed_at,
            organization_id,
            created_at: now,
            created_by: author,
            source: None,
            updated_at: now,
            updated_by: None,
        }
    }
}

/// Input for creating several changes: all of them, or none when one is invalid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(example = json!({
    "changes": [
        { "title": "Deploy api 2.3", "status": "completed" },
        { "title": "Upgrade the database", "scheduled_for": "2027-01-15T22:00:00.000Z" },
    ],
    "notify": false,
})))]
#[serde(deny_unknown_fields)]
pub struct NewChanges {
    /// The changes, in the order in which they are created.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::BulkChanges))]
    pub changes: Vec<NewChange>,
    /// Whether receivers and subscribers are notified; true by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notify: Option<bool>,
}

impl Input for NewChanges {
    const FIELDS: &'static [&'static str] = &["changes", "notify"];

    fn read(object: &mut ObjectReader<'_>) -> Self {
        let changes = object.objects(
            "changes",
            MAX_BULK_CHANGES,
            NewChange::FIELDS,
            NewChange::read,
        );
        Self {
            changes: changes.unwrap_or_default(),
            notify: object.boolean("notify"),
        }
    }

    fn check(&mut self, problems: &mut Violations, now: Timestamp) {
        if self.changes.is_empty() {
            let message = "must contain at least one change";
            problems.add("/changes", ViolationCode::Required, message);
        }
        if !rules::at_most(problems, "/changes", &self.changes, MAX_BULK_CHANGES) {
            return;
        }
        for (index, change) in self.changes.iter_mut().enumerate() {
            let mut found = Violations::default();
            change.check(&mut found, now);
            problems.add_within(&format!("/changes/{index}"), found);
        }
    }
}
