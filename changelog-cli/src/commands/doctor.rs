//! `chlog doctor`: whether a change would be recorded now, and if not, why.

use std::path::Path;
use std::time::{Duration, SystemTime};

use changelog_client::{Client, Error, ErrorKind, KeyInfo, Probe};
use changelog_core::api_key::{is_well_formed, mask};
use changelog_core::limits::MAX_CLOCK_SKEW;
use changelog_core::{Health, Timestamp};
use chrono::{DateTime, TimeDelta, Utc};
use secrecy::ExposeSecret;
use serde::Serialize;

use crate::base::failure::{Exit, Failure, Outcome};
use crate::base::time;
use crate::environment::app::App;
use crate::environment::config::{DEFAULT_PROFILE, Setting};
use crate::environment::credentials;
use crate::output::Output;
use crate::output::format::Format;
use crate::output::table;
use crate::recording::spool;

/// How often the service is asked, for a latency that is not chance.
const PROBES: usize = 5;
/// How far two clocks may differ without a word.
const CLOCKS_AGREE: TimeDelta = TimeDelta::seconds(30);
/// How long before its end a key's expiry is warned of.
const EXPIRES_SOON: TimeDelta = TimeDelta::days(14);
/// The service answers slower than this with a reason.
const SLOW: Duration = Duration::from_secs(1);
/// The name of the check on which all later ones depend.
const REACHABLE: &str = "reachable";

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Ok,
    Warning,
    Failed,
}

impl Verdict {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub(crate) struct Check {
    #[serde(rename = "check")]
    pub(crate) name: &'static str,
    pub(crate) verdict: Verdict,
    pub(crate) found: String,
    /// What to do about it.
    pub(crate) advice: Option<String>,
}

/// Everything that was looked at.
#[derive(Default)]
struct Report {
    checks: Vec<Check>,
    /// What recording a change would end with, from the first check that failed.
    exit: Option<(Exit, String)>,
}

impl Report {
    fn add(
        &mut self,
        check: &'static str,
        verdict: Verdict,
        found: impl Into<String>,
    ) -> &mut Check {
        self.checks.push(Check {
            name: check,
            verdict,
            found: found.into(),
            advice: None,
        });
        let last = self.checks.len() - 1;
        &mut self.checks[last]
    }

    fn ok(&mut self, check: &'static str, found: impl Into<String>) {
        self.add(check, Verdict::Ok, found);
    }

    fn warn(&mut self, check: &'static str, found: impl Into<String>, advice: &str) {
        self.add(check, Verdict::Warning, found).advice = Some(advice.to_owned());
    }

    fn fail(&mut self, check: &'static str, failure: &Failure) {
        let (message, hint) = failure.said();
        self.exit
            .get_or_insert((failure.exit, format!("{check}: {message}")));
        let advice = hint.unwrap_or_else(|| match failure.exit {
            Exit::Unavailable => "look whether the service runs, and the way there".to_owned(),
            _ => "`chlog help` explains what is needed".to_owned(),
        });
        self.add(check, Verdict::Failed, message).advice = Some(advice);
    }
}

/// Looks at everything that recording a change takes; the exit code is the one
/// that `chlog log` would end with.
pub(crate) async fn run(format: Format, app: Outcome<App>) -> Outcome {
    let mut report = Report::default();
    match &app {
        Ok(app) => examine(app, &mut report).await,
        Err(failure) => report.fail("configuration", failure),
    }
    let mut output = Output::new(format);
    if format == Format::Table {
        output.text(&table::checks(&report.checks))?;
    } else {
        let works = report.exit.is_none();
        output.json(&serde_json::json!({ "works": works, "checks": report.checks }))?;
    }
    match report.exit {
        None => Ok(()),
        Some((exit, why)) => Err(Failure::new(
            exit,
            format!("a change would not be recorded now: {why}"),
        )),
    }
}

async fn examine(app: &App, report: &mut Report) {
    configuration(app, report);
    let url = match app.url() {
        Ok(url) => url,
        Err(failure) => return report.fail("address", &failure),
    };
    let client = match app.keyless_client() {
        Ok(client) => client,
        Err(failure) => {
            let (message, _) = failure.said();
            let message = format!("{message} (from {})", url.source);
            let hint = "write it anew where it is from, such as https://changes.example.com";
            return report.fail("address", &Failure::new(failure.exit, message).hint(hint));
        }
    };
    report.ok("address", format!("{} (from {})", url.value, url.source));
    let last = service(&client, report).await;
    key(app, report).await;
    // What only bears on changes with a time of their own is the last to say
    // what logging would end with.
    if let Some((probe, at)) = last {
        let ahead = compare(&probe.health, probe.date, probe.latency, at);
        clock(ahead, report);
    }
    spooled(report);
}

/// Says which changes wait on this machine for the service.
fn spooled(report: &mut Report) {
    let Some(directory) = spool::directory() else {
        return report.warn(
            "spool",
            "there is no place for changes to wait when the service is away",
            "set HOME, XDG_STATE_HOME or CHLOG_SPOOL_DIR",
        );
    };
    let count = |directory: &Path| spool::paths(directory).map(|paths| paths.len());
    let counts = count(&directory).and_then(|waiting| {
        let refused = count(&spool::refused(&directory))?;
        Ok((waiting, refused))
    });
    let place = directory.display();
    match counts {
        Ok((0, 0)) => report.ok("spool", format!("nothing waits in {place}")),
        Ok((waiting, 0)) => report.warn(
            "spool",
            format!("{waiting} waiting in {place}"),
            "`chlog spool flush` sends what waits",
        ),
        Ok((waiting, refused)) => report.warn(
            "spool",
            format!("{waiting} waiting, {refused} not taken by the service, in {place}"),
            "`chlog spool status` says why",
        ),
        Err(error) => report.warn(
            "spool",
            format!("{place} cannot be read: {error}"),
            "what cannot be sent may be lost; see who owns it",
        ),
    }
}

/// Lists each setting that is in force, and where it is from.
fn configuration(app: &App, report: &mut Report) {
    let config = &app.config;
    if config.profile != DEFAULT_PROFILE {
        report.ok("profile", &config.profile);
    }
    for Setting {
        name,
        value,
        source,
    } in &config.settings
    {
        report.ok(name, format!("{value} (from {source})"));
    }
}

/// Asks the service how it is, a few times; returns the last answer, and when it
/// came.
async fn service(client: &Client, report: &mut Report) -> Option<(Probe, SystemTime)> {
    let mut probes: Vec<(Probe, SystemTime)> = Vec::with_capacity(PROBES);
    for _ in 0..PROBES {
        match client.probe().await {
            Ok(probe) => probes.push((probe, SystemTime::now())),
            Err(error) => {
                report.fail(REACHABLE, &error.into());
                return None;
            }
        }
    }
    let mut latencies: Vec<Duration> = probes.iter().map(|(probe, _)| probe.latency).collect();
    let first = latencies[0];
    latencies.sort_unstable();
    let median = latencies[PROBES / 2];
    let found = format!("answers in {median:.1?} ({first:.1?} with the connection)");
    if median > SLOW {
        let advice = "look at the network and the machine between here and there";
        report.warn(REACHABLE, found, advice);
    } else {
        report.ok(REACHABLE, found);
    }
    let (last, at) = probes.pop()?;
    if last.health.is_ok() {
        let latency = last.health.latency_ms.unwrap_or_default();
        report.ok("service", format!("its database answers in {latency} ms"));
    } else {
        let why = last.health.error.as_deref();
        let why = why.unwrap_or("its database does not answer");
        let failure = Failure::new(Exit::Unavailable, format!("cannot work: {why}"))
            .hint("tell whoever runs the service");
        report.fail("service", &failure);
    }
    Some((last, at))
}

/// Compares this machine's clock with the service's: how far ahead it is.
fn compare(
    health: &Health,
    date: Option<SystemTime>,
    latency: Duration,
    answered: SystemTime,
) -> Option<TimeDelta> {
    let half = TimeDelta::from_std(latency / 2).unwrap_or_default();
    let here: Timestamp = (DateTime::<Utc>::from(answered) - half).into();
    // A date is cut off at its second.
    let date = date.map(|date| {
        Timestamp::from(DateTime::<Utc>::from(date)).plus(TimeDelta::milliseconds(500))
    });
    let there = health.timestamp.or(date)?;
    let ahead = here.millis().saturating_sub(there.millis());
    Some(TimeDelta::milliseconds(ahead))
}

fn clock(ahead: Option<TimeDelta>, report: &mut Report) {
    let Some(ahead) = ahead else {
        let advice = "whatever stands between here and the service takes the Date header away";
        return report.warn("clock", "the service does not tell its time", advice);
    };
    let found = difference(ahead);
    let advice = "set this machine's clock, for example by NTP";
    if ahead > MAX_CLOCK_SKEW {
        let failure = Failure::new(
            Exit::Invalid,
            format!("{found}; the service takes nothing from more than 5 minutes ahead"),
        )
        .hint(advice);
        report.fail("clock", &failure);
    } else if ahead.abs() > CLOCKS_AGREE {
        report.warn("clock", found, advice);
    } else {
        report.ok("clock", found);
    }
}

/// Says how far this machine's clock is from the service's.
fn difference(ahead: TimeDelta) -> String {
    let millis = ahead.num_milliseconds();
    let distance = match millis.unsigned_abs() {
        millis @ 0..1_000 => return format!("{millis} ms from the service's"),
        millis @ 1_000..120_000 => format!("{} s", millis / 1_000),
        millis => format!("{} min", millis / 60_000),
    };
    let side = if millis > 0 { "ahead of" } else { "behind" };
    format!("{distance} {side} the service's")
}

/// Asks the service what it knows of the key.
async fn key(app: &App, report: &mut Report) {
    let found = match app.key() {
        Ok(found) => found,
        Err(failure) => return report.fail("key", &failure),
    };
    let Some(found) = found else {
        let url = app.url().map(|url| url.value.clone());
        let (credentials, profile) = (&app.credentials, &app.config.profile);
        let failure = credentials::missing(credentials, profile, &url.unwrap_or_default());
        return report.fail("key", &failure);
    };
    let shown = format!(
        "{} (from {})",
        mask(found.value.expose_secret()),
        found.source
    );
    if !is_well_formed(found.value.expose_secret()) {
        let failure = Failure::new(
            Exit::NotAuthorized,
            format!("{shown} is mistyped or cut off: its checksum is not right"),
        )
        .hint("a key begins with chlog_ and has 44 characters; keys are made in the dashboard");
        return report.fail("key", &failure);
    }
    let is_unreachable =
        |check: &Check| check.name == REACHABLE && check.verdict == Verdict::Failed;
    if report.checks.iter().any(is_unreachable) {
        let advice = "mend what failed above first";
        return report.warn("key", format!("{shown} could not be checked"), advice);
    }
    let client = match app.client() {
        Ok(client) => client,
        Err(failure) => return report.fail("key", &failure),
    };
    let said = match client.key().await {
        // A service of an earlier version knows the key, but not the question.
        Err(Error::Api {
            kind: ErrorKind::NotFound,
            ..
        }) => {
            let asked = client.changes().list().per_page(1).send().await;
            asked.map(|_| None)
        }
        said => said.map(Some),
    };
    match said {
        Ok(Some(known)) => {
            report.ok("key", format!("{shown}, {}, is accepted", known.name));
            let organization = &known.organization.name;
            report.ok(
                "plan",
                format!("{organization} is on the plan {}", known.plan),
            );
            expiry(&known, time::now(), report);
        }
        Ok(None) => report.ok("key", format!("{shown} is accepted")),
        Err(error) => {
            let check = match error.kind() {
                Some(ErrorKind::PlanRequired) => "plan",
                _ => "key",
            };
            let failure = Failure::from(error);
            report.fail(check, &failure);
        }
    }
}

fn expiry(key: &KeyInfo, now: Timestamp, report: &mut Report) {
    match key.expires_at {
        None => report.ok("expiry", "never"),
        Some(at) if at < now.plus(EXPIRES_SOON) => report.warn(
            "expiry",
            format!("{at}, {}", time::relative(at, now)),
            "make another key in the dashboard, and store it with `chlog auth login`",
        ),
        Some(at) => report.ok("expiry", at.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(ahead: i64) -> (Verdict, String) {
        let answered = SystemTime::UNIX_EPOCH + Duration::from_hours(1000);
        let there = DateTime::<Utc>::from(answered) - TimeDelta::seconds(ahead);
        let health = changelog_core::Health::ok(1, there.into());
        let mut report = Report::default();
        let found = compare(&health, None, Duration::ZERO, answered);
        clock(found, &mut report);
        let check = report.checks.remove(0);
        (check.verdict, check.found)
    }

    #[test]
    fn clocks_may_differ_a_little() {
        for (ahead, verdict, words) in [
            (0, Verdict::Ok, "0 ms"),
            (30, Verdict::Ok, "30 s ahead"),
            (31, Verdict::Warning, "31 s ahead"),
            (-31, Verdict::Warning, "31 s behind"),
            (300, Verdict::Warning, "5 min ahead"),
            (301, Verdict::Failed, "5 min ahead"),
            (-3000, Verdict::Warning, "50 min behind"),
        ] {
            let (found, said) = judged(ahead);
            assert_eq!(found, verdict, "{ahead}: {said}");
            assert!(said.contains(words), "{ahead}: {said}");
        }
    }
}
