//! Runs of Terraform that were recorded as changes: by `chlog terraform` with a key, or by a
//! source of HCP Terraform.

use std::ops::Range;

use changelog_core::{AuthorType, Change, SourceKind, Status, Timestamp};
use chrono::TimeDelta;
use sqlx::QueryBuilder;

use super::by_id::push_places_end;
use super::{ChangeJson, push_json};
use crate::engine::{Dialect, PushValue, on, push_merged};
use crate::index::sort_key;
use crate::{StoreError, Tenant, Tx};

/// The tags that runs have: of `chlog terraform`, and of sources of HCP Terraform.
const TAGS: [&str; 2] = ["terraform", "terraform-cloud"];
/// The tag of drift, which HCP Terraform reports of no run.
const DRIFT: &str = "drift";
/// The longest time that a run may take.
const MAX_RUN: TimeDelta = TimeDelta::hours(12);
/// The limit on changes that are looked at, the latest ones.
const MAX_RUNS: u64 = 20;

impl Tx {
    /// Finds the runs that were under way at any time of a range, or ended or began at most
    /// `slack` from it; of many, the latest ones.
    pub async fn runs_at(
        &mut self,
        tenant: Tenant,
        times: Range<Timestamp>,
        slack: TimeDelta,
    ) -> Result<Vec<Change>, StoreError> {
        let (first, last) = (times.start.plus(-slack), times.end.plus(slack));
        let started = first.plus(-MAX_RUN).millis()..last.millis().saturating_add(1);
        let rows: Vec<(String,)> = on!(&mut self.connection, |db| async {
            let mut query = select(tenant, started);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let changes = rows.into_iter().map(|(json,)| ChangeJson(json).parse());
        let mut changes = changes.collect::<Result<Vec<Change>, _>>()?;
        changes.retain(|change| is_run(change) && end_of(change) >= first);
        Ok(changes)
    }
}

/// Returns whether a change with one of the tags is a run that has started.
fn is_run(change: &Change) -> bool {
    let recorded = match &change.source {
        Some(source) => source.kind == SourceKind::TerraformCloud,
        None => change
            .created_by
            .as_ref()
            .is_some_and(|author| author.kind == AuthorType::ApiKey),
    };
    recorded && change.status != Status::Planned && !change.tags.iter().any(|tag| tag == DRIFT)
}

/// Returns until when a run may have been under way.
fn end_of(run: &Change) -> Timestamp {
    let started = run.effective_at();
    match run.status {
        Status::InProgress => started.plus(MAX_RUN),
        _ => run.ended_at.unwrap_or(started),
    }
}

fn select<DB: Dialect>(tenant: Tenant, started: Range<i64>) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT ");
    push_json(&mut query, Some(tenant));
    query.push(" FROM (");
    push_merged(
        &mut query,
        ("sort_key", "sort_key"),
        TAGS,
        |query, tag| {
            query.push("SELECT sort_key FROM change_tags WHERE organization_id = ");
            DB::bind(query, tenant.uuid().into());
            query.push_value(" AND tag = ", tag);
            sort_key::push_range(query, "sort_key", sort_key::of_millis(started.clone()));
        },
        (MAX_RUNS, 0),
    );
    push_places_end(&mut query, tenant);
    query
}
