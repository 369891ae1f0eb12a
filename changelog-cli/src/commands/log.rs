//! `chlog log`: records a change.

use std::path::PathBuf;

use changelog_core::NewChange;
use clap::Args;

use crate::args::ChangeFields;
use crate::failure::{Failure, Outcome};
use crate::moment::{self, Moment};
use crate::names::Missing;
use crate::output::table::one_line;
use crate::record::{self, Draft, Recorded, named};
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
    let fields = args.fields.clone().or(&session.config.defaults);
    let a_person_writes = args.editor || (args.title.is_none() && words::somebody_is_there());
    if a_person_writes && !args.dry_run {
        // Nobody should write a text and then hear that there is no key.
        session.client()?;
    }
    let words = words(&args, &fields).await?;
    let mut draft = Draft::new(&fields, change(&args, &fields, words)?)?;
    if args.dry_run {
        if named(fields.service.as_deref()).is_some() || named(fields.host.as_deref()).is_some() {
            let missing = if fields.create_missing {
                Missing::Announce
            } else {
                Missing::Offer
            };
            draft.resolve(&session.client()?, missing).await?;
        }
        return session.output.json(&draft.change);
    }
    // Made here and not by the client, so that it can be named if the answer
    // is lost.
    let key = args
        .idempotency_key
        .unwrap_or_else(changelog_client::new_idempotency_key);
    match record::record(&session, draft, key, args.strict).await? {
        Recorded::Created(created) => session.output.record(&created, |created| {
            format!("{}  {}", created.id, one_line(&created.title))
        }),
        Recorded::Kept => Ok(()),
    }
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

/// Puts the words of the change together.
fn change(args: &LogArgs, fields: &ChangeFields, words: Words) -> Outcome<NewChange> {
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
        // What was asked was not said by a flag.
        risk_level: words.risk,
        status: words.status,
        occurred_at: args.occurred_at.map(|at| at.start(moment::now())),
        ..NewChange::default()
    })
}
