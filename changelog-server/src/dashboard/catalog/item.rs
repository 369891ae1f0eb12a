//! `/services/ID`, `/hosts/ID`

use askama::Template;
use changelog_core::{Change, ChangeFilter, Incident, IncidentFilter};

use super::{CatalogPage, ItemView, Texts};
use crate::app::App;
use crate::dashboard::parts::charts::{Calendar, Year};
use crate::dashboard::parts::viewer::Viewer;
use crate::dashboard::parts::{assets, format, page};
use crate::dashboard::subscriptions::{self, SubscriptionForm};
use crate::store::HAPPENED;
use crate::web::{ApiResult, Request};

/// The newest changes that the page of an item shows.
const CHANGES_SHOWN: u64 = 20;
/// The incidents that the page of a service shows: open ones, then the latest.
const INCIDENTS_SHOWN: u64 = 5;

#[derive(Template)]
#[template(path = "catalog/item.html")]
struct ItemPage<'a> {
    viewer: &'a Viewer,
    texts: Texts,
    item: ItemView,
    count: u64,
    changes: Vec<Change>,
    /// Those of a service.
    incidents: Vec<Incident>,
    /// The query string of the list of its changes.
    query: String,
    /// The command that logs a change of it.
    log_command: String,
    calendar: Calendar,
    /// The form for the viewer's subscription, if they may have one.
    subscription: Option<SubscriptionForm>,
}

/// `GET /services/ID`, `GET /hosts/ID`
pub(in crate::dashboard) async fn get<P: CatalogPage>(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, P::TEXTS.section).await?;
    let (tenant, id) = (viewer.tenant(), request.id()?);
    let mut item = app.store.item::<P>(tenant, id).await?.view();
    P::complete(&app.store, tenant, id, &mut item).await?;
    let filter = ChangeFilter {
        per_page: CHANGES_SHOWN,
        statuses: HAPPENED.to_vec(),
        ..P::changes_of(id)
    };
    let list = app.store.changes(tenant, &filter).await?;
    let year = Year::read(&app.store, tenant, P::chart_scope(id), viewer.zone).await?;
    let (subscription, incidents) = match P::service_id(id) {
        Some(service) => {
            let filter = IncidentFilter {
                service_id: Some(service),
                limit: INCIDENTS_SHOWN,
                ..IncidentFilter::default()
            };
            (
                subscriptions::form_of(&app, &viewer, service).await?,
                app.store.incidents(tenant, &filter).await?,
            )
        }
        None => (None, Vec::new()),
    };
    let noun = P::TEXTS.noun;
    let query = format::query(&format!("{noun}_id"), id);
    let page = ItemPage {
        viewer: &viewer,
        texts: P::TEXTS,
        item,
        count: list.count,
        changes: list.json.parse()?,
        incidents,
        calendar: year.calendar(&query),
        query,
        subscription,
        log_command: format!("chlog log --status completed --{noun} {id} \"what was done\""),
    };
    page::render_live(&request, &page)
}
