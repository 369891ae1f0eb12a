//! Creating changes: those that wait at the same moment are written by the same
//! few statements.
//!
//! A change alone takes eight statements; so do a hundred of them together.
//! What differs from one to the next is the length of the lists of values, and
//! what each statement costs by itself (on SQLite two switches of thread, on
//! PostgreSQL a round trip) is shared. Everything that can be made before is
//! made before, in [`Draft`].

use std::collections::HashSet;
use std::ops::Range;

use changelog_core::{Action, Code, HostId, ResourceType, ServiceId, Timestamp, Violations};
use sqlx::types::Uuid;
use sqlx::{Postgres, QueryBuilder, Sqlite};

use super::Kept;
use super::draft::Draft;
use crate::store::activity::{self, Entry, NewEntry};
use crate::store::engine::batcher::Answers;
use crate::store::engine::writer::Writer;
use crate::store::engine::{Dialect, Engine, Script, on, push_values};
use crate::store::idempotency::{self, Claim, Stored, StoredAnswer};
use crate::store::index::search::SearchDialect;
use crate::store::index::sort_key;
use crate::store::{Database, Store, StoreError, Tenant, Tx};

/// How many changes one transaction records at most, unless one request has
/// more. Everybody else waits for as long as that takes, some ten milliseconds.
pub(in crate::store) const MAX_BATCH: usize = 128;
/// How often a request is tried again because the sort key of its id was taken.
const TRIES: usize = 20;
/// How many of these tries draw another sort key; a draw fails as often as the
/// millisecond is full: half full, once in two. After them free sort keys are
/// looked for.
const DRAWS: usize = 3;
/// How many sort keys one look covers.
const SEARCHED_SORT_KEYS: i64 = 4_000;
/// How many looks there are, each from another sort key on. Other creates wait for
/// them, so that a millisecond of which less than one sort key in some thousand is
/// free counts as full.
const SEARCHES: usize = 4;

/// A request to record changes, all of them or none.
#[derive(Debug)]
pub struct Creation {
    tenant: Tenant,
    drafts: Vec<Draft>,
    claim: Option<Claim>,
    form: Form,
    answer: StoredAnswer,
}

/// What a request to record changes looks like from outside.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Where a draft stands in the body, as a JSON pointer.
    pub pointer: fn(usize) -> String,
    /// Writes the answer, which is kept under the idempotency key.
    pub answer: fn(&[Draft]) -> StoredAnswer,
}

/// What became of a [`Creation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// It was recorded; this is the answer.
    Fresh(StoredAnswer),
    /// It had been recorded before under the same idempotency key.
    Replayed(StoredAnswer),
}

impl Creation {
    /// Makes a request of drafts of one organization, at least one.
    pub fn new(tenant: Tenant, drafts: Vec<Draft>, claim: Option<Claim>, form: Form) -> Self {
        Self {
            answer: (form.answer)(&drafts),
            tenant,
            drafts,
            claim,
            form,
        }
    }

    /// Returns how many changes it records.
    pub(in crate::store) fn changes(&self) -> usize {
        self.drafts.len()
    }

    /// Draws another id for those drafts whose sort key is taken.
    fn avoid(&mut self, mut taken: HashSet<i64>) -> Result<(), StoreError> {
        for draft in &mut self.drafts {
            // Some times: a millisecond has a million sort keys.
            for _ in 0..TRIES {
                if taken.insert(draft.sort_key) {
                    break;
                }
                draft.take_other_sort_key()?;
            }
        }
        self.answer = (self.form.answer)(&self.drafts);
        Ok(())
    }
}

impl Store {
    /// Records changes; when this returns `Ok`, they survive a power cut.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when the organization does not have a service or
    /// a host that is named, [`StoreError::Locked`] when the first request with
    /// the same idempotency key is still running.
    pub async fn create_changes(&self, creation: Creation) -> Result<Created, StoreError> {
        self.creations.submit(creation.tenant, creation).await
    }
}

/// Records what requests ask for in one transaction. They are written on trust:
/// that keys are new, services and hosts there, and sort keys free. Where the
/// database refuses one, all are looked at; where it still does, each goes
/// alone.
pub(in crate::store) async fn create_together(
    database: Database,
    creations: Vec<Creation>,
) -> Answers<Created> {
    let database = &database;
    let written = match database.record(&creations).await {
        Ok(()) => {
            let answer = |one: &Creation| Ok(Created::Fresh(one.answer.clone()));
            Ok(creations.iter().map(answer).collect())
        }
        Err(error) if may_be_one_of_them(&error) => look_and_write(database, &creations).await,
        Err(error) => Err(error),
    };
    match written {
        Err(error) if may_be_one_of_them(&error) => {
            let mut answers = Vec::new();
            for creation in creations {
                answers.push(create_alone(database, creation).await);
            }
            Ok(answers)
        }
        written => written,
    }
}

async fn create_alone(database: &Database, mut creation: Creation) -> Result<Created, StoreError> {
    let mut tries = 0;
    loop {
        tries += 1;
        match look_and_write(database, std::slice::from_ref(&creation)).await {
            Err(error) if is_refused(&error) && tries < TRIES => {
                let taken = database.taken(&creation).await?;
                if tries <= DRAWS {
                    creation.avoid(taken)?;
                } else {
                    database.find_sort_keys(&mut creation, taken).await?;
                }
            }
            Err(error) => return Err(error),
            Ok(answers) => {
                let gone = || StoreError::Unavailable("a request got no answer".into());
                return answers.into_iter().next().unwrap_or_else(|| Err(gone()));
            }
        }
    }
}

/// Tells whether a constraint was broken: a key, an id, a service, a host.
fn is_refused(error: &StoreError) -> bool {
    matches!(error, StoreError::Database(cause) if matches!(&**cause, sqlx::Error::Database(cause)
        if cause.is_unique_violation() || cause.is_foreign_key_violation()))
}

/// Tells whether an error may be the fault of one request among several: when
/// the database is away, it is nobody's.
fn may_be_one_of_them(error: &StoreError) -> bool {
    !matches!(
        error,
        StoreError::Unavailable(_) | StoreError::Blocked(_) | StoreError::Uncertain(_)
    )
}

/// Writes requests in one transaction, each only if it is as good as it says.
async fn look_and_write(database: &Database, creations: &[Creation]) -> Answers<Created> {
    let mut tx = database.begin().await?;
    let found = tx.look_up(creations).await?;
    let answers: Vec<_> = creations.iter().map(|one| found.answer(one)).collect();
    let fresh: Vec<&Creation> = creations
        .iter()
        .zip(&answers)
        .filter_map(|(one, answer)| matches!(answer, Ok(Created::Fresh(_))).then_some(one))
        .collect();
    if !fresh.is_empty() {
        tx.write(&fresh, &found.expired).await?;
    }
    let recorded: Vec<&Draft> = fresh.iter().flat_map(|one| &one.drafts).collect();
    // Also when all of them are replays: what was found may not be committed
    // yet, because on SQLite it may belong to an earlier member of the group.
    tx.commit().await?;
    database.feed.tell(&recorded);
    Ok(answers)
}

/// What there is already of what requests ask for.
#[derive(Debug, Default)]
struct Found {
    answers: Vec<Stored>,
    expired: Vec<Stored>,
    services: HashSet<(Uuid, Uuid)>,
    hosts: HashSet<(Uuid, Uuid)>,
}

impl Found {
    fn answer(&self, creation: &Creation) -> Result<Created, StoreError> {
        if let Some(claim) = &creation.claim
            && let Some(stored) = self.answers.iter().find(|stored| stored.is_for(claim))
        {
            return Ok(Created::Replayed(stored.answer_to(claim)));
        }
        self.references(creation)?;
        Ok(Created::Fresh(creation.answer.clone()))
    }

    /// Makes sure of the services and hosts that drafts name; all are looked
    /// for before any is reported missing.
    fn references(&self, creation: &Creation) -> Result<(), StoreError> {
        let mut missing = Violations::default();
        let organization = creation.tenant.uuid();
        for (number, draft) in creation.drafts.iter().enumerate() {
            let pointer = (creation.form.pointer)(number);
            if let Some(id) = draft.new.service_id
                && !self.services.contains(&(organization, id.0))
            {
                no_service(&mut missing, &pointer, id);
            }
            if let Some(id) = draft.new.host_id
                && !self.hosts.contains(&(organization, id.0))
            {
                no_host(&mut missing, &pointer, id);
            }
        }
        Ok(missing.into_result(())?)
    }
}

/// Reports a service that the organization does not have.
pub(super) fn no_service(missing: &mut Violations, pointer: &str, id: ServiceId) {
    let message = format!("must be a service of the organization, which has none with the id {id}");
    missing.add(format!("{pointer}/service_id"), Code::NotFound, message);
}

/// Reports a host that the organization does not have.
pub(super) fn no_host(missing: &mut Violations, pointer: &str, id: HostId) {
    let message = format!("must be a host of the organization, which has none with the id {id}");
    missing.add(format!("{pointer}/host_id"), Code::NotFound, message);
}

impl Tx {
    async fn look_up(&mut self, creations: &[Creation]) -> Result<Found, StoreError> {
        let claims = creations.iter().filter_map(|one| one.claim.as_ref());
        let now = creations
            .iter()
            .flat_map(|one| &one.drafts)
            .map(|draft| draft.now);
        let now = now.max().map_or(Timestamp::EPOCH, Timestamp::from);
        let stored = self.stored_answers(claims).await?;
        let (kept, expired): (Vec<_>, Vec<_>) = stored
            .into_iter()
            .partition(|stored| stored.is_kept_at(now));
        let mut services = HashSet::new();
        let mut hosts = HashSet::new();
        for draft in creations.iter().flat_map(|one| &one.drafts) {
            let organization = draft.tenant.uuid();
            services.extend(draft.new.service_id.map(|id| (organization, id.0)));
            hosts.extend(draft.new.host_id.map(|id| (organization, id.0)));
        }
        Ok(Found {
            answers: kept,
            expired,
            services: self.existing("services", services).await?,
            hosts: self.existing("hosts", hosts).await?,
        })
    }

    /// Returns those of the rows named by organization and id that exist.
    async fn existing(
        &mut self,
        table: &'static str,
        wanted: HashSet<(Uuid, Uuid)>,
    ) -> Result<HashSet<(Uuid, Uuid)>, StoreError> {
        if wanted.is_empty() {
            return Ok(wanted);
        }
        let rows: Vec<(Uuid, Uuid)> = on!(&mut self.connection, |db| async {
            let mut query = QueryBuilder::new("SELECT t.organization_id, t.id FROM (");
            push_values(
                &mut query,
                wanted
                    .iter()
                    .map(|(organization, id)| [(*organization).into(), (*id).into()]),
            );
            query
                .push(") AS wanted JOIN ")
                .push(table)
                .push(" t ON t.organization_id = wanted.column1 AND t.id = wanted.column2");
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        Ok(rows.into_iter().collect())
    }

    async fn write(&mut self, fresh: &[&Creation], expired: &[Stored]) -> Result<(), StoreError> {
        let slot = self.slot;
        match &mut self.connection {
            Engine::Sqlite(db) => {
                script::<Sqlite>(Script::new(), fresh, expired, slot)
                    .run(&mut **db)
                    .await
            }
            Engine::Postgres(db) => {
                script::<Postgres>(Script::new(), fresh, expired, slot)
                    .run(&mut **db)
                    .await
            }
        }
    }
}

impl Database {
    /// Writes requests in one transaction, as they are.
    async fn record(&self, creations: &[Creation]) -> Result<(), StoreError> {
        let fresh: Vec<&Creation> = creations.iter().collect();
        if let Engine::Sqlite(writer) = &self.writes {
            writer.run(script(Writer::script(), &fresh, &[], 0)).await?;
        } else {
            let mut tx = self.begin().await?;
            tx.write(&fresh, &[]).await?;
            tx.commit().await?;
        }
        let recorded: Vec<&Draft> = fresh.iter().flat_map(|one| &one.drafts).collect();
        self.feed.tell(&recorded);
        Ok(())
    }

    /// Returns which sort keys of a request's drafts are taken.
    async fn taken(&self, creation: &Creation) -> Result<HashSet<i64>, StoreError> {
        let rows: Vec<(i64,)> = on!(&mut self.reader(creation.tenant).await?, |db| async {
            let mut query = taken(creation);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        Ok(rows.into_iter().map(|(sort_key,)| sort_key).collect())
    }

    /// Gives a free sort key to those drafts whose sort key is taken.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when the millisecond is full.
    async fn find_sort_keys(
        &self,
        creation: &mut Creation,
        mut taken: HashSet<i64>,
    ) -> Result<(), StoreError> {
        let wanted = creation.drafts.len();
        let mut free: Vec<i64> = Vec::new();
        for (number, draft) in creation.drafts.iter_mut().enumerate() {
            if taken.insert(draft.sort_key) {
                continue;
            }
            let millisecond = sort_key::millis(draft.sort_key);
            let mut searches = 0;
            let found = loop {
                match free.pop() {
                    Some(sort_key) if sort_key::millis(sort_key) != millisecond => free.clear(),
                    Some(sort_key) if taken.insert(sort_key) => break Some(sort_key),
                    Some(_) => {}
                    None if searches == SEARCHES => break None,
                    None => {
                        searches += 1;
                        draft.take_other_sort_key()?;
                        free = self.free_sort_keys(draft, wanted).await?;
                    }
                }
            };
            let Some(sort_key) = found else {
                let pointer = format!("{}/occurred_at", (creation.form.pointer)(number));
                let message = "must be another moment: this millisecond is full of changes";
                let mut full = Violations::default();
                full.add(pointer, Code::OutOfRange, message);
                return Ok(full.into_result(())?);
            };
            draft.take_sort_key(sort_key)?;
        }
        creation.answer = (creation.form.answer)(&creation.drafts);
        Ok(())
    }

    /// Looks for free sort keys in the millisecond of a draft, from its sort key on.
    async fn free_sort_keys(&self, draft: &Draft, most: usize) -> Result<Vec<i64>, StoreError> {
        let range = sort_key::rest_of_millisecond(draft.sort_key);
        let rows: Vec<(i64,)> = on!(&mut self.reader(draft.tenant).await?, |db| async {
            let mut query = sort_keys(draft, range.clone());
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let taken: Vec<i64> = rows.into_iter().map(|(sort_key,)| sort_key).collect();
        let are_all = activity::clamped(taken.len() as u64) < SEARCHED_SORT_KEYS;
        Ok(sort_key::free_among(range, &taken, are_all, most))
    }
}

/// Writes the statement that reads the sort keys that are taken in a range.
fn sort_keys<DB: Dialect>(draft: &Draft, range: Range<i64>) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT sort_key FROM changes WHERE sort_key >= ");
    DB::bind(&mut query, range.start.into());
    query.push(" AND sort_key < ");
    DB::bind(&mut query, range.end.into());
    if !DB::ONE_LIST {
        query.push(" AND organization_id = ");
        DB::bind(&mut query, draft.tenant.uuid().into());
    }
    query
        .push(" ORDER BY sort_key LIMIT ")
        .push(SEARCHED_SORT_KEYS);
    query
}

fn taken<DB: Dialect>(creation: &Creation) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT c.sort_key FROM (");
    let sort_keys = creation.drafts.iter();
    push_values(
        &mut query,
        sort_keys.map(|draft| [draft.tenant.uuid().into(), draft.sort_key.into()]),
    );
    query.push(") AS wanted JOIN changes c ON c.sort_key = wanted.column2");
    if !DB::ONE_LIST {
        query.push(" AND c.organization_id = wanted.column1");
    }
    query
}

/// Writes the statements that record changes.
fn script<DB: SearchDialect>(
    mut script: Script<DB>,
    fresh: &[&Creation],
    expired: &[Stored],
    slot: i64,
) -> Script<DB> {
    idempotency::push(
        &mut script,
        fresh.iter().filter_map(|one| {
            let now = one.drafts.first()?.now.into();
            Some((one.claim.as_ref()?, &one.answer, now))
        }),
        expired,
    );
    let drafts: Vec<&Draft> = fresh.iter().flat_map(|one| &one.drafts).collect();
    let rows: Vec<Kept<'_>> = drafts.iter().map(|draft| draft.kept()).collect();
    super::push_new(&mut script, &rows, slot);
    let entries: Vec<_> = drafts
        .iter()
        .map(|draft| {
            let entry = Entry {
                action: Action::Created,
                resource_type: ResourceType::Change,
                resource_id: draft.id.0,
                label: &draft.new.title,
                metadata: draft.metadata.clone(),
            };
            NewEntry::new(
                draft.tenant,
                draft.activity_id,
                &draft.actor,
                entry,
                draft.now,
            )
        })
        .collect();
    activity::push(&mut script, &entries);
    script
}
