//! Input for opening and updating incidents, and for marking a cause.

use serde::Serialize;

use super::{Incident, Severity};
use crate::host::Environment;
use crate::ids::{ChangeId, ServiceId};
use crate::incident::IncidentStatus;
use crate::input::{Input, ObjectReader};
use crate::limits::{MAX_NAME_CHARS, MAX_TITLE_CHARS, MIN_TITLE_CHARS};
use crate::problem::{ViolationCode, Violations};
use crate::rules::{self, TextKind};
use crate::time::Timestamp;

/// Input for opening an incident.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(example = json!({
    "title": "Checkout returns 502",
    "severity": "critical",
    "environment": "prod",
    "started_at": "2026-01-15T08:31:00.000Z",
    "url": "https://alerts.example.com/7",
})))]
#[serde(deny_unknown_fields)]
pub struct NewIncident {
    /// What broke, in one line.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Title))]
    pub title: String,
    /// How bad it is; `warning` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// The affected service of the organization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_id: Option<ServiceId>,
    /// The name of a service of the organization regardless of ASCII case, instead of
    /// its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::NameInstead>))]
    pub service_name: Option<String>,
    /// The affected environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// When it started; now by default. From 1970 until 5 minutes after the server time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::PastTime>))]
    pub started_at: Option<Timestamp>,
    /// A page about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::OptionalUrl>))]
    pub url: Option<String>,
}

/// Input for updating an incident. Absent fields keep their value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(example = json!({"severity": "info"})))]
#[serde(deny_unknown_fields)]
pub struct IncidentPatch {
    /// As on create.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Title, required = false))]
    pub title: Option<String>,
    /// How bad it is; null keeps the present value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// `resolved` ends it at `resolved_at` or else now, `open` opens it again; null keeps
    /// the present value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<IncidentStatus>,
    /// The affected service; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<ServiceId>))]
    pub service_id: Option<Option<ServiceId>>,
    /// The affected environment; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Environment>))]
    pub environment: Option<Option<Environment>>,
    /// As on create; null keeps the present value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::PastTime>))]
    pub started_at: Option<Timestamp>,
    /// When it was over, not before its start: for one that is or becomes resolved. Null
    /// keeps the present value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::PastTime>))]
    pub resolved_at: Option<Timestamp>,
    /// A page about it; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::OptionalUrl>))]
    pub url: Option<Option<String>>,
}

/// Input for marking the cause of an incident.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(example = json!({"change_id": null, "none_of_these": true})))]
#[serde(deny_unknown_fields)]
pub struct CauseInput {
    /// The change that is the cause; null takes a mark away.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub change_id: Option<ChangeId>,
    /// Whether no recorded change is the cause: with a `change_id` of null.
    #[serde(skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<bool>, required = false))]
    pub none_of_these: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(value: &bool) -> bool {
    !value
}

impl Input for NewIncident {
    const FIELDS: &'static [&'static str] = &[
        "title",
        "severity",
        "service_id",
        "service_name",
        "environment",
        "started_at",
        "url",
    ];

    fn read(object: &mut ObjectReader<'_>) -> Self {
        Self {
            title: object.required_string("title"),
            severity: object.parsed("severity"),
            service_id: object.parsed("service_id"),
            service_name: object.string("service_name"),
            environment: object.parsed("environment"),
            started_at: object.parsed("started_at"),
            url: object.string("url"),
        }
    }

    fn check(&mut self, problems: &mut Violations, now: Timestamp) {
        check_title(problems, &mut self.title);
        rules::past_time(problems, "/started_at", self.started_at, now);
        check_url(problems, &mut self.url);
        let pointer = "/service_name";
        let name = &mut self.service_name;
        rules::optional_text(problems, pointer, name, MAX_NAME_CHARS, TextKind::Line);
        if name.as_ref().is_some_and(String::is_empty) {
            *name = None;
        }
        if self.service_id.is_some() && name.is_some() {
            let message = "must not be given together with service_id; leave one of them out";
            problems.add(pointer, ViolationCode::OutOfRange, message);
        }
    }
}

impl Input for IncidentPatch {
    const FIELDS: &'static [&'static str] = &[
        "title",
        "severity",
        "status",
        "service_id",
        "environment",
        "started_at",
        "resolved_at",
        "url",
    ];

    fn read(object: &mut ObjectReader<'_>) -> Self {
        Self {
            title: object.patch_required_string("title"),
            severity: object.parsed("severity"),
            status: object.parsed("status"),
            service_id: object.patch("service_id", ObjectReader::parsed),
            environment: object.patch("environment", ObjectReader::parsed),
            started_at: object.parsed("started_at"),
            resolved_at: object.parsed("resolved_at"),
            url: object.patch("url", ObjectReader::string),
        }
    }

    fn check(&mut self, problems: &mut Violations, now: Timestamp) {
        if let Some(title) = &mut self.title {
            check_title(problems, title);
        }
        rules::past_time(problems, "/started_at", self.started_at, now);
        rules::past_time(problems, "/resolved_at", self.resolved_at, now);
        if let Some(url) = &mut self.url {
            check_url(problems, url);
        }
    }
}

impl Input for CauseInput {
    const FIELDS: &'static [&'static str] = &["change_id", "none_of_these"];

    fn read(object: &mut ObjectReader<'_>) -> Self {
        object.require("change_id");
        Self {
            change_id: object.parsed("change_id"),
            none_of_these: object.boolean("none_of_these").unwrap_or_default(),
        }
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        if self.none_of_these && self.change_id.is_some() {
            let message = "must not be true together with a change_id; leave one of them out";
            problems.add("/none_of_these", ViolationCode::OutOfRange, message);
        }
    }
}

impl IncidentPatch {
    /// Applies it to an incident, except the service, whose name is not known here. Reports
    /// what contradicts the status or the start of the incident.
    pub fn apply(self, incident: &mut Incident, now: Timestamp, problems: &mut Violations) {
        let Self {
            title,
            severity,
            status,
            service_id: _,
            environment,
            started_at,
            resolved_at,
            url,
        } = self;
        if let Some(title) = title {
            incident.title = title;
        }
        if let Some(severity) = severity {
            incident.severity = severity;
        }
        if let Some(environment) = environment {
            incident.environment = environment;
        }
        if let Some(started_at) = started_at {
            incident.started_at = started_at;
        }
        if let Some(url) = url {
            incident.url = url;
        }
        match status {
            Some(IncidentStatus::Resolved) if incident.is_open() => incident.resolve(now),
            Some(IncidentStatus::Open) => incident.reopen(),
            _ => {}
        }
        if let Some(at) = resolved_at {
            if incident.is_open() {
                let message = "needs the status resolved; set it, too, or leave resolved_at out";
                problems.add("/resolved_at", ViolationCode::OutOfRange, message);
                return;
            }
            incident.resolved_at = Some(at);
        }
        if let Some(at) = incident.resolved_at
            && at < incident.started_at
        {
            let start = incident.started_at;
            let message = format!("must be at or after the start ({start}), got {at}");
            problems.add("/resolved_at", ViolationCode::OutOfRange, message);
        }
    }
}

fn check_title(problems: &mut Violations, title: &mut String) {
    let chars = MIN_TITLE_CHARS..=MAX_TITLE_CHARS;
    rules::text(problems, "/title", title, chars, TextKind::Line);
}

/// Checks a URL; an empty one is what an environment variable that is not set becomes.
fn check_url(problems: &mut Violations, url: &mut Option<String>) {
    if url.as_ref().is_some_and(|url| url.trim().is_empty()) {
        *url = None;
    }
    if let Some(url) = url {
        rules::web_url(problems, "/url", url);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::input::from_object;

    fn now() -> Timestamp {
        "2026-11-25T12:00:00.000Z".parse().unwrap()
    }

    fn read<T: Input>(body: &Value) -> Result<T, Vec<String>> {
        let object = body.as_object().cloned().unwrap_or_default();
        let pointers = |invalid: crate::Invalid| {
            let violations = invalid.violations.into_iter();
            violations.map(|one| one.pointer).collect()
        };
        from_object(object, now()).map_err(pointers)
    }

    fn incident() -> Incident {
        let at = "2026-11-25T11:00:00.000Z";
        serde_json::from_value(json!({
            "id": "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90", "title": "Checkout is down",
            "severity": "critical", "status": "open", "started_at": at, "created_at": at,
            "updated_at": at,
        }))
        .unwrap()
    }

    #[test]
    fn what_breaks_a_rule_is_named() {
        for (body, pointers) in [
            (json!({}), &["/title"][..]),
            (json!({ "title": "ab" }), &["/title"]),
            (
                json!({ "title": "Down", "severity": "bad", "environment": "moon" }),
                &["/severity", "/environment"],
            ),
            (
                json!({ "title": "Down", "started_at": "2026-11-25T12:06:00Z", "url": "ftp://a" }),
                &["/started_at", "/url"],
            ),
            (json!({ "title": "Down", "status": "open" }), &["/status"]),
            (
                json!({ "title": "Down", "service_name": "a",
                        "service_id": "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90" }),
                &["/service_name"],
            ),
        ] {
            assert_eq!(read::<NewIncident>(&body).unwrap_err(), pointers, "{body}");
        }
        let new: NewIncident =
            read(&json!({ "title": " Down ", "url": "", "service_name": "" })).unwrap();
        assert_eq!(
            (&*new.title, new.url, new.service_name),
            ("Down", None, None)
        );
    }

    #[test]
    fn a_cause_is_a_change_or_none() {
        let id = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";
        assert!(read::<CauseInput>(&json!({})).is_err());
        let both = json!({ "change_id": id, "none_of_these": true });
        assert_eq!(read::<CauseInput>(&both).unwrap_err(), ["/none_of_these"]);
        let taken: CauseInput = read(&json!({ "change_id": null })).unwrap();
        assert_eq!(taken, CauseInput::default());
        let none: CauseInput = read(&json!({ "change_id": null, "none_of_these": true })).unwrap();
        assert!(none.none_of_these && none.change_id.is_none());
    }

    #[test]
    fn a_status_and_the_time_of_the_end_fit_together() {
        let apply = |body: Value, to: &mut Incident| {
            let mut problems = Violations::default();
            read::<IncidentPatch>(&body)
                .unwrap()
                .apply(to, now(), &mut problems);
            problems.into_result(()).is_ok()
        };
        let mut one = incident();
        assert!(!apply(
            json!({ "resolved_at": "2026-11-25T11:30:00Z" }),
            &mut one.clone()
        ));
        assert!(apply(json!({ "status": "resolved" }), &mut one));
        assert_eq!(one.resolved_at, Some(now()));
        assert!(apply(
            json!({ "resolved_at": "2026-11-25T11:30:00Z" }),
            &mut one
        ));
        assert!(!apply(
            json!({ "started_at": "2026-11-25T11:31:00Z" }),
            &mut one.clone()
        ));
        let before = one.clone();
        assert!(apply(json!({ "status": "resolved" }), &mut one));
        assert_eq!(one, before);
        assert!(apply(json!({ "status": "open" }), &mut one));
        assert_eq!((one.is_open(), one.resolved_at), (true, None));
    }
}
