//! When a change started, when it ended, and how: the rules that connect these fields
//! with the status.

use super::{Change, ChangePatch, NewChange, Outcome, Status};
use crate::problem::{ViolationCode, Violations};
use crate::time::Timestamp;

/// The fields that depend on the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) status: Status,
    pub(super) started_at: Option<Timestamp>,
    pub(super) ended_at: Option<Timestamp>,
    pub(super) outcome: Option<Outcome>,
}

impl Progress {
    /// Returns the fields as a client gave them for a change that is to be created.
    pub(super) fn of_new(new: &NewChange) -> Self {
        Self {
            status: new.status.clone().unwrap_or(Status::Planned),
            started_at: new.started_at,
            ended_at: new.ended_at,
            outcome: new.outcome.clone(),
        }
    }

    /// Reports fields that contradict the status, and times that contradict each
    /// other. Only fields that the client gave can contradict.
    ///
    /// `end_field` is the field to which a wrong order of the times is attributed.
    pub(super) fn check(&self, problems: &mut Violations, end_field: &str) {
        let planned = self.status == Status::Planned;
        let mut add = |field: &str, needed: &str| {
            let message = format!(
                "cannot be set while the status is {}; it needs the status {needed}",
                self.status
            );
            problems.add(format!("/{field}"), ViolationCode::OutOfRange, message);
        };
        if planned && self.started_at.is_some() {
            add("started_at", "in_progress, completed or rolled_back");
        }
        if planned && self.outcome.is_some() {
            add("outcome", "in_progress, completed or rolled_back");
        }
        if !self.status.is_ended() && self.ended_at.is_some() {
            add("ended_at", "completed or rolled_back");
        }
        if let Some(outcome) = &self.outcome
            && !fits(&self.status, outcome)
            && !planned
        {
            let message = format!(
                "cannot be {outcome} while the status is {}: succeeded needs the status \
                 completed, failed and undone need rolled_back",
                self.status
            );
            problems.add("/outcome", ViolationCode::OutOfRange, message);
        }
        if let (Some(start), Some(end)) = (self.started_at, self.ended_at)
            && end < start
        {
            let message = if end_field == "ended_at" {
                format!("must not be before started_at ({start}), got {end}")
            } else {
                format!("must not be after ended_at ({end}), got {start}")
            };
            problems.add(format!("/{end_field}"), ViolationCode::OutOfRange, message);
        }
    }

    /// Completes the times of a change that is created at `now`.
    pub(super) fn complete(mut self, occurred_at: Option<Timestamp>, now: Timestamp) -> Self {
        if self.status == Status::Planned {
            return self;
        }
        let recorded = occurred_at.unwrap_or(now);
        let start = self.started_at.unwrap_or_else(|| match self.ended_at {
            Some(end) => recorded.min(end),
            None => recorded,
        });
        self.started_at = Some(start);
        if self.status.is_ended() {
            self.ended_at = self.ended_at.or(Some(recorded.max(start)));
        }
        self
    }
}

/// Whether a change with this status can have this outcome. A change that is completed has
/// not failed: the counts by status, the rate of rollbacks and the filters rely on it.
fn fits(status: &Status, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Succeeded => *status != Status::RolledBack,
        Outcome::Failed | Outcome::Undone => *status != Status::Completed,
        _ => true,
    }
}

/// Returns what a JSON schema can say of [`Progress::check`]: the members that an object
/// with each status cannot have. A new change without a status is planned; only an update
/// has a reason.
#[cfg(feature = "openapi")]
pub(super) fn conditions(is_new: bool) -> impl Iterator<Item = serde_json::Value> {
    use serde_json::json;

    let absent = json!({ "type": "null" });
    Status::ALL.iter().map(move |status| {
        let planned = *status == Status::Planned;
        let fitting = |outcome: &&Outcome| !planned && fits(status, outcome);
        let outcomes = Outcome::ALL.iter().filter(fitting).map(Some);
        let outcomes: Vec<_> = outcomes.chain([None]).collect();
        let mut members = json!({ "outcome": { "enum": outcomes } });
        for (name, refused) in [
            ("started_at", planned),
            ("ended_at", !status.is_ended()),
            ("reason", !is_new && *status != Status::RolledBack),
        ] {
            if refused {
                members[name] = absent.clone();
            }
        }
        let condition = if is_new && planned {
            json!({ "properties": { "status": { "enum": [status, null] } } })
        } else {
            json!({ "required": ["status"], "properties": { "status": { "enum": [status] } } })
        };
        crate::schema::implies(&condition, &members)
    })
}

/// Returns the status of a change that has ended otherwise than its new outcome says: a
/// change that has failed is rolled back.
fn implied(before: &Status, outcome: &Outcome) -> Option<Status> {
    let is_contradiction = before.is_ended() && !fits(before, outcome);
    is_contradiction.then_some(match before {
        Status::Completed => Status::RolledBack,
        _ => Status::Completed,
    })
}

/// Applies the fields of an update that is made at `now`, and reports those that
/// contradict the status that the change then has.
pub(super) fn apply(
    change: &mut Change,
    patch: &mut ChangePatch,
    now: Timestamp,
    problems: &mut Violations,
) {
    let before = change.status.clone();
    let outcome = patch.outcome.as_ref().and_then(Option::as_ref);
    let implied = outcome.and_then(|outcome| implied(&before, outcome));
    // A correction of how the change ended does not change when.
    if patch.status.is_none() && implied.is_some() && patch.ended_at.is_none() {
        patch.ended_at = Some(change.ended_at);
    }
    let status = patch.status.take().or(implied);
    let status = status.unwrap_or_else(|| before.clone());
    let given = Progress {
        status: status.clone(),
        started_at: patch.started_at.flatten(),
        ended_at: patch.ended_at.flatten(),
        outcome: patch.outcome.clone().flatten(),
    };
    let moved = status != before;
    let mut after = Progress {
        status,
        started_at: given.started_at.or(match patch.started_at {
            // Without a start of its own, the change is listed as it was recorded.
            Some(None) => Some(change.occurred_at),
            _ => change.started_at,
        }),
        ended_at: match patch.ended_at {
            Some(end) => end,
            None if moved => None,
            None => change.ended_at,
        },
        outcome: match patch.outcome.take() {
            Some(outcome) => outcome,
            // What was known of a change in progress is still known when it ends.
            None if moved && (before.is_ended() || !given.status.is_ended()) => None,
            None => (change.outcome.clone()).filter(|outcome| fits(&given.status, outcome)),
        },
    };
    if after.status == Status::Planned {
        given.check(problems, "ended_at");
        after = Progress {
            started_at: None,
            ended_at: None,
            outcome: None,
            ..after
        };
    } else {
        let start = *after.started_at.get_or_insert(match after.ended_at {
            Some(end) => now.min(end),
            None => now,
        });
        if moved && after.status.is_ended() {
            after.ended_at = after.ended_at.or(Some(now.max(start)));
            if after.status == Status::RolledBack {
                after.outcome.get_or_insert(Outcome::Undone);
            }
        }
        let gives_start = patch.started_at.is_some() && patch.ended_at.is_none();
        after.check(
            problems,
            if gives_start {
                "started_at"
            } else {
                "ended_at"
            },
        );
    }
    if patch.reason.is_some() && after.status != Status::RolledBack {
        let message = "needs the status rolled_back: it says why the change was rolled back";
        problems.add("/reason", ViolationCode::OutOfRange, message);
    }
    change.status = after.status;
    change.started_at = after.started_at;
    change.ended_at = after.ended_at;
    change.outcome = after.outcome;
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::input::{InputError, from_json};

    fn at(time: &str) -> Timestamp {
        format!("2026-11-22T{time}:00.000Z").parse().unwrap()
    }

    fn created(body: Value, now: &str) -> Change {
        let mut body = body;
        body["title"] = json!("Deploy");
        let new: NewChange = from_json(body.to_string().as_bytes(), at(now)).unwrap();
        let id = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";
        new.into_change(id.parse().unwrap(), id.parse().unwrap(), None, at(now))
    }

    fn times(change: &Change) -> [Option<Timestamp>; 2] {
        [change.started_at, change.ended_at]
    }

    #[test]
    fn a_new_change_has_the_times_of_its_status() {
        let ten = "2026-11-22T10:00:00Z";
        let eleven = "2026-11-22T11:00:00Z";
        for (body, expected) in [
            (json!({}), [None, None]),
            (json!({ "occurred_at": ten }), [None, None]),
            (json!({ "status": "in_progress" }), [Some("12:00"), None]),
            (
                json!({ "status": "in_progress", "started_at": ten }),
                [Some("10:00"), None],
            ),
            (
                json!({ "status": "completed" }),
                [Some("12:00"), Some("12:00")],
            ),
            (
                json!({ "status": "completed", "occurred_at": ten }),
                [Some("10:00"), Some("10:00")],
            ),
            (
                json!({ "status": "rolled_back", "started_at": ten }),
                [Some("10:00"), Some("12:00")],
            ),
            (
                json!({ "status": "completed", "ended_at": ten }),
                [Some("10:00"), Some("10:00")],
            ),
            (
                json!({ "status": "completed", "started_at": ten, "ended_at": eleven }),
                [Some("10:00"), Some("11:00")],
            ),
        ] {
            let change = created(body.clone(), "12:00");
            assert_eq!(times(&change), expected.map(|time| time.map(at)), "{body}");
        }
        let change = created(json!({ "status": "completed", "started_at": ten }), "12:00");
        assert_eq!(change.occurred_at, at("10:00"));
        assert_eq!(change.duration(), Some(chrono::TimeDelta::hours(2)));
        assert_eq!(
            created(json!({ "status": "completed" }), "12:00").duration(),
            None
        );
    }

    #[test]
    fn times_that_contradict_the_status_are_refused() {
        let (ten, late) = ("2026-11-22T10:00:00Z", "2026-11-22T12:05:00.001Z");
        for (body, pointer) in [
            (json!({ "started_at": ten }), "/started_at"),
            (json!({ "outcome": "failed" }), "/outcome"),
            (
                json!({ "status": "completed", "outcome": "failed" }),
                "/outcome",
            ),
            (
                json!({ "status": "rolled_back", "outcome": "succeeded" }),
                "/outcome",
            ),
            (json!({ "ended_at": ten }), "/ended_at"),
            (
                json!({ "status": "in_progress", "ended_at": ten }),
                "/ended_at",
            ),
            (
                json!({ "status": "completed", "started_at": late }),
                "/started_at",
            ),
            (
                json!({ "status": "completed", "ended_at": late }),
                "/ended_at",
            ),
            (
                json!({ "status": "completed", "ended_at": "2026-11-22T09:00:00Z", "started_at": ten }),
                "/ended_at",
            ),
        ] {
            let mut new = body.clone();
            new["title"] = json!("Deploy");
            let error = from_json::<NewChange>(new.to_string().as_bytes(), at("12:00"));
            let Err(InputError::Invalid(invalid)) = error else {
                panic!("{body} is accepted");
            };
            assert_eq!(invalid.violations[0].pointer, pointer, "{body}");
        }
    }

    /// Applies updates, a minute apart from 10:00 on, and returns the change with the
    /// pointers of the violations of the last one.
    fn updated(new: Value, patches: &[Value]) -> (Change, Vec<String>) {
        let mut change = created(new, "09:00");
        let mut broken = Vec::new();
        for (minute, body) in patches.iter().enumerate() {
            let now = at(&format!("10:{minute:02}"));
            let patch: ChangePatch = from_json(body.to_string().as_bytes(), now).unwrap();
            let mut problems = Violations::default();
            patch.apply(&mut change, now, &mut problems);
            broken = match problems.into_result(()) {
                Ok(()) => Vec::new(),
                Err(invalid) => invalid
                    .violations
                    .into_iter()
                    .map(|one| one.pointer)
                    .collect(),
            };
        }
        (change, broken)
    }

    #[test]
    fn an_update_of_the_status_sets_the_times() {
        let to = |status: &str| json!({ "status": status });
        let started = json!({ "status": "in_progress", "started_at": "2026-11-22T08:00:00Z" });
        for (patches, expected, outcome) in [
            (vec![to("in_progress")], [Some("10:00"), None], None),
            (
                vec![to("in_progress"), to("completed")],
                [Some("10:00"), Some("10:01")],
                None,
            ),
            (vec![to("completed")], [Some("10:00"), Some("10:00")], None),
            (
                vec![started.clone(), to("completed")],
                [Some("08:00"), Some("10:01")],
                None,
            ),
            (
                vec![to("completed"), to("rolled_back")],
                [Some("10:00"), Some("10:01")],
                Some(Outcome::Undone),
            ),
            (
                vec![json!({ "status": "rolled_back", "outcome": "failed" })],
                [Some("10:00"), Some("10:00")],
                Some(Outcome::Failed),
            ),
            (
                vec![
                    json!({ "status": "completed", "outcome": "succeeded" }),
                    to("in_progress"),
                ],
                [Some("10:00"), None],
                None,
            ),
            (vec![to("completed"), to("planned")], [None, None], None),
            (
                vec![to("completed"), to("planned"), to("in_progress")],
                [Some("10:02"), None],
                None,
            ),
            (
                vec![to("completed"), json!({ "started_at": null })],
                [Some("09:00"), Some("10:00")],
                None,
            ),
            (
                vec![to("completed"), json!({ "ended_at": null })],
                [Some("10:00"), None],
                None,
            ),
            (
                vec![to("completed"), to("completed")],
                [Some("10:00"), Some("10:00")],
                None,
            ),
        ] {
            let (change, broken) = updated(json!({}), &patches);
            assert!(broken.is_empty(), "{patches:?}: {broken:?}");
            assert_eq!(
                times(&change),
                expected.map(|time| time.map(at)),
                "{patches:?}"
            );
            assert_eq!(change.outcome, outcome, "{patches:?}");
            assert_eq!(change.occurred_at, at("09:00"));
        }
    }

    #[test]
    fn what_is_known_of_a_change_in_progress_is_kept_when_it_ends() {
        let failed = json!({ "status": "in_progress", "outcome": "failed" });
        let to = |status: &str| json!({ "status": status });
        let (change, _) = updated(json!({}), &[failed.clone(), to("rolled_back")]);
        assert_eq!(change.outcome, Some(Outcome::Failed));
        // What the new status contradicts is not kept.
        let (change, _) = updated(json!({}), &[failed.clone(), to("completed")]);
        assert_eq!(change.outcome, None);
        // Undone later, and opened again.
        let succeeded = json!({ "status": "completed", "outcome": "succeeded" });
        let (change, _) = updated(json!({}), &[succeeded.clone(), to("rolled_back")]);
        assert_eq!(change.outcome, Some(Outcome::Undone));
        let (change, _) = updated(json!({}), &[succeeded, to("in_progress")]);
        assert_eq!(change.outcome, None);
    }

    #[test]
    fn an_outcome_moves_a_change_that_ended_otherwise() {
        let outcome = |outcome: &str| json!({ "outcome": outcome });
        let completed = json!({ "status": "completed", "started_at": "2026-11-22T08:00:00Z" });
        for (patches, status, ended) in [
            (vec![outcome("failed")], Status::RolledBack, "10:00"),
            (vec![outcome("undone")], Status::RolledBack, "10:00"),
            (vec![outcome("unknown")], Status::Completed, "10:00"),
            (
                vec![outcome("failed"), outcome("succeeded")],
                Status::Completed,
                "10:00",
            ),
        ] {
            let patches = [vec![completed.clone()], patches].concat();
            let (change, broken) = updated(json!({}), &patches);
            assert!(broken.is_empty(), "{patches:?}: {broken:?}");
            assert_eq!(change.status, status, "{patches:?}");
            assert_eq!(times(&change)[1], Some(at(ended)), "{patches:?}");
            assert_eq!(json!(change.outcome), patches.last().unwrap()["outcome"]);
        }
    }

    #[test]
    fn an_update_that_contradicts_the_status_is_refused() {
        let ten = "2026-11-22T10:00:00Z";
        for (patch, pointer) in [
            (json!({ "started_at": ten }), "/started_at"),
            (json!({ "outcome": "failed" }), "/outcome"),
            (
                json!({ "status": "in_progress", "ended_at": ten }),
                "/ended_at",
            ),
            (json!({ "reason": "broken" }), "/reason"),
            (
                json!({ "status": "completed", "reason": "broken" }),
                "/reason",
            ),
            (
                json!({ "status": "completed", "outcome": "undone" }),
                "/outcome",
            ),
            (
                json!({ "status": "completed", "outcome": "failed" }),
                "/outcome",
            ),
            (
                json!({ "status": "rolled_back", "outcome": "succeeded" }),
                "/outcome",
            ),
            (
                json!({ "status": "completed", "started_at": ten, "ended_at": "2026-11-22T09:00:00Z" }),
                "/ended_at",
            ),
        ] {
            let (_, broken) = updated(json!({}), std::slice::from_ref(&patch));
            assert_eq!(broken, [pointer], "{patch}");
        }
        let late = json!({ "started_at": "2026-11-22T10:01:00Z" });
        let (_, broken) = updated(json!({}), &[json!({ "status": "completed" }), late]);
        assert_eq!(broken, ["/started_at"]);
        let patch = json!({ "status": "rolled_back", "reason": "broken" });
        assert!(updated(json!({}), &[patch]).1.is_empty());
    }
}
