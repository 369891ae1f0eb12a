//! Runs of Terraform that are recorded as changes of their own explain the calls that Terraform
//! made meanwhile: these are attached to the run's change, and are no change of their own.

use changelog_core::limits::MAX_LONG_TEXT_CHARS;
use changelog_core::{Change, ChangeId, ChangePatch};
use changelog_sources::{Call, Operation, SESSION_PAUSE};

use super::apply::{Applied, Origin};
use super::changes::put;
use super::sessions::replace;
use crate::app::App;
use crate::store::{StoreError, StoredOperation, Tx, hash_of};

/// Finds the run that explains a call.
pub(super) async fn of_call(
    tx: &mut Tx,
    origin: &Origin,
    call: &Call,
) -> Result<Option<Change>, StoreError> {
    if !call.tool.is_terraform() {
        return Ok(None);
    }
    of(tx, origin, &Operation::from(call.clone())).await
}

/// Finds the run that explains the calls of a session. Of several, it is one that was under way
/// and not only near in time, then one of the same environment and service, then the one that was
/// started last. A run in another environment explains nothing.
pub(super) async fn of(
    tx: &mut Tx,
    origin: &Origin,
    session: &Operation,
) -> Result<Option<Change>, StoreError> {
    let (first, last) = session.span();
    let runs = tx.runs_at(origin.source.tenant, first..last, SESSION_PAUSE);
    let runs = runs.await?.into_iter();
    let environment = session.environment(&origin.source.settings);
    let fitting = runs.filter_map(|run| {
        let is_same_environment = match (&run.environment, &environment) {
            (Some(one), Some(other)) if one != other => return None,
            (one, other) => one.is_some() && one == other,
        };
        let has_service = |name: &String| {
            let mut services = run.all_services().iter();
            services.any(|service| service.name.eq_ignore_ascii_case(name))
        };
        let fit = usize::from(is_same_environment)
            + usize::from(session.services().iter().any(has_service));
        let started = run.effective_at();
        let was_under_way = started <= last && run.ended_at.is_none_or(|ended| first <= ended);
        Some(((was_under_way, fit, started), run))
    });
    let best = fitting.max_by_key(|(rank, _)| *rank);
    Ok(best.map(|(_, run)| run))
}

/// Attaches a call to the run that explains it, and the session to which it would belong.
pub(super) async fn attach(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    call: Call,
    run: &Change,
) -> Result<Applied, StoreError> {
    let session = call.session();
    let known = tx
        .sessions_at(&origin.source, &hash_of(&session), call.at)
        .await?;
    for stored in known {
        // The run was heard of after the first calls.
        explain(app, tx, origin, &stored, run).await?;
    }
    let key = key_of(&hash_of(&session), run.id);
    let calls = Operation::from(call.clone());
    match tx.operation(&origin.source, &key).await? {
        Some(mut stored) => {
            let before = stored.operation.clone();
            stored.operation.add_call(call);
            tell(app, tx, origin, stored, Some(&before)).await
        }
        None => begin(app, tx, origin, key, calls, run.id).await,
    }
}

/// Attaches the calls of a session to the run that explains them; the session's own change goes.
/// Returns false and does nothing if a person has edited it.
pub(super) async fn explain(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    stored: &StoredOperation,
    run: &Change,
) -> Result<bool, StoreError> {
    let Some(session) = &stored.session else {
        return Ok(false);
    };
    // Operations are locked before changes are.
    let key = key_of(session, run.id);
    let attached = tx.operation(&origin.source, &key).await?;
    if !replace(app, tx, origin, stored, run.id).await? {
        return Ok(false);
    }
    let calls = stored.operation.clone();
    match attached {
        Some(mut attached) => {
            let before = attached.operation.clone();
            attached.operation.join(calls);
            tell(app, tx, origin, attached, Some(&before)).await?;
        }
        None => {
            begin(app, tx, origin, key, calls, run.id).await?;
        }
    }
    Ok(true)
}

/// Returns what the calls of a session that a run explains are stored under.
fn key_of(session: &[u8], run: ChangeId) -> Vec<u8> {
    let mut name = format!("run {run} ").into_bytes();
    name.extend_from_slice(session);
    hash_of(&name)
}

async fn begin(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    key: Vec<u8>,
    mut calls: Operation,
    run: ChangeId,
) -> Result<Applied, StoreError> {
    calls.attach_to_run();
    let stored = StoredOperation {
        key,
        session: None,
        change: run,
        operation: calls,
    };
    tell(app, tx, origin, stored, None).await
}

/// Stores the calls that a run explains, and has the run's change say how many there are.
async fn tell(
    app: &App,
    tx: &mut Tx,
    origin: &Origin,
    stored: StoredOperation,
    before: Option<&Operation>,
) -> Result<Applied, StoreError> {
    put(app, tx, origin, &stored).await?;
    let line = |calls: &Operation| {
        let calls = calls.calls()?;
        Some(format!("{calls}, seen by {}", origin.source.name))
    };
    let (was, is) = (before.and_then(line), line(&stored.operation));
    let updated = tx
        .update_change_by(
            origin.source.tenant,
            &origin.actor,
            stored.change,
            |run| {
                let text = run.description.as_deref().unwrap_or_default();
                let text = is.and_then(|is| with_line(text, was.as_deref(), &is));
                Ok(ChangePatch {
                    description: text.map(Some),
                    ..ChangePatch::default()
                })
            },
            &app.clock,
        )
        .await;
    match updated {
        Ok(_) => Ok(Applied::Updated(stored.change)),
        // The run was deleted.
        Err(StoreError::NotFound) => Ok(Applied::Known(None)),
        Err(error) => Err(error),
    }
}

/// Returns a description with a line in place of the one that it had; `None` if a person has
/// removed that, or if there is no room for it.
fn with_line(text: &str, was: Option<&str>, is: &str) -> Option<String> {
    let text = match was {
        None if text.is_empty() => is.to_owned(),
        None => format!("{}\n\n{is}", text.trim_end()),
        Some(was) => {
            let mut lines: Vec<&str> = text.split('\n').collect();
            let line = lines.iter_mut().rev().find(|line| **line == was)?;
            *line = is;
            lines.join("\n")
        }
    };
    (text.chars().count() <= MAX_LONG_TEXT_CHARS).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_has_one_line_for_each_session() {
        let one = with_line("", None, "1 call, ec2, seen by AWS").unwrap();
        assert_eq!(one, "1 call, ec2, seen by AWS");
        let two = with_line(&one, None, "1 call, iam, seen by Other").unwrap();
        let is = "2 calls, ec2, seen by AWS";
        let both = with_line(&two, Some("1 call, ec2, seen by AWS"), is).unwrap();
        assert_eq!(
            both,
            "2 calls, ec2, seen by AWS\n\n1 call, iam, seen by Other"
        );
        let edited = with_line("Mine", Some("1 call, ec2, seen by AWS"), is);
        assert_eq!(edited, None);
        let full = "x".repeat(MAX_LONG_TEXT_CHARS);
        assert_eq!(with_line(&full, None, is), None);
    }
}
