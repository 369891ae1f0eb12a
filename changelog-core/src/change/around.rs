//! Ranks the changes before a moment at which something broke, and gives the reasons
//! for each rank.
//!
//! A score is the sum of the points of its reasons, so that the reasons shown next to
//! a change explain its rank.

use serde::{Deserialize, Serialize};

use super::{Change, HostRef, RiskLevel, ServiceRef, Status};
use crate::host::Environment;
use crate::ids::{ChangeId, HostId, ServiceId};
use crate::limits::{DEFAULT_SUSPECTS, DEFAULT_WINDOW_MINUTES, MAX_SUSPECTS, MAX_WINDOW_MINUTES};
use crate::problem::{Invalid, ViolationCode};
use crate::query::{Pairs, Query};
use crate::time::Timestamp;
use crate::wire_enum::wire_enum;

/// Points of a change to the affected service.
const SERVICE: u32 = 40;
/// Points of a change on the affected host.
const HOST: u32 = 40;
/// Points of a change on another host of the same environment.
const ENVIRONMENT: u32 = 15;
/// Points of a change at the moment itself; half of them [`HALVING`] minutes before
/// it, a third of them twice that before it, and so on.
const RECENT: u32 = 30;
/// The age at which a change has half of the points for being recent, in minutes.
const HALVING: i64 = 30;
const HIGH_RISK: u32 = 15;
const MEDIUM_RISK: u32 = 7;
const ROLLED_BACK: u32 = 20;
const IN_PROGRESS: u32 = 20;

/// The moment, what was affected, and how far to look back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AroundFilter {
    /// The end of the window; now by default.
    pub at: Option<Timestamp>,
    /// The service that was affected.
    pub service_id: Option<ServiceId>,
    /// The host that was affected.
    pub host_id: Option<HostId>,
    /// The length of the window in minutes, 1 to [`MAX_WINDOW_MINUTES`].
    pub window_minutes: u64,
    /// The most changes to return, 1 to [`MAX_SUSPECTS`].
    pub limit: u64,
}

impl Default for AroundFilter {
    fn default() -> Self {
        Self {
            at: None,
            service_id: None,
            host_id: None,
            window_minutes: DEFAULT_WINDOW_MINUTES,
            limit: DEFAULT_SUSPECTS,
        }
    }
}

impl AroundFilter {
    /// Reads a query string; a `limit` above the maximum becomes the maximum, a
    /// window above it is refused.
    pub fn from_query(raw: &str) -> Result<Self, Invalid> {
        let mut query = Query::new(raw);
        let filter = Self {
            at: query.parsed("at"),
            service_id: query.parsed("service_id"),
            host_id: query.parsed("host_id"),
            window_minutes: query
                .number("window_minutes", 1)
                .unwrap_or(DEFAULT_WINDOW_MINUTES),
            limit: query
                .number("limit", 1)
                .unwrap_or(DEFAULT_SUSPECTS)
                .min(MAX_SUSPECTS),
        };
        if filter.window_minutes > MAX_WINDOW_MINUTES {
            let message = format!(
                "must be at most {MAX_WINDOW_MINUTES} (7 days), got {}",
                filter.window_minutes
            );
            query.add("window_minutes", ViolationCode::OutOfRange, message);
        }
        query.finish(filter)
    }

    /// Writes the query string that [`Self::from_query`] reads.
    pub fn to_query(&self) -> String {
        let mut pairs = Pairs::default();
        pairs.push_some("at", self.at);
        pairs.push_some("service_id", self.service_id);
        pairs.push_some("host_id", self.host_id);
        pairs.push("window_minutes", self.window_minutes);
        pairs.push("limit", self.limit);
        pairs.finish()
    }
}

wire_enum! {
    /// Why a change may be the cause of what happened after it.
    ReasonCode, "a reason", example "same_service" {
        /// The change was made to the affected service.
        SameService = "same_service",
        /// The change was made on the affected host.
        SameHost = "same_host",
        /// The change was made on another host of the same environment.
        SameEnvironment = "same_environment",
        /// The change happened shortly before the moment.
        Recent = "recent",
        /// The risk level of the change.
        Risk = "risk",
        /// The change was rolled back.
        RolledBack = "rolled_back",
        /// The change is in progress.
        InProgress = "in_progress",
    }
}

/// A reason for the rank of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Reason {
    /// The kind of reason.
    pub code: ReasonCode,
    /// Its share of the score.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, example = 40))]
    pub points: u32,
    /// The reason in words.
    #[cfg_attr(feature = "openapi", schema(example = "same service: payments"))]
    pub text: String,
}

/// A change that may be the cause of what happened after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Suspect {
    /// The sum of the points of the reasons.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, example = 85))]
    pub score: u32,
    /// The reasons for its score, most points first.
    pub reasons: Vec<Reason>,
    /// The change.
    pub change: Change,
}

/// The ranked changes before a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Around {
    /// The changes, highest score first.
    pub data: Vec<Suspect>,
    /// The end of the window.
    pub at: Timestamp,
    /// The start of the window.
    pub since: Timestamp,
    /// The number of changes that were compared.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, example = 12))]
    pub considered: u64,
    /// Whether all changes in the window were compared; otherwise the newest ones
    /// were, and the newest of the service and the host.
    pub complete: bool,
}

/// What was affected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affected {
    /// The service.
    pub service: Option<ServiceId>,
    /// The host.
    pub host: Option<HostId>,
    /// The environment of the host.
    pub environment: Option<Environment>,
}

/// The fields that a change is ranked by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The id of the change.
    pub id: ChangeId,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// The risk level.
    pub risk_level: RiskLevel,
    /// The status.
    pub status: Status,
    /// The service.
    pub service: Option<ServiceRef>,
    /// The host.
    pub host_ref: Option<HostRef>,
}

/// A ranked change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// The id of the change.
    pub id: ChangeId,
    /// The sum of the points of the reasons.
    pub score: u32,
    /// The reasons for its score, most points first.
    pub reasons: Vec<Reason>,
}

/// Ranks changes before a moment and returns at most `limit` of them: the highest
/// score first, the newest first among equal scores.
pub fn rank(
    candidates: Vec<Candidate>,
    affected: &Affected,
    at: Timestamp,
    limit: usize,
) -> Vec<Ranked> {
    let mut ranked: Vec<(u32, Vec<Reason>, Candidate)> = candidates
        .into_iter()
        .map(|candidate| {
            let reasons = reasons(&candidate, affected, at);
            let score = reasons.iter().map(|reason| reason.points).sum();
            (score, reasons, candidate)
        })
        .collect();
    ranked.sort_by_key(|(score, _, candidate)| {
        std::cmp::Reverse((*score, candidate.occurred_at, candidate.id))
    });
    ranked.truncate(limit);
    ranked
        .into_iter()
        .map(|(score, mut reasons, candidate)| {
            // Stable: reasons of as many points keep their order.
            reasons.sort_by_key(|reason| std::cmp::Reverse(reason.points));
            Ranked {
                id: candidate.id,
                score,
                reasons,
            }
        })
        .collect()
}

fn reasons(change: &Candidate, affected: &Affected, at: Timestamp) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let mut add = |code, points, text: String| reasons.push(Reason { code, points, text });
    if let Some(service) = &change.service
        && affected.service == Some(service.id)
    {
        let text = format!("same service: {}", service.name);
        add(ReasonCode::SameService, SERVICE, text);
    }
    if let Some(host) = &change.host_ref {
        if affected.host == Some(host.id) {
            let text = format!("same host: {}", host.hostname);
            add(ReasonCode::SameHost, HOST, text);
        } else if let Some(environment) = &host.environment
            && affected.environment.as_ref() == Some(environment)
        {
            let text = format!("same environment: {environment}");
            add(ReasonCode::SameEnvironment, ENVIRONMENT, text);
        }
    }
    match &change.status {
        Status::RolledBack => add(ReasonCode::RolledBack, ROLLED_BACK, "rolled back".into()),
        Status::InProgress => {
            let text = "still in progress".into();
            add(ReasonCode::InProgress, IN_PROGRESS, text);
        }
        _ => {}
    }
    match &change.risk_level {
        RiskLevel::High => add(ReasonCode::Risk, HIGH_RISK, "high risk".into()),
        RiskLevel::Medium => add(ReasonCode::Risk, MEDIUM_RISK, "medium risk".into()),
        _ => {}
    }
    let minutes = at
        .millis()
        .saturating_sub(change.occurred_at.millis())
        .max(0)
        / 60_000;
    add(ReasonCode::Recent, recency(minutes), ago(minutes));
    reasons
}

/// Returns the points for being so many minutes old. Whole numbers, so that
/// every machine ranks alike.
fn recency(minutes: i64) -> u32 {
    let points = i64::from(RECENT) * HALVING / (HALVING + minutes);
    u32::try_from(points).unwrap_or(0)
}

/// Says how long before the moment something was, in its largest unit.
fn ago(minutes: i64) -> String {
    let (count, unit) = match minutes {
        0 => return "less than a minute before".to_owned(),
        1..60 => (minutes, "minute"),
        60..1_440 => (minutes / 60, "hour"),
        _ => (minutes / 1_440, "day"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural} before")
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "2026-11-21T12:00:00.000Z";
    const PAYMENTS: &str = "018f4e9a-7b1c-7d3e-9a51-000000000001";
    const WEB: &str = "018f4e9a-7b1c-7d3e-9a51-000000000002";

    fn change(number: u32, minutes: i64, more: &serde_json::Value) -> Candidate {
        let at = Timestamp::from_millis(at().millis() - minutes * 60_000);
        let read = |name: &str, default: &str| {
            let value = more.get(name).cloned();
            value.unwrap_or_else(|| default.into())
        };
        Candidate {
            id: id(number),
            occurred_at: at,
            risk_level: serde_json::from_value(read("risk_level", "low")).unwrap(),
            status: serde_json::from_value(read("status", "completed")).unwrap(),
            service: more
                .get("service")
                .map(|service| serde_json::from_value(service.clone()).unwrap()),
            host_ref: more
                .get("host_ref")
                .map(|host| serde_json::from_value(host.clone()).unwrap()),
        }
    }

    fn id(number: u32) -> ChangeId {
        let id = format!("018f4e9a-7b1c-7d3e-9a51-0000000001{number:02}");
        id.parse().unwrap()
    }

    fn at() -> Timestamp {
        AT.parse().unwrap()
    }

    fn affected() -> Affected {
        Affected {
            service: PAYMENTS.parse().ok(),
            host: WEB.parse().ok(),
            environment: Some(Environment::Prod),
        }
    }

    fn host(id: &str, environment: &str) -> serde_json::Value {
        serde_json::json!({"id": id, "hostname": "web-1", "environment": environment})
    }

    #[test]
    fn the_closest_change_is_ranked_first() {
        let service = serde_json::json!({"id": PAYMENTS, "name": "payments", "color": "#fff"});
        let changes = [
            change(1, 5, &serde_json::json!({})),
            change(
                2,
                100,
                &serde_json::json!({"service": service, "risk_level": "high"}),
            ),
            change(3, 100, &serde_json::json!({"host_ref": host(WEB, "prod")})),
            change(
                4,
                100,
                &serde_json::json!({"host_ref": host(PAYMENTS, "prod")}),
            ),
            change(
                5,
                100,
                &serde_json::json!({"host_ref": host(PAYMENTS, "test")}),
            ),
            change(6, 100, &serde_json::json!({"status": "rolled_back"})),
            change(
                7,
                101,
                &serde_json::json!({"status": "in_progress", "risk_level": "medium"}),
            ),
        ];
        let ranked = rank(changes.to_vec(), &affected(), at(), 100);
        let order: Vec<(ChangeId, u32)> = ranked.iter().map(|one| (one.id, one.score)).collect();
        assert_eq!(
            order,
            [
                (id(2), 61),
                (id(3), 46),
                (id(7), 33),
                (id(6), 26),
                (id(1), 25),
                (id(4), 21),
                (id(5), 6)
            ]
        );
        let texts = |number: usize| -> Vec<&str> {
            let reasons = ranked[number].reasons.iter();
            reasons.map(|reason| reason.text.as_str()).collect()
        };
        assert_eq!(
            texts(0),
            ["same service: payments", "high risk", "1 hour before"]
        );
        assert_eq!(texts(1), ["same host: web-1", "1 hour before"]);
        assert_eq!(
            texts(2),
            ["still in progress", "medium risk", "1 hour before"]
        );
        assert_eq!(texts(3), ["rolled back", "1 hour before"]);
        assert_eq!(texts(4), ["5 minutes before"]);
        assert_eq!(texts(5), ["same environment: prod", "1 hour before"]);
        for one in &ranked {
            let sum: u32 = one.reasons.iter().map(|reason| reason.points).sum();
            assert_eq!(sum, one.score);
        }
        assert_eq!(rank(changes.to_vec(), &affected(), at(), 3), ranked[..3]);
    }

    #[test]
    fn the_newest_of_equal_changes_is_ranked_first() {
        let mut changes: Vec<Candidate> = (0..9)
            .map(|number| change(number, i64::from(number % 3), &serde_json::json!({})))
            .collect();
        let order = |changes: &[Candidate]| -> Vec<ChangeId> {
            let ranked = rank(changes.to_vec(), &Affected::default(), at(), 100);
            ranked.into_iter().map(|one| one.id).collect()
        };
        let first = order(&changes);
        assert_eq!(first, [6, 3, 0, 7, 4, 1, 8, 5, 2].map(id));
        changes.reverse();
        assert_eq!(order(&changes), first);
    }

    #[test]
    fn what_is_older_has_fewer_points_and_says_its_age() {
        for (minutes, points, text) in [
            (0, 30, "less than a minute before"),
            (1, 29, "1 minute before"),
            (30, 15, "30 minutes before"),
            (59, 10, "59 minutes before"),
            (60, 10, "1 hour before"),
            (180, 4, "3 hours before"),
            (2 * 1_440, 0, "2 days before"),
        ] {
            assert_eq!((recency(minutes), ago(minutes).as_str()), (points, text));
        }
    }

    #[test]
    fn the_window_and_the_limit_have_limits() {
        let read = |query: &str| {
            AroundFilter::from_query(query).map(|filter| (filter.window_minutes, filter.limit))
        };
        for (query, expected) in [
            ("", (120, 20)),
            ("window_minutes=1&limit=1", (1, 1)),
            ("window_minutes=10080&limit=100", (10_080, 100)),
            ("limit=101", (120, 100)),
        ] {
            assert_eq!(read(query), Ok(expected), "{query}");
        }
        for query in [
            "window_minutes=0",
            "window_minutes=10081",
            "limit=0",
            "page=1",
        ] {
            assert!(read(query).is_err(), "{query}");
        }
        let filter = AroundFilter {
            at: AT.parse().ok(),
            service_id: PAYMENTS.parse().ok(),
            host_id: WEB.parse().ok(),
            window_minutes: 7,
            limit: 3,
        };
        assert_eq!(AroundFilter::from_query(&filter.to_query()), Ok(filter));
    }
}
