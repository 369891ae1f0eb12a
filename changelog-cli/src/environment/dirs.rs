//! The directories that `chlog` uses; none on a machine without a home
//! directory.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

/// Returns the directory of settings and stored keys.
pub(crate) fn config() -> Option<PathBuf> {
    absolute(&etcetera::choose_base_strategy().ok()?.config_dir())
}

/// Returns the directory of state that must last, such as the spool.
pub(crate) fn state() -> Option<PathBuf> {
    let strategy = etcetera::choose_base_strategy().ok()?;
    absolute(&strategy.state_dir().unwrap_or_else(|| strategy.data_dir()))
}

/// Returns the directory of what can be fetched again.
pub(crate) fn cache() -> Option<PathBuf> {
    absolute(&etcetera::choose_base_strategy().ok()?.cache_dir())
}

/// Returns the directory of `chlog` in one that is absolute. A relative HOME would mean
/// another directory for each working directory.
fn absolute(directory: &Path) -> Option<PathBuf> {
    directory.is_absolute().then(|| directory.join("chlog"))
}
