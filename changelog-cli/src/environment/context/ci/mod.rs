//! The CI systems: how each is recognized, and its run.

pub(crate) mod run;
mod systems;
mod target;
mod variables;

use run::Run;
use variables::{Lookup, Variables};

/// Returns the CI run that the environment describes, if there is one.
pub(crate) fn current(environment: Lookup<'_>) -> Option<Run> {
    let env = Variables(environment);
    let run = if env.has("GITHUB_ACTIONS") {
        systems::github(&env)
    } else if env.has("GITLAB_CI") {
        systems::gitlab(&env)
    } else if env.has("JENKINS_URL") {
        systems::jenkins(&env)
    } else if env.has("CIRCLECI") {
        systems::circle(&env)
    } else if env.has("TF_BUILD") {
        systems::azure(&env)
    } else if env.has("BUILDKITE") {
        systems::buildkite(&env)
    } else if env.has("BITBUCKET_BUILD_NUMBER") {
        systems::bitbucket(&env)
    } else if env.has("TFC_RUN_ID") {
        systems::terraform_cloud(&env)
    } else if env.has("PULL_URL") && env.has("PLANFILE") {
        systems::atlantis(&env)
    } else {
        return None;
    };
    Some(run)
}
