//! Creates that may be sent again: `Idempotency-Key`.

use changelog_core::ProblemCode;
use http::{HeaderName, HeaderValue, header};
use serde::Serialize;
use warp::reply::Response;

use super::caller::Caller;
use crate::app::App;
use crate::store::{Claim, Created, Creation, StoreError, StoredAnswer, Tx};
use crate::web::error::PROBLEM_JSON;
use crate::web::{ApiError, ApiResult, Request, reply};

/// The header that names a request across its repetitions.
pub(crate) const HEADER: &str = "idempotency-key";
/// The header that tells a repeated answer.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// The longest key, in characters.
const MAX_LENGTH: usize = 255;

/// The start of a create.
pub(crate) enum Begun {
    /// The request was not seen before: do the work in this transaction.
    Fresh(Create),
    /// The answer that was given the first time.
    Replayed(Response),
}

/// A create under way: its transaction, and the key to keep its answer under.
pub(crate) struct Create {
    /// The transaction that the work belongs to.
    pub(crate) tx: Tx,
    claim: Option<Claim>,
}

/// Reads the claim that a request makes with its idempotency key, if it has one.
pub(crate) fn claim(
    caller: &Caller,
    request: &Request,
    body: &[u8],
) -> Result<Option<Claim>, ApiError> {
    let key = key_of(request)?;
    let method = request.method.as_str();
    let claim = |key| Claim::new(caller.tenant, caller.key, method, &request.path, key, body);
    Ok(key.map(claim))
}

/// Begins a create; with an idempotency key that was used before, finds the
/// answer instead.
pub(crate) async fn begin(
    app: &App,
    caller: &Caller,
    request: &Request,
    body: &[u8],
) -> Result<Begun, ApiError> {
    let claim = claim(caller, request, body)?;
    let mut tx = app.store.begin_for(caller.tenant).await?;
    if let Some(claim) = &claim {
        let stored = tx.claim(claim, app.now().into()).await;
        if let Some(stored) = stored.map_err(or_still_running)? {
            // What was found may not be committed yet: on SQLite it may belong
            // to an earlier member of the same group.
            tx.commit().await?;
            return replay(stored).map(Begun::Replayed);
        }
    }
    Ok(Begun::Fresh(Create { tx, claim }))
}

/// Records changes, or finds the answer that was given before.
pub(crate) async fn create_changes(app: &App, creation: Creation) -> ApiResult {
    let created = app.store.create_changes(creation).await;
    match created.map_err(or_still_running)? {
        Created::Fresh(answer) => Ok(respond(answer)),
        Created::Replayed(stored) => replay(stored),
    }
}

/// Makes the answer to a success, as it is sent and kept.
pub(crate) fn created<T: Serialize>(location: Option<String>, body: &T) -> StoredAnswer {
    StoredAnswer {
        status: 201,
        location,
        // Our own types serialize; a map with keys that are no texts would not.
        body: serde_json::to_string(body).unwrap_or_default(),
        same_request: true,
    }
}

/// Answers as the first time.
fn replay(stored: StoredAnswer) -> ApiResult {
    if !stored.same_request {
        return Err(reused());
    }
    let mut response = respond(stored);
    let headers = response.headers_mut();
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
}

impl Create {
    /// Commits the work and answers `201 Created`.
    pub(crate) async fn created<T: Serialize>(self, location: String, body: &T) -> ApiResult {
        self.finish(created(Some(location), body)).await
    }

    /// Answers a refusal that will be the same next time.
    pub(crate) async fn refused(self, error: ApiError, request_id: &str) -> ApiResult {
        let body = serde_json::to_string(&error.problem(request_id))
            .map_err(|error| ApiError::internal(&error))?;
        self.finish(StoredAnswer {
            status: error.status(),
            location: None,
            body,
            same_request: true,
        })
        .await
    }

    async fn finish(mut self, answer: StoredAnswer) -> ApiResult {
        if let Some(claim) = &self.claim {
            self.tx.keep_answer(claim, &answer).await?;
        }
        self.tx.commit().await?;
        Ok(respond(answer))
    }
}

fn respond(answer: StoredAnswer) -> Response {
    let media_type = if answer.status < 400 {
        "application/json"
    } else {
        PROBLEM_JSON
    };
    let mut response = reply::text(answer.status, media_type, answer.body);
    if let Some(location) = answer
        .location
        .and_then(|location| location.try_into().ok())
    {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// Reads the header: 1 to 255 printable ASCII characters.
fn key_of(request: &Request) -> Result<Option<&str>, ApiError> {
    if !request.headers.contains_key(HEADER) {
        return Ok(None);
    }
    match request.header(HEADER) {
        Some(key)
            if (1..=MAX_LENGTH).contains(&key.len())
                && key.bytes().all(|b| (0x20..0x7f).contains(&b)) =>
        {
            Ok(Some(key))
        }
        _ => {
            let detail = format!(
                "the header {HEADER} must be given once and have 1 to {MAX_LENGTH} printable ASCII characters"
            );
            Err(ApiError::new(ProblemCode::MalformedHeader, detail))
        }
    }
}

fn or_still_running(error: StoreError) -> ApiError {
    if !matches!(error, StoreError::Locked) {
        return error.into();
    }
    let detail = "the first request with this idempotency key is still running; try again shortly";
    ApiError::new(ProblemCode::IdempotencyInProgress, detail).with_header(header::RETRY_AFTER, "1")
}

fn reused() -> ApiError {
    let detail = "this idempotency key was used with another body; a new request needs a new key";
    ApiError::new(ProblemCode::IdempotencyKeyReused, detail)
}
