//! Authentication of API keys, and the scopes that endpoints need.

use std::sync::Arc;

use changelog_core::activity::API_KEY_PREFIX;
use changelog_core::headers::API_KEY;
use changelog_core::{
    ApiKeyId, Change, Incident, NewChange, Permissions, ProblemCode, Scope, Timestamp, api_key,
};
use futures_util::future::BoxFuture;
use http::header;

use crate::app::App;
use crate::store::{Actor, KeyOwner, StoreError, Tenant};
use crate::trace_parent::TraceParent;
use crate::web::{ApiError, ApiResult, Request};

/// Lets keys with the scope `read` call a handler.
pub(super) fn read<F>(handler: impl KeyedHandler<F>) -> impl HandlerFn
where
    F: Future<Output = ApiResult> + Send + 'static,
{
    keyed(Some(Scope::Read), handler)
}

/// Lets keys with the scope `record` call a handler.
pub(super) fn record<F>(handler: impl KeyedHandler<F>) -> impl HandlerFn
where
    F: Future<Output = ApiResult> + Send + 'static,
{
    keyed(Some(Scope::Record), handler)
}

/// Lets keys with the scope `admin` call a handler.
pub(super) fn admin<F>(handler: impl KeyedHandler<F>) -> impl HandlerFn
where
    F: Future<Output = ApiResult> + Send + 'static,
{
    keyed(Some(Scope::Admin), handler)
}

/// Lets all keys call a handler.
pub(super) fn any_key<F>(handler: impl KeyedHandler<F>) -> impl HandlerFn
where
    F: Future<Output = ApiResult> + Send + 'static,
{
    keyed(None, handler)
}

/// Lets all keys call a handler. The key is a bearer token, as the Model Context Protocol has
/// it, or in the header of the API.
pub(super) fn any_bearer<F>(handler: impl KeyedHandler<F>) -> impl HandlerFn
where
    F: Future<Output = ApiResult> + Send + 'static,
{
    move |app: App, request: Request| {
        Box::pin(async move {
            let caller = app.bearer(&request).await?;
            handler(app, caller, request).await
        })
    }
}

/// A handler of requests with a key.
pub(super) trait KeyedHandler<F>:
    Fn(App, Caller, Request) -> F + Copy + Send + Sync + 'static
{
}
impl<F, H> KeyedHandler<F> for H where
    H: Fn(App, Caller, Request) -> F + Copy + Send + Sync + 'static
{
}

/// A handler of requests.
pub(super) trait HandlerFn:
    Fn(App, Request) -> BoxFuture<'static, ApiResult> + Send + Sync + 'static
{
}
impl<H> HandlerFn for H where
    H: Fn(App, Request) -> BoxFuture<'static, ApiResult> + Send + Sync + 'static
{
}

fn keyed<F>(scope: Option<Scope>, handler: impl KeyedHandler<F>) -> impl HandlerFn
where
    F: Future<Output = ApiResult> + Send + 'static,
{
    move |app: App, request: Request| {
        let scope = scope.clone();
        Box::pin(async move {
            let caller = app.caller(&request).await?;
            if let Some(scope) = scope {
                caller.require(&scope)?;
            }
            handler(app, caller, request).await
        })
    }
}

/// The caller of a request: a valid key of an organization whose plan includes the
/// API.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The organization of the key.
    pub(crate) tenant: Tenant,
    /// The key.
    pub(crate) key: ApiKeyId,
    /// The actor that the activity log shows.
    pub(crate) actor: Actor,
    /// What the key may do.
    pub(crate) permissions: Arc<Permissions>,
}

impl Caller {
    /// Returns whether the key has a scope.
    pub(crate) fn may(&self, scope: &Scope) -> bool {
        self.permissions.includes(scope)
    }

    /// Refuses a key without a scope.
    pub(crate) fn require(&self, scope: &Scope) -> Result<(), ApiError> {
        if self.may(scope) {
            return Ok(());
        }
        let words = self.permissions.scopes.iter().map(Scope::as_str);
        let detail = format!(
            "this needs a key with the scope {scope}; the key has {}; make one that has it in the \
             dashboard, Settings, API keys, or with `changelog-server key create --scope {scope}`",
            words.collect::<Vec<_>>().join(", ")
        );
        Err(ApiError::new(ProblemCode::ScopeRequired, detail))
    }

    /// Refuses new changes that the key may not record.
    pub(super) fn check_new(&self, changes: &[NewChange]) -> Result<(), ApiError> {
        if !self.permissions.has_bounds() {
            return Ok(());
        }
        for change in changes {
            let services = change.all_service_ids();
            let environment = change.environment.as_ref();
            let result = self.permissions.check_bounds(environment, &services);
            result.map_err(|refusal| out_of_bounds(&refusal))?;
        }
        Ok(())
    }

    /// Refuses a change that the key may not record.
    pub(super) fn check_change(&self, change: &Change) -> Result<(), ApiError> {
        let result = self.permissions.check_change(change);
        result.map_err(|refusal| out_of_bounds(&refusal))
    }

    /// Refuses an incident that the key may not record.
    pub(super) fn check_incident(&self, incident: &Incident) -> Result<(), ApiError> {
        let result = self.permissions.check_incident(incident);
        result.map_err(|refusal| out_of_bounds(&refusal))
    }
}

fn out_of_bounds(refusal: &str) -> ApiError {
    ApiError::new(ProblemCode::OutOfBounds, format!("the key {refusal}"))
}

impl App {
    /// Authenticates the API key of a request. A missing, unknown, revoked or
    /// expired key gets the same response.
    async fn caller(&self, request: &Request) -> Result<Caller, ApiError> {
        let key = request.header(API_KEY).unwrap_or_default();
        self.owner_of(key, request, unauthorized).await
    }

    /// Authenticates the bearer token of a request, which is an API key.
    async fn bearer(&self, request: &Request) -> Result<Caller, ApiError> {
        let authorization = request.header(header::AUTHORIZATION.as_str());
        let token = authorization.and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            let is_bearer = scheme.eq_ignore_ascii_case("bearer");
            is_bearer.then_some(token.trim())
        });
        let key = token.or_else(|| request.header(API_KEY));
        let refused = |_: &Request| {
            let detail = "missing or invalid API key; send it as `Authorization: Bearer KEY`";
            ApiError::new(ProblemCode::Unauthorized, detail)
                .with_header(header::WWW_AUTHENTICATE, "Bearer realm=\"change log\"")
        };
        self.owner_of(key.unwrap_or_default(), request, refused)
            .await
    }

    /// Authenticates a key; `unauthorized` makes the error for one that is not valid.
    async fn owner_of(
        &self,
        key: &str,
        request: &Request,
        unauthorized: impl Fn(&Request) -> ApiError,
    ) -> Result<Caller, ApiError> {
        // The checksum rejects a mistyped key without a query.
        if !api_key::is_well_formed(key) {
            return Err(unauthorized(request));
        }
        let Some(owner) = self.store.key_owner(key).await? else {
            self.rate_limits.bad_key(request.context.address)?;
            return Err(unauthorized(request));
        };
        let now = self.clock.for_expiry();
        if !is_valid(&owner, now) {
            return Err(unauthorized(request));
        }
        if !owner.plan.includes_api() {
            let detail = format!(
                "the {} plan does not include API access; use the dashboard, or change the plan",
                owner.plan
            );
            return Err(ApiError::new(ProblemCode::PlanRequired, detail));
        }
        if let Some(state) = self.rate_limits.request(owner.key)? {
            // Set at most once per request.
            let _ = request.context.state.rate_limit.set(state);
        }
        let _ = request.context.state.tenant.set(owner.tenant);
        self.last_used.note_key(owner.key, owner.last_used_at, now);
        Ok(Caller {
            tenant: owner.tenant,
            key: owner.key,
            permissions: owner.permissions,
            actor: Actor {
                person: None,
                key: Some(owner.key),
                source: None,
                name: format!("{API_KEY_PREFIX}{}", owner.name),
                address: Some(request.context.address),
                has_receivers: owner.has_receivers,
                trace: TraceParent::of(&request.headers),
            },
        })
    }

    /// Notes that a caller has recorded a change.
    pub(crate) fn note_recording(&self, caller: &Caller) {
        let Caller {
            tenant, key, actor, ..
        } = caller;
        let now = self.now().into();
        self.last_used.note_recording(*tenant, *key, actor, now);
    }

    /// Returns whether a key that was authenticated before is still valid for its
    /// organization.
    pub(crate) async fn is_still_caller(
        &self,
        key: &str,
        tenant: Tenant,
    ) -> Result<bool, StoreError> {
        let owner = self.store.key_owner(key).await?;
        let now = self.clock.for_expiry();
        Ok(owner.is_some_and(|owner| {
            owner.tenant == tenant && is_valid(&owner, now) && owner.plan.includes_api()
        }))
    }
}

/// Returns whether a key is neither revoked nor expired.
fn is_valid(owner: &KeyOwner, now: Timestamp) -> bool {
    owner.revoked_at.is_none() && owner.expires_at.is_none_or(|at| at > now)
}

fn unauthorized(request: &Request) -> ApiError {
    let headers = &request.headers;
    let hint = if headers.contains_key(header::AUTHORIZATION) && !headers.contains_key(API_KEY) {
        "; Authorization is not read"
    } else {
        ""
    };
    let detail = format!("missing or invalid API key in the header {API_KEY}{hint}");
    ApiError::new(ProblemCode::Unauthorized, detail)
        .with_header(header::WWW_AUTHENTICATE, "ApiKey realm=\"change log\"")
}
