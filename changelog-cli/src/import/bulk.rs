//! Sending many changes: sorted by time, compared with the existing ones, in
//! requests of the largest size.

use std::collections::HashSet;
use std::ops::Range;

use changelog_client::limits::MAX_BULK_CHANGES;
use changelog_client::{Client, Error, Violation};
use changelog_core::{Change, ChangeId, OrganizationId, Timestamp};
use indicatif::{ProgressBar, ProgressStyle};

use super::lines::MAX_CHANGES_JSON;
use super::rejects::RejectsFile;
use super::resolve::Names;
use super::{ImportRecord, Rejected, existing};
use crate::base::failure::{Outcome, note};
use crate::base::text::one_line;
use crate::input::names::Missing;

/// How many changes a dry run prints.
const MAX_ANNOUNCED: u64 = 100;

/// An import and its progress.
pub(crate) struct BulkImport<'a> {
    client: Client,
    dry_run: bool,
    /// Whether receivers and subscribers are notified.
    notify: bool,
    pub(crate) rejects: RejectsFile<'a>,
    /// The organization that the changes are imported into, if it may have exported them.
    organization: Option<OrganizationId>,
    /// The changes that match a record of this input.
    matched: HashSet<ChangeId>,
    pub(crate) imported: u64,
    pub(crate) existing: u64,
}

impl<'a> BulkImport<'a> {
    pub(crate) fn new(
        client: Client,
        rejects: RejectsFile<'a>,
        dry_run: bool,
        notify: bool,
    ) -> Self {
        Self {
            client,
            dry_run,
            notify,
            rejects,
            organization: None,
            matched: HashSet::new(),
            imported: 0,
            existing: 0,
        }
    }

    /// Prints and keeps rejected lines.
    pub(crate) fn reject(&mut self, rejected: &[Rejected]) {
        self.rejects.add(rejected, !self.dry_run);
    }

    /// Sets the ids of the named services and hosts.
    pub(crate) async fn resolve(
        &mut self,
        records: &mut Vec<ImportRecord>,
        missing: Missing,
    ) -> Outcome {
        let mut names = Names::load(&self.client).await?;
        names
            .create_missing(&self.client, records, missing, self.dry_run)
            .await?;
        let rejected = names.set_ids(records);
        self.reject(&rejected);
        Ok(())
    }

    /// Sends the changes that do not exist.
    pub(crate) async fn send(&mut self, mut records: Vec<ImportRecord>) -> Outcome {
        sort_by_time(&mut records);
        let any_started = existing::any_started(&self.client, &records).await?;
        if records.iter().any(|one| one.record.exported_by.is_some()) {
            self.organization = existing::organization(&self.client).await?;
        }
        let mut progress = Progress::new(records.len());
        for batch in batches(&records) {
            let batch = &records[batch];
            let exists = self.find(batch, any_started).await?;
            let missing: Vec<&ImportRecord> = batch
                .iter()
                .zip(&exists)
                .filter_map(|(record, exists)| (!exists).then_some(record))
                .collect();
            self.existing += (batch.len() - missing.len()) as u64;
            self.create(missing, &progress).await?;
            progress.advance(batch.len());
        }
        progress.finish();
        Ok(())
    }

    /// Returns for each record whether it exists.
    async fn find(&mut self, batch: &[ImportRecord], any_started: bool) -> Outcome<Vec<bool>> {
        let mut exists = vec![false; batch.len()];
        let matched = &mut self.matched;
        let existing = existing::fetch(&self.client, batch).await?;
        existing::find(batch, existing, Change::effective_at, matched, &mut exists);
        if let Some(organization) = self.organization {
            let moved = existing::fetch_moved(&self.client, batch, &exists, organization).await?;
            for (record, exists) in batch.iter().zip(&mut exists) {
                let id = record.record.id.filter(|id| moved.contains(id));
                *exists |= id.is_some_and(|id| matched.insert(id));
            }
        }
        if any_started {
            let started = existing::fetch_started(&self.client, batch, &exists).await?;
            let time_of = |change: &Change| change.occurred_at;
            existing::find(batch, started, time_of, matched, &mut exists);
        }
        Ok(exists)
    }

    /// Prints what would be imported; of many changes, the first ones.
    fn announce(&mut self, record: &ImportRecord, progress: &Progress) {
        self.imported += 1;
        let record = &record.record;
        if self.imported <= MAX_ANNOUNCED {
            let line = format!("{}  {}", record.effective_at(), record.change.title);
            progress.suspend(|| note(&one_line(&line)));
        } else if self.imported == MAX_ANNOUNCED + 1 {
            progress.suspend(|| note("…"));
        }
    }

    /// Records changes in one request, without those that the server rejects.
    async fn create(&mut self, mut records: Vec<&ImportRecord>, progress: &Progress) -> Outcome {
        while !records.is_empty() {
            if self.dry_run {
                for one in &records {
                    self.announce(one, progress);
                }
                return Ok(());
            }
            let changes = records.iter().map(|one| one.record.change.clone());
            let request = self.client.changes().create_many(changes);
            let error = match request.notify(self.notify).send().await {
                Ok(created) => {
                    self.imported += created.len() as u64;
                    self.matched
                        .extend(created.iter().map(|created| created.id));
                    return Ok(());
                }
                Err(error) => error,
            };
            let rejected = rejected_by(&records, &error);
            if rejected.is_empty() {
                return Err(error.into());
            }
            let lines: HashSet<u64> = rejected.iter().map(|one| one.line).collect();
            records.retain(|one| !lines.contains(&one.line));
            progress.suspend(|| self.reject(&rejected));
        }
        Ok(())
    }
}

/// Sorts records by time. Records of the same time are sorted by their ids if
/// they have any, and otherwise keep the order of the file, which may begin with
/// the newest.
fn sort_by_time(records: &mut [ImportRecord]) {
    let first = records.first().map(|one| one.record.effective_at());
    let last = records.last().map(|one| one.record.effective_at());
    if first > last {
        records.reverse();
    }
    records.sort_by(|one, other| {
        let (one, other) = (&one.record, &other.record);
        let by_id = match (one.id, other.id) {
            (Some(one), Some(other)) => one.cmp(&other),
            _ => std::cmp::Ordering::Equal,
        };
        one.effective_at().cmp(&other.effective_at()).then(by_id)
    });
}

/// Divides records into batches that fit into a request. Changes of the same
/// time keep their order within a request only, so they are kept in one batch if
/// possible.
fn batches(records: &[ImportRecord]) -> Vec<Range<usize>> {
    let mut batches = Vec::new();
    let mut start = 0;
    while start < records.len() {
        let mut end = start;
        let mut size = 0;
        while let Some(one) = records.get(end).filter(|_| end - start < MAX_BULK_CHANGES) {
            size += serde_json::to_vec(&one.record.change).map_or(0, |json| json.len() + 1);
            if size > MAX_CHANGES_JSON && end > start {
                break;
            }
            end += 1;
        }
        let time_of = |index: usize| -> Option<Timestamp> {
            records.get(index).map(|one| one.record.effective_at())
        };
        if time_of(end) == time_of(end - 1) {
            let begin = (start..end)
                .rev()
                .find(|index| time_of(*index) != time_of(end));
            end = begin.map_or(end, |index| index + 1);
        }
        batches.push(start..end);
        start = end;
    }
    batches
}

/// Returns the records that a response rejects.
fn rejected_by(records: &[&ImportRecord], error: &Error) -> Vec<Rejected> {
    let mut rejected: Vec<Rejected> = Vec::new();
    for (index, record) in records.iter().enumerate() {
        let prefix = format!("/changes/{index}/");
        let reasons: Vec<String> = error
            .violations()
            .iter()
            .filter_map(|violation| {
                let pointer = violation.pointer.strip_prefix(&prefix)?;
                let violation = Violation {
                    pointer: format!("/{pointer}"),
                    ..violation.clone()
                };
                Some(violation.to_string())
            })
            .collect();
        if !reasons.is_empty() {
            rejected.push(record.rejected(reasons));
        }
    }
    rejected
}

/// The progress bar on a terminal. If the import ends early for any reason,
/// prints how far it came.
struct Progress {
    bar: ProgressBar,
    done: usize,
    total: usize,
    is_finished: bool,
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
            is_finished: false,
        }
    }

    fn advance(&mut self, count: usize) {
        self.done += count;
        self.bar.inc(count as u64);
    }

    /// Prints something without disturbing the bar.
    fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    fn finish(&mut self) {
        self.is_finished = true;
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        self.bar.finish_and_clear();
        note(&format!(
            "interrupted after {} of {} changes; rerun the same command to resume",
            self.done, self.total
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use changelog_core::NewChange;
    use changelog_core::change::ImportedChange;

    fn record(line: u64, millis: i64, size: usize) -> ImportRecord {
        let change = NewChange {
            title: "x".repeat(size),
            occurred_at: Some(Timestamp::from_millis(millis)),
            ..NewChange::default()
        };
        let record = ImportedChange {
            change,
            ..ImportedChange::default()
        };
        ImportRecord {
            line,
            span: 0..0,
            record,
        }
    }

    #[test]
    fn batches_fit_a_request_and_do_not_divide_a_time() {
        let all = |moments: &[i64]| -> Vec<ImportRecord> {
            (1..)
                .zip(moments)
                .map(|(line, at)| record(line, *at, 3))
                .collect()
        };
        let apart: Vec<i64> = (0..1001).collect();
        assert_eq!(batches(&all(&apart)), [0..500, 500..1000, 1000..1001]);
        let mut together = apart.clone();
        together[490..510].fill(490);
        assert_eq!(batches(&all(&together)), [0..490, 490..990, 990..1001]);
        let moment = vec![7; 1001];
        assert_eq!(batches(&all(&moment)), [0..500, 500..1000, 1000..1001]);
        let large: Vec<ImportRecord> = (0..3)
            .map(|at| record(1, at, MAX_CHANGES_JSON / 2))
            .collect();
        assert_eq!(batches(&large), [0..1, 1..2, 2..3]);
        assert!(batches(&[]).is_empty());
    }

    #[test]
    fn a_file_that_begins_with_the_newest_is_reversed() {
        let mut records = vec![
            record(1, 2, 3),
            record(2, 1, 3),
            record(3, 1, 3),
            record(4, 0, 3),
        ];
        sort_by_time(&mut records);
        let lines: Vec<u64> = records.iter().map(|one| one.line).collect();
        assert_eq!(lines, [4, 3, 2, 1]);
    }
}
