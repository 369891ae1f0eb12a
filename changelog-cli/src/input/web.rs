//! The page of a change in the dashboard.

use changelog_core::ChangeId;
use clap::Args;

use crate::base::failure::{Outcome, warn};
use crate::environment::app::App;

/// The flag that opens the page of a change.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct WebArgs {
    /// Open the change in the browser (BROWSER)
    #[arg(long, help_heading = "Behavior")]
    web: bool,
}

impl WebArgs {
    /// Opens the page if the flag is given. The command has done its work, so that a
    /// missing browser is only a warning.
    pub(crate) fn open(self, app: &App, id: ChangeId) -> Outcome {
        if !self.web {
            return Ok(());
        }
        let url = url(app, id)?;
        if let Err(error) = webbrowser::open(&url) {
            warn(&format!("cannot open {url}: {error}"));
        }
        Ok(())
    }
}

/// Returns the address of a change in the dashboard.
pub(crate) fn url(app: &App, id: ChangeId) -> Outcome<String> {
    Ok(format!("{}/changes/{id}", server(app)?))
}

/// Returns the address of the dashboard, without a slash at its end.
pub(crate) fn server(app: &App) -> Outcome<String> {
    let server = app.url()?.value.trim();
    Ok(server.trim_end_matches('/').to_owned())
}
