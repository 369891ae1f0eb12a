//! The database as the rest of the store uses it: [`Database`] reads, [`Tx`]
//! writes. Both have their methods in one file a noun, next to the SQL. Every
//! method that touches rows of an organization takes a [`Tenant`].

use std::collections::HashSet;
use std::fmt;
use std::path::Path;

use changelog_core::ids::uuid_v7;
use chrono::{DateTime, Utc};
use futures_util::future::BoxFuture;
use sqlx::types::Uuid;
use tokio::sync::mpsc;

use super::actors::{KnownActors, NewActor};
use super::change_notifier::{ChangeNotifier, StreamEntry};
use super::engine::{
    self, BackupError, Connections, Engine, Lease, Permit, Planning, Script, StoreError,
    TxConnection, Writer, execute, on, run_script,
};
use super::host_environments::HostEnvironments;
use super::index::counts::{CountMemory, CountSlot, CountSlots};
use super::index::search::SearchDialect;
use super::quotas::{self, Quota, Quotas};
use super::tenant::Tenant;
use super::tenant_work::TenantWork;

/// When an organization is this close to a limit, transactions that add to it
/// count one after the other on PostgreSQL. More than may add at the same moment.
const EXACT_COUNT_MARGIN: i64 = 100;

/// The database; cheap to clone.
#[derive(Clone, Debug)]
pub struct Database {
    pub(super) connections: Connections,
    pub(super) quotas: Quotas,
    /// Notifies of the changes that are created and updated.
    pub(super) notifier: ChangeNotifier,
    pub(super) known_actors: KnownActors,
    pub(super) host_environments: HostEnvironments,
    pub(super) count_memory: CountMemory,
    pub(super) count_slots: CountSlots,
    /// Notifies of the requests of sources that are to be read.
    pub(super) source_work: TenantWork,
    /// Notifies of the incidents whose suspects are to be ranked.
    pub(super) ranking_work: TenantWork,
}

/// A transaction: dropped without [`Tx::commit`], it leaves nothing.
pub struct Tx {
    pub(super) connection: TxConnection,
    /// Boxed, because a transaction is moved from call to call.
    pub(super) database: Box<Database>,
    /// Which row of a kept count this transaction adds to.
    pub(super) slot: CountSlot,
    /// Returned when this transaction is about to commit, so that another one of
    /// the organization, or of another, may begin.
    permit: Option<Permit>,
    /// The actors that this transaction has written.
    pub(super) new_actors: Vec<NewActor>,
    /// What is run once this transaction is committed, before its caller goes on.
    pub(super) after_commit: Vec<BoxFuture<'static, ()>>,
}

/// Rows that are added by a script, which does not read.
pub(super) trait NewRows {
    /// Adds the statements that write them to a script.
    fn script<DB: SearchDialect>(&self, script: Script<DB>) -> Script<DB>;
}

impl fmt::Debug for Tx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx").finish_non_exhaustive()
    }
}

impl Database {
    pub(super) fn new(connections: Connections) -> Self {
        let count_slots = match &connections.writes {
            Engine::Sqlite(_) => CountSlots::of_one_writer(),
            Engine::Postgres(_) => CountSlots::of_several_writers(),
        };
        Self {
            connections,
            quotas: Quotas::default(),
            notifier: ChangeNotifier::default(),
            known_actors: KnownActors::default(),
            host_environments: HostEnvironments::default(),
            count_memory: CountMemory::default(),
            count_slots,
            source_work: TenantWork::default(),
            ranking_work: TenantWork::default(),
        }
    }

    /// Begins a transaction of the service itself: of a user who is not known
    /// yet, or of the operator.
    pub async fn begin(&self) -> Result<Tx, StoreError> {
        let permit = self.connections.write_permit(None).await?;
        self.begin_with(None, Some(permit)).await
    }

    /// Begins a transaction of an organization.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`] when the organization has too many others.
    pub async fn begin_for(&self, tenant: Tenant) -> Result<Tx, StoreError> {
        let permit = self.connections.write_permit(Some(tenant.id())).await?;
        self.begin_with(Some(tenant), Some(permit)).await
    }

    /// Begins a transaction of a batch, which has its own limits.
    pub(super) async fn begin_batch(
        &self,
        tenants: impl IntoIterator<Item = Tenant>,
    ) -> Result<Tx, StoreError> {
        self.begin_with(tenants, None).await
    }

    async fn begin_with(
        &self,
        tenants: impl IntoIterator<Item = Tenant>,
        permit: Option<Permit>,
    ) -> Result<Tx, StoreError> {
        Ok(Tx {
            connection: self.connections.begin().await?,
            database: Box::new(self.clone()),
            slot: self.count_slots.take(tenants),
            permit,
            new_actors: Vec::new(),
            after_commit: Vec::new(),
        })
    }

    /// Writes rows as a transaction of their own in one round trip, and returns whether they
    /// were written. On PostgreSQL they need a [`Tx`] if they are many (`is_large`), behind a
    /// pooler, and on Citus.
    pub(super) async fn write_at_once(
        &self,
        rows: &impl NewRows,
        is_large: bool,
    ) -> Result<bool, StoreError> {
        match &self.connections.writes {
            Engine::Sqlite(writer) => writer.run(rows.script(Writer::script())).await?,
            Engine::Postgres(pool) => {
                let is_joined = self.connections.joins_scripts && !is_large;
                let script = is_joined.then(|| rows.script(Script::joined()));
                let Some(script) = script.filter(Script::is_kept_joined) else {
                    return Ok(false);
                };
                let mut session = engine::bounded(pool.session(Planning::Automatic)).await?;
                let outcomes = &self.connections.write_outcomes;
                outcomes.note(script.run_joined(&mut session).await)?;
                session.keep();
            }
        }
        Ok(true)
    }

    /// Waits for a connection for lists, searches and counts.
    pub(super) async fn reader(&self, tenant: Tenant) -> Result<Lease, StoreError> {
        self.reader_with(tenant, Planning::Automatic).await
    }

    /// Waits for a connection for lists, searches and counts that plans them in this
    /// way.
    pub(super) async fn reader_with(
        &self,
        tenant: Tenant,
        planning: Planning,
    ) -> Result<Lease, StoreError> {
        self.connections.reader(tenant.id(), planning).await
    }

    /// Waits for a connection for single rows that are found by a key.
    pub(super) async fn point_reader(&self, tenant: Tenant) -> Result<Lease, StoreError> {
        self.connections.point_reader(Some(tenant.id())).await
    }

    /// Waits for a connection for what is read before the organization is known.
    pub(super) async fn system(&self) -> Result<Lease, StoreError> {
        self.connections.system().await
    }

    /// Returns the organizations that `next` finds one after the other, each by one look into an
    /// index: it selects the one after `$1`. DISTINCT would read each row of each of them, and
    /// Citus neither recurses over distributed tables nor compares them with the organizations,
    /// which are on another node.
    pub(super) async fn organizations_in_turn(
        &self,
        next: &'static str,
    ) -> Result<HashSet<Tenant>, StoreError> {
        let mut lease = self.system().await?;
        let mut found = HashSet::new();
        let mut last = Uuid::nil();
        while let Some((id,)) = on!(&mut lease, |db| sqlx::query_as::<_, (Uuid,)>(next)
            .bind(last)
            .fetch_optional(&mut **db))?
        {
            found.insert(Tenant(id.into()));
            last = id;
        }
        engine::end_lease(lease);
        Ok(found)
    }

    /// Makes a round trip that reads a real page of the database, and makes sure
    /// that a database file is still where it was and can be written.
    ///
    /// # Errors
    /// [`StoreError::Blocked`] when writes have waited for another process for
    /// some seconds.
    pub async fn ping(&self) -> Result<(), StoreError> {
        if let Some(sqlite) = &self.connections.sqlite {
            sqlite.file.check_in_place()?;
            sqlite.file.check_writable()?;
        }
        self.connections.ping().await
    }

    /// Subscribes to what is recorded about the changes and incidents of an organization.
    /// This replaces an earlier subscriber of that organization.
    pub fn subscribe_to_changes(&self, tenant: Tenant) -> mpsc::Receiver<StreamEntry> {
        self.notifier.subscribe(tenant)
    }

    /// Writes a checked copy of a SQLite database to a path and returns its size
    /// in bytes.
    pub async fn backup(&self, path: &Path) -> Result<u64, BackupError> {
        self.connections.backup(path).await
    }
}

impl Tx {
    /// Ends the transaction: when this returns `Ok`, it survives a power cut.
    ///
    /// # Errors
    /// [`StoreError::Uncertain`] when it is not known whether it took place.
    pub async fn commit(self) -> Result<(), StoreError> {
        match self.connection {
            Engine::Sqlite(tx) => {
                // Transactions that wait for the same COMMIT do not delay the
                // next one.
                let committed = tx.commit();
                drop(self.permit);
                committed.await?;
            }
            Engine::Postgres(transaction) => {
                let committed = engine::committed(transaction.commit()).await;
                self.database.connections.write_outcomes.note(committed)?;
                drop(self.permit);
            }
        }
        self.database.known_actors.add(self.new_actors);
        for next in self.after_commit {
            next.await;
        }
        Ok(())
    }
}

impl Tx {
    /// Writes rows in this transaction.
    pub(super) async fn write(&mut self, rows: &impl NewRows) -> Result<(), StoreError> {
        run_script!(self, |DB| rows.script::<DB>(Script::new()))
    }

    /// Makes sure that the organization is still within its quota after something
    /// was added; otherwise this transaction must not be committed.
    ///
    /// # Errors
    /// [`StoreError::QuotaExceeded`].
    pub(super) async fn check_quota(
        &mut self,
        tenant: Tenant,
        quota: Quota,
    ) -> Result<(), StoreError> {
        let Some(limit) = quota.limit(&self.database.quotas) else {
            return Ok(());
        };
        let most = i64::from(limit);
        let mut count = self.count(tenant, quota, most + 1).await?;
        if count > most - EXACT_COUNT_MARGIN && matches!(self.connection, Engine::Postgres(_)) {
            execute!(self, sqlx::query(quotas::LOCK).bind(tenant.uuid()))?;
            count = self.count(tenant, quota, most + 1).await?;
        }
        if count <= most {
            return Ok(());
        }
        Err(StoreError::QuotaExceeded {
            noun: quota.noun(),
            flag: quota.flag(),
            limit,
        })
    }

    /// Counts, but no further than to `most`.
    async fn count(&mut self, tenant: Tenant, quota: Quota, most: i64) -> Result<i64, StoreError> {
        let (count,): (i64,) = on!(&mut self.connection, |db| {
            sqlx::query_as(quota.count_statement())
                .bind(tenant.uuid())
                .bind(most)
                .fetch_one(&mut **db)
        })?;
        Ok(count)
    }
}

/// Makes an id for something that happens now; ids of one millisecond keep the
/// order in which they were made.
pub fn new_id(now: DateTime<Utc>) -> Uuid {
    let nanos_of_milli = now.timestamp_subsec_nanos() % 1_000_000;
    uuid_v7(now.into(), Some(nanos_of_milli), rand::random())
}
