//! What is known about the cause of an incident, in the words of chats, mails and notes.

use changelog_core::{ChangeId, Incident, IncidentSuspect, Timestamp};

use crate::format::line;

/// The labels of the suspects that are shown.
const SUSPECT_LABELS: [&str; 3] = ["First suspect", "Second suspect", "Third suspect"];
/// The limit on the reasons of a suspect.
const MAX_REASONS: usize = 4;
/// The limit on gaps of coverage.
const MAX_GAPS: usize = 3;

/// One line of it. Users have written parts of the value, which has no control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) label: &'static str,
    pub(crate) value: String,
    /// The change that it is about.
    pub(crate) change: Option<ChangeId>,
}

impl Finding {
    fn text(label: &'static str, value: String) -> Self {
        Self {
            label,
            value,
            change: None,
        }
    }

    fn of_suspect(label: &'static str, suspect: &IncidentSuspect) -> Self {
        let reasons = suspect.reasons.iter().take(MAX_REASONS);
        let reasons: Vec<String> = reasons.map(|reason| line(&reason.text)).collect();
        let title = line(&suspect.change.title);
        Self {
            label,
            value: format!("{title}: {}", reasons.join(", ")),
            change: Some(suspect.change.id),
        }
    }
}

/// Returns the marked cause, the first suspects with their reasons, or that there are none, and
/// which sources were silent. It is empty before the suspects were ranked.
pub(crate) fn findings(incident: &Incident, time: impl Fn(Timestamp) -> String) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(cause) = &incident.cause {
        let title = cause.title.as_deref().map(line);
        findings.push(Finding {
            label: "Cause",
            value: title.unwrap_or_else(|| "none of the recorded changes".to_owned()),
            change: cause.change_id,
        });
    }
    let suspects = SUSPECT_LABELS.into_iter().zip(&incident.suspects);
    findings.extend(suspects.map(|(label, suspect)| Finding::of_suspect(label, suspect)));
    if incident.suspects.is_empty() && incident.ranked_at.is_some() {
        let service = incident.service.as_ref();
        let of = service.map_or_else(String::new, |service| {
            format!(" of {}", line(&service.name))
        });
        let none = format!("No change{of} was recorded before it");
        findings.push(Finding::text("Suspects", none));
    }
    findings.extend(incident.gaps.iter().take(MAX_GAPS).map(|gap| {
        let (name, since) = (line(&gap.name), time(gap.since));
        let silence = match gap.until {
            None => format!("{name} since {since}"),
            Some(until) => format!("{name} from {since} to {}", time(until)),
        };
        Finding::text("Not heard", silence)
    }));
    findings
}
