//! `chlog host`: lists, shows and creates hosts.

use changelog_core::{Environment, Host, Input, NewHost, Platform};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};

use crate::base::failure::Outcome;
use crate::base::text::one_line;
use crate::base::time;
use crate::environment::app::App;
use crate::input::complete;
use crate::input::flags::environment;
use crate::input::names::find;
use crate::output::detail;
use crate::output::table;

#[derive(Debug, Subcommand)]
pub(crate) enum HostCommand {
    /// List all hosts
    #[command(visible_alias = "ls")]
    List,
    /// Show a host
    Show {
        /// Name or ID
        #[arg(value_name = "HOSTNAME|ID", add = complete::hosts())]
        name: String,
    },
    /// Create a host
    Create(HostFields),
}

/// Creates a host.
#[derive(Debug, Args)]
pub(crate) struct HostFields {
    /// Name: 1 to 100 characters, unique regardless of case
    hostname: String,
    /// Fully qualified domain name
    #[arg(long, value_name = "NAME")]
    fqdn: Option<String>,
    /// IPv4 or IPv6 address
    #[arg(long, visible_alias = "ip", value_name = "ADDRESS")]
    ip_address: Option<String>,
    /// Operating system
    #[arg(long, value_name = "TEXT")]
    os: Option<String>,
    /// Platform
    #[arg(long, value_name = "PLATFORM", ignore_case = true, value_parser = platform())]
    platform: Option<Platform>,
    /// Environment
    #[arg(
        long,
        visible_alias = "env",
        value_name = "ENVIRONMENT",
        ignore_case = true,
        value_parser = environment()
    )]
    environment: Option<Environment>,
    /// Role; repeatable, or comma-separated
    #[arg(long = "role", value_name = "ROLE", value_delimiter = ',')]
    roles: Vec<String>,
    /// Description
    #[arg(short = 'm', long, value_name = "TEXT")]
    description: Option<String>,
}

fn platform() -> impl TypedValueParser<Value = Platform> {
    PossibleValuesParser::new(Platform::WORDS).try_map(|word| word.to_lowercase().parse())
}

/// Runs the subcommand.
pub(crate) async fn run(mut app: App, command: HostCommand) -> Outcome {
    let now = time::now();
    match command {
        HostCommand::List => {
            let hosts = app.client()?.hosts().list().await?;
            app.output.records(&hosts, &table::HOSTS)
        }
        HostCommand::Show { name } => {
            let client = app.client()?;
            let host = match name.parse() {
                Ok(id) => client.hosts().get(id).await?,
                Err(_) => find::<Host>(&client, &name).await?,
            };
            app.output.record(&host, |host| detail::host(host, now))
        }
        HostCommand::Create(fields) => {
            let new = NewHost {
                hostname: fields.hostname,
                fqdn: fields.fqdn,
                ip_address: fields.ip_address,
                os: fields.os,
                platform: fields.platform,
                environment: fields.environment,
                roles: fields.roles,
                description: fields.description,
            }
            .checked(now)?;
            let host = app.client()?.hosts().create_from(new).send().await?;
            app.output.record(&host, |host| {
                format!("{}  {}", host.id, one_line(&host.hostname))
            })
        }
    }
}
