//! Workload identities: which pipelines may act for an organization without a key, by the tokens
//! that their own system signs for each job.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{OrganizationId, WorkloadId};
use crate::input::{Input, ObjectReader};
use crate::issuer::check_issuer;
use crate::limits::{MAX_AUDIENCE_CHARS, MAX_CLAIM_CHARS, MAX_CLAIMS, MAX_NAME_CHARS};
use crate::permissions::Permissions;
use crate::problem::{BadValue, ViolationCode, Violations};
use crate::rules::{self, TextKind};
use crate::time::Timestamp;

/// Claims that say whose job it is, the most telling first. By one of them the bindings are
/// found that a token may fit.
const IDENTIFYING: [&str; 12] = [
    "repository",
    "project_path",
    "sub",
    "repository_id",
    "project_id",
    "email",
    "repository_owner",
    "repository_owner_id",
    "namespace_path",
    "namespace_id",
    "organization_slug",
    "terraform_organization_name",
];

/// Issuers whose tokens anybody can have: a binding must say whose jobs it is for.
const PUBLIC_ISSUERS: [&str; 5] = [
    "https://token.actions.githubusercontent.com",
    "https://gitlab.com",
    "https://agent.buildkite.com",
    "https://app.terraform.io",
    "https://accounts.google.com",
];

/// The most values of a claim by which bindings are looked up, if it is a list.
const MAX_LISTED_VALUES: usize = 10;

/// Claims that have fields of their own, or differ for each token.
const NOT_MATCHED: [&str; 6] = ["iss", "aud", "exp", "nbf", "iat", "jti"];

/// A claim that a token must have, with a value that fits a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClaimPattern {
    /// The name of the claim.
    pub name: String,
    /// The value, in which `*` stands for any characters.
    pub pattern: String,
}

impl fmt::Display for ClaimPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.pattern)
    }
}

impl FromStr for ClaimPattern {
    type Err = BadValue;

    /// Reads `NAME=PATTERN`; spaces around either are left out.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |message: String| BadValue {
            code: ViolationCode::InvalidFormat,
            message,
        };
        let (name, pattern) = text.split_once('=').unwrap_or_default();
        let (name, pattern) = (name.trim(), pattern.trim());
        if name.is_empty() || pattern.is_empty() {
            return Err(invalid(format!(
                "must be a claim and its value, such as repository=acme/shop; got {}",
                rules::quoted(text)
            )));
        }
        if NOT_MATCHED.contains(&name) {
            return Err(invalid(format!(
                "must not be the claim {name}: the issuer, the audience and the times of a token \
                 are checked anyway"
            )));
        }
        let chars = text.chars().count();
        if chars > MAX_CLAIM_CHARS {
            return Err(invalid(format!(
                "must have at most {MAX_CLAIM_CHARS} characters, got {chars}"
            )));
        }
        if text.chars().any(char::is_control) {
            return Err(invalid("must not contain control characters".to_owned()));
        }
        Ok(Self {
            name: name.to_owned(),
            pattern: pattern.to_owned(),
        })
    }
}

impl TryFrom<String> for ClaimPattern {
    type Error = BadValue;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ClaimPattern> for String {
    fn from(claim: ClaimPattern) -> Self {
        claim.to_string()
    }
}

impl ClaimPattern {
    /// Returns whether a token with these claims fits. A claim that is a list fits if one of its
    /// values does.
    pub fn matches(&self, claims: &Map<String, Value>) -> bool {
        match claims.get(&self.name) {
            Some(Value::Array(values)) => values.iter().any(|value| self.fits(value)),
            Some(value) => self.fits(value),
            None => false,
        }
    }

    fn fits(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => fits(&self.pattern, text),
            Value::Bool(_) | Value::Number(_) => fits(&self.pattern, &value.to_string()),
            _ => false,
        }
    }

    /// Returns the value if it has no `*`.
    fn exact(&self) -> Option<&str> {
        (!self.pattern.contains('*')).then_some(self.pattern.as_str())
    }

    /// Returns the beginning of the value to its first slash, if that has no `*`.
    fn owner(&self) -> Option<&str> {
        owner(&self.pattern).filter(|owner| !owner.contains('*'))
    }
}

/// Returns the beginning of a value to its first slash, with it.
fn owner(value: &str) -> Option<&str> {
    let (owner, _) = value.split_once('/')?;
    (!owner.is_empty()).then(|| &value[..=owner.len()])
}

/// Returns whether a string matches a pattern, in which `*` matches any characters.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

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

/// By which a binding is looked up: a token has several, one of which is that of the binding.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LookupKey(String);

impl LookupKey {
    fn new(issuer: &str, audience: &str, kind: char, name: &str, value: &str) -> Self {
        // None of them can contain a line feed.
        Self(format!("{issuer}\n{audience}\n{kind}{name}\n{value}"))
    }

    /// Returns the key as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn any(issuer: &str, audience: &str) -> Self {
        Self::new(issuer, audience, '*', "", "")
    }

    fn identifying(claims: &[ClaimPattern]) -> impl Iterator<Item = &ClaimPattern> + Clone {
        let named = |name: &&str| claims.iter().find(|claim| claim.name == *name);
        let found: Vec<_> = IDENTIFYING.iter().filter_map(named).collect();
        found.into_iter()
    }

    /// Returns the key by which a binding is found for tokens that fit.
    pub fn of_binding(issuer: &str, audience: &str, claims: &[ClaimPattern]) -> Self {
        let identifying = Self::identifying(claims);
        let exact = |claim: &ClaimPattern| {
            let value = claim.exact()?;
            Some(Self::new(issuer, audience, '=', &claim.name, value))
        };
        let by_owner = |claim: &ClaimPattern| {
            let owner = claim.owner()?;
            Some(Self::new(issuer, audience, '/', &claim.name, owner))
        };
        let mut exact = identifying.clone().filter_map(exact);
        let mut by_owner = identifying.filter_map(by_owner);
        exact
            .next()
            .or_else(|| by_owner.next())
            .unwrap_or_else(|| Self::any(issuer, audience))
    }

    /// Returns the key by which a binding is found for tokens that are told why they do not
    /// fit: those of the same owner. An issuer that is not a public one is the
    /// organization's own, and all of its tokens are.
    pub fn of_hints(issuer: &str, audience: &str, claims: &[ClaimPattern]) -> Self {
        if !PUBLIC_ISSUERS.contains(&issuer) {
            return Self::any(issuer, audience);
        }
        let by_owner = |claim: &ClaimPattern| {
            let owner = claim.owner()?;
            Some(Self::new(issuer, audience, '/', &claim.name, owner))
        };
        let mut by_owner = Self::identifying(claims).filter_map(by_owner);
        by_owner
            .next()
            .unwrap_or_else(|| Self::of_binding(issuer, audience, claims))
    }

    /// Returns the keys of all bindings that a token may fit.
    pub fn of_token(issuer: &str, audience: &str, claims: &Map<String, Value>) -> Vec<Self> {
        let mut keys = vec![Self::any(issuer, audience)];
        for name in IDENTIFYING {
            let values = match claims.get(name) {
                Some(Value::Array(values)) => values.as_slice(),
                Some(value) => std::slice::from_ref(value),
                None => continue,
            };
            // Each is looked up.
            for value in values.iter().take(MAX_LISTED_VALUES) {
                let value = match value {
                    Value::String(text) => text.clone(),
                    value @ Value::Number(_) => value.to_string(),
                    _ => continue,
                };
                keys.push(Self::new(issuer, audience, '=', name, &value));
                if let Some(owner) = owner(&value) {
                    keys.push(Self::new(issuer, audience, '/', name, owner));
                }
            }
        }
        keys
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

/// Which job a token was made for, as its issuer has signed it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct VerifiedRun {
    /// The issuer.
    #[cfg_attr(
        feature = "openapi",
        schema(example = "https://token.actions.githubusercontent.com")
    )]
    pub issuer: String,
    /// The subject of the token.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub subject: Option<String>,
    /// The repository or project.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required, example = "acme/shop"))]
    pub repository: Option<String>,
    /// The commit for which the job runs.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required, example = "1a2b3c4d5e6f"))]
    pub commit: Option<String>,
    /// The branch or tag.
    #[serde(default, rename = "ref")]
    #[cfg_attr(feature = "openapi", schema(required, example = "refs/heads/main"))]
    pub git_ref: Option<String>,
    /// The user who started the job.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required, example = "ada"))]
    pub actor: Option<String>,
    /// The id of the run or job.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required, example = "1234567890"))]
    pub run: Option<String>,
    /// The page of the run or job, if the issuer is one whose pages are known.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub run_url: Option<String>,
}

impl VerifiedRun {
    /// Reads the claims of a token whose signature is right.
    pub fn of(issuer: &str, claims: &Map<String, Value>) -> Self {
        let text = |name: &str| match claims.get(name)? {
            Value::String(text) => Some(shown(text)),
            number @ Value::Number(_) => Some(number.to_string()),
            _ => None,
        };
        let mut run = Self {
            issuer: issuer.to_owned(),
            subject: text("sub"),
            ..Self::default()
        };
        if let Some(project) = text("project_path") {
            run.commit = text("sha");
            run.git_ref = text("ref");
            run.actor = text("user_login");
            run.run = text("job_id").or_else(|| text("pipeline_id"));
            run.run_url = run
                .run
                .as_ref()
                .filter(|_| claims.contains_key("job_id"))
                .map(|job| format!("{}/{project}/-/jobs/{job}", issuer.trim_end_matches('/')));
            run.repository = Some(project);
        } else {
            run.repository = text("repository");
            run.commit = text("sha");
            run.git_ref = text("ref");
            run.actor = text("actor");
            run.run = text("run_id");
            run.run_url = match (&run.repository, &run.run, github_of(issuer)) {
                (Some(repository), Some(id), Some(server)) => {
                    Some(format!("{server}/{repository}/actions/runs/{id}"))
                }
                _ => None,
            };
        }
        // Only what is a link may be shown as one.
        run.run_url.take_if(|url| !is_plain_web_url(url));
        run
    }

    /// Returns the name of the pipeline: its system and its repository, as in
    /// `github acme/shop`, or else the host of the issuer and the subject.
    pub fn name(&self, claims: &Map<String, Value>) -> String {
        let host = url::Url::parse(&self.issuer).ok();
        let host = host.as_ref().and_then(url::Url::host_str);
        let system = if claims.contains_key("project_path") {
            "gitlab"
        } else if claims.contains_key("repository") {
            "github"
        } else {
            host.unwrap_or("token")
        };
        let what = self.repository.as_ref().or(self.subject.as_ref());
        what.map_or_else(|| system.to_owned(), |what| format!("{system} {what}"))
    }
}

/// Returns the address of a GitHub by that of its issuer.
fn github_of(issuer: &str) -> Option<String> {
    if issuer == PUBLIC_ISSUERS[0] {
        return Some("https://github.com".to_owned());
    }
    // GitHub Enterprise Server.
    let server = issuer.strip_suffix("/_services/token")?;
    Some(server.to_owned())
}

fn is_plain_web_url(text: &str) -> bool {
    !text.contains(|c: char| c.is_whitespace() || c.is_control())
        && url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "https" | "http"))
}

/// Makes a claim fit to be shown in one line.
fn shown(text: &str) -> String {
    let one_line = text.chars().filter(|c| !c.is_control());
    one_line.take(MAX_CLAIM_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn claims(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, text, is_fit) in [
            ("acme/shop", "acme/shop", true),
            ("acme/shop", "acme/shop2", false),
            ("acme/shop", "evil/acme/shop", false),
            ("acme/*", "acme/shop", true),
            ("acme/*", "acme/", true),
            ("acme/*", "acme", false),
            ("acme/*", "acmee/shop", false),
            ("*", "", true),
            ("*/shop", "acme/shop", true),
            ("*/shop", "acme/shop/x", false),
            ("refs/*/v*", "refs/tags/v1", true),
            ("refs/*/v*", "refs/tags/1", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("a**c", "abc", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(fits(pattern, text), is_fit, "{pattern} {text}");
        }
    }

    #[test]
    fn claims_of_all_types_are_compared_as_texts() {
        let token = claims(&json!({
            "protected": true, "number": 7, "list": ["a", "b"], "object": { "a": 1 }, "none": null,
        }));
        for (claim, is_fit) in [
            ("protected=true", true),
            ("protected=false", false),
            ("number=7", true),
            ("list=b", true),
            ("list=c", false),
            ("object=*", false),
            ("none=*", false),
            ("missing=*", false),
        ] {
            let claim: ClaimPattern = claim.parse().unwrap();
            assert_eq!(claim.matches(&token), is_fit, "{claim}");
        }
    }

    #[test]
    fn every_binding_is_found_for_the_tokens_that_fit() {
        let token = claims(&json!({
            "repository": "acme/shop", "repository_owner": "acme", "sub": "repo:acme/shop:x",
            "environment": "production", "repository_id": 42,
        }));
        let (issuer, audience) = (PUBLIC_ISSUERS[0], "https://changes.example");
        let keys = LookupKey::of_token(issuer, audience, &token);
        let found = |pattern: &str| {
            let claims: Vec<ClaimPattern> =
                pattern.split(' ').map(|one| one.parse().unwrap()).collect();
            (
                keys.contains(&LookupKey::of_binding(issuer, audience, &claims)),
                keys.contains(&LookupKey::of_hints(issuer, audience, &claims)),
            )
        };
        for (pattern, expected) in [
            ("repository=acme/shop", (true, true)),
            ("repository=acme/*", (true, true)),
            ("repository=* sub=repo:acme/shop:*", (true, true)),
            ("repository_owner=acme", (true, true)),
            ("repository_id=42", (true, true)),
            ("environment=production", (true, true)),
            // Of the same owner: not found, but told why.
            ("repository=acme/other", (false, true)),
            ("repository=evil/shop", (false, false)),
            ("repository=evil/*", (false, false)),
            ("repository_owner=evil", (false, false)),
        ] {
            assert_eq!(found(pattern), expected, "{pattern}");
        }
        assert!(!keys.contains(&LookupKey::of_binding(issuer, "other", &[])));
        // All tokens of an issuer of one's own are explained.
        let own = LookupKey::of_token("https://own.example", audience, &token);
        let other: ClaimPattern = "repository=evil/shop".parse().unwrap();
        let hints = LookupKey::of_hints("https://own.example", audience, &[other]);
        assert!(own.contains(&hints));
    }

    #[test]
    fn the_run_is_read_from_the_tokens_of_each_system() {
        let github = claims(&json!({
            "sub": "repo:acme/shop:ref:refs/heads/main", "repository": "acme/shop", "sha": "1a2b",
            "ref": "refs/heads/main", "actor": "ada", "run_id": "7",
        }));
        let run = VerifiedRun::of(PUBLIC_ISSUERS[0], &github);
        assert_eq!(run.name(&github), "github acme/shop");
        assert_eq!(
            run.run_url.as_deref(),
            Some("https://github.com/acme/shop/actions/runs/7")
        );
        let run = VerifiedRun::of("https://ghe.example/_services/token", &github);
        assert_eq!(
            run.run_url.as_deref(),
            Some("https://ghe.example/acme/shop/actions/runs/7")
        );
        assert_eq!(VerifiedRun::of("https://x.example", &github).run_url, None);
        let gitlab = claims(&json!({
            "project_path": "acme/web/shop", "sha": "1a2b", "ref": "main", "user_login": "ada",
            "job_id": "9", "pipeline_id": "8",
        }));
        let run = VerifiedRun::of("https://gitlab.example", &gitlab);
        assert_eq!(run.name(&gitlab), "gitlab acme/web/shop");
        assert_eq!(run.actor.as_deref(), Some("ada"));
        assert_eq!(
            run.run_url.as_deref(),
            Some("https://gitlab.example/acme/web/shop/-/jobs/9")
        );
        let other = claims(&json!({ "sub": "system:serviceaccount:shop:deployer\u{7}" }));
        let run = VerifiedRun::of("https://k8s.example", &other);
        assert_eq!(
            run.name(&other),
            "k8s.example system:serviceaccount:shop:deployer"
        );
    }
}
