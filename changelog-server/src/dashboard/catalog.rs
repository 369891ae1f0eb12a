//! The pages of services and of hosts: a list with counts, and a page for each
//! item with its changes and its year.

use std::fmt::Display;
use std::str::FromStr;

use askama::Template;
use changelog_core::problem::BadValue;
use changelog_core::{Action, Change, ChangeFilter, Input, ServiceRef, Timestamp};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use crate::app::App;
use crate::dashboard::parts::form::{Field, Form};
use crate::dashboard::parts::pager::Pager;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, charts, format, page};
use crate::store::activity::{self, Entry};
use crate::store::{HAPPENED, Scope, Store, StoreError, Summary, Tenant, Tx};
use crate::web::{ApiError, ApiResult, Request};

/// The items on one page of a list.
const ITEMS_PER_PAGE: u64 = 50;
/// The newest changes that the page of an item shows.
const CHANGES_SHOWN: u64 = 15;

/// The address and the words of the pages.
pub(super) struct Texts {
    pub(super) section: Section,
    pub(super) path: &'static str,
    pub(super) noun: &'static str,
    pub(super) heading: &'static str,
    /// The headings of the list's first two columns.
    pub(super) name_column: &'static str,
    pub(super) summary_column: &'static str,
    /// A command that creates an item.
    pub(super) create_command: &'static str,
}

/// One item, for the list and its page.
pub(super) struct ItemView {
    pub(super) id: String,
    pub(super) name: String,
    /// The second column of the list.
    pub(super) summary: String,
    pub(super) facts: Vec<(&'static str, String)>,
    /// Lists of services, each with its heading.
    pub(super) related: Vec<Related>,
    pub(super) description: Option<String>,
    pub(super) created_at: Timestamp,
    /// The form with the present values.
    pub(super) form: Form,
}

/// The services that an item has to do with in one way.
pub(super) struct Related {
    pub(super) heading: &'static str,
    pub(super) services: Vec<ServiceRef>,
    /// Whether there are more.
    pub(super) has_more: bool,
}

/// What differs between services and hosts.
pub(super) trait CatalogPage: 'static {
    const TEXTS: Texts;
    /// The fields of the form; the first is the name, which is unique.
    const FIELDS: &'static [Field];

    type Id: FromStr<Err = BadValue> + Copy + Display + Send + Sync;
    type Item: Send + Sync;
    type New: Input + Send + Sync + 'static;
    type Patch: Input + Send + Sync + 'static;

    /// Returns `limit` items with their counts, after the first `offset`.
    fn list(
        store: &Store,
        tenant: Tenant,
        limit: u64,
        offset: u64,
    ) -> impl Future<Output = Result<Vec<Summary<Self::Item>>, StoreError>> + Send;

    /// Returns one item.
    fn get(
        store: &Store,
        tenant: Tenant,
        id: Self::Id,
    ) -> impl Future<Output = Result<Self::Item, StoreError>> + Send;

    /// Creates an item.
    fn create(
        tx: &mut Tx,
        tenant: Tenant,
        new: &Self::New,
        now: DateTime<Utc>,
    ) -> impl Future<Output = Result<Self::Item, StoreError>> + Send;

    /// Updates an item; returns it with the changed fields.
    fn update(
        tx: &mut Tx,
        tenant: Tenant,
        id: Self::Id,
        patch: &Self::Patch,
    ) -> impl Future<Output = Result<(Self::Item, Map<String, Value>), StoreError>> + Send;

    /// Returns the entry of the activity log for an action on an item.
    fn log_entry(action: Action, item: &Self::Item, metadata: Map<String, Value>) -> Entry<'_>;

    /// Returns the filter and the scope that select the changes of an item.
    fn changes_of(id: Self::Id) -> (ChangeFilter, Scope<'static>);

    fn view(item: Self::Item) -> ItemView;

    /// Adds to the view of an item what its page shows besides the item itself.
    fn complete(
        store: &Store,
        tenant: Tenant,
        id: Self::Id,
        view: &mut ItemView,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Replaces names in a form by the ids that the API has in their place.
    fn with_ids(
        store: &Store,
        tenant: Tenant,
        form: &Form,
    ) -> impl Future<Output = Result<Form, StoreError>> + Send;
}

#[derive(Template)]
#[template(path = "catalog/list.html")]
struct ListPage<'a> {
    viewer: &'a Viewer,
    texts: Texts,
    fields: &'static [Field],
    rows: Vec<Summary<ItemView>>,
    pager: Pager,
    form: Form,
}

/// `GET /services`, `GET /hosts`
pub(super) async fn list<P: CatalogPage>(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, P::TEXTS.section).await?;
    list_page::<P>(&app, &request, &viewer, Form::default()).await
}

async fn list_page<P: CatalogPage>(
    app: &App,
    request: &Request,
    viewer: &Viewer,
    form: Form,
) -> ApiResult {
    let offset = request.query_form().value("offset").parse().unwrap_or(0);
    // One more item than the page shows reveals whether there are more.
    let mut items = P::list(&app.store, viewer.tenant(), ITEMS_PER_PAGE + 1, offset).await?;
    let has_more = items.len() as u64 > ITEMS_PER_PAGE;
    if has_more {
        items.pop();
    }
    let rows = items.into_iter().map(|summary| Summary {
        item: P::view(summary.item),
        changes: summary.changes,
        last: summary.last,
    });
    let status = if form.is_refused() { 422 } else { 200 };
    let page = ListPage {
        viewer,
        texts: P::TEXTS,
        fields: P::FIELDS,
        rows: rows.collect(),
        pager: Pager::of_offset(P::TEXTS.path, "", ITEMS_PER_PAGE, offset, has_more),
        form,
    };
    if status == 200 {
        return page::render_live(request, &page);
    }
    page::render(status, &page)
}

/// `POST /services`, `POST /hosts`
pub(super) async fn create<P: CatalogPage>(app: App, mut request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, P::TEXTS.section).await?;
    let form = request.form().await?;
    match insert::<P>(&app, &viewer, &form).await {
        Ok(id) => Ok(page::see_other(&path::<P>(&id))),
        Err(error) => {
            let form = refuse::<P>(form, error)?;
            list_page::<P>(&app, &request, &viewer, form).await
        }
    }
}

/// Creates an item and returns its id.
async fn insert<P: CatalogPage>(
    app: &App,
    viewer: &Viewer,
    form: &Form,
) -> Result<String, StoreError> {
    let (tenant, now) = (viewer.tenant(), app.now());
    let form = P::with_ids(&app.store, tenant, form).await?;
    let new: P::New = form.create(P::FIELDS, now.into()).await?;
    let mut tx = app.store.begin_for(tenant).await?;
    let item = P::create(&mut tx, tenant, &new, now).await?;
    let entry = P::log_entry(Action::Created, &item, Map::new());
    tx.record(tenant, &viewer.actor(), entry, now).await?;
    tx.commit().await?;
    Ok(P::view(item).id)
}

#[derive(Template)]
#[template(path = "catalog/item.html")]
struct ItemPage<'a> {
    viewer: &'a Viewer,
    texts: Texts,
    fields: &'static [Field],
    item: ItemView,
    count: u64,
    changes: Vec<Change>,
    /// The query string of the list of its changes.
    query: String,
    /// The command that logs a change of it.
    log_command: String,
    calendar: charts::Calendar,
    form: Form,
}

/// `GET /services/ID`, `GET /hosts/ID`
pub(super) async fn get<P: CatalogPage>(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, P::TEXTS.section).await?;
    item_page::<P>(&app, &request, &viewer, request.id()?, None).await
}

async fn item_page<P: CatalogPage>(
    app: &App,
    request: &Request,
    viewer: &Viewer,
    id: P::Id,
    refused: Option<Form>,
) -> ApiResult {
    let tenant = viewer.tenant();
    let mut item = P::view(P::get(&app.store, tenant, id).await?);
    P::complete(&app.store, tenant, id, &mut item).await?;
    let (filter, scope) = P::changes_of(id);
    let filter = ChangeFilter {
        per_page: CHANGES_SHOWN,
        statuses: HAPPENED.to_vec(),
        ..filter
    };
    let list = app.store.changes(tenant, &filter).await?;
    let today = app.now().timestamp().div_euclid(86_400);
    let days = app
        .store
        .daily_counts(tenant, scope, charts::year(today))
        .await?;
    let noun = P::TEXTS.noun;
    let query = format::query(&format!("{noun}_id"), id);
    let is_refused = refused.is_some();
    let page = ItemPage {
        viewer,
        texts: P::TEXTS,
        fields: P::FIELDS,
        form: refused.unwrap_or_else(|| std::mem::take(&mut item.form)),
        item,
        count: list.count,
        changes: list.json.parse()?,
        calendar: charts::calendar(&days, today, &query),
        query,
        log_command: format!("chlog log --status completed --{noun} {id} \"what was done\""),
    };
    if is_refused {
        page::render(422, &page)
    } else {
        page::render_live(request, &page)
    }
}

/// `POST /services/ID`, `POST /hosts/ID`
pub(super) async fn update<P: CatalogPage>(app: App, mut request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, P::TEXTS.section).await?;
    let id: P::Id = request.id()?;
    let form = request.form().await?;
    match save::<P>(&app, &viewer, id, &form).await {
        Ok(()) => Ok(page::see_other(&path::<P>(id))),
        Err(error) => {
            let form = refuse::<P>(form, error)?;
            item_page::<P>(&app, &request, &viewer, id, Some(form)).await
        }
    }
}

async fn save<P: CatalogPage>(
    app: &App,
    viewer: &Viewer,
    id: P::Id,
    form: &Form,
) -> Result<(), StoreError> {
    let (tenant, now) = (viewer.tenant(), app.now());
    let form = P::with_ids(&app.store, tenant, form).await?;
    let patch: P::Patch = form.patch(P::FIELDS, now.into()).await?;
    let mut tx = app.store.begin_for(tenant).await?;
    let (item, changes) = P::update(&mut tx, tenant, id, &patch).await?;
    if !changes.is_empty() {
        let entry = P::log_entry(Action::Updated, &item, activity::changed(changes));
        tx.record(tenant, &viewer.actor(), entry, now).await?;
    }
    tx.commit().await
}

fn path<P: CatalogPage>(id: impl Display) -> String {
    format!("{}/{id}", P::TEXTS.path)
}

/// Adds to the form why it was not saved: a broken rule or a name in use.
fn refuse<P: CatalogPage>(form: Form, error: StoreError) -> Result<Form, ApiError> {
    match error {
        StoreError::Invalid(invalid) => Ok(form.refuse(&invalid)),
        StoreError::Conflict => {
            let name_field = P::FIELDS[0].name;
            let name = form.value(name_field).trim().to_owned();
            Ok(form.refuse_field(name_field, format!("{name:?} already exists")))
        }
        error => Err(error.into()),
    }
}
