//! A change before it is sent: complete and checked, with the names of its
//! service and host instead of their ids.

use changelog_client::{Client, Error};
use changelog_core::input::from_object;
use changelog_core::limits::MAX_CLOCK_SKEW;
use changelog_core::{
    ChangeCreated, Host, Input, NewChange, Outcome as ChangeOutcome, ProblemCode, Service,
    Timestamp,
};
use chrono::TimeDelta;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::base::failure::{Exit, Failure, Outcome, warn};
use crate::base::time;
use crate::input::flags::{ChangeFields, name_flags};
use crate::input::names::{self, Missing, non_empty};

/// The last millisecond of the year 9999. A draft was checked when it was kept;
/// read again, its times are not compared with a clock that may have been set
/// back since.
const LATEST_MILLIS: i64 = 253_402_300_799_999;

/// The warning before the server's time is recorded.
const CLOCK_AHEAD: &str = "this machine's clock is ahead; using the server's time instead";

/// When a change was made, and how it ended, as far as the user says it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) occurred_at: Option<Timestamp>,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) outcome: Option<ChangeOutcome>,
}

/// A change to record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Draft {
    #[serde(deserialize_with = "checked_input")]
    pub(crate) change: NewChange,
    /// The names or ids of the services; override the ids in `change`.
    pub(crate) services: Option<Vec<String>>,
    /// The name or id of the host; overrides the id in `change`.
    pub(crate) host: Option<String>,
    /// Whether to create a service or host that does not exist.
    pub(crate) create_missing: bool,
    /// The start of the change, or the time of the first attempt, by the clock of this
    /// machine. It is sent as the change's time if the change has none, so that every
    /// attempt sends the same request.
    pub(crate) at: Timestamp,
    /// The end of the change by the clock of this machine, if it was observed; sent if
    /// the change has no time of its own.
    pub(crate) ended_at: Option<Timestamp>,
    /// Whether the user chose the idempotency key. The first attempt then sends
    /// no time, because repetitions of the command must send the same request.
    pub(crate) key_is_given: bool,
}

impl Draft {
    /// Makes a change of a title and fields, and checks it as a whole: a title
    /// that is too short must not leave a new service behind.
    pub(crate) fn new(title: String, fields: ChangeFields, progress: Progress) -> Outcome<Self> {
        let now = time::now();
        let mut change = NewChange {
            title,
            description: fields.description,
            risk_level: fields.risk,
            status: fields.status,
            outcome: progress.outcome,
            environment: fields.environment,
            scheduled_for: fields.scheduled_for.map(|at| at.start(now)),
            started_at: progress.started_at,
            ended_at: progress.ended_at,
            occurred_at: progress.occurred_at,
            agent: fields.agent,
            tags: fields.tags.unwrap_or_default(),
            links: fields.links.unwrap_or_default(),
            ..NewChange::default()
        };
        fields.texts.fill(&mut change);
        let (tags, links) = (change.tags.clone(), change.links.clone());
        let change = change
            .checked(now)
            .map_err(|invalid| name_flags(invalid, &tags, &links))?;
        Ok(Self {
            at: change.started_at.unwrap_or(now),
            ended_at: None,
            change,
            services: fields.services,
            host: fields.host,
            create_missing: fields.create_missing,
            key_is_given: false,
        })
    }

    /// Returns what to do about a service or host that does not exist.
    pub(crate) fn missing(&self) -> Missing {
        Missing::of_flag(self.create_missing)
    }

    /// Returns whether the draft names a service or host.
    pub(crate) fn has_names(&self) -> bool {
        !self.service_names().is_empty() || non_empty(self.host.as_deref()).is_some()
    }

    /// Returns the names or ids of the services.
    pub(crate) fn service_names(&self) -> Vec<&str> {
        names::all_non_empty(self.services.as_deref())
    }

    /// Sets the ids of the named services and host.
    pub(crate) async fn resolve(&mut self, client: &Client, missing: Missing) -> Outcome {
        let names = self.service_names();
        if !names.is_empty() {
            let ids = names::resolve_all::<Service>(client, &names, missing).await?;
            // A single one is sent in the field of the specification.
            (self.change.service_id, self.change.service_ids) = match ids.as_slice() {
                [] | [_] => (ids.first().copied(), Vec::new()),
                _ => (None, ids),
            };
        }
        if let Some(name) = non_empty(self.host.as_deref()) {
            self.change.host_id = names::resolve::<Host>(client, name, missing).await?;
        }
        Ok(())
    }

    /// Records the change; `late` if an earlier attempt was kept in the spool.
    pub(crate) async fn create(
        mut self,
        client: &Client,
        key: &str,
        late: bool,
    ) -> Outcome<ChangeCreated> {
        self.resolve(client, self.missing()).await?;
        let send = async |measured: Option<Timestamp>| {
            let ended_at = measured.and(self.ended_at);
            let change = NewChange {
                occurred_at: self.change.occurred_at.or(measured),
                ended_at: self.change.ended_at.or(ended_at),
                ..self.change.clone()
            };
            let create = client.changes().create_from(change);
            create.idempotency_key(key).send().await
        };
        let is_given = self.change.occurred_at.is_some();
        let at = (!is_given && (late || !self.key_is_given)).then_some(self.at);
        let created = match send(at).await {
            // The clock of this machine is wrong; the server's time is used.
            Err(error) if at.is_some() && rejects_only_time(&error) => {
                warn_clock_ahead();
                send(None).await
            }
            // The first attempt, without a time, was recorded and only its
            // response was lost.
            Err(error) if !is_given && late && is_key_reused(&error) => send(None).await,
            other => other,
        };
        if let (Ok(created), false, Some(_)) = (&created, late, at) {
            warn_clock_behind(created.created_at, time::now());
        }
        created.map_err(|error| unrecorded(error, key))
    }
}

/// Decodes an input and checks it as the server checks a request body.
pub(super) fn checked_input<'de, D: Deserializer<'de>, T: Input>(from: D) -> Result<T, D::Error> {
    let object = Map::<String, Value>::deserialize(from)?;
    from_object(object, Timestamp::from_millis(LATEST_MILLIS)).map_err(|invalid| {
        let broken = invalid.violations.first().map(ToString::to_string);
        serde::de::Error::custom(broken.unwrap_or_default())
    })
}

/// Warns before the server's time is recorded.
pub(super) fn warn_clock_ahead() {
    warn(CLOCK_AHEAD);
}

/// Warns that a change was recorded with the time of a clock that is far behind the
/// server's.
fn warn_clock_behind(recorded: Timestamp, now: Timestamp) {
    let behind = TimeDelta::milliseconds(recorded.millis() - now.millis());
    if behind > MAX_CLOCK_SKEW {
        let behind = time::duration(behind.to_std().unwrap_or_default());
        warn(&format!(
            "the clock of this machine is {behind} behind the server's, and the change has its \
             time; set the clock, then correct the change with `chlog update ID --started-at TIME`"
        ));
    }
}

/// Returns whether the times are the only thing that the server rejects.
pub(super) fn rejects_only_time(error: &Error) -> bool {
    let times = ["/occurred_at", "/started_at", "/ended_at"];
    let violations = error.violations();
    !violations.is_empty()
        && violations
            .iter()
            .all(|one| times.contains(&one.pointer.as_str()))
}

/// Returns whether the idempotency key was used for a different request.
fn is_key_reused(error: &Error) -> bool {
    let code = error.problem().map(|problem| &problem.code);
    code == Some(&ProblemCode::IdempotencyKeyReused)
}

/// Adds to a failure whether the change may have been recorded.
fn unrecorded(error: Error, key: &str) -> Failure {
    let unconfirmed = error.is_unconfirmed();
    let failure = Failure::from(error);
    match (failure.exit, unconfirmed) {
        (Exit::Unavailable | Exit::Other, true) => failure
            .line("the change may or may not have been recorded")
            .hint(format!(
                "repeat the command with --idempotency-key {key}: the change is recorded once"
            )),
        (Exit::Unavailable, false) => failure.line("nothing was recorded"),
        _ => failure,
    }
}
