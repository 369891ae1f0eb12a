//! Creates that may be repeated: the header `Idempotency-Key`. A create ends with
//! an [`Outcome`], which one function renders, for the first request and for each
//! repetition.

use changelog_core::headers::{self, IDEMPOTENCY_KEY};
use changelog_core::limits::MAX_IDEMPOTENCY_KEY_CHARS;
use changelog_core::{Data, Named, ProblemCode};
use http::{HeaderName, HeaderValue, header};
use serde::Serialize;
use warp::reply::Response;

use super::caller::Caller;
use crate::app::App;
use crate::store::{Created, Creation, KeyState, KeyedRequest, Outcome, StoreError, Tx};
use crate::web::{ApiError, Request, reply};

/// The header of an answer to a repetition.
const REPLAYED: HeaderName = HeaderName::from_static(headers::IDEMPOTENT_REPLAYED);

/// The header that names the preference that was followed.
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static(headers::PREFERENCE_APPLIED);

/// A create that has begun.
pub(crate) enum Begun {
    /// The request is new: the work belongs to this transaction.
    New(Create),
    /// An earlier request with the same key ended so.
    Replayed(Outcome),
}

/// The transaction of a create, and the key under which its outcome is kept.
pub(crate) struct Create {
    /// The transaction that the work belongs to.
    pub(crate) tx: Tx,
    request: Option<KeyedRequest>,
}

/// Reads the idempotency key of a request, if it has one.
pub(crate) fn keyed_request(
    caller: &Caller,
    request: &Request,
    body: &[u8],
) -> Result<Option<KeyedRequest>, ApiError> {
    let key = read_key(request)?;
    let method = request.method.as_str();
    let keyed =
        |key| KeyedRequest::new(caller.tenant, caller.key, method, &request.path, key, body);
    Ok(key.map(keyed))
}

/// Begins a create; if an earlier request had the same idempotency key, finds its
/// outcome.
pub(crate) async fn begin(
    app: &App,
    caller: &Caller,
    request: &Request,
    body: &[u8],
) -> Result<Begun, ApiError> {
    let request = keyed_request(caller, request, body)?;
    let mut tx = app.store.begin_for(caller.tenant).await?;
    if let Some(keyed) = &request {
        let state = tx.claim_key(keyed, app.now().into()).await;
        let state = state.map_err(still_running)?;
        if state != KeyState::Claimed {
            // On SQLite the first request may be an earlier member of the same
            // group, which is not committed yet.
            tx.commit().await?;
            return match state {
                KeyState::Replayed(outcome) => Ok(Begun::Replayed(*outcome)),
                _ => Err(StoreError::KeyReused.into()),
            };
        }
    }
    Ok(Begun::New(Create { tx, request }))
}

impl Create {
    /// Keeps the outcome under the key and commits the work.
    pub(crate) async fn finish(mut self, outcome: &Outcome) -> Result<(), StoreError> {
        if let Some(request) = &self.request {
            self.tx.keep_outcome(request, outcome).await?;
        }
        self.tx.commit().await
    }
}

/// Creates changes, or finds those that an earlier request created. `pointer` is
/// where the body has them.
pub(crate) async fn create_changes(
    app: &App,
    creation: Creation,
    pointer: &str,
) -> Result<Created, ApiError> {
    let created = app.store.create_changes(creation).await;
    created.map_err(|error| match error {
        StoreError::Invalid(mut invalid) => {
            for violation in &mut invalid.violations {
                violation.pointer.insert_str(0, pointer);
            }
            StoreError::Invalid(invalid).into()
        }
        error => still_running(error),
    })
}

/// Returns the changes that an earlier request with the same idempotency key created, for
/// one that is refused now: what it names may have been renamed since. Without them, returns
/// the refusal.
pub(crate) async fn replayed(
    app: &App,
    creation: &Creation,
    refusal: StoreError,
) -> Result<Created, StoreError> {
    if !matches!(refusal, StoreError::Invalid(_)) {
        return Err(refusal);
    }
    let found = app.store.replayed(creation, app.now().into()).await?;
    found.ok_or(refusal)
}

/// Renders the outcome of a create, for the first request and for a repetition
/// alike; `name_taken` makes the error for a name that is taken.
pub(crate) fn answer(
    outcome: Outcome,
    is_replay: bool,
    name_taken: impl FnOnce() -> ApiError,
) -> Response {
    match outcome {
        Outcome::Host(host) => created_item(host, is_replay),
        Outcome::Service(service) => created_item(service, is_replay),
        Outcome::NameTaken { request_id } => {
            mark(name_taken().into_response(&request_id), is_replay)
        }
        Outcome::Changes(changes) => created(None, changes, is_replay),
    }
}

fn created_item<T: Named>(item: T, is_replay: bool) -> Response {
    let location = format!("/api/{}/{}", T::PLURAL, item.id());
    created(Some(location), item, is_replay)
}

/// Answers `201 Created`.
pub(crate) fn created<T: Serialize>(
    location: Option<String>,
    data: T,
    is_replay: bool,
) -> Response {
    mark_created(reply::json(201, &Data { data }), location, is_replay)
}

/// Answers `201 Created` with the whole record, which is JSON already, to a client that
/// prefers it.
pub(crate) fn created_in_full(location: Option<String>, json: &str, is_replay: bool) -> Response {
    let body = format!("{{\"data\":{json}}}");
    let mut response = reply::text(201, "application/json", body);
    let applied = HeaderValue::from_static(headers::RETURN_REPRESENTATION);
    response.headers_mut().insert(PREFERENCE_APPLIED, applied);
    mark_created(response, location, is_replay)
}

fn mark_created(mut response: Response, location: Option<String>, is_replay: bool) -> Response {
    if let Some(location) = location.and_then(|location| location.try_into().ok()) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    mark(response, is_replay)
}

/// Marks the answer to a repetition.
fn mark(mut response: Response, is_replay: bool) -> Response {
    if is_replay {
        let headers = response.headers_mut();
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// Returns whether a key has 1 to 255 printable ASCII characters.
pub(super) fn is_valid_key(key: &str) -> bool {
    (1..=MAX_IDEMPOTENCY_KEY_CHARS).contains(&key.len())
        && key.bytes().all(|b| (0x20..0x7f).contains(&b))
}

/// Reads the header.
fn read_key(request: &Request) -> Result<Option<&str>, ApiError> {
    if !request.headers.contains_key(IDEMPOTENCY_KEY) {
        return Ok(None);
    }
    match request.header(IDEMPOTENCY_KEY) {
        Some(key) if is_valid_key(key) => Ok(Some(key)),
        _ => {
            let detail = format!(
                "the header {IDEMPOTENCY_KEY} must be given once and have 1 to {MAX_IDEMPOTENCY_KEY_CHARS} printable ASCII characters"
            );
            Err(ApiError::new(ProblemCode::MalformedHeader, detail))
        }
    }
}

fn still_running(error: StoreError) -> ApiError {
    if !matches!(error, StoreError::Locked) {
        return error.into();
    }
    let detail = "the first request with this idempotency key is still running; try again shortly";
    ApiError::new(ProblemCode::IdempotencyInProgress, detail).with_header(header::RETRY_AFTER, "1")
}
