//! `POST /changes/ID/delete`

use crate::app::App;
use crate::dashboard::parts::page;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::web::{ApiResult, Request};

/// `POST /changes/ID/delete`
pub(in crate::dashboard) async fn delete(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, Section::Changes).await?;
    let mut tx = app.store.begin_for(viewer.tenant()).await?;
    tx.delete_change(viewer.tenant(), &viewer.actor(), request.id()?, app.now())
        .await?;
    tx.commit().await?;
    Ok(page::see_other("/changes"))
}
