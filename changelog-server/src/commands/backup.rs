//! `changelog-server backup`

use std::path::Path;

use super::{Failure, open, print, print_json};
use crate::config::Common;

pub(super) async fn run(common: &Common, path: &Path) -> Result<(), Failure> {
    let store = open(common).await?;
    let bytes = store.backup(path).await?;
    if common.json {
        return print_json(&serde_json::json!({ "path": path, "bytes": bytes }));
    }
    print(&format!("wrote {} ({bytes} bytes)", path.display()))
}
