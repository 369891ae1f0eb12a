//! `chlog spool`: the changes that wait for the service.

use std::fs;
use std::io::{self, IsTerminal};

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::{Exit, Failure, Outcome, note};
use crate::moment;
use crate::output::table;
use crate::session::Session;
use crate::spool::delivery::{Delivery, unreadable};
use crate::spool::{self, Kept};

/// The changes that wait for the service.
#[derive(Debug, Subcommand)]
pub(crate) enum SpoolCommand {
    /// List what waits, and what the service did not take
    Status,
    /// Send what waits
    Flush,
    /// Throw away what waits, or what the service did not take
    Drop(DropArgs),
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
    /// `waiting` or `refused`.
    pub(crate) state: &'static str,
    pub(crate) title: String,
    pub(crate) url: String,
    pub(crate) kept_at: Option<changelog_core::Timestamp>,
    pub(crate) reason: String,
}

impl Waiting {
    fn new(kept: &Kept, state: &'static str) -> Self {
        let id = kept.name();
        match &kept.entry {
            Ok(entry) => Self {
                id,
                state,
                title: entry.title(),
                url: entry.url.clone(),
                kept_at: Some(entry.kept_at),
                reason: entry.reason.clone(),
            },
            Err(error) => Self {
                id,
                state,
                title: "unreadable".to_owned(),
                url: String::new(),
                kept_at: None,
                reason: format!("{}: {error}", kept.path.display()),
            },
        }
    }
}

/// Does what was asked with what waits.
pub(crate) async fn run(session: Session, command: SpoolCommand) -> Outcome {
    match command {
        SpoolCommand::Status => status(session),
        SpoolCommand::Flush => flush(&session).await,
        SpoolCommand::Drop(args) => drop_some(&args),
    }
}

fn status(mut session: Session) -> Outcome {
    let mut all = Vec::new();
    if let Some(directory) = spool::directory() {
        for (directory, state) in [
            (directory.clone(), "waiting"),
            (spool::refused(&directory), "refused"),
        ] {
            let files = spool::list(&directory).map_err(|error| unreadable(&error))?;
            all.extend(files.iter().map(|kept| Waiting::new(kept, state)));
        }
    }
    if all.is_empty() && session.output.format() == crate::args::Format::Table {
        note("nothing waits");
        return Ok(());
    }
    session
        .output
        .records(all, |all, width| table::waiting(all, width, moment::now()))
}

async fn flush(session: &Session) -> Outcome {
    let delivery = Delivery::of_all(session)?;
    let bar = ProgressBar::hidden();
    if io::stderr().is_terminal() {
        bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("sending {bar:30} {pos}/{len}") {
            bar.set_style(style);
        }
    }
    let report = delivery
        .flush(|done, count| {
            bar.set_length(count as u64);
            bar.set_position(done as u64);
        })
        .await?;
    bar.finish_and_clear();
    if report.delivered == 0 && report.left == 0 && report.refused == 0 {
        note(match report.elsewhere {
            0 => "nothing waits",
            _ => "nothing waits for this address",
        });
    } else if report.delivered > 0 {
        note(&format!("recorded: {}", report.delivered));
    }
    if report.elsewhere > 0 {
        note(&format!(
            "{} for other addresses; `chlog spool status` shows them",
            report.elsewhere
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
        .hint("`chlog spool status` says why; they are kept until `chlog spool drop --refused`"));
    }
    Ok(())
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
        Some(id) => Err(
            Failure::new(Exit::NotFound, format!("nothing waits under the id {id:?}"))
                .hint("`chlog spool status` shows what waits"),
        ),
    }
}
