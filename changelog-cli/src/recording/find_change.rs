//! Finds the change that a user named, or offers changes to choose from.

use changelog_client::ChangeQuery;
use changelog_core::limits::{MAX_PER_PAGE, MIN_ID_PREFIX};
use changelog_core::{Change, ChangeId, Status};
use inquire::Select;

use super::spool::recorded::{self, Target};
use crate::base::failure::{Exit, Failure, Outcome};
use crate::base::prompting::is_interactive;
use crate::base::text::{one_line, shorten};
use crate::base::time;
use crate::environment::app::App;
use crate::environment::last_change;
use crate::input::change_ref::{ChangeRef, LAST};
use crate::input::message::prompts::prompt_failure;
use crate::output::changes::shown_time;

/// How many changes are offered to choose from.
const OFFERED_CHANGES: u64 = 25;
/// How many changes are listed if a prefix is ambiguous.
const LISTED_CHANGES: usize = 5;
/// The longest title in a list of changes to choose from, in characters.
const MAX_TITLE: usize = 60;

/// Finds the change that a user named, or lets the user choose one with one of the
/// statuses; without statuses, any. The ID may be that of a queued change.
pub(crate) async fn find(
    app: &App,
    named: Option<&ChangeRef>,
    statuses: &[Status],
) -> Outcome<ChangeId> {
    match named {
        None => choose(app, statuses).await,
        Some(ChangeRef::Id(id)) => Ok(*id),
        Some(ChangeRef::Prefix(digits)) => by_prefix(app, digits).await,
        Some(ChangeRef::Last) => last(app),
    }
}

/// Finds a change that the server has; see [`find`].
pub(crate) async fn find_recorded(app: &App, named: Option<&ChangeRef>) -> Outcome<ChangeId> {
    match Target::of(find(app, named, &[]).await?) {
        Target::Change(id) => Ok(id),
        Target::Queued => Err(Failure::new(
            Exit::NotFound,
            "the change is queued and not recorded yet",
        )
        .hint("`chlog spool status` shows it, `chlog spool flush` sends it")),
    }
}

fn last(app: &App) -> Outcome<ChangeId> {
    let id = last_change::last(app)?.and_then(|id| id.parse().ok());
    id.ok_or_else(|| {
        Failure::new(
            Exit::NotFound,
            format!("{LAST}: no change was recorded or updated with this server and key here"),
        )
        .hint("`chlog list` shows all changes")
    })
}

async fn by_prefix(app: &App, digits: &str) -> Outcome<ChangeId> {
    // Without a request, because the server may be unavailable.
    if let Some(id) = recorded::queued_with_prefix(digits) {
        return Ok(id);
    }
    let client = app.client()?;
    let list = client.changes().list();
    let page = list
        .matching(ChangeQuery::new().text(digits))
        .per_page(MAX_PER_PAGE)
        .send()
        .await?;
    // The text is searched for in titles, too.
    let mut found = page.data.iter().filter(|change| {
        let id = change.id.0.simple().to_string();
        id.starts_with(digits)
    });
    match (found.next(), found.next()) {
        (None, _) => Err(Failure::new(
            Exit::NotFound,
            format!("there is no change whose ID begins with {digits}"),
        )
        .hint("`chlog list` shows all changes")),
        (Some(only), None) => Ok(only.id),
        (Some(first), Some(second)) => {
            let message = format!("several changes have IDs that begin with {digits}");
            let failure = [first, second]
                .into_iter()
                .chain(found)
                .take(LISTED_CHANGES)
                .fold(Failure::usage(message), |failure, change| {
                    failure.line(format!("{}  {}", change.id, one_line(&change.title)))
                });
            Err(failure.hint("give more digits"))
        }
    }
}

/// A change in the list that the user chooses from.
struct Choice(Change);

impl std::fmt::Display for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(change) = self;
        let title = shorten(&one_line(&change.title), MAX_TITLE);
        let status = one_line(change.status_label());
        let at = shown_time(change);
        write!(
            f,
            "{title}  ({status}, {})",
            time::relative(at, time::now())
        )
    }
}

async fn choose(app: &App, statuses: &[Status]) -> Outcome<ChangeId> {
    if !is_interactive() {
        return Err(Failure::usage(
            "no change was named, and there is no terminal to choose one on",
        )
        .line(format!(
            "pass its ID, at least the first {MIN_ID_PREFIX} digits of it, or {LAST}"
        ))
        .hint("`chlog list` shows the changes with their IDs"));
    }
    let client = app.client()?;
    let list = client.changes().list();
    let query = ChangeQuery::new().statuses(statuses.iter().cloned());
    let page = list
        .matching(query)
        .per_page(OFFERED_CHANGES)
        .send()
        .await?;
    if page.data.is_empty() {
        let statuses: Vec<String> = statuses
            .iter()
            .map(|status| status.as_str().replace('_', " "))
            .collect();
        let message = format!("no change is {}", statuses.join(" or "));
        return Err(Failure::new(Exit::NotFound, message)
            .hint("name a change with another status by its ID; `chlog list` shows all changes"));
    }
    let choices: Vec<Choice> = page.data.into_iter().map(Choice).collect();
    let chosen = Select::new("Change:", choices)
        .with_help_message("type to filter; only the newest changes are listed")
        .prompt()
        .map_err(prompt_failure)?;
    Ok(chosen.0.id)
}
