//! `chlog doctor`: checks whether a change would be recorded now.

mod bounds;
mod clock;
mod id_token;
mod report;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime};

use changelog_client::{Client, ErrorKind, KeyInfo, Probe};
use changelog_core::api_key::{is_well_formed, mask};
use changelog_core::{CoveredSource, Host, Scope, Service, Timestamp};
use chrono::TimeDelta;
use secrecy::ExposeSecret;

use crate::base::failure::{Exit, Failure, Outcome};
use crate::base::time;
use crate::environment::app::App;
use crate::environment::config::{DEFAULT_PROFILE, Setting};
use crate::environment::context::agent::Recognized;
use crate::environment::context::{self, agent};
use crate::environment::credentials::is_same_url;
use crate::input::names::{self, Missing};
use crate::output::Output;
use crate::output::detail::agent_text;
use crate::output::format::Format;
use crate::recording::spool::entry::SpoolFile;
use crate::recording::spool::folder;
use report::{Check, Report, Verdict};

/// How many probes the latency is the median of.
const PROBES: usize = 5;
/// How long before its expiry a key is warned of.
const EXPIRY_WARNING: TimeDelta = TimeDelta::days(14);
/// The latency above which the server is called slow.
const SLOW_LATENCY: Duration = Duration::from_secs(1);
/// The name of the check that all later ones depend on.
const REACHABLE: &str = "reachable";

/// Runs all checks; the exit code is the one that `chlog log --strict` would have.
pub(crate) async fn run(mut output: Output, app: Outcome<App>) -> Outcome {
    let mut report = Report::default();
    match &app {
        Ok(app) => examine(app, &mut report).await,
        Err(failure) => report.fail("configuration", failure),
    }
    if output.format() == Format::Table {
        output.text(&report::table(&report.checks))?;
    } else {
        let works = report.exit.is_none();
        output.json(&serde_json::json!({ "works": works, "checks": report.checks }))?;
    }
    match report.exit {
        None => Ok(()),
        Some((exit, why)) => Err(Failure::new(
            exit,
            match exit {
                Exit::Unavailable => {
                    format!("recording would only queue the change now: {why}")
                }
                _ => format!("recording would fail: {why}"),
            },
        )),
    }
}

/// Checks the settings, the server, the key, the clock and the spool.
async fn examine(app: &App, report: &mut Report) {
    configuration(app, report);
    agent(report);
    let url = match app.url() {
        Ok(url) => url,
        Err(failure) => return report.fail("url", &failure),
    };
    let client = match app.keyless_client() {
        Ok(client) => client,
        Err(failure) => {
            let (message, _) = failure.message_and_advice();
            let message = format!("{message} (from {})", url.source);
            let hint = "fix it at its source; for example https://changes.example.com";
            return report.fail("url", &Failure::new(failure.exit, message).hint(hint));
        }
    };
    report.ok("url", format!("{} (from {})", url.value, url.source));
    proxy(&client, report);
    let last = server(&client, report).await;
    key(app, report).await;
    // Last, because the clock only matters for changes with a time of their own:
    // an earlier failure decides the exit code.
    if let Some((probe, at)) = last {
        let ahead = clock::ahead(&probe.health, probe.date, probe.latency, at);
        clock::check(ahead, report);
    }
    names(app, report).await;
    if let Some(client) = working_client(app, report)
        && let Ok(key) = client.key().await
    {
        bounds::check(app, &client, key, report).await;
    }
    coverage(app, report).await;
    spooled(&url.value, report);
}

/// Adds the agent that changes of this environment name.
fn agent(report: &mut Report) {
    match agent::recognized(context::is_ci()) {
        Some(Recognized::Agent(agent, signal)) => report.ok(
            "agent",
            format!(
                "changes name {} (from {signal}); {}=off leaves it out",
                agent_text(&agent),
                agent::VARIABLE
            ),
        ),
        Some(Recognized::Off) => report.ok(
            "agent",
            format!("changes name none (from {})", agent::VARIABLE),
        ),
        None => {}
    }
}

/// Adds the proxy that requests go through, and variables for one that have no effect.
fn proxy(client: &Client, report: &mut Report) {
    if let Some(proxy) = client.proxy() {
        return report.ok("proxy", format!("requests go through {proxy}"));
    }
    let names = ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"];
    let lower = names.map(str::to_lowercase);
    let all = names.into_iter().chain(lower.iter().map(String::as_str));
    let set: Vec<&str> = all
        .filter(|name| std::env::var(name).is_ok_and(|value| !value.trim().is_empty()))
        .collect();
    if !set.is_empty() {
        report.warn(
            "proxy",
            format!("none for this URL, although {} is set", set.join(", ")),
            "the variable is for another scheme, NO_PROXY excludes this URL, or the value is not a URL",
        );
    }
}

/// Returns a client, unless a check has failed.
fn working_client(app: &App, report: &Report) -> Option<Client> {
    let has_failed = |check: &Check| check.verdict == Verdict::Failed;
    if report.checks.iter().any(has_failed) {
        return None;
    }
    app.client().ok()
}

/// Checks whether the sources and the keys that record changes are heard as often as usual.
async fn coverage(app: &App, report: &mut Report) {
    let Some(client) = working_client(app, report) else {
        return;
    };
    let request = client.changes().around().window_minutes(1).limit(1);
    let coverage = match request.send().await {
        Ok(around) => around.coverage,
        // A key that only records may not ask; it records nevertheless.
        Err(error) if error.kind() == Some(ErrorKind::ScopeRequired) => return,
        Err(error) => return report.fail("coverage", &error.into()),
    };
    for gap in coverage.open_gaps() {
        report.warn(
            "coverage",
            format!("{} has been silent since {}", gap.name, gap.since),
            "check that it still sends; if nothing is expected of it any more, turn the source \
             off or revoke the key",
        );
    }
    let learning = |one: &&CoveredSource| one.expected_by.is_none();
    let learning = coverage.sources.iter().filter(learning).count();
    let silent = coverage.open_gaps().count();
    let in_time = coverage.sources.len().saturating_sub(learning + silent);
    if in_time + learning > 0 {
        let found = format!(
            "of the sources and keys, {in_time} are heard as often as usual, and of {learning} it \
             is not known yet how often that is"
        );
        report.ok("coverage", found);
    }
}

/// Checks that the services and hosts of the settings exist: a change without these flags
/// is for them.
async fn names(app: &App, report: &mut Report) {
    let Some(client) = working_client(app, report) else {
        return;
    };
    let defaults = &app.config.defaults;
    if let Some(name) = names::non_empty(defaults.service.as_deref())
        && let Err(failure) = names::resolve::<Service>(&client, name, Missing::Refuse).await
    {
        report.fail("service", &failure);
    }
    if let Some(name) = names::non_empty(defaults.host.as_deref())
        && let Err(failure) = names::resolve::<Host>(&client, name, Missing::Refuse).await
    {
        report.fail("host", &failure);
    }
}

/// Adds the check of the spool.
fn spooled(url: &str, report: &mut Report) {
    let Some(directory) = folder::directory() else {
        return report.warn(
            "spool",
            "no directory for queued changes",
            "set HOME, XDG_STATE_HOME or CHLOG_SPOOL_DIR",
        );
    };
    let count = |directory: &Path| folder::paths(directory).map(|paths| paths.len());
    let counts = count(&directory).and_then(|waiting| {
        let rejected = count(&folder::rejected(&directory))?;
        Ok((waiting, rejected))
    });
    let path = directory.display();
    let files = SpoolFile::read_all(&directory).unwrap_or_default();
    let entries = files.iter().filter_map(|file| file.entry.as_ref().ok());
    let others = entries.filter(|entry| !is_same_url(&entry.url, url));
    let elsewhere: BTreeSet<&str> = others.map(|entry| entry.url.as_str()).collect();
    if !elsewhere.is_empty() {
        let urls: Vec<&str> = elsewhere.into_iter().collect();
        report.warn(
            "spool",
            format!("changes are queued for other URLs: {}", urls.join(", ")),
            "`chlog spool flush --from URL` sends them to this server",
        );
    }
    match counts {
        Ok((0, 0)) => report.ok("spool", format!("queue empty ({path})")),
        Ok((waiting, 0)) => report.warn(
            "spool",
            format!("{waiting} queued in {path}"),
            "`chlog spool flush` sends them",
        ),
        Ok((waiting, rejected)) => report.warn(
            "spool",
            format!("{waiting} queued and {rejected} rejected by the server, in {path}"),
            "`chlog spool status` shows why",
        ),
        Err(error) => report.warn(
            "spool",
            format!("{path} cannot be read: {error}"),
            "changes may be lost; check the directory's ownership",
        ),
    }
}

/// Adds each setting with its source.
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

/// Checks the server a few times; returns the last response and its time.
async fn server(client: &Client, report: &mut Report) -> Option<(Probe, SystemTime)> {
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
    let millis = |latency: Duration| format!("{:.1} ms", latency.as_secs_f64() * 1000.0);
    let found = format!(
        "responds in {} ({} including connect)",
        millis(median),
        millis(first)
    );
    if median > SLOW_LATENCY {
        let advice = "check the network between this machine and the server";
        report.warn(REACHABLE, found, advice);
    } else {
        report.ok(REACHABLE, found);
    }
    let (last, at) = probes.pop()?;
    if last.health.is_ok() {
        let latency = last.health.latency_ms.unwrap_or_default();
        report.ok(
            "server",
            match latency {
                0 => "healthy; database OK (<1 ms)".to_owned(),
                latency => format!("healthy; database OK ({latency} ms)"),
            },
        );
    } else {
        let why = last.health.error.as_deref();
        let why = why.unwrap_or("its database does not respond");
        let failure = Failure::new(Exit::Unavailable, format!("unhealthy: {why}"))
            .hint("contact the administrator of the server");
        report.fail("server", &failure);
    }
    Some((last, at))
}

/// Checks by what requests are authenticated with the server.
async fn key(app: &App, report: &mut Report) {
    let is_unreachable =
        |check: &Check| check.name == REACHABLE && check.verdict == Verdict::Failed;
    let is_unreachable = report.checks.iter().any(is_unreachable);
    if let Ok(Some(source)) = app.id_token() {
        if is_unreachable {
            let found = format!("from {}, was not checked", source.name());
            return report.warn("id token", found, "fix the failures above first");
        }
        let has_key = matches!(app.key(), Ok(Some(_)));
        if id_token::check(app, &source, has_key, report).await || !has_key {
            return;
        }
    }
    let found = match app.required_key() {
        Ok(found) => found,
        Err(failure) => return report.fail("key", &failure),
    };
    let shown = format!(
        "{} (from {})",
        mask(found.value.expose_secret()),
        found.source
    );
    if !is_well_formed(found.value.expose_secret()) {
        let failure = Failure::new(
            Exit::NotAuthorized,
            format!("{shown} looks mistyped or truncated (checksum mismatch)"),
        )
        .hint("a key begins with chlog_ and has 44 characters; keys are created in the dashboard");
        return report.fail("key", &failure);
    }
    if is_unreachable {
        let advice = "fix the failures above first";
        return report.warn("key", format!("{shown} was not checked"), advice);
    }
    let client = match app.client() {
        Ok(client) => client,
        Err(failure) => return report.fail("key", &failure),
    };
    match client.key().await {
        Ok(known) => {
            report.ok("key", format!("{shown}, {}, is accepted", known.name));
            let organization = &known.organization.name;
            report.ok(
                "plan",
                format!("organization {organization}, plan {}", known.plan),
            );
            expiry(&known, time::now(), report);
            scopes(&known, report);
        }
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

/// Adds the check of what the key may do.
fn scopes(key: &KeyInfo, report: &mut Report) {
    if !key.scopes.contains(&Scope::Record) {
        let scopes: Vec<&str> = key.scopes.iter().map(Scope::as_str).collect();
        let found = format!(
            "has the scope {} only, without record",
            scopes.join(" and ")
        );
        let failure = Failure::new(Exit::NotAuthorized, found)
            .hint("use a key that may record; the dashboard has them under Settings, API keys");
        report.fail("scopes", &failure);
    }
}

/// Adds the check of the key's expiry.
fn expiry(key: &KeyInfo, now: Timestamp, report: &mut Report) {
    match key.expires_at {
        None => report.ok("expiry", "never"),
        Some(at) if at < now.plus(EXPIRY_WARNING) => report.warn(
            "expiry",
            format!("{at}, {}", time::relative(at, now)),
            "create another key in the dashboard, and store it with `chlog auth login`",
        ),
        Some(at) => report.ok("expiry", at.to_string()),
    }
}
