//! The arguments of tools: read and checked like bodies of the API, with names in place of ids
//! and times as people write them.

use changelog_core::input::{ObjectReader, from_object};
use changelog_core::limits::{MAX_NAME_CHARS, MAX_TAGS, MAX_WINDOW_MINUTES};
use changelog_core::written_time::{Tense, WrittenTime, parse_length};
use changelog_core::{
    AroundFilter, ChangeCursor, ChangeFilter, ChangeId, Environment, Host, Input, Invalid, MadeBy,
    ProblemCode, RiskLevel, Service, Status, Timestamp, ViolationCode, Violations,
};
use chrono::Utc;
use rmcp::model::JsonObject;

use super::tools::Tools;
use super::whole::Position;
use crate::web::ApiError;

/// Reads the arguments of a tool.
pub(super) fn read<T: Input>(tools: &Tools, arguments: JsonObject) -> Result<T, ApiError> {
    from_object(arguments, tools.app.now().into()).map_err(refused)
}

/// Returns the error for arguments that break rules.
pub(super) fn refused(invalid: Invalid) -> ApiError {
    ApiError::invalid(ProblemCode::ValidationFailed, invalid)
}

/// Reads a time as people write it: RFC 3339, `now-15m`, `2h`, `14:20` (UTC).
pub(super) fn time(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let written = WrittenTime::parse(text, now, &Utc, Tense::Past);
    start(written, text, now, "now-15m")
}

/// Reads a time for which a change is planned: RFC 3339, `in 2h`, `23:00` (UTC).
pub(super) fn scheduled_time(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let written = WrittenTime::parse_scheduled(text, now, &Utc);
    start(written, text, now, "in 2h")
}

fn start(
    written: Result<Option<WrittenTime>, String>,
    text: &str,
    now: Timestamp,
    relative: &str,
) -> Result<Timestamp, String> {
    match written {
        Ok(Some(written)) => Ok(written.start(now, &Utc)),
        Ok(None) => Err(format!(
            "must be a time such as 2026-11-21T08:30:00Z, {relative} or 14:20 (UTC), got {text:?}"
        )),
        Err(why) => Err(format!("{why}, got {text:?}")),
    }
}

/// Takes a time, to be read when the present time is known.
pub(super) fn checked_time(
    problems: &mut Violations,
    pointer: &str,
    text: Option<&str>,
    now: Timestamp,
) -> Option<Timestamp> {
    match time(text?, now) {
        Ok(at) => Some(at),
        Err(message) => {
            problems.add(pointer, ViolationCode::InvalidFormat, message);
            None
        }
    }
}

/// The arguments of `what_changed`.
#[derive(Debug, Default)]
pub(super) struct WhatChanged {
    at: Option<String>,
    service: Option<String>,
    host: Option<String>,
    environment: Option<Environment>,
    symptom: Option<String>,
    window: Option<String>,
    cursor: Option<String>,
    moment: Option<Timestamp>,
    window_minutes: Option<u64>,
    /// How many suspects earlier answers have shown.
    pub(super) offset: usize,
}

impl Input for WhatChanged {
    const FIELDS: &'static [&'static str] = &[
        "at",
        "service",
        "host",
        "environment",
        "symptom",
        "window",
        "cursor",
    ];

    fn read(object: &mut ObjectReader<'_>) -> Self {
        Self {
            at: object.string("at"),
            service: object.string("service"),
            host: object.string("host"),
            environment: object.parsed("environment"),
            symptom: object.string("symptom"),
            window: object.string("window"),
            cursor: object.string("cursor"),
            ..Self::default()
        }
    }

    fn check(&mut self, problems: &mut Violations, now: Timestamp) {
        self.moment = checked_time(problems, "/at", self.at.as_deref(), now);
        if let Some(window) = &self.window {
            let minutes = parse_length(window).map(|length| length.as_secs().div_ceil(60));
            self.window_minutes = minutes.filter(|one| (1..=MAX_WINDOW_MINUTES).contains(one));
            if self.window_minutes.is_none() {
                let message = format!(
                    "must be a length of time such as 2h or 7d, of at most {MAX_WINDOW_MINUTES} \
                     minutes, got {window:?}"
                );
                problems.add("/window", ViolationCode::InvalidFormat, message);
            }
        }
        if let Some(cursor) = &self.cursor {
            // The moment is that of the first answer, although time has passed.
            let parts = cursor.split_once('.');
            let read = parts
                .and_then(|(millis, offset)| Some((millis.parse().ok()?, offset.parse().ok()?)));
            if let Some((millis, offset)) = read {
                self.moment = Some(Timestamp::from_millis(millis));
                self.offset = offset;
            } else {
                bad_cursor(problems);
            }
        }
    }
}

impl WhatChanged {
    /// Returns the question that the API answers.
    pub(super) async fn filter(&self, tools: &Tools) -> Result<AroundFilter, ApiError> {
        let (store, tenant) = (&tools.app.store, tools.caller.tenant);
        let mut filter = AroundFilter {
            at: Some(self.moment.unwrap_or(tools.app.now().into())),
            environment: self.environment.clone(),
            q: self.symptom.clone(),
            window_minutes: self.window_minutes,
            ..AroundFilter::default()
        };
        if let Some(service) = &self.service {
            let id = store.id_named::<Service>(tenant, service, "/service");
            filter.service_id = Some(id.await?);
        }
        if let Some(host) = &self.host {
            let id = store.id_named::<Host>(tenant, host, "/host");
            filter.host_id = Some(id.await?);
        }
        // The rules of the API, such as the number of words.
        AroundFilter::from_query(&filter.to_query()).map_err(refused)
    }
}

/// The arguments of `search_changes`.
#[derive(Debug, Default)]
pub(super) struct SearchChanges {
    service: Option<String>,
    host: Option<String>,
    since: Option<String>,
    until: Option<String>,
    filter: ChangeFilter,
}

impl Input for SearchChanges {
    const FIELDS: &'static [&'static str] = &[
        "text",
        "service",
        "host",
        "environment",
        "min_risk",
        "status",
        "tags",
        "agent",
        "by",
        "recorded_by",
        "since",
        "until",
        "cursor",
    ];

    fn read(object: &mut ObjectReader<'_>) -> Self {
        let min_risk: Option<RiskLevel> = object.parsed("min_risk");
        Self {
            service: object.string("service"),
            host: object.string("host"),
            since: object.string("since"),
            until: object.string("until"),
            filter: ChangeFilter {
                text: object.string("text"),
                environments: object
                    .parsed::<Environment>("environment")
                    .into_iter()
                    .collect(),
                risk_levels: min_risk.as_ref().map(at_least).unwrap_or_default(),
                statuses: object.parsed::<Status>("status").into_iter().collect(),
                tags: object.strings("tags", MAX_TAGS).unwrap_or_default(),
                agent: object.string("agent"),
                made_by: object.parsed::<MadeBy>("by").into_iter().collect(),
                created_by: object.string("recorded_by"),
                before: object.parsed::<ChangeCursor>("cursor"),
                ..ChangeFilter::default()
            },
        }
    }

    fn check(&mut self, problems: &mut Violations, now: Timestamp) {
        self.filter.since = checked_time(problems, "/since", self.since.as_deref(), now);
        self.filter.until = checked_time(problems, "/until", self.until.as_deref(), now);
    }
}

/// Returns a risk level and those above it.
fn at_least(least: &RiskLevel) -> Vec<RiskLevel> {
    let levels = RiskLevel::ALL.iter();
    levels.filter(|level| *level >= least).cloned().collect()
}

impl SearchChanges {
    /// Returns the filter of the API, for a page of at most so many changes.
    pub(super) async fn filter(&self, tools: &Tools, limit: u64) -> Result<ChangeFilter, ApiError> {
        let (store, tenant) = (&tools.app.store, tools.caller.tenant);
        let mut filter = ChangeFilter {
            per_page: limit,
            ..self.filter.clone()
        };
        if let Some(service) = &self.service {
            let id = store.id_named::<Service>(tenant, service, "/service");
            filter.service_id = Some(id.await?);
        }
        if let Some(host) = &self.host {
            let id = store.id_named::<Host>(tenant, host, "/host");
            filter.host_id = Some(id.await?);
        }
        // The rules of the API, such as the number of words.
        ChangeFilter::from_query(&filter.to_query()).map_err(refused)
    }
}

/// The arguments of `get_change`.
#[derive(Debug)]
pub(super) struct GetChange {
    pub(super) id: Option<ChangeId>,
    cursor: Option<String>,
    /// From where on it is wanted, if not from the beginning.
    pub(super) from: Option<Position>,
}

impl Input for GetChange {
    const FIELDS: &'static [&'static str] = &["id", "cursor"];

    fn read(object: &mut ObjectReader<'_>) -> Self {
        Self {
            id: object.parsed("id"),
            cursor: object.string("cursor"),
            from: None,
        }
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        if self.id.is_none() {
            problems.add("/id", ViolationCode::Required, "is required");
        }
        match self.cursor.as_deref().map(str::parse) {
            Some(Ok(from)) => self.from = Some(from),
            Some(Err(_)) => bad_cursor(problems),
            None => {}
        }
    }
}

fn bad_cursor(problems: &mut Violations) {
    let message = "must be the next_cursor of an answer";
    problems.add("/cursor", ViolationCode::InvalidFormat, message);
}

/// The arguments of `list_services`.
#[derive(Debug)]
pub(super) struct ListServices {
    /// The name after which the list continues.
    pub(super) after: String,
}

impl Input for ListServices {
    const FIELDS: &'static [&'static str] = &["cursor"];

    fn read(object: &mut ObjectReader<'_>) -> Self {
        Self {
            after: object.string("cursor").unwrap_or_default(),
        }
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        // PostgreSQL rejects NUL.
        if self.after.contains('\0') || self.after.chars().count() > MAX_NAME_CHARS {
            bad_cursor(problems);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative_or_exact() {
        let now: Timestamp = "2026-11-21T08:30:00.000Z".parse().unwrap();
        for (text, expected) in [
            ("now", "2026-11-21T08:30:00.000Z"),
            ("now-15m", "2026-11-21T08:15:00.000Z"),
            ("2h", "2026-11-21T06:30:00.000Z"),
            ("2026-11-20T00:00:00+01:00", "2026-11-19T23:00:00.000Z"),
            ("07:00", "2026-11-21T07:00:00.000Z"),
        ] {
            assert_eq!(time(text, now).unwrap().to_string(), expected, "{text}");
        }
        assert!(time("soon", now).unwrap_err().contains("now-15m"));
    }

    #[test]
    fn a_scheduled_time_is_the_next_one() {
        let now: Timestamp = "2026-11-21T08:30:00.000Z".parse().unwrap();
        for (text, expected) in [
            ("23:00", "2026-11-21T23:00:00.000Z"),
            ("07:00", "2026-11-22T07:00:00.000Z"),
            ("in 2h", "2026-11-21T10:30:00.000Z"),
            ("2026-12-01T04:00:00Z", "2026-12-01T04:00:00.000Z"),
        ] {
            let at = scheduled_time(text, now).unwrap();
            assert_eq!(at.to_string(), expected, "{text}");
        }
        for refused in ["2h", "3d", "now-15m", "soon"] {
            let message = scheduled_time(refused, now).unwrap_err();
            assert!(message.contains("in 2h"), "{refused}: {message}");
        }
    }
}
