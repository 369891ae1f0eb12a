//! `/services`, `/hosts`

use askama::Template;

use super::{CatalogPage, ItemView, Order, Texts, last_days};
use crate::app::App;
use crate::dashboard::parts::pager::Pager;
use crate::dashboard::parts::query_string::{address, with};
use crate::dashboard::parts::viewer::Viewer;
use crate::dashboard::parts::{assets, format, page};
use crate::store::{MAX_LISTED, Summary};
use crate::web::{ApiResult, Request};

/// The items on one page of a list.
const ITEMS_PER_PAGE: u64 = 50;

#[derive(Template)]
#[template(path = "catalog/list.html")]
struct ListPage<'a> {
    viewer: &'a Viewer,
    texts: Texts,
    /// What is searched for; may be empty.
    search: &'a str,
    order: Order,
    rows: Vec<Summary<ItemView>>,
    pager: Pager,
}

impl ListPage<'_> {
    /// Returns the address of the list in an order, if it can have this order.
    fn sorted(&self, order: Order) -> Option<String> {
        let can = self.texts.orders.contains(&order);
        can.then(|| match order {
            Order::Name => self.texts.path.to_owned(),
            order => address(self.texts.path, &with("", "sort", order.word())),
        })
    }

    /// Returns the value of `aria-sort` for a column.
    fn direction(&self, order: Order) -> &'static str {
        match (self.order == order, order) {
            (false, _) => "none",
            (true, Order::Name) => "ascending",
            (true, _) => "descending",
        }
    }

    /// Returns whether the list may lack items, because it has no pages.
    fn is_cut(&self) -> bool {
        let has_pages = self.search.is_empty() && self.order == Order::Name;
        !has_pages && self.rows.len() >= MAX_LISTED
    }
}

/// `GET /services`, `GET /hosts`
pub(in crate::dashboard) async fn get<P: CatalogPage>(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, P::TEXTS.section).await?;
    let form = request.query_form();
    let search = form.value("q").trim();
    let offset = form.value("offset").parse().unwrap_or(0);
    let orders = P::TEXTS.orders.iter().copied();
    let mut chosen = orders.filter(|order| order.word() == form.value("sort"));
    let order = chosen.next().unwrap_or(Order::Name);
    let has_pages = search.is_empty() && order == Order::Name;
    let (store, tenant, days) = (&app.store, viewer.tenant(), last_days(viewer.now));
    let mut items = match order {
        _ if !search.is_empty() => store.items_found::<P>(tenant, search, days).await?,
        Order::MostChanged => P::most_changed(store, tenant, days).await?,
        Order::LastChanged => store.items_last_changed(tenant, days).await?,
        Order::Name => {
            // One more item than the page shows reveals whether there are more.
            let limit = ITEMS_PER_PAGE + 1;
            store.item_page(tenant, limit, offset, days).await?
        }
    };
    let has_more = items.len() as u64 > ITEMS_PER_PAGE;
    if has_more {
        items.pop();
    }
    let rows = items.into_iter().map(|summary| Summary {
        item: summary.item.view(),
        changes: summary.changes,
        recent: summary.recent,
        last: summary.last,
    });
    let page = ListPage {
        viewer: &viewer,
        texts: P::TEXTS,
        search,
        order: if search.is_empty() {
            order
        } else {
            Order::Name
        },
        rows: rows.collect(),
        pager: Pager::of_offset(
            P::TEXTS.path,
            "",
            ITEMS_PER_PAGE,
            if has_pages { offset } else { 0 },
            has_more,
        ),
    };
    page::render_live(&request, &page)
}
