//! `chlog import`: records changes that were made elsewhere, each once, however
//! often it is repeated.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use changelog_client::limits::MAX_BULK_CHANGES;
use changelog_client::{Client, Error, Violation};
use changelog_core::{ChangeId, Timestamp};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::base::failure::{Exit, Failure, Outcome, note};
use crate::base::time;
use crate::environment::app::App;
use crate::import::lines::{self, InputFormat, MAX_BODY};
use crate::import::rejects::Aside;
use crate::import::resolve::Names;
use crate::import::{Record, Rejected, existing, git};
use crate::input::names::Missing;
use crate::output::format::Format;

/// Where lines of standard input or of a repository are set aside.
const REJECTED: &str = "import-rejected.ndjson";

/// Records changes out of a file or a repository.
#[derive(Debug, Args)]
#[command(after_help = "\
What is there already is left alone, so that the command can be repeated, also after it was \
interrupted and from another machine. A change is known again by its time, title, service and \
host; of two that are alike in a file, both are recorded.

The file is what `chlog export` writes, or one with at least title and occurred_at; service and \
host are given by name. Lines that cannot be recorded are set aside in FILE.rejected.")]
pub(crate) struct ImportArgs {
    /// The file to read; - is standard input
    #[arg(required_unless_present = "git")]
    file: Option<PathBuf>,
    /// Record the tags and merges of the repository here, of HEAD or of a range such as v1.0..HEAD
    #[arg(
        long,
        value_name = "RANGE",
        num_args = 0..=1,
        default_missing_value = "HEAD",
        conflicts_with_all = ["file", "input_format"]
    )]
    git: Option<String>,
    /// How the file is written; told by its extension or its first character when not given
    #[arg(long, value_enum, value_name = "FORMAT")]
    input_format: Option<InputFormat>,
    /// Where lines that cannot be recorded are set aside
    #[arg(long, value_name = "PATH")]
    rejected: Option<PathBuf>,
    /// Make named services and hosts that do not exist; those of an export are made in any case
    #[arg(long)]
    create_missing: bool,
    /// Check everything, say what would be recorded, and record nothing
    #[arg(long)]
    dry_run: bool,
}

/// Records what is not there yet.
pub(crate) async fn run(mut app: App, args: ImportArgs) -> Outcome {
    let path = args.file.as_deref();
    let aside = args.rejected.clone().unwrap_or_else(|| match path {
        Some(path) if path != Path::new("-") => {
            let mut name = path.as_os_str().to_owned();
            name.push(".rejected");
            name.into()
        }
        _ => REJECTED.into(),
    });
    if path.is_some_and(|path| path == aside) {
        return Err(Failure::usage(
            "--rejected: must not be the file that is imported",
        ));
    }
    // Nobody should wait for a large file and then hear that there is no key.
    let client = app.client()?;
    let (bytes, format) = read(&args).await?;
    let read = lines::read(&bytes, format, time::now())?;
    let header = read.header.and_then(|span| bytes.get(span));
    let mut import = Import {
        client,
        is_dry: args.dry_run,
        aside: Aside::new(aside, &bytes, header),
        used: HashSet::new(),
        imported: 0,
        there: 0,
    };
    import.reject(&read.rejected)?;
    let mut records = read.records;
    if !records.is_empty() {
        let missing = match (args.create_missing, args.dry_run) {
            (_, true) if args.create_missing => Missing::Announce,
            (true, _) => Missing::Create,
            (false, _) => Missing::Offer,
        };
        import.link(&mut records, missing).await?;
        in_order(&mut records);
        import.send(&records).await?;
    }
    import.finish(&mut app)
}

/// Reads all of the input: it is put in the order of time before anything is
/// sent.
async fn read(args: &ImportArgs) -> Outcome<(Vec<u8>, InputFormat)> {
    if let Some(range) = &args.git {
        return Ok((git::history(range)?, InputFormat::Ndjson));
    }
    let path = args.file.clone().unwrap_or_default();
    let extension = path.extension().and_then(|extension| extension.to_str());
    let bytes = if path == Path::new("-") {
        // On a thread of its own, so that Ctrl-C is heard meanwhile.
        let read = tokio::task::spawn_blocking(|| {
            let mut bytes = Vec::new();
            io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
        });
        read.await.map_err(io::Error::other).flatten()
    } else {
        fs::read(&path)
    };
    let bytes = bytes
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
    let format = args
        .input_format
        .unwrap_or_else(|| InputFormat::of(extension, &bytes));
    Ok((bytes, format))
}

/// Puts records in the order in which they happened. Of those of one moment an
/// export tells the order by their ids; otherwise it is the file's, which may
/// begin with the newest.
fn in_order(records: &mut [Record]) {
    let first = records.first().map(|one| one.record.occurred_at());
    let last = records.last().map(|one| one.record.occurred_at());
    if first > last {
        records.reverse();
    }
    records.sort_by(|one, other| {
        let (one, other) = (&one.record, &other.record);
        let by_id = match (one.id, other.id) {
            (Some(one), Some(other)) => one.cmp(&other),
            _ => std::cmp::Ordering::Equal,
        };
        one.occurred_at().cmp(&other.occurred_at()).then(by_id)
    });
}

/// How far an import has come.
struct Import<'a> {
    client: Client,
    is_dry: bool,
    aside: Aside<'a>,
    /// The changes that stand for a record of this input.
    used: HashSet<ChangeId>,
    imported: u64,
    there: u64,
}

impl Import<'_> {
    fn reject(&mut self, rejected: &[Rejected]) -> Outcome {
        self.aside.put(rejected, !self.is_dry)
    }

    /// Finds the services and hosts that are named.
    async fn link(&mut self, records: &mut Vec<Record>, missing: Missing) -> Outcome {
        let mut names = Names::ask(&self.client).await?;
        let missing = if self.is_dry {
            announced(missing)
        } else {
            missing
        };
        names.supply(&self.client, records, missing).await?;
        let rejected = names.link(records);
        self.reject(&rejected)
    }

    /// Sends what is not there yet, as many at once as a request takes.
    async fn send(&mut self, records: &[Record]) -> Outcome {
        let mut progress = Progress::new(records.len());
        for part in parts(records) {
            let part = &records[part];
            let there = existing::changes(&self.client, part).await?;
            let is_there = existing::compare(part, there, &mut self.used);
            let missing: Vec<&Record> = part
                .iter()
                .zip(&is_there)
                .filter_map(|(record, is_there)| (!is_there).then_some(record))
                .collect();
            self.there += (part.len() - missing.len()) as u64;
            self.create(missing, &progress).await?;
            progress.advance(part.len());
        }
        progress.done();
        Ok(())
    }

    /// Records changes together, without those that the service refuses.
    async fn create(&mut self, mut records: Vec<&Record>, progress: &Progress) -> Outcome {
        while !records.is_empty() {
            if self.is_dry {
                self.imported += records.len() as u64;
                return Ok(());
            }
            let changes = records.iter().map(|one| one.record.change.clone());
            let error = match self.client.changes().create_many(changes).send().await {
                Ok(created) => {
                    self.imported += created.len() as u64;
                    self.used.extend(created.iter().map(|created| created.id));
                    return Ok(());
                }
                Err(error) => error,
            };
            let rejected = refused(&records, &error);
            if rejected.is_empty() {
                return Err(error.into());
            }
            let lines: HashSet<u64> = rejected.iter().map(|one| one.line).collect();
            records.retain(|one| !lines.contains(&one.line));
            progress.aside(|| self.reject(&rejected))?;
        }
        Ok(())
    }

    /// Says what was done.
    fn finish(self, app: &mut App) -> Outcome {
        let rejected = self.aside.count;
        let path = self.aside.path().display().to_string();
        let verb = if self.is_dry {
            "would import"
        } else {
            "imported"
        };
        note(&format!(
            "{verb} {}, already there {}, rejected {rejected}",
            self.imported, self.there
        ));
        if app.output.format() != Format::Table {
            app.output.json(&json!({
                "imported": self.imported,
                "already_there": self.there,
                "rejected": rejected,
                "rejected_file": (rejected > 0 && !self.is_dry).then_some(&path),
            }))?;
        }
        if rejected == 0 {
            return Ok(());
        }
        let failure = Failure::new(Exit::Invalid, format!("{rejected} lines were rejected"));
        if self.is_dry {
            return Err(failure);
        }
        Err(failure
            .line(format!("they are set aside in {path}"))
            .hint("mend them there and import that file"))
    }
}

/// What is made without being asked for is announced, where nothing is made.
fn announced(missing: Missing) -> Missing {
    match missing {
        Missing::Create => Missing::Announce,
        other => other,
    }
}

/// Cuts records into parts that one request takes. Changes of one moment keep
/// their order within a request, so that a moment is not cut where that can be
/// helped.
fn parts(records: &[Record]) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = 0;
    while start < records.len() {
        let mut end = start;
        let mut size = 0;
        while let Some(one) = records.get(end).filter(|_| end - start < MAX_BULK_CHANGES) {
            size += serde_json::to_vec(&one.record.change).map_or(0, |json| json.len() + 1);
            if size > MAX_BODY && end > start {
                break;
            }
            end += 1;
        }
        let moment = |index: usize| -> Option<Timestamp> {
            records.get(index).map(|one| one.record.occurred_at())
        };
        if moment(end) == moment(end - 1) {
            let begin = (start..end)
                .rev()
                .find(|index| moment(*index) != moment(end));
            end = begin.map_or(end, |index| index + 1);
        }
        parts.push(start..end);
        start = end;
    }
    parts
}

/// Returns the records that an answer finds fault with.
fn refused(records: &[&Record], error: &Error) -> Vec<Rejected> {
    let mut rejected: Vec<Rejected> = Vec::new();
    for (index, record) in records.iter().enumerate() {
        let place = format!("/changes/{index}/");
        let reasons: Vec<String> = error
            .violations()
            .iter()
            .filter_map(|violation| {
                let pointer = violation.pointer.strip_prefix(&place)?;
                let within = Violation {
                    pointer: format!("/{pointer}"),
                    ..violation.clone()
                };
                Some(within.to_string())
            })
            .collect();
        if !reasons.is_empty() {
            rejected.push(record.rejected(reasons));
        }
    }
    rejected
}

/// The bar on a terminal; and, should the import end before its time, in
/// whatever way, the word about how far it came.
struct Progress {
    bar: ProgressBar,
    done: usize,
    total: usize,
    is_over: bool,
}

impl Progress {
    fn new(total: usize) -> Self {
        // Drawn on standard error, and only where that is a terminal.
        let bar = ProgressBar::new(total as u64);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} changes, {eta} left")
        {
            bar.set_style(style);
        }
        Self {
            bar,
            done: 0,
            total,
            is_over: false,
        }
    }

    fn advance(&mut self, count: usize) {
        self.done += count;
        self.bar.inc(count as u64);
    }

    /// Says something without the bar in between.
    fn aside<T>(&self, say: impl FnOnce() -> T) -> T {
        self.bar.suspend(say)
    }

    fn done(&mut self) {
        self.is_over = true;
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.bar.finish_and_clear();
        note(&format!(
            "interrupted after {} of {} changes; the same command goes on from there",
            self.done, self.total
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use changelog_core::NewChange;
    use changelog_core::change::ExportRow;

    fn record(line: u64, millis: i64, size: usize) -> Record {
        let change = NewChange {
            title: "x".repeat(size),
            occurred_at: Some(Timestamp::from_millis(millis)),
            ..NewChange::default()
        };
        let record = ExportRow {
            change,
            ..ExportRow::default()
        };
        Record {
            line,
            span: 0..0,
            record,
        }
    }

    #[test]
    fn parts_fit_a_request_and_do_not_cut_a_moment() {
        let all = |moments: &[i64]| -> Vec<Record> {
            (1..)
                .zip(moments)
                .map(|(line, at)| record(line, *at, 3))
                .collect()
        };
        let apart: Vec<i64> = (0..1001).collect();
        assert_eq!(parts(&all(&apart)), [0..500, 500..1000, 1000..1001]);
        let mut together = apart.clone();
        together[490..510].fill(490);
        assert_eq!(parts(&all(&together)), [0..490, 490..990, 990..1001]);
        let moment = vec![7; 1001];
        assert_eq!(parts(&all(&moment)), [0..500, 500..1000, 1000..1001]);
        let large: Vec<Record> = (0..3).map(|at| record(1, at, MAX_BODY / 2)).collect();
        assert_eq!(parts(&large), [0..1, 1..2, 2..3]);
        assert!(parts(&[]).is_empty());
    }

    #[test]
    fn the_newest_first_is_turned_round() {
        let mut records = vec![
            record(1, 2, 3),
            record(2, 1, 3),
            record(3, 1, 3),
            record(4, 0, 3),
        ];
        in_order(&mut records);
        let lines: Vec<u64> = records.iter().map(|one| one.line).collect();
        assert_eq!(lines, [4, 3, 2, 1]);
    }
}
