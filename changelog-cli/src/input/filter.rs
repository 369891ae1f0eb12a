//! The flags that select changes.

use changelog_client::{ChangeQuery, Client};
use changelog_core::{Environment, Host, MadeBy, RiskLevel, Service, Status};
use clap::Args;

use super::complete;
use super::flags::{environment, made_by, risk, status};
use super::names::{empty_filter, resolve_filter};
use crate::base::failure::{Failure, Outcome};
use crate::base::time::{self, TimeArg};

/// The flags that select changes at any time.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SelectArgs {
    /// Words, or beginnings of words, in the title, a tag, or the name of a service or
    /// the host; or an ID, or the beginning of one
    #[arg(value_name = "QUERY")]
    text: Vec<String>,
    /// Words, or beginnings of words, in the title
    #[arg(short = 'q', long, value_name = "WORDS")]
    search: Option<String>,
    /// Only this risk level; several are repeated or comma-separated
    #[arg(
        long,
        value_name = "RISK",
        ignore_case = true,
        value_delimiter = ',',
        value_parser = risk()
    )]
    risk: Vec<RiskLevel>,
    /// Only this risk level or a higher one
    #[arg(
        long,
        value_name = "RISK",
        ignore_case = true,
        value_parser = risk(),
        conflicts_with = "risk"
    )]
    min_risk: Option<RiskLevel>,
    /// Only this status; several are repeated or comma-separated
    #[arg(
        long,
        value_name = "STATUS",
        ignore_case = true,
        value_delimiter = ',',
        value_parser = status()
    )]
    status: Vec<Status>,
    /// Only other statuses; several are repeated or comma-separated
    #[arg(
        long,
        value_name = "STATUS",
        ignore_case = true,
        value_delimiter = ',',
        value_parser = status(),
        conflicts_with = "status"
    )]
    not_status: Vec<Status>,
    /// Only changes in progress
    #[arg(long, conflicts_with_all = ["status", "not_status"])]
    active: bool,
    /// Only this environment; several are repeated or comma-separated
    #[arg(
        long,
        visible_alias = "env",
        value_name = "ENVIRONMENT",
        ignore_case = true,
        value_delimiter = ',',
        value_parser = environment()
    )]
    environment: Vec<Environment>,
    /// Only changes that this API key or person recorded
    #[arg(long, value_name = "NAME|ID")]
    by: Option<String>,
    /// Only changes that this source told of: its name or ID
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,
    /// Only changes that this automation made, by its name
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only changes made by an agent, a person in the dashboard, a pipeline, by hand in a
    /// console, or by an agent without a person behind it (unattended); several are repeated or
    /// comma-separated
    #[arg(
        long,
        value_name = "WHAT",
        ignore_case = true,
        value_delimiter = ',',
        value_parser = made_by()
    )]
    made_by: Vec<MadeBy>,
    /// Only this service
    #[arg(long, value_name = "NAME|ID", add = complete::services())]
    service: Option<String>,
    /// Only this host
    #[arg(long, value_name = "HOSTNAME|ID", add = complete::hosts())]
    host: Option<String>,
    /// Only changes with this tag; with several (repeated or comma-separated), only changes with all of them
    #[arg(long = "tag", value_name = "TAG", value_delimiter = ',')]
    tags: Vec<String>,
}

/// Refuses a search for nothing, which would find everything.
fn searchable<'t>(name: &str, text: &'t str) -> Outcome<&'t str> {
    if changelog_core::text::words(text).is_empty() {
        return Err(Failure::usage(format!(
            "{name}: must contain a letter or a digit, got {text:?}"
        )));
    }
    Ok(text)
}

/// The flags that select changes by content and time.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FilterArgs {
    #[command(flatten)]
    select: SelectArgs,
    /// Only at or after this time, such as 2h, yesterday, 08:30 or 2026-11-21
    #[arg(
        long,
        value_name = "TIME",
        value_parser = time::parse,
        allow_hyphen_values = true
    )]
    since: Option<TimeArg>,
    /// Only before this time, or until the end of this date
    #[arg(
        long,
        value_name = "TIME",
        value_parser = time::parse,
        allow_hyphen_values = true
    )]
    until: Option<TimeArg>,
}

impl SelectArgs {
    /// Returns the query; the named service and host must exist.
    pub(crate) async fn query(&self, client: &Client) -> Outcome<ChangeQuery> {
        if self.tags.iter().any(|tag| tag.trim().is_empty()) {
            return Err(empty_filter("tag"));
        }
        let mut query = ChangeQuery::new()
            .service(resolve_filter::<Service>(client, self.service.as_deref()).await?)
            .host(resolve_filter::<Host>(client, self.host.as_deref()).await?)
            .environments(self.environment.iter().cloned())
            .risk_levels(self.risk.iter().cloned())
            .statuses(self.status.iter().cloned())
            .tags(&self.tags);
        if let Some(least) = &self.min_risk {
            query = query.min_risk(least);
        }
        if !self.not_status.is_empty() {
            if Status::ALL.iter().all(|one| self.not_status.contains(one)) {
                return Err(Failure::usage(
                    "--not-status: must leave a status, or no change can match",
                ));
            }
            query = query.not_status(&self.not_status);
        }
        if self.active {
            query = query.status(Status::InProgress);
        }
        if let Some(author) = non_empty_filter("by", self.by.as_ref())? {
            query = query.created_by(author);
        }
        if let Some(name) = non_empty_filter("source", self.source.as_ref())? {
            query = query.source(name);
        }
        if let Some(name) = non_empty_filter("agent", self.agent.as_ref())? {
            query = query.agent(name);
        }
        query = query.made_by(self.made_by.iter().cloned());
        if let Some(words) = non_empty_filter("search", self.search.as_ref())? {
            query = query.q(searchable("--search", words)?);
        }
        if !self.text.is_empty() {
            let text = self.text.join(" ");
            if text.trim().is_empty() {
                return Err(Failure::usage("QUERY: must not be empty"));
            }
            query = query.text(searchable("QUERY", &text)?);
        }
        Ok(query)
    }
}

/// Returns the value of a flag, which must not be empty.
fn non_empty_filter<'a>(flag: &str, value: Option<&'a String>) -> Outcome<Option<&'a String>> {
    match value {
        Some(value) if value.trim().is_empty() => Err(empty_filter(flag)),
        value => Ok(value),
    }
}

impl FilterArgs {
    /// Returns the query; the named service and host must exist.
    pub(crate) async fn query(&self, client: &Client) -> Outcome<ChangeQuery> {
        let now = time::now();
        let since = self.since.map(|at| at.start(now));
        let until = self.until.map(|at| at.end(now));
        if let (Some(since), Some(until)) = (since, until)
            && since >= until
        {
            return Err(Failure::usage(format!(
                "--since ({since}) must be before --until ({until})"
            )));
        }
        let query = self.select.query(client).await?;
        Ok(query.since(since).until(until))
    }
}
