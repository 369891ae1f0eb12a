//! The pages of services and of hosts: a list with counts, a page for each item with
//! its changes and its year, and the forms.

pub(super) mod edit;
pub(super) mod item;
pub(super) mod list;

use std::fmt::Display;
use std::ops::Range;
use std::str::FromStr;

use changelog_core::problem::BadValue;
use changelog_core::{Action, ChangeFilter, Input, ServiceId, ServiceRef, Timestamp};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use crate::dashboard::parts::form::{Field, Form};
use crate::dashboard::parts::viewer::Section;
use crate::store::activity::Entry;
use crate::store::{ChartScope, Store, StoreError, Summary, Tenant, Tx};

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
    /// The orders that lists have.
    pub(super) orders: &'static [Order],
}

/// The order of a list. Others would need a statement that reads all items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Name,
    /// Most changes in the last days first.
    MostChanged,
    /// Those of the latest changes.
    LastChanged,
}

impl Order {
    /// Returns the value of `sort` in addresses.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::MostChanged => "changes",
            Self::LastChanged => "last",
        }
    }
}

/// Which items a list has.
#[derive(Clone, Copy, Debug)]
pub(super) enum Listed<'t> {
    /// A page of all, by name.
    ByName {
        limit: u64,
        offset: u64,
    },
    /// Those whose names have words that begin like these.
    Found(&'t str),
    MostChanged,
    LastChanged,
}

/// One item, for the list and its page.
pub(super) struct ItemView {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) color: Option<String>,
    pub(super) environment: Option<String>,
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

    /// Returns the items of a list with their counts; `days`, numbers since 1970 in UTC,
    /// are counted apart.
    fn list(
        store: &Store,
        tenant: Tenant,
        listed: Listed<'_>,
        days: Range<i64>,
    ) -> impl Future<Output = Result<Vec<Summary<Self::Item>>, StoreError>> + Send;

    /// Returns one item.
    fn get(
        store: &Store,
        tenant: Tenant,
        id: Self::Id,
    ) -> impl Future<Output = Result<Self::Item, StoreError>> + Send;

    /// Returns the values of the form for a new item.
    fn defaults() -> Form;

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
    fn changes_of(id: Self::Id) -> (ChangeFilter, ChartScope);

    fn view(item: Self::Item) -> ItemView;

    /// Adds to the view of an item what its page shows besides the item itself.
    fn complete(
        store: &Store,
        tenant: Tenant,
        id: Self::Id,
        view: &mut ItemView,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Returns the service that the viewer may subscribe to on the page of an item.
    fn subscribable(_id: Self::Id) -> Option<ServiceId> {
        None
    }

    /// Replaces names in a form by the ids that the API has in their place.
    fn with_ids(
        store: &Store,
        tenant: Tenant,
        form: &Form,
    ) -> impl Future<Output = Result<Form, StoreError>> + Send;
}

fn path<P: CatalogPage>(id: impl Display) -> String {
    format!("{}/{id}", P::TEXTS.path)
}

/// Returns the last seven days, as numbers since 1970 in UTC.
fn last_days(now: Timestamp) -> Range<i64> {
    let today = now.millis().div_euclid(86_400_000);
    today - 6..today + 1
}
