//! The database of the service: SQLite or PostgreSQL.
//!
//! [`Database`] reads and [`Tx`] writes; each noun has its methods and SQL in one
//! file. [`Store`] adds what requests share: batches and the cache of keys. Only the
//! store creates a [`Tenant`], when it finds a key, a session or an organization.
//! Methods that access rows of an organization take one, so that rows of another
//! organization cannot be read by accident.
//!
//! The layers, each of which imports only from those above it in this list:
//!
//! - `engine`: connections, dialects, the writer, locks, batches;
//! - `tenant`, `quotas`, `change_notifier`, `database`: used by all nouns;
//! - `index`: sort keys, counts and the search index;
//! - the nouns;
//! - this file.

pub mod activity;
mod activity_list;
mod actors;
mod api_keys;
mod authors;
mod catalog;
mod catalog_lists;
mod catalog_words;
mod change_history;
pub mod change_notifier;
mod changes;
mod check;
pub mod clock;
mod connection_states;
mod connections;
mod database;
mod deliveries;
mod dependencies;
pub(crate) mod engine;
mod erasures;
mod events;
mod feeds;
mod host_environments;
mod hosts;
mod idempotency;
mod incidents;
pub(crate) mod index;
mod invitations;
mod joined_changes;
mod key_lookup;
mod last_used;
mod latest_time;
pub(crate) mod mailboxes;
mod mailings;
mod memberships;
mod moving;
mod named_references;
mod notifications;
mod organizations;
mod pending_activity;
mod placement;
mod quotas;
pub mod recorded_changes;
mod retention;
mod rhythm;
mod rhythms;
mod saved_views;
mod server_notifications;
mod services;
mod sessions;
mod setup_token;
mod sign_in_attempts;
mod source_events;
mod source_operations;
mod sources;
mod sso;
mod sso_sign_in;
mod statistics;
mod subscriptions;
mod summaries;
mod tags;
mod tenant;
mod tenant_work;
pub mod trace_parent;
mod usage;
mod users;
mod workloads;

use std::ops::Deref;

use changelog_core::limits::IDEMPOTENCY_TTL;
use changelog_core::{ChangeFilter, ChangeId, LookupKey, Timestamp};

pub use activity::{Entry, StoredEntry};
pub use activity_list::{ActivityPage, ActivitySearch, EntriesBy};
pub use api_keys::KeyOwner;
pub use catalog::StoredItem;
pub use catalog_lists::MAX_LISTED;
pub use changes::{
    CandidateSource, ChangeJson, ChangeList, ChangesJson, Created, Creation, Draft, NewestOf,
};
pub use check::{CheckError, Problem, Report, check};
pub use connection_states::{DeliveryTotals, MAX_COUNTED, TroubledConnection};
pub use connections::{Connection, Disabled, MAX_CONNECTIONS};
pub use database::new_id;
pub use database::{Database, Tx};
pub use deliveries::{
    Claim, ConnectionHealth, Delivery, DeliveryId, DeliveryState, Finished, NewDelivery,
};
pub use dependencies::Dependencies;
pub use engine::backup::partial_path;
pub use engine::error::existing;
pub use engine::restore::{RestoreError, Restored, restore};
pub use engine::{BackupError, Capacity, OpenError, Purpose, ShareUsage, StoreError};
pub use erasures::ErasureRun;
pub use events::{MAX_NEW_EVENTS, NumberedEvent};
pub use feeds::Feed;
pub use idempotency::{KeyState, KeyedRequest, Outcome};
pub use incidents::{
    DueIncident, LISTED_SUSPECTS, MAX_COUNTED_INCIDENTS, MAX_SUSPECTS, RankedSuspects, StoredAlert,
};
pub use index::counts::HAPPENED;
pub use index::counts::{BusyServices, ChartScope, HOUR, HourCount, KindCounts, Scope};
pub use index::search::{ChangeMatcher, IndexTerms};
pub use last_used::LastUses;
pub use mailboxes::{Mailbox, Unsubscription};
pub use mailings::{DueMailbox, MAX_MAILED, MailOutcome, Mailing};
pub use memberships::PasswordMembership;
pub use moving::{MoveError, Moved, MovedTable, move_database};
pub use notifications::{MAX_LISTED_NOTIFICATIONS, Notification, NotificationSubject};
pub use placement::citus_statements;
pub use quotas::{Quota, Quotas};
pub use retention::{Retention, RetentionPreview, RetentionRun};
pub use rhythms::{Heard, Overdue, Reporter};
pub use saved_views::{MAX_VIEWS, SavedView, ViewOwner};
pub use sessions::MAX_CLOCK_SKEW;
pub use sessions::{EmergencyUse, NewSession, Person, Session, SessionInfo, SignInMethod};
pub use sign_in_attempts::{Bucket, network_of};
pub use source_events::size_of;
pub use source_events::{Finding, NewSourceEvent, PendingEvent, SourceEvent};
pub use source_operations::{DueSession, StoredOperation, hash_of};
pub use sources::token_of;
pub use sources::{MAX_SOURCES, Refused, Source};
pub use sso::EMERGENCY;
pub use sso::{SsoOrganization, SsoProvider};
pub use sso_sign_in::BY_PROXY;
pub use sso_sign_in::{SsoOutcome, SsoPerson, SsoRefusal};
pub use subscriptions::MAX_SUBSCRIPTIONS;
pub use summaries::Summary;
pub use tenant::{Actor, Pipeline, Tenant};
pub use usage::{Backlog, OrganizationSize, Queue, Schema, Usage};
pub use users::Account;
pub use workloads::{Candidate, MAX_WORKLOADS};

use changes::list::Lists;
use engine::{Batcher, ServeLock, execute};
use key_lookup::{KeyLookup, WorkloadLookup};

/// The database, with the batches and caches that requests share; cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    database: Database,
    keys: KeyLookup,
    workloads: WorkloadLookup,
    changes_by_id: Batcher<Tenant, (Tenant, ChangeId), ChangeJson>,
    lists: Lists,
    creations: Batcher<Tenant, Creation, Created>,
}

/// Methods that need no batch or cache are those of [`Database`].
impl Deref for Store {
    type Target = Database;

    fn deref(&self) -> &Database {
        &self.database
    }
}

impl Store {
    /// Opens the database at an address and migrates its schema. Hold the returned
    /// lock while the process serves.
    pub async fn open(
        address: &str,
        purpose: Purpose,
        capacity: Capacity,
    ) -> Result<(Self, ServeLock), OpenError> {
        let (connections, serve_lock) = engine::open(address, purpose, capacity).await?;
        let database = Database::new(connections);
        let may_be_incomplete = matches!(purpose, Purpose::Move | Purpose::Inspect);
        if !may_be_incomplete && database.is_target_of_move().await? {
            return Err(OpenError::UnfinishedMove);
        }
        let store = Self {
            keys: KeyLookup::of_keys(&database),
            workloads: WorkloadLookup::of_workloads(&database),
            changes_by_id: changes::batcher(&database),
            lists: Lists::new(&database),
            creations: changes::create::batcher(&database),
            database,
        };
        Ok((store, serve_lock))
    }

    /// Sets the limits of each organization; the default is no limit, as for admin
    /// commands.
    #[must_use]
    pub fn with_quotas(mut self, quotas: Quotas) -> Self {
        self.database.quotas = quotas;
        self
    }

    /// Finds the owner of a key. A key that any process has revoked before this call
    /// is found revoked.
    pub async fn key_owner(&self, key: &str) -> Result<Option<KeyOwner>, StoreError> {
        self.keys.find(api_keys::hash(key)).await
    }

    /// Finds the bindings that a token with these lookup keys may fit. One that any process
    /// has deleted before this call is not found.
    pub async fn workloads_of_token(
        &self,
        keys: &[LookupKey],
    ) -> Result<Vec<Candidate>, StoreError> {
        let lookups = keys.iter().map(workloads::lookup).collect();
        Ok(self.workloads.find(lookups).await?.unwrap_or_default())
    }

    /// Finds a change of an organization.
    pub async fn change(&self, tenant: Tenant, id: ChangeId) -> Result<ChangeJson, StoreError> {
        self.changes_by_id.read(tenant, (tenant, id)).await
    }

    /// Lists a page of the changes that match, newest first, with the exact number of
    /// matches.
    pub async fn changes(
        &self,
        tenant: Tenant,
        filter: &ChangeFilter,
    ) -> Result<ChangeList, StoreError> {
        self.lists.page(tenant, filter, true).await
    }

    /// Counts the changes that match a filter without `text`: as many as [`Self::changes`]
    /// counts, without reading a page.
    pub async fn count_changes(
        &self,
        tenant: Tenant,
        filter: &ChangeFilter,
    ) -> Result<u64, StoreError> {
        self.lists.count(tenant, filter).await
    }

    /// Lists a page of the changes that match, newest first, without counting them. To
    /// read all pages, set `before` to the last change of the previous page.
    pub async fn changes_without_count(
        &self,
        tenant: Tenant,
        filter: &ChangeFilter,
    ) -> Result<ChangesJson, StoreError> {
        Ok(self.lists.page(tenant, filter, false).await?.json)
    }

    /// Creates changes; when this returns `Ok`, they survive a power cut.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when the organization does not have a service or
    /// host of a change, or a millisecond is full; [`StoreError::Locked`] when the
    /// first request with the same idempotency key is still running;
    /// [`StoreError::KeyReused`] when that request had another body.
    pub async fn create_changes(&self, creation: Creation) -> Result<Created, StoreError> {
        self.creations.submit(creation.tenant(), creation).await
    }

    /// Deletes what has expired: idempotency keys, sessions, failed sign-ins, known
    /// browsers, invitations, notifications, events and deliveries. Returns the number of
    /// deleted rows.
    pub async fn purge(&self, now: Timestamp) -> Result<u64, StoreError> {
        let delete_keys = idempotency::delete_expired(&self.database.connections.writes);
        let mut deleted = 0;
        for (statement, ttl) in [
            (sessions::PURGE_IDLE, sessions::IDLE_TTL),
            (
                sign_in_attempts::PURGE_FAILURES,
                sign_in_attempts::FAILURES_TTL,
            ),
            (
                sign_in_attempts::PURGE_BROWSERS,
                sign_in_attempts::BROWSER_TTL,
            ),
            (invitations::PURGE, invitations::EXPIRED_TTL),
            (sso_sign_in::PURGE_USED, sso_sign_in::USED_TTL),
            (events::PURGE, deliveries::KEPT),
            (deliveries::PURGE, deliveries::KEPT),
            (deliveries::PURGE_REFERENCES, deliveries::REFERENCES_KEPT),
            (notifications::PURGE, notifications::NOTIFICATION_TTL),
            (source_operations::PURGE, source_operations::OPERATIONS_KEPT),
            (
                source_operations::PURGE_CALLS,
                source_operations::CALLS_KEPT,
            ),
            (incidents::PURGE_ALERTS, incidents::ALERTS_KEPT),
            (joined_changes::PURGE, source_operations::OPERATIONS_KEPT),
            // Last: on Citus it needs all nodes, and one may be away.
            (delete_keys, IDEMPOTENCY_TTL),
        ] {
            let before = now.plus(-ttl).millis();
            // Deletes 1,000 rows at a time, because other transactions wait for this one.
            loop {
                let mut tx = self.begin().await?;
                let rows = execute!(tx, sqlx::query(statement).bind(before))?;
                tx.commit().await?;
                deleted += rows;
                if rows == 0 {
                    break;
                }
            }
        }
        Ok(deleted)
    }

    /// Closes the connections; on SQLite this merges the write-ahead log into the file.
    pub async fn close(self) {
        self.database.connections.close().await;
    }
}
