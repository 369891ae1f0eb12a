//! Workload identities: which pipelines may act for an organization without a key, by the tokens
//! that their own system signs for each job.

mod claim;
mod lookup;
mod run;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::claim::ClaimPattern;
use self::lookup::IDENTIFYING;
pub use self::lookup::LookupKey;
pub use self::run::VerifiedRun;
use crate::ids::{OrganizationId, WorkloadId};
use crate::input::{Input, ObjectReader};
use crate::issuer::check_issuer;
use crate::limits::{MAX_AUDIENCE_CHARS, MAX_CLAIMS, MAX_NAME_CHARS};
use crate::permissions::Permissions;
use crate::problem::{ViolationCode, Violations};
use crate::rules::{self, TextKind};
use crate::time::Timestamp;

/// Issuers whose tokens anybody can have: a binding must say whose jobs it is for.
const PUBLIC_ISSUERS: [&str; 5] = [
    "https://token.actions.githubusercontent.com",
    "https://gitlab.com",
    "https://agent.buildkite.com",
    "https://app.terraform.io",
    "https://accounts.google.com",
];

/// A binding: which tokens of which issuer may act for an organization, and what they may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// The id.
    pub id: WorkloadId,
    /// The name, unique in the organization without regard to case.
    pub name: String,
    /// The organization that the tokens act for.
    pub organization_id: OrganizationId,
    /// The issuer of the tokens, exactly as they name it.
    pub issuer: String,
    /// The only audience of the tokens.
    pub audience: String,
    /// What the tokens must claim, all of it.
    pub claims: Vec<ClaimPattern>,
    /// Whether the issuer may be reached by plain http and in any network, for trials.
    pub allow_insecure_issuer: bool,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The name of its creator at that time.
    pub created_by: String,
    /// The time of the last use, to the minute.
    pub last_used_at: Option<Timestamp>,
    /// The last token that nearly fitted, and why it did not.
    pub last_refusal: Option<RefusedToken>,
    /// What the tokens may do.
    #[serde(flatten)]
    pub permissions: Permissions,
}

/// A token that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedToken {
    /// When, to the minute.
    pub at: Timestamp,
    /// Why: which claim, what was expected, what the token says.
    pub reason: String,
}

impl Workload {
    /// Returns why a token with these claims does not fit: the claims that differ, as in
    /// `environment is "staging", expected "production"`; `None` if it fits.
    pub fn mismatch(&self, claims: &Map<String, Value>) -> Option<String> {
        let differing = self.claims.iter().filter(|claim| !claim.matches(claims));
        let differing: Vec<String> = differing
            .map(|claim| {
                let given = claims.get(&claim.name).map_or_else(
                    || "missing".to_owned(),
                    |value| match value {
                        Value::String(text) => rules::quoted(text),
                        other => rules::quoted(&other.to_string()),
                    },
                );
                let name = &claim.name;
                format!("{name} is {given}, expected \"{}\"", claim.pattern)
            })
            .collect();
        (!differing.is_empty()).then(|| differing.join("; "))
    }

    /// Returns how narrow the binding is: of several that fit, the narrowest counts.
    pub fn narrowness(&self) -> (usize, usize) {
        let exact = self.claims.iter().filter(|claim| claim.exact().is_some());
        (exact.count(), self.claims.len())
    }
}

/// Input for creating a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWorkload {
    /// The name.
    pub name: String,
    /// The issuer.
    pub issuer: String,
    /// The audience.
    pub audience: String,
    /// What tokens must claim.
    pub claims: Vec<ClaimPattern>,
    /// What they may do.
    pub permissions: Permissions,
}

impl Input for NewWorkload {
    const FIELDS: &'static [&'static str] = &[
        "name",
        "issuer",
        "audience",
        "claims",
        Permissions::FIELDS[0],
        Permissions::FIELDS[1],
        Permissions::FIELDS[2],
    ];

    fn read(object: &mut ObjectReader<'_>) -> Self {
        Self {
            name: object.required_string("name"),
            issuer: object.required_string("issuer"),
            audience: object.required_string("audience"),
            claims: object.parsed_list("claims", MAX_CLAIMS).unwrap_or_default(),
            permissions: Permissions::read(object),
        }
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        let name = 1..=MAX_NAME_CHARS;
        rules::text(problems, "/name", &mut self.name, name, TextKind::Name);
        check_issuer(problems, "/issuer", &mut self.issuer);
        let audience = 1..=MAX_AUDIENCE_CHARS;
        rules::text(
            problems,
            "/audience",
            &mut self.audience,
            audience,
            TextKind::Key,
        );
        self.check_claims(problems);
        self.permissions.check(problems);
    }
}

impl NewWorkload {
    fn check_claims(&self, problems: &mut Violations) {
        let mut add = |message: String| {
            problems.add("/claims", ViolationCode::Required, message);
        };
        if self.claims.is_empty() {
            return add(
                "must name at least one claim, such as repository=acme/shop; without one, every \
                 token of the issuer would be accepted"
                    .to_owned(),
            );
        }
        for (index, claim) in self.claims.iter().enumerate() {
            if self.claims[..index]
                .iter()
                .any(|one| one.name == claim.name)
            {
                return add(format!(
                    "must name {} once; make another binding for another value",
                    claim.name
                ));
            }
        }
        let is_identified = |claim: &ClaimPattern| {
            IDENTIFYING.contains(&claim.name.as_str())
                && (claim.exact().is_some() || claim.owner().is_some())
        };
        if PUBLIC_ISSUERS.contains(&self.issuer.as_str()) && !self.claims.iter().any(is_identified)
        {
            add(format!(
                "must say whose jobs they are, by one of {}, with no * before the first slash: \
                 anybody can have a token of {}",
                IDENTIFYING.join(", "),
                self.issuer
            ));
        }
    }
}
