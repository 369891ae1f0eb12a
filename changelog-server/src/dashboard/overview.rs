//! `/`: the last 24 hours as a timeline, what runs, what comes next, what failed, the
//! latest changes, and charts of the last year.

use askama::Template;
use changelog_core::change::around::Affected;
use changelog_core::{
    ActivityEntry, Change, ChangeFilter, Gap, Incident, MadeBy, ResourceType, Service, Status,
    Timestamp,
};
use chrono::TimeDelta;
use futures_util::future::try_join_all;

use crate::app::App;
use crate::coverage::coverage;
use crate::dashboard::around::MAX_SUGGESTIONS;
use crate::dashboard::incidents;
use crate::dashboard::parts::charts::{Bars, Calendar, RollbackRate, Year};
use crate::dashboard::parts::timeline::{self, Range, Subject, Timeline};
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page, zone};
use crate::dashboard::settings::integrations::troubles;
use crate::store::{ChartScope, HAPPENED, StoreError, Tenant, TroubledConnection};
use crate::web::{ApiResult, Request};

/// The number of latest changes that are shown.
const LATEST_SHOWN: u64 = 12;
/// The numbers of running, of scheduled and of failed changes that are shown.
const RUNNING_SHOWN: u64 = 5;
const UPCOMING_SHOWN: u64 = 5;
const FAILED_SHOWN: u64 = 5;
/// The number of open incidents that are named.
const INCIDENTS_SHOWN: usize = 3;
/// Changes that failed or were rolled back within this time are shown.
const FAILED_WITHIN: TimeDelta = TimeDelta::days(7);
/// The number of busiest services that are shown, and the days that count for them.
const BUSIEST_SHOWN: u64 = 5;
const BUSIEST_DAYS: i64 = 7;
/// The days of the bar chart and of the rate of rollbacks.
const BAR_DAYS: usize = 30;
/// The days in UTC, of which there are stored counts, on which changes made by hand are counted.
const BY_HAND_DAYS: i64 = 30;

const HOUR: i64 = 3_600_000;
/// The timeline shows this much before and after now, rounded to hours.
const PAST: i64 = 24 * HOUR;
const FUTURE: i64 = 4 * HOUR;
/// The line at the present moves in such steps, so that the page does not change with
/// each second.
const NOW_STEP: i64 = 5 * 60_000;

/// A change that failed or was rolled back, and why.
struct Undone {
    change: Change,
    reason: Option<String>,
    /// Who gave the change this status, and when, if that was after it was logged.
    by: Option<(String, Timestamp)>,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage<'a> {
    viewer: &'a Viewer,
    is_new: bool,
    troubles: Vec<TroubledConnection>,
    /// The sources and keys that have been silent for too long.
    gaps: Vec<Gap>,
    /// The number of open incidents in words, and the latest of them.
    open_incidents: String,
    incidents: Vec<Incident>,
    service_names: Vec<String>,
    timeline: Timeline,
    count: u64,
    latest: Vec<Change>,
    running: Vec<Change>,
    running_count: u64,
    upcoming: Vec<Change>,
    undone: Vec<Undone>,
    undone_count: u64,
    undone_since: String,
    bars: Bars,
    by_hand: u64,
    by_hand_since: String,
    rollbacks: RollbackRate,
    busiest: Vec<(Service, u64)>,
    calendar: Calendar,
}

/// `GET /`
pub(super) async fn get(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Overview).await?;
    let (store, tenant) = (&app.store, viewer.tenant());
    let now = viewer.now;
    let page_of = async |filter: ChangeFilter| store.changes(tenant, &filter).await;
    let today = now.millis().div_euclid(24 * HOUR);
    let range = around_now(now);
    // From midnight on, so that the address of the list changes once a day.
    let undone_since = viewer
        .zone
        .start_of_day(viewer.zone.date(now.plus(-FAILED_WITHIN)));
    let by_hand_since = Timestamp::from_millis((today - BY_HAND_DAYS + 1) * 24 * HOUR);
    let made_by_hand = made_by_hand(by_hand_since);
    // The reads do not depend on each other.
    let (
        events,
        latest,
        running,
        running_count,
        upcoming,
        undone,
        year,
        busiest,
        names,
        troubles,
        coverage,
        by_hand,
        open_count,
        incidents,
    ) = tokio::try_join!(
        timeline::read(&app, tenant, range, &[]),
        page_of(ChangeFilter {
            statuses: HAPPENED.to_vec(),
            per_page: LATEST_SHOWN,
            ..ChangeFilter::default()
        }),
        store.running_changes(tenant, RUNNING_SHOWN),
        page_of(ChangeFilter {
            statuses: vec![Status::InProgress],
            per_page: 1,
            ..ChangeFilter::default()
        }),
        store.upcoming_changes(tenant, UPCOMING_SHOWN),
        page_of(ChangeFilter {
            statuses: vec![Status::RolledBack],
            since: Some(undone_since),
            per_page: FAILED_SHOWN,
            ..ChangeFilter::default()
        }),
        Year::read(store, tenant, ChartScope::Organization, viewer.zone),
        store.busiest_services(tenant, today - BUSIEST_DAYS + 1..today + 1, BUSIEST_SHOWN),
        store.item_names_from::<Service>(tenant, "", MAX_SUGGESTIONS),
        troubles(&app, &viewer),
        coverage(&app, tenant, range.from),
        store.count_changes(tenant, &made_by_hand),
        store.count_open_incidents(tenant, None),
        incidents::within(&app, tenant, range),
    )?;
    let upcoming: Vec<Change> = upcoming.parse()?;
    let is_new = latest.count == 0
        && upcoming.is_empty()
        && page_of(ChangeFilter::default()).await?.count == 0;
    let subject = Subject {
        range,
        moment: None,
        now: Timestamp::from_millis(now.millis() / NOW_STEP * NOW_STEP),
        zone: viewer.zone,
        affected: &Affected::default(),
        gaps: &coverage.gaps,
        bands: &incidents::bands(&incidents),
        query: String::new(),
    };
    let page = OverviewPage {
        viewer: &viewer,
        is_new,
        troubles,
        gaps: coverage.open_gaps().cloned().collect(),
        open_incidents: incidents::counted(open_count),
        incidents: latest_open(incidents),
        service_names: names,
        timeline: Timeline::new(&subject, events),
        count: latest.count,
        latest: latest.json.parse()?,
        running: running.parse()?,
        running_count: running_count.count,
        upcoming,
        undone_count: undone.count,
        undone: with_reasons(&app, tenant, undone.json.parse()?).await?,
        undone_since: zone::rfc3339(undone_since),
        bars: year.bars(BAR_DAYS),
        by_hand,
        by_hand_since: zone::rfc3339(by_hand_since),
        rollbacks: year.rollback_rate(BAR_DAYS),
        busiest,
        calendar: year.calendar(""),
    };
    page::render_live(&request, &page)
}

fn made_by_hand(since: Timestamp) -> ChangeFilter {
    ChangeFilter {
        made_by: vec![MadeBy::Hand],
        statuses: HAPPENED.to_vec(),
        since: Some(since),
        ..ChangeFilter::default()
    }
}

/// Returns the latest of the open incidents that the timeline shows.
fn latest_open(mut incidents: Vec<Incident>) -> Vec<Incident> {
    incidents.retain(Incident::is_open);
    incidents.truncate(INCIDENTS_SHOWN);
    incidents
}

/// Returns the range of the timeline, in whole hours.
fn around_now(now: Timestamp) -> Range {
    let hour = now.millis().div_euclid(HOUR) * HOUR;
    Range::new(
        Timestamp::from_millis(hour - PAST),
        Timestamp::from_millis(hour + FUTURE),
    )
}

/// Adds why and by whom changes were rolled back, which their histories have.
async fn with_reasons(
    app: &App,
    tenant: Tenant,
    changes: Vec<Change>,
) -> Result<Vec<Undone>, StoreError> {
    let read = async |change: Change| {
        let history =
            app.store
                .history(tenant, ResourceType::Change, change.id.0, change.created_at);
        let history = history.await?;
        let newest = |has: &dyn Fn(&ActivityEntry) -> bool| {
            let having = history.iter().filter(|stored| has(&stored.entry));
            having.max_by_key(|stored| stored.entry.created_at)
        };
        let reason = |entry: &ActivityEntry| entry.metadata["reason"].as_str().map(str::to_owned);
        let undoes = |entry: &ActivityEntry| {
            entry.metadata["changes"]["status"]["to"] == change.status.as_str()
        };
        let by = newest(&undoes);
        Ok(Undone {
            reason: newest(&|entry| reason(entry).is_some()).and_then(|one| reason(&one.entry)),
            by: by.map(|stored| {
                let at = change.ended_at.unwrap_or(stored.entry.created_at);
                (stored.actor().name, at)
            }),
            change,
        })
    };
    try_join_all(changes.into_iter().map(read)).await
}
