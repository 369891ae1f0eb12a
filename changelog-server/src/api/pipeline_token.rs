//! Authentication of pipelines by the tokens that their own system signs for each job.

use std::sync::Arc;
use std::time::Duration;

use changelog_core::problem::BadValue;
use changelog_core::{LookupKey, OrganizationId, ProblemCode, VerifiedRun, Workload};
use http::header;

use crate::app::App;
use crate::identity::{
    Claims, Expected, IdentityError, Issuer, ProviderError, TokenError, TokenKind,
};
use crate::store::{Candidate, Pipeline, StoreError, Tenant};
use crate::web::ApiError;

/// For how long a token may be valid, from when it was issued: a stolen one is of use for as
/// long.
const MAX_VALIDITY: Duration = Duration::from_hours(1);
/// The `Retry-After` when the provider's keys are not known, in seconds.
const RETRY_AFTER: u64 = 10;

/// A pipeline whose token is valid.
pub(super) struct Authenticated {
    /// The workload identity that the token fits.
    pub(super) candidate: Candidate,
    /// What the token claims.
    pub(super) claims: Arc<Claims>,
}

impl Authenticated {
    /// Returns who acts.
    pub(super) fn pipeline(&self) -> Pipeline {
        let claims = self.claims.all();
        let run = VerifiedRun::of(&self.candidate.workload.issuer, claims);
        Pipeline {
            workload: self.candidate.workload.id,
            name: run.name(claims),
            run: Arc::new(run),
        }
    }
}

/// Why a token is not accepted.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It is not valid.
    Token(String),
    /// It fits no workload identity.
    Unbound(String),
    /// It cannot be checked now.
    Provider(ProviderError),
    /// The database failed.
    Store(StoreError),
}

impl From<TokenError> for Refusal {
    fn from(error: TokenError) -> Self {
        Self::Token(error.to_string())
    }
}

impl From<IdentityError> for Refusal {
    fn from(error: IdentityError) -> Self {
        match error {
            IdentityError::Token(error) => error.into(),
            IdentityError::Provider(error) => Self::Provider(error),
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Token(detail) | Refusal::Unbound(detail) => {
                Self::new(ProblemCode::Unauthorized, detail).with_header(
                    header::WWW_AUTHENTICATE,
                    "Bearer realm=\"change log\", error=\"invalid_token\"",
                )
            }
            Refusal::Provider(error) => {
                let detail = format!("the token cannot be checked now: {error}");
                Self::new(ProblemCode::Unavailable, detail)
                    .with_header(header::RETRY_AFTER, RETRY_AFTER.to_string())
            }
            Refusal::Store(error) => error.into(),
        }
    }
}

/// What a token claims of itself, by which the bindings are found that it may fit.
struct Presented {
    claims: Arc<Claims>,
    issuer: String,
    audience: String,
    keys: Vec<LookupKey>,
}

impl Presented {
    fn read(app: &App, token: &str) -> Result<Self, TokenError> {
        let claims = app.identity.read(token)?;
        let issuer = claims.text("iss").ok_or(TokenError::Missing("iss"))?;
        let audience = claims.audience().ok_or(TokenError::Missing("aud"))?;
        Ok(Self {
            keys: LookupKey::of_token(issuer, audience, claims.all()),
            issuer: issuer.to_owned(),
            audience: audience.to_owned(),
            claims,
        })
    }

    fn is_of(&self, workload: &Workload) -> bool {
        workload.issuer == self.issuer && workload.audience == self.audience
    }

    /// Checks the token against the keys of the issuer, as a binding reaches it.
    async fn verify(
        &self,
        app: &App,
        token: &str,
        is_insecure: bool,
    ) -> Result<Arc<Claims>, IdentityError> {
        let expected = Expected {
            audience: &self.audience,
            kind: TokenKind::Identity,
            max_validity: Some(MAX_VALIDITY),
        };
        let issuer = Issuer::new(&self.issuer, is_insecure);
        app.identity.verify(&issuer, token, &expected).await
    }
}

impl App {
    /// Authenticates a token for an organization, as [`Self::organization_of_token`] reads it.
    pub(super) async fn pipeline(
        &self,
        token: &str,
        organization: Option<&str>,
    ) -> Result<Authenticated, Refusal> {
        let tenant = self.organization_of_token(organization).await?;
        let presented = Presented::read(self, token)?;
        let mut fitting = self.store.workloads_of_token(&presented.keys).await?;
        fitting.retain(|one| {
            one.tenant.id() == tenant
                && presented.is_of(&one.workload)
                && one.workload.mismatch(presented.claims.all()).is_none()
        });
        if fitting.is_empty() {
            return Err(Refusal::Unbound(no_binding(&presented)));
        }
        let mut failure = None;
        for is_insecure in [false, true] {
            let mut fitting = fitting.clone();
            fitting.retain(|one| one.workload.allow_insecure_issuer == is_insecure);
            if fitting.is_empty() {
                continue;
            }
            match presented.verify(self, token, is_insecure).await {
                Ok(claims) => {
                    if let Some(candidate) = narrowest(fitting) {
                        return Ok(Authenticated { candidate, claims });
                    }
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.map_or_else(|| Refusal::Unbound(no_binding(&presented)), Into::into))
    }

    /// Returns the organization that a token is for: the one that the header `X-Organization-Id`
    /// names, or else the only one. A token does not say whose it is, and any organization can
    /// make a binding that it fits: without its holder's word it could be taken by another one.
    async fn organization_of_token(&self, named: Option<&str>) -> Result<OrganizationId, Refusal> {
        let Some(named) = named else {
            let only = self.store.only_organization().await?;
            return only.map(Tenant::id).ok_or_else(|| {
                Refusal::Token(
                    "this service has several organizations: a token needs the id of its own in \
                     the header X-Organization-Id; chlog and the SDK send that in \
                     CHLOG_ORGANIZATION, which the page Settings, Workload identities shows"
                        .to_owned(),
                )
            });
        };
        named.parse().map_err(|bad: BadValue| {
            Refusal::Token(format!("the id in the header X-Organization-Id {bad}"))
        })
    }

    /// Says why a token fits no binding of its organization, if its holder may know: the token is
    /// valid, and the binding is for the same owner, or for an issuer of its own. Notes it for the
    /// admins.
    pub(super) async fn explain_mismatch(
        &self,
        token: &str,
        organization: Option<&str>,
    ) -> Result<Option<String>, Refusal> {
        let organization = self.organization_of_token(organization).await?;
        let presented = Presented::read(self, token)?;
        let nearby = self
            .store
            .workloads_nearby(organization, &presented.keys)
            .await?;
        for workload in nearby.iter().filter(|one| presented.is_of(one)) {
            let verified = presented.verify(self, token, workload.allow_insecure_issuer);
            let claims = verified.await?;
            let Some(mismatch) = workload.mismatch(claims.all()) else {
                continue;
            };
            tracing::info!(
                workload = %workload.id,
                mismatch,
                "the token of a pipeline does not fit a workload identity"
            );
            let now = self.clock.for_expiry();
            self.last_used.note_refusal(workload, mismatch.clone(), now);
            return Ok(Some(format!(
                "the token does not fit the workload identity {:?}: {mismatch}",
                workload.name
            )));
        }
        Ok(None)
    }
}

/// Chooses the narrowest of the bindings that a token fits, the oldest of several.
fn narrowest(fitting: Vec<Candidate>) -> Option<Candidate> {
    fitting.into_iter().min_by_key(|one| {
        (
            std::cmp::Reverse(one.workload.narrowness()),
            one.workload.id,
        )
    })
}

/// Says that a token fits no binding, by what the token itself says.
fn no_binding(presented: &Presented) -> String {
    let claims = presented.claims.all();
    let run = VerifiedRun::of(&presented.issuer, claims);
    let whose = run.repository.or(run.subject);
    let whose = whose.map_or_else(String::new, |whose| format!(" of {whose}"));
    format!(
        "no workload identity takes this token{whose}, of the issuer {} for the audience {}; an \
         admin makes one in the dashboard, Settings, Workload identities, and the audience must \
         be the same there",
        presented.issuer, presented.audience
    )
}
