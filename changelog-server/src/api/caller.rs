//! Authentication of API keys and of the tokens of pipelines, and the scopes that endpoints need.

use std::sync::Arc;

use changelog_core::activity::API_KEY_PREFIX;
use changelog_core::api_key::NOT_ACCEPTED;
use changelog_core::headers::{AGENT, API_KEY, ORGANIZATION_ID};
use changelog_core::{
    Agent, ApiKeyId, Change, Incident, NewChange, Permissions, Plan, ProblemCode, Scope, Timestamp,
    api_key,
};
use futures_util::future::BoxFuture;
use http::header;

use super::pipeline_token::Refusal;
use crate::app::App;
use crate::identity::looks_like_token;
use crate::store::{Actor, Candidate, KeyOwner, StoreError, Tenant};
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

/// The caller of a request: a valid key, or a pipeline with a valid token, of an organization
/// whose plan includes the API.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The organization of the key.
    pub(crate) tenant: Tenant,
    /// The key; for a pipeline, the id of its workload identity.
    pub(crate) key: ApiKeyId,
    /// When the token of a pipeline expires; `None` for a key.
    pub(crate) token_expires_at: Option<Timestamp>,
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

/// By what a request is authenticated.
#[derive(Clone)]
pub(super) enum Credential {
    /// An API key.
    Key(String),
    /// A token of a pipeline, and the organization that it is for if it fits several.
    Token(String, Option<String>),
}

impl Credential {
    /// Returns what a request of the API has: a key in its own header, or else the token of a
    /// pipeline.
    pub(super) fn of(request: &Request) -> Self {
        let token = bearer_of(request).filter(|token| looks_like_token(token));
        match (request.header(API_KEY), token) {
            (None, Some(token)) => Self::token(token, request),
            (key, _) => Self::Key(key.unwrap_or_default().to_owned()),
        }
    }

    fn token(token: &str, request: &Request) -> Self {
        let organization = request.header(ORGANIZATION_ID).map(str::to_owned);
        Self::Token(token.to_owned(), organization)
    }
}

/// Returns the bearer token of a request.
fn bearer_of(request: &Request) -> Option<&str> {
    let authorization = request.header(header::AUTHORIZATION.as_str())?;
    let (scheme, token) = authorization.split_once(' ')?;
    let is_bearer = scheme.eq_ignore_ascii_case("bearer");
    is_bearer.then_some(token.trim())
}

impl App {
    /// Authenticates the API key of a request, or the token of a pipeline. A missing, unknown,
    /// revoked or expired key gets the same response.
    async fn caller(&self, request: &Request) -> Result<Caller, ApiError> {
        match Credential::of(request) {
            Credential::Key(key) => self.owner_of(&key, request, unauthorized).await,
            Credential::Token(token, organization) => {
                let organization = organization.as_deref();
                self.pipeline_of(&token, organization, request).await
            }
        }
    }

    /// Authenticates the bearer token of a request, which is an API key or the token of a
    /// pipeline.
    async fn bearer(&self, request: &Request) -> Result<Caller, ApiError> {
        let token = bearer_of(request);
        if let Some(token) = token.filter(|token| looks_like_token(token)) {
            let organization = request.header(ORGANIZATION_ID);
            return self.pipeline_of(token, organization, request).await;
        }
        let key = token.or_else(|| request.header(API_KEY));
        let refused = |_: &Request| {
            let detail = format!("{NOT_ACCEPTED}; send it as `Authorization: Bearer KEY`");
            ApiError::new(ProblemCode::Unauthorized, detail)
                .with_header(header::WWW_AUTHENTICATE, "Bearer realm=\"change log\"")
        };
        self.owner_of(key.unwrap_or_default(), request, refused)
            .await
    }

    /// Authenticates the token of a pipeline.
    async fn pipeline_of(
        &self,
        token: &str,
        organization: Option<&str>,
        request: &Request,
    ) -> Result<Caller, ApiError> {
        let address = request.context.address;
        let authenticated = match self.pipeline(token, organization).await {
            Ok(authenticated) => authenticated,
            Err(Refusal::Unbound(detail)) => {
                self.rate_limits.bad_key(address)?;
                let why = self.explain_mismatch(token, organization).await?;
                return Err(Refusal::Unbound(why.unwrap_or(detail)).into());
            }
            Err(refusal) => {
                if matches!(refusal, Refusal::Token(_)) {
                    self.rate_limits.bad_key(address)?;
                }
                return Err(refusal.into());
            }
        };
        let candidate = &authenticated.candidate;
        let (tenant, workload) = (candidate.tenant, &candidate.workload);
        let key = ApiKeyId(workload.id.0);
        self.admit(tenant, key, &candidate.plan, request)?;
        self.last_used
            .note_workload(workload, self.clock.for_expiry());
        let actor = Actor::pipeline(authenticated.pipeline(), address, candidate.has_receivers);
        Ok(Caller {
            tenant,
            key,
            token_expires_at: authenticated.claims.expires_at(),
            permissions: Arc::clone(&candidate.permissions),
            actor: Actor {
                agent: claimed_agent(request)?,
                trace: TraceParent::of(&request.headers),
                ..actor
            },
        })
    }

    /// Admits an authenticated caller: its plan must include the API, and its rate limit must
    /// allow one more request.
    fn admit(
        &self,
        tenant: Tenant,
        key: ApiKeyId,
        plan: &Plan,
        request: &Request,
    ) -> Result<(), ApiError> {
        if !plan.includes_api() {
            let detail = format!(
                "the {plan} plan does not include API access; use the dashboard, or change the plan"
            );
            return Err(ApiError::new(ProblemCode::PlanRequired, detail));
        }
        if let Some(state) = self.rate_limits.request(key)? {
            // Set at most once per request.
            let _ = request.context.state.rate_limit.set(state);
        }
        let _ = request.context.state.tenant.set(tenant);
        Ok(())
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
        self.admit(owner.tenant, owner.key, &owner.plan, request)?;
        self.last_used.note_key(owner.key, owner.last_used_at, now);
        Ok(Caller {
            tenant: owner.tenant,
            key: owner.key,
            token_expires_at: None,
            permissions: owner.permissions,
            actor: Actor {
                person: None,
                key: Some(owner.key),
                source: None,
                pipeline: None,
                name: format!("{API_KEY_PREFIX}{}", owner.name),
                address: Some(request.context.address),
                has_receivers: owner.has_receivers,
                agent: claimed_agent(request)?,
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

    /// Returns whether a key or token that was authenticated before is still valid for its
    /// organization.
    pub(super) async fn is_still_caller(
        &self,
        credential: &Credential,
        tenant: Tenant,
    ) -> Result<bool, StoreError> {
        let key = match credential {
            Credential::Key(key) => key,
            Credential::Token(token, organization) => {
                return match self.pipeline(token, organization.as_deref()).await {
                    Ok(still) => {
                        let Candidate {
                            tenant: now,
                            plan,
                            permissions,
                            ..
                        } = still.candidate;
                        Ok(now == tenant
                            && plan.includes_api()
                            && permissions.includes(&Scope::Read))
                    }
                    Err(Refusal::Token(_) | Refusal::Unbound(_)) => Ok(false),
                    // That the provider does not answer says nothing of the token.
                    Err(Refusal::Provider(_)) => Ok(true),
                    Err(Refusal::Store(error)) => Err(error),
                };
            }
        };
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
    // The token of a pipeline is; what this request has there is none.
    let hint = if headers.contains_key(header::AUTHORIZATION) && !headers.contains_key(API_KEY) {
        "; the header authorization has no token of a pipeline that can be read"
    } else {
        ""
    };
    let detail = format!("{NOT_ACCEPTED} in the header {API_KEY}{hint}");
    ApiError::new(ProblemCode::Unauthorized, detail)
        .with_header(header::WWW_AUTHENTICATE, "ApiKey realm=\"change log\"")
}

/// Returns the automation that a request names as its caller.
fn claimed_agent(request: &Request) -> Result<Option<Agent>, ApiError> {
    let mut values = request.headers.get_all(AGENT).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let mut read = || {
        if values.next().is_some() {
            return Err("it is there twice".to_owned());
        }
        let text = str::from_utf8(value.as_bytes()).map_err(|error| error.to_string())?;
        Agent::of_name(text)
    };
    read().map(Some).map_err(|reason| {
        let detail = format!("the header {AGENT} is refused: {reason}");
        ApiError::new(ProblemCode::MalformedHeader, detail)
    })
}
