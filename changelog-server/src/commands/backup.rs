//! `changelog-server backup`

use std::path::Path;

use super::{Failure, print, print_json};
use crate::config::Common;
use crate::store::{Capacity, Purpose, Store};

pub(super) async fn run(common: &Common, path: &Path) -> Result<(), Failure> {
    let (store, _) = Store::open(&common.database_url, Purpose::Copy, Capacity::default()).await?;
    let bytes = store.backup(path).await?;
    if common.json {
        return print_json(&serde_json::json!({ "path": path, "bytes": bytes }));
    }
    print(&format!("wrote {} ({bytes} bytes)", path.display()))
}
