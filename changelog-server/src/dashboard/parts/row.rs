//! What one row of a list of changes or of incidents shows.

#![expect(
    clippy::trivially_copy_pass_by_ref,
    clippy::ref_option,
    reason = "templates pass references"
)]

use changelog_core::change::BY_HAND;
use changelog_core::{
    Author, AuthorType, Change, Incident, MadeBy, ServiceRef, Severity, Status, Timestamp,
};

/// The tags of a row; its page has the others.
const TAGS_SHOWN: usize = 3;
/// The services of a row; its page has the others.
const SERVICES_SHOWN: usize = 1;

/// The first elements of a list, and the others.
pub(crate) struct Shortened<T> {
    pub(crate) shown: Vec<T>,
    /// The number of those that are not shown.
    pub(crate) more: usize,
    /// The names of those that are not shown.
    pub(crate) more_names: String,
}

fn shortened<T: Copy>(all: &[T], most: usize, name: fn(&T) -> &str) -> Shortened<T> {
    let (shown, others) = all.split_at(most.min(all.len()));
    let names: Vec<&str> = others.iter().map(name).collect();
    Shortened {
        shown: shown.to_vec(),
        more: others.len(),
        more_names: super::format::visible(&names.join(", ")),
    }
}

/// Returns the services of a row, without the one whose page shows the row.
pub(crate) fn services<'c>(change: &'c Change, own: &str) -> Shortened<&'c ServiceRef> {
    let all = change.all_services().iter();
    let others: Vec<&ServiceRef> = all.filter(|service| !is(&service.id, own)).collect();
    shortened(&others, SERVICES_SHOWN, |service| &service.name)
}

/// Returns the tags of a row: that the change was made by hand is shown in any case.
pub(crate) fn tags(change: &Change) -> Shortened<&String> {
    let mut all: Vec<&String> = change.tags.iter().collect();
    all.sort_by_key(|tag| !is_by_hand(tag));
    shortened(&all, TAGS_SHOWN, |tag| tag)
}

/// Returns whether a tag says that the change was made by hand.
pub(crate) fn is_by_hand(tag: &str) -> bool {
    tag == BY_HAND
}

/// Returns whether an id is the one of the service or host whose page is shown; `own`
/// is empty on other pages.
pub(crate) fn is(id: &impl ToString, own: &str) -> bool {
    !own.is_empty() && id.to_string() == own
}

/// Returns the class of the badge with the status.
pub(crate) fn state(change: &Change) -> String {
    change.status_label().replace(' ', "_")
}

pub(crate) fn is_planned(change: &Change) -> bool {
    change.status == Status::Planned
}

/// Returns whether a change should have been started.
pub(crate) fn is_overdue(change: &Change, now: &Timestamp) -> bool {
    is_planned(change) && change.scheduled_for.is_some_and(|at| at < *now)
}

/// Returns for how many whole days a change has been in progress, if it is at least one.
pub(crate) fn days_running(change: &Change, now: &Timestamp) -> Option<i64> {
    let started = change
        .started_at
        .filter(|_| change.status == Status::InProgress)?;
    let days = (now.to_datetime() - started.to_datetime()).num_days();
    (days > 0).then_some(days)
}

/// Returns which agent made a change, for whom, and what of it is only claimed; `None` if
/// none is named.
pub(crate) fn acted(change: &Change) -> Option<String> {
    Some(super::format::visible(&change.acted()?))
}

/// Returns whether an agent made a change without a person behind it.
pub(crate) fn is_unattended(change: &Change) -> bool {
    let made_by = MadeBy::of(
        &change.tags,
        change.agent.as_ref(),
        change.created_by.as_ref(),
        change.on_behalf_of.as_deref(),
    );
    made_by.contains(&MadeBy::Unattended)
}

/// Explains who recorded a change.
pub(crate) fn author(author: &Author, on_behalf_of: &Option<String>) -> String {
    let name = super::format::visible(&author.name);
    let who = match author.kind {
        AuthorType::ApiKey => format!("recorded by the API key {name}"),
        AuthorType::Source => format!("recorded by the source {name}"),
        AuthorType::Workload => format!("recorded by the pipeline {name}"),
        _ => format!("recorded by {name}"),
    };
    match on_behalf_of {
        Some(person) => format!("{who} for {}", super::format::visible(person)),
        None => who,
    }
}

/// Returns the risk level whose mark and color a severity has.
pub(crate) fn severity_level(severity: &Severity) -> &'static str {
    match severity {
        Severity::Critical => "high",
        Severity::Warning => "medium",
        _ => "low",
    }
}

/// Returns how long a resolved incident lasted.
pub(crate) fn took(incident: &Incident) -> Option<String> {
    let resolved = incident.resolved_at?.to_datetime();
    let took = resolved - incident.started_at.to_datetime();
    Some(format!("lasted {}", super::format::duration(&took)))
}
