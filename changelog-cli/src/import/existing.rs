//! The existing changes: each change to import is looked for among them before
//! it is sent.
//!
//! Idempotency keys would not do: the server keeps them for two days only.
//! Neither would a journal: another machine would not have it.

use std::collections::{HashMap, HashSet};

use changelog_client::{ChangeQuery, Client, Error, ErrorKind};
use changelog_core::change::fields::long_texts;
use changelog_core::limits::MAX_PER_PAGE;
use changelog_core::{
    Change, ChangeId, OrganizationId, RiskLevel, Status, Timestamp, ViolationCode,
};
use chrono::TimeDelta;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::ImportRecord;
use crate::base::failure::Outcome;

/// How many existing changes may be fetched per record to import. A span of
/// time with more changes is fetched in parts.
const MAX_FETCHED_PER_RECORD: u64 = 4;
/// The number of hexadecimal digits of an id.
const ID_DIGITS: usize = 32;
/// How many requests look for changes at the same time.
const MAX_LOOKUPS: usize = 8;

/// Returns the existing changes at the times of records; the records are sorted
/// by time.
pub(crate) async fn fetch(client: &Client, records: &[ImportRecord]) -> Outcome<Vec<Change>> {
    let mut found: HashMap<ChangeId, Change> = HashMap::new();
    let mut spans = vec![records];
    while let Some(span) = spans.pop() {
        let (Some(first), Some(last)) = (span.first(), span.last()) else {
            continue;
        };
        let (first, last) = (first.record.effective_at(), last.record.effective_at());
        let query = ChangeQuery::new()
            .since(first)
            .until(last.plus(TimeDelta::milliseconds(1)));
        let request = client.changes().list().matching(query);
        let page = request.clone().per_page(MAX_PER_PAGE).send().await?;
        let is_whole = page.count <= page.data.len() as u64;
        let acceptable = MAX_FETCHED_PER_RECORD * span.len() as u64 + MAX_PER_PAGE;
        if !is_whole && page.count > acceptable && first != last {
            let (earlier, later) = span.split_at(span.len() / 2);
            spans.extend([earlier, later]);
            continue;
        }
        let last = page.data.last().map(Change::cursor);
        found.extend(page.data.into_iter().map(|change| (change.id, change)));
        if !is_whole && let Some(last) = last {
            let mut rest = request.before(last).stream();
            while let Some(change) = rest.try_next().await? {
                found.insert(change.id, change);
            }
        }
    }
    Ok(found.into_values().collect())
}

/// Returns whether changes that were planned when they were imported can have been
/// started since: lists then have them at the time of their start.
pub(crate) async fn any_started(client: &Client, records: &[ImportRecord]) -> Outcome<bool> {
    let Some(first) = records.iter().find(|one| is_planned(one)) else {
        return Ok(false);
    };
    let query = ChangeQuery::new()
        .not_status(&[Status::Planned])
        .since(first.record.effective_at());
    let list = client.changes().list().matching(query);
    Ok(list.per_page(1).send().await?.count > 0)
}

/// Returns the changes that have been started since they were recorded as planned at the
/// times of those records that do not exist yet. Their ids begin with these times.
pub(crate) async fn fetch_started(
    client: &Client,
    records: &[ImportRecord],
    exists: &[bool],
) -> Outcome<Vec<Change>> {
    let missing = records.iter().zip(exists).filter(|(_, exists)| !**exists);
    let times: HashSet<i64> = missing
        .filter(|(one, _)| is_planned(one))
        .map(|(one, _)| one.record.effective_at().millis())
        .collect();
    let lookups = times.into_iter();
    let lookups = lookups.map(|millis| started_named(client, format!("{millis:012x}")));
    let found: Vec<Vec<Change>> = stream::iter(lookups)
        .buffer_unordered(MAX_LOOKUPS)
        .try_collect()
        .await?;
    Ok(found.into_iter().flatten().collect())
}

/// Returns the changes that are not planned and whose ids begin with some digits.
async fn started_named(client: &Client, digits: String) -> Outcome<Vec<Change>> {
    let mut found = Vec::new();
    let mut prefixes = vec![digits];
    while let Some(digits) = prefixes.pop() {
        let query = ChangeQuery::new()
            .text(&digits)
            .not_status(&[Status::Planned]);
        let list = client.changes().list().matching(query).stream();
        match list.try_collect::<Vec<Change>>().await {
            Ok(changes) => found.extend(changes),
            // A bulk import has many changes of one millisecond.
            Err(error) if has_too_many(&error) && digits.len() < ID_DIGITS => {
                let longer = "0123456789abcdef".chars();
                prefixes.extend(longer.map(|digit| format!("{digits}{digit}")));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

fn has_too_many(error: &Error) -> bool {
    let mut violations = error.violations().iter();
    violations.any(|violation| violation.code == ViolationCode::TooMany)
}

/// Returns the organization that the API key belongs to; `None` if it has no changes.
pub(crate) async fn organization(client: &Client) -> Outcome<Option<OrganizationId>> {
    let newest = client.changes().list().per_page(1).send().await?.data;
    Ok(newest.first().map(|change| change.organization_id))
}

/// Returns the ids of those records of an export of `organization` that exist, but not at
/// the times of their records: their starts have been corrected since.
pub(crate) async fn fetch_moved(
    client: &Client,
    records: &[ImportRecord],
    exists: &[bool],
    organization: OrganizationId,
) -> Outcome<HashSet<ChangeId>> {
    let missing = records.iter().zip(exists).filter(|(_, exists)| !**exists);
    let ids = missing
        .filter(|(one, _)| one.record.exported_by == Some(organization))
        .filter_map(|(one, _)| one.record.id);
    let lookups = ids.map(|id| async move {
        match client.changes().get(id).await {
            Ok(change) => Ok(Some(change.id)),
            Err(error) if error.kind() == Some(ErrorKind::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    });
    let found: Vec<Option<ChangeId>> = stream::iter(lookups)
        .buffer_unordered(MAX_LOOKUPS)
        .try_collect()
        .await?;
    Ok(found.into_iter().flatten().collect())
}

fn is_planned(record: &ImportRecord) -> bool {
    let status = record.record.change.status.as_ref();
    status.is_none_or(|status| *status == Status::Planned)
}

/// Marks the records that exist. A change matches at most one record: identical records
/// are imported as separate changes.
///
/// `time_of` returns the time of a change that a record of it has; `matched` holds the
/// changes that matched earlier records.
pub(crate) fn find(
    records: &[ImportRecord],
    existing: Vec<Change>,
    time_of: fn(&Change) -> Timestamp,
    matched: &mut HashSet<ChangeId>,
    exists: &mut [bool],
) {
    let mut by_time: HashMap<Timestamp, Vec<Change>> = HashMap::new();
    for change in existing {
        if !matched.contains(&change.id) {
            by_time.entry(time_of(&change)).or_default().push(change);
        }
    }
    // The best matches first: an equal change must not match a record that is
    // only similar.
    for is_match in [is_exported_from, is_equal, is_similar] {
        for (record, exists) in records.iter().zip(&mut *exists) {
            let Some(candidates) = by_time.get_mut(&record.record.effective_at()) else {
                continue;
            };
            if *exists {
                continue;
            }
            if let Some(index) = candidates
                .iter()
                .position(|change| is_match(record, change))
            {
                matched.insert(candidates.swap_remove(index).id);
                *exists = true;
            }
        }
    }
}

/// Returns whether a record is an export of this very change.
fn is_exported_from(record: &ImportRecord, change: &Change) -> bool {
    record.record.id == Some(change.id)
}

/// Returns whether a change equals the one that a record would create.
fn is_equal(record: &ImportRecord, change: &Change) -> bool {
    let new = &record.record.change;
    is_similar(record, change)
        && *new.risk_level.as_ref().unwrap_or(&RiskLevel::Low) == change.risk_level
        && *new.status.as_ref().unwrap_or(&Status::Planned) == change.status
        && long_texts().all(|(_, text)| (text.of_new)(new) == (text.of)(change))
        && new.tags == change.tags
        && new.links == change.links
        && new.all_service_ids() == change.service_ids
        && new.scheduled_for == change.scheduled_for
}

/// Returns whether a change may have been created from a record and edited
/// since: its title, service and host are the same.
fn is_similar(record: &ImportRecord, change: &Change) -> bool {
    let new = &record.record.change;
    new.title == change.title
        && new.service_id == change.service.as_ref().map(|service| service.id)
        && new.host_id == change.host_ref.as_ref().map(|host| host.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use changelog_core::NewChange;
    use changelog_core::change::ImportedChange;

    fn change(number: u8, title: &str, status: Status) -> Change {
        let id = format!("018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e{number:02}");
        let mut change = crate::output::changes::tests::change(title);
        change.id = id.parse().unwrap();
        change.description = None;
        change.set_services(Vec::new());
        change.host_ref = None;
        change.risk_level = RiskLevel::Low;
        change.status = status;
        change.tags.clear();
        change.links.clear();
        change
    }

    fn record(title: &str, status: Status) -> ImportRecord {
        let change = NewChange {
            title: title.to_owned(),
            status: Some(status),
            occurred_at: "2026-11-21T08:30:00.000Z".parse().ok(),
            ..NewChange::default()
        };
        let record = ImportedChange {
            change,
            ..ImportedChange::default()
        };
        ImportRecord {
            line: 1,
            span: 0..0,
            record,
        }
    }

    fn find(
        records: &[ImportRecord],
        existing: Vec<Change>,
        matched: &mut HashSet<ChangeId>,
    ) -> Vec<bool> {
        let mut exists = vec![false; records.len()];
        super::find(
            records,
            existing,
            Change::effective_at,
            matched,
            &mut exists,
        );
        exists
    }

    #[test]
    fn a_change_matches_one_record() {
        let records = vec![record("same", Status::Planned); 3];
        let existing = || {
            vec![
                change(1, "same", Status::Planned),
                change(2, "same", Status::Planned),
            ]
        };
        let mut matched = HashSet::new();
        let found = find(&records, existing(), &mut matched);
        assert_eq!(found, [true, true, false]);
        assert_eq!(find(&records, existing(), &mut matched), [false; 3]);
    }

    #[test]
    fn edited_changes_match_after_equal_ones() {
        let records = [
            record("deploy", Status::Completed),
            record("deploy", Status::Planned),
        ];
        let found = find(
            &records,
            vec![change(1, "deploy", Status::Planned)],
            &mut HashSet::new(),
        );
        assert_eq!(found, [false, true]);
        let found = find(
            &records[..1],
            vec![change(1, "deploy", Status::RolledBack)],
            &mut HashSet::new(),
        );
        assert_eq!(found, [true]);
        let mut other = change(1, "renamed", Status::Planned);
        let mut itself = record("deploy", Status::Planned);
        assert_eq!(
            find(&[itself.clone()], vec![other.clone()], &mut HashSet::new()),
            [false]
        );
        itself.record.id = Some(other.id);
        other.status = Status::Completed;
        assert_eq!(find(&[itself], vec![other], &mut HashSet::new()), [true]);
    }
}
