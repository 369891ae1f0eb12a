//! `chlog service`: lists, shows and creates services.

use changelog_core::{Input, NewService, Service};
use clap::Subcommand;

use crate::base::failure::Outcome;
use crate::base::text::one_line;
use crate::base::time;
use crate::environment::app::App;
use crate::input::complete;
use crate::input::names::find;
use crate::output::detail;
use crate::output::table;

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
        /// Color, such as #6366f1
        #[arg(long, value_name = "COLOR")]
        color: Option<String>,
    },
}

/// Runs the subcommand.
pub(crate) async fn run(mut app: App, command: ServiceCommand) -> Outcome {
    let now = time::now();
    match command {
        ServiceCommand::List => {
            let services = app.client()?.services().list().await?;
            app.output.records(services, |services, width| {
                table::services(services, width, now)
            })
        }
        ServiceCommand::Show { name } => {
            let client = app.client()?;
            let service = match name.parse() {
                Ok(id) => client.services().get(id).await?,
                Err(_) => find::<Service>(&client, &name).await?,
            };
            app.output
                .record(&service, |service| detail::service(service, now))
        }
        ServiceCommand::Create {
            name,
            description,
            color,
        } => {
            let new = NewService {
                name,
                description,
                color,
                ..NewService::default()
            }
            .checked(now)?;
            let service = app.client()?.services().create_from(new).send().await?;
            app.output.record(&service, |service| {
                format!("{}  {}", service.id, one_line(&service.name))
            })
        }
    }
}
