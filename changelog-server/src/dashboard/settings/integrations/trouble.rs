//! The notice about connections that a person should look at.

use chrono::TimeDelta;

use crate::app::App;
use crate::dashboard::parts::viewer::Viewer;
use crate::store::{StoreError, TroubledConnection};

/// How long a connection fails before there is a notice.
const FAILING_FOR: TimeDelta = TimeDelta::hours(1);

/// Lists the connections of the notice, for owners and admins.
pub(in crate::dashboard) async fn troubles(
    app: &App,
    viewer: &Viewer,
) -> Result<Vec<TroubledConnection>, StoreError> {
    if !viewer.may_manage() {
        return Ok(Vec::new());
    }
    let since = viewer.now.plus(-FAILING_FOR);
    app.store.troubled_connections(viewer.tenant(), since).await
}
