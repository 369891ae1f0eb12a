//! Creating changes: requests that wait at the same time are written by the same
//! few statements.
//!
//! A hundred changes together take as many statements as one, at most seven; only
//! the lists of values get longer. What a statement costs by itself (on SQLite two
//! thread switches, on PostgreSQL a round trip) is shared. Everything that can be
//! prepared without the database is prepared before, in [`Draft`].

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use changelog_core::{ChangeCreated, HostId, ServiceId, Timestamp, ViolationCode, Violations};
use sqlx::QueryBuilder;
use sqlx::types::Uuid;

use super::draft::Draft;
use super::row::{self, ChangeRow};
use crate::activity::{self, NewEntry};
use crate::actors::{self, NewActor};
use crate::database::NewRows;
use crate::engine::{
    BatchLimits, Batcher, Dialect, Engine, Results, Script, on, push_organization, push_values,
};
use crate::events;
use crate::idempotency::{self, IdempotencyRow, KeyState, KeyedRequest, Outcome};
use crate::index::search::SearchDialect;
use crate::{Actor, Database, StoreError, Tenant, Tx, services};

/// The limit on changes that one transaction creates, unless one request has more.
/// Such a transaction makes other writers wait for about ten milliseconds.
const MAX_CHANGES_PER_BATCH: usize = 128;
/// The limit on changes whose statements are joined into one, which is kept prepared. Of more,
/// the statements cost less than their rows.
const MAX_CHANGES_JOINED: usize = 16;
/// The limit on attempts at one request whose sort keys are taken.
const MAX_ATTEMPTS: usize = 20;

/// A request to create changes: all of them or none.
#[derive(Debug)]
pub struct Creation {
    pub(super) tenant: Tenant,
    pub(super) drafts: Vec<Draft>,
    request: Option<KeyedRequest>,
    is_list: bool,
}

/// The changes that a [`Creation`] created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// The changes, in the order of the request.
    pub changes: Vec<ChangeCreated>,
    /// Whether an earlier request with the same idempotency key created them.
    pub is_replay: bool,
}

impl Database {
    /// Finds the changes that an earlier request with the same idempotency key and body
    /// created, without creating any.
    ///
    /// # Errors
    /// [`StoreError::KeyReused`] if it had another body.
    pub async fn replayed(
        &self,
        creation: &Creation,
        now: Timestamp,
    ) -> Result<Option<Created>, StoreError> {
        let Some(request) = &creation.request else {
            return Ok(None);
        };
        let mut tx = self.begin_for(creation.tenant).await?;
        let rows = tx.find_keys([request].into_iter()).await?;
        tx.commit().await?;
        match rows.first().filter(|row| row.is_valid_at(now)) {
            Some(row) => creation.replay_of(request, row).map(Some),
            None => Ok(None),
        }
    }
}

impl Creation {
    /// Creates one change. The pointers of its violations start at the change.
    pub fn one(draft: Draft, request: Option<KeyedRequest>) -> Self {
        Self {
            tenant: draft.tenant,
            drafts: vec![draft],
            request,
            is_list: false,
        }
    }

    /// Creates several changes of one organization, at least one. The pointers of
    /// their violations start with the index in the list, such as `/3/host_id`.
    pub fn list(tenant: Tenant, drafts: Vec<Draft>, request: Option<KeyedRequest>) -> Self {
        Self {
            tenant,
            drafts,
            request,
            is_list: true,
        }
    }

    /// Returns the organization.
    pub(crate) fn tenant(&self) -> Tenant {
        self.tenant
    }

    /// Returns where a draft is in the request, as a JSON pointer.
    pub(super) fn pointer(&self, index: usize) -> String {
        if self.is_list {
            format!("/{index}")
        } else {
            String::new()
        }
    }

    fn created(&self) -> Created {
        Created {
            changes: self.drafts.iter().map(Draft::created).collect(),
            is_replay: false,
        }
    }

    /// Returns what the first request with the same key and body created.
    fn replay_of(
        &self,
        request: &KeyedRequest,
        row: &IdempotencyRow,
    ) -> Result<Created, StoreError> {
        match row.state_for(request)? {
            KeyState::Replayed(outcome) => Ok(self.replay(&outcome)),
            _ => Err(StoreError::KeyReused),
        }
    }

    fn replay(&self, outcome: &Outcome) -> Created {
        let mut created = self.created();
        created.is_replay = true;
        if let Outcome::Changes(first) = outcome {
            for (change, first) in created.changes.iter_mut().zip(first) {
                change.id = first.id;
                change.created_at = first.created_at;
            }
        }
        created
    }

    /// Returns what is kept under the idempotency key.
    fn outcome(&self) -> Outcome {
        Outcome::Changes(self.drafts.iter().map(Draft::created_change).collect())
    }
}

/// Makes the batcher of creations.
pub(crate) fn batcher(database: &Database) -> Batcher<Tenant, Creation, Created> {
    let (batches, batches_per_lane) = database.connections.write_batches;
    let joins_scripts = database.connections.joins_scripts;
    let (weight, mixes_lanes) = match &database.connections.writes {
        Engine::Postgres(_) if joins_scripts => (MAX_CHANGES_JOINED, true),
        Engine::Postgres(_) => (MAX_CHANGES_PER_BATCH, false),
        Engine::Sqlite(_) => (MAX_CHANGES_PER_BATCH, true),
    };
    let database = database.clone();
    Batcher::new(
        BatchLimits {
            batches,
            batches_per_lane,
            weight,
            mixes_lanes,
        },
        |creation: &Creation| creation.drafts.len(),
        move |creations| create_batch(database.clone(), creations),
    )
}

/// Runs creations in one transaction. They are first written without any check:
/// keys are usually new, services and hosts exist, and sort keys are free. If the
/// database refuses one, those of each organization are checked and written again.
async fn create_batch(database: Database, creations: Vec<Creation>) -> Results<Created> {
    match database.insert(&creations).await {
        Ok(()) => return Ok(creations.iter().map(|one| Ok(one.created())).collect()),
        Err(error) if may_be_of_one(&error) => {}
        Err(error) => return Err(error),
    }
    let mut by_organization: BTreeMap<Tenant, Vec<(usize, Creation)>> = BTreeMap::new();
    for (number, creation) in creations.into_iter().enumerate() {
        let of_organization = by_organization.entry(creation.tenant).or_default();
        of_organization.push((number, creation));
    }
    let mut answers = BTreeMap::new();
    for of_organization in by_organization.into_values() {
        let (numbers, creations): (Vec<_>, Vec<_>) = of_organization.into_iter().unzip();
        let checked = create_checked(&database, creations).await;
        // Those of other organizations may have been written.
        let checked = checked.unwrap_or_else(|error| vec![Err(error); numbers.len()]);
        answers.extend(numbers.into_iter().zip(checked));
    }
    Ok(answers.into_values().collect())
}

/// Checks creations of one organization, and writes them in one transaction; if the database
/// refuses one, each by itself.
async fn create_checked(database: &Database, creations: Vec<Creation>) -> Results<Created> {
    match check_then_insert(database, &creations).await {
        Err(error) if may_be_of_one(&error) => {}
        answers => return answers,
    }
    let mut answers = Vec::new();
    for creation in creations {
        answers.push(create_one(database, creation).await);
    }
    Ok(answers)
}

async fn create_one(database: &Database, mut creation: Creation) -> Result<Created, StoreError> {
    let mut attempt = 1;
    loop {
        match check_then_insert(database, std::slice::from_ref(&creation)).await {
            Err(error) if breaks_constraint(&error) && attempt < MAX_ATTEMPTS => {
                let mut tx = database.begin_for(creation.tenant).await?;
                tx.replace_taken_ids(&mut creation).await?;
                attempt += 1;
            }
            Err(error) => return Err(error),
            Ok(answers) => {
                let missing = || StoreError::Unavailable("a request got no answer".into());
                return answers.into_iter().next().unwrap_or_else(|| Err(missing()));
            }
        }
    }
}

/// Returns whether a unique or foreign key constraint was broken: that of an
/// idempotency key, a sort key, a service or a host.
fn breaks_constraint(error: &StoreError) -> bool {
    matches!(error, StoreError::Database(cause) if matches!(&**cause, sqlx::Error::Database(cause)
        if cause.is_unique_violation() || cause.is_foreign_key_violation()))
}

/// Returns whether one request among several may have caused an error; none has
/// when the database is unavailable.
fn may_be_of_one(error: &StoreError) -> bool {
    !matches!(
        error,
        StoreError::Unavailable(_) | StoreError::Blocked(_) | StoreError::Uncertain(_)
    )
}

/// Checks requests, and writes those that pass, in one transaction.
async fn check_then_insert(database: &Database, creations: &[Creation]) -> Results<Created> {
    let mut tx = database.begin_batch(tenants_of(creations)).await?;
    let existing = tx.look_up(creations).await?;
    let answers: Vec<_> = creations.iter().map(|one| existing.check(one)).collect();
    let fresh: Vec<&Creation> = creations
        .iter()
        .zip(&answers)
        .filter(|(_, answer)| answer.as_ref().is_ok_and(|created| !created.is_replay))
        .map(|(one, _)| one)
        .collect();
    if !fresh.is_empty() {
        tx.write_changes(&fresh, &existing.expired_keys).await?;
    }
    // Replays too wait for the commit: on SQLite the first request may be an
    // earlier member of the same group, which is not committed yet.
    tx.commit().await?;
    database.notify(&fresh);
    Ok(answers)
}

/// What the database already has of what requests name.
#[derive(Debug, Default)]
struct Lookup {
    keys: Vec<IdempotencyRow>,
    expired_keys: Vec<IdempotencyRow>,
    services: HashSet<(Uuid, Uuid)>,
    hosts: HashSet<(Uuid, Uuid)>,
}

impl Lookup {
    /// Returns what a request created before, or would create.
    fn check(&self, creation: &Creation) -> Result<Created, StoreError> {
        if let Some(request) = &creation.request
            && let Some(row) = self.keys.iter().find(|row| row.is_for(request))
        {
            return creation.replay_of(request, row);
        }
        self.check_references(creation)?;
        Ok(creation.created())
    }

    /// Checks that the services and hosts of drafts exist, and reports all that
    /// do not.
    fn check_references(&self, creation: &Creation) -> Result<(), StoreError> {
        let mut missing = Violations::default();
        let organization = creation.tenant.uuid();
        for (index, draft) in creation.drafts.iter().enumerate() {
            let pointer = creation.pointer(index);
            for (index, id) in draft.change.service_ids.iter().enumerate() {
                if !self.services.contains(&(organization, id.0)) {
                    no_service(&mut missing, &pointer, index, draft.has_service_id, *id);
                }
            }
            if let Some(id) = draft.host_id
                && !self.hosts.contains(&(organization, id.0))
            {
                no_host(&mut missing, &pointer, id);
            }
        }
        Ok(missing.into_result(())?)
    }
}

/// Reports a service that the organization does not have: the one at an index of all
/// services, of which the first may have been given by itself.
pub(super) fn no_service(
    missing: &mut Violations,
    pointer: &str,
    index: usize,
    has_service_id: bool,
    id: ServiceId,
) {
    let pointer = if index == 0 && has_service_id {
        format!("{pointer}/service_id")
    } else {
        format!("{pointer}/service_ids/{index}")
    };
    services::missing_service(missing, pointer, id);
}

/// Reports a host that the organization does not have.
pub(super) fn no_host(missing: &mut Violations, pointer: &str, id: HostId) {
    let message = format!("must be a host of the organization, which has none with the id {id}");
    missing.add(
        format!("{pointer}/host_id"),
        ViolationCode::NotFound,
        message,
    );
}

impl Tx {
    /// Creates one change in this transaction, after what it has done before.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when a service or the host does not exist.
    pub async fn create_change(&mut self, draft: Draft) -> Result<ChangeCreated, StoreError> {
        let mut creation = Creation::one(draft, None);
        // A violation would end the transaction, and with it what was done before.
        self.replace_taken_ids(&mut creation).await?;
        let existing = self.look_up(std::slice::from_ref(&creation)).await?;
        existing.check_references(&creation)?;
        self.write_changes(&[&creation], &[]).await?;
        let created = creation.drafts.first().map(Draft::created);
        let database = self.database.clone();
        self.after_commit.push(Box::pin(async move {
            database.notify(&[&creation]);
        }));
        created.ok_or(StoreError::NotFound)
    }

    async fn look_up(&mut self, creations: &[Creation]) -> Result<Lookup, StoreError> {
        let requests = creations.iter().filter_map(|one| one.request.as_ref());
        let now = creations
            .iter()
            .flat_map(|one| &one.drafts)
            .map(|draft| draft.now);
        let now = now.max().map_or(Timestamp::EPOCH, Timestamp::from);
        let keys = self.find_keys(requests).await?;
        let (keys, expired_keys): (Vec<_>, Vec<_>) =
            keys.into_iter().partition(|row| row.is_valid_at(now));
        let mut services = HashSet::new();
        let mut hosts = HashSet::new();
        for draft in creations.iter().flat_map(|one| &one.drafts) {
            let organization = draft.tenant.uuid();
            services.extend(
                draft
                    .change
                    .service_ids
                    .iter()
                    .map(|id| (organization, id.0)),
            );
            hosts.extend(draft.host_id.map(|id| (organization, id.0)));
        }
        Ok(Lookup {
            keys,
            expired_keys,
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
            let mut query = select_existing(table, &wanted);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        Ok(rows.into_iter().collect())
    }

    async fn write_changes(
        &mut self,
        creations: &[&Creation],
        expired_keys: &[IdempotencyRow],
    ) -> Result<(), StoreError> {
        let actors = self.database.known_actors.unknown(actors_of(creations));
        let slot = self.slot.number();
        self.write(&NewChanges {
            creations,
            expired_keys,
            actors: &actors,
            slot,
        })
        .await?;
        self.new_actors.extend(actors);
        Ok(())
    }
}

impl Database {
    /// Writes creations in one transaction, unchecked.
    async fn insert(&self, creations: &[Creation]) -> Result<(), StoreError> {
        let creations: Vec<&Creation> = creations.iter().collect();
        let changes: usize = creations.iter().map(|one| one.drafts.len()).sum();
        let actors = self.known_actors.unknown(actors_of(&creations));
        let slot = self.count_slots.take(tenants_of(&creations));
        let new = NewChanges {
            creations: &creations,
            expired_keys: &[],
            actors: &actors,
            slot: slot.number(),
        };
        if self
            .write_at_once(&new, changes > MAX_CHANGES_JOINED)
            .await?
        {
            self.known_actors.add(actors);
        } else {
            drop(slot);
            let mut tx = self.begin_batch(tenants_of(&creations)).await?;
            tx.write_changes(&creations, &[]).await?;
            tx.commit().await?;
        }
        self.notify(&creations);
        Ok(())
    }

    /// Reports changes that were committed to the followers of their organizations, and
    /// their events to the worker.
    fn notify(&self, creations: &[&Creation]) {
        let drafts = creations.iter().flat_map(|one| &one.drafts);
        self.notifier.wake_worker(
            drafts
                .clone()
                .filter_map(Draft::event)
                .map(|(tenant, ..)| tenant),
        );
        self.notifier.notify(drafts.map(Draft::creation_entry));
    }
}

/// Selects those of the rows named by organization and id that exist.
fn select_existing<DB: Dialect>(table: &str, wanted: &HashSet<(Uuid, Uuid)>) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT t.organization_id, t.id FROM (");
    let rows = wanted.iter();
    push_values(
        &mut query,
        rows.map(|(organization, id)| [(*organization).into(), (*id).into()]),
    );
    query
        .push(") AS wanted JOIN ")
        .push(table)
        .push(" t ON t.organization_id = wanted.column1 AND t.id = wanted.column2");
    let organization = wanted.iter().next().map(|(organization, _)| *organization);
    push_organization(&mut query, "t.organization_id", organization);
    query
}

/// Returns the organizations of creations, each once.
fn tenants_of<C: Borrow<Creation>>(creations: &[C]) -> BTreeSet<Tenant> {
    creations.iter().map(|one| one.borrow().tenant).collect()
}

/// Returns who creates changes, and in which organizations.
fn actors_of<'c>(creations: &[&'c Creation]) -> impl Iterator<Item = (Tenant, &'c Actor)> {
    let drafts = creations.iter().flat_map(|one| &one.drafts);
    drafts.map(|draft| (draft.tenant, &draft.actor))
}

/// What creations write.
struct NewChanges<'c> {
    creations: &'c [&'c Creation],
    expired_keys: &'c [IdempotencyRow],
    actors: &'c [NewActor],
    slot: i64,
}

impl NewRows for NewChanges<'_> {
    fn script<DB: SearchDialect>(&self, mut script: Script<DB>) -> Script<DB> {
        let outcomes = self.creations.iter().filter_map(|one| {
            let now = one.drafts.first()?.now.into();
            Some((one.request.as_ref()?, one.outcome().to_json(), now))
        });
        idempotency::push(&mut script, outcomes.collect(), self.expired_keys);
        let drafts = self.creations.iter().flat_map(|one| &one.drafts);
        let rows: Vec<ChangeRow<'_>> = drafts.clone().map(Draft::row).collect();
        row::push_new(&mut script, &rows, self.slot);
        let events: Vec<_> = drafts.clone().filter_map(Draft::event).collect();
        events::push_new(&mut script, &events);
        let entries: Vec<NewEntry<'_>> = drafts.map(Draft::entry).collect();
        activity::push(&mut script, &entries);
        actors::push(&mut script, self.actors);
        script
    }
}
