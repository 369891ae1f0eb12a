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
mod backup;
mod carry_over;
mod changes;
mod counts;
pub(crate) mod engine;
mod error;
pub(crate) mod feed;
mod file;
mod gather;
mod hosts;
mod idempotency;
mod invitations;
mod key_cache;
mod members;
mod open;
mod organizations;
#[cfg(test)]
mod plan;
mod search;
mod services;
mod sessions;
mod summaries;
mod version;
mod writer;

use std::net::IpAddr;
use std::sync::Arc;

use changelog_core::ids::uuid_v7;
use changelog_core::{ChangeId, OrganizationId, Timestamp};
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use sqlx::types::Uuid;

pub use activity::{Entry, Recorded};
pub use api_keys::KeyOwner;
pub use attempts::Bucket;
pub use backup::BackupError;
pub use changes::{ChangeJson, ChangeList, Created, Creation, Draft, Form};
pub use counts::{DayCount, Scope};
pub use error::StoreError;
pub use idempotency::{Claim, StoredAnswer};
pub use members::Account;
pub use open::{OpenError, Purpose};
pub use search::{Terms, Wanted};
pub use sessions::{Person, Session, SessionInfo};
pub use summaries::Summary;

use api_keys::KeyHash;
use changes::list::Page;
use engine::{Connection, Engine, Pool, execute, on};
use feed::Feed;
use file::DataFile;
use gather::Gather;
use key_cache::KeyCache;
use writer::Writer;

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
    keys: Gather<KeyHash, Option<KeyOwner>>,
    /// What is remembered of that, on SQLite.
    known_keys: Option<Arc<KeyCache>>,
    changes_by_id: Gather<(Tenant, ChangeId), ChangeJson>,
    /// Pages of changes: together where it pays, one by one where it does not.
    pages: Engine<Gather<Page, ChangeList>, PgPool>,
    creations: Gather<Creation, Created>,
}

/// The connections.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    pool: Pool,
    /// How writes begin: the writer on SQLite, the pool itself on PostgreSQL.
    writes: Engine<Writer, ()>,
    /// Who is told of what was recorded here.
    feed: Feed,
}

/// A transaction: dropped without [`Tx::commit`], it leaves nothing.
#[derive(Debug)]
pub struct Tx {
    connection: Connection,
    /// Which row of a kept count this transaction adds to.
    slot: i64,
}

impl Database {
    async fn begin(&self) -> Result<Tx, StoreError> {
        let (connection, slot) = match (&self.writes, &self.pool) {
            (Engine::Sqlite(writer), _) => (Engine::Sqlite(writer.begin().await?), 0),
            (Engine::Postgres(()), Engine::Postgres(pool)) => {
                let transaction = engine::bounded(pool.begin()).await?;
                (Engine::Postgres(transaction), counts::random_slot())
            }
            (Engine::Postgres(()), Engine::Sqlite(_)) => {
                unreachable!("a store is made for one database")
            }
        };
        Ok(Tx { connection, slot })
    }
}

impl Store {
    /// Puts the store together; must be called within a tokio runtime.
    fn new(
        database: Database,
        file: Option<Arc<DataFile>>,
        known_keys: Option<Arc<KeyCache>>,
    ) -> Self {
        // SQLite writes one at a time; on PostgreSQL each writes into a slot of
        // the kept counts of its own.
        let writers = match database.pool {
            Engine::Sqlite(_) => 1,
            Engine::Postgres(_) => counts::SLOTS,
        };
        let work = database.clone();
        let keys = Gather::start(1, api_keys::MOST, move |hashes| {
            api_keys::owners(work.clone(), hashes)
        });
        let work = database.clone();
        let changes_by_id = Gather::start(1, changes::MOST, move |ids| {
            changes::by_id(work.clone(), ids)
        });
        let pages = match database.pool.clone() {
            Engine::Sqlite(pool) => {
                let read = move |pages| changes::list::pages(pool.clone(), pages);
                Engine::Sqlite(Gather::start(
                    changes::list::TASKS,
                    changes::list::MOST,
                    read,
                ))
            }
            Engine::Postgres(pool) => Engine::Postgres(pool),
        };
        let work = database.clone();
        let creations = Gather::start(writers, changes::create::MOST, move |creations| {
            changes::create::create_all(work.clone(), creations)
        });
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

    /// Begins a transaction.
    pub async fn begin(&self) -> Result<Tx, StoreError> {
        self.database.begin().await
    }

    /// Makes a round trip that reads a real page of the database, and makes
    /// sure that a database file is still where it was.
    pub async fn ping(&self) -> Result<(), StoreError> {
        if let Some(file) = &self.file {
            file.is_in_place()?;
        }
        let _: Option<(i64,)> = on!(&self.database.pool, |db| {
            sqlx::query_as("SELECT created_at FROM organizations LIMIT 1").fetch_optional(db)
        })?;
        Ok(())
    }

    /// Deletes what has outlived its time: idempotency answers, sessions, failed
    /// sign-ins, known browsers, and invitations. Returns how many rows went.
    pub async fn purge(&self, now: Timestamp) -> Result<u64, StoreError> {
        let mut deleted = 0;
        for (statement, kept) in [
            (idempotency::PURGE, idempotency::KEPT),
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
        match self.database.pool {
            Engine::Sqlite(pool) => pool.close().await,
            Engine::Postgres(pool) => pool.close().await,
        }
    }
}

impl Tx {
    /// Ends the transaction: when this returns `Ok`, it survives a power cut.
    pub async fn commit(self) -> Result<(), StoreError> {
        match self.connection {
            Engine::Sqlite(loan) => loan.commit().await,
            Engine::Postgres(transaction) => engine::bounded(transaction.commit()).await,
        }
    }
}

/// Makes an id for something that happens now; ids of one millisecond keep the
/// order in which they were made.
pub(crate) fn new_id(now: DateTime<Utc>) -> Uuid {
    let nanos_of_milli = now.timestamp_subsec_nanos() % 1_000_000;
    uuid_v7(now.into(), Some(nanos_of_milli), rand::random())
}
