//! The id token of a pipeline's job: what it claims, and whether the server accepts it.

use changelog_client::{ErrorKind, IdTokenSource, claims_of};
use secrecy::ExposeSecret;
use serde_json::{Map, Value};

use super::report::Report;
use crate::base::failure::{Exit, Failure};
use crate::base::text::one_line;
use crate::environment::app::App;

/// The claims that people choose for a workload identity.
const SHOWN_CLAIMS: [&str; 11] = [
    "iss",
    "sub",
    "repository",
    "project_path",
    "environment",
    "ref",
    "ref_protected",
    "workflow",
    "actor",
    "user_login",
    "run_id",
];
/// The longest claim that is shown, in characters.
const MAX_SHOWN: usize = 100;

/// The name of the check.
const CHECK: &str = "id token";

/// Checks the token; returns whether it is accepted. If there is a key too, a token that is
/// refused is no failure.
pub(super) async fn check(
    app: &App,
    source: &IdTokenSource,
    has_key: bool,
    report: &mut Report,
) -> bool {
    let Ok(client) = app.token_client(source.clone()) else {
        // The URL was checked before.
        return false;
    };
    let audience = client.url().as_str().trim_end_matches('/').to_owned();
    let name = source.name();
    let token = match source.token(&audience).await {
        Ok(token) => token,
        Err(error) => {
            let found = format!("none, from {name}: {error}");
            return refuse(
                report,
                has_key,
                found,
                "check the permission id-token of the job, or the file",
            );
        }
    };
    let Some(claims) = claims_of(token.expose_secret()) else {
        let found = format!("from {name}: it is not a signed JWT");
        return refuse(
            report,
            has_key,
            found,
            "give the job a token as its CI system signs it",
        );
    };
    let own = claims
        .get("aud")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if own != audience {
        report.warn(
            "audience",
            format!("the token is for {own:?}, and the server URL is {audience}"),
            "a workload identity takes one audience exactly; use the URL for both",
        );
    }
    report.ok("claims", summary(&claims));
    match client.key().await {
        Ok(known) => {
            let workload = one_line(&known.name);
            let found = format!("from {name}, is accepted as the workload identity {workload}");
            report.ok(CHECK, found);
            report.ok(
                "plan",
                format!(
                    "organization {}, plan {}",
                    one_line(&known.organization.name),
                    known.plan
                ),
            );
            true
        }
        Err(error) if error.kind() == Some(ErrorKind::Unauthorized) => {
            let found = format!(
                "from {name}, is not accepted: {}",
                one_line(&error.to_string())
            );
            let advice = "compare the claims above with Settings, Workload identities, in the \
                          dashboard";
            refuse(report, has_key, found, advice)
        }
        Err(error) => {
            report.fail(CHECK, &error.into());
            false
        }
    }
}

/// Adds that the token is not accepted.
fn refuse(report: &mut Report, has_key: bool, found: String, advice: &str) -> bool {
    if has_key {
        let advice = format!("{advice}; until then, the API key is used");
        report.warn(CHECK, found, &advice);
    } else {
        let failure = Failure::new(Exit::NotAuthorized, found).hint(advice);
        report.fail(CHECK, &failure);
    }
    false
}

/// Returns the claims that say which job it is.
fn summary(claims: &Map<String, Value>) -> String {
    let shown = SHOWN_CLAIMS.iter().filter_map(|name| {
        let value = match claims.get(*name)? {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let value: String = one_line(&value).chars().take(MAX_SHOWN).collect();
        Some(format!("{name}={value}"))
    });
    shown.collect::<Vec<_>>().join(", ")
}
