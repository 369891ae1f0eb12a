//! The tool `list_incidents`: its arguments and its answer.

use changelog_core::input::ObjectReader;
use changelog_core::{
    Incident, IncidentFilter, IncidentId, IncidentStatus, Input, Service, Timestamp, Violations,
};
use rmcp::model::{CallToolResult, JsonObject};
use serde_json::{Value, json};

use super::answer::{self, Answer, MAX_TITLE_CHARS};
use super::arguments::{self, checked_time};
use super::tools::Tools;
use crate::web::ApiError;

/// The incidents that are read for one answer; more do not fit into it.
const INCIDENTS_PER_ANSWER: usize = 12;
/// The limit on the title of a suspect, in characters.
const MAX_SUSPECT_CHARS: usize = 80;

/// The arguments of `list_incidents`.
#[derive(Debug, Default)]
struct ListIncidents {
    service: Option<String>,
    since: Option<String>,
    until: Option<String>,
    filter: IncidentFilter,
}

impl Input for ListIncidents {
    const FIELDS: &'static [&'static str] = &["status", "service", "since", "until", "cursor"];

    fn read(object: &mut ObjectReader<'_>) -> Self {
        Self {
            service: object.string("service"),
            since: object.string("since"),
            until: object.string("until"),
            filter: IncidentFilter {
                status: object.parsed::<IncidentStatus>("status"),
                before: object.parsed::<IncidentId>("cursor"),
                limit: INCIDENTS_PER_ANSWER as u64,
                ..IncidentFilter::default()
            },
        }
    }

    fn check(&mut self, problems: &mut Violations, now: Timestamp) {
        self.filter.since = checked_time(problems, "/since", self.since.as_deref(), now);
        self.filter.until = checked_time(problems, "/until", self.until.as_deref(), now);
    }
}

/// Lists incidents, as `GET /api/incidents` does.
pub(super) async fn list_incidents(
    tools: &Tools,
    arguments: JsonObject,
) -> Result<CallToolResult, ApiError> {
    let arguments: ListIncidents = arguments::read(tools, arguments)?;
    let (store, tenant) = (&tools.app.store, tools.caller.tenant);
    let mut filter = arguments.filter;
    if let Some(service) = &arguments.service {
        let id = store.id_named::<Service>(tenant, service, "/service");
        filter.service_id = Some(id.await?);
    }
    let incidents = store.incidents(tenant, &filter).await?;
    let first = "incidents, open ones first, then by their start, the latest first";
    let mut answer = Answer::new("incidents", json!({}), first);
    let mut last = None;
    for incident in &incidents {
        if !answer.push(item(incident), &line(incident)) {
            break;
        }
        last = Some(incident.id);
    }
    let all_shown = last == incidents.last().map(|incident| incident.id);
    let is_last = all_shown && incidents.len() < INCIDENTS_PER_ANSWER;
    let cursor = last.filter(|_| !is_last).map(|id| id.to_string());
    Ok(answer.finish(cursor))
}

/// Returns an incident with its suspects; what others wrote is marked.
fn item(incident: &Incident) -> Value {
    let suspects = incident.suspects.iter().map(|suspect| {
        json!({
            "id": suspect.change.id,
            "at": suspect.change.at,
            "score": suspect.score,
            "untrusted": { "title": answer::excerpt(&suspect.change.title, MAX_SUSPECT_CHARS) },
        })
    });
    let suspects: Vec<Value> = suspects.collect();
    let untrusted = json!({ "title": answer::excerpt(&incident.title, MAX_TITLE_CHARS) });
    answer::without_empty(json!({
        "id": incident.id,
        "status": incident.status,
        "severity": incident.severity,
        "service": incident.service.as_ref().map(|service| &service.name),
        "environment": incident.environment,
        "started_at": incident.started_at,
        "resolved_at": incident.resolved_at,
        "source": incident.source.as_ref().map(|source| &source.name),
        "cause": cause(incident),
        "suspects": suspects,
        "untrusted": untrusted,
    }))
}

/// Returns what people have decided about the cause: the id of a change, or that none is.
fn cause(incident: &Incident) -> Option<String> {
    let cause = incident.cause.as_ref()?;
    Some(match cause.change_id {
        Some(id) => id.to_string(),
        None => "none of the recorded changes".to_owned(),
    })
}

/// Returns an incident as a line of text; what others wrote is quoted.
fn line(incident: &Incident) -> String {
    let mut words = vec![
        incident.started_at.to_string(),
        incident.status.to_string(),
        incident.severity.to_string(),
    ];
    words.extend(
        incident
            .service
            .as_ref()
            .map(|service| answer::quoted(&service.name)),
    );
    words.extend(incident.environment.as_ref().map(ToString::to_string));
    let title = answer::excerpt(&incident.title, MAX_TITLE_CHARS);
    words.push(format!("untrusted title {}", json!(title)));
    words.extend(cause(incident).map(|cause| format!("cause {cause}")));
    let suspects: Vec<String> = incident
        .suspects
        .iter()
        .map(|suspect| suspect.change.id.to_string())
        .collect();
    if !suspects.is_empty() {
        words.push(format!("suspects {}", suspects.join(" ")));
    }
    words.push(format!("id {}", incident.id));
    words.join(", ")
}
