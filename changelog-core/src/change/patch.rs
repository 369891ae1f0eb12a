//! Input for updating a change.

use serde::Serialize;

use super::checks::{check_services, check_tags, check_text, check_title, read_services};
use super::fields::{FIELDS, FieldKind, NAMES, ShortText};
use super::{Agent, Change, Link, Outcome, RiskLevel, Status, agent, link, progress};
use crate::host::Environment;
use crate::ids::{HostId, ServiceId};
use crate::input::{Input, ObjectReader};
use crate::limits::{MAX_LONG_TEXT_CHARS, MAX_TAGS};
use crate::problem::{ViolationCode, Violations};
use crate::rules::{self, TextKind};
use crate::time::Timestamp;

/// Input for updating a change. Absent fields keep their value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(example = json!({
    "status": "rolled_back",
    "outcome": "failed",
    "reason": "Card payments timed out",
})))]
#[serde(deny_unknown_fields)]
pub struct ChangePatch {
    /// The new title.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Title, required = false))]
    pub title: Option<String>,
    /// The new description; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::LongText>))]
    pub description: Option<Option<String>>,
    /// The new first service, which replaces the first service; null removes all
    /// services. With `service_ids`, one of them, which becomes the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<ServiceId>))]
    pub service_id: Option<Option<ServiceId>>,
    /// The new services, which replace all services; null removes all services.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::ServiceIds>))]
    pub service_ids: Option<Vec<ServiceId>>,
    /// The new host; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<HostId>))]
    pub host_id: Option<Option<HostId>>,
    /// The new environment; null sets that of the host. An environment that is that of
    /// the host follows a new host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Environment>))]
    pub environment: Option<Option<Environment>>,
    /// The new risk level; null keeps the present one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<RiskLevel>,
    /// The new status; null keeps the present one. It sets `started_at`, `ended_at`
    /// and `outcome` where the update does not: see the documentation of changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The new outcome; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Outcome>))]
    pub outcome: Option<Option<Outcome>>,
    /// Why the change was rolled back, for its history; needs the status `rolled_back`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::LongText>))]
    pub reason: Option<String>,
    /// The new impact; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::LongText>))]
    pub impact: Option<Option<String>>,
    /// The new tags, which replace all tags; null removes all tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Tags>))]
    pub tags: Option<Vec<String>>,
    /// The new links, which replace all links; null removes all links.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Links>))]
    pub links: Option<Vec<Link>>,
    /// The new scheduled time; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Timestamp>))]
    pub scheduled_for: Option<Option<Timestamp>>,
    /// The corrected start; null sets `occurred_at`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::PastTime>))]
    pub started_at: Option<Option<Timestamp>>,
    /// The corrected end; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::PastTime>))]
    pub ended_at: Option<Option<Timestamp>>,
    /// The new person for whom an API key acted; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::PersonClaim>))]
    pub on_behalf_of: Option<Option<String>>,
    /// The new automation that acted; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<super::schemas::NewAgent>))]
    pub agent: Option<Option<Agent>>,
    /// The new commit; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Commit>))]
    pub commit: Option<Option<String>>,
    /// The new time of the commit; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Timestamp>))]
    pub committed_at: Option<Option<Timestamp>>,
}

/// The fields of an update: all but the last of [`NAMES`], `occurred_at`, and the
/// reason.
const PATCH_NAMES: [&str; NAMES.len()] = {
    let mut names = NAMES;
    names[NAMES.len() - 1] = "reason";
    names
};

impl Input for ChangePatch {
    const FIELDS: &'static [&'static str] = &PATCH_NAMES;

    fn read(object: &mut ObjectReader<'_>) -> Self {
        object.refuse_immutable(
            "occurred_at",
            "cannot be changed: the id of a change is derived from it; correct started_at instead",
        );
        let mut patch = Self {
            title: object.patch_required_string("title"),
            service_id: object.patch("service_id", ObjectReader::parsed),
            service_ids: object
                .patch("service_ids", |object, _| read_services(object))
                .map(Option::unwrap_or_default),
            host_id: object.patch("host_id", ObjectReader::parsed),
            risk_level: object.parsed("risk_level"),
            status: object.parsed("status"),
            reason: object.string("reason"),
            tags: object
                .patch("tags", |object, name| object.strings(name, MAX_TAGS))
                .map(Option::unwrap_or_default),
            links: object
                .patch("links", link::read)
                .map(Option::unwrap_or_default),
            ..Self::default()
        };
        for field in FIELDS {
            let name = field.name;
            match field.kind {
                FieldKind::LongText(text) => {
                    *(text.of_patch_mut)(&mut patch) = object.patch(name, ObjectReader::string);
                }
                FieldKind::ShortText(text) => {
                    *(text.field.of_patch_mut)(&mut patch) =
                        object.patch(name, ObjectReader::string);
                }
                FieldKind::Time(time) => {
                    *(time.of_patch_mut)(&mut patch) = object.patch(name, ObjectReader::parsed);
                }
                FieldKind::Outcome(field) => {
                    *(field.of_patch_mut)(&mut patch) = object.patch(name, ObjectReader::parsed);
                }
                FieldKind::Environment(field) => {
                    *(field.of_patch_mut)(&mut patch) = object.patch(name, ObjectReader::parsed);
                }
                FieldKind::Agent(field) => {
                    *(field.of_patch_mut)(&mut patch) = object.patch(name, agent::read);
                }
                _ => {}
            }
        }
        patch
    }

    fn check(&mut self, problems: &mut Violations, now: Timestamp) {
        if let Some(title) = &mut self.title {
            check_title(problems, title);
        }
        for field in FIELDS {
            check_text(problems, field.name, &field.kind, |text| {
                (text.of_patch_mut)(self).as_mut()
            });
        }
        let kind = TextKind::MultiLine;
        rules::optional_text(
            problems,
            "/reason",
            &mut self.reason,
            MAX_LONG_TEXT_CHARS,
            kind,
        );
        // An empty one is none: it would be recorded as an update that changes nothing.
        self.reason.take_if(|reason| reason.is_empty());
        if let Some(Some(agent)) = &mut self.agent {
            agent::check(problems, agent);
        }
        if let Some(services) = &mut self.service_ids {
            if self.service_id == Some(None) && !services.is_empty() {
                let message = "must not be null together with service_ids";
                problems.add("/service_id", ViolationCode::OutOfRange, message);
            }
            check_services(problems, self.service_id.flatten(), services);
        }
        if let Some(tags) = &mut self.tags {
            check_tags(problems, tags);
        }
        if let Some(links) = &mut self.links {
            link::check(problems, links);
        }
        rules::past_time(problems, "/started_at", self.started_at.flatten(), now);
        rules::past_time(problems, "/ended_at", self.ended_at.flatten(), now);
    }
}

impl ChangePatch {
    /// Returns the rules about several members that a JSON schema can express.
    #[cfg(feature = "openapi")]
    pub(crate) fn conditions() -> Vec<serde_json::Value> {
        use serde_json::json;

        let has_services = json!({
            "required": ["service_id", "service_ids"],
            "properties": { "service_ids": { "type": "array", "minItems": 1 } },
        });
        let has_first = json!({ "service_id": { "type": "string" } });
        let services = crate::schema::implies(&has_services, &has_first);
        progress::conditions(false).chain([services]).collect()
    }

    /// Returns the services that a change with `before` has after this update; `None`
    /// if the update keeps them.
    pub fn services_after(&self, before: &[ServiceId]) -> Option<Vec<ServiceId>> {
        if let Some(ids) = &self.service_ids {
            return Some(ids.clone());
        }
        match self.service_id? {
            None => Some(Vec::new()),
            Some(first) => {
                let others = before.iter().skip(1).filter(|id| **id != first);
                Some(std::iter::once(first).chain(others.copied()).collect())
            }
        }
    }

    /// Sets the fields of a change that this update, made at `now`, has, except
    /// services, host and environment, which depend on what the organization has.
    /// Reports fields that contradict the status that the change then has.
    pub fn apply(mut self, change: &mut Change, now: Timestamp, problems: &mut Violations) {
        fn set<T>(value: &mut T, new: Option<T>) {
            if let Some(new) = new {
                *value = new;
            }
        }
        progress::apply(change, &mut self, now, problems);
        if self
            .commit
            .as_ref()
            .is_some_and(|commit| *commit != change.commit)
        {
            // The time was that of the commit before.
            self.committed_at.get_or_insert(None);
        }
        for field in FIELDS {
            match field.kind {
                FieldKind::Title => set(&mut change.title, self.title.take()),
                FieldKind::LongText(text) | FieldKind::ShortText(ShortText { field: text, .. }) => {
                    set((text.of_mut)(change), (text.of_patch_mut)(&mut self).take());
                }
                FieldKind::RiskLevel => set(&mut change.risk_level, self.risk_level.take()),
                FieldKind::Tags => set(&mut change.tags, self.tags.take()),
                FieldKind::Links => set(&mut change.links, self.links.take()),
                FieldKind::Agent(agent) => {
                    set(
                        (agent.of_mut)(change),
                        (agent.of_patch_mut)(&mut self).take(),
                    );
                }
                FieldKind::Time(time) if !matches!(field.name, "started_at" | "ended_at") => {
                    set((time.of_mut)(change), (time.of_patch_mut)(&mut self).take());
                }
                // Set above, or by the caller.
                FieldKind::Time(_)
                | FieldKind::Status
                | FieldKind::Outcome(_)
                | FieldKind::Service
                | FieldKind::Services
                | FieldKind::Host
                | FieldKind::Environment(_)
                | FieldKind::OccurredAt => {}
            }
        }
    }
}
