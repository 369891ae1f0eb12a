//! `/upcoming`: the planned changes that have a time, overdue ones first, then by day.

use askama::Template;
use changelog_core::Change;
use chrono::{NaiveDate, TimeDelta};

use crate::app::App;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::zone;
use crate::dashboard::parts::{assets, format, page};
use crate::web::{ApiResult, Request};

/// The limits on overdue changes and on those to come.
const MAX_OVERDUE: u64 = 100;
const MAX_UPCOMING: u64 = 200;
/// Changes that are scheduled within this time of each other overlap.
const OVERLAP: TimeDelta = TimeDelta::hours(1);
/// The number of overlapping changes that a change names.
const OVERLAPS_SHOWN: usize = 3;

/// A planned change.
struct Planned {
    change: Change,
    overlaps: Vec<Overlap>,
}

/// A change that is scheduled for about the same time at the same place.
struct Overlap {
    address: String,
    title: String,
    /// The common service or host.
    place: String,
}

#[derive(Template)]
#[template(path = "upcoming.html")]
struct UpcomingPage<'a> {
    viewer: &'a Viewer,
    overdue: Vec<Change>,
    days: Vec<(NaiveDate, Vec<Planned>)>,
    /// Whether there may be more than are shown.
    has_more: bool,
}

/// `GET /upcoming`
pub(super) async fn get(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Upcoming).await?;
    let (tenant, now) = (viewer.tenant(), viewer.now.millis());
    let (overdue, upcoming) = tokio::try_join!(
        app.store
            .scheduled_changes(tenant, i64::MIN..now, MAX_OVERDUE),
        app.store
            .scheduled_changes(tenant, now..i64::MAX, MAX_UPCOMING),
    )?;
    let (overdue, upcoming): (Vec<Change>, Vec<Change>) = (overdue.parse()?, upcoming.parse()?);
    let has_more = overdue.len() as u64 >= MAX_OVERDUE || upcoming.len() as u64 >= MAX_UPCOMING;
    let mut days: Vec<(NaiveDate, Vec<Planned>)> = Vec::new();
    let overlaps: Vec<Vec<Overlap>> = (0..upcoming.len())
        .map(|index| overlaps(&upcoming, index))
        .collect();
    for (change, overlaps) in upcoming.into_iter().zip(overlaps) {
        let Some(at) = change.scheduled_for else {
            continue;
        };
        let date = viewer.zone.date(at);
        let planned = Planned { change, overlaps };
        match days.last_mut() {
            Some((day, planned_then)) if *day == date => planned_then.push(planned),
            _ => days.push((date, vec![planned])),
        }
    }
    let page = UpcomingPage {
        viewer: &viewer,
        overdue,
        days,
        has_more,
    };
    page::render_live(&request, &page)
}

/// Returns the changes that overlap with one of them; they are in the order of time.
fn overlaps(changes: &[Change], index: usize) -> Vec<Overlap> {
    let change = &changes[index];
    let is_near = |other: &&Change| {
        let distance = change.scheduled_for.zip(other.scheduled_for);
        distance.is_some_and(|(one, other)| {
            (one.millis() - other.millis()).abs() <= OVERLAP.num_milliseconds()
        })
    };
    let (before, rest) = changes.split_at(index);
    let before = before.iter().rev().take_while(is_near);
    let after = rest.iter().skip(1).take_while(is_near);
    let overlaps = before.chain(after).filter_map(|other| {
        Some(Overlap {
            address: format!("/changes/{}", other.id),
            title: other.title.clone(),
            place: common_place(change, other)?,
        })
    });
    overlaps.take(OVERLAPS_SHOWN).collect()
}

/// Returns the name of the service or host that two changes have in common.
fn common_place(one: &Change, other: &Change) -> Option<String> {
    let services = one.all_services().iter();
    let is_common = |id| other.all_services().iter().any(|service| service.id == id);
    let service = services.clone().find(|service| is_common(service.id));
    let host = one.host_ref.as_ref().filter(|host| {
        let other = other.host_ref.as_ref();
        other.is_some_and(|other| other.id == host.id)
    });
    service
        .map(|service| service.name.clone())
        .or_else(|| host.map(|host| host.hostname.clone()))
}
