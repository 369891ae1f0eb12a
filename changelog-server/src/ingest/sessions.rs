//! Sessions of calls: adds calls to them, ends those whose pause is over, and joins two that a
//! late call shows to be one.

use changelog_core::{ChangeId, Timestamp};
use changelog_sources::{Call, CallProgress, Operation};
use chrono::TimeDelta;

use super::apply::{Applied, Origin};
use super::changes::{FIRST_LOOK, create, update};
use super::edits::is_unedited;
use super::runs;
use crate::app::App;
use crate::store::{DueSession, StoreError, StoredOperation, Tx, hash_of};

/// How long the run that may explain an ended session is looked for: `chlog` may keep a run for
/// as long while the service is unavailable.
const RUNS_LOOKED_FOR: TimeDelta = TimeDelta::hours(24);

/// Adds a call to the run that explains it or to its session, or begins one.
pub(super) async fn apply_call(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    call: Call,
) -> Result<Applied, StoreError> {
    let id = hash_of(&call.id);
    let session = hash_of(call.session());
    let counted = tx.change_of_call(&origin.source, &id).await?;
    if call.progress == CallProgress::Failed {
        return fail(app, tx, origin, &session, &call, counted).await;
    }
    if let Some(change) = counted {
        return Ok(Applied::Known(Some(change)));
    }
    let applied = if let Some(run) = runs::of_call(tx, origin, &call).await? {
        runs::attach(app, tx, origin, call, &run).await?
    } else {
        add(app, tx, origin, session, call).await?
    };
    if let Applied::Created(change) | Applied::Updated(change) | Applied::Known(Some(change)) =
        &applied
    {
        tx.add_call(&origin.source, &id, *change, app.now().into())
            .await?;
    }
    Ok(applied)
}

/// Records that a call failed. One that was never accepted changed nothing.
async fn fail(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    session: &[u8],
    call: &Call,
    counted: Option<ChangeId>,
) -> Result<Applied, StoreError> {
    let Some(change) = counted else {
        return Ok(Applied::Known(None));
    };
    let sessions = tx.sessions_at(&origin.source, session, call.at).await?;
    match sessions.into_iter().next() {
        Some(mut stored) => {
            let before = stored.operation.clone();
            stored.operation.fail_call();
            update(app, tx, origin, stored, &before).await
        }
        // It is of a run, whose change says how it ended.
        None => Ok(Applied::Known(Some(change))),
    }
}

async fn add(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    session: Vec<u8>,
    call: Call,
) -> Result<Applied, StoreError> {
    let mut known = tx
        .sessions_at(&origin.source, &session, call.at)
        .await?
        .into_iter();
    let Some(first) = known.next() else {
        let key = hash_of(format!("{}\n{}", call.session(), call.at.millis()));
        let created = create(app, tx, origin, key, Some(session), call.into()).await?;
        return Ok(Applied::Created(created));
    };
    let (mut stored, joined) = match known.next() {
        Some(second) => join(app, tx, origin, first, second).await?,
        None => (first, None),
    };
    let before = stored.operation.clone();
    if let Some(joined) = joined {
        stored.operation.join(joined);
    }
    stored.operation.add_call(call);
    update(app, tx, origin, stored, &before).await
}

/// Joins two sessions: the change that was made later goes, unless a person has edited it, and
/// what is known of it is returned with the session that stays.
async fn join(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    first: StoredOperation,
    second: StoredOperation,
) -> Result<(StoredOperation, Option<Operation>), StoreError> {
    let tenant = origin.source.tenant;
    let made = [
        tx.change_for_update(tenant, first.change).await?,
        tx.change_for_update(tenant, second.change).await?,
    ]
    .map(|change| change.map(|change| change.created_at));
    // A change that a person has deleted does not replace another one.
    let first_stays = match made {
        [Some(one), Some(other)] => one <= other,
        [one, _] => one.is_some(),
    };
    let (stays, goes) = if first_stays {
        (first, second)
    } else {
        (second, first)
    };
    if replace(app, tx, origin, &goes, stays.change).await? {
        return Ok((stays, Some(goes.operation)));
    }
    if replace(app, tx, origin, &stays, goes.change).await? {
        return Ok((goes, Some(stays.operation)));
    }
    // People have edited both.
    Ok((stays, None))
}

/// Deletes the change of a session, and the session, as another change has its calls. Returns
/// false and does nothing if a person has edited it.
pub(super) async fn replace(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    goes: &StoredOperation,
    into: ChangeId,
) -> Result<bool, StoreError> {
    let now = app.now();
    let shown = origin.shown(&goes.operation, now.into());
    let is_gone = tx
        .join_change(
            origin.source.tenant,
            &origin.actor,
            (goes.change, into),
            |change| is_unedited(change, &shown, now.into()),
            now,
        )
        .await?;
    if is_gone {
        tx.delete_operation(&origin.source, &goes.key).await?;
    }
    Ok(is_gone)
}

/// Ends a session whose pause is over, and lets the run that explains an ended one have it.
pub(super) async fn attend(
    app: &App,
    tx: &mut Tx,
    origin: Option<Origin>,
    due: &DueSession,
) -> Result<(), StoreError> {
    let Some(origin) = origin else {
        return tx.postpone_session(due, None).await;
    };
    let Some(mut stored) = tx.operation(&origin.source, &due.key).await? else {
        return Ok(());
    };
    let now: Timestamp = app.now().into();
    // It may have gone on since it was found.
    if stored.operation.closes_at().is_some_and(|at| at >= now) {
        return Ok(());
    }
    let before = stored.operation.clone();
    if stored.operation.close() {
        update(app, tx, &origin, stored.clone(), &before).await?;
    }
    if !stored.operation.may_be_of_run() {
        return tx.postpone_session(due, None).await;
    }
    match runs::of(tx, &origin, &stored.operation).await? {
        Some(run) if runs::explain(app, tx, &origin, &stored, &run).await? => Ok(()),
        // A person has edited its change, which stays.
        Some(_) => tx.postpone_session(due, None).await,
        None => {
            let age = now.to_datetime() - due.updated_at.to_datetime();
            let again = (age < RUNS_LOOKED_FOR).then(|| now.plus(FIRST_LOOK.max(age / 2)));
            tx.postpone_session(due, again).await
        }
    }
}
