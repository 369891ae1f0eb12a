//! `/changes`

mod chips;
pub(super) mod delete;
pub(super) mod detail;
pub(super) mod download;
pub(super) mod edit;
pub(super) mod filters;
pub(super) mod list;

use changelog_core::{Change, ChangeId};

use crate::app::App;
use crate::store::{StoreError, Tenant};

async fn find(app: &App, tenant: Tenant, id: ChangeId) -> Result<Change, StoreError> {
    app.store.change(tenant, id).await?.parse()
}
