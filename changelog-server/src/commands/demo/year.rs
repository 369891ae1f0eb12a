//! A year of ordinary changes: deployments, Terraform, configuration, maintenance.

use changelog_core::{Environment, Link, NewChange, Outcome, RiskLevel, Status, Timestamp};
use chrono::{Datelike, NaiveTime, TimeDelta, Weekday};
use rand::rngs::StdRng;
use rand::{Rng, RngExt};

use super::incident;
use super::organization::{By, HOSTS, SERVICES};

const DAYS: i64 = 365;
const PEOPLE: [&str; 6] = ["mei", "omar", "lena", "tom", "sam", "ada"];
const FLAGS: [&str; 5] = [
    "instant-refunds",
    "new-cart",
    "dark-mode",
    "gift-cards",
    "sca-2",
];
/// How long before the incident nothing else changes the service that breaks.
const QUIET_BEFORE: TimeDelta = TimeDelta::hours(48);

/// Returns the changes of the year before `now`, in any order.
pub(super) fn changes(
    random: &mut StdRng,
    now: Timestamp,
    incident: Timestamp,
) -> Vec<(By, NewChange)> {
    let today = now.to_datetime().date_naive();
    let mut changes = Vec::new();
    for back in 0..DAYS {
        let day = today - TimeDelta::days(back);
        for _ in 0..number_on(random, day) {
            // Most work is done around 10:30 and 15:00 UTC.
            let peak = if random.random_bool(0.55) { 630 } else { 900 };
            let minute = peak + random.random_range(-95..=95) + random.random_range(-95..=95);
            let seconds = minute * 60 + random.random_range(0..60);
            let start = day.and_time(NaiveTime::MIN).and_utc() + TimeDelta::seconds(seconds);
            let start = Timestamp::from(start);
            let (by, change) = routine(random, start, back);
            let is_past = change.ended_at.is_some_and(|end| end < now);
            let is_of_incident = change.service_name.as_deref() == Some(incident::SERVICE)
                && start > incident.plus(-QUIET_BEFORE);
            if is_past && !is_of_incident {
                changes.push((by, change));
            }
        }
    }
    changes
}

/// Returns how many changes a day has: few at weekends and during the freeze at the
/// end of a year.
fn number_on(random: &mut StdRng, day: chrono::NaiveDate) -> u32 {
    let is_weekend = matches!(day.weekday(), Weekday::Sat | Weekday::Sun);
    let is_freeze = day.month() == 12 && day.day() > 19;
    match (is_weekend, is_freeze) {
        (true, _) => random.random_range(0..3),
        (false, true) => random.random_range(0..4),
        (false, false) => random.random_range(5..14),
    }
}

/// Draws a change of a day that is so many days back.
fn routine(random: &mut StdRng, start: Timestamp, back: i64) -> (By, NewChange) {
    let weights: u32 = SERVICES.iter().map(|service| service.weight).sum();
    let mut drawn = random.random_range(0..weights);
    let mut chosen = SERVICES[0].name;
    for service in &SERVICES {
        chosen = service.name;
        if drawn < service.weight {
            break;
        }
        drawn -= service.weight;
    }
    let mut change = NewChange {
        service_name: Some(chosen.to_owned()),
        on_behalf_of: Some(format!("{}@example.com", pick(random, &PEOPLE))),
        environment: Some(match random.random_range(0..100) {
            0..58 => Environment::Prod,
            58..90 => Environment::Staging,
            _ => Environment::Dev,
        }),
        status: Some(Status::Completed),
        outcome: Some(Outcome::Succeeded),
        started_at: Some(start),
        ..NewChange::default()
    };
    let (by, minutes) = match random.random_range(0..100) {
        0..56 => deploy(random, &mut change, chosen, back),
        56..72 => terraform(random, &mut change),
        72..90 => configure(random, &mut change, chosen),
        _ => maintain(random, &mut change),
    };
    let seconds = minutes * 60 + random.random_range(0..60);
    change.ended_at = Some(start.plus(TimeDelta::seconds(seconds)));
    (by, change)
}

fn deploy(random: &mut StdRng, change: &mut NewChange, service: &str, back: i64) -> (By, i64) {
    // A minor version lasts 20 days; yesterday's is the one before the incident.
    let (minor, patch) = (17 - back / 20, (19 - back % 20) / 5);
    change.title = format!("Deploy {service} 4.{}.{patch}", minor.max(0));
    change.tags = vec!["deploy".to_owned()];
    change.commit = Some(format!("{:012x}", random.next_u64() >> 16));
    change.risk_level = Some(risk(random, 66, 94));
    let run = random.random_range(10_000..99_999);
    change.links = vec![Link {
        label: "pipeline".to_owned(),
        url: format!("https://ci.example.com/{service}/runs/{run}"),
    }];
    end(random, change, 4, 3);
    (By::Pipeline, random.random_range(2..14))
}

fn terraform(random: &mut StdRng, change: &mut NewChange) -> (By, i64) {
    let (added, changed) = (random.random_range(0..6), random.random_range(1..9));
    let destroyed = if random.random_bool(0.2) {
        random.random_range(1..4)
    } else {
        0
    };
    change.title = match (added, destroyed) {
        (0, 0) => format!("terraform apply: {changed} changed"),
        (_, 0) => format!("terraform apply: {added} added, {changed} changed"),
        _ => format!("terraform apply: {added} added, {changed} changed, {destroyed} destroyed"),
    };
    change.tags = vec!["terraform".to_owned()];
    change.risk_level = Some(if destroyed > 0 {
        RiskLevel::High
    } else {
        RiskLevel::Medium
    });
    end(random, change, 7, 1);
    (By::Terraform, random.random_range(1..9))
}

fn configure(random: &mut StdRng, change: &mut NewChange, service: &str) -> (By, i64) {
    let number = random.random_range(2..20);
    let (title, tag) = match random.random_range(0..5) {
        0 => (
            format!("Raise the connection pool of {service} to {}", number * 10),
            "config",
        ),
        1 => {
            let flag = pick(random, &FLAGS);
            (
                format!("Set the flag {flag} to {} %", number * 5),
                "feature-flag",
            )
        }
        2 => (format!("Scale {service} to {number} pods"), "scaling"),
        3 => (format!("Rotate the API keys of {service}"), "security"),
        _ => (format!("Set the log level of {service} to info"), "config"),
    };
    change.title = title;
    change.tags = vec![tag.to_owned()];
    change.risk_level = Some(risk(random, 82, 98));
    end(random, change, 1, 4);
    (By::People, 0)
}

fn maintain(random: &mut StdRng, change: &mut NewChange) -> (By, i64) {
    let host = HOSTS[random.random_range(0..HOSTS.len())].0;
    let (title, tag) = match random.random_range(0..4) {
        0 => (format!("Patch the kernel of {host}"), "security"),
        1 => (format!("Renew the TLS certificate of {host}"), "security"),
        2 => (format!("Add a volume to {host}"), "storage"),
        _ => (format!("Restart the agents on {host}"), "maintenance"),
    };
    change.title = title;
    change.tags = vec![tag.to_owned()];
    change.service_name = None;
    change.hostname = Some(host.to_owned());
    change.environment = None;
    change.risk_level = Some(risk(random, 70, 92));
    end(random, change, 2, 1);
    (By::People, random.random_range(3..40))
}

/// Draws a risk: low below the first percentage, medium below the second.
fn risk(random: &mut StdRng, low: u32, medium: u32) -> RiskLevel {
    let drawn = random.random_range(0..100);
    if drawn < low {
        RiskLevel::Low
    } else if drawn < medium {
        RiskLevel::Medium
    } else {
        RiskLevel::High
    }
}

/// Lets some of the changes fail and some be rolled back, in percent.
fn end(random: &mut StdRng, change: &mut NewChange, failed: u32, undone: u32) {
    let drawn = random.random_range(0..100);
    let outcome = if drawn < failed {
        Outcome::Failed
    } else if drawn < failed + undone {
        Outcome::Undone
    } else {
        return;
    };
    change.status = Some(Status::RolledBack);
    change.outcome = Some(outcome);
}

fn pick<'w>(random: &mut StdRng, words: &[&'w str]) -> &'w str {
    words[random.random_range(0..words.len())]
}
