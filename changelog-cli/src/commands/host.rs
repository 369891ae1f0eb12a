//! `chlog host`: lists, shows, creates and edits hosts.

use changelog_core::{Environment, Host, HostPatch, Input, NewHost, Platform};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};

use crate::base::failure::{Failure, Outcome};
use crate::base::text::one_line;
use crate::base::time;
use crate::environment::app::App;
use crate::input::complete;
use crate::input::flags::environment;
use crate::input::names::find;
use crate::output::detail;

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
    /// Edit a host
    Update(UpdateArgs),
}

/// Edits a host.
#[derive(Debug, Args)]
#[command(after_help = "\
--role adds to the roles. chlog reads the host and writes the list back: an update of the roles by \
another client within these milliseconds is overwritten.

Examples:
  chlog host update web-1 --environment prod --role api
  chlog host update web-1 --remove-role api --clear ip-address
  chlog host update web-1 --hostname web-eu-1")]
pub(crate) struct UpdateArgs {
    /// Name or ID
    #[arg(value_name = "HOSTNAME|ID", add = complete::hosts())]
    host: String,
    /// New name: 1 to 100 characters, unique regardless of case
    #[arg(long, value_name = "NAME")]
    hostname: Option<String>,
    #[command(flatten)]
    details: HostDetails,
    /// Remove a role; repeatable, or comma-separated
    #[arg(long = "remove-role", value_name = "ROLE", value_delimiter = ',')]
    remove_roles: Vec<String>,
    /// Clear a field; repeatable, or comma-separated
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    clear: Vec<Clearable>,
}

/// A field that can be cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Clearable {
    Fqdn,
    #[value(alias = "ip_address")]
    IpAddress,
    Os,
    Environment,
    Roles,
    Description,
}

/// Creates a host.
#[derive(Debug, Args)]
pub(crate) struct HostFields {
    /// Name: 1 to 100 characters, unique regardless of case
    hostname: String,
    #[command(flatten)]
    details: HostDetails,
}

/// The flags for the fields of a host.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct HostDetails {
    /// Fully qualified domain name
    #[arg(long, value_name = "NAME")]
    fqdn: Option<String>,
    /// IPv4 or IPv6 address
    #[arg(long, visible_alias = "ip", value_name = "ADDRESS")]
    ip_address: Option<String>,
    /// Operating system
    #[arg(long, value_name = "TEXT")]
    os: Option<String>,
    /// Platform; of a new host on-prem by default
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
pub(crate) async fn run(app: &mut App, command: HostCommand) -> Outcome {
    let now = time::now();
    match command {
        HostCommand::List => {
            let hosts = app.client()?.hosts().list().await?;
            app.output.records(&hosts)
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
            let details = fields.details;
            let new = NewHost {
                hostname: fields.hostname,
                fqdn: details.fqdn,
                ip_address: details.ip_address,
                os: details.os,
                platform: details.platform,
                environment: details.environment,
                roles: details.roles,
                description: details.description,
            }
            .checked(now)?;
            let host = app.client()?.hosts().create_from(new).send().await?;
            app.output.record(&host, line)
        }
        HostCommand::Update(args) => {
            let mut patch = args.patch()?.checked(now)?;
            let client = app.client()?;
            let host = find::<Host>(&client, &args.host).await?;
            if args.edits_roles() {
                patch.roles = Some(args.edited_roles(&host));
                patch = patch.checked(now)?;
            }
            let request = client.hosts().update_with(host.id, patch);
            app.output.record(&request.send().await?, line)
        }
    }
}

fn line(host: &Host) -> String {
    format!("{}  {}", host.id, one_line(&host.hostname))
}

impl UpdateArgs {
    fn edits_roles(&self) -> bool {
        !self.details.roles.is_empty() || !self.remove_roles.is_empty()
    }

    /// Returns the roles that a host is to have.
    fn edited_roles(&self, host: &Host) -> Vec<String> {
        let mut roles = host.roles.clone();
        roles.retain(|role| !self.remove_roles.contains(role));
        for role in &self.details.roles {
            if !roles.contains(role) {
                roles.push(role.clone());
            }
        }
        roles
    }

    /// Returns the update without what depends on the present values.
    fn patch(&self) -> Outcome<HostPatch> {
        let details = self.details.clone();
        let mut patch = HostPatch {
            hostname: self.hostname.clone(),
            fqdn: details.fqdn.map(Some),
            ip_address: details.ip_address.map(Some),
            os: details.os.map(Some),
            platform: details.platform,
            environment: details.environment.map(Some),
            roles: None,
            description: details.description.map(Some),
        };
        for field in &self.clear {
            let is_set = match field {
                Clearable::Fqdn => patch.fqdn.replace(None).flatten().is_some(),
                Clearable::IpAddress => patch.ip_address.replace(None).flatten().is_some(),
                Clearable::Os => patch.os.replace(None).flatten().is_some(),
                Clearable::Environment => patch.environment.replace(None).flatten().is_some(),
                Clearable::Description => patch.description.replace(None).flatten().is_some(),
                Clearable::Roles => {
                    patch.roles = Some(Vec::new());
                    self.edits_roles()
                }
            };
            if is_set {
                let name = field.to_possible_value();
                let name = name
                    .as_ref()
                    .map(PossibleValue::get_name)
                    .unwrap_or_default();
                return Err(Failure::usage(format!(
                    "{name}: cannot be set and cleared at the same time"
                )));
            }
        }
        if patch == HostPatch::default() && !self.edits_roles() {
            return Err(Failure::usage("nothing to update").hint(
                "give a field to set or clear, such as --environment prod or --clear roles",
            ));
        }
        Ok(patch)
    }
}
