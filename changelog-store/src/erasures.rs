//! Erasing people: in everything that an organization has recorded, a pseudonym takes the place
//! of a person's name, and the account is deleted unless it belongs to other organizations.
//!
//! Like a run of [`retention`](super::retention), an erasure is made of steps, each a short
//! transaction. It goes through everything twice: what was being written when it began, or was
//! moved to where it had been, is found by the second time.

use changelog_core::user::fold_email;
use changelog_core::{Action, FurtherNames, ResourceType, Role, Timestamp, UserId, erasure};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Map, Value};
use sqlx::FromRow;
use sqlx::types::{Json, Uuid};

use super::activity::Entry;
use super::engine::{execute, on, read};
use super::{Actor, Database, StoreError, Tenant, Tx, actors};

/// How long after a step another process goes on with the run, if the one that began it does not.
const LEASE: TimeDelta = TimeDelta::minutes(2);

/// The rows that one step reads.
const ROWS_PER_STEP: i64 = 500;

/// The account, if it belongs or belonged to the organization. An account without any membership
/// counts only if it appears in the organization's activity log ($3 is 1).
const SELECT_ACCOUNT: &str = "
SELECT u.name, u.email FROM users u WHERE u.id = $2 AND (u.vouched_by = $1
    OR EXISTS (SELECT 1 FROM memberships m WHERE m.user_id = u.id AND m.organization_id = $1)
    OR ($3 = 1 AND NOT EXISTS (SELECT 1 FROM memberships m WHERE m.user_id = u.id)))";

const SELECT_ACTOR: &str = "
SELECT actor_name FROM activity_actors WHERE organization_id = $1 AND actor_key = $2";

const SELECT_BY_EMAIL: &str = "
SELECT u.id FROM users u WHERE u.email_folded = $2 AND (u.vouched_by = $1
    OR EXISTS (SELECT 1 FROM memberships m WHERE m.user_id = u.id AND m.organization_id = $1)
    OR (u.vouched_by IS NULL AND NOT EXISTS (SELECT 1 FROM memberships m WHERE m.user_id = u.id)))
ORDER BY u.created_at, u.id LIMIT 2";

const INSERT: &str = "
INSERT INTO erasures (organization_id, user_id, names, due_at, stage, place, replaced)
VALUES ($1, $2, $3, $4, 0, '', 0)
ON CONFLICT (organization_id, user_id) DO UPDATE
SET names = excluded.names, due_at = excluded.due_at, stage = 0, place = '', replaced = 0";

/// What a run that was begun before has still to replace.
const SELECT_NAMES: &str = "SELECT names FROM erasures WHERE organization_id = $1 AND user_id = $2";

const SELECT_DUE: &str = "
SELECT organization_id, user_id, names, due_at, stage, place, replaced FROM erasures
WHERE due_at IS NOT NULL AND due_at <= $1 ORDER BY due_at LIMIT 100";

/// Only the process that has seen the run at its last time goes on with it.
const ADVANCE: &str = "
UPDATE erasures SET due_at = $4, stage = $5, place = $6, replaced = $7
WHERE organization_id = $1 AND user_id = $2 AND due_at = $3";

/// The names are needed no longer.
const END: &str = "
UPDATE erasures SET due_at = NULL, names = '[]'
WHERE organization_id = $1 AND user_id = $2 AND due_at = $3";

/// What names those who made something: the organization, the name, and the pseudonym.
const MADE_OF_ACCOUNTS: [&str; 4] = [
    "UPDATE api_keys SET created_by = $3 WHERE organization_id = $1 AND created_by = $2",
    "UPDATE workloads SET created_by = $3 WHERE organization_id = $1 AND created_by = $2",
    "UPDATE invitations SET invited_by = $3 WHERE organization_id = $1 AND invited_by = $2",
    "UPDATE sso_providers SET emergency_used_by = $3
     WHERE organization_id = $1 AND emergency_used_by = $2",
];

/// The same, of what is where the organization's records are.
const MADE: [&str; 2] = [
    "UPDATE sources SET created_by = $3 WHERE organization_id = $1 AND created_by = $2",
    "UPDATE connections SET created_by = $3 WHERE organization_id = $1 AND created_by = $2",
];

/// What belongs to the person in this organization: its id and that of the user.
const DELETE: [&str; 2] = [
    "DELETE FROM sso_identities WHERE organization_id = $1 AND user_id = $2",
    "DELETE FROM invitations WHERE organization_id = $1
         AND email_folded = (SELECT email_folded FROM users WHERE id = $2)",
];

const DELETE_VIEWS: &str = "DELETE FROM saved_views WHERE organization_id = $1 AND owner = $2";

/// An account that nobody knows any more.
const DELETE_ACCOUNT: [&str; 2] = [
    "DELETE FROM known_browsers WHERE user_id = $1
         AND NOT EXISTS (SELECT 1 FROM memberships WHERE user_id = $1)",
    "DELETE FROM users WHERE id = $1
         AND NOT EXISTS (SELECT 1 FROM memberships WHERE user_id = $1)
         AND NOT EXISTS (SELECT 1 FROM sso_identities WHERE user_id = $1)",
];

const SELECT_ENTRIES: &str = "
SELECT id, actor_id, actor_name, resource_id, resource_label, metadata, address FROM activity
WHERE organization_id = $1 AND resource_type = $2 AND id > $3 ORDER BY id LIMIT $4";

const UPDATE_ENTRY: &str = "
UPDATE activity SET actor_name = $4, resource_label = $5, metadata = $6, address = $7
WHERE organization_id = $1 AND resource_type = $2 AND id = $3";

const LAST_CHANGE: &str = "
SELECT max(sort_key) FROM (SELECT sort_key FROM changes
    WHERE organization_id = $1 AND sort_key > $2 ORDER BY sort_key LIMIT $3) AS page";

const UPDATE_CHANGES: &str = "
UPDATE changes SET document = replace(document, $4, $5)
WHERE organization_id = $1 AND sort_key > $2 AND sort_key <= $3
    AND replace(document, $4, $5) <> document";

const LAST_INCIDENT: &str = "
SELECT id FROM (SELECT id FROM incidents
    WHERE organization_id = $1 AND id > $2 ORDER BY id LIMIT $3) AS page
ORDER BY id DESC LIMIT 1";

const UPDATE_INCIDENTS: &str = "
UPDATE incidents SET document = replace(document, $4, $5), suspects = replace(suspects, $4, $5)
WHERE organization_id = $1 AND id > $2 AND id <= $3
    AND (replace(document, $4, $5) <> document OR replace(suspects, $4, $5) <> suspects)";

/// The members of the JSON of changes and incidents that name people as text.
const NAMING: [&str; 3] = ["on_behalf_of", "marked_by", "actor"];

/// What one stage of a run goes through.
enum Stage {
    Account,
    Makers,
    Entries(&'static str),
    Changes,
    Incidents,
    End,
}

impl Stage {
    /// Returns the stage of a number: twice all of them, and then the end.
    fn of(number: i64) -> Self {
        let types = ResourceType::WORDS;
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let length = types.len() + 4;
        if number >= 2 * length {
            return Self::End;
        }
        match number % length {
            0 => Self::Account,
            1 => Self::Makers,
            2 => Self::Changes,
            3 => Self::Incidents,
            other => Self::Entries(types[other - 4]),
        }
    }
}

#[derive(FromRow)]
struct Row {
    organization_id: Uuid,
    user_id: Uuid,
    names: Json<Vec<String>>,
    due_at: i64,
    stage: i64,
    place: String,
    replaced: i64,
}

#[derive(FromRow)]
struct EntryRow {
    id: Uuid,
    actor_id: Option<Uuid>,
    actor_name: String,
    resource_id: Uuid,
    resource_label: String,
    metadata: Json<Value>,
    address: Option<String>,
}

/// A run that erases a person.
#[derive(Clone, Debug)]
pub struct ErasureRun {
    /// The organization.
    pub tenant: Tenant,
    /// What the person is called now.
    pub pseudonym: String,
    /// In how many records a name was replaced so far.
    pub replaced: u64,
    person: UserId,
    names: Vec<String>,
    due_at: i64,
    stage: i64,
    /// The key of the last row that the stage has read, empty at its beginning.
    place: String,
}

impl From<Row> for ErasureRun {
    fn from(row: Row) -> Self {
        let person = UserId(row.user_id);
        Self {
            tenant: Tenant(row.organization_id.into()),
            pseudonym: erasure::pseudonym(person),
            replaced: row.replaced.unsigned_abs(),
            person,
            names: row.names.0,
            due_at: row.due_at,
            stage: row.stage,
            place: row.place,
        }
    }
}

impl Database {
    /// Finds the accounts of an address that are or were of an organization: at most two.
    pub async fn people_by_email(
        &self,
        tenant: Tenant,
        email: &str,
    ) -> Result<Vec<UserId>, StoreError> {
        let rows: Vec<(Uuid,)> = read!(self.system().await?, |db| {
            sqlx::query_as(SELECT_BY_EMAIL)
                .bind(tenant.uuid())
                .bind(fold_email(email))
                .fetch_all(&mut **db)
        })?;
        Ok(rows.into_iter().map(|(id,)| UserId(id)).collect())
    }

    /// Lists the erasures that are due.
    pub async fn due_erasures(&self, now: Timestamp) -> Result<Vec<ErasureRun>, StoreError> {
        let rows: Vec<Row> = read!(self.system().await?, |db| {
            sqlx::query_as(SELECT_DUE)
                .bind(now.millis())
                .fetch_all(&mut **db)
        })?;
        Ok(rows.into_iter().map(ErasureRun::from).collect())
    }

    /// Begins to erase a person: removes them, if they are a member, and records it without the
    /// name. The names are replaced by [`Self::erasure_step`].
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the organization does not know the person; otherwise as
    /// [`Tx::remove_member`].
    pub async fn erase_person(
        &self,
        tenant: Tenant,
        actor: &Actor,
        (by, person): (&Role, UserId),
        also: FurtherNames,
        now: DateTime<Utc>,
    ) -> Result<ErasureRun, StoreError> {
        let acted_as: Option<(String,)> = read!(self.point_reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_ACTOR)
                .bind(tenant.uuid())
                .bind(person.to_string())
                .fetch_optional(&mut **db)
        })?;
        let mut tx = self.begin().await?;
        let account: Option<(String, String)> = on!(&mut tx.connection, |db| {
            sqlx::query_as(SELECT_ACCOUNT)
                .bind(tenant.uuid())
                .bind(person.0)
                .bind(i64::from(acted_as.is_some()))
                .fetch_optional(&mut **db)
        })?;
        match tx.remove_member(tenant, actor, by, person, now).await {
            Err(StoreError::NotFound) if acted_as.is_some() || account.is_some() => {}
            removed => removed?,
        }
        let unfinished: Option<(Json<Vec<String>>,)> = on!(&mut tx.connection, |db| {
            sqlx::query_as(SELECT_NAMES)
                .bind(tenant.uuid())
                .bind(person.0)
                .fetch_optional(&mut **db)
        })?;
        let pseudonym = erasure::pseudonym(person);
        let mut names = also.into_vec();
        names.extend(unfinished.into_iter().flat_map(|(Json(names),)| names));
        names.extend(acted_as.map(|(name,)| name));
        if let Some((name, email)) = account {
            names.extend([name, fold_email(&email), email]);
        }
        names.sort();
        names.dedup();
        names.retain(|name| *name != pseudonym);
        let run = ErasureRun {
            tenant,
            replaced: 0,
            person,
            names,
            due_at: now.timestamp_millis(),
            stage: 0,
            place: String::new(),
            pseudonym,
        };
        execute!(
            tx,
            sqlx::query(INSERT)
                .bind(tenant.uuid())
                .bind(person.0)
                .bind(Json(&run.names))
                .bind(run.due_at)
        )?;
        let entry = Entry {
            action: Action::Deleted,
            resource_type: ResourceType::Member,
            resource_id: person.0,
            label: &run.pseudonym,
            metadata: Map::new(),
        };
        tx.record_pending(tenant, actor, entry, now).await?;
        tx.commit().await?;
        Ok(run)
    }

    /// Replaces the names in a few records, and returns how the run goes on; `None` if it has
    /// ended, or another process goes on with it. What was replaced and how far the run has come
    /// are two transactions, because they may be on two servers: a step may be repeated, and
    /// replaces nothing then.
    pub async fn erasure_step(
        &self,
        run: ErasureRun,
        now: DateTime<Utc>,
    ) -> Result<Option<ErasureRun>, StoreError> {
        let stage = Stage::of(run.stage);
        if matches!(stage, Stage::Account) {
            // The entries of the removal: they are found in the log.
            self.move_pending_activity().await?;
        }
        let mut tx = match stage {
            Stage::Account | Stage::End => self.begin().await?,
            _ => self.begin_for(run.tenant).await?,
        };
        let (replaced, place) = match stage {
            Stage::Account => tx.erase_account(&run).await?,
            Stage::Makers => tx.erase_makers(&run).await?,
            Stage::Changes => tx.erase_in_changes(&run).await?,
            Stage::Incidents => tx.erase_in_incidents(&run).await?,
            Stage::Entries(resource_type) => tx.erase_in_entries(&run, resource_type).await?,
            Stage::End => {
                execute!(
                    tx,
                    sqlx::query(END)
                        .bind(run.tenant.uuid())
                        .bind(run.person.0)
                        .bind(run.due_at)
                )?;
                tx.commit().await?;
                return Ok(None);
            }
        };
        tx.commit().await?;
        let next = ErasureRun {
            replaced: run.replaced + replaced,
            stage: run.stage + i64::from(place.is_none()),
            place: place.unwrap_or_default(),
            // Later than what it was, whatever the clock says.
            due_at: Timestamp::from(now)
                .plus(LEASE)
                .millis()
                .max(run.due_at + 1),
            ..run
        };
        let mut tx = self.begin().await?;
        let advanced = execute!(
            tx,
            sqlx::query(ADVANCE)
                .bind(next.tenant.uuid())
                .bind(next.person.0)
                .bind(run.due_at)
                .bind(next.due_at)
                .bind(next.stage)
                .bind(&next.place)
                .bind(next.replaced.cast_signed())
        )?;
        tx.commit().await?;
        Ok((advanced > 0).then_some(next))
    }
}

/// What a step has done: in how many records a name was replaced, and the key of the last row that
/// it has read, `None` at the end of the stage.
type Step = (u64, Option<String>);

impl Tx {
    /// Replaces the names in what belongs to accounts, and deletes the account.
    async fn erase_account(&mut self, run: &ErasureRun) -> Result<Step, StoreError> {
        let (organization, person) = (run.tenant.uuid(), run.person.0);
        self.replace_makers(run, &MADE_OF_ACCOUNTS).await?;
        for statement in DELETE {
            execute!(self, sqlx::query(statement).bind(organization).bind(person))?;
        }
        for statement in DELETE_ACCOUNT {
            execute!(self, sqlx::query(statement).bind(person))?;
        }
        Ok((0, None))
    }

    /// Replaces the names in what else there is little of, and deletes the person's views.
    async fn erase_makers(&mut self, run: &ErasureRun) -> Result<Step, StoreError> {
        self.replace_makers(run, &MADE).await?;
        self.rename_actor(run.tenant, run.person, &run.pseudonym)
            .await?;
        execute!(
            self,
            sqlx::query(DELETE_VIEWS)
                .bind(run.tenant.uuid())
                .bind(run.person.to_string())
        )?;
        Ok((0, None))
    }

    async fn replace_makers(
        &mut self,
        run: &ErasureRun,
        statements: &[&'static str],
    ) -> Result<(), StoreError> {
        for name in &run.names {
            for statement in statements {
                execute!(
                    self,
                    sqlx::query(*statement)
                        .bind(run.tenant.uuid())
                        .bind(name)
                        .bind(&run.pseudonym)
                )?;
            }
        }
        Ok(())
    }

    async fn erase_in_changes(&mut self, run: &ErasureRun) -> Result<Step, StoreError> {
        let from: i64 = run.place.parse().unwrap_or(i64::MIN);
        let (last,): (Option<i64>,) = on!(&mut self.connection, |db| {
            sqlx::query_as(LAST_CHANGE)
                .bind(run.tenant.uuid())
                .bind(from)
                .bind(ROWS_PER_STEP)
                .fetch_one(&mut **db)
        })?;
        let Some(last) = last else {
            return Ok((0, None));
        };
        let mut replaced = 0;
        for (named, pseudonym) in run.replacements() {
            replaced += execute!(
                self,
                sqlx::query(UPDATE_CHANGES)
                    .bind(run.tenant.uuid())
                    .bind(from)
                    .bind(last)
                    .bind(named)
                    .bind(pseudonym)
            )?;
        }
        Ok((replaced, Some(last.to_string())))
    }

    async fn erase_in_incidents(&mut self, run: &ErasureRun) -> Result<Step, StoreError> {
        let from: Uuid = run.place.parse().unwrap_or_default();
        let last: Option<(Uuid,)> = on!(&mut self.connection, |db| {
            sqlx::query_as(LAST_INCIDENT)
                .bind(run.tenant.uuid())
                .bind(from)
                .bind(ROWS_PER_STEP)
                .fetch_optional(&mut **db)
        })?;
        let Some((last,)) = last else {
            return Ok((0, None));
        };
        let mut replaced = 0;
        for (named, pseudonym) in run.replacements() {
            replaced += execute!(
                self,
                sqlx::query(UPDATE_INCIDENTS)
                    .bind(run.tenant.uuid())
                    .bind(from)
                    .bind(last)
                    .bind(named)
                    .bind(pseudonym)
            )?;
        }
        Ok((replaced, Some(last.to_string())))
    }

    async fn erase_in_entries(
        &mut self,
        run: &ErasureRun,
        resource_type: &str,
    ) -> Result<Step, StoreError> {
        let from: Uuid = run.place.parse().unwrap_or_default();
        let rows: Vec<EntryRow> = on!(&mut self.connection, |db| {
            sqlx::query_as(SELECT_ENTRIES)
                .bind(run.tenant.uuid())
                .bind(resource_type)
                .bind(from)
                .bind(ROWS_PER_STEP)
                .fetch_all(&mut **db)
        })?;
        let last = rows.last().map(|row| row.id.to_string());
        let names_people = [ResourceType::Member, ResourceType::Sso]
            .iter()
            .any(|one| one.as_str() == resource_type);
        let mut replaced = 0;
        for mut row in rows {
            if run.erase_in_entry(&mut row, names_people) {
                replaced += execute!(
                    self,
                    sqlx::query(UPDATE_ENTRY)
                        .bind(run.tenant.uuid())
                        .bind(resource_type)
                        .bind(row.id)
                        .bind(&row.actor_name)
                        .bind(&row.resource_label)
                        .bind(&row.metadata)
                        .bind(&row.address)
                )?;
            }
        }
        Ok((replaced, last))
    }
}

impl ErasureRun {
    fn is_name(&self, text: &str) -> bool {
        self.names.iter().any(|name| name == text)
    }

    /// Returns what is replaced in the JSON of changes and incidents, and by what. A quotation
    /// mark within a string is escaped, so that none of it is found within a string.
    fn replacements(&self) -> impl Iterator<Item = (String, String)> {
        let quoted = |text: &str| Value::from(text).to_string();
        let texts = self.names.iter().flat_map(move |name| {
            NAMING.map(|member| {
                let with = |text: &str| format!("\"{member}\":{}", quoted(text));
                (with(name), with(&self.pseudonym))
            })
        });
        let authors = self.names.iter().map(|name| {
            let author = |name: &str| actors::reference(self.person.0, name);
            (author(name), author(&self.pseudonym))
        });
        texts.chain(authors)
    }

    /// Replaces the names in an entry, of resources that `names_people`: that are called as
    /// people are, or by their addresses. Returns whether there were any.
    fn erase_in_entry(&self, row: &mut EntryRow, names_people: bool) -> bool {
        let mut erased = false;
        if row.actor_id == Some(self.person.0) && row.actor_name != self.pseudonym {
            row.actor_name.clone_from(&self.pseudonym);
            row.address = None;
            erased = true;
        }
        let is_about = row.resource_id == self.person.0;
        let is_labelled = is_about || (names_people && self.is_name(&row.resource_label));
        if is_labelled && row.resource_label != self.pseudonym {
            row.resource_label.clone_from(&self.pseudonym);
            erased = true;
        }
        // What the identity provider calls the person.
        if is_about
            && let Some(subject) = row.metadata.0.get_mut("subject")
            && *subject != self.pseudonym
        {
            *subject = self.pseudonym.as_str().into();
            erased = true;
        }
        self.erase_in(&mut row.metadata.0) | erased
    }

    /// Replaces the strings of a value that are names; returns whether there were any.
    fn erase_in(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) if self.is_name(text) => {
                text.clone_from(&self.pseudonym);
                true
            }
            Value::Array(values) => values
                .iter_mut()
                .fold(false, |erased, value| self.erase_in(value) | erased),
            Value::Object(members) => members
                .values_mut()
                .fold(false, |erased, value| self.erase_in(value) | erased),
            _ => false,
        }
    }
}
