//! The pages of services and of hosts: a list with counts, a page for each item with
//! its changes and its year, and the forms.

pub(super) mod edit;
pub(super) mod item;
pub(super) mod list;

use std::fmt::Display;
use std::ops::Range;

use changelog_core::{ChangeFilter, ServiceId, ServiceRef, Timestamp};

use crate::dashboard::parts::form::{Field, Form};
use crate::dashboard::parts::viewer::Section;
use crate::store::{Store, StoreError, StoredItem, Summary, Tenant};

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

/// What differs between the pages of services and of hosts.
pub(super) trait CatalogPage: StoredItem {
    const TEXTS: Texts;
    /// The fields of the form; the first is the name, which is unique.
    const FIELDS: &'static [Field];

    /// Returns the items with the most changes on some days, numbers since 1970 in UTC, if
    /// the list has this order.
    fn most_changed(
        _store: &Store,
        _tenant: Tenant,
        _days: Range<i64>,
    ) -> impl Future<Output = Result<Vec<Summary<Self>>, StoreError>> + Send {
        async { Ok(Vec::new()) }
    }

    /// Returns the values of the form for a new item.
    fn defaults() -> Form {
        Form::default()
    }

    /// Returns the filter that selects the changes of an item.
    fn changes_of(id: Self::Id) -> ChangeFilter;

    fn view(self) -> ItemView;

    /// Adds to the view of an item what its page shows besides the item itself.
    fn complete(
        _store: &Store,
        _tenant: Tenant,
        _id: Self::Id,
        _view: &mut ItemView,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        async { Ok(()) }
    }

    /// Returns the service that an item is: its page has its incidents, and a form to subscribe.
    fn service_id(_id: Self::Id) -> Option<ServiceId> {
        None
    }

    /// Replaces names in a form by the ids that the API has in their place.
    fn with_ids(
        _store: &Store,
        _tenant: Tenant,
        form: Form,
    ) -> impl Future<Output = Result<Form, StoreError>> + Send {
        async { Ok(form) }
    }
}

fn path<P: CatalogPage>(id: impl Display) -> String {
    format!("{}/{id}", P::TEXTS.path)
}

/// Returns the last seven days, as numbers since 1970 in UTC.
fn last_days(now: Timestamp) -> Range<i64> {
    let today = now.millis().div_euclid(86_400_000);
    today - 6..today + 1
}
