//! The provider says that a person has signed out.

use changelog_core::OrganizationId;

use crate::app::App;
use crate::identity::{Expected, TokenKind};
use crate::sso::{person, setup};
use crate::web::{ApiError, ApiResult, Request, reply};

/// The event that a logout token must be about (`OpenID` Connect Back-Channel Logout 1.0).
const LOGOUT_EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// `POST /sso/backchannel-logout/ORGANIZATION`: the provider says that a person has signed out.
pub(in crate::dashboard) async fn backchannel_logout(app: App, request: Request) -> ApiResult {
    let id: OrganizationId = request.id()?;
    let form = request.form().await?;
    let result = log_out(&app, id, form.value("logout_token")).await?;
    if let Err(reason) = result {
        app.rate_limits.bad_key(request.context.address)?;
        tracing::warn!(organization = %id, %reason, "a logout token was refused");
        let body = serde_json::json!({
            "error": "invalid_request", "error_description": reason,
        });
        return Ok(reply::json(400, &body));
    }
    Ok(reply::json(200, &serde_json::json!({})))
}

/// Ends the sessions that a logout token is about; the inner error says why it is refused.
async fn log_out(
    app: &App,
    id: OrganizationId,
    token: &str,
) -> Result<Result<(), String>, ApiError> {
    let organization = app.store.sso_organization(id).await?;
    let Some(provider) = organization.and_then(|found| found.provider) else {
        return Ok(Err("the organization has no identity provider".to_owned()));
    };
    let expected = Expected {
        audience: &provider.client_id,
        kind: TokenKind::Logout,
        max_validity: None,
    };
    let issuer = setup::issuer(&provider);
    let claims = match app.identity.verify(&issuer, token, &expected).await {
        Ok(claims) => claims,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let events = claims
        .get("events")
        .and_then(|events| events.get(LOGOUT_EVENT));
    if !events.is_some_and(serde_json::Value::is_object) {
        return Ok(Err("the token is not about a logout".to_owned()));
    }
    if claims.get("nonce").is_some() {
        return Ok(Err("a logout token must not have a nonce".to_owned()));
    }
    let (Some(token_id), Some(_)) = (claims.text("jti"), claims.get("iat")) else {
        return Ok(Err("the claims jti and iat are required".to_owned()));
    };
    let subject = person::id(claims.all(), "sub");
    let sid = person::id(claims.all(), "sid");
    if subject.is_none() && sid.is_none() {
        return Ok(Err("one of the claims sub and sid is required".to_owned()));
    }
    let mut tx = app.store.begin().await?;
    let now = app.clock.for_expiry();
    if !tx.use_once(provider.tenant, token_id, now).await? {
        return Ok(Err("the token was used before".to_owned()));
    }
    tx.end_provider_sessions(&provider, subject.as_deref(), sid.as_deref(), app.now())
        .await?;
    tx.commit().await?;
    Ok(Ok(()))
}
