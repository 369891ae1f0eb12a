//! `POST /changes/ID/delete`

use changelog_core::Action;
use serde_json::Map;

use crate::app::App;
use crate::dashboard::parts::page;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::store::Entry;
use crate::web::{ApiResult, Request};

/// `POST /changes/ID/delete`
pub(in crate::dashboard) async fn delete(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, Section::Changes).await?;
    let (tenant, actor) = (viewer.tenant(), viewer.actor());
    let mut tx = app.store.begin_for(tenant).await?;
    let change = tx.delete_change(tenant, request.id()?).await?;
    let entry = Entry::of_change(Action::Deleted, &change, Map::new());
    tx.record(tenant, &actor, entry, app.now()).await?;
    tx.commit().await?;
    Ok(page::see_other("/changes"))
}
