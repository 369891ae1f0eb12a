//! The changes that a timeline shows, read from the database in bounded number.

use std::collections::HashMap;

use changelog_core::change::around::Candidate;
use changelog_core::{
    Change, ChangeId, Environment, Outcome, RiskLevel, ServiceId, ServiceRef, Status, Timestamp,
};
use chrono::TimeDelta;

use super::Range;
use super::density::{self, Density};
use crate::app::App;
use crate::store::{CandidateSource, NewestOf, StoreError, Tenant};

/// More changes than any timeline of marks has.
const MAX_NEWEST: u64 = 2 * density::MAX_MARKED;
/// Changes that started at most this long before the range, in this number, are drawn if
/// they ended within it.
const EARLIER: TimeDelta = TimeDelta::days(1);
const MAX_EARLIER: u64 = 100;
/// The limits on changes in progress that started before the range, and on planned ones.
const MAX_RUNNING: u64 = 50;
const MAX_PLANNED: u64 = 50;

/// How far a change has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Planned,
    Running,
    Completed,
    RolledBack,
    Failed,
}

impl State {
    /// Returns the state of a change with this status.
    fn of(status: &Status, outcome: Option<&Outcome>) -> Self {
        match status {
            Status::Planned => Self::Planned,
            Status::InProgress => Self::Running,
            Status::RolledBack if outcome == Some(&Outcome::Failed) => Self::Failed,
            Status::RolledBack => Self::RolledBack,
            _ => Self::Completed,
        }
    }

    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::RolledBack => "rolled_back",
            Self::Failed => "failed",
        }
    }

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Running => "in progress",
            Self::RolledBack => "rolled back",
            other => other.class(),
        }
    }

    /// Whether the mark of the change is crossed out.
    pub(super) fn is_undone(self) -> bool {
        matches!(self, Self::RolledBack | Self::Failed)
    }
}

/// A change on a timeline.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(super) id: ChangeId,
    pub(super) title: String,
    pub(super) at: Timestamp,
    /// When it ended; `None` if it has not, or ended when it started.
    pub(super) end: Option<Timestamp>,
    pub(super) risk: RiskLevel,
    pub(super) state: State,
    pub(super) environment: Option<Environment>,
    pub(super) service: Option<ServiceRef>,
    pub(super) more_services: Vec<ServiceId>,
    /// The place among the suspects, from 1.
    pub(super) rank: Option<usize>,
}

impl From<Candidate> for Event {
    fn from(change: Candidate) -> Self {
        Self {
            id: change.id,
            title: change.title,
            at: change.started_at,
            end: change.ended_at,
            risk: change.risk_level,
            state: State::of(&change.status, change.outcome.as_ref()),
            environment: change.environment,
            service: change.service,
            more_services: change.more_services,
            rank: None,
        }
    }
}

impl Event {
    /// Returns the event of a change; one that is planned is where it is scheduled.
    pub(crate) fn of(change: &Change) -> Self {
        let state = State::of(&change.status, change.outcome.as_ref());
        let scheduled = change.scheduled_for.filter(|_| state == State::Planned);
        Self {
            id: change.id,
            title: change.title.clone(),
            at: scheduled.unwrap_or(change.effective_at()),
            end: change.duration().and(change.ended_at),
            risk: change.risk_level.clone(),
            state,
            environment: change.environment.clone(),
            service: change.service.clone(),
            more_services: change.service_ids.iter().skip(1).copied().collect(),
            rank: None,
        }
    }

    /// Returns the event as a suspect.
    pub(crate) fn ranked(self, rank: usize) -> Self {
        Self {
            rank: Some(rank),
            ..self
        }
    }

    pub(super) fn is_of(&self, service: ServiceId) -> bool {
        self.service.as_ref().is_some_and(|one| one.id == service)
            || self.more_services.contains(&service)
    }
}

/// What happened in a range.
pub(crate) struct Events {
    /// The events that are drawn: all, or those that say most if there are too many.
    pub(super) events: Vec<Event>,
    /// How much happened, if there are too many events to draw all of them.
    pub(super) density: Option<Density>,
}

impl Events {
    /// Adds events, which replace those of the same changes.
    pub(crate) fn with(mut self, range: Range, events: impl IntoIterator<Item = Event>) -> Self {
        for event in events {
            self.events.retain(|found| found.id != event.id);
            if range.contains(event.at) {
                self.events.push(event);
            }
        }
        self
    }
}

/// Reads what happened in a range: its changes, those that reach into it, and the planned
/// ones that are not overdue; or the counts of changes, if they are many, with the planned
/// ones. Of many services, `first` have lanes in any case.
pub(crate) async fn read(
    app: &App,
    tenant: Tenant,
    range: Range,
    first: &[ServiceRef],
) -> Result<Events, StoreError> {
    let now = Timestamp::from(app.now());
    let (from, to) = (range.from.millis(), range.to.millis().saturating_add(1));
    let newest_of = |source, millis, limit| {
        let newest = NewestOf {
            source,
            millis,
            planned: false,
            limit,
        };
        Box::pin(app.store.candidates(tenant, newest))
    };
    let planned = app
        .store
        .scheduled_changes(tenant, from.max(now.millis())..to, MAX_PLANNED);
    let (density, planned) = tokio::try_join!(density::read(app, tenant, range, first), planned)?;
    let planned = planned.parse()?;
    let planned = planned.iter().map(|change| (change.id, Event::of(change)));
    if density.is_some() {
        return Ok(Events {
            events: planned.map(|(_, event)| event).collect(),
            density,
        });
    }
    let earlier = range.from.plus(-EARLIER).millis()..from;
    let (newest, earlier, running) = tokio::try_join!(
        newest_of(CandidateSource::All, from..to, MAX_NEWEST),
        newest_of(CandidateSource::All, earlier, MAX_EARLIER),
        newest_of(CandidateSource::Running, 0..from, MAX_RUNNING),
    )?;
    let reaches = |change: &Candidate| change.ended_at.is_some_and(|end| end > range.from);
    // A change in progress in the future of the range had not begun in it.
    let running = running.into_iter().filter(|_| now >= range.from);
    let events = (newest.into_iter())
        .chain(earlier.into_iter().filter(reaches))
        .chain(running)
        .map(|change| (change.id, change.into()));
    let mut events: HashMap<ChangeId, Event> = events.collect();
    events.extend(planned);
    Ok(Events {
        events: events.into_values().collect(),
        density: None,
    })
}
