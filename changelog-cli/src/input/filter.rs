//! The flags that select changes.

use changelog_client::{ChangeQuery, Client};
use changelog_core::{Host, RiskLevel, Service, Status};
use clap::Args;

use super::complete;
use super::flags::{risk, status};
use super::names::resolve_filter;
use crate::base::failure::Outcome;
use crate::base::time::{self, TimeArg};

/// The flags that select changes at any time.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SelectArgs {
    /// Words, or beginnings of words, in the title
    #[arg(short = 'q', long, value_name = "WORDS")]
    search: Option<String>,
    /// Only this risk level
    #[arg(long, value_name = "RISK", ignore_case = true, value_parser = risk())]
    risk: Option<RiskLevel>,
    /// Only this status
    #[arg(long, value_name = "STATUS", ignore_case = true, value_parser = status())]
    status: Option<Status>,
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

/// The flags that select changes by content and time.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FilterArgs {
    #[command(flatten)]
    select: SelectArgs,
    /// Only at or after this time: RFC 3339, a date, or an age such as 2h or 7d
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    since: Option<TimeArg>,
    /// Only before this time: RFC 3339, a date (inclusive), or an age
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    until: Option<TimeArg>,
}

impl SelectArgs {
    /// Returns the query; the named service and host must exist.
    pub(crate) async fn query(&self, client: &Client) -> Outcome<ChangeQuery> {
        let query = ChangeQuery::new()
            .service(resolve_filter::<Service>(client, self.service.as_deref()).await?)
            .host(resolve_filter::<Host>(client, self.host.as_deref()).await?)
            .risk_level(self.risk.clone())
            .status(self.status.clone())
            .tags(&self.tags);
        Ok(match &self.search {
            Some(words) => query.q(words),
            None => query,
        })
    }
}

impl FilterArgs {
    /// Returns the query; the named service and host must exist.
    pub(crate) async fn query(&self, client: &Client) -> Outcome<ChangeQuery> {
        let now = time::now();
        let query = self.select.query(client).await?;
        Ok(query
            .since(self.since.map(|at| at.start(now)))
            .until(self.until.map(|at| at.end(now))))
    }
}
