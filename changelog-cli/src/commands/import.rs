//! `chlog import`: records changes from a file or a repository, each once,
//! however often the command is repeated.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use changelog_core::SourceKind;
use clap::Args;
use serde_json::json;

use crate::base::failure::{Exit, Failure, Outcome, note};
use crate::base::text::plural;
use crate::base::time;
use crate::environment::app::App;
use crate::import::bulk::BulkImport;
use crate::import::events;
use crate::import::git;
use crate::import::lines::{self, InputFormat};
use crate::import::rejects::RejectsFile;
use crate::input::flags::source_kind;
use crate::input::names::Missing;
use crate::output::format::Format;

/// The file of rejected lines from standard input or a repository, without its extension.
const DEFAULT_REJECTS_FILE: &str = "import-rejected";

/// Records changes from a file or a repository.
#[derive(Debug, Args)]
#[command(after_help = "\
Existing changes are skipped, so the command can be repeated, also after an interruption and from \
another machine. A change is recognized by its time, title, service and host, and one of an export \
of the same organization by its ID; identical lines are imported as separate changes.

The file is the output of `chlog export`, or one with at least title and occurred_at; services and \
hosts are given by name. Lines that cannot be imported are written to FILE.rejected.")]
pub(crate) struct ImportArgs {
    /// File to read; - is standard input
    file: Option<PathBuf>,
    /// Import the tags and merges of the git repository here: of HEAD, or of a range such as v1.0..HEAD
    #[arg(
        long,
        value_name = "RANGE",
        num_args = 0..=1,
        default_missing_value = "HEAD",
        conflicts_with_all = ["file", "input_format"]
    )]
    git: Option<String>,
    /// Read the events that this kind of system sends or logs, such as github or cloudtrail,
    /// and import the changes that they tell of
    #[arg(
        long,
        value_name = "KIND",
        value_parser = source_kind(),
        requires = "file",
        conflicts_with_all = ["git", "input_format"]
    )]
    from: Option<SourceKind>,
    /// Format of the file; by default recognized by its extension or its first character
    #[arg(long, value_enum, value_name = "FORMAT")]
    input_format: Option<InputFormat>,
    /// File for the lines that cannot be imported
    #[arg(long, value_name = "PATH")]
    rejected: Option<PathBuf>,
    /// Create the named services and hosts that do not exist; those of an export are always created
    #[arg(long)]
    create_missing: bool,
    /// Notify integrations and subscribers of the imported changes
    #[arg(long)]
    notify: bool,
    /// Check everything, print what would be imported, and send nothing
    #[arg(long)]
    dry_run: bool,
}

/// Returns the file for the lines that cannot be imported.
fn rejects_path(args: &ImportArgs, format: InputFormat) -> PathBuf {
    match (&args.rejected, &args.file) {
        (Some(path), _) => path.clone(),
        // Next to a file, not to standard input or a pipe.
        (None, Some(path)) if path.is_file() => {
            let mut name = path.as_os_str().to_owned();
            name.push(".rejected");
            name.into()
        }
        _ => Path::new(DEFAULT_REJECTS_FILE).with_extension(match format {
            InputFormat::Csv => "csv",
            InputFormat::Ndjson | InputFormat::Json => "ndjson",
        }),
    }
}

/// Imports the changes that do not exist.
pub(crate) async fn run(app: &mut App, args: ImportArgs) -> Outcome {
    let path = args.file.as_deref();
    if path.is_none() && args.git.is_none() {
        return Err(Failure::usage("nothing to import")
            .line("chlog import FILE imports a file; - is standard input")
            .line("chlog import --git imports the tags and merges of this repository"));
    }
    if path.is_some() && path == args.rejected.as_deref() {
        return Err(Failure::usage(
            "--rejected: must not be the file that is imported",
        ));
    }
    // Before a large file is read, so that a missing key fails at once.
    let client = app.client()?;
    let (bytes, format) = read(&args).await?;
    if args.git.is_some() && bytes.is_empty() {
        note(
            "there are no tags and no merge commits in this range; squashed and rebased commits \
             cannot be recognized as merges",
        );
    }
    let rejects_path = rejects_path(&args, format);
    let lines = lines::read(&bytes, format, time::now())?;
    let header = lines.header.and_then(|span| bytes.get(span));
    let rejects = RejectsFile::new(rejects_path, &bytes, header);
    let mut import = BulkImport::new(client, rejects, args.dry_run, args.notify);
    import.reject(&lines.rejected);
    let mut records = lines.records;
    if !records.is_empty() {
        let missing = Missing::of_flag(args.create_missing);
        import.resolve(&mut records, missing).await?;
        import.send(records).await?;
    }
    finish(&import, app, args.dry_run)
}

/// Reads the whole input, because it is sorted before anything is sent.
async fn read(args: &ImportArgs) -> Outcome<(Vec<u8>, InputFormat)> {
    if let Some(range) = &args.git {
        return Ok((git::history(range)?, InputFormat::Ndjson));
    }
    let path = args.file.clone().unwrap_or_default();
    let extension = path.extension().and_then(|extension| extension.to_str());
    let bytes = if path == Path::new("-") {
        // On another thread, so that Ctrl-C is handled meanwhile.
        let read = tokio::task::spawn_blocking(|| {
            let mut bytes = Vec::new();
            io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
        });
        read.await.map_err(io::Error::other).flatten()
    } else {
        fs::read(&path)
    };
    let bytes = bytes.map_err(|error| Failure::unreadable(&path, error))?;
    if let Some(kind) = &args.from {
        let changes = events::changes(kind, &bytes, time::now())?;
        return Ok((changes, InputFormat::Ndjson));
    }
    let format = args
        .input_format
        .unwrap_or_else(|| InputFormat::of(extension, &bytes));
    Ok((bytes, format))
}

/// Prints the result.
fn finish(import: &BulkImport<'_>, app: &mut App, dry_run: bool) -> Outcome {
    let rejected = import.rejects.count;
    let path = import.rejects.path().display().to_string();
    let verb = if dry_run { "would import" } else { "imported" };
    note(&format!(
        "{verb} {}, skipped {} already present, rejected {rejected}",
        import.imported, import.existing
    ));
    if app.output.format() != Format::Table {
        app.output.json(&json!({
            "imported": import.imported,
            "already_there": import.existing,
            "rejected": rejected,
            "rejected_file": (rejected > 0 && !dry_run && import.rejects.unsaved().is_none())
                .then_some(&path),
        }))?;
    }
    if rejected == 0 {
        return Ok(());
    }
    let failure = Failure::new(
        Exit::Invalid,
        format!("rejected {}", plural(rejected, "line")),
    );
    if dry_run {
        return Err(failure);
    }
    Err(match import.rejects.unsaved() {
        None => failure
            .line(format!("saved to {path}"))
            .hint("fix them there and import that file"),
        Some(error) => failure
            .line(format!("not saved: {error}"))
            .hint("fix the lines that are named above, and import them from another file"),
    })
}
