//! Which changes are meant: the flags that every command shares which reads more
//! than one.

use changelog_client::Client;
use changelog_core::{ChangeFilter, HostId, RiskLevel, ServiceId, Status};
use clap::Args;

use crate::base::failure::Outcome;
use crate::base::time::{self, Moment};
use crate::input::complete;
use crate::input::flags::{risk, status};
use crate::input::names::{self, Missing};
use crate::recording::submit::named;

/// Which changes, whenever they happen.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WhichArgs {
    /// Words that the title has, or that words of it begin with
    #[arg(short = 'q', long, value_name = "WORDS")]
    search: Option<String>,
    /// Only of this risk
    #[arg(long, value_name = "RISK", ignore_case = true, value_parser = risk())]
    risk: Option<RiskLevel>,
    /// Only of this status
    #[arg(long, value_name = "STATUS", ignore_case = true, value_parser = status())]
    status: Option<Status>,
    /// Only of this service
    #[arg(long, value_name = "NAME|ID", add = complete::services())]
    service: Option<String>,
    /// Only on this host
    #[arg(long, value_name = "HOSTNAME|ID", add = complete::hosts())]
    host: Option<String>,
    /// Only with this tag; repeatable, or separated by commas: with all of them
    #[arg(long = "tag", value_name = "TAG", value_delimiter = ',')]
    tags: Vec<String>,
}

/// Which changes, and when they happened.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FilterArgs {
    #[command(flatten)]
    which: WhichArgs,
    /// Only from then on: RFC 3339, a date, or an age such as 2h or 7d
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    since: Option<Moment>,
    /// Only before then: RFC 3339, a date (that day is included), or an age
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    until: Option<Moment>,
}

impl WhichArgs {
    /// Returns what the service is asked for; names must exist.
    pub(crate) async fn filter(&self, client: &Client) -> Outcome<ChangeFilter> {
        Ok(ChangeFilter {
            q: self.search.clone(),
            service_id: service(client, self.service.as_deref()).await?,
            host_id: host(client, self.host.as_deref()).await?,
            risk_level: self.risk.clone(),
            status: self.status.clone(),
            tags: self.tags.clone(),
            ..ChangeFilter::default()
        })
    }
}

impl FilterArgs {
    /// Returns what the service is asked for; names must exist.
    pub(crate) async fn filter(&self, client: &Client) -> Outcome<ChangeFilter> {
        let now = time::now();
        Ok(ChangeFilter {
            since: self.since.map(|at| at.start(now)),
            until: self.until.map(|at| at.end(now)),
            ..self.which.filter(client).await?
        })
    }
}

/// Returns the id of a service to look for, if one is named.
pub(crate) async fn service(client: &Client, name: Option<&str>) -> Outcome<Option<ServiceId>> {
    match named(name) {
        Some(name) => names::service(client, name, Missing::Refuse).await,
        None => Ok(None),
    }
}

/// Returns the id of a host to look for, if one is named.
pub(crate) async fn host(client: &Client, name: Option<&str>) -> Outcome<Option<HostId>> {
    match named(name) {
        Some(name) => names::host(client, name, Missing::Refuse).await,
        None => Ok(None),
    }
}
