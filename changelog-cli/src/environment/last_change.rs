//! The change that this user recorded or updated last, for `@last`.
//!
//! ```text
//! $XDG_STATE_HOME/chlog/last/DIGEST   the ID, by server and key
//! ```

use std::fs;
use std::path::PathBuf;

use super::app::App;
use super::dirs;
use crate::base::failure::Outcome;
use crate::base::private_fs;
use crate::base::text::sha256_hex;

/// The hexadecimal digits of a SHA-256 in the name of a file.
const DIGEST_DIGITS: usize = 16;

/// Remembers an ID: of a change, or of one that waits in the spool. If it cannot be
/// written, `@last` is an earlier change or none.
pub(crate) fn remember(app: &App, id: &impl ToString) {
    if let Ok(Some(path)) = path(app)
        && let Some(directory) = path.parent()
        && private_fs::create_directory(directory).is_ok()
    {
        // Not synced to the disk: that would take longer than the request.
        let _ = fs::write(path, id.to_string());
    }
}

/// Returns the remembered ID; none if there is none.
pub(crate) fn last(app: &App) -> Outcome<Option<String>> {
    let text = path(app)?.and_then(|path| fs::read_to_string(path).ok());
    Ok(text.map(|text| text.trim().to_owned()))
}

fn path(app: &App) -> Outcome<Option<PathBuf>> {
    let url = app.url()?.value.trim().trim_end_matches('/').to_owned();
    let identity = app.required_credential()?.identity();
    let name = sha256_hex(&format!("{url}\n{identity}"), DIGEST_DIGITS);
    Ok(dirs::state().map(|state| state.join("last").join(name)))
}
