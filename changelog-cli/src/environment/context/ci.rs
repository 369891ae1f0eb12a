//! The CI systems: how each is recognised, and what its variables say about a
//! run.

use super::clean;
use super::forge::Repository;
use super::web_address;

/// What a CI system says about the run that `chlog` is part of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    /// The name of the system.
    pub(crate) system: &'static str,
    pub(crate) repository: Option<Repository>,
    pub(crate) commit: Option<String>,
    pub(crate) reference: Option<Ref>,
    /// Who set it off.
    pub(crate) actor: Option<String>,
    /// Where the run is shown.
    pub(crate) url: Option<String>,
    /// Where the pull request is shown that the run is for.
    pub(crate) pull_request: Option<String>,
    /// The first line of the commit's message.
    pub(crate) subject: Option<String>,
}

/// What was checked out by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ref {
    Branch(String),
    Tag(String),
}

impl Ref {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Branch(_) => "branch",
            Self::Tag(_) => "tag",
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Branch(name) | Self::Tag(name) => name,
        }
    }

    /// Reads a whole name such as `refs/heads/main`; none for what is neither
    /// a branch nor a tag.
    fn of_full(name: &str) -> Option<Self> {
        if let Some(branch) = name.strip_prefix("refs/heads/") {
            return Some(Self::Branch(branch.to_owned()));
        }
        let tag = name.strip_prefix("refs/tags/")?;
        Some(Self::Tag(tag.to_owned()))
    }
}

/// The environment: the value of a variable, if it is set.
type Look<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The environment without what is set to nothing.
struct Variables<'a>(Look<'a>);

impl Variables<'_> {
    fn get(&self, name: &str) -> Option<String> {
        clean(&(self.0)(name)?)
    }

    fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns a page's address, without a query and what else may be secret.
    fn page(&self, name: &str) -> Option<String> {
        web_address(&self.get(name)?).map(Into::into)
    }

    fn branch(&self, name: &str) -> Option<Ref> {
        self.get(name).map(Ref::Branch)
    }

    fn tag(&self, name: &str) -> Option<Ref> {
        self.get(name).map(Ref::Tag)
    }

    fn first_line(&self, name: &str) -> Option<String> {
        let text = (self.0)(name)?;
        clean(text.trim().lines().next()?)
    }

    fn remote(&self, name: &str) -> Option<Repository> {
        Repository::of_remote(&self.get(name)?)
    }
}

/// Recognises the system that this is a run of.
pub(crate) fn run(environment: Look<'_>) -> Option<Run> {
    let env = Variables(environment);
    let run = if env.has("GITHUB_ACTIONS") {
        github(&env)
    } else if env.has("GITLAB_CI") {
        gitlab(&env)
    } else if env.has("JENKINS_URL") {
        jenkins(&env)
    } else if env.has("CIRCLECI") {
        circle(&env)
    } else if env.has("TF_BUILD") {
        azure(&env)
    } else if env.has("BUILDKITE") {
        buildkite(&env)
    } else if env.has("BITBUCKET_BUILD_NUMBER") {
        bitbucket(&env)
    } else if env.has("TFC_RUN_ID") {
        terraform_cloud(&env)
    } else if env.has("PULL_URL") && env.has("PLANFILE") {
        atlantis(&env)
    } else {
        return None;
    };
    Some(run)
}

fn github(env: &Variables<'_>) -> Run {
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
    Run {
        system: "github-actions",
        pull_request,
        repository,
        commit: env.get("GITHUB_SHA"),
        reference: env.branch("GITHUB_HEAD_REF").or(by_name),
        actor: env.get("GITHUB_ACTOR"),
        url: url.and_then(|url| web_address(&url)).map(Into::into),
        subject: None,
    }
}

fn gitlab(env: &Variables<'_>) -> Run {
    let page = env.get("CI_PROJECT_URL");
    let repository = page.as_deref().and_then(Repository::of_page);
    let target = env.get("CI_MERGE_REQUEST_PROJECT_URL").or(page);
    let pull_request = target
        .as_deref()
        .and_then(web_address)
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
        actor: env.get("GITLAB_USER_LOGIN"),
        url: env
            .page("CI_JOB_URL")
            .or_else(|| env.page("CI_PIPELINE_URL")),
        pull_request,
        subject: env.first_line("CI_COMMIT_TITLE"),
    }
}

fn jenkins(env: &Variables<'_>) -> Run {
    // What a job builds is named after the remote.
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
        actor: env.get("BUILD_USER"),
        url: env.page("BUILD_URL"),
        pull_request: env.page("CHANGE_URL"),
        subject: None,
    }
}

fn circle(env: &Variables<'_>) -> Run {
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
        actor: env.get("CIRCLE_USERNAME"),
        url: env.page("CIRCLE_BUILD_URL"),
        pull_request: env.page("CIRCLE_PULL_REQUEST"),
        subject: None,
    }
}

fn azure(env: &Variables<'_>) -> Run {
    let repository = env.remote("BUILD_REPOSITORY_URI");
    let url = || {
        let collection = web_address(&env.get("SYSTEM_COLLECTIONURI")?)?;
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
    // GitHub's own number is another than the one of the build.
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
        actor: env.get("BUILD_REQUESTEDFOR"),
        url: url(),
        pull_request,
        subject: env.first_line("BUILD_SOURCEVERSIONMESSAGE"),
    }
}

fn buildkite(env: &Variables<'_>) -> Run {
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
        actor: env.get("BUILDKITE_BUILD_AUTHOR"),
        url: env.page("BUILDKITE_BUILD_URL"),
        pull_request,
        subject: env.first_line("BUILDKITE_MESSAGE"),
    }
}

fn bitbucket(env: &Variables<'_>) -> Run {
    let page = env
        .get("BITBUCKET_REPO_FULL_NAME")
        .map(|name| format!("https://bitbucket.org/{name}"));
    let url = page
        .as_deref()
        .and_then(web_address)
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
        actor: actor.map(|id| id.trim_matches(['{', '}']).to_owned()),
        url,
        pull_request,
        subject: None,
    }
}

fn terraform_cloud(env: &Variables<'_>) -> Run {
    let url = || {
        let slug = env.get("TFC_WORKSPACE_SLUG")?;
        let (organization, workspace) = slug.split_once('/')?;
        let id = env.get("TFC_RUN_ID")?;
        let url =
            format!("https://app.terraform.io/app/{organization}/workspaces/{workspace}/runs/{id}");
        web_address(&url).map(Into::into)
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

fn atlantis(env: &Variables<'_>) -> Run {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::context::Context;
    use crate::environment::context::checkout::Checkout;

    const SHA: &str = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";

    /// Requires title, tags and links of these variables; `SHA` in them is the
    /// commit.
    #[track_caller]
    fn says(variables: &[(&str, &str)], title: &str, tags: &[&str], links: &[(&str, &str)]) {
        let run = run(&|name| {
            let (_, value) = variables.iter().find(|(known, _)| *known == name)?;
            Some(value.replace("SHA", SHA))
        });
        assert!(run.is_some(), "not recognised");
        let context = Context::of(run, Checkout::default());
        assert_eq!(context.title.as_deref(), Some(title));
        assert_eq!(context.tags, tags);
        let found: Vec<_> = context
            .links
            .iter()
            .map(|link| (link.label.as_str(), link.url.replace(SHA, "SHA")))
            .collect();
        let links: Vec<_> = links
            .iter()
            .map(|(label, url)| (*label, (*url).to_owned()))
            .collect();
        assert_eq!(found, links);
    }

    #[test]
    fn github_actions() {
        let push = [
            ("CI", "true"),
            ("GITHUB_ACTIONS", "true"),
            ("GITHUB_SERVER_URL", "https://github.com"),
            ("GITHUB_REPOSITORY", "octo-org/hello-world"),
            ("GITHUB_SHA", "SHA"),
            ("GITHUB_REF", "refs/heads/main"),
            ("GITHUB_REF_NAME", "main"),
            ("GITHUB_REF_TYPE", "branch"),
            ("GITHUB_HEAD_REF", ""),
            ("GITHUB_BASE_REF", ""),
            ("GITHUB_ACTOR", "octocat"),
            ("GITHUB_RUN_ID", "1658821493"),
            ("GITHUB_RUN_ATTEMPT", "2"),
            ("GITHUB_EVENT_NAME", "push"),
        ];
        let title = "deploy octo-org/hello-world@1a2b3c4";
        let tags = [
            "ci=github-actions",
            "repo=octo-org/hello-world",
            "commit=1a2b3c4",
            "actor=octocat",
        ];
        let at = "https://github.com/octo-org/hello-world";
        let run = format!("{at}/actions/runs/1658821493/attempts/2");
        let commit = format!("{at}/commit/SHA");
        says(
            &push,
            title,
            &tags,
            &[
                ("run", &run),
                ("commit", &commit),
                ("branch", &format!("{at}/tree/main")),
            ],
        );
        let mut pull = push.to_vec();
        for (name, value) in &mut pull {
            match *name {
                "GITHUB_REF" => *value = "refs/pull/42/merge",
                "GITHUB_REF_NAME" => *value = "42/merge",
                "GITHUB_HEAD_REF" => *value = "feature/x",
                _ => {}
            }
        }
        says(
            &pull,
            title,
            &tags,
            &[
                ("run", &run),
                ("commit", &commit),
                ("branch", &format!("{at}/tree/feature/x")),
                ("pull request", &format!("{at}/pull/42")),
            ],
        );
    }

    #[test]
    fn gitlab_ci() {
        says(
            &[
                ("CI", "true"),
                ("GITLAB_CI", "true"),
                ("CI_PROJECT_PATH", "group/sub/project"),
                (
                    "CI_PROJECT_URL",
                    "https://gitlab.example.com/group/sub/project",
                ),
                (
                    "CI_REPOSITORY_URL",
                    "https://gitlab-ci-token:glcbt-secret@gitlab.example.com/group/sub/project.git",
                ),
                ("CI_COMMIT_SHA", "SHA"),
                ("CI_COMMIT_TITLE", "Fix the payments"),
                ("CI_COMMIT_REF_NAME", "main"),
                ("CI_MERGE_REQUEST_IID", "7"),
                (
                    "CI_MERGE_REQUEST_PROJECT_URL",
                    "https://gitlab.example.com/group/sub/project",
                ),
                ("GITLAB_USER_LOGIN", "ada"),
                (
                    "CI_JOB_URL",
                    "https://gitlab.example.com/group/sub/project/-/jobs/321",
                ),
                (
                    "CI_PIPELINE_URL",
                    "https://gitlab.example.com/group/sub/project/-/pipelines/3",
                ),
            ],
            "deploy group/sub/project@1a2b3c4: Fix the payments",
            &[
                "ci=gitlab-ci",
                "repo=group/sub/project",
                "commit=1a2b3c4",
                "actor=ada",
            ],
            &[
                (
                    "run",
                    "https://gitlab.example.com/group/sub/project/-/jobs/321",
                ),
                (
                    "commit",
                    "https://gitlab.example.com/group/sub/project/-/commit/SHA",
                ),
                (
                    "branch",
                    "https://gitlab.example.com/group/sub/project/-/tree/main",
                ),
                (
                    "pull request",
                    "https://gitlab.example.com/group/sub/project/-/merge_requests/7",
                ),
            ],
        );
    }

    #[test]
    fn jenkins() {
        says(
            &[
                ("JENKINS_URL", "https://jenkins.example.com/"),
                ("BUILD_URL", "https://jenkins.example.com/job/deploy/42/"),
                ("BUILD_NUMBER", "42"),
                ("JOB_NAME", "deploy"),
                ("GIT_COMMIT", "SHA"),
                ("GIT_BRANCH", "origin/main"),
                (
                    "GIT_URL",
                    "https://bot:ghp_secret@github.com/owner/repo.git",
                ),
                ("BUILD_USER", "Ada Lovelace"),
                ("CHANGE_URL", "https://github.com/owner/repo/pull/3"),
            ],
            "deploy owner/repo@1a2b3c4",
            &[
                "ci=jenkins",
                "repo=owner/repo",
                "commit=1a2b3c4",
                "actor=Ada Lovelace",
            ],
            &[
                ("run", "https://jenkins.example.com/job/deploy/42/"),
                ("commit", "https://github.com/owner/repo/commit/SHA"),
                ("branch", "https://github.com/owner/repo/tree/main"),
                ("pull request", "https://github.com/owner/repo/pull/3"),
            ],
        );
    }

    #[test]
    fn circleci() {
        says(
            &[
                ("CI", "true"),
                ("CIRCLECI", "true"),
                ("CIRCLE_SHA1", "SHA"),
                ("CIRCLE_TAG", "v2.3"),
                ("CIRCLE_USERNAME", "ada"),
                ("CIRCLE_REPOSITORY_URL", "git@github.com:owner/repo.git"),
                ("CIRCLE_PROJECT_USERNAME", "owner"),
                ("CIRCLE_PROJECT_REPONAME", "repo"),
                ("CIRCLE_BUILD_URL", "https://circleci.com/gh/owner/repo/42"),
            ],
            "deploy owner/repo@1a2b3c4",
            &[
                "ci=circleci",
                "repo=owner/repo",
                "commit=1a2b3c4",
                "actor=ada",
            ],
            &[
                ("run", "https://circleci.com/gh/owner/repo/42"),
                ("commit", "https://github.com/owner/repo/commit/SHA"),
                ("tag", "https://github.com/owner/repo/tree/v2.3"),
            ],
        );
    }

    #[test]
    fn azure_pipelines() {
        says(
            &[
                ("TF_BUILD", "True"),
                ("BUILD_SOURCEVERSION", "SHA"),
                (
                    "BUILD_SOURCEVERSIONMESSAGE",
                    "Fix the payments\n\nAll of them",
                ),
                ("BUILD_SOURCEBRANCH", "refs/heads/main"),
                ("BUILD_REQUESTEDFOR", "Ada Lovelace"),
                ("BUILD_REPOSITORY_NAME", "repo"),
                (
                    "BUILD_REPOSITORY_URI",
                    "https://acme@dev.azure.com/acme/Web%20Shop/_git/repo",
                ),
                ("SYSTEM_COLLECTIONURI", "https://dev.azure.com/acme/"),
                ("SYSTEM_TEAMPROJECT", "Web Shop"),
                ("BUILD_BUILDID", "4711"),
            ],
            "deploy acme/Web Shop/repo@1a2b3c4: Fix the payments",
            &[
                "ci=azure-pipelines",
                "repo=acme/Web Shop/repo",
                "commit=1a2b3c4",
                "actor=Ada Lovelace",
            ],
            &[
                (
                    "run",
                    "https://dev.azure.com/acme/Web%20Shop/_build/results?buildId=4711",
                ),
                (
                    "commit",
                    "https://dev.azure.com/acme/Web%20Shop/_git/repo/commit/SHA",
                ),
                (
                    "branch",
                    "https://dev.azure.com/acme/Web%20Shop/_git/repo?version=GBmain",
                ),
            ],
        );
    }

    #[test]
    fn buildkite() {
        says(
            &[
                ("CI", "true"),
                ("BUILDKITE", "true"),
                ("BUILDKITE_COMMIT", "SHA"),
                ("BUILDKITE_BRANCH", "main"),
                ("BUILDKITE_TAG", ""),
                ("BUILDKITE_MESSAGE", "Fix the payments\n\nAll of them"),
                ("BUILDKITE_PULL_REQUEST", "12"),
                ("BUILDKITE_REPO", "git@github.com:owner/repo.git"),
                ("BUILDKITE_BUILD_AUTHOR", "Ada"),
                (
                    "BUILDKITE_BUILD_URL",
                    "https://buildkite.com/acme/deploy/builds/42",
                ),
            ],
            "deploy owner/repo@1a2b3c4: Fix the payments",
            &[
                "ci=buildkite",
                "repo=owner/repo",
                "commit=1a2b3c4",
                "actor=Ada",
            ],
            &[
                ("run", "https://buildkite.com/acme/deploy/builds/42"),
                ("commit", "https://github.com/owner/repo/commit/SHA"),
                ("branch", "https://github.com/owner/repo/tree/main"),
                ("pull request", "https://github.com/owner/repo/pull/12"),
            ],
        );
    }

    #[test]
    fn bitbucket_pipelines() {
        says(
            &[
                ("CI", "true"),
                ("BITBUCKET_BUILD_NUMBER", "42"),
                ("BITBUCKET_COMMIT", "SHA"),
                ("BITBUCKET_BRANCH", "main"),
                ("BITBUCKET_REPO_FULL_NAME", "team/repo"),
                ("BITBUCKET_PR_ID", "5"),
                (
                    "BITBUCKET_STEP_TRIGGERER_UUID",
                    "{470c176d-3574-44ea-bb41-89e8638bcca4}",
                ),
            ],
            "deploy team/repo@1a2b3c4",
            &[
                "ci=bitbucket-pipelines",
                "repo=team/repo",
                "commit=1a2b3c4",
                "actor=470c176d-3574-44ea-bb41-89e8638bcca4",
            ],
            &[
                (
                    "run",
                    "https://bitbucket.org/team/repo/addon/pipelines/home#!/results/42",
                ),
                ("commit", "https://bitbucket.org/team/repo/commits/SHA"),
                ("branch", "https://bitbucket.org/team/repo/branch/main"),
                (
                    "pull request",
                    "https://bitbucket.org/team/repo/pull-requests/5",
                ),
            ],
        );
    }

    #[test]
    fn terraform_cloud() {
        says(
            &[
                ("TFC_RUN_ID", "run-CKuwsxMGgMd6W7Ui"),
                ("TFC_WORKSPACE_NAME", "prod-network"),
                ("TFC_WORKSPACE_SLUG", "acme/prod-network"),
                ("TFC_CONFIGURATION_VERSION_GIT_BRANCH", "main"),
                ("TFC_CONFIGURATION_VERSION_GIT_COMMIT_SHA", "SHA"),
                ("TFC_CONFIGURATION_VERSION_GIT_TAG", ""),
            ],
            "deploy 1a2b3c4",
            &["ci=terraform-cloud", "commit=1a2b3c4"],
            &[(
                "run",
                "https://app.terraform.io/app/acme/workspaces/prod-network/runs/run-CKuwsxMGgMd6W7Ui",
            )],
        );
    }

    #[test]
    fn atlantis() {
        says(
            &[
                (
                    "PLANFILE",
                    "/atlantis/repos/owner/repo/3/default/default.tfplan",
                ),
                ("WORKSPACE", "default"),
                ("DIR", "."),
                ("HEAD_COMMIT", "SHA"),
                ("HEAD_BRANCH_NAME", "feature"),
                ("BASE_BRANCH_NAME", "main"),
                ("BASE_REPO_NAME", "repo"),
                ("BASE_REPO_OWNER", "owner"),
                ("PULL_NUM", "3"),
                ("PULL_URL", "https://github.com/owner/repo/pull/3"),
                ("USER_NAME", "ada"),
            ],
            "deploy owner/repo@1a2b3c4",
            &[
                "ci=atlantis",
                "repo=owner/repo",
                "commit=1a2b3c4",
                "actor=ada",
            ],
            &[
                ("commit", "https://github.com/owner/repo/commit/SHA"),
                ("branch", "https://github.com/owner/repo/tree/feature"),
                ("pull request", "https://github.com/owner/repo/pull/3"),
            ],
        );
    }

    #[test]
    fn nothing_is_recognised_by_half_of_its_variables() {
        assert_eq!(run(&|_| None), None);
        assert_eq!(run(&|name| (name == "CI").then(|| "true".to_owned())), None);
        assert_eq!(
            run(&|name| (name == "PULL_URL").then(|| "https://e.com/pull/1".to_owned())),
            None
        );
        let empty = run(&|name| (name == "GITHUB_ACTIONS").then(String::new));
        assert_eq!(empty, None);
    }
}
