//! `/services/ID`, `/hosts/ID`

use askama::Template;
use changelog_core::{Change, ChangeFilter};

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

#[derive(Template)]
#[template(path = "catalog/item.html")]
struct ItemPage<'a> {
    viewer: &'a Viewer,
    texts: Texts,
    item: ItemView,
    count: u64,
    changes: Vec<Change>,
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
    let subscription = match P::subscribable(id) {
        Some(service) => subscriptions::form_of(&app, &viewer, service).await?,
        None => None,
    };
    let noun = P::TEXTS.noun;
    let query = format::query(&format!("{noun}_id"), id);
    let page = ItemPage {
        viewer: &viewer,
        texts: P::TEXTS,
        item,
        count: list.count,
        changes: list.json.parse()?,
        calendar: year.calendar(&query),
        query,
        subscription,
        log_command: format!("chlog log --status completed --{noun} {id} \"what was done\""),
    };
    page::render_live(&request, &page)
}
