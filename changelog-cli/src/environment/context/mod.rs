//! The context of a change: the CI run and the git repository that it is
//! recorded from. The context supplies a title, tags and links, the environment, the
//! person who started the run, the agent that runs the command, and the commit with its time.
//!
//! Nothing here uses the network or fails. Unknown values, and values that do
//! not fit into a change, are left out. Values that the user gives take
//! precedence.

pub(crate) mod agent;
mod checkout;
mod ci;
#[cfg(test)]
mod ci_tests;

use changelog_client::IdTokenSource;
use changelog_core::limits::{MAX_EMAIL_CHARS, MAX_LINKS, MAX_TITLE_CHARS, MAX_URL_CHARS};
use changelog_core::{Agent, Environment, Link, NewChange, Timestamp, VerifiedRun};
use clap::Args;

use agent::Recognized;
use checkout::Checkout;

use super::defaults::add_tags;
use crate::base::text::{shorten, without_controls};
use ci::run::{Ref, Run};

/// The length of a commit id in tags and titles, in characters.
const SHORT_ID: usize = 7;

/// The flag that turns the context off.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Behavior")]
pub(crate) struct ContextArgs {
    /// Add nothing from the CI run, the agent that runs this, and the git repository
    #[arg(long)]
    no_context: bool,
}

impl ContextArgs {
    /// Gathers the context, unless the flag turns it off.
    pub(crate) fn gather(self) -> Context {
        if self.no_context {
            return Context::of_token();
        }
        Context::gather()
    }
}

/// What the CI run, the agent and the repository supply for a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Context {
    /// The title; only in a recognized CI run.
    pub(crate) title: Option<String>,
    /// The repository and commit, such as `owner/repo@1a2b3c4`.
    pub(crate) source: Option<String>,
    /// The environment that the run deploys to.
    pub(crate) environment: Option<Environment>,
    /// The user who started the run.
    pub(crate) actor: Option<String>,
    /// The agent that runs the command.
    pub(crate) agent: Option<Agent>,
    /// The full id of the commit.
    pub(crate) commit: Option<String>,
    /// The time of that commit, if the repository has it.
    pub(crate) committed_at: Option<Timestamp>,
    /// `key=value` pairs: `ci`, `repo`, `commit`.
    pub(crate) tags: Vec<String>,
    /// `run`, `commit`, `branch` or `tag`, `pull request`.
    pub(crate) links: Vec<Link>,
}

/// Returns whether this is a run of a recognized CI system.
pub(crate) fn is_ci() -> bool {
    ci::current(&|name| std::env::var(name).ok()).is_some()
}

impl Context {
    /// Reads the environment and runs git for at most half a second.
    pub(crate) fn gather() -> Self {
        let run = ci::current(&|name| std::env::var(name).ok());
        let commit = run.as_ref().and_then(|run| commit_id(run.commit.as_ref()?));
        let agent = match agent::recognized(run.is_some()) {
            Some(Recognized::Agent(agent, _)) => Some(agent),
            Some(Recognized::Off) | None => None,
        };
        let found = Self::merge(run, checkout::checkout(commit.as_deref()));
        let claimed = Self::of_token();
        Self {
            agent,
            actor: found.actor.or(claimed.actor),
            commit: found.commit.or(claimed.commit),
            ..found
        }
    }

    /// Returns whom and what the service takes from the id token of the job. A change that is
    /// kept in the spool must name them itself: the token of a later run would name others.
    fn of_token() -> Self {
        let Some(source) = IdTokenSource::from_env() else {
            return Self::default();
        };
        let (actor, commit) = if let Some(claims) = source.claims() {
            let run = VerifiedRun::of("", &claims);
            (run.actor, run.commit)
        } else {
            let run = ci::current(&|name| std::env::var(name).ok()).unwrap_or_default();
            (run.actor, run.commit)
        };
        Self {
            actor: actor.as_deref().and_then(without_controls),
            commit: commit.and_then(|id| commit_id(&id)),
            ..Self::default()
        }
    }

    /// Merges a run and a checkout; the run takes precedence.
    fn merge(run: Option<Run>, checkout: Checkout) -> Self {
        let in_ci = run.is_some();
        let run = run.unwrap_or_default();
        let commit = run.commit.or_else(|| checkout.commit.clone());
        let commit = commit.and_then(|id| commit_id(&id));
        let committed_at = checkout.committed_at.filter(|_| commit.is_some());
        let repository = run.repository.or(checkout.repository);
        let reference = run.reference.or(checkout.branch.map(Ref::Branch));
        let short = commit.as_deref().map(|id| &id[..SHORT_ID]);

        let mut tags = Vec::new();
        let mut tag = |key: &str, value: Option<&str>| {
            if let Some(value) = value.and_then(without_controls) {
                tags.push(format!("{key}={value}"));
            }
        };
        tag("ci", in_ci.then_some(run.system));
        tag("repo", repository.as_ref().map(|at| at.name.as_str()));
        tag("commit", short);

        let mut links = Vec::new();
        let mut link = |label: &str, url: Option<String>| {
            if let Some(url) = url {
                let label = label.to_owned();
                links.push(Link { label, url });
            }
        };
        link("run", run.url);
        if let Some(repository) = &repository {
            let url = commit.as_deref().and_then(|id| repository.commit(id));
            link("commit", url);
            if let Some(reference) = &reference {
                link(reference.kind(), repository.branch(reference.name()));
            }
        }
        link("pull request", run.pull_request);

        let source = match (repository.map(|at| at.name), short) {
            (Some(name), Some(short)) => Some(format!("{name}@{short}")),
            (Some(name), None) => Some(name),
            (None, Some(short)) => Some(short.to_owned()),
            (None, None) => None,
        };
        let title = in_ci.then(|| {
            let at_head = commit.is_none() || checkout.commit == commit;
            let subject = run.subject.or(checkout.subject.filter(|_| at_head));
            let by = format!("by {}", run.system);
            let what = source.as_ref().unwrap_or(&by);
            let subject = subject.and_then(|text| without_controls(&text));
            let subject = subject.map(|text| format!(": {text}")).unwrap_or_default();
            shorten(&format!("deploy {what}{subject}"), MAX_TITLE_CHARS)
        });
        Self {
            title,
            source,
            environment: run.environment,
            actor: run.actor.as_deref().and_then(without_controls),
            agent: None,
            commit,
            committed_at,
            tags,
            links,
        }
    }

    /// Adds what the change does not have, as far as it fits.
    pub(crate) fn apply(&self, change: &mut NewChange) {
        if let Some(title) = &self.title
            && change.title.trim().is_empty()
        {
            change.title.clone_from(title);
        }
        if change.environment.is_none() {
            change.environment.clone_from(&self.environment);
        }
        if change.on_behalf_of.is_none() {
            let fits = |actor: &&String| actor.chars().count() <= MAX_EMAIL_CHARS;
            change.on_behalf_of = self.actor.as_ref().filter(fits).cloned();
        }
        if change.agent.is_none() {
            change.agent.clone_from(&self.agent);
        }
        // The time belongs to this commit, and not to one that the user gives.
        if change.commit.is_none() {
            change.commit.clone_from(&self.commit);
            change.committed_at = change.committed_at.or(self.committed_at);
        }
        add_tags(&mut change.tags, &self.tags);
        self.apply_links(&mut change.links);
    }

    fn apply_links(&self, links: &mut Vec<Link>) {
        for link in &self.links {
            let given = links.iter().any(|given| {
                given.label.trim().eq_ignore_ascii_case(&link.label) || given.url == link.url
            });
            if !given && links.len() < MAX_LINKS && link.url.chars().count() <= MAX_URL_CHARS {
                links.push(link.clone());
            }
        }
    }
}

/// Returns the id of a commit in lower case; none if it is not one.
fn commit_id(text: &str) -> Option<String> {
    let id = text.trim();
    let is_id = (SHORT_ID..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_hexdigit());
    is_id.then(|| id.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::repository::Repository;
    use changelog_core::{Input, Timestamp};

    const COMMIT: &str = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";

    const COMMITTED: &str = "2026-11-20T08:30:00+01:00";

    fn checkout() -> Checkout {
        Checkout {
            commit: Some(COMMIT.to_owned()),
            committed_at: COMMITTED.parse().ok(),
            subject: Some("Fix the \u{1b}[31mpayments".to_owned()),
            branch: Some("main".to_owned()),
            repository: Repository::of_remote("git@github.com:owner/repo.git"),
        }
    }

    fn run() -> Run {
        Run {
            system: "github-actions",
            commit: Some(COMMIT.to_owned()),
            actor: Some("ada\n".to_owned()),
            url: Some("https://github.com/owner/repo/actions/runs/1".to_owned()),
            ..Run::default()
        }
    }

    #[test]
    fn a_run_composes_the_title_and_a_checkout_does_not() {
        let context = Context::merge(Some(run()), checkout());
        let title = context.title.unwrap();
        assert_eq!(title, "deploy owner/repo@1a2b3c4: Fix the [31mpayments");
        assert_eq!(
            context.tags,
            ["ci=github-actions", "repo=owner/repo", "commit=1a2b3c4"]
        );
        assert_eq!(context.actor.as_deref(), Some("ada"));
        assert_eq!(context.commit.as_deref(), Some(COMMIT));
        assert_eq!(context.committed_at, COMMITTED.parse().ok());
        let context = Context::merge(None, checkout());
        assert_eq!(context.title, None);
        assert_eq!(context.tags, ["repo=owner/repo", "commit=1a2b3c4"]);
        let links: Vec<_> = context.links.iter().map(|link| link.url.clone()).collect();
        assert_eq!(
            links,
            [
                &format!("https://github.com/owner/repo/commit/{COMMIT}"),
                "https://github.com/owner/repo/tree/main"
            ]
        );
        assert_eq!(
            Context::merge(None, Checkout::default()),
            Context::default()
        );
    }

    #[test]
    fn a_subject_belongs_to_its_commit() {
        let mut other = checkout();
        other.commit = Some("f".repeat(40));
        let title = Context::merge(Some(run()), other).title.unwrap();
        assert_eq!(title, "deploy owner/repo@1a2b3c4");
        let mut long = checkout();
        long.subject = Some("é".repeat(400));
        let title = Context::merge(Some(run()), long).title.unwrap();
        assert_eq!(title.chars().count(), MAX_TITLE_CHARS);
        let bare = Context::merge(
            Some(Run {
                system: "jenkins",
                ..Run::default()
            }),
            Checkout::default(),
        );
        assert_eq!(bare.title.unwrap(), "deploy by jenkins");
    }

    #[test]
    fn given_values_take_precedence_and_the_rest_is_added_as_it_fits() {
        let context = Context::merge(Some(run()), checkout());
        let link = |label: &str, url: &str| Link {
            label: label.to_owned(),
            url: url.to_owned(),
        };
        let mut change = NewChange {
            title: "Mine".to_owned(),
            tags: vec!["repo=other".to_owned()],
            links: vec![link("Run", "https://ci.example.com")],
            ..NewChange::default()
        };
        context.apply(&mut change);
        assert_eq!(change.title, "Mine");
        assert_eq!(
            change.tags,
            ["repo=other", "ci=github-actions", "commit=1a2b3c4"]
        );
        assert_eq!(change.on_behalf_of.as_deref(), Some("ada"));
        let mut deployed = NewChange {
            on_behalf_of: Some("grace".to_owned()),
            commit: Some("main".to_owned()),
            environment: Some(Environment::Prod),
            ..NewChange::default()
        };
        let staging = Context {
            environment: Some(Environment::Staging),
            ..context.clone()
        };
        staging.apply(&mut deployed);
        assert_eq!(deployed.environment, Some(Environment::Prod));
        assert_eq!(deployed.on_behalf_of.as_deref(), Some("grace"));
        assert_eq!(deployed.commit.as_deref(), Some("main"));
        assert_eq!(deployed.committed_at, None);
        staging.apply(&mut change);
        assert_eq!(change.environment, Some(Environment::Staging));
        let labels: Vec<_> = change
            .links
            .iter()
            .map(|link| link.label.as_str())
            .collect();
        assert_eq!(labels, ["Run", "commit", "branch"]);

        let mut full = NewChange {
            tags: (0..19).map(|n| n.to_string()).collect(),
            links: (0..9)
                .map(|n| link(&n.to_string(), &format!("https://e.com/{n}")))
                .collect(),
            ..NewChange::default()
        };
        context.apply(&mut full);
        assert_eq!((full.tags.len(), full.links.len()), (20, 10));
        full.checked(Timestamp::from_millis(0)).unwrap();
    }

    #[test]
    fn long_or_invalid_values_are_left_out() {
        let strange = Run {
            actor: Some("x".repeat(300)),
            commit: Some("--upload-pack=evil".to_owned()),
            url: None,
            ..run()
        };
        let context = Context::merge(Some(strange), Checkout::default());
        let mut change = NewChange::default();
        context.apply(&mut change);
        assert_eq!(change.tags, ["ci=github-actions"]);
        assert_eq!((change.links.len(), &change.on_behalf_of), (0, &None));
        change.checked(Timestamp::from_millis(0)).unwrap();
    }
}
