//! Recording a change: its names are resolved at the last moment, and it is
//! sent under a key of its own, so that it can be sent again.

use changelog_client::Error;
use changelog_core::{
    Change, ChangeCreated, ChangeFilter, ChangeId, ChangePatch, Input, NewChange, Status,
};
use clap::Args;

use crate::args::ChangeFields;
use crate::config::Defaults;
use crate::failure::{Exit, Failure, Outcome};
use crate::moment;
use crate::names::{self, Missing};
use crate::output::Output;
use crate::output::table::one_line;
use crate::session::Session;

/// A change with the names that people use for its service and host, so that it
/// can be kept while there is nobody who knows their ids.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    pub(crate) change: NewChange,
    pub(crate) service: Option<String>,
    pub(crate) host: Option<String>,
    /// Make the named service and host if they do not exist.
    pub(crate) create_missing: bool,
}

/// How a change is recorded.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Behaviour")]
pub(crate) struct RecordArgs {
    /// Two requests with the same key and content are one change
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Check everything and print what would be sent, and send nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// When the service is unavailable, fail (exit code 7) and keep nothing for later
    #[arg(long)]
    pub(crate) strict: bool,
}

/// What became of a change.
pub(crate) enum Recorded {
    /// The service has it.
    Created(ChangeCreated),
    /// It would have been sent so.
    Checked(Box<NewChange>),
}

impl Recorded {
    /// Says it on standard output.
    pub(crate) fn show(&self, output: &mut Output) -> Outcome {
        match self {
            Self::Created(created) => output.record(created, |created| {
                format!("{}  {}", created.id, one_line(&created.title))
            }),
            Self::Checked(new) => output.json(new),
        }
    }
}

/// Puts what the settings say in the place of what was not said.
pub(crate) fn with_defaults(mut fields: ChangeFields, defaults: &Defaults) -> ChangeFields {
    fields.risk = fields.risk.or(defaults.risk.clone());
    fields.service = fields.service.or(defaults.service.clone());
    fields.host = fields.host.or(defaults.host.clone());
    fields.tags = fields.tags.or(defaults.tags.clone());
    fields
}

/// Records the change, or says why not.
pub(crate) async fn record(
    session: &Session,
    draft: Draft,
    options: &RecordArgs,
) -> Outcome<Recorded> {
    // All of it is checked before anything is made: a title that is too short
    // must not leave a service behind.
    let mut new = draft.change.checked(moment::now())?;
    let missing = match (draft.create_missing, options.dry_run) {
        (true, true) => Missing::Announce,
        (true, false) => Missing::Create,
        (false, _) => Missing::Offer,
    };
    if let Some(name) = named(draft.service.as_deref()) {
        new.service_id = match name.parse() {
            Ok(id) => Some(id),
            Err(_) => names::service(&session.client()?, name, missing).await?,
        };
    }
    if let Some(name) = named(draft.host.as_deref()) {
        new.host_id = match name.parse() {
            Ok(id) => Some(id),
            Err(_) => names::host(&session.client()?, name, missing).await?,
        };
    }
    if options.dry_run {
        return Ok(Recorded::Checked(Box::new(new)));
    }
    // Made here and not by the client, so that it can be named if the answer
    // is lost.
    let key = options
        .idempotency_key
        .clone()
        .unwrap_or_else(changelog_client::new_idempotency_key);
    let created = session
        .client()?
        .changes()
        .create_from(new)
        .idempotency_key(&key)
        .send()
        .await
        .map_err(|error| unrecorded(error, &key))?;
    Ok(Recorded::Created(created))
}

/// Finds the newest planned change that has this tag.
pub(crate) async fn find_planned(session: &Session, tag: &str) -> Outcome<Option<Change>> {
    let filter = ChangeFilter {
        per_page: 1,
        status: Some(Status::Planned),
        tags: vec![tag.to_owned()],
        ..ChangeFilter::default()
    };
    let page = session.client()?.changes().list_with(filter).send().await?;
    Ok(page.data.into_iter().next())
}

/// Changes what is recorded already.
pub(crate) async fn update(session: &Session, id: ChangeId, patch: ChangePatch) -> Outcome<Change> {
    let patch = patch.checked(moment::now())?;
    Ok(session
        .client()?
        .changes()
        .update_with(id, patch)
        .send()
        .await?)
}

/// Returns a name that is not the empty one, by which somebody says "none".
pub(crate) fn named(name: Option<&str>) -> Option<&str> {
    name.map(str::trim).filter(|name| !name.is_empty())
}

/// Says whether the change may have been recorded all the same.
fn unrecorded(error: Error, key: &str) -> Failure {
    let unconfirmed = error.is_unconfirmed();
    let failure = Failure::from(error);
    match (failure.exit, unconfirmed) {
        (Exit::Unavailable | Exit::Other, true) => failure
            .line("it is not known whether the change was recorded")
            .hint(format!(
                "repeat the command with --idempotency-key {key}, and it is recorded once"
            )),
        (Exit::Unavailable, false) => failure.line("nothing was recorded"),
        _ => failure,
    }
}
