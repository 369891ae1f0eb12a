//! The context that the variables of each CI system give.

use super::Context;
use super::checkout::Checkout;
use super::ci::current;

const SHA: &str = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";

/// Asserts the title, tags and links that variables give, each on a line; `SHA` stands for
/// the commit. `tags` also has the person and the environment, as if they were tags.
#[track_caller]
fn says(variables: &str, title: &str, tags: &str, links: &str) {
    let run = current(&|name| {
        let mut variables = variables
            .lines()
            .filter_map(|line| line.trim().split_once('='));
        let (_, value) = variables.find(|(known, _)| *known == name)?;
        Some(value.replace("SHA", SHA).replace("\\n", "\n"))
    });
    assert!(run.is_some(), "not recognized");
    let context = Context::merge(run, Checkout::default());
    assert_eq!(context.title.as_deref(), Some(title));
    let mut found = context.tags;
    found.extend(context.actor.map(|actor| format!("actor={actor}")));
    let environment = context.environment;
    found.extend(environment.map(|environment| format!("environment={environment}")));
    assert_eq!(found.join(", "), tags);
    let found = context.links.iter();
    let found = found.map(|link| format!("{}: {}", link.label, link.url.replace(SHA, "SHA")));
    let links: Vec<&str> = links.lines().map(str::trim).collect();
    assert_eq!(found.collect::<Vec<_>>(), links);
}

#[test]
fn github_actions() {
    let push = "CI=true
         GITHUB_ACTIONS=true
         GITHUB_SERVER_URL=https://github.com
         GITHUB_REPOSITORY=octo-org/hello-world
         GITHUB_SHA=SHA
         GITHUB_REF=refs/heads/main
         GITHUB_REF_NAME=main
         GITHUB_REF_TYPE=branch
         GITHUB_HEAD_REF=
         GITHUB_BASE_REF=
         GITHUB_ACTOR=octocat
         GITHUB_RUN_ID=1658821493
         GITHUB_RUN_ATTEMPT=2
         GITHUB_EVENT_NAME=push";
    let title = "deploy octo-org/hello-world@1a2b3c4";
    let tags = "ci=github-actions, repo=octo-org/hello-world, commit=1a2b3c4, actor=octocat";
    says(
        push,
        title,
        tags,
        "run: https://github.com/octo-org/hello-world/actions/runs/1658821493/attempts/2
         commit: https://github.com/octo-org/hello-world/commit/SHA
         branch: https://github.com/octo-org/hello-world/tree/main",
    );
    let pull = push
        .replace("refs/heads/main", "refs/pull/42/merge")
        .replace("REF_NAME=main", "REF_NAME=42/merge")
        .replace("HEAD_REF=", "HEAD_REF=feature/x");
    says(
        &pull,
        title,
        tags,
        "run: https://github.com/octo-org/hello-world/actions/runs/1658821493/attempts/2
         commit: https://github.com/octo-org/hello-world/commit/SHA
         branch: https://github.com/octo-org/hello-world/tree/feature/x
         pull request: https://github.com/octo-org/hello-world/pull/42",
    );
}

#[test]
fn gitlab_ci() {
    says(
        "CI=true
         GITLAB_CI=true
         CI_PROJECT_PATH=group/sub/project
         CI_PROJECT_URL=https://gitlab.example.com/group/sub/project
         CI_REPOSITORY_URL=https://gitlab-ci-token:glcbt-secret@gitlab.example.com/group/sub/project.git
         CI_COMMIT_SHA=SHA
         CI_COMMIT_TITLE=Fix the payments
         CI_COMMIT_REF_NAME=main
         CI_MERGE_REQUEST_IID=7
         CI_MERGE_REQUEST_PROJECT_URL=https://gitlab.example.com/group/sub/project
         CI_ENVIRONMENT_TIER=other
         CI_ENVIRONMENT_NAME=review/my-branch
         GITLAB_USER_LOGIN=ada
         CI_JOB_URL=https://gitlab.example.com/group/sub/project/-/jobs/321
         CI_PIPELINE_URL=https://gitlab.example.com/group/sub/project/-/pipelines/3",
        "deploy group/sub/project@1a2b3c4: Fix the payments",
        "ci=gitlab-ci, repo=group/sub/project, commit=1a2b3c4, actor=ada, environment=dev",
        "run: https://gitlab.example.com/group/sub/project/-/jobs/321
         commit: https://gitlab.example.com/group/sub/project/-/commit/SHA
         branch: https://gitlab.example.com/group/sub/project/-/tree/main
         pull request: https://gitlab.example.com/group/sub/project/-/merge_requests/7",
    );
}

#[test]
fn jenkins() {
    says(
        "JENKINS_URL=https://jenkins.example.com/
         BUILD_URL=https://jenkins.example.com/job/deploy/42/
         BUILD_NUMBER=42
         JOB_NAME=deploy
         GIT_COMMIT=SHA
         GIT_BRANCH=origin/main
         GIT_URL=https://bot:ghp_secret@github.com/owner/repo.git
         BUILD_USER=Ada Lovelace
         CHANGE_URL=https://github.com/owner/repo/pull/3",
        "deploy owner/repo@1a2b3c4",
        "ci=jenkins, repo=owner/repo, commit=1a2b3c4, actor=Ada Lovelace",
        "run: https://jenkins.example.com/job/deploy/42/
         commit: https://github.com/owner/repo/commit/SHA
         branch: https://github.com/owner/repo/tree/main
         pull request: https://github.com/owner/repo/pull/3",
    );
}

#[test]
fn circleci() {
    says(
        "CI=true
         CIRCLECI=true
         CIRCLE_SHA1=SHA
         CIRCLE_TAG=v2.3
         CIRCLE_USERNAME=ada
         CIRCLE_REPOSITORY_URL=git@github.com:owner/repo.git
         CIRCLE_PROJECT_USERNAME=owner
         CIRCLE_PROJECT_REPONAME=repo
         CIRCLE_BUILD_URL=https://circleci.com/gh/owner/repo/42",
        "deploy owner/repo@1a2b3c4",
        "ci=circleci, repo=owner/repo, commit=1a2b3c4, actor=ada",
        "run: https://circleci.com/gh/owner/repo/42
         commit: https://github.com/owner/repo/commit/SHA
         tag: https://github.com/owner/repo/tree/v2.3",
    );
}

#[test]
fn azure_pipelines() {
    says(
        "TF_BUILD=True
         BUILD_SOURCEVERSION=SHA
         BUILD_SOURCEVERSIONMESSAGE=Fix the payments\\n\\nAll of them
         BUILD_SOURCEBRANCH=refs/heads/main
         BUILD_REQUESTEDFOR=Ada Lovelace
         ENVIRONMENT_NAME=Preprod
         BUILD_REPOSITORY_NAME=repo
         BUILD_REPOSITORY_URI=https://acme@dev.azure.com/acme/Web%20Shop/_git/repo
         SYSTEM_COLLECTIONURI=https://dev.azure.com/acme/
         SYSTEM_TEAMPROJECT=Web Shop
         BUILD_BUILDID=4711",
        "deploy acme/Web Shop/repo@1a2b3c4: Fix the payments",
        "ci=azure-pipelines, repo=acme/Web Shop/repo, commit=1a2b3c4, actor=Ada Lovelace, environment=staging",
        "run: https://dev.azure.com/acme/Web%20Shop/_build/results?buildId=4711
         commit: https://dev.azure.com/acme/Web%20Shop/_git/repo/commit/SHA
         branch: https://dev.azure.com/acme/Web%20Shop/_git/repo?version=GBmain",
    );
}

#[test]
fn buildkite() {
    says(
        "CI=true
         BUILDKITE=true
         BUILDKITE_COMMIT=SHA
         BUILDKITE_BRANCH=main
         BUILDKITE_TAG=
         BUILDKITE_MESSAGE=Fix the payments\\n\\nAll of them
         BUILDKITE_PULL_REQUEST=12
         BUILDKITE_REPO=git@github.com:owner/repo.git
         BUILDKITE_BUILD_AUTHOR=Ada
         BUILDKITE_BUILD_URL=https://buildkite.com/acme/deploy/builds/42",
        "deploy owner/repo@1a2b3c4: Fix the payments",
        "ci=buildkite, repo=owner/repo, commit=1a2b3c4, actor=Ada",
        "run: https://buildkite.com/acme/deploy/builds/42
         commit: https://github.com/owner/repo/commit/SHA
         branch: https://github.com/owner/repo/tree/main
         pull request: https://github.com/owner/repo/pull/12",
    );
}

#[test]
fn bitbucket_pipelines() {
    says(
        "CI=true
         BITBUCKET_BUILD_NUMBER=42
         BITBUCKET_COMMIT=SHA
         BITBUCKET_BRANCH=main
         BITBUCKET_REPO_FULL_NAME=team/repo
         BITBUCKET_PR_ID=5
         BITBUCKET_STEP_TRIGGERER_UUID={470c176d-3574-44ea-bb41-89e8638bcca4}
         BITBUCKET_DEPLOYMENT_ENVIRONMENT=production",
        "deploy team/repo@1a2b3c4",
        "ci=bitbucket-pipelines, repo=team/repo, commit=1a2b3c4, actor=470c176d-3574-44ea-bb41-89e8638bcca4, environment=prod",
        "run: https://bitbucket.org/team/repo/addon/pipelines/home#!/results/42
         commit: https://bitbucket.org/team/repo/commits/SHA
         branch: https://bitbucket.org/team/repo/branch/main
         pull request: https://bitbucket.org/team/repo/pull-requests/5",
    );
}

#[test]
fn terraform_cloud() {
    says(
        "TFC_RUN_ID=run-CKuwsxMGgMd6W7Ui
         TFC_WORKSPACE_NAME=prod-network
         TFC_WORKSPACE_SLUG=acme/prod-network
         TFC_CONFIGURATION_VERSION_GIT_BRANCH=main
         TFC_CONFIGURATION_VERSION_GIT_COMMIT_SHA=SHA
         TFC_CONFIGURATION_VERSION_GIT_TAG=",
        "deploy 1a2b3c4",
        "ci=terraform-cloud, commit=1a2b3c4",
        "run: https://app.terraform.io/app/acme/workspaces/prod-network/runs/run-CKuwsxMGgMd6W7Ui",
    );
}

#[test]
fn atlantis() {
    says(
        "PLANFILE=/atlantis/repos/owner/repo/3/default/default.tfplan
         WORKSPACE=default
         DIR=.
         HEAD_COMMIT=SHA
         HEAD_BRANCH_NAME=feature
         BASE_BRANCH_NAME=main
         BASE_REPO_NAME=repo
         BASE_REPO_OWNER=owner
         PULL_NUM=3
         PULL_URL=https://github.com/owner/repo/pull/3
         USER_NAME=ada",
        "deploy owner/repo@1a2b3c4",
        "ci=atlantis, repo=owner/repo, commit=1a2b3c4, actor=ada",
        "commit: https://github.com/owner/repo/commit/SHA
         branch: https://github.com/owner/repo/tree/feature
         pull request: https://github.com/owner/repo/pull/3",
    );
}

#[test]
fn nothing_is_recognised_by_half_of_its_variables() {
    assert_eq!(current(&|_| None), None);
    assert_eq!(
        current(&|name| (name == "CI").then(|| "true".to_owned())),
        None
    );
    assert_eq!(
        current(&|name| (name == "PULL_URL").then(|| "https://e.com/pull/1".to_owned())),
        None
    );
    let empty = current(&|name| (name == "GITHUB_ACTIONS").then(String::new));
    assert_eq!(empty, None);
}
