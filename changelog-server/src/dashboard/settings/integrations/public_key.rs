//! `/.well-known/changelog-webhook-keys/ID`: the public key that signs a webhook.

use changelog_core::{ConnectionId, ConnectionKind, ProblemCode};
use serde::Serialize;
use warp::reply::Response;

use crate::app::App;
use crate::integrations::senders::webhook;
use crate::store::StoreError;
use crate::web::{ApiError, ApiResult, Request, reply};

#[derive(Serialize)]
struct Keys {
    keys: Vec<String>,
}

/// `GET /.well-known/changelog-webhook-keys/ID`, which needs no session.
pub(in crate::dashboard) async fn public_key(app: App, request: Request) -> ApiResult {
    // Programs read it: a failure is no page.
    let answer = read(&app, &request).await;
    Ok(answer.unwrap_or_else(|error| error.into_response(&request.context.id)))
}

async fn read(app: &App, request: &Request) -> Result<Response, ApiError> {
    app.rate_limits.public_key(request.context.address)?;
    let unknown = || ApiError::new(ProblemCode::NotFound, "there is no webhook with this id");
    let id: ConnectionId = request.id().map_err(|_| unknown())?;
    let store = &app.store;
    let tenant = match store.organization_of_connection(id).await {
        Err(StoreError::NotFound) => return Err(unknown()),
        found => found?,
    };
    let _ = request.context.state.tenant.set(tenant);
    let connection = match store.connection(tenant, id).await {
        Ok(connection) if connection.kind == ConnectionKind::Webhook => connection,
        Ok(_) | Err(StoreError::NotFound) => return Err(unknown()),
        Err(error) => return Err(error.into()),
    };
    let target = app.integrations.target(tenant, &connection);
    let target = target.map_err(|error| {
        let detail = "the server cannot read the key of this webhook, because its key file lacks \
                      the key that the webhook is encrypted by; its operator must restore it";
        ApiError::retryable(ProblemCode::Unavailable, detail, &error)
    })?;
    let key = target.ed25519_seed.as_deref().and_then(webhook::public_key);
    let keys = key.into_iter().collect();
    Ok(reply::json(200, &Keys { keys }))
}
