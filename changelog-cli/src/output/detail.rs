//! Single records in full, with exact times, for people.

use std::fmt::Write;

use anstyle::Style;
use changelog_core::change::fields::long_texts;
use changelog_core::text::printable;
use changelog_core::{
    Agent, Author, AuthorType, Change, Environment, Host, Service, Timestamp, VerifiedRun,
};

use super::catalog::names;
use super::colors::{colored, risk_color, status_color};
use crate::base::text::one_line;
use crate::base::time::{duration, relative};

pub(super) const BOLD: Style = Style::new().bold();

/// Formats a change in full; `url` is the address of its page.
/// `updated_by` made the newest update.
pub(crate) fn change(
    change: &Change,
    updated_by: Option<&Author>,
    url: &str,
    now: Timestamp,
) -> String {
    let risk = colored(change.risk_level.as_str(), risk_color(&change.risk_level));
    let status = colored(change.status_label(), status_color(&change.status));
    let mut fields = vec![
        ("id", change.id.to_string()),
        ("url", printable(url).into_owned()),
        ("risk", risk),
        ("status", status),
    ];
    if let Some(environment) = &change.environment {
        fields.push(("environment", one_line(environment.as_str())));
    }
    for service in change.all_services() {
        fields.push((
            "service",
            format!("{} ({})", one_line(&service.name), service.id),
        ));
    }
    if let Some(host) = &change.host_ref {
        let environment = host
            .environment
            .as_ref()
            .map(|one| format!("{}, ", one_line(one.as_str())))
            .unwrap_or_default();
        let name = one_line(&host.hostname);
        fields.push(("host", format!("{name} ({environment}{})", host.id)));
    }
    if !change.tags.is_empty() {
        fields.push(("tags", one_line(&change.tags.join(", "))));
    }
    if let Some(at) = change.scheduled_for {
        fields.push(("scheduled", exact(at, now)));
    }
    for (name, at) in [("started", change.started_at), ("ended", change.ended_at)] {
        fields.extend(at.map(|at| (name, exact(at, now))));
    }
    if let Some(Ok(lasted)) = change.duration().map(|lasted| lasted.to_std()) {
        fields.push(("duration", duration(lasted)));
    }
    if change.started_at != Some(change.occurred_at) {
        fields.push(("occurred", exact(change.occurred_at, now)));
    }
    // A change without a time of its own is recorded a moment later.
    let delay = change.created_at.millis() - change.occurred_at.millis();
    if !(0..1000).contains(&delay) {
        fields.push(("recorded", exact(change.created_at, now)));
    }
    if change.updated_at != change.created_at {
        let by = updated_by.map(|author| format!(" by {}", one_line(&author.name)));
        let updated = exact(change.updated_at, now);
        fields.push(("updated", updated + &by.unwrap_or_default()));
    }
    if let Some(author) = &change.created_by {
        fields.push(("by", author_text(author)));
    }
    if let Some(run) = change.verified_run() {
        fields.push(("pipeline run", run_text(run)));
    }
    if let Some(person) = &change.on_behalf_of {
        let proof = if change.is_verified_actor(person) {
            "verified"
        } else {
            "as claimed"
        };
        fields.push(("on behalf of", format!("{} ({proof})", one_line(person))));
    }
    if let Some(agent) = &change.agent {
        fields.push(("agent", agent_text(agent)));
    }
    if let Some(commit) = &change.commit {
        let committed = change.committed_at.map(|at| exact(at, now));
        let committed = committed.map(|at| format!(", {at}"));
        let committed = committed.unwrap_or_default();
        fields.push(("commit", format!("{}{committed}", one_line(commit))));
    }
    for link in &change.links {
        fields.push((
            "link",
            format!("{}: {}", one_line(&link.label), one_line(&link.url)),
        ));
    }
    let mut text = titled(&change.title, &fields);
    for (_, field) in long_texts() {
        section(&mut text, field.label, (field.of)(change).as_deref());
    }
    text
}

/// Formats the author of a change.
fn author_text(author: &Author) -> String {
    let kind = match author.kind {
        AuthorType::ApiKey => "API key".to_owned(),
        AuthorType::Person => "person".to_owned(),
        AuthorType::Workload => "pipeline".to_owned(),
        _ => one_line(author.kind.as_str()),
    };
    format!("{} ({kind}, {})", one_line(&author.name), author.id)
}

/// Formats what the token of a pipeline says of its run.
fn run_text(run: &VerifiedRun) -> String {
    let commit = run.commit.as_ref().map(|commit| format!("commit {commit}"));
    let actor = run
        .actor
        .as_ref()
        .map(|actor| format!("started by {actor}"));
    let id = run.run.as_ref().map(|id| format!("run {id}"));
    let parts = [
        &run.repository,
        &run.git_ref,
        &commit,
        &actor,
        &id,
        &run.run_url,
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .flatten()
        .map(|text| one_line(text))
        .collect();
    format!("{} (verified)", parts.join(", "))
}

/// Formats the automation that made a change.
pub(crate) fn agent_text(agent: &Agent) -> String {
    let mut notes: Vec<String> = vec!["as claimed".to_owned()];
    notes.extend(agent.mode.as_ref().map(|mode| one_line(mode.as_str())));
    notes.extend(agent.run.as_deref().map(one_line));
    format!("{} ({})", one_line(&agent.name), notes.join(", "))
}

/// Formats a service in full. `all` has the services that it depends on and those that
/// depend on it.
pub(crate) fn service(service: &Service, all: &[Service], now: Timestamp) -> String {
    let mut fields = vec![
        ("id", service.id.to_string()),
        ("color", one_line(&service.color)),
    ];
    if !service.depends_on.is_empty() {
        let names = names(all, &service.depends_on);
        fields.push(("depends on", one_line(&names.join(", "))));
    }
    let needs_it = |one: &&Service| one.depends_on.contains(&service.id);
    let needed_by: Vec<&str> = all.iter().filter(needs_it).map(|one| &*one.name).collect();
    if !needed_by.is_empty() {
        fields.push(("needed by", one_line(&needed_by.join(", "))));
    }
    fields.push(("created", exact(service.created_at, now)));
    let mut text = titled(&service.name, &fields);
    section(&mut text, "Description", service.description.as_deref());
    text
}

/// Formats a host in full.
pub(crate) fn host(host: &Host, now: Timestamp) -> String {
    let mut fields = vec![("id", host.id.to_string())];
    let environment = host.environment.as_ref().map(Environment::as_str);
    let texts = [
        ("fqdn", host.fqdn.as_deref()),
        ("address", host.ip_address.as_deref()),
        ("os", host.os.as_deref()),
        ("platform", Some(host.platform.as_str())),
        ("environment", environment),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            fields.push((name, one_line(value)));
        }
    }
    if !host.roles.is_empty() {
        fields.push(("roles", one_line(&host.roles.join(", "))));
    }
    fields.push(("created", exact(host.created_at, now)));
    let mut text = titled(&host.hostname, &fields);
    section(&mut text, "Description", host.description.as_deref());
    text
}

pub(super) fn titled(title: &str, fields: &[(&str, String)]) -> String {
    let mut text = format!("{BOLD}{}{BOLD:#}\n", one_line(title));
    let widest = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in fields {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {name:<widest$}  {value}");
    }
    text
}

fn section(text: &mut String, heading: &str, content: Option<&str>) {
    if let Some(content) = content.filter(|content| !content.is_empty()) {
        let content = printable(content);
        let _ = writeln!(text, "\n{BOLD}{heading}{BOLD:#}\n{content}");
    }
}

pub(super) fn exact(at: Timestamp, now: Timestamp) -> String {
    format!("{at} ({})", relative(at, now))
}

#[cfg(test)]
mod tests {
    use changelog_core::{Agent, AgentMode, Outcome, Status};

    use crate::output::changes::tests::{NOW, change, plain};

    #[test]
    fn a_change_in_full_has_exact_times() {
        let mut change = change("Deploy");
        let text = plain(&super::change(&change, None, "", NOW.parse().unwrap()));
        assert!(
            text.contains("started      2026-11-21T08:30:00.000Z (3m ago)"),
            "{text}"
        );
        assert!(
            !text.contains("occurred") && !text.contains("duration"),
            "{text}"
        );
        assert!(text.contains("run: https://ci.example.com/1"), "{text}");
        // Planned earlier, and failed after a minute and a half.
        change.occurred_at = "2026-11-20T08:30:00.000Z".parse().unwrap();
        change.ended_at = "2026-11-21T08:31:30.000Z".parse().ok();
        change.status = Status::RolledBack;
        change.outcome = Some(Outcome::Failed);
        let text = plain(&super::change(&change, None, "", NOW.parse().unwrap()));
        for line in [
            "status       failed\n",
            "environment  staging\n",
            "service      search (",
            "ended        2026-11-21T08:31:30.000Z (1m ago)\n",
            "duration     1 min 30 s\n",
            "occurred     2026-11-20T08:30:00.000Z (1d ago)\n",
            "by           a-pipeline-with-a-name (API key, ",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn the_newest_update_has_its_author() {
        let mut change = change("Deploy");
        change.updated_at = "2026-11-21T08:32:00.000Z".parse().unwrap();
        let author = change.created_by.clone();
        let now = NOW.parse().unwrap();
        let text = plain(&super::change(&change, author.as_ref(), "", now));
        let line = "updated      2026-11-21T08:32:00.000Z (1m ago) by a-pipeline-with-a-name\n";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn claims_are_shown_as_claims() {
        let mut change = change("Deploy");
        change.on_behalf_of = Some("ada@example.com".to_owned());
        change.agent = Some(Agent {
            name: "renovate".to_owned(),
            mode: Some(AgentMode::Autonomous),
            run: None,
        });
        change.commit = Some("1a2b3c4".to_owned());
        change.committed_at = "2026-11-21T08:00:00.000Z".parse().ok();
        let text = plain(&super::change(&change, None, "", NOW.parse().unwrap()));
        for line in [
            "on behalf of  ada@example.com (as claimed)\n",
            "agent         renovate (as claimed, autonomous)\n",
            "commit        1a2b3c4, 2026-11-21T08:00:00.000Z (33m ago)\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn control_characters_are_escaped_and_lines_are_kept() {
        let text = plain(&super::change(
            &change("a\u{1b}[31mb\nc"),
            None,
            "",
            NOW.parse().unwrap(),
        ));
        assert!(text.contains("a<U+001B>[31mb c\n"), "{text}");
        assert!(text.contains("First line\nSecond<U+001B>[2J\n"), "{text}");
    }
}
