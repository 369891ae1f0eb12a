//! The ranking: chooses the window, and gives each change in it points with reasons.

use std::cmp::Reverse;
use std::collections::HashMap;

use chrono::TimeDelta;

use super::recency::{crowd, length, minutes, recency};
use super::reversal::{Reversal, reversal};
use super::{Reason, ReasonCode};
use crate::change::{HostRef, Outcome, RiskLevel, ServiceRef, Status};
use crate::host::Environment;
use crate::ids::{ChangeId, HostId, ServiceId};
use crate::limits::DEFAULT_WINDOWS_MINUTES;
use crate::text::words;
use crate::time::Timestamp;

const SAME_SERVICE: i32 = 64;
const TOUCHED_SERVICE: i32 = 48;
const DEPENDENCY: i32 = 24;
const DEPENDENT: i32 = 10;
const SAME_HOST: i32 = 64;
const SAME_ENVIRONMENT: i32 = 15;
/// Points of each word of the symptom that a change has.
const WORD: i32 = 10;
/// The most points for words.
const MOST_WORDS: i32 = 30;
const HIGH_RISK: i32 = 15;
const MEDIUM_RISK: i32 = 7;
/// No more than a word of the symptom: the incidents that the points were measured on have no
/// change that was made by hand.
const MADE_BY_HAND: i32 = 10;
/// As little as what was made by hand, for the same reason.
const AGENT_IN_TROUBLE: i32 = 10;
/// How many other changes of an agent must have gone wrong for that to count.
const MIN_WRONG: u64 = 2;
const IN_PROGRESS: i32 = 20;
const UNDONE_BEFORE: i32 = -20;
/// More than all other points together, so that what was undone after the moment is
/// first.
const UNDONE_AFTER: i32 = 400;
const REVERT: i32 = -20;
const RELANDING: i32 = 10;

/// A word of the symptom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymptomWord {
    /// The word, folded as [`crate::text::words`] does.
    pub word: String,
    /// Services with a word in their name that begins with it.
    pub services: Vec<ServiceId>,
}

/// What was affected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affected {
    /// The service.
    pub service: Option<ServiceRef>,
    /// What the service depends on.
    pub dependencies: Vec<ServiceRef>,
    /// What depends on the service.
    pub dependents: Vec<ServiceRef>,
    /// The host.
    pub host: Option<HostId>,
    /// The environment.
    pub environment: Option<Environment>,
    /// The words of the symptom.
    pub words: Vec<SymptomWord>,
}

/// The fields that a change is ranked by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The id of the change.
    pub id: ChangeId,
    /// The title.
    pub title: String,
    /// When it started, or was recorded for if it is planned.
    pub started_at: Timestamp,
    /// When it ended; `None` if it has not ended, or ended when it started.
    pub ended_at: Option<Timestamp>,
    /// How it ended, if that was recorded.
    pub outcome: Option<Outcome>,
    /// When it was undone; `None` if it was not, or failed by itself.
    pub undone_at: Option<Timestamp>,
    /// The risk level.
    pub risk_level: RiskLevel,
    /// The status.
    pub status: Status,
    /// The environment.
    pub environment: Option<Environment>,
    /// The first service.
    pub service: Option<ServiceRef>,
    /// The services after the first.
    pub more_services: Vec<ServiceId>,
    /// The host.
    pub host_ref: Option<HostRef>,
    /// The name of the automation that made it.
    pub agent: Option<String>,
    /// Whether it was made by hand: it has the tag [`BY_HAND`](crate::change::BY_HAND).
    pub by_hand: bool,
}

/// A ranked change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// The id of the change.
    pub id: ChangeId,
    /// The sum of the points of the reasons.
    pub score: i32,
    /// The reasons for its score, most points first.
    pub reasons: Vec<Reason>,
}

/// The changes of a window, ranked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranking {
    /// The start of the window.
    pub since: Timestamp,
    /// The length of the window in minutes.
    pub window_minutes: u64,
    /// Whether the window is longer than the shortest one of those tried.
    pub widened: bool,
    /// The number of changes in the window.
    pub considered: u64,
    /// The services of these changes, those of most changes first; planned changes do
    /// not count.
    pub services: Vec<ServiceId>,
    /// The changes with the highest scores, highest first, the newest first among equal
    /// scores.
    pub ranked: Vec<Ranked>,
}

/// Ranks the changes of a window before a moment and returns at most `limit` of them.
///
/// Without a given window, [`DEFAULT_WINDOWS_MINUTES`] are tried in turn until one has
/// a change that is related to what was affected or was undone after the moment; if
/// nothing is known to be affected, until one has any change.
pub fn rank(
    candidates: Vec<Candidate>,
    affected: &Affected,
    at: Timestamp,
    window_minutes: Option<u64>,
    limit: usize,
) -> Ranking {
    let mut weighed: Vec<Weighed> = candidates
        .into_iter()
        .map(|change| Weighed {
            reasons: relations(&change, affected, at),
            change,
        })
        .collect();
    let (window_minutes, widened) = match window_minutes {
        Some(minutes) => (minutes, false),
        None => choose_window(&weighed, affected, at),
    };
    let since = start(at, window_minutes);
    weighed.retain(|one| (since..=at).contains(&one.change.started_at));
    let considered = weighed.len() as u64;
    let services = busiest_services(&weighed);
    weighed.sort_by_key(|one| Reverse((one.change.started_at, one.change.id)));
    add_other_reasons(&mut weighed, at);
    // Stable: the newest first among equal scores.
    weighed.sort_by_key(|one| Reverse(one.score()));
    weighed.truncate(limit);
    Ranking {
        since,
        window_minutes,
        widened,
        considered,
        services,
        ranked: weighed.into_iter().map(Weighed::into_ranked).collect(),
    }
}

/// A change with the reasons that were found so far.
struct Weighed {
    change: Candidate,
    reasons: Vec<Reason>,
}

impl Weighed {
    fn add(&mut self, code: ReasonCode, points: i32, text: String) {
        self.reasons.push(Reason { code, points, text });
    }

    fn score(&self) -> i32 {
        self.reasons.iter().map(|reason| reason.points).sum()
    }

    fn into_ranked(mut self) -> Ranked {
        let score = self.score();
        // Stable: reasons of as many points keep their order.
        self.reasons.sort_by_key(|reason| Reverse(reason.points));
        Ranked {
            id: self.change.id,
            score,
            reasons: self.reasons,
        }
    }
}

/// Returns the length of the shortest default window with something of weight, in
/// minutes, and whether it is not the first one. If none has, it is the longest.
fn choose_window(weighed: &[Weighed], affected: &Affected, at: Timestamp) -> (u64, bool) {
    let anything = *affected == Affected::default();
    let latest = weighed
        .iter()
        .filter(|one| anything || !one.reasons.is_empty())
        .map(|one| one.change.started_at)
        .filter(|started| *started <= at)
        .max();
    let [first, .., last] = DEFAULT_WINDOWS_MINUTES;
    let reaches = |minutes: &u64| latest.is_some_and(|latest| latest >= start(at, *minutes));
    let chosen = DEFAULT_WINDOWS_MINUTES.into_iter().find(reaches);
    let chosen = chosen.unwrap_or(last);
    (chosen, chosen != first)
}

/// Returns the services of changes, those of most changes first.
fn busiest_services(weighed: &[Weighed]) -> Vec<ServiceId> {
    let mut counts: HashMap<ServiceId, u64> = HashMap::new();
    let happened = weighed.iter().map(|one| &one.change);
    for change in happened.filter(|change| change.status != Status::Planned) {
        let first = change.service.iter().map(|service| service.id);
        for id in first.chain(change.more_services.iter().copied()) {
            *counts.entry(id).or_default() += 1;
        }
    }
    let mut services: Vec<(ServiceId, u64)> = counts.into_iter().collect();
    services.sort_by_key(|(id, count)| (Reverse(*count), *id));
    services.into_iter().map(|(id, _)| id).collect()
}

fn start(at: Timestamp, window_minutes: u64) -> Timestamp {
    let minutes = i64::try_from(window_minutes).unwrap_or(i64::MAX);
    at.plus(TimeDelta::try_minutes(minutes).map_or(TimeDelta::MIN, |length| -length))
}

/// Returns the reasons of weight: how a change is related to what was affected, and
/// that it was undone after the moment.
fn relations(change: &Candidate, affected: &Affected, at: Timestamp) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let mut add = |code, points, text| reasons.push(Reason { code, points, text });
    if let Some((code, points, text)) = service_relation(change, affected) {
        add(code, points, text);
    }
    match (&change.host_ref, &change.environment) {
        (Some(host), _) if affected.host == Some(host.id) => {
            let text = format!("same host: {}", host.hostname);
            add(ReasonCode::SameHost, SAME_HOST, text);
        }
        (_, Some(environment)) if affected.environment.as_ref() == Some(environment) => {
            let text = format!("same environment: {environment}");
            add(ReasonCode::SameEnvironment, SAME_ENVIRONMENT, text);
        }
        _ => {}
    }
    let found = common_words(change, &affected.words);
    if let Ok(count @ 1..) = i32::try_from(found.len()) {
        let points = count.saturating_mul(WORD).min(MOST_WORDS);
        let text = format!("mentions {}", found.join(", "));
        add(ReasonCode::Words, points, text);
    }
    if let Some(undone) = change.undone_at
        && undone > at
    {
        let after = length(minutes(at, undone));
        let text = format!("rolled back {after} later");
        add(ReasonCode::UndoneAfter, UNDONE_AFTER, text);
    }
    reasons
}

/// Returns the strongest relation between the services of a change and the affected one.
fn service_relation(change: &Candidate, affected: &Affected) -> Option<(ReasonCode, i32, String)> {
    let ServiceRef { id, name, .. } = affected.service.as_ref()?;
    let first = change.service.as_ref().map(|service| service.id);
    if first == Some(*id) {
        let text = format!("same service: {name}");
        return Some((ReasonCode::SameService, SAME_SERVICE, text));
    }
    if change.more_services.contains(id) {
        let text = format!("touched {name}");
        return Some((ReasonCode::TouchedService, TOUCHED_SERVICE, text));
    }
    let is_of_change =
        |other: &&ServiceRef| first == Some(other.id) || change.more_services.contains(&other.id);
    if let Some(other) = affected.dependencies.iter().find(is_of_change) {
        let text = format!("{name} depends on {}", other.name);
        return Some((ReasonCode::Dependency, DEPENDENCY, text));
    }
    let other = affected.dependents.iter().find(is_of_change)?;
    let text = format!("{} depends on {name}", other.name);
    Some((ReasonCode::Dependent, DEPENDENT, text))
}

/// Returns the words of the symptom that words of the title or of a service's name begin
/// with.
fn common_words<'w>(change: &Candidate, wanted: &'w [SymptomWord]) -> Vec<&'w str> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut has = words(&change.title);
    if let Some(service) = &change.service {
        has.extend(words(&service.name));
    }
    let is_had = |SymptomWord { word, services }: &&SymptomWord| {
        has.iter().any(|one| one.starts_with(word.as_str()))
            || change.more_services.iter().any(|id| services.contains(id))
    };
    let found = wanted.iter().filter(is_had);
    found.map(|found| found.word.as_str()).collect()
}

/// Adds the reasons that do not depend on what was affected. The changes are those of
/// the window, newest first.
fn add_other_reasons(weighed: &mut [Weighed], at: Timestamp) {
    let mut newer: HashMap<ServiceId, u64> = HashMap::new();
    let agents = agents(weighed, at);
    for one in weighed {
        add_state(one, at);
        match one.change.risk_level {
            RiskLevel::High => one.add(ReasonCode::Risk, HIGH_RISK, "high risk".into()),
            RiskLevel::Medium => one.add(ReasonCode::Risk, MEDIUM_RISK, "medium risk".into()),
            _ => {}
        }
        if one.change.by_hand {
            one.add(ReasonCode::ByHand, MADE_BY_HAND, "made by hand".into());
        }
        if let Some(text) = agent_in_trouble(&one.change, &agents, at) {
            one.add(ReasonCode::AgentInTrouble, AGENT_IN_TROUBLE, text);
        }
        match reversal(&one.change.title) {
            Some(Reversal::Revert) => {
                let text = "undoes an earlier change".into();
                one.add(ReasonCode::Revert, REVERT, text);
            }
            Some(Reversal::Relanding) => {
                let text = "repeats a change that had been undone".into();
                one.add(ReasonCode::Relanding, RELANDING, text);
            }
            None => {}
        }
        let age = minutes(one.change.started_at, at);
        let text = format!("{} before", length(age));
        one.add(ReasonCode::Recent, recency(age), text);
        let Some(service) = &one.change.service else {
            continue;
        };
        let count = newer.entry(service.id).or_default();
        if *count > 0 {
            let plural = if *count == 1 { "" } else { "s" };
            let text = format!("{count} newer change{plural} to {}", service.name);
            one.add(ReasonCode::NewerOfService, crowd(*count), text);
        }
        *count += u64::from(one.change.status != Status::Planned);
    }
}

/// How the changes of an agent ended.
#[derive(Clone, Copy, Debug, Default)]
struct AgentRecord {
    /// The changes that were started.
    made: u64,
    /// Those of them that had failed or been undone.
    wrong: u64,
}

impl AgentRecord {
    fn of(change: &Candidate, at: Timestamp) -> Self {
        Self {
            made: u64::from(change.status != Status::Planned),
            wrong: u64::from(went_wrong(change, at)),
        }
    }
}

/// Returns whether a change had failed or been undone at a moment.
fn went_wrong(change: &Candidate, at: Timestamp) -> bool {
    let has_failed =
        change.outcome == Some(Outcome::Failed) && change.ended_at.is_none_or(|end| end <= at);
    has_failed || change.undone_at.is_some_and(|undone| undone <= at)
}

/// Returns how the changes of each agent in the window had ended at a moment.
fn agents(weighed: &[Weighed], at: Timestamp) -> HashMap<String, AgentRecord> {
    let mut agents: HashMap<String, AgentRecord> = HashMap::new();
    for one in weighed {
        if let Some(agent) = &one.change.agent {
            let AgentRecord { made, wrong } = AgentRecord::of(&one.change, at);
            let record = agents.entry(agent.to_ascii_lowercase()).or_default();
            record.made += made;
            record.wrong += wrong;
        }
    }
    agents
}

/// Returns in words that at least half of the other changes of the agent went wrong, if they
/// are enough to say so.
fn agent_in_trouble(
    change: &Candidate,
    agents: &HashMap<String, AgentRecord>,
    at: Timestamp,
) -> Option<String> {
    let agent = change.agent.as_ref()?;
    let all = agents.get(&agent.to_ascii_lowercase())?;
    let own = AgentRecord::of(change, at);
    let (made, wrong) = (all.made - own.made, all.wrong - own.wrong);
    let is_told = wrong >= MIN_WRONG && wrong * 2 >= made;
    is_told.then(|| {
        format!("{wrong} of {made} other changes by {agent} before had failed or been undone")
    })
}

/// Adds what the state of a change at the moment says.
fn add_state(one: &mut Weighed, at: Timestamp) {
    let is_over = |end: Option<Timestamp>| end.is_none_or(|end| end <= at);
    match (&one.change.status, one.change.undone_at) {
        (Status::InProgress, _) => {
            let text = "still in progress".into();
            one.add(ReasonCode::InProgress, IN_PROGRESS, text);
        }
        (_, Some(undone)) if undone <= at => {
            let text = format!("undone {} before", length(minutes(undone, at)));
            one.add(ReasonCode::UndoneBefore, UNDONE_BEFORE, text);
        }
        (Status::Completed | Status::RolledBack, None) if !is_over(one.change.ended_at) => {
            let text = "in progress at that time".into();
            one.add(ReasonCode::InProgress, IN_PROGRESS, text);
        }
        _ => {}
    }
}
