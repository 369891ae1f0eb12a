//! Authentication of pipelines by the tokens that their own system signs for each job.

use std::sync::Arc;
use std::time::Duration;

use changelog_core::{LookupKey, ProblemCode, VerifiedRun, Workload};
use http::header;

use crate::app::App;
use crate::identity::{
    Claims, Expected, IdentityError, Issuer, ProviderError, TokenError, TokenKind,
};
use crate::store::{Candidate, Pipeline, StoreError};
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
    /// Authenticates a token. `organization` chooses one, if the token fits bindings of several.
    pub(super) async fn pipeline(
        &self,
        token: &str,
        organization: Option<&str>,
    ) -> Result<Authenticated, Refusal> {
        let presented = Presented::read(self, token)?;
        let mut fitting = self.store.workloads_of_token(&presented.keys).await?;
        fitting.retain(|one| {
            presented.is_of(&one.workload)
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
                    let candidate = narrowest(fitting, organization).map_err(Refusal::Token)?;
                    return Ok(Authenticated { candidate, claims });
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.map_or_else(|| Refusal::Unbound(no_binding(&presented)), Into::into))
    }

    /// Says why a token fits no binding, if its holder may know: the token is valid, and the
    /// binding is for the same owner, or for an issuer of its own. Notes it for the admins.
    pub(super) async fn explain_mismatch(&self, token: &str) -> Result<Option<String>, Refusal> {
        let presented = Presented::read(self, token)?;
        let nearby = self.store.workloads_nearby(&presented.keys).await?;
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
///
/// # Errors
/// When they belong to several organizations, and none of them is chosen.
fn narrowest(mut fitting: Vec<Candidate>, organization: Option<&str>) -> Result<Candidate, String> {
    if let Some(organization) = organization {
        fitting.retain(|one| one.tenant.id().to_string() == organization);
    }
    let tenant = fitting.first().map(|one| one.tenant);
    if fitting.iter().any(|one| Some(one.tenant) != tenant) {
        return Err(
            "the token fits workload identities of several organizations; say which one is \
                    meant, by its id in the header X-Organization-Id"
                .to_owned(),
        );
    }
    fitting.sort_by_key(|one| {
        (
            std::cmp::Reverse(one.workload.narrowness()),
            one.workload.id,
        )
    });
    fitting.into_iter().next().ok_or_else(|| {
        "the token fits no workload identity of the organization in the header \
         X-Organization-Id"
            .to_owned()
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
