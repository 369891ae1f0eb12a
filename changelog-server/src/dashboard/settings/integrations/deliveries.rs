//! The last deliveries of a connection.

use changelog_core::{Event, EventKind, Timestamp};
use chrono::TimeDelta;

use super::kinds::{OfferedKind, kind_of};
use super::{PATH, summary};
use crate::app::App;
use crate::dashboard::parts::format;
use crate::dashboard::parts::pager::Pager;
use crate::dashboard::parts::query_string::{address, with};
use crate::dashboard::parts::viewer::Viewer;
use crate::store::{Connection, Delivery, DeliveryState, StoreError};
use crate::web::Request;

/// The deliveries that the store lists at once.
const PER_PAGE: usize = 50;
const FAILED_ONLY: &str = "failed";
const BEFORE: &str = "before";

/// A page of deliveries.
#[derive(Default)]
pub(super) struct Deliveries {
    pub(super) rows: Vec<Row>,
    /// Whether only those that failed are listed.
    pub(super) is_failed_only: bool,
    pub(super) pager: Pager,
}

/// A delivery in the list.
pub(super) struct Row {
    pub(super) sequence: i64,
    /// What happened to the change.
    pub(super) event: String,
    pub(super) title: String,
    /// The page of the change, unless it was deleted.
    pub(super) address: Option<String>,
    pub(super) state: &'static str,
    /// The class of the badge.
    pub(super) class: &'static str,
    /// The attempts, the status and the duration of the last one.
    pub(super) facts: Vec<String>,
    /// When it was attempted last, or queued.
    pub(super) at: Timestamp,
    /// When the next attempt is due, if one follows a failure.
    pub(super) next_at: Option<Timestamp>,
    pub(super) reason: Option<String>,
    pub(super) answer: String,
    pub(super) may_replay: bool,
}

impl Row {
    fn new(delivery: Delivery, kind: Option<&OfferedKind>) -> Self {
        let has_failed = delivery.attempts > 0 && delivery.attempted_at.is_some();
        let (state, class) = match delivery.state {
            DeliveryState::Pending if delivery.is_claimed => ("Being sent", "in_progress"),
            DeliveryState::Pending if has_failed => ("To be retried", "overdue"),
            DeliveryState::Pending => ("Queued", "planned"),
            DeliveryState::Delivered => (
                kind.map_or("Delivered", OfferedKind::delivered),
                "completed",
            ),
            DeliveryState::Dead => ("Failed", "failed"),
        };
        let mut facts = Vec::new();
        if delivery.attempts > 0 {
            facts.push(format::counted(delivery.attempts, "attempt", "attempts"));
        }
        facts.extend(delivery.status.map(|status| format!("status {status}")));
        facts.extend(delivery.duration_ms.map(duration));
        let is_pending = delivery.state == DeliveryState::Pending;
        let event = delivery.event.as_ref();
        Self {
            sequence: delivery.sequence,
            event: event.map_or_else(String::new, |event| summary::event(event.kind()).to_owned()),
            title: event.map_or_else(
                || "An event that can no longer be read".to_owned(),
                |event| format::visible(event.title()),
            ),
            address: event
                .and_then(Event::of_change)
                .filter(|event| event.kind != EventKind::Deleted)
                .map(|event| format!("/changes/{}", event.change.id)),
            state,
            class,
            facts,
            at: delivery.attempted_at.unwrap_or(delivery.created_at),
            next_at: (is_pending && has_failed && !delivery.is_claimed).then_some(delivery.next_at),
            reason: delivery.reason.filter(|_| state != "Delivered"),
            answer: delivery.answer.unwrap_or_default(),
            may_replay: !delivery.is_claimed,
        }
    }
}

/// Formats how long an attempt took.
pub(super) fn duration(millis: i64) -> String {
    if millis < 1_000 {
        format!("{millis} ms")
    } else {
        format::duration(&TimeDelta::milliseconds(millis))
    }
}

/// Reads the page of deliveries that a request asks for.
pub(super) async fn read(
    app: &App,
    viewer: &Viewer,
    request: &Request,
    connection: &Connection,
) -> Result<Deliveries, StoreError> {
    let form = request.query_form();
    let is_failed_only = !form.value(FAILED_ONLY).is_empty();
    let before: Option<i64> = form.value(BEFORE).parse().ok();
    let deliveries = app
        .store
        .deliveries(viewer.tenant(), connection.id, before, is_failed_only)
        .await?;
    let path = format!("{PATH}/{}", connection.id);
    let query = if is_failed_only { "failed=1" } else { "" };
    let last = deliveries.last().map(|delivery| delivery.sequence);
    let kind = kind_of(&connection.kind);
    Ok(Deliveries {
        is_failed_only,
        pager: Pager {
            previous: before.map(|_| address(&path, query)),
            next: last
                .filter(|_| deliveries.len() == PER_PAGE)
                .map(|last| address(&path, &with(query, BEFORE, last))),
            position: String::new(),
        },
        rows: deliveries
            .into_iter()
            .map(|delivery| Row::new(delivery, kind))
            .collect(),
    })
}
