//! The directories that `chlog` uses; none on a machine without a home
//! directory.

use std::path::PathBuf;

use etcetera::BaseStrategy;

/// Returns the directory of settings and stored keys.
pub(crate) fn config() -> Option<PathBuf> {
    let strategy = etcetera::choose_base_strategy().ok()?;
    Some(strategy.config_dir().join("chlog"))
}

/// Returns the directory of state that must last, such as the spool.
pub(crate) fn state() -> Option<PathBuf> {
    let strategy = etcetera::choose_base_strategy().ok()?;
    let state = strategy.state_dir().unwrap_or_else(|| strategy.data_dir());
    Some(state.join("chlog"))
}

/// Returns the directory of what can be fetched again.
pub(crate) fn cache() -> Option<PathBuf> {
    let strategy = etcetera::choose_base_strategy().ok()?;
    Some(strategy.cache_dir().join("chlog"))
}
