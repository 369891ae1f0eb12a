//! `chlog log`: records a change.

use std::path::PathBuf;

use changelog_client::Error;
use changelog_core::{Input, NewChange};
use clap::Args;

use crate::args::ChangeFields;
use crate::failure::{Exit, Failure, Outcome};
use crate::moment::{self, Moment};
use crate::names::{self, Missing};
use crate::output::table::one_line;
use crate::session::Session;
use crate::words::{self, Words};

/// Records a change.
#[derive(Debug, Args)]
#[command(after_help = "\
Without TITLE it is asked for on a terminal, and read from standard input otherwise: \
the first line is the title, the rest the description.")]
pub(crate) struct LogArgs {
    /// What is done, in a line: 3 to 300 characters
    title: Option<String>,
    #[command(flatten)]
    pub(crate) fields: ChangeFields,
    /// When it happened, if not now: RFC 3339, a date, or an age such as 2h
    #[arg(long, value_name = "TIME", value_parser = moment::parse, help_heading = "The change")]
    occurred_at: Option<Moment>,
    /// Read the title (first line) and description (the rest) from a file; - is standard input
    #[arg(
        short = 'F',
        long,
        value_name = "PATH",
        conflicts_with_all = ["title", "editor"],
        help_heading = "Behaviour"
    )]
    file: Option<PathBuf>,
    /// Write the title and description in $VISUAL or $EDITOR
    #[arg(short, long, help_heading = "Behaviour")]
    editor: bool,
    /// Two requests with the same key and content are one change
    #[arg(long, value_name = "KEY", help_heading = "Behaviour")]
    idempotency_key: Option<String>,
    /// Check everything and print what would be sent, and send nothing
    #[arg(long, help_heading = "Behaviour")]
    dry_run: bool,
    /// When the service is unavailable, fail (exit code 7) and keep nothing for later
    #[arg(long, help_heading = "Behaviour")]
    strict: bool,
}

/// Records the change, or says why not.
pub(crate) async fn run(mut session: Session, args: LogArgs) -> Outcome {
    let mut fields = args.fields.clone();
    let defaults = &session.config.defaults;
    fields.risk = fields.risk.or(defaults.risk.clone());
    fields.service = fields.service.or(defaults.service.clone());
    fields.host = fields.host.or(defaults.host.clone());
    fields.tags = fields.tags.or(defaults.tags.clone());

    let a_person_writes = args.editor || (args.title.is_none() && words::somebody_is_there());
    if a_person_writes && !args.dry_run {
        // Nobody should write a text and then hear that there is no key.
        session.client()?;
    }
    let words = words(&args, &fields).await?;
    let new = change(&args, &fields, words)?;
    // All of it is checked before anything is made: a title that is too short
    // must not leave a service behind.
    let mut new = new.checked(moment::now())?;

    let missing = match (fields.create_missing, args.dry_run) {
        (true, true) => Missing::Announce,
        (true, false) => Missing::Create,
        (false, _) => Missing::Offer,
    };
    if let Some(name) = named(fields.service.as_deref()) {
        new.service_id = match name.parse() {
            Ok(id) => Some(id),
            Err(_) => names::service(&session.client()?, name, missing).await?,
        };
    }
    if let Some(name) = named(fields.host.as_deref()) {
        new.host_id = match name.parse() {
            Ok(id) => Some(id),
            Err(_) => names::host(&session.client()?, name, missing).await?,
        };
    }
    if args.dry_run {
        return session.output.json(&new);
    }

    // Made here and not by the client, so that it can be named if the answer
    // is lost.
    let key = args
        .idempotency_key
        .unwrap_or_else(changelog_client::new_idempotency_key);
    let created = session
        .client()?
        .changes()
        .create_from(new)
        .idempotency_key(&key)
        .send()
        .await
        .map_err(|error| unrecorded(error, &key))?;
    session.output.record(&created, |created| {
        format!("{}  {}", created.id, one_line(&created.title))
    })
}

/// Takes the title and description from where they are.
async fn words(args: &LogArgs, fields: &ChangeFields) -> Outcome<Words> {
    let description = fields.description.as_deref();
    if let Some(path) = &args.file {
        return words::from_file(path).await;
    }
    if args.editor {
        let title = args.title.as_deref().unwrap_or_default();
        return words::from_editor(title, description);
    }
    if let Some(title) = &args.title {
        return Ok(Words {
            title: title.clone(),
            ..Words::default()
        });
    }
    if words::somebody_is_there() {
        return words::from_person(fields.risk.as_ref(), fields.status.as_ref(), description);
    }
    if std::io::IsTerminal::is_terminal(&std::io::stdin()) {
        // There is a terminal to read from, and none to ask on.
        return Err(words::no_title());
    }
    words::from_pipe().await
}

/// Puts the change together, but for the ids of names.
fn change(args: &LogArgs, fields: &ChangeFields, words: Words) -> Outcome<NewChange> {
    let now = moment::now();
    // In an editor, the description given is what was edited.
    let given = fields.description.clone().filter(|_| !args.editor);
    if given.is_some() && words.description.is_some() {
        return Err(Failure::usage(
            "there are two descriptions: by --description, and after the first line of the text",
        ));
    }
    Ok(NewChange {
        title: words.title,
        description: given.or(words.description),
        service_id: None,
        host_id: None,
        risk_level: fields.risk.clone().or(words.risk),
        status: fields.status.clone().or(words.status),
        impact: fields.impact.clone(),
        tags: fields.tags.clone().unwrap_or_default(),
        links: fields.links.clone().unwrap_or_default(),
        scheduled_for: fields.scheduled_for.map(|at| at.start(now)),
        occurred_at: args.occurred_at.map(|at| at.start(now)),
    })
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
