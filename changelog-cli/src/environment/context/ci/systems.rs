//! The CI systems: what the variables of each say about a run.

use super::run::{Ref, Run};
use super::target::{environment, github_environment};
use super::variables::Variables;
use crate::environment::repository::{Repository, web_url};

pub(super) fn github(env: &Variables<'_>) -> Run {
    let server = env.get("GITHUB_SERVER_URL");
    let server = server.as_deref().unwrap_or("https://github.com");
    let name = env.get("GITHUB_REPOSITORY");
    let page = name.as_deref().map(|name| format!("{server}/{name}"));
    let url = page
        .as_deref()
        .zip(env.get("GITHUB_RUN_ID"))
        .map(|(page, id)| {
            let attempt = env.get("GITHUB_RUN_ATTEMPT");
            let attempt = attempt.map(|number| format!("/attempts/{number}"));
            format!("{page}/actions/runs/{id}{}", attempt.unwrap_or_default())
        });
    let repository = page.as_deref().and_then(Repository::of_page);
    let reference = env.get("GITHUB_REF").unwrap_or_default();
    let number = reference
        .strip_prefix("refs/pull/")
        .and_then(|rest| rest.split('/').next());
    let pull_request = repository
        .as_ref()
        .zip(number)
        .and_then(|(at, number)| at.pull_request(number));
    let by_name = if env.get("GITHUB_REF_TYPE").as_deref() == Some("tag") {
        env.tag("GITHUB_REF_NAME")
    } else {
        env.branch("GITHUB_REF_NAME").filter(|_| number.is_none())
    };
    let event = env.get("GITHUB_EVENT_PATH");
    let event = event.and_then(|path| github_environment(&path));
    Run {
        system: "github-actions",
        pull_request,
        repository,
        commit: env.get("GITHUB_SHA"),
        reference: env.branch("GITHUB_HEAD_REF").or(by_name),
        environment: event.and_then(|name| environment(&name)),
        actor: env.get("GITHUB_ACTOR"),
        url: url.and_then(|url| web_url(&url)).map(Into::into),
        subject: None,
    }
}

pub(super) fn gitlab(env: &Variables<'_>) -> Run {
    let page = env.get("CI_PROJECT_URL");
    let repository = page.as_deref().and_then(Repository::of_page);
    let target = env.get("CI_MERGE_REQUEST_PROJECT_URL").or(page);
    let pull_request = target
        .as_deref()
        .and_then(web_url)
        .zip(env.get("CI_MERGE_REQUEST_IID"))
        .map(|(page, number)| format!("{page}/-/merge_requests/{number}"));
    Run {
        system: "gitlab-ci",
        repository: repository.or_else(|| Repository::named(&env.get("CI_PROJECT_PATH")?)),
        commit: env.get("CI_COMMIT_SHA"),
        reference: env
            .branch("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME")
            .or_else(|| env.tag("CI_COMMIT_TAG"))
            .or_else(|| env.branch("CI_COMMIT_REF_NAME")),
        environment: env
            .environment("CI_ENVIRONMENT_TIER")
            .or_else(|| env.environment("CI_ENVIRONMENT_NAME")),
        actor: env.get("GITLAB_USER_LOGIN"),
        url: env
            .page("CI_JOB_URL")
            .or_else(|| env.page("CI_PIPELINE_URL")),
        pull_request,
        subject: env.first_line("CI_COMMIT_TITLE"),
    }
}

pub(super) fn jenkins(env: &Variables<'_>) -> Run {
    // A job prefixes the branch with the remote.
    let branch = env.get("GIT_BRANCH").or_else(|| env.get("BRANCH_NAME"));
    let branch = branch.map(|name| {
        let name = name.strip_prefix("origin/").unwrap_or(&name);
        Ref::Branch(name.to_owned())
    });
    Run {
        system: "jenkins",
        repository: env.remote("GIT_URL"),
        commit: env.get("GIT_COMMIT"),
        reference: env
            .branch("CHANGE_BRANCH")
            .or_else(|| env.tag("TAG_NAME"))
            .or(branch),
        environment: None,
        actor: env.get("BUILD_USER"),
        url: env.page("BUILD_URL"),
        pull_request: env.page("CHANGE_URL"),
        subject: None,
    }
}

pub(super) fn circle(env: &Variables<'_>) -> Run {
    let named = || {
        let owner = env.get("CIRCLE_PROJECT_USERNAME")?;
        Repository::named(&format!("{owner}/{}", env.get("CIRCLE_PROJECT_REPONAME")?))
    };
    Run {
        system: "circleci",
        repository: env.remote("CIRCLE_REPOSITORY_URL").or_else(named),
        commit: env.get("CIRCLE_SHA1"),
        reference: env
            .branch("CIRCLE_BRANCH")
            .or_else(|| env.tag("CIRCLE_TAG")),
        environment: None,
        actor: env.get("CIRCLE_USERNAME"),
        url: env.page("CIRCLE_BUILD_URL"),
        pull_request: env.page("CIRCLE_PULL_REQUEST"),
        subject: None,
    }
}

pub(super) fn azure(env: &Variables<'_>) -> Run {
    let repository = env.remote("BUILD_REPOSITORY_URI");
    let url = || {
        let collection = web_url(&env.get("SYSTEM_COLLECTIONURI")?)?;
        let mut url = collection;
        url.path_segments_mut().ok()?.pop_if_empty().extend([
            env.get("SYSTEM_TEAMPROJECT")?.as_str(),
            "_build",
            "results",
        ]);
        url.query_pairs_mut()
            .append_pair("buildId", &env.get("BUILD_BUILDID")?);
        Some(url.into())
    };
    // GitHub's number differs from the build's.
    let number = env
        .get("SYSTEM_PULLREQUEST_PULLREQUESTNUMBER")
        .or_else(|| env.get("SYSTEM_PULLREQUEST_PULLREQUESTID"));
    let pull_request = repository
        .as_ref()
        .zip(number)
        .and_then(|(at, number)| at.pull_request(&number));
    let source = env
        .get("SYSTEM_PULLREQUEST_SOURCEBRANCH")
        .or_else(|| env.get("BUILD_SOURCEBRANCH"));
    Run {
        system: "azure-pipelines",
        repository: repository.or_else(|| Repository::named(&env.get("BUILD_REPOSITORY_NAME")?)),
        commit: env.get("BUILD_SOURCEVERSION"),
        reference: source.and_then(|name| Ref::of_full(&name)),
        environment: env.environment("ENVIRONMENT_NAME"),
        actor: env.get("BUILD_REQUESTEDFOR"),
        url: url(),
        pull_request,
        subject: env.first_line("BUILD_SOURCEVERSIONMESSAGE"),
    }
}

pub(super) fn buildkite(env: &Variables<'_>) -> Run {
    let repository = env.remote("BUILDKITE_REPO");
    let pull_request = repository
        .as_ref()
        .zip(env.get("BUILDKITE_PULL_REQUEST"))
        .and_then(|(at, number)| at.pull_request(&number));
    Run {
        system: "buildkite",
        repository,
        commit: env.get("BUILDKITE_COMMIT"),
        reference: env
            .tag("BUILDKITE_TAG")
            .or_else(|| env.branch("BUILDKITE_BRANCH")),
        environment: None,
        actor: env.get("BUILDKITE_BUILD_AUTHOR"),
        url: env.page("BUILDKITE_BUILD_URL"),
        pull_request,
        subject: env.first_line("BUILDKITE_MESSAGE"),
    }
}

pub(super) fn bitbucket(env: &Variables<'_>) -> Run {
    let page = env
        .get("BITBUCKET_REPO_FULL_NAME")
        .map(|name| format!("https://bitbucket.org/{name}"));
    let url = page
        .as_deref()
        .and_then(web_url)
        .zip(env.get("BITBUCKET_BUILD_NUMBER"))
        .map(|(page, number)| format!("{page}/addon/pipelines/home#!/results/{number}"));
    let repository = page.as_deref().and_then(Repository::of_page);
    let pull_request = repository
        .as_ref()
        .zip(env.get("BITBUCKET_PR_ID"))
        .and_then(|(at, number)| at.pull_request(&number));
    let actor = env.get("BITBUCKET_STEP_TRIGGERER_UUID");
    Run {
        system: "bitbucket-pipelines",
        repository,
        commit: env.get("BITBUCKET_COMMIT"),
        reference: env
            .branch("BITBUCKET_BRANCH")
            .or_else(|| env.tag("BITBUCKET_TAG")),
        environment: env.environment("BITBUCKET_DEPLOYMENT_ENVIRONMENT"),
        actor: actor.map(|id| id.trim_matches(['{', '}']).to_owned()),
        url,
        pull_request,
        subject: None,
    }
}

pub(super) fn terraform_cloud(env: &Variables<'_>) -> Run {
    let url = || {
        let slug = env.get("TFC_WORKSPACE_SLUG")?;
        let (organization, workspace) = slug.split_once('/')?;
        let id = env.get("TFC_RUN_ID")?;
        let url =
            format!("https://app.terraform.io/app/{organization}/workspaces/{workspace}/runs/{id}");
        web_url(&url).map(Into::into)
    };
    Run {
        system: "terraform-cloud",
        commit: env.get("TFC_CONFIGURATION_VERSION_GIT_COMMIT_SHA"),
        reference: env
            .tag("TFC_CONFIGURATION_VERSION_GIT_TAG")
            .or_else(|| env.branch("TFC_CONFIGURATION_VERSION_GIT_BRANCH")),
        url: url(),
        ..Run::default()
    }
}

pub(super) fn atlantis(env: &Variables<'_>) -> Run {
    let pull_request = env.page("PULL_URL");
    let page = pull_request.as_deref().and_then(|url| {
        ["/pull/", "/-/merge_requests/", "/pull-requests/"]
            .iter()
            .find_map(|way| url.split_once(way))
    });
    let named = || {
        let owner = env.get("BASE_REPO_OWNER")?;
        Repository::named(&format!("{owner}/{}", env.get("BASE_REPO_NAME")?))
    };
    Run {
        system: "atlantis",
        repository: page
            .and_then(|(page, _)| Repository::of_page(page))
            .or_else(named),
        commit: env.get("HEAD_COMMIT"),
        reference: env.branch("HEAD_BRANCH_NAME"),
        actor: env.get("USER_NAME"),
        pull_request,
        ..Run::default()
    }
}
