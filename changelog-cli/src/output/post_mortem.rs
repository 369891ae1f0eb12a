//! An incident as Markdown, which serves as the start of a post-mortem: what changed, what was
//! suspected and why, what was the cause, when it was found, and when it was over.

use std::fmt::Write;

use changelog_core::{ChangeId, Environment, Incident, IncidentSuspect, Timestamp};

use super::incidents::{lasted, missing};
use crate::base::text::one_line;
use crate::base::time::duration;

/// Formats an incident; `page` returns the address of the page of a change.
pub(crate) fn markdown(incident: &Incident, page: impl Fn(ChangeId) -> String) -> String {
    let report = Report {
        incident,
        page: &page,
    };
    let mut text = format!("# {}\n\n{}", escaped(&incident.title), report.facts());
    let sections = [
        ("What happened", report.timeline()),
        ("Cause", report.cause()),
        ("Suspects", report.suspects()),
    ];
    for (heading, content) in sections {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n## {heading}\n\n{content}");
    }
    if is_changed(incident) {
        let first = report.list(&incident.first_suspects);
        let _ = write!(text, "\n## What was suspected first\n\n{first}");
    }
    text
}

/// Returns whether other changes are suspected than at first.
fn is_changed(incident: &Incident) -> bool {
    let ids = |suspects: &[IncidentSuspect]| -> Vec<ChangeId> {
        suspects.iter().map(|suspect| suspect.change.id).collect()
    };
    ids(&incident.first_suspects) != ids(&incident.suspects)
}

struct Report<'a> {
    incident: &'a Incident,
    page: &'a dyn Fn(ChangeId) -> String,
}

impl Report<'_> {
    fn facts(&self) -> String {
        let incident = self.incident;
        let mut facts = vec![("Severity", escaped(incident.severity.as_str()))];
        if let Some(service) = &incident.service {
            facts.push(("Service", escaped(&service.name)));
        }
        if let Some(environment) = &incident.environment {
            facts.push(("Environment", escaped(environment.as_str())));
        }
        facts.push(("Started", readable(incident.started_at)));
        if let Some(cause) = &incident.cause {
            facts.push(("Cause found", self.after_start(cause.marked_at)));
        }
        facts.push(match (incident.resolved_at, lasted(incident)) {
            (Some(at), Some(lasted)) => ("Resolved", format!("{}, after {lasted}", readable(at))),
            _ => ("Resolved", "not yet".to_owned()),
        });
        if let Some(url) = &incident.url {
            facts.push(("Link", link(url, url)));
        }
        let mut text = String::new();
        for (name, value) in facts {
            let _ = writeln!(text, "- **{name}:** {value}");
        }
        text
    }

    /// Returns a time with its distance from the start.
    fn after_start(&self, at: Timestamp) -> String {
        let millis = at.millis() - self.incident.started_at.millis();
        match u64::try_from(millis) {
            Ok(millis) => {
                let after = duration(std::time::Duration::from_millis(millis));
                format!("{}, after {after}", readable(at))
            }
            Err(_) => readable(at),
        }
    }

    /// Returns the suspected changes and what became of the incident, in the order of time.
    fn timeline(&self) -> String {
        let incident = self.incident;
        let changes = incident.suspects.iter().map(|suspect| {
            let change = &suspect.change;
            (change.at, self.link_to(change.id, &change.title))
        });
        let mut rows: Vec<(Timestamp, String)> = changes.collect();
        rows.push((incident.started_at, "**The incident started**".to_owned()));
        let reporter = match (&incident.source, &incident.created_by) {
            (Some(source), _) => format!(" by {}", escaped(&source.name)),
            (None, Some(author)) => format!(" by {}", escaped(&author.name)),
            (None, None) => String::new(),
        };
        rows.push((incident.created_at, format!("Reported{reporter}")));
        if let Some(cause) = &incident.cause {
            let by = escaped(&cause.marked_by);
            rows.push((cause.marked_at, format!("Cause found by {by}")));
        }
        rows.extend((incident.resolved_at).map(|at| (at, "**Resolved**".to_owned())));
        rows.sort_by_key(|(at, _)| *at);
        let mut text = "| Time | |\n|---|---|\n".to_owned();
        for (at, what) in rows {
            let _ = writeln!(text, "| {} | {what} |", readable(at));
        }
        text
    }

    fn cause(&self) -> String {
        let Some(cause) = &self.incident.cause else {
            return "Not known yet.\n".to_owned();
        };
        let by = escaped(&cause.marked_by);
        match (cause.change_id, &cause.title) {
            (Some(id), Some(title)) => {
                format!("{}, says {by}.\n", self.link_to(id, title))
            }
            _ => format!("No recorded change, says {by}.\n"),
        }
    }

    fn suspects(&self) -> String {
        let incident = self.incident;
        let mut text = match incident.ranked_at {
            None => "The changes before the incident were not ranked.\n".to_owned(),
            Some(_) if incident.suspects.is_empty() => {
                "No change was recorded before the incident.\n".to_owned()
            }
            Some(_) => self.list(&incident.suspects),
        };
        if !incident.gaps.is_empty() {
            text.push_str("\nNot everything was recorded:\n\n");
            for gap in &incident.gaps {
                let _ = writeln!(text, "- {}", escaped(&missing(gap)));
            }
        }
        text
    }

    fn list(&self, suspects: &[IncidentSuspect]) -> String {
        let mut text = String::new();
        for (number, suspect) in (1..).zip(suspects) {
            let change = &suspect.change;
            let service = change.service.as_ref().map(|service| service.name.as_str());
            let environment = change.environment.as_ref().map(Environment::as_str);
            let by = change
                .created_by
                .as_ref()
                .map(|author| author.name.as_str());
            let by = change.on_behalf_of.as_deref().or(by);
            let facts: Vec<String> = [service, environment]
                .into_iter()
                .flatten()
                .map(escaped)
                .chain([format!("{} risk", escaped(change.risk_level.as_str()))])
                .chain(by.map(|by| format!("by {}", escaped(by))))
                .collect();
            let _ = writeln!(
                text,
                "{number}. {}, {} ({}; score {})",
                self.link_to(change.id, &change.title),
                readable(change.at),
                facts.join(", "),
                suspect.score
            );
            for reason in &suspect.reasons {
                let _ = writeln!(text, "   - {}", escaped(&reason.text));
            }
        }
        text
    }

    fn link_to(&self, id: ChangeId, title: &str) -> String {
        link(title, &(self.page)(id))
    }
}

/// Returns a time to the second, in UTC.
fn readable(at: Timestamp) -> String {
    at.to_datetime().format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Returns a link whose text is shown as it is.
fn link(text: &str, url: &str) -> String {
    // An address in angle brackets ends at a closing one; spaces and line feeds are refused
    // by the rules of addresses.
    let url = one_line(url).replace('<', "%3C").replace('>', "%3E");
    let url = url.replace('|', "%7C").replace(' ', "%20");
    format!("[{}](<{url}>)", escaped(text))
}

/// Returns text on one line in which nothing is Markdown or HTML.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in one_line(text).chars() {
        if "\\`*_[]<>|~#&".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::incidents::tests::incident;
    use super::*;

    fn page(id: ChangeId) -> String {
        format!("https://example.com/changes/{id}")
    }

    #[test]
    fn a_post_mortem_begins_with_what_is_known() {
        let text = markdown(&incident("Checkout is down"), page);
        let change = "[Deploy \\*payments\\* 4.2](<https://example.com/changes/\
                      018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90>)";
        let expected = "\
# Checkout is down

- **Severity:** critical
- **Service:** payments
- **Environment:** prod
- **Started:** 2026-11-21 08:20:00 UTC
- **Cause found:** 2026-11-21 08:31:00 UTC, after 11 min 0 s
- **Resolved:** 2026-11-21 08:32:00 UTC, after 12 min 0 s
- **Link:** [https://alerts.example.com/7](<https://alerts.example.com/7>)

## What happened

| Time | |
|---|---|
| 2026-11-21 08:02:00 UTC | CHANGE |
| 2026-11-21 08:20:00 UTC | **The incident started** |
| 2026-11-21 08:21:00 UTC | Reported by Alerts |
| 2026-11-21 08:31:00 UTC | Cause found by Ada |
| 2026-11-21 08:32:00 UTC | **Resolved** |

## Cause

CHANGE, says Ada.

## Suspects

1. CHANGE, 2026-11-21 08:02:00 UTC (payments, prod, high risk, by ci; score 154)
   - same service: payments

Not everything was recorded:

- github has been silent since 2026-11-21T07:02:00.000Z: its changes may be missing
";
        assert_eq!(text, expected.replace("CHANGE", change));
    }

    #[test]
    fn what_is_not_known_is_said() {
        let mut incident = incident("Down");
        incident.reopen();
        incident.cause = None;
        incident.suspects.clear();
        let text = markdown(&incident, page);
        for line in [
            "- **Resolved:** not yet\n",
            "\n## Cause\n\nNot known yet.\n",
            "\nNo change was recorded before the incident.\n",
            "\n## What was suspected first\n\n1. [Deploy",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        incident.ranked_at = None;
        incident.gaps.clear();
        let text = markdown(&incident, page);
        assert!(text.contains("were not ranked.\n"), "{text}");
        assert!(!text.contains("Not everything"), "{text}");
    }

    #[test]
    fn what_others_wrote_is_no_markdown() {
        let mut incident = incident("a](javascript:x) <b>|\n# b");
        incident.url = Some("https://e.com/?a=<b>|c".to_owned());
        let text = markdown(&incident, page);
        assert!(
            text.starts_with("# a\\](javascript:x) \\<b\\>\\| \\# b\n"),
            "{text}"
        );
        let link = "[https://e.com/?a=\\<b\\>\\|c](<https://e.com/?a=%3Cb%3E%7Cc>)";
        assert!(text.contains(link), "{text}");
    }
}
