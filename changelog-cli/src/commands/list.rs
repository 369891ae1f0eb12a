//! `chlog list`: finds changes, newest first.

use changelog_client::Client;
use changelog_core::change::MAX_PER_PAGE;
use changelog_core::{Change, ChangeFilter, HostId, RiskLevel, ServiceId, Status};
use clap::Args;
use futures_util::TryStreamExt;

use crate::args::{Format, risk, status};
use crate::failure::{Failure, Outcome, note};
use crate::moment::{self, Moment};
use crate::names::{self, Missing};
use crate::output::{Output, table};
use crate::record::named;
use crate::session::Session;

/// Which changes, whether they are listed or watched.
#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
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
    #[arg(long, value_name = "NAME|ID")]
    service: Option<String>,
    /// Only on this host
    #[arg(long, value_name = "HOSTNAME|ID")]
    host: Option<String>,
    /// Only with this tag; repeatable, or separated by commas: with all of them
    #[arg(long = "tag", value_name = "TAG", value_delimiter = ',')]
    tags: Vec<String>,
}

/// Lists changes.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Only from then on: RFC 3339, a date, or an age such as 2h or 7d
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    since: Option<Moment>,
    /// Only before then: RFC 3339, a date (that day is included), or an age
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    until: Option<Moment>,
    /// How many at most
    #[arg(
        short = 'L',
        long,
        value_name = "COUNT",
        default_value_t = 25,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    limit: u64,
    /// Which page of that many, from 1
    #[arg(long, value_name = "PAGE", value_parser = clap::value_parser!(u64).range(1..))]
    page: Option<u64>,
    /// Everything that matches, as it comes
    #[arg(long, conflicts_with_all = ["limit", "page"])]
    all: bool,
}

/// Lists what matches.
pub(crate) async fn run(mut session: Session, args: ListArgs) -> Outcome {
    if args.page.is_some() && args.limit > MAX_PER_PAGE {
        return Err(Failure::usage(format!(
            "--limit: must be at most {MAX_PER_PAGE} together with --page, got {}",
            args.limit
        )));
    }
    let client = session.client()?;
    let (all, limit) = (args.all, args.limit);
    let filter = filter(&client, args).await?;
    if all {
        return stream(&mut session.output, &client, filter, None).await;
    }
    if limit > MAX_PER_PAGE {
        return stream(&mut session.output, &client, filter, Some(limit)).await;
    }
    let page = client.changes().list_with(filter).send().await?;
    session.output.page(page)
}

async fn filter(client: &Client, args: ListArgs) -> Outcome<ChangeFilter> {
    let now = moment::now();
    Ok(ChangeFilter {
        page: args.page.unwrap_or(1),
        per_page: args.limit,
        since: args.since.map(|at| at.start(now)),
        until: args.until.map(|at| at.end(now)),
        ..args.filter.read(client).await?
    })
}

impl FilterArgs {
    /// Returns the filter, after asking for the ids of what is named.
    pub(crate) async fn read(self, client: &Client) -> Outcome<ChangeFilter> {
        Ok(ChangeFilter {
            q: self.search,
            service_id: service(client, self.service.as_deref()).await?,
            host_id: host(client, self.host.as_deref()).await?,
            risk_level: self.risk,
            status: self.status,
            tags: self.tags,
            ..ChangeFilter::default()
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

/// Writes up to so many changes as they come. Only a table waits for all of
/// them, since its columns are as wide as what is in them.
async fn stream(
    output: &mut Output,
    client: &Client,
    filter: ChangeFilter,
    limit: Option<u64>,
) -> Outcome {
    let first = ChangeFilter {
        page: 1,
        per_page: 1,
        ..filter.clone()
    };
    let most = limit.unwrap_or(u64::MAX);
    let mut changes = client.changes().list_with(filter).stream();
    let mut count = 0;
    let mut kept: Vec<Change> = Vec::new();
    let is_table = output.format() == Format::Table;
    output.begin::<Change>()?;
    while count < most
        && let Some(change) = changes.try_next().await?
    {
        if is_table {
            kept.push(change);
        } else {
            if count > 0 {
                output.separate()?;
            }
            output.next(&change)?;
            // A hundred come at a time; a reader need not wait for more.
            if count % MAX_PER_PAGE == MAX_PER_PAGE - 1 {
                output.flush()?;
            }
        }
        count += 1;
    }
    // Only where the list was cut can there be more than were listed.
    let in_all = match limit {
        Some(limit) if count >= limit => client.changes().list_with(first).send().await?.count,
        _ => count,
    };
    if is_table {
        if kept.is_empty() {
            note("no changes match");
            return Ok(());
        }
        output.records(kept, |changes, width| {
            table::changes(changes, width, moment::now())
        })?;
        if in_all > count {
            note(&format!(
                "the newest {count} of {in_all} changes; --all has everything"
            ));
        }
        return Ok(());
    }
    output.end(limit.unwrap_or(count), in_all)
}
