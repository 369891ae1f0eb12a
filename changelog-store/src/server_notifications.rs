//! Notifications between the servers of one PostgreSQL database: which changes and
//! incidents a server has created and updated.
//!
//! They only make streams faster. Some are lost: while a connection is down, and when
//! there are very many. Behind a pooler there are none. Each server reads the database
//! once a second regardless.
//!
//! A notification is sent after the commit of what it is about, by a connection of its
//! own: PostgreSQL commits only one transaction that notifies at a time.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use changelog_core::ActivityId;
use sqlx::types::Uuid;
use sqlx_postgres::PgListener;
use sqlx_postgres::{PgPool, Postgres};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::change_notifier::StreamEntry;
use super::engine::{Engine, bounded};
use super::{Database, StoreError, Tenant};

const CHANNEL: &str = "changelog_changes";

const NOTIFY: &str = "SELECT pg_notify($1, text) FROM unnest($2::text[]) AS text";

/// The time between two notifications of one server.
const SEND_INTERVAL: Duration = Duration::from_millis(50);
/// The most entries that are sent together.
const MAX_SENT_ENTRIES: usize = 1_024;
/// How many entries one text has: 130 bytes each, of at most 7,999.
const ENTRIES_PER_TEXT: usize = 60;
/// After this time without any notification, a server sends itself one.
const CHECK_INTERVAL: Duration = Duration::from_mins(1);
/// How long a server waits for the notification that it has sent itself.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// Why no more notifications are received on a connection.
enum Ended {
    /// The connection was lost.
    Lost,
    /// A notification that this server sent itself did not arrive.
    Silent,
}

impl Database {
    /// Sends and receives notifications for as long as this is polled. Returns at once
    /// on SQLite, which has one server, and behind a pooler.
    pub async fn exchange_notifications(&self) {
        let Engine::Postgres(writes) = &self.connections.writes else {
            return;
        };
        let Some(pool) = writes.for_notifications() else {
            return;
        };
        let exchange = Exchange {
            database: self,
            pool,
            server: Uuid::from_u128(rand::random()).to_string(),
        };
        let entries = self.notifier.for_other_servers();
        tokio::join!(exchange.send(entries), exchange.receive());
    }
}

struct Exchange<'d> {
    database: &'d Database,
    pool: PgPool,
    /// Names this server in what it sends.
    server: String,
}

impl Exchange<'_> {
    async fn send(&self, mut entries: mpsc::Receiver<(Tenant, StreamEntry)>) {
        let mut batch = Vec::new();
        while entries.recv_many(&mut batch, MAX_SENT_ENTRIES).await > 0 {
            let texts = batch
                .chunks(ENTRIES_PER_TEXT)
                .map(|entries| to_text(&self.server, entries))
                .collect();
            if let Err(error) = self.notify(texts).await {
                tracing::debug!(%error, "the other servers could not be notified");
            }
            batch.clear();
            sleep(SEND_INTERVAL).await;
        }
    }

    async fn notify(&self, texts: Vec<String>) -> Result<(), StoreError> {
        let query = sqlx::query::<Postgres>(NOTIFY).bind(CHANNEL).bind(texts);
        bounded(query.execute(&self.pool)).await?;
        Ok(())
    }

    /// Receives notifications, on a new connection whenever one is lost, unless none
    /// can be received at all.
    async fn receive(&self) {
        let backoff = ExponentialBuilder::default()
            .with_min_delay(Duration::from_secs(1))
            .with_max_delay(Duration::from_mins(1))
            .without_max_times();
        let mut delays = backoff.build();
        loop {
            let mut has_received = false;
            let ended = self.receive_on_one_connection(&mut has_received).await;
            if matches!(ended, Ok(Ended::Silent)) && !has_received {
                tracing::info!(
                    "PostgreSQL does not deliver notifications here; streams show changes of \
                     other servers within a second"
                );
                return;
            }
            if let Err(error) = ended {
                tracing::debug!(%error, "notifications cannot be received");
            }
            if has_received {
                delays = backoff.build();
            }
            sleep(delays.next().unwrap_or(CHECK_INTERVAL)).await;
        }
    }

    async fn receive_on_one_connection(
        &self,
        has_received: &mut bool,
    ) -> Result<Ended, StoreError> {
        let mut listener = PgListener::connect_with(&self.pool).await?;
        listener.eager_reconnect(false);
        listener.listen(CHANNEL).await?;
        let mut is_checking = false;
        let mut patience = Duration::ZERO;
        loop {
            match timeout(patience, listener.try_recv()).await {
                Ok(received) => {
                    let Some(notification) = received? else {
                        return Ok(Ended::Lost);
                    };
                    *has_received = true;
                    self.handle(notification.payload());
                    (is_checking, patience) = (false, CHECK_INTERVAL);
                }
                Err(_) if is_checking => return Ok(Ended::Silent),
                Err(_) => {
                    self.notify(vec![to_text(&self.server, &[])]).await?;
                    (is_checking, patience) = (true, CHECK_TIMEOUT);
                }
            }
        }
    }

    /// Passes on what another server has recorded.
    fn handle(&self, text: &str) {
        if text.starts_with(&self.server) {
            return;
        }
        if let Some(entries) = from_text(text) {
            self.database
                .notifier
                .notify_subscribers(entries.into_iter());
        } else {
            tracing::debug!("a notification could not be read");
        }
    }
}

/// An entry as it is sent: organization, activity entry, change or incident, event.
type SentEntry<'t> = (Uuid, Uuid, Uuid, &'t str);

/// Writes the name of the server, a space, and the entries as JSON.
fn to_text(server: &str, entries: &[(Tenant, StreamEntry)]) -> String {
    let entries: Vec<SentEntry<'_>> = entries
        .iter()
        .map(|(tenant, entry)| {
            let event = entry.event.as_str();
            (tenant.uuid(), entry.id.0, entry.resource, event)
        })
        .collect();
    let json = serde_json::to_string(&entries).unwrap_or_default();
    format!("{server} {json}")
}

fn from_text(text: &str) -> Option<Vec<(Tenant, StreamEntry)>> {
    let (_, json) = text.split_once(' ')?;
    let entries: Vec<SentEntry<'_>> = serde_json::from_str(json).ok()?;
    let entry = |(organization, id, resource, event): SentEntry<'_>| {
        let entry = StreamEntry {
            id: ActivityId(id),
            resource,
            event: event.parse().ok()?,
        };
        Some((Tenant(organization.into()), entry))
    };
    entries.into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use changelog_core::ChangeEvent;

    /// PostgreSQL refuses a longer text.
    const MAX_TEXT_BYTES: usize = 7_999;

    #[test]
    fn entries_survive_the_text_and_fit_into_it() {
        let id = || Uuid::from_u128(rand::random());
        let entry = || StreamEntry {
            id: ActivityId(id()),
            resource: id(),
            event: ChangeEvent::Incident,
        };
        let entries: Vec<_> = (0..ENTRIES_PER_TEXT)
            .map(|_| (Tenant(id().into()), entry()))
            .collect();
        let server = id().to_string();
        let text = to_text(&server, &entries);
        assert!(text.len() <= MAX_TEXT_BYTES, "{}", text.len());
        assert_eq!(from_text(&text), Some(entries));
        let unknown = text.replace("incident", "deleted");
        for text in ["", "server", "server [1]", "server [[\"\"]]", &unknown] {
            assert_eq!(from_text(text), None, "{text}");
        }
    }
}
