//! The mark by which people say which change was the cause of an incident.

use changelog_core::{
    Action, Cause, CauseInput, Change, ChangeId, Incident, IncidentId, Invalid, ViolationCode,
};
use serde_json::{Map, Value, json};

use super::write::entry;
use crate::activity::changed;
use crate::clock::Clock;
use crate::{Actor, StoreError, Tenant, Tx};

/// What the activity log shows of a mark that no recorded change is the cause.
const NONE_OF_THESE: &str = "none of the recorded changes";

impl Tx {
    /// Marks the cause of an incident, or takes the mark away, and records it in the activity
    /// log. Returns the incident.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the incident does not exist, [`StoreError::Invalid`] when
    /// the change does not.
    pub async fn mark_cause(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        id: IncidentId,
        input: CauseInput,
        clock: &Clock,
    ) -> Result<Incident, StoreError> {
        let locked = self.lock_incident(tenant, id).await?;
        let now = clock.now();
        let mut incident = locked.incident.clone();
        let before = incident.cause.take();
        let marked = |change: Option<&Change>| Cause {
            change_id: change.map(|change| change.id),
            title: change.map(|change| change.title.clone()),
            marked_by: actor.name.clone(),
            marked_at: now.into(),
        };
        let after = match input.change_id {
            Some(change) => {
                let change = self.change_to_mark(tenant, change).await?;
                Some(marked(Some(&change)))
            }
            None => input.none_of_these.then(|| marked(None)),
        };
        let decision = |cause: &Option<Cause>| cause.as_ref().map(|cause| cause.change_id);
        if decision(&before) == decision(&after) {
            return Ok(locked.incident);
        }
        let shown = |cause: &Option<Cause>| match cause {
            Some(Cause {
                title: Some(title), ..
            }) => json!(title),
            Some(_) => json!(NONE_OF_THESE),
            None => Value::Null,
        };
        let mut changes = Map::new();
        changes.insert(
            "cause".to_owned(),
            json!({ "from": shown(&before), "to": shown(&after) }),
        );
        incident.cause_change_id = after.as_ref().and_then(|cause| cause.change_id);
        incident.cause = after;
        incident.updated_at = now.into();
        self.write_incident(tenant, &incident, locked.rank_at)
            .await?;
        let mut metadata = changed(changes);
        metadata.insert(
            "cause_change_id".to_owned(),
            json!(incident.cause_change_id),
        );
        let entry = entry(Action::Updated, &incident, metadata);
        self.record(tenant, actor, entry, now).await?;
        Ok(incident)
    }

    /// Reads the change that is to be marked.
    async fn change_to_mark(&mut self, tenant: Tenant, id: ChangeId) -> Result<Change, StoreError> {
        match self.lock_change(tenant, id).await {
            Ok((_, change)) => Ok(change),
            Err(StoreError::NotFound) => {
                let message = format!("must be the id of a change of the organization, got {id}");
                Err(Invalid::one("/change_id", ViolationCode::NotFound, message).into())
            }
            Err(error) => Err(error),
        }
    }
}
