//! `/`: what was changed last, what goes on, and how the year was.

use askama::Template;
use changelog_core::{Change, ChangeFilter, Service, Status, Timestamp};

use crate::app::App;
use crate::dashboard::parts::charts::{self, RollbackRate};
use crate::dashboard::parts::time_ranges::TIME_RANGES;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page};
use crate::store::Scope;
use crate::web::{ApiResult, Request};

/// The index of the time range that is shown by default.
const DEFAULT_RANGE: usize = 2;
/// How many changes are shown of each list.
const MOST: u64 = 12;
const MOST_RUNNING: u64 = 5;
/// How many days the busiest services are found in.
const BUSY_DAYS: i64 = 7;

struct Choice {
    name: &'static str,
    label: &'static str,
    is_current: bool,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview<'a> {
    viewer: &'a Viewer,
    is_new: bool,
    time_ranges: Vec<Choice>,
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
        .unwrap_or(DEFAULT_RANGE);
    let range = &TIME_RANGES[chosen];
    let since = range.start(now);
    let page_of = async |filter: ChangeFilter| store.changes(tenant, &filter).await;
    let today = now.millis().div_euclid(86_400_000);
    // Nothing of it needs anything else of it.
    let (last, running, days, scheduled, busiest) = tokio::try_join!(
        page_of(ChangeFilter {
            since: since.parse().ok(),
            per_page: MOST,
            ..ChangeFilter::default()
        }),
        page_of(ChangeFilter {
            status: Some(Status::InProgress),
            per_page: MOST_RUNNING,
            ..ChangeFilter::default()
        }),
        store.daily_counts(tenant, Scope::Organization, charts::year(today)),
        store.scheduled_changes(tenant, now, MOST_RUNNING),
        store.busiest_services(tenant, today - BUSY_DAYS + 1..today + 1, 5),
    )?;
    let newest = match last.count {
        0 => page_of(ChangeFilter {
            per_page: 1,
            ..ChangeFilter::default()
        })
        .await?
        .parse()?
        .pop(),
        _ => None,
    };
    let recent = days.iter().filter(|day| day.day > today - charts::BAR_DAYS);
    let page = Overview {
        viewer: &viewer,
        is_new: last.count == 0 && newest.is_none(),
        time_ranges: TIME_RANGES
            .iter()
            .enumerate()
            .map(|(number, range)| Choice {
                name: range.name,
                label: range.label,
                is_current: number == chosen,
            })
            .collect(),
        range: range.words,
        since,
        count: last.count,
        changes: last.parse()?,
        newest,
        running: running.parse()?,
        running_count: running.count,
        scheduled,
        bars: charts::bars(&days, today),
        rollbacks: RollbackRate::of(recent),
        busiest,
        calendar: charts::calendar(&days, today, ""),
    };
    page::render_live(&request, &page)
}
