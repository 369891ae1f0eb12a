//! What streams of changes send of incidents.

use changelog_core::{ChangeEvent, ChangeFilter, Environment, IncidentId, ServiceId};
use chrono::{DateTime, Utc};

use super::{LISTED_SUSPECTS, to_json};
use crate::change_notifier::StreamEntry;
use crate::{Database, StoreError, Tenant, Tx, new_id};

/// Something that happened to an incident.
#[derive(Debug)]
pub struct RecordedIncident {
    /// The entry that records it.
    pub entry: StreamEntry,
    /// The incident in its present state as JSON, as a list has it.
    pub json: String,
    service: Option<ServiceId>,
    environment: Option<Environment>,
}

impl RecordedIncident {
    /// Returns whether the service and the environment are selected; nothing else of the
    /// filter concerns incidents.
    pub fn matches(&self, filter: &ChangeFilter) -> bool {
        (filter.service_id.is_none() || filter.service_id == self.service)
            && (filter.environments.is_empty()
                || (self.environment.as_ref()).is_some_and(|one| filter.environments.contains(one)))
    }
}

impl Database {
    /// Reads the incident of an entry.
    pub(crate) async fn recorded_incident(
        &self,
        tenant: Tenant,
        entry: StreamEntry,
    ) -> Result<Option<RecordedIncident>, StoreError> {
        let mut incident = match self.incident(tenant, entry.resource.into()).await {
            Ok(incident) => incident,
            Err(StoreError::NotFound) => return Ok(None),
            Err(error) => return Err(error),
        };
        incident.shorten(LISTED_SUSPECTS);
        Ok(Some(RecordedIncident {
            entry,
            json: to_json(&incident)?,
            service: incident.service_id,
            environment: incident.environment,
        }))
    }
}

impl Tx {
    /// Notifies the streams after the commit that the suspects of an incident were ranked,
    /// which the activity log does not record.
    pub(super) fn notify_of_ranking(&mut self, tenant: Tenant, id: IncidentId, now: DateTime<Utc>) {
        let entry = StreamEntry {
            id: new_id(now).into(),
            resource: id.0,
            event: ChangeEvent::Incident,
        };
        let notifier = self.database.notifier.clone();
        self.after_commit.push(Box::pin(async move {
            notifier.notify([(tenant, entry)].into_iter());
        }));
    }
}
