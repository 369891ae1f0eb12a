//! What the service has already: each change that is to be imported is looked
//! for there before it is sent.
//!
//! The service keeps idempotency keys for two days only, a journal on this
//! machine says nothing to another one; what is there says it for ever, and to
//! everybody.

use std::collections::{HashMap, HashSet};

use changelog_client::Client;
use changelog_core::limits::MAX_PER_PAGE;
use changelog_core::{Change, ChangeFilter, ChangeId, RiskLevel, Status, Timestamp};
use chrono::TimeDelta;
use futures_util::TryStreamExt;

use super::Record;
use crate::base::failure::Outcome;

/// How many changes a record may cost to be walked past: a span of time with
/// more in it is looked at in parts.
const PER_RECORD: u64 = 4;

/// Returns what the service has at the moments of these records, which are in
/// the order of time.
pub(crate) async fn changes(client: &Client, records: &[Record]) -> Outcome<Vec<Change>> {
    let mut found: HashMap<ChangeId, Change> = HashMap::new();
    let mut spans = vec![records];
    while let Some(span) = spans.pop() {
        let (Some(first), Some(last)) = (span.first(), span.last()) else {
            continue;
        };
        let (first, last) = (first.record.occurred_at(), last.record.occurred_at());
        let filter = ChangeFilter {
            since: Some(first),
            until: Some(last.plus(TimeDelta::milliseconds(1))),
            per_page: MAX_PER_PAGE,
            ..ChangeFilter::default()
        };
        let page = client.changes().list_with(filter.clone()).send().await?;
        let is_whole = page.count <= page.data.len() as u64;
        let bearable = PER_RECORD * span.len() as u64 + MAX_PER_PAGE;
        if !is_whole && page.count > bearable && first != last {
            let (earlier, later) = span.split_at(span.len() / 2);
            spans.extend([earlier, later]);
            continue;
        }
        let before = page.data.last().map(|change| change.id);
        found.extend(page.data.into_iter().map(|change| (change.id, change)));
        if !is_whole {
            let rest = ChangeFilter { before, ..filter };
            let mut rest = client.changes().list_with(rest).stream();
            while let Some(change) = rest.try_next().await? {
                found.insert(change.id, change);
            }
        }
    }
    Ok(found.into_values().collect())
}

/// Tells of each record whether it is there. Each change there stands for one
/// record at most: of two that are the same, both are to be kept.
pub(crate) fn compare(
    records: &[Record],
    there: Vec<Change>,
    used: &mut HashSet<ChangeId>,
) -> Vec<bool> {
    let mut by_moment: HashMap<Timestamp, Vec<Change>> = HashMap::new();
    for change in there {
        if !used.contains(&change.id) {
            by_moment
                .entry(change.occurred_at)
                .or_default()
                .push(change);
        }
    }
    let mut is_there = vec![false; records.len()];
    // The surest first: what is the same in everything must not be taken by
    // what only looks like it.
    for is_same in [is_itself, is_equal, is_alike] {
        for (record, is_there) in records.iter().zip(&mut is_there) {
            let Some(candidates) = by_moment.get_mut(&record.record.occurred_at()) else {
                continue;
            };
            if *is_there {
                continue;
            }
            if let Some(index) = candidates.iter().position(|change| is_same(record, change)) {
                used.insert(candidates.swap_remove(index).id);
                *is_there = true;
            }
        }
    }
    is_there
}

/// Tells whether a record was exported from this very organization.
fn is_itself(record: &Record, change: &Change) -> bool {
    record.record.id == Some(change.id)
}

/// Tells whether a change is what a record would make.
fn is_equal(record: &Record, change: &Change) -> bool {
    let new = &record.record.change;
    is_alike(record, change)
        && new.description == change.description
        && *new.risk_level.as_ref().unwrap_or(&RiskLevel::Low) == change.risk_level
        && *new.status.as_ref().unwrap_or(&Status::Planned) == change.status
        && new.impact == change.impact
        && new.tags == change.tags
        && new.links == change.links
        && new.scheduled_for == change.scheduled_for
}

/// Tells whether a change was made of a record, and edited since: what is done
/// moves on, and is described better, but stays at its moment and place.
fn is_alike(record: &Record, change: &Change) -> bool {
    let new = &record.record.change;
    new.title == change.title
        && new.service_id == change.service.as_ref().map(|service| service.id)
        && new.host_id == change.host_ref.as_ref().map(|host| host.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use changelog_core::NewChange;
    use changelog_core::change::ExportRow;

    fn change(number: u8, title: &str, status: Status) -> Change {
        let id = format!("018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e{number:02}");
        let mut change = crate::output::table::tests::change(title);
        change.id = id.parse().unwrap();
        change.description = None;
        change.service = None;
        change.host_ref = None;
        change.risk_level = RiskLevel::Low;
        change.status = status;
        change.tags.clear();
        change.links.clear();
        change
    }

    fn record(title: &str, status: Status) -> Record {
        let change = NewChange {
            title: title.to_owned(),
            status: Some(status),
            occurred_at: "2026-11-21T08:30:00.000Z".parse().ok(),
            ..NewChange::default()
        };
        let record = ExportRow {
            change,
            ..ExportRow::default()
        };
        Record {
            line: 1,
            span: 0..0,
            record,
        }
    }

    #[test]
    fn each_change_stands_for_one_record() {
        let records = vec![record("same", Status::Planned); 3];
        let there = || {
            vec![
                change(1, "same", Status::Planned),
                change(2, "same", Status::Planned),
            ]
        };
        let mut used = HashSet::new();
        let found = compare(&records, there(), &mut used);
        assert_eq!(found, [true, true, false]);
        assert_eq!(compare(&records, there(), &mut used), [false; 3]);
    }

    #[test]
    fn what_was_edited_since_is_the_same_and_what_is_equal_goes_first() {
        let records = [
            record("deploy", Status::Completed),
            record("deploy", Status::Planned),
        ];
        let found = compare(
            &records,
            vec![change(1, "deploy", Status::Planned)],
            &mut HashSet::new(),
        );
        assert_eq!(found, [false, true]);
        let found = compare(
            &records[..1],
            vec![change(1, "deploy", Status::RolledBack)],
            &mut HashSet::new(),
        );
        assert_eq!(found, [true]);
        let mut other = change(1, "renamed", Status::Planned);
        let mut itself = record("deploy", Status::Planned);
        assert_eq!(
            compare(&[itself.clone()], vec![other.clone()], &mut HashSet::new()),
            [false]
        );
        itself.record.id = Some(other.id);
        other.status = Status::Completed;
        assert_eq!(compare(&[itself], vec![other], &mut HashSet::new()), [true]);
    }
}
