//! Authentication of API keys.

use changelog_core::activity::API_KEY_PREFIX;
use changelog_core::headers::API_KEY;
use changelog_core::{ApiKeyId, ProblemCode, Timestamp, api_key};
use http::header;

use crate::app::App;
use crate::store::{Actor, KeyOwner, StoreError, Tenant};
use crate::trace_parent::TraceParent;
use crate::web::{ApiError, Request};

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
}

impl App {
    /// Authenticates the API key of a request. A missing, unknown, revoked or
    /// expired key gets the same response.
    pub(crate) async fn caller(&self, request: &Request) -> Result<Caller, ApiError> {
        let key = request.header(API_KEY).unwrap_or_default();
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
        let Caller { tenant, key, actor } = caller;
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
