//! `chlog service`: lists, shows, creates and edits services.

use changelog_core::{Input, NewService, Service, ServiceId, ServicePatch};
use clap::{Args, Subcommand, ValueEnum};

use crate::base::failure::{Failure, Outcome};
use crate::base::text::one_line;
use crate::base::time;
use crate::environment::app::App;
use crate::input::complete;
use crate::input::names::pick;
use crate::output::detail;

#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// List all services
    #[command(visible_alias = "ls")]
    List,
    /// Show a service
    Show {
        /// Name or ID
        #[arg(value_name = "NAME|ID", add = complete::services())]
        name: String,
    },
    /// Create a service
    Create {
        /// Name: 2 to 100 characters, unique regardless of case
        name: String,
        /// Description
        #[arg(short = 'm', long, value_name = "TEXT")]
        description: Option<String>,
        /// Color; #6366f1 by default
        #[arg(long, value_name = "COLOR")]
        color: Option<String>,
        /// Service that it depends on; repeatable, or comma-separated
        #[arg(
            long,
            value_name = "NAME|ID",
            value_delimiter = ',',
            add = complete::services()
        )]
        depends_on: Vec<String>,
    },
    /// Edit a service
    Update(UpdateArgs),
}

/// Edits a service.
#[derive(Debug, Args)]
#[command(after_help = "\
--depends-on adds to the services that it depends on. chlog reads the service and writes the list \
back: an update of the list by another client within these milliseconds is overwritten.

Examples:
  chlog service update payments --depends-on ledger,mail
  chlog service update payments --remove-depends-on mail
  chlog service update payments --clear depends-on")]
pub(crate) struct UpdateArgs {
    /// Name or ID
    #[arg(value_name = "NAME|ID", add = complete::services())]
    service: String,
    /// New name: 2 to 100 characters, unique regardless of case
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Description
    #[arg(short = 'm', long, value_name = "TEXT")]
    description: Option<String>,
    /// Color, such as #6366f1
    #[arg(long, value_name = "COLOR")]
    color: Option<String>,
    /// Add a service that it depends on; repeatable, or comma-separated
    #[arg(long, value_name = "NAME|ID", value_delimiter = ',', add = complete::services())]
    depends_on: Vec<String>,
    /// Remove a service that it depends on; repeatable, or comma-separated
    #[arg(long, value_name = "NAME|ID", value_delimiter = ',', add = complete::services())]
    remove_depends_on: Vec<String>,
    /// Clear a field; repeatable, or comma-separated
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    clear: Vec<Clearable>,
}

/// A field that can be cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Clearable {
    Description,
    #[value(alias = "depends_on")]
    DependsOn,
}

/// Runs the subcommand.
pub(crate) async fn run(app: &mut App, command: ServiceCommand) -> Outcome {
    let now = time::now();
    match command {
        ServiceCommand::List => {
            let services = app.client()?.services().list().await?;
            app.output.records(&services)
        }
        ServiceCommand::Show { name } => {
            let all = app.client()?.services().list().await?;
            app.output.record(pick(&all, &name)?, |service| {
                detail::service(service, &all, now)
            })
        }
        ServiceCommand::Create {
            name,
            description,
            color,
            depends_on,
        } => {
            let mut new = NewService {
                name,
                description,
                color,
                ..NewService::default()
            }
            .checked(now)?;
            let client = app.client()?;
            if !depends_on.is_empty() {
                new.depends_on = ids(&client.services().list().await?, &depends_on)?;
            }
            let service = client
                .services()
                .create_from(new.checked(now)?)
                .send()
                .await?;
            app.output.record(&service, line)
        }
        ServiceCommand::Update(args) => {
            let mut patch = args.patch()?.checked(now)?;
            let client = app.client()?;
            let all = client.services().list().await?;
            let service = pick(&all, &args.service)?;
            if args.edits_dependencies() {
                patch.depends_on = Some(args.edited(&all, service)?);
                patch = patch.checked(now)?;
            }
            let request = client.services().update_with(service.id, patch);
            app.output.record(&request.send().await?, line)
        }
    }
}

fn line(service: &Service) -> String {
    format!("{}  {}", service.id, one_line(&service.name))
}

/// Returns the ids that names or ids refer to.
fn ids(all: &[Service], names: &[String]) -> Outcome<Vec<ServiceId>> {
    let ids = names.iter().map(|name| Ok(pick(all, name)?.id));
    ids.collect()
}

impl UpdateArgs {
    fn edits_dependencies(&self) -> bool {
        !self.depends_on.is_empty() || !self.remove_depends_on.is_empty()
    }

    /// Returns the services that a service is to depend on.
    fn edited(&self, all: &[Service], service: &Service) -> Outcome<Vec<ServiceId>> {
        let removed = ids(all, &self.remove_depends_on)?;
        let mut depends_on = service.depends_on.clone();
        depends_on.retain(|id| !removed.contains(id));
        depends_on.extend(ids(all, &self.depends_on)?);
        Ok(depends_on)
    }

    /// Returns the update without what depends on the present values.
    fn patch(&self) -> Outcome<ServicePatch> {
        let mut patch = ServicePatch {
            name: self.name.clone(),
            description: self.description.clone().map(Some),
            color: self.color.clone(),
            depends_on: None,
        };
        for field in &self.clear {
            let (name, is_set) = match field {
                Clearable::Description => {
                    let text = patch.description.replace(None);
                    ("description", text.flatten().is_some())
                }
                Clearable::DependsOn => {
                    patch.depends_on = Some(Vec::new());
                    ("depends-on", self.edits_dependencies())
                }
            };
            if is_set {
                return Err(Failure::usage(format!(
                    "{name}: cannot be set and cleared at the same time"
                )));
            }
        }
        if patch == ServicePatch::default() && !self.edits_dependencies() {
            return Err(Failure::usage("nothing to update").hint(
                "give a field to set or clear, such as --depends-on ledger or --clear description",
            ));
        }
        Ok(patch)
    }
}
