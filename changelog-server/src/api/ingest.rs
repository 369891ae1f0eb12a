//! The addresses of sources: a request is stored durably and answered; what it says is
//! read in the background.

use changelog_core::{Data, ProblemCode, SourceEventId, SourceKind, Timestamp};
use changelog_sources::{Handshake, Headers, Received};
use http::header;
use serde::Serialize;
use serde_json::json;
use warp::reply::Response;

use super::slack_command;
use crate::app::App;
use crate::ingest::open_secret;
use crate::store::{NewSourceEvent, Source, new_id};
use crate::web::reply::{self, json};
use crate::web::{ApiError, ApiResult, Request};

/// The tag of the operation in the OpenAPI document.
pub(super) const TAG: &str = "sources";
/// The limit on the body of a request, in bytes.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// The answer to a request that was stored.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct StoredEvent {
    /// The id of the event, as the page of the source shows it.
    event_id: SourceEventId,
}

/// Stores what a sender of a source sends. It is read in the background: the page of the source
/// and `changelog-server source events` show what became of it. The address is the proof that a
/// sender may send, with a signature or a secret in a header where the sender has one. Slash
/// commands of Slack are answered at once, with a message.
#[utoipa::path(post, path = "/api/ingest/{kind}/{token}", tag = TAG, operation_id = "send_event",
    security(()),
    params(
        ("kind" = SourceKind, Path, description = "What the source receives"),
        ("token" = String, Path, description = "The token of the source, which is shown once",
            example = "src_018f4e9a7b1c7d3e9a512f6c8b7d1e90_2fYb0q"),
    ),
    request_body(content = Object, content_type = "application/json",
        description = "What the sender sends, at most 4 MiB; any other media type is taken, too"),
    responses(
        (status = 202, description = "It is stored", body = Data<StoredEvent>),
        (status = 200, description = "The answer to a sender that only checks the address, or to a command of Slack",
            body = Object),
    ))]
pub(super) async fn receive(app: App, request: Request) -> ApiResult {
    let source = find(&app, &request).await?;
    let _ = request.context.state.tenant.set(source.tenant);
    let body = request.raw_body(MAX_BODY_BYTES).await?;
    let headers: Headers = request
        .headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
        .collect();
    let now = app.now();
    require_plan(&app, &source, now.into()).await?;
    let received = Received {
        headers: &headers,
        body: &body,
        at: now.into(),
    };
    let secret = open_secret(app.integrations.secrets(), &source);
    let secret = secret.map_err(|error| ApiError::unavailable(&error))?;
    if let Err(unproven) = changelog_sources::verify(&source.kind, secret.as_deref(), &received) {
        let reason = unproven.to_string();
        app.store
            .refuse_request(&source, &reason, now.into())
            .await?;
        return Err(ApiError::new(ProblemCode::Unauthorized, reason)
            .with_header(header::WWW_AUTHENTICATE, "Signature"));
    }
    if source.kind == SourceKind::SlackCommand {
        return slack_command::respond(&app, &source, &body).await;
    }
    match changelog_sources::handshake(&source.kind, &received) {
        Some(Handshake::Json(answer)) => return Ok(json(200, &answer)),
        Some(Handshake::Ping) => return Ok(json(200, &json!({ "data": { "pong": true } }))),
        Some(Handshake::Confirm(url)) => {
            app.store.keep_confirmation(&source, &url).await?;
            return Ok(json(
                200,
                &json!({ "data": { "confirm": "an admin opens the link" } }),
            ));
        }
        None => {}
    }
    let event = NewSourceEvent {
        id: new_id(now).into(),
        received_at: now.into(),
        request_id: changelog_sources::request_id(&source.kind, &received),
        headers: headers.without_secrets(),
        body: &body,
    };
    app.store.insert_source_event(&source, &event).await?;
    Ok(json(
        202,
        &json!({ "data": StoredEvent { event_id: event.id } }),
    ))
}

/// Refuses what is sent while the plan of the organization does not include sources. It is
/// counted, so that admins see why nothing arrives.
async fn require_plan(app: &App, source: &Source, now: Timestamp) -> Result<(), ApiError> {
    let plan = app.store.organization(source.tenant).await?.plan;
    if plan.includes_api() {
        return Ok(());
    }
    let reason = format!("the {plan} plan does not include sources; change the plan");
    app.store.refuse_request(source, &reason, now).await?;
    Err(ApiError::new(ProblemCode::PlanRequired, reason))
}

/// Answers the handshake by which CloudEvents are allowed to be sent: the sender names its
/// origin, and gets it back.
pub(super) async fn allow(app: App, request: Request) -> ApiResult {
    find(&app, &request).await?;
    let mut response: Response = reply::text(200, "text/plain", String::new());
    for (asked, answered) in [
        ("webhook-request-origin", "webhook-allowed-origin"),
        ("webhook-request-rate", "webhook-allowed-rate"),
    ] {
        if let Some(value) = request.headers.get(asked) {
            response.headers_mut().insert(answered, value.clone());
        }
    }
    response.headers_mut().insert(
        header::ALLOW,
        http::HeaderValue::from_static("POST, OPTIONS"),
    );
    Ok(response)
}

/// Finds the source of the address.
async fn find(app: &App, request: &Request) -> Result<Source, ApiError> {
    let (kind, token) = request.parameter.split_once('/').unwrap_or_default();
    let kind = kind.parse::<SourceKind>().ok();
    let found = app.store.source_of_token(token).await?;
    // The answer is the same for a wrong token, a wrong kind and a disabled source, so that
    // it does not reveal which addresses exist.
    let usable =
        |source: &Source| Some(&source.kind) == kind.as_ref() && source.disabled_at.is_none();
    found.filter(usable).ok_or_else(|| {
        let detail = "no source has this address: copy it from the source's page, renew it there if \
                      it is lost, and make sure that the source is on";
        ApiError::new(ProblemCode::NotFound, detail)
    })
}
