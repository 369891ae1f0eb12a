//! The environment that a run deploys to, from the name that a CI system has for it.

use std::fs::File;
use std::io::Read;

use changelog_core::Environment;
use serde_json::Value;

/// The largest event of GitHub that is read, in bytes.
const MAX_EVENT: u64 = 25 * 1024 * 1024;

/// Returns the environment that a name stands for; none for an unknown name. In GitLab,
/// names such as `review/my-branch` are groups of environments.
pub(super) fn environment(name: &str) -> Option<Environment> {
    let name = name.to_lowercase();
    let group = name.split('/').next().unwrap_or(&name);
    match group.trim() {
        "production" | "prod" | "live" => Some(Environment::Prod),
        "staging" | "stage" | "preprod" | "uat" => Some(Environment::Staging),
        "development" | "dev" | "review" => Some(Environment::Dev),
        "test" | "testing" | "qa" => Some(Environment::Test),
        _ => None,
    }
}

/// Returns the name of the environment in the event that started a run of GitHub: of a
/// deployment, or an input named `environment` of a run that was started by hand. No
/// variable has the environment of a job.
pub(super) fn github_environment(event_path: &str) -> Option<String> {
    let mut text = String::new();
    let file = File::open(event_path).ok()?;
    file.take(MAX_EVENT).read_to_string(&mut text).ok()?;
    let event: Value = serde_json::from_str(&text).ok()?;
    let name = event.pointer("/deployment/environment");
    let name = name.or_else(|| event.pointer("/inputs/environment"))?;
    name.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_mapped_and_others_are_left_out() {
        use Environment::{Dev, Prod, Staging, Test};
        for (names, expected) in [
            (
                &["production", "Prod", "live", "production/eu"][..],
                Some(Prod),
            ),
            (&["staging", "stage", "preprod", "UAT"], Some(Staging)),
            (&["development", "dev", "review/my-branch"], Some(Dev)),
            (&["test", "testing", "qa"], Some(Test)),
            (&["", "other", "prod-eu", "my/production", "canary"], None),
        ] {
            for name in names {
                assert_eq!(environment(name), expected, "{name}");
            }
        }
    }

    #[test]
    fn an_event_of_github_may_name_an_environment() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("event.json");
        for (event, expected) in [
            (
                "{\"deployment\": {\"environment\": \"production\"}}",
                Some("production"),
            ),
            (
                "{\"inputs\": {\"environment\": \"qa\", \"x\": \"y\"}}",
                Some("qa"),
            ),
            ("{\"inputs\": null}", None),
            ("{\"deployment\": {\"environment\": 7}}", None),
            ("[]", None),
            ("{", None),
        ] {
            std::fs::write(&path, event).unwrap();
            let name = github_environment(path.to_str().unwrap());
            assert_eq!(name.as_deref(), expected, "{event}");
        }
        assert_eq!(github_environment("/nowhere"), None);
    }
}
