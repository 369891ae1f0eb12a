//! Single records in full, with exact times, for people.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use changelog_core::change::fields::long_texts;
use changelog_core::text::printable;
use changelog_core::{Change, Environment, Host, Service, ServiceId, Timestamp};
use comfy_table::Color;

use super::table::{risk_color, status_color};
use crate::base::text::one_line;
use crate::base::time::relative;

/// The tag of a change whose command was running when `chlog` was killed; see
/// `recording::run_recorder`.
pub(crate) const OUTCOME_UNKNOWN_TAG: &str = "outcome-unknown";

const BOLD: Style = Style::new().bold();

/// Formats a change in full.
pub(crate) fn change(change: &Change, now: Timestamp) -> String {
    let risk = colored(change.risk_level.as_str(), risk_color(&change.risk_level));
    let mut status = colored(change.status.as_str(), status_color(&change.status));
    if change.tags.iter().any(|tag| tag == OUTCOME_UNKNOWN_TAG) {
        status.push_str(" (outcome unknown)");
    }
    let mut fields = vec![
        ("id", change.id.to_string()),
        ("risk", risk),
        ("status", status),
    ];
    if let Some(service) = &change.service {
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
    fields.push(("occurred", exact(change.occurred_at, now)));
    // A change without a time of its own is recorded a moment later.
    let delay = change.created_at.millis() - change.occurred_at.millis();
    if !(0..1000).contains(&delay) {
        fields.push(("recorded", exact(change.created_at, now)));
    }
    if change.updated_at != change.created_at {
        fields.push(("updated", exact(change.updated_at, now)));
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

/// Returns the names of services, or an id where the service is not among `all`.
pub(super) fn names(all: &[Service], ids: &[ServiceId]) -> Vec<String> {
    let name = |id: &ServiceId| {
        let found = all.iter().find(|service| service.id == *id);
        found.map_or_else(|| id.to_string(), |service| service.name.clone())
    };
    ids.iter().map(name).collect()
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

fn titled(title: &str, fields: &[(&str, String)]) -> String {
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

fn exact(at: Timestamp, now: Timestamp) -> String {
    format!("{at} ({})", relative(at, now))
}

/// Colors a word as the tables do.
pub(super) fn colored(word: &str, color: Color) -> String {
    let color = match color {
        Color::DarkGreen => AnsiColor::Green,
        Color::DarkYellow => AnsiColor::Yellow,
        Color::DarkRed => AnsiColor::Red,
        Color::DarkBlue => AnsiColor::Blue,
        Color::DarkCyan => AnsiColor::Cyan,
        _ => return one_line(word),
    };
    let style = color.on_default();
    format!("{style}{}{style:#}", one_line(word))
}

#[cfg(test)]
mod tests {
    use crate::output::table::tests::{NOW, change, plain};

    #[test]
    fn a_change_in_full_has_exact_times() {
        let text = plain(&super::change(&change("Deploy"), NOW.parse().unwrap()));
        assert!(
            text.contains("occurred  2026-11-21T08:30:00.000Z (3m ago)"),
            "{text}"
        );
        assert!(text.contains("run: https://ci.example.com/1"), "{text}");
    }

    #[test]
    fn control_characters_are_escaped_and_lines_are_kept() {
        let text = plain(&super::change(
            &change("a\u{1b}[31mb\nc"),
            NOW.parse().unwrap(),
        ));
        assert!(text.contains("a\\u{1b}[31mb c\n"), "{text}");
        assert!(text.contains("First line\nSecond\\u{1b}[2J\n"), "{text}");
    }
}
