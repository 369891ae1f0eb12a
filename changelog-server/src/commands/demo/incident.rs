//! The incident of the demo: `payments` breaks at 14:20. What happened before it and
//! after, and what is unfinished or planned today.

use changelog_client::{ChangeQuery, Client};
use changelog_core::{Environment, NewChange, Outcome, RiskLevel, Status, Timestamp};
use chrono::{Local, NaiveTime, TimeDelta, TimeZone};

use super::organization::By;
use crate::commands::Failure;

/// The service that breaks.
pub(super) const SERVICE: &str = "payments";
/// The title of the change that breaks it.
const CULPRIT: &str = "Deploy payments 4.18.0";
/// How long the alert fires.
pub(super) const LASTED: TimeDelta = TimeDelta::minutes(22);
/// When the culprit is rolled back, in minutes after the incident.
const ROLLED_BACK_AFTER: i64 = 19;

/// Returns the last time at which the clock of this machine showed 14:20.
pub(super) fn last(now: Timestamp) -> Timestamp {
    let now = now.to_datetime().with_timezone(&Local);
    let clock = NaiveTime::from_hms_opt(14, 20, 0).unwrap_or_default();
    let days = (0..3).map(|days| (now - TimeDelta::days(days)).date_naive());
    let times = days.filter_map(|day| Local.from_local_datetime(&day.and_time(clock)).earliest());
    let past = times.filter(|at| *at <= now).max();
    past.unwrap_or(now).to_utc().into()
}

/// A change of production, that ended well.
fn done(title: &str, start: Timestamp, minutes: i64) -> NewChange {
    NewChange {
        title: title.to_owned(),
        status: Some(Status::Completed),
        outcome: Some(Outcome::Succeeded),
        environment: Some(Environment::Prod),
        started_at: Some(start),
        ended_at: Some(start.plus(TimeDelta::minutes(minutes))),
        ..NewChange::default()
    }
}

fn of(mut change: NewChange, service: &str, person: &str, tags: &[&str]) -> NewChange {
    change.service_name = Some(service.to_owned());
    change.on_behalf_of = Some(person.to_owned());
    change.tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    change
}

/// Returns what happened before the incident, with the culprit.
pub(super) fn before(incident: Timestamp) -> Vec<(By, NewChange)> {
    let at = |minutes: i64| incident.plus(TimeDelta::minutes(minutes));
    let deploy = ["deploy"];
    vec![
        (
            By::Pipeline,
            of(
                done("Deploy payments 4.17.3", at(-27 * 60), 6),
                SERVICE,
                "mei@example.com",
                &deploy,
            ),
        ),
        (
            By::Terraform,
            NewChange {
                risk_level: Some(RiskLevel::Medium),
                description: Some(
                    "Plan: 0 to add, 2 to change, 0 to destroy.\n\n\
                     | Address | Action |\n|---|---|\n\
                     | `aws_lb_listener.public` | update |\n\
                     | `aws_lb_target_group.public` | update |"
                        .to_owned(),
                ),
                ..of(
                    done("terraform apply: 2 changed", at(-125), 3),
                    "edge-gateway",
                    "omar@example.com",
                    &["terraform"],
                )
            },
        ),
        (
            By::People,
            of(
                done("Raise the timeout of checkout to 8 s", at(-48), 1),
                "checkout",
                "lena@example.com",
                &["config"],
            ),
        ),
        (
            By::Pipeline,
            of(
                done("Deploy search 7.9.1", at(-21), 4),
                "search",
                "tom@example.com",
                &deploy,
            ),
        ),
        (
            By::Pipeline,
            NewChange {
                risk_level: Some(RiskLevel::Medium),
                commit: Some("9f3c1e7ab204".to_owned()),
                description: Some(
                    "Replaces the connection pool to **ledger**.\n\n\
                     Undo: `deploy payments 4.17.3`; no migration is involved."
                        .to_owned(),
                ),
                impact: Some(
                    "Shorter waits for a connection; none expected for customers.".to_owned(),
                ),
                ..of(
                    done(CULPRIT, at(-8), 5),
                    SERVICE,
                    "mei@example.com",
                    &deploy,
                )
            },
        ),
    ]
}

/// Returns what happened after the incident until now.
pub(super) fn after(incident: Timestamp, now: Timestamp) -> Vec<(By, NewChange)> {
    let at = |minutes: i64| incident.plus(TimeDelta::minutes(minutes));
    let changes = [
        (
            By::People,
            2,
            of(
                done("Scale payments from 6 to 12 pods", at(4), 2),
                SERVICE,
                "sam@example.com",
                &["incident"],
            ),
        ),
        (
            By::People,
            9,
            of(
                done("Turn off the flag instant-refunds", at(9), 1),
                SERVICE,
                "sam@example.com",
                &["incident", "feature-flag"],
            ),
        ),
        (
            By::Pipeline,
            ROLLED_BACK_AFTER,
            of(
                done("Deploy payments 4.17.3 again", at(16), 3),
                SERVICE,
                "sam@example.com",
                &["deploy", "incident"],
            ),
        ),
        (
            By::Pipeline,
            38,
            of(
                done("Deploy catalog 3.41.0", at(33), 5),
                "catalog",
                "tom@example.com",
                &["deploy"],
            ),
        ),
    ];
    let past = changes.into_iter().filter(|(_, end, _)| at(*end) <= now);
    past.map(|(by, _, change)| (by, change)).collect()
}

/// Marks the culprit as rolled back, if that time has come.
pub(super) async fn roll_back(
    client: &Client,
    incident: Timestamp,
    now: Timestamp,
) -> Result<(), Failure> {
    let end = incident.plus(TimeDelta::minutes(ROLLED_BACK_AFTER));
    if end > now {
        return Ok(());
    }
    let with_title = ChangeQuery::new().q(CULPRIT);
    let found = client.changes().list().matching(with_title).send().await?;
    let culprit = found.data.iter().find(|change| change.title == CULPRIT);
    if let Some(culprit) = culprit {
        let update = client.changes().update(culprit.id);
        update
            .status(Status::RolledBack)
            .reason("Payments failed: the new pool never returned connections to ledger")
            .ended_at(end)
            .send()
            .await?;
    }
    Ok(())
}

/// Returns what is in progress and what is planned.
#[expect(clippy::too_many_lines, reason = "a list")]
pub(super) fn unfinished(now: Timestamp) -> Vec<(By, NewChange)> {
    let at = |minutes: i64| now.plus(TimeDelta::minutes(minutes));
    // At a quarter of an hour, as people plan.
    let planned_at = |hours: i64| {
        let quarter = 15 * 60_000;
        let at = now.plus(TimeDelta::hours(hours)).millis();
        Timestamp::from_millis(at - at.rem_euclid(quarter))
    };
    let running = |title: &str, minutes: i64, risk| NewChange {
        title: title.to_owned(),
        status: Some(Status::InProgress),
        risk_level: Some(risk),
        environment: Some(Environment::Prod),
        started_at: Some(at(-minutes)),
        ..NewChange::default()
    };
    let planned = |title: &str, hours: i64, risk| NewChange {
        title: title.to_owned(),
        status: Some(Status::Planned),
        risk_level: Some(risk),
        environment: Some(Environment::Prod),
        scheduled_for: Some(planned_at(hours)),
        ..NewChange::default()
    };
    vec![
        (
            By::People,
            of(
                running(
                    "Drain prod-kafka-2 for a new disk",
                    9 * 24 * 60,
                    RiskLevel::Medium,
                ),
                "notifications",
                "omar@example.com",
                &["hardware"],
            ),
        ),
        (
            By::People,
            of(
                running("Migrate ledger events to schema 9", 3 * 60, RiskLevel::High),
                "ledger",
                "lena@example.com",
                &["database"],
            ),
        ),
        (
            By::Pipeline,
            of(
                running("Reindex the product catalog", 26, RiskLevel::Low),
                "catalog",
                "tom@example.com",
                &["search"],
            ),
        ),
        (
            By::People,
            of(
                planned("Rotate the database passwords", -20, RiskLevel::Medium),
                "accounts",
                "omar@example.com",
                &["security"],
            ),
        ),
        (
            By::People,
            NewChange {
                hostname: Some("prod-db-1".to_owned()),
                impact: Some("Ten minutes of read-only mode.".to_owned()),
                ..of(
                    planned("Upgrade PostgreSQL to 18 on prod-db-1", 7, RiskLevel::High),
                    "ledger",
                    "omar@example.com",
                    &["database"],
                )
            },
        ),
        (
            By::People,
            of(
                planned("Move the writes of ledger to prod-db-2", 7, RiskLevel::High),
                "ledger",
                "lena@example.com",
                &["database"],
            ),
        ),
        (
            By::Pipeline,
            of(
                planned("Deploy checkout 5.0.0", 22, RiskLevel::Medium),
                "checkout",
                "mei@example.com",
                &["deploy"],
            ),
        ),
        (
            By::People,
            of(
                planned("Renew the wildcard certificate", 6 * 24, RiskLevel::Low),
                "edge-gateway",
                "omar@example.com",
                &["security"],
            ),
        ),
    ]
}
