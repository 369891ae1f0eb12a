//! `chlog incident`: opens, resolves, lists and shows incidents, and marks their cause.

use changelog_core::limits::{DEFAULT_PER_PAGE, MAX_PER_PAGE};
use changelog_core::{
    Environment, Incident, IncidentStatus, Input, NewIncident, Service, Severity,
};
use clap::{Args, Subcommand};

use crate::base::failure::{Failure, Outcome};
use crate::base::text::one_line;
use crate::base::time::{self, TimeArg};
use crate::environment::app::App;
use crate::input::change_ref::ChangeRef;
use crate::input::complete;
use crate::input::flags::{environment, incident_status, severity, title_help, whole_number};
use crate::input::incident_ref::IncidentRef;
use crate::input::names::{Missing, non_empty, resolve, resolve_filter};
use crate::input::web;
use crate::output::format::Format;
use crate::output::{incidents, post_mortem};
use crate::recording::find_change::find_recorded;

#[derive(Debug, Subcommand)]
pub(crate) enum IncidentCommand {
    /// Open an incident
    Open(OpenArgs),
    /// Resolve an incident
    Resolve(ResolveArgs),
    /// List incidents, open ones first
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show an incident with its suspects, or as the start of a post-mortem
    Show(ShowArgs),
    /// Mark the change that caused an incident
    Cause(CauseArgs),
}

/// Opens an incident. Its suspects are ranked right after.
#[derive(Debug, Args)]
pub(crate) struct OpenArgs {
    #[arg(value_name = "TITLE", help = title_help(", what broke"))]
    title: String,
    /// Affected service
    #[arg(long, value_name = "NAME|ID", add = complete::services())]
    service: Option<String>,
    /// Affected environment
    #[arg(
        long,
        visible_alias = "env",
        value_name = "ENVIRONMENT",
        ignore_case = true,
        value_parser = environment()
    )]
    environment: Option<Environment>,
    /// How bad it is [default: warning]
    #[arg(long, value_name = "SEVERITY", ignore_case = true, value_parser = severity())]
    severity: Option<Severity>,
    /// When it started, such as 10m, 08:30 or "yesterday 08:30" [default: now]
    #[arg(long, value_name = "TIME", value_parser = time::parse, allow_hyphen_values = true)]
    at: Option<TimeArg>,
    /// Page about it, such as that of the alert
    #[arg(long, value_name = "URL")]
    link: Option<String>,
}

/// Resolves an incident.
#[derive(Debug, Args)]
pub(crate) struct ResolveArgs {
    /// Incident: its ID, or the beginning of it
    #[arg(value_name = "ID", add = complete::open_incidents())]
    incident: IncidentRef,
    /// When it was over, such as 10m, 08:30 or "yesterday 08:30" [default: now]
    #[arg(long, value_name = "TIME", value_parser = time::parse, allow_hyphen_values = true)]
    at: Option<TimeArg>,
}

/// Lists incidents.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only this status
    #[arg(long, value_name = "STATUS", ignore_case = true, value_parser = incident_status())]
    status: Option<IncidentStatus>,
    /// Only this service
    #[arg(long, value_name = "NAME|ID", add = complete::services())]
    service: Option<String>,
    /// Only those that started at or after this time, such as 2h, yesterday or 2026-11-21
    #[arg(long, value_name = "TIME", value_parser = time::parse, allow_hyphen_values = true)]
    since: Option<TimeArg>,
    /// Only those that started before this time, or until the end of this date
    #[arg(long, value_name = "TIME", value_parser = time::parse, allow_hyphen_values = true)]
    until: Option<TimeArg>,
    /// Maximum number of incidents
    #[arg(
        short = 'L',
        long,
        value_name = "COUNT",
        default_value_t = DEFAULT_PER_PAGE,
        value_parser = whole_number(1..=u64::MAX)
    )]
    limit: u64,
    /// List all matching incidents
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

/// Shows an incident.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Incident: its ID, or the beginning of it
    #[arg(value_name = "ID", add = complete::incidents())]
    incident: IncidentRef,
}

/// Marks the cause of an incident.
#[derive(Debug, Args)]
pub(crate) struct CauseArgs {
    /// Incident: its ID, or the beginning of it
    #[arg(value_name = "ID", add = complete::incidents())]
    incident: IncidentRef,
    /// Change that caused it: its ID, the beginning of it, or @last
    #[arg(
        value_name = "CHANGE",
        required_unless_present_any = ["none", "clear"],
        add = complete::changes()
    )]
    change: Option<ChangeRef>,
    /// No recorded change caused it
    #[arg(long, conflicts_with_all = ["change", "clear"])]
    none: bool,
    /// Take the mark away
    #[arg(long, conflicts_with = "change")]
    clear: bool,
}

/// Runs the subcommand.
pub(crate) async fn run(app: &mut App, command: IncidentCommand) -> Outcome {
    match command {
        IncidentCommand::Open(args) => open(app, args).await,
        IncidentCommand::Resolve(args) => resolve_incident(app, &args).await,
        IncidentCommand::List(args) => list(app, args).await,
        IncidentCommand::Show(args) => show(app, &args).await,
        IncidentCommand::Cause(args) => mark_cause(app, &args).await,
    }
}

async fn open(app: &mut App, args: OpenArgs) -> Outcome {
    let now = time::now();
    let new = NewIncident {
        title: args.title,
        severity: args.severity,
        environment: args.environment,
        started_at: args.at.map(|at| at.start(now)),
        url: args.link,
        ..NewIncident::default()
    };
    let mut new = new.checked(now).map_err(|mut invalid| {
        for violation in &mut invalid.violations {
            // The flags in place of the fields.
            let flag = match violation.field() {
                "started_at" => "--at",
                "url" => "--link",
                _ => continue,
            };
            flag.clone_into(&mut violation.pointer);
        }
        invalid
    })?;
    let client = app.client()?;
    if let Some(name) = non_empty(args.service.as_deref()) {
        new.service_id = resolve::<Service>(&client, name, Missing::Refuse).await?;
    }
    let incident = client.incidents().open_from(new).send().await?;
    app.output.record(&incident, line)
}

async fn resolve_incident(app: &mut App, args: &ResolveArgs) -> Outcome {
    let client = app.client()?;
    let id = args.incident.find(&client).await?;
    let mut update = client.incidents().update(id);
    update = update.status(IncidentStatus::Resolved);
    if let Some(at) = args.at {
        update = update.resolved_at(at.start(time::now()));
    }
    app.output.record(&update.await?, line)
}

async fn list(app: &mut App, args: ListArgs) -> Outcome {
    let now = time::now();
    let since = args.since.map(|at| at.start(now));
    let until = args.until.map(|at| at.end(now));
    if let (Some(since), Some(until)) = (since, until)
        && since >= until
    {
        return Err(Failure::usage(format!(
            "--since ({since}) must be before --until ({until})"
        )));
    }
    let client = app.client()?;
    let service = resolve_filter::<Service>(&client, args.service.as_deref()).await?;
    let mut request = client.incidents().list();
    if let Some(status) = args.status {
        request = request.status(status);
    }
    if let Some(service) = service {
        request = request.service(service);
    }
    if let Some(since) = since {
        request = request.since(since);
    }
    if let Some(until) = until {
        request = request.until(until);
    }
    let limit = if args.all { u64::MAX } else { args.limit };
    let mut incidents: Vec<Incident> = Vec::new();
    while (incidents.len() as u64) < limit {
        let wanted = (limit - incidents.len() as u64).min(MAX_PER_PAGE);
        let mut page = request.clone().limit(wanted);
        if let Some(last) = incidents.last() {
            page = page.before(last.id);
        }
        let page = page.await?;
        let is_last = (page.len() as u64) < wanted;
        incidents.extend(page);
        if is_last {
            break;
        }
    }
    app.output.records(&incidents)
}

async fn show(app: &mut App, args: &ShowArgs) -> Outcome {
    let client = app.client()?;
    let id = args.incident.find(&client).await?;
    let incident = client.incidents().get(id).await?;
    if app.output.format() == Format::Md {
        let server = web::server(app)?;
        let page = |id| format!("{server}/changes/{id}");
        return app.output.text(&post_mortem::markdown(&incident, page));
    }
    app.output.record(&incident, |incident| {
        incidents::detail(incident, time::now())
    })
}

async fn mark_cause(app: &mut App, args: &CauseArgs) -> Outcome {
    let client = app.client()?;
    let id = args.incident.find(&client).await?;
    let incidents = client.incidents();
    let incident = if args.none {
        incidents.mark_no_cause(id).await?
    } else if args.clear {
        incidents.clear_cause(id).await?
    } else {
        let change = find_recorded(app, args.change.as_ref()).await?;
        incidents.mark_cause(id, change).await?
    };
    app.output.record(&incident, line)
}

fn line(incident: &Incident) -> String {
    format!("{}  {}", incident.id, one_line(&incident.title))
}
