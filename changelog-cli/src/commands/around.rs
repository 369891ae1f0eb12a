//! `chlog around`: lists what changed before a given time, the most suspicious
//! first.

use changelog_core::limits::{DEFAULT_SUSPECTS, MAX_SUSPECTS};
use changelog_core::{Around, Coverage, Environment, Host, Service, Timestamp};
use clap::Args;

use crate::base::failure::Outcome;
use crate::base::text::plural;
use crate::base::time::{self, TimeArg};
use crate::environment::app::App;
use crate::input::complete;
use crate::input::flags::{environment, whole_number};
use crate::input::incident_ref::IncidentRef;
use crate::input::names::resolve_filter;
use crate::output::Output;
use crate::output::format::Format;
use crate::output::incidents::missing;

/// The number of services that are listed.
const MAX_SERVICES: usize = 10;
/// The number of sources that are listed.
const MAX_SOURCES: usize = 10;

/// Lists what changed before a given time, ranked by how likely it is the cause
/// of a problem at that time.
#[derive(Debug, Args)]
pub(crate) struct AroundArgs {
    /// Time of the problem, such as 2h, 08:30, "yesterday 08:30" or 2026-11-21 (its beginning)
    #[arg(
        value_name = "TIME",
        value_parser = time::parse,
        allow_hyphen_values = true,
        default_value = "now"
    )]
    at: TimeArg,
    /// Incident whose start, service and environment are the question: its ID, or the
    /// beginning of it
    #[arg(
        long,
        value_name = "ID",
        conflicts_with_all = ["at", "service", "environment"],
        add = complete::incidents()
    )]
    incident: Option<IncidentRef>,
    /// Affected service
    #[arg(long, value_name = "NAME|ID", add = complete::services())]
    service: Option<String>,
    /// Affected host
    #[arg(long, value_name = "HOSTNAME|ID", add = complete::hosts())]
    host: Option<String>,
    /// Affected environment; by default that of the host
    #[arg(
        long,
        visible_alias = "env",
        value_name = "ENVIRONMENT",
        ignore_case = true,
        value_parser = environment()
    )]
    environment: Option<Environment>,
    /// The symptom, such as an error message; changes that mention its words rank higher
    #[arg(long, value_name = "TEXT")]
    symptom: Option<String>,
    /// How far to look back, at most 7d; by default 1d, and 3d or 7d if nothing there
    /// carries weight
    #[arg(long, value_name = "LENGTH", value_parser = time::parse_minutes)]
    window: Option<u64>,
    /// Include planned changes
    #[arg(long)]
    planned: bool,
    /// Maximum number of changes
    #[arg(
        short = 'L',
        long,
        value_name = "COUNT",
        default_value_t = DEFAULT_SUSPECTS,
        value_parser = whole_number(1..=MAX_SUSPECTS)
    )]
    limit: u64,
}

/// Prints the changes with the reasons for each.
pub(crate) async fn run(app: &mut App, args: AroundArgs) -> Outcome {
    let client = app.client()?;
    let mut request = client
        .changes()
        .around()
        .at(args.at.start(time::now()))
        .limit(args.limit);
    if let Some(minutes) = args.window {
        request = request.window_minutes(minutes);
    }
    if args.planned {
        request = request.with_planned();
    }
    if let Some(symptom) = args.symptom {
        request = request.symptom(symptom);
    }
    if let Some(environment) = args.environment {
        request = request.environment(environment);
    }
    let mut is_open = args.service.is_none() && args.host.is_none();
    if let Some(named) = args.incident {
        let incident = client.incidents().get(named.find(&client).await?).await?;
        is_open &= incident.service_id.is_none();
        request = request.at(incident.started_at);
        if let Some(service) = incident.service_id {
            request = request.service(service);
        }
        if let Some(environment) = incident.environment {
            request = request.environment(environment);
        }
    }
    if let Some(id) = resolve_filter::<Service>(&client, args.service.as_deref()).await? {
        request = request.service(id);
    }
    if let Some(id) = resolve_filter::<Host>(&client, args.host.as_deref()).await? {
        request = request.host(id);
    }
    let around = request.send().await?;
    if app.output.is_document() {
        return app.output.document(&around);
    }
    if around.widened && !around.data.is_empty() {
        let days = around.window_minutes / (24 * 60);
        app.output.note(&format!(
            "nothing in the last day carries weight; these are the last {}",
            plural(days, "day")
        ));
    }
    if !around.complete {
        app.output.note(&format!(
            "only {} changes were ranked; use a shorter --window to rank all",
            around.considered
        ));
    }
    if is_open {
        note_services(&app.output, &around);
    }
    for gap in &around.coverage.gaps {
        app.output.note(&missing(gap));
    }
    if around.data.is_empty() && app.output.format() == Format::Table {
        app.output.note(&format!(
            "no changes between {} and {}",
            around.since, around.at
        ));
        if let Some(heard) = heard(&around.coverage, time::now()) {
            app.output.note(&heard);
        }
        return Ok(());
    }
    app.output.records(&around.data)
}

/// Says what was heard from, and when, so that "no changes" can be trusted.
fn heard(coverage: &Coverage, now: Timestamp) -> Option<String> {
    let heard: Vec<String> = coverage
        .sources
        .iter()
        .filter_map(|one| Some((&one.name, one.last_seen_at?)))
        .map(|(name, at)| format!("{name} {}", time::relative(at, now)))
        .take(MAX_SOURCES)
        .collect();
    (!heard.is_empty()).then(|| format!("last heard from: {}", heard.join(", ")))
}

/// Lists the busiest services: naming the one that hurts helps more than any points.
fn note_services(output: &Output, around: &Around) {
    let busiest = around.facets.services.iter().take(MAX_SERVICES);
    let services: Vec<String> = busiest
        .map(|one| format!("{} {}", one.service.name, one.count))
        .collect();
    if !services.is_empty() {
        output.note(&format!(
            "changes by service: {}; name the affected one with --service",
            services.join(", ")
        ));
    }
}
