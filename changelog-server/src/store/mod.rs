//! Everything that is kept, on SQLite or on PostgreSQL.
//!
//! [`Store`] reads, [`Tx`] writes; both have their methods in one file a noun,
//! beside the SQL. A [`Tenant`] can only be made in here, by looking up a key,
//! a session or an organization, and every method that touches an
//! organization's rows takes one: what belongs to another organization cannot
//! be asked for by accident.

pub(crate) mod activity;
mod api_keys;
mod attempts;
mod changes;
pub(crate) mod engine;
pub(crate) mod feed;
mod hosts;
mod idempotency;
pub(crate) mod index;
mod invitations;
mod key_cache;
mod members;
mod moments;
mod organizations;
mod quotas;
mod services;
mod sessions;
mod summaries;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use changelog_core::ids::uuid_v7;
use changelog_core::{ChangeId, OrganizationId, Timestamp};
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use sqlx::types::Uuid;
use tokio::time::timeout;

pub use activity::{Entry, Recorded};
pub use api_keys::KeyOwner;
pub use attempts::Bucket;
pub use changes::{ChangeJson, ChangeList, Compared, Created, Creation, Draft};
pub use engine::backup::BackupError;
pub use engine::error::StoreError;
pub use engine::open::{Capacity, OpenError, Purpose};
pub use idempotency::{KeyState, KeyedRequest, Outcome};
pub use index::counts::{DayCount, Scope};
pub use index::search::{Terms, Wanted};
pub use members::Account;
pub use quotas::{Counted, Quotas};
pub(crate) use sessions::CLOCKS_DIFFER;
pub use sessions::{Person, Session, SessionInfo};
pub use summaries::Summary;

use api_keys::KeyHash;
use changes::list::Page;
use engine::batcher::{Batcher, Limits};
use engine::fair_share::{FairShare, Party, Turn};
use engine::file::DataFile;
use engine::readers::{Lease, Readers};
use engine::writer::Writer;
use engine::{Connection, Engine, execute, on};
use feed::Feed;
use index::counts;
use key_cache::KeyCache;

/// How long a database may take to show that it answers at all.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The organization that a request acts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tenant(OrganizationId);

impl Tenant {
    /// Returns the organization's id.
    pub fn id(self) -> OrganizationId {
        self.0
    }

    /// Returns the id as the database takes it.
    fn uuid(self) -> Uuid {
        self.0.0
    }
}

/// Who acts, as the activity log names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The person; `None` for an API key and for the operator.
    pub person: Option<changelog_core::UserId>,
    /// The name of the person, or `API key: ` and the key's name.
    pub name: String,
    /// From where; `None` for the operator, who needs no network.
    pub address: Option<IpAddr>,
}

impl Actor {
    /// A person who is at an address.
    pub fn person(person: changelog_core::UserId, name: &str, address: IpAddr) -> Self {
        Self {
            person: Some(person),
            name: name.to_owned(),
            address: Some(address),
        }
    }

    /// The operator at the server's own command line.
    pub fn operator() -> Self {
        Self {
            person: None,
            name: "Operator".to_owned(),
            address: None,
        }
    }
}

/// Everything that is kept; cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    database: Database,
    /// Where SQLite's file is; nothing on PostgreSQL.
    file: Option<Arc<DataFile>>,
    /// Whom keys act for, by their hashes.
    keys: Batcher<(), KeyHash, Option<KeyOwner>>,
    /// What is remembered of that, on SQLite.
    known_keys: Option<Arc<KeyCache>>,
    changes_by_id: Batcher<Tenant, (Tenant, ChangeId), ChangeJson>,
    /// Pages of changes: together where it pays, one by one where it does not.
    pages: Engine<Batcher<Tenant, Page, ChangeList>, ()>,
    creations: Batcher<Tenant, Creation, Created>,
}

/// The connections.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    readers: Groups,
    /// How writes begin: the writer on SQLite, a pool on PostgreSQL.
    writes: Engine<Writer, PgPool>,
    /// The turns of transactions that take more than one statement's time.
    write_turns: Arc<FairShare>,
    /// Batches of creations that run at the same time, in all and of one
    /// organization.
    creation_batches: (usize, usize),
    /// Who is told of what was recorded here.
    feed: Feed,
    /// How many things an organization may have.
    quotas: Quotas,
}

/// The groups of connections that read; none waits for another.
#[derive(Clone, Debug)]
struct Groups {
    /// For health checks.
    health: Readers,
    /// For what is read before the organization is known: keys, sessions,
    /// people.
    system: Readers,
    /// For single rows, found by a key.
    points: Readers,
    /// For everything else: lists, searches, counts.
    lists: Readers,
}

/// A transaction: dropped without [`Tx::commit`], it leaves nothing.
#[derive(Debug)]
pub struct Tx {
    connection: Connection,
    /// Which row of a kept count this transaction adds to.
    slot: i64,
    /// Free for another transaction of the organization, or of another, when
    /// this one is about to commit.
    turn: Option<Turn>,
    quotas: Quotas,
}

impl Database {
    async fn begin(&self) -> Result<Tx, StoreError> {
        let (connection, slot) = match &self.writes {
            Engine::Sqlite(writer) => (Engine::Sqlite(writer.begin().await?), 0),
            Engine::Postgres(pool) => {
                let transaction = engine::bounded(pool.begin()).await?;
                (Engine::Postgres(transaction), counts::random_slot())
            }
        };
        Ok(Tx {
            connection,
            slot,
            quotas: self.quotas,
            turn: None,
        })
    }

    /// Waits for a connection for lists, searches and counts.
    async fn reader(&self, tenant: Tenant) -> Result<Lease, StoreError> {
        let lease = self.readers.lists.lease(Some(tenant)).await;
        self.unless_away(lease).await
    }

    /// Waits for a connection for single rows that are found by a key.
    async fn point_reader(&self, tenant: Tenant) -> Result<Lease, StoreError> {
        let lease = self.readers.points.lease(Some(tenant)).await;
        self.unless_away(lease).await
    }

    /// Replaces a refusal for the organization's share where it is the database
    /// that does not answer: then nobody's requests end.
    async fn unless_away<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        match result {
            Err(StoreError::Overloaded) => match timeout(ANSWER_TIMEOUT, self.ping()).await {
                Ok(Ok(())) => Err(StoreError::Overloaded),
                Ok(Err(error)) => Err(error),
                Err(_) => Err(StoreError::Unavailable(
                    "the database does not answer".into(),
                )),
            },
            result => result,
        }
    }

    /// Makes a round trip that reads a real page of the database.
    async fn ping(&self) -> Result<(), StoreError> {
        let mut lease = self.readers.health.lease(None).await?;
        let _: Option<(i64,)> = on!(&mut lease, |db| {
            sqlx::query_as("SELECT created_at FROM organizations LIMIT 1").fetch_optional(&mut **db)
        })?;
        Ok(())
    }

    /// Waits for a connection for what is read before the organization is known.
    async fn system(&self) -> Result<Lease, StoreError> {
        self.readers.system.lease(None).await
    }
}

impl Store {
    /// Puts the store together; must be called within a tokio runtime.
    fn new(
        database: Database,
        file: Option<Arc<DataFile>>,
        known_keys: Option<Arc<KeyCache>>,
    ) -> Self {
        let work = database.clone();
        let keys = Batcher::new(
            Limits {
                batches: 1,
                batches_of_lane: 1,
                size: api_keys::MOST,
                mixed: false,
                weight: |_| 1,
            },
            move |hashes| api_keys::owners(work.clone(), hashes),
        );
        let work = database.clone();
        let changes_by_id = Batcher::new(
            Limits {
                batches: usize::MAX,
                batches_of_lane: 1,
                size: changes::MOST,
                mixed: false,
                weight: |_| 1,
            },
            move |ids| changes::by_id(work.clone(), ids),
        );
        let pages = match &database.writes {
            Engine::Sqlite(_) => {
                let work = database.clone();
                Engine::Sqlite(Batcher::new(
                    Limits {
                        batches: usize::MAX,
                        batches_of_lane: database.readers.lists.share(),
                        size: changes::list::MAX_BATCH,
                        mixed: false,
                        weight: Page::weight,
                    },
                    move |pages| changes::list::pages(work.clone(), pages),
                ))
            }
            Engine::Postgres(_) => Engine::Postgres(()),
        };
        let work = database.clone();
        let (batches, batches_of_lane) = database.creation_batches;
        let creations = Batcher::new(
            Limits {
                batches,
                batches_of_lane,
                size: changes::create::MAX_BATCH,
                mixed: true,
                weight: Creation::changes,
            },
            move |creations| changes::create::create_batch(work.clone(), creations),
        );
        Self {
            database,
            file,
            keys,
            known_keys,
            changes_by_id,
            pages,
            creations,
        }
    }

    /// Limits how many things an organization may have; without this there is no
    /// limit, as for the operator.
    #[must_use]
    pub fn with_quotas(mut self, quotas: Quotas) -> Self {
        self.database.quotas = quotas;
        self
    }

    /// Begins a transaction of the service itself: of a person who is not known
    /// yet, or of the operator.
    pub async fn begin(&self) -> Result<Tx, StoreError> {
        self.begin_in_turn(None).await
    }

    /// Begins a transaction of an organization.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`] when the organization has too many others.
    pub async fn begin_for(&self, tenant: Tenant) -> Result<Tx, StoreError> {
        self.begin_in_turn(Some(tenant)).await
    }

    async fn begin_in_turn(&self, party: Party) -> Result<Tx, StoreError> {
        let turn = self.database.write_turns.turn(party).await;
        let turn = self.database.unless_away(turn).await?;
        let tx = self.database.begin().await?;
        Ok(Tx {
            turn: Some(turn),
            ..tx
        })
    }

    /// Makes a round trip that reads a real page of the database, and makes
    /// sure that a database file is still where it was and can be written.
    ///
    /// # Errors
    /// [`StoreError::Blocked`] when writes have waited for another process for
    /// some seconds.
    pub async fn ping(&self) -> Result<(), StoreError> {
        if let Some(file) = &self.file {
            file.is_in_place()?;
            file.is_writable()?;
        }
        self.database.ping().await
    }

    /// Deletes what has outlived its time: idempotency answers, sessions, failed
    /// sign-ins, known browsers, and invitations. Returns how many rows went.
    pub async fn purge(&self, now: Timestamp) -> Result<u64, StoreError> {
        let mut deleted = 0;
        for (statement, kept) in [
            (idempotency::DELETE_EXPIRED, idempotency::IDEMPOTENCY_TTL),
            (sessions::PURGE_IDLE, sessions::IDLE),
            (attempts::PURGE_FAILURES, attempts::FAILURES_TTL),
            (attempts::PURGE_BROWSERS, attempts::BROWSER_TTL),
            (invitations::PURGE, invitations::EXPIRED_KEPT),
        ] {
            let before = now.plus(-kept).millis();
            // A thousand at a time: a million in one transaction would keep
            // everybody else from writing for as long as that takes.
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

    /// Closes the connections; on SQLite the write-ahead log is folded in.
    pub async fn close(self) {
        let Groups {
            health,
            system,
            points,
            lists,
        } = &self.database.readers;
        for readers in [health, system, points, lists] {
            readers.close().await;
        }
        if let Engine::Postgres(pool) = &self.database.writes {
            pool.close().await;
        }
    }
}

impl Tx {
    /// Ends the transaction: when this returns `Ok`, it survives a power cut.
    ///
    /// # Errors
    /// [`StoreError::Uncertain`] when it is not known whether it took place.
    pub async fn commit(self) -> Result<(), StoreError> {
        match self.connection {
            Engine::Sqlite(loan) => {
                // Transactions that wait for the same COMMIT do not hold up the
                // next one.
                let committed = loan.commit();
                drop(self.turn);
                committed.await
            }
            Engine::Postgres(transaction) => engine::committed(transaction.commit()).await,
        }
    }
}

/// Makes an id for something that happens now; ids of one millisecond keep the
/// order in which they were made.
pub(crate) fn new_id(now: DateTime<Utc>) -> Uuid {
    let nanos_of_milli = now.timestamp_subsec_nanos() % 1_000_000;
    uuid_v7(now.into(), Some(nanos_of_milli), rand::random())
}
