//! Verifies a database: that it is intact, and that what is derived from changes (counts,
//! search, tags, services) is what the changes say. Counts, search and the words of names can be
//! rebuilt.
//!
//! Everything is read in one transaction, and so as of one moment, also while servers write. What
//! is kept in memory grows with the counts, not with the changes: rows of changes are compared by
//! sums, which are the same in any order.

mod changes;
mod counts;
mod hours;
mod rows;
mod search;
mod words;

use sqlx::types::Uuid;

use self::changes::Expected;
use super::engine::direct::{self, Direct, run_unlimited, unlimited};
use super::engine::{Engine, OpenError, ServeLock};
use super::{StoreError, Tenant, moving};

/// The most examples of a problem that are reported.
const MAX_EXAMPLES: usize = 5;

/// Something that is wrong with a database.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    /// What was checked, such as `counts`.
    pub check: &'static str,
    /// What is wrong.
    pub problem: String,
    /// How many rows it is about.
    pub rows: u64,
    /// Some of them.
    pub examples: Vec<String>,
    /// Whether it was repaired.
    pub is_repaired: bool,
}

/// The result of a check.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Report {
    /// The number of organizations that were checked.
    pub organizations: u64,
    /// The number of changes that were checked.
    pub changes: u64,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

impl Report {
    /// Returns whether nothing is wrong any more.
    pub fn is_sound(&self) -> bool {
        self.problems.iter().all(|problem| problem.is_repaired)
    }

    fn add(&mut self, check: &'static str, problem: &str, found: Found) {
        if found.rows > 0 {
            self.problems.push(Problem {
                check,
                problem: problem.to_owned(),
                rows: found.rows,
                examples: found.examples,
                is_repaired: found.is_repaired,
            });
        }
    }
}

/// Rows that are wrong.
#[derive(Clone, Debug, Default)]
struct Found {
    rows: u64,
    examples: Vec<String>,
    is_repaired: bool,
}

impl Found {
    fn add(&mut self, example: impl FnOnce() -> String) {
        self.rows += 1;
        if self.examples.len() < MAX_EXAMPLES {
            self.examples.push(example());
        }
    }
}

/// Why a database could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It has a schema that this program does not know.
    #[error(
        "the database has the schema {found}, and this changelog-server checks the schema \
         {needed}; check it with the version that serves it"
    )]
    Schema {
        /// Its number; 0 for an empty database.
        found: i64,
        /// The number that is needed.
        needed: i64,
    },
    /// It cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for CheckError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

/// A check that runs.
struct Checker<'n> {
    db: Direct,
    repair: bool,
    report: Report,
    /// Is told what is being done.
    note: &'n (dyn Fn(&str) + Send + Sync),
}

/// Checks the database at an address. With `repair`, what can be rebuilt is corrected; no
/// process may serve the database then.
pub async fn check(
    address: &str,
    repair: bool,
    note: &(dyn Fn(&str) + Send + Sync),
) -> Result<Report, CheckError> {
    // Held until the end.
    let _lock: ServeLock = if repair {
        direct::lock_out_servers(address)?
    } else {
        None
    };
    let mut db = direct::connect(address).await?;
    if moving::is_marked(&mut db).await? {
        return Err(OpenError::UnfinishedMove.into());
    }
    inspect(db, address, repair, note).await
}

/// Checks the database that a connection is to, even the target of a move.
pub(crate) async fn inspect(
    mut db: Direct,
    address: &str,
    repair: bool,
    note: &(dyn Fn(&str) + Send + Sync),
) -> Result<Report, CheckError> {
    let found = direct::schema_version(&mut db).await?;
    let needed = super::engine::newest_schema(address);
    if found != needed {
        return Err(CheckError::Schema { found, needed });
    }
    let mut checker = Checker {
        db,
        repair,
        report: Report::default(),
        note,
    };
    checker.begin().await?;
    checker.run().await?;
    checker.end().await?;
    let Checker { db, report, .. } = checker;
    direct::close(db).await;
    Ok(report)
}

impl Checker<'_> {
    fn is_sqlite(&self) -> bool {
        matches!(self.db, Engine::Sqlite(_))
    }

    async fn begin(&mut self) -> Result<(), sqlx::Error> {
        let statements = match (&self.db, self.repair) {
            (Engine::Sqlite(_), false) => "BEGIN",
            (Engine::Sqlite(_), true) => "BEGIN IMMEDIATE",
            (Engine::Postgres(_), false) => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            // Changes, services and hosts wait until everything is right again.
            (Engine::Postgres(_), true) => {
                "BEGIN; LOCK TABLE changes, change_counts, change_hours, change_search, services, \
                 hosts, catalog_words IN SHARE ROW EXCLUSIVE MODE"
            }
        };
        self.execute(statements).await
    }

    async fn end(&mut self) -> Result<(), sqlx::Error> {
        self.execute("COMMIT").await
    }

    async fn execute(&mut self, statements: &'static str) -> Result<(), sqlx::Error> {
        run_unlimited!(&mut self.db, |db| sqlx::raw_sql(statements)
            .execute(&mut *db))
    }

    async fn run(&mut self) -> Result<(), CheckError> {
        (self.note)("checking the database itself");
        self.check_integrity().await?;
        self.check_orphans().await?;
        let organizations: Vec<(Uuid,)> = unlimited!(&mut self.db, |db| sqlx::query_as(
            "SELECT id FROM organizations ORDER BY id"
        )
        .fetch_all(&mut *db))?;
        let total = organizations.len();
        let mut terms = search::Blocks::default();
        for (number, (id,)) in organizations.into_iter().enumerate() {
            let tenant = Tenant(id.into());
            if total < 100 || number % 100 == 0 {
                (self.note)(&format!("checking organization {} of {total}", number + 1));
            }
            let mut expected = Expected::default();
            self.read_changes(tenant, &mut expected, &mut terms).await?;
            self.check_rows_of_changes(tenant, &expected).await?;
            self.check_counts(tenant, &mut expected).await?;
            self.check_hours(tenant, &mut expected).await?;
            self.check_words(tenant).await?;
            self.check_activity(tenant).await?;
            self.report.organizations += 1;
            self.report.changes += expected.changes;
        }
        (self.note)("checking the search index");
        self.check_search(&terms).await
    }
}
