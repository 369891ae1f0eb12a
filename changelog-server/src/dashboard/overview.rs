//! `/`: the latest, running and scheduled changes, and charts of the last year.

use askama::Template;
use changelog_core::{Change, ChangeFilter, Service, Status, Timestamp};

use crate::app::App;
use crate::dashboard::parts::charts::{self, RollbackRate};
use crate::dashboard::parts::time_ranges::TIME_RANGES;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page};
use crate::store::{HAPPENED, Scope};
use crate::web::{ApiResult, Request};

/// The index of the time range that is shown by default.
const DEFAULT_RANGE_INDEX: usize = 2;
/// The number of latest changes that are shown.
const LATEST_SHOWN: u64 = 12;
/// The number of running and of scheduled changes that are shown.
const RUNNING_SHOWN: u64 = 5;
/// The number of busiest services that are shown, and the days that count for them.
const BUSIEST_SHOWN: u64 = 5;
const BUSIEST_DAYS: i64 = 7;

struct RangeChoice {
    name: &'static str,
    label: &'static str,
    is_current: bool,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage<'a> {
    viewer: &'a Viewer,
    is_new: bool,
    now: Timestamp,
    time_ranges: Vec<RangeChoice>,
    range: &'static str,
    since: String,
    count: u64,
    changes: Vec<Change>,
    newest: Option<Change>,
    running: Vec<Change>,
    running_count: u64,
    scheduled: Vec<Change>,
    bars: charts::Bars,
    rollbacks: RollbackRate,
    busiest: Vec<(Service, u64)>,
    calendar: charts::Calendar,
}

/// `GET /`
pub(super) async fn get(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Overview).await?;
    let (store, tenant) = (&app.store, viewer.tenant());
    let now = Timestamp::from(app.now());
    let form = request.query_form();
    let chosen = TIME_RANGES
        .iter()
        .position(|range| range.name == form.value("range"))
        .unwrap_or(DEFAULT_RANGE_INDEX);
    let range = &TIME_RANGES[chosen];
    let since = range.start(now);
    let page_of = async |filter: ChangeFilter| store.changes(tenant, &filter).await;
    let today = now.millis().div_euclid(86_400_000);
    // The reads do not depend on each other.
    let (latest, running, days, scheduled, busiest) = tokio::try_join!(
        page_of(ChangeFilter {
            since: since.parse().ok(),
            statuses: HAPPENED.to_vec(),
            per_page: LATEST_SHOWN,
            ..ChangeFilter::default()
        }),
        page_of(ChangeFilter {
            statuses: vec![Status::InProgress],
            per_page: RUNNING_SHOWN,
            ..ChangeFilter::default()
        }),
        store.daily_counts(tenant, Scope::Organization, charts::year(today)),
        store.upcoming_changes(tenant, RUNNING_SHOWN),
        store.busiest_services(tenant, today - BUSIEST_DAYS + 1..today + 1, BUSIEST_SHOWN),
    )?;
    let newest = match latest.count {
        0 => page_of(ChangeFilter {
            statuses: HAPPENED.to_vec(),
            per_page: 1,
            ..ChangeFilter::default()
        })
        .await?
        .json
        .parse()?
        .pop(),
        _ => None,
    };
    let scheduled = scheduled.parse()?;
    let is_new = newest.is_none()
        && latest.count == 0
        && scheduled.is_empty()
        && page_of(ChangeFilter::default()).await?.count == 0;
    let recent = days.iter().filter(|day| day.day > today - charts::BAR_DAYS);
    let page = OverviewPage {
        viewer: &viewer,
        is_new,
        now,
        time_ranges: TIME_RANGES
            .iter()
            .enumerate()
            .map(|(index, range)| RangeChoice {
                name: range.name,
                label: range.label,
                is_current: index == chosen,
            })
            .collect(),
        range: range.words,
        since,
        count: latest.count,
        changes: latest.json.parse()?,
        newest,
        running: running.json.parse()?,
        running_count: running.count,
        scheduled,
        bars: charts::bars(&days, today),
        rollbacks: RollbackRate::of(recent),
        busiest,
        calendar: charts::calendar(&days, today, ""),
    };
    page::render_live(&request, &page)
}
