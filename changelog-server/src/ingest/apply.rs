//! Records what a request tells of, and returns what became of the request.

use changelog_core::{ChangeId, IncidentId, SourceId, Timestamp};
use changelog_sources::{Observation, ObservedChange, Operation, Reading, State};

use super::alerts::{self, AppliedAlert};
use super::changes::{create, update};
use super::sessions::apply_call;
use crate::app::App;
use crate::store::{Actor, Finding, Source, StoreError, Tenant, Tx, hash_of};

/// The source that a request came to, and who acts for it.
pub(super) struct Origin {
    pub(super) source: Source,
    pub(super) actor: Actor,
}

impl Origin {
    /// Finds the source, if it was not deleted.
    pub(super) async fn find(
        app: &App,
        tenant: Tenant,
        source: SourceId,
    ) -> Result<Option<Self>, StoreError> {
        let source = match app.store.source_of(tenant, source).await {
            Err(StoreError::NotFound) => return Ok(None),
            source => source?,
        };
        let actor = source.actor(app.store.has_receivers(tenant).await?);
        Ok(Some(Self { source, actor }))
    }

    /// Returns the change that an operation is shown as.
    pub(super) fn shown(&self, operation: &Operation, now: Timestamp) -> ObservedChange {
        operation.change(&self.source.kind, &self.source.settings, now)
    }
}

/// The limit on the reason that is stored, in characters.
const MAX_REASON_CHARS: usize = 500;

/// A request that says nothing about a change.
pub(super) fn ignored(reason: &str) -> Finding {
    finding("ignored", Some(reason), Vec::new())
}

/// A request that cannot be read now.
pub(super) fn set_aside(reason: &str) -> Finding {
    finding("set_aside", Some(reason), Vec::new())
}

/// A request that tells of nothing new.
pub(super) fn duplicate(
    reason: &str,
    change_ids: Vec<ChangeId>,
    incident_id: Option<IncidentId>,
) -> Finding {
    Finding {
        incident_id,
        ..finding("duplicate", Some(reason), change_ids)
    }
}

fn finding(outcome: &'static str, reason: Option<&str>, change_ids: Vec<ChangeId>) -> Finding {
    Finding {
        outcome,
        reason: reason.map(|reason| reason.chars().take(MAX_REASON_CHARS).collect()),
        change_ids,
        incident_id: None,
    }
}

/// What became of one observation.
pub(super) enum Applied {
    Created(ChangeId),
    Updated(ChangeId),
    /// Nothing new.
    Known(Option<ChangeId>),
    Alert(AppliedAlert),
}

/// Records a reading of a source's request, and returns what became of the request.
pub(super) async fn apply(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    reading: Reading,
) -> Result<Finding, StoreError> {
    let (mut created, mut updated, mut known) = (false, false, false);
    let mut change_ids = Vec::new();
    let mut incident_id = None;
    let mut ignored_reasons = reading.ignored;
    for observation in reading.observations {
        let applied = match observation {
            Observation::State(state) => apply_state(app, tx, origin, *state).await?,
            Observation::Call(call) => apply_call(app, tx, origin, *call).await?,
            Observation::Alert(alert) => {
                Applied::Alert(alerts::apply(app, tx, origin, &alert).await?)
            }
        };
        let id = match applied {
            Applied::Created(id) => {
                created = true;
                Some(id)
            }
            Applied::Updated(id) => {
                updated = true;
                Some(id)
            }
            Applied::Known(id) => {
                known = true;
                id
            }
            Applied::Alert(alert) => {
                match &alert {
                    AppliedAlert::Opened(_) => created = true,
                    AppliedAlert::Updated(_) => updated = true,
                    AppliedAlert::Known(_) => known = true,
                    AppliedAlert::Ignored(reason) => ignored_reasons.push((*reason).to_owned()),
                }
                incident_id = incident_id.or(alert.incident());
                None
            }
        };
        change_ids.extend(id.filter(|id| !change_ids.contains(id)));
    }
    let reasons = ignored_reasons.join("; ");
    let reason = Some(reasons.as_str()).filter(|reasons| !reasons.is_empty());
    let mut finding = match (created, updated, known) {
        (true, ..) => finding("changed", reason, change_ids),
        (false, true, _) => finding("updated", reason, change_ids),
        (false, false, true) => duplicate("it tells nothing that was not known", change_ids, None),
        (false, false, false) => ignored(reason.unwrap_or("it tells of nothing")),
    };
    finding.incident_id = incident_id;
    Ok(finding)
}

async fn apply_state(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    state: State,
) -> Result<Applied, StoreError> {
    let key = hash_of(&state.key);
    match tx.operation(&origin.source, &key).await? {
        None => {
            let operation = Operation::from(state);
            create(app, tx, origin, key, None, operation)
                .await
                .map(Applied::Created)
        }
        Some(mut stored) => {
            let before = stored.operation.clone();
            stored.operation.add_state(state);
            update(app, tx, origin, stored, &before).await
        }
    }
}
