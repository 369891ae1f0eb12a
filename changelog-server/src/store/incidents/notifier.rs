//! Notifies the open pages and streams of this process of incidents that were recorded or
//! changed.

use changelog_core::IncidentId;
use tokio::sync::broadcast;

use crate::store::{Database, Tenant, Tx};

/// The limit on notifications that wait for a slow receiver, which then has missed some.
const BUFFER: usize = 1_024;

/// Notifies of incidents; cheap to clone.
#[derive(Clone, Debug)]
pub(in crate::store) struct IncidentNotifier(broadcast::Sender<(Tenant, IncidentId)>);

impl Default for IncidentNotifier {
    fn default() -> Self {
        Self(broadcast::Sender::new(BUFFER))
    }
}

impl Database {
    /// Returns the incidents of all organizations that this process records or changes from
    /// now on.
    pub fn subscribe_to_incidents(&self) -> broadcast::Receiver<(Tenant, IncidentId)> {
        self.incident_notifier.0.subscribe()
    }
}

impl Tx {
    /// Notifies of an incident after the commit.
    pub(super) fn notify_of_incident(&mut self, tenant: Tenant, id: IncidentId) {
        let notifier = self.database.incident_notifier.clone();
        self.after_commit.push(Box::pin(async move {
            // Without receivers nobody is to be notified.
            let _ = notifier.0.send((tenant, id));
        }));
    }
}
