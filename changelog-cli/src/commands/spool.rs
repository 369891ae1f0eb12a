//! `chlog spool`: the changes that wait for the server.

use std::fs;
use std::io::{self, IsTerminal};

use changelog_core::limits::MIN_ID_PREFIX;
use clap::{ArgGroup, Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use inquire::Confirm;
use serde::Serialize;
use serde_json::json;

use crate::base::failure::{Exit, Failure, Outcome, note};
use crate::base::prompting::is_interactive;
use crate::base::text::plural;
use crate::environment::app::App;
use crate::output::format::Format;
use crate::recording::spool::delivery::{self, Delivery, Takeover};
use crate::recording::spool::entry::SpoolFile;
use crate::recording::spool::folder::{self, unusable};
use crate::recording::spool::item::SpoolItem;

/// The message for an empty spool.
const NOTHING_WAITS: &str = "nothing queued";

/// Manages the changes that wait for the server.
#[derive(Debug, Subcommand)]
pub(crate) enum SpoolCommand {
    /// List waiting and rejected changes
    Status,
    /// Send the waiting changes
    Flush(FlushArgs),
    /// Put rejected changes, and changes that wait for a valid key, back in the queue
    Retry(RetryArgs),
    /// Delete waiting or rejected changes
    Drop(DropArgs),
}

/// The changes to send in addition to those of this server and organization.
#[derive(Debug, Default, Args)]
pub(crate) struct FlushArgs {
    /// Also send changes that were kept for this other URL, such as a mistyped or retired one
    ///
    /// Sends only changes of the same organization or, if their organization is not known, changes
    /// that were kept with the same key.
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// Also send this change, whose organization is not known, with the current key; `all` for all such changes
    ///
    /// Repeatable, or comma-separated. A change that belongs to another organization is never sent.
    #[arg(long, value_name = "ID|all", value_delimiter = ',')]
    adopt: Vec<String>,
}

/// The changes to put back.
#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    /// IDs from `chlog spool status`; all changes by default
    ids: Vec<String>,
}

/// The changes to delete.
#[derive(Debug, Args)]
#[command(group(
    ArgGroup::new("which").args(["ids", "all", "rejected"]).required(true).multiple(true)
))]
pub(crate) struct DropArgs {
    /// IDs from `chlog spool status`
    ids: Vec<String>,
    /// Delete all queued changes
    #[arg(long)]
    all: bool,
    /// Delete all rejected changes
    #[arg(long)]
    rejected: bool,
    /// Delete without confirmation; required for --all and --rejected without a terminal
    #[arg(short, long)]
    yes: bool,
}

/// Runs the subcommand.
pub(crate) async fn run(app: App, command: SpoolCommand) -> Outcome {
    if app.output.format() == Format::Ids && !matches!(command, SpoolCommand::Status) {
        return Err(Failure::usage(
            "--format ids: the result of this command has no IDs",
        ));
    }
    match command {
        SpoolCommand::Status => status(app),
        SpoolCommand::Flush(args) => flush(app, args).await,
        SpoolCommand::Retry(args) => retry(app, &args).await,
        SpoolCommand::Drop(args) => delete(app, &args),
    }
}

fn status(mut app: App) -> Outcome {
    let mut all = Vec::new();
    if let Some(directory) = folder::directory() {
        for (directory, is_rejected) in [
            (directory.clone(), false),
            (folder::rejected(&directory), true),
        ] {
            let files = SpoolFile::read_all(&directory)?;
            all.extend(files.iter().map(|file| SpoolItem::new(file, is_rejected)));
        }
    }
    if all.is_empty() && app.output.format() == Format::Table {
        note(NOTHING_WAITS);
        return Ok(());
    }
    app.output.records(&all)
}

async fn flush(mut app: App, args: FlushArgs) -> Outcome {
    let delivery = Delivery::of_all(&app)?;
    let adopts_all = args.adopt.iter().any(|id| id == "all");
    let adopted: Vec<String> = args.adopt.into_iter().filter(|id| id != "all").collect();
    let directory = folder::directory().unwrap_or_default();
    let ids: Vec<String> = SpoolFile::read_all(&directory)?
        .iter()
        .map(SpoolFile::id)
        .collect();
    let adopted = full_ids(&adopted, &ids);
    if let Some(id) = adopted.iter().find(|id| !ids.contains(id)) {
        return Err(unknown_id(id));
    }
    let takeover = Takeover {
        from: args.from,
        adopted,
        adopts_all,
    };
    let bar = ProgressBar::hidden();
    if io::stderr().is_terminal() {
        bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("sending {bar:30} {pos}/{len}") {
            bar.set_style(style);
        }
    }
    let report = delivery
        .flush(&takeover, |done, count| {
            bar.set_length(count as u64);
            bar.set_position(done as u64);
        })
        .await?;
    bar.finish_and_clear();
    print_counts(&mut app, &report)?;
    let others = report.other_url + report.other_organization + report.unknown_organization;
    if report.sent + report.remaining + report.rejected + report.unreadable == 0 {
        note(match others {
            0 => NOTHING_WAITS,
            _ => "nothing queued for this server and key",
        });
    } else if report.sent > 0 {
        note(&format!("recorded {}", plural(report.sent, "change")));
    }
    if report.other_url > 0 {
        note(&format!(
            "{} queued for other server URLs; see `chlog spool status`; `chlog spool flush --from URL` sends those of URL to this server",
            plural(report.other_url, "change")
        ));
    }
    if report.other_organization > 0 {
        note(&format!(
            "{} queued for another organization; see `chlog spool status`; use a key of that organization to send them",
            plural(report.other_organization, "change")
        ));
    }
    if report.unknown_organization > 0 {
        note(&format!(
            "{} queued with another key whose organization is not known; use that key, or `chlog spool flush --adopt ID` with this one",
            plural(report.unknown_organization, "change")
        ));
    }
    if report.stopped.is_none() && report.remaining > 0 {
        note(&format!(
            "still queued until the changes that they update are recorded: {}",
            plural(report.remaining, "update")
        ));
    }
    if let Some(failure) = report.stopped {
        return Err(failure.line(format!(
            "still queued: {}",
            plural(report.remaining, "change")
        )));
    }
    let mut failed = Vec::new();
    if report.rejected > 0 {
        let rejected = plural(report.rejected, "change");
        failed.push(format!("the server rejected {rejected}"));
    }
    if report.unreadable > 0 {
        let unreadable = plural(report.unreadable, "queued change");
        failed.push(format!("could not read {unreadable}"));
    }
    if !failed.is_empty() {
        return Err(Failure::new(Exit::Invalid, failed.join("; "))
        .hint(
            "`chlog spool status` shows why; `chlog spool retry` puts them back in the queue, `chlog spool \
             drop --rejected` deletes them",
        ));
    }
    Ok(())
}

async fn retry(mut app: App, args: &RetryArgs) -> Outcome {
    let (count, missing) = delivery::retry(&full_ids(&args.ids, &all_ids()?)).await?;
    print_counts(&mut app, &json!({ "queued": count }))?;
    note(&match count {
        0 => "nothing to retry".to_owned(),
        count => format!(
            "queued {} again; `chlog spool flush` sends them",
            plural(count as u64, "change")
        ),
    });
    match missing.first() {
        None => Ok(()),
        Some(id) => Err(unknown_id(id)),
    }
}

/// Returns the ids of all queued and rejected changes.
fn all_ids() -> Outcome<Vec<String>> {
    let mut ids = Vec::new();
    if let Some(directory) = folder::directory() {
        for directory in [folder::rejected(&directory), directory] {
            let files = SpoolFile::read_all(&directory)?;
            ids.extend(files.iter().map(SpoolFile::id));
        }
    }
    Ok(ids)
}

/// Completes the beginnings of ids, as tables show them on a terminal. What is not the
/// beginning of exactly one id stays as it is.
fn full_ids(given: &[String], all: &[String]) -> Vec<String> {
    let full = |given: &String| {
        let mut matching = all.iter().filter(|id| id.starts_with(given.as_str()));
        match (matching.next(), matching.next()) {
            (Some(only), None) if given.len() >= MIN_ID_PREFIX => only.clone(),
            _ => given.clone(),
        }
    };
    given.iter().map(full).collect()
}

fn unknown_id(id: &str) -> Failure {
    Failure::new(
        Exit::NotFound,
        format!("no queued change, or several, with ID {id}"),
    )
    .hint("`chlog spool status` shows all IDs")
}

/// Prints numbers as JSON, unless the format is for people: notes have the numbers.
fn print_counts(app: &mut App, counts: &impl Serialize) -> Outcome {
    match app.output.format() {
        Format::Table => Ok(()),
        _ => app.output.json(counts),
    }
}

/// Asks whether all changes of a kind may be deleted.
fn confirm(args: &DropArgs) -> Outcome {
    if args.yes || !(args.all || args.rejected) {
        return Ok(());
    }
    let what = match (args.all, args.rejected) {
        (true, true) => "all queued and all rejected changes",
        (true, false) => "all queued changes",
        _ => "all rejected changes",
    };
    if !is_interactive() {
        return Err(Failure::usage(format!("{what} would be deleted for good"))
            .hint("add --yes to delete them without a terminal"));
    }
    match Confirm::new(&format!("Delete {what} for good?"))
        .with_default(false)
        .prompt()
    {
        Ok(true) => Ok(()),
        _ => Err(Failure::cancelled("nothing was deleted")),
    }
}

fn delete(mut app: App, args: &DropArgs) -> Outcome {
    confirm(args)?;
    let directory = folder::directory().ok_or_else(|| {
        Failure::new(
            Exit::Other,
            "there is no spool: this machine has no home directory",
        )
    })?;
    let mut count = 0;
    let ids = full_ids(&args.ids, &all_ids()?);
    let mut missing: Vec<&str> = ids.iter().map(String::as_str).collect();
    for (directory, is_all) in [
        (directory.clone(), args.all),
        (folder::rejected(&directory), args.rejected),
    ] {
        let files = SpoolFile::read_all(&directory)?;
        for file in files {
            let id = file.id();
            let is_named = ids.contains(&id);
            if !is_all && !is_named {
                continue;
            }
            missing.retain(|missing| *missing != id);
            // Another process may have just sent it.
            match fs::remove_file(&file.path) {
                Ok(()) => count += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(unusable(&error)),
            }
        }
    }
    print_counts(&mut app, &json!({ "deleted": count }))?;
    note(&format!("deleted {}", plural(count, "change")));
    match missing.first() {
        None => Ok(()),
        Some(id) => Err(unknown_id(id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_beginning_of_one_id_is_completed() {
        let all = ["018f4e9a-7b1c", "018f4e9a-7b2c", "018f5e9a-7b1c"].map(str::to_owned);
        for (given, full) in [
            ("018f5e9a", "018f5e9a-7b1c"),
            ("018f4e9a", "018f4e9a"),
            ("018f4e9a-7b1", "018f4e9a-7b1c"),
            ("018f5", "018f5"),
            ("", ""),
        ] {
            assert_eq!(full_ids(&[given.to_owned()], &all), [full], "{given}");
        }
    }
}
