//! `chlog spool`: the changes that wait for the service.

use std::fs;
use std::io::{self, IsTerminal};

use changelog_core::OrganizationId;
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use crate::base::failure::{Cause, Exit, Failure, Outcome, note};
use crate::base::time;
use crate::environment::app::App;
use crate::output::table;
use crate::recording::spool::delivery::{self, Delivery, Takeover, unreadable};
use crate::recording::spool::owner::organization_of;
use crate::recording::spool::{self, Kept};

/// The changes that wait for the service.
#[derive(Debug, Subcommand)]
pub(crate) enum SpoolCommand {
    /// List what waits, and what the service did not take
    Status,
    /// Send what waits
    Flush(FlushArgs),
    /// Put rejected changes, and those waiting for a valid key, back in the queue
    Retry(RetryArgs),
    /// Throw away what waits, or what the service did not take
    Drop(DropArgs),
}

/// What to send beyond what is meant for this address and organization.
#[derive(Debug, Default, Args)]
pub(crate) struct FlushArgs {
    /// Also send changes kept for another address here: one that was mistyped or is no longer used
    ///
    /// Only what belongs to the same organization; where that is not known, what was kept with the
    /// same key.
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// Record a change in the organization of this key although the organization that it was kept
    /// for is not known; `all` for all of them
    ///
    /// Repeatable, or separated by commas. A change that is known to belong to another organization
    /// is never sent.
    #[arg(long, value_name = "ID|all", value_delimiter = ',')]
    adopt: Vec<String>,
}

/// What to put back.
#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    /// The ids, as `chlog spool status` shows them; without one, everything
    ids: Vec<String>,
}

/// What to throw away.
#[derive(Debug, Args)]
pub(crate) struct DropArgs {
    /// The ids of what waits or was not taken, as `chlog spool status` shows them
    #[arg(required_unless_present_any = ["all", "refused"])]
    ids: Vec<String>,
    /// Everything that waits
    #[arg(long)]
    all: bool,
    /// Everything that the service did not take
    #[arg(long)]
    refused: bool,
}

/// A file of the spool as it is shown.
#[derive(serde::Serialize)]
pub(crate) struct Waiting {
    pub(crate) id: String,
    /// `waiting`, `unauthorized`, `unexpected_response` or `refused`.
    pub(crate) state: &'static str,
    pub(crate) title: String,
    pub(crate) url: String,
    /// The organization that it belongs to, if it is known.
    pub(crate) organization: Option<OrganizationId>,
    /// The fingerprint of the key that it was kept under.
    pub(crate) key_fingerprint: String,
    pub(crate) kept_at: Option<changelog_core::Timestamp>,
    pub(crate) reason: String,
}

impl Waiting {
    fn new(kept: &Kept, is_refused: bool) -> Self {
        let id = kept.name();
        match &kept.entry {
            Ok(entry) => Self {
                id,
                state: match entry.cause {
                    _ if is_refused => "refused",
                    Cause::Unauthorized => "unauthorized",
                    Cause::UnexpectedResponse => "unexpected_response",
                    _ => "waiting",
                },
                title: entry.title(),
                url: entry.url.clone(),
                organization: organization_of(entry),
                key_fingerprint: entry.key_fingerprint.clone(),
                kept_at: Some(entry.kept_at),
                reason: entry.reason.clone(),
            },
            Err(error) => Self {
                id,
                state: if is_refused { "refused" } else { "waiting" },
                title: "unreadable".to_owned(),
                url: String::new(),
                organization: None,
                key_fingerprint: String::new(),
                kept_at: None,
                reason: format!("{}: {error}", kept.path.display()),
            },
        }
    }

    /// Returns the organization, or the key as long as that is not known.
    pub(crate) fn owner(&self) -> String {
        match &self.organization {
            Some(organization) => organization.to_string(),
            None if self.key_fingerprint.is_empty() => String::new(),
            None => format!("unknown (key {})", self.key_fingerprint),
        }
    }
}

/// Does what was asked with what waits.
pub(crate) async fn run(app: App, command: SpoolCommand) -> Outcome {
    match command {
        SpoolCommand::Status => status(app),
        SpoolCommand::Flush(args) => flush(&app, args).await,
        SpoolCommand::Retry(args) => put_back(&args).await,
        SpoolCommand::Drop(args) => drop_some(&args),
    }
}

fn status(mut app: App) -> Outcome {
    let mut all = Vec::new();
    if let Some(directory) = spool::directory() {
        for (directory, is_refused) in [
            (directory.clone(), false),
            (spool::refused(&directory), true),
        ] {
            let files = spool::list(&directory).map_err(|error| unreadable(&error))?;
            all.extend(files.iter().map(|kept| Waiting::new(kept, is_refused)));
        }
    }
    if all.is_empty() && app.output.format() == crate::output::format::Format::Table {
        note("nothing waits");
        return Ok(());
    }
    app.output
        .records(all, |all, width| table::waiting(all, width, time::now()))
}

async fn flush(app: &App, args: FlushArgs) -> Outcome {
    let delivery = Delivery::of_all(app)?;
    let adopts_all = args.adopt.iter().any(|id| id == "all");
    let adopted: Vec<String> = args.adopt.into_iter().filter(|id| id != "all").collect();
    let directory = spool::directory().unwrap_or_default();
    let names: Vec<String> = spool::list(&directory)
        .map_err(|error| unreadable(&error))?
        .iter()
        .map(Kept::name)
        .collect();
    if let Some(id) = adopted.iter().find(|id| !names.contains(id)) {
        return Err(nothing_with(id));
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
    let others = report.elsewhere + report.foreign + report.unknown;
    if report.delivered == 0 && report.left == 0 && report.refused == 0 {
        note(match others {
            0 => "nothing waits",
            _ => "nothing waits for this address and key",
        });
    } else if report.delivered > 0 {
        note(&format!("recorded: {}", report.delivered));
    }
    if report.elsewhere > 0 {
        note(&format!(
            "{} for other addresses; `chlog spool status` shows them, and `chlog spool flush \
             --from URL` sends here what was meant for another address",
            report.elsewhere
        ));
    }
    if report.foreign > 0 {
        note(&format!(
            "{} for another organization than this key's; `chlog spool status` shows which, and a \
             key of it sends them",
            report.foreign
        ));
    }
    if report.unknown > 0 {
        note(&format!(
            "{} kept with another key whose organization is not known; that key sends them, or \
             `chlog spool flush --adopt ID` with this one",
            report.unknown
        ));
    }
    if let Some(failure) = report.stopped {
        return Err(failure.line(format!("{} still waiting, and kept", report.left)));
    }
    if report.refused > 0 {
        return Err(Failure::new(
            Exit::Invalid,
            format!("the service did not take {}", report.refused),
        )
        .hint(
            "`chlog spool status` says why; they are kept until `chlog spool retry` puts them back or \
             `chlog spool drop --refused` drops them",
        ));
    }
    Ok(())
}

async fn put_back(args: &RetryArgs) -> Outcome {
    let (count, missing) = delivery::retry(&args.ids).await?;
    note(&match count {
        0 => "nothing was put back".to_owned(),
        count => format!("put back: {count}; `chlog spool flush` sends what waits"),
    });
    match missing.first() {
        None => Ok(()),
        Some(id) => Err(nothing_with(id)),
    }
}

fn nothing_with(id: &str) -> Failure {
    Failure::new(Exit::NotFound, format!("nothing waits under the id {id:?}"))
        .hint("`chlog spool status` shows what waits")
}

fn drop_some(args: &DropArgs) -> Outcome {
    let directory = spool::directory().ok_or_else(|| {
        Failure::new(
            Exit::Other,
            "there is no spool: this machine has no home directory",
        )
    })?;
    let mut count = 0;
    let mut missing: Vec<&str> = args.ids.iter().map(String::as_str).collect();
    for (directory, is_all) in [
        (directory.clone(), args.all),
        (spool::refused(&directory), args.refused),
    ] {
        let files = spool::list(&directory).map_err(|error| unreadable(&error))?;
        for kept in files {
            let name = kept.name();
            let is_named = args.ids.contains(&name);
            if !is_all && !is_named {
                continue;
            }
            missing.retain(|id| *id != name);
            // Somebody may have sent it in this moment.
            match fs::remove_file(&kept.path) {
                Ok(()) => count += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(unreadable(&error)),
            }
        }
    }
    note(&format!("thrown away: {count}"));
    match missing.first() {
        None => Ok(()),
        Some(id) => Err(nothing_with(id)),
    }
}
