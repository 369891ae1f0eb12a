//! `chlog log`: records a change.

use std::path::PathBuf;

use changelog_core::NewChange;
use clap::Args;

use crate::args::ChangeFields;
use crate::context::{Context, ContextArgs};
use crate::failure::{Failure, Outcome};
use crate::moment::{self, Moment};
use crate::record::{self, Draft, RecordArgs};
use crate::session::Session;
use crate::words::{self, Words};

/// Records a change.
#[derive(Debug, Args)]
#[command(after_help = "\
Without TITLE it is asked for on a terminal, and read from standard input otherwise: \
the first line is the title, the rest the description. In a CI run without input it is \
put together from the run.

Tags (ci, repo, commit, actor) and links (run, commit, branch, pull request) are added from the \
CI run and the git repository; what is given counts first, and --no-context turns it off.")]
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
    #[command(flatten)]
    record: RecordArgs,
    #[command(flatten)]
    context: ContextArgs,
}

/// Records the change, or says why not.
pub(crate) async fn run(mut session: Session, args: LogArgs) -> Outcome {
    let fields = args.fields.clone().or(&session.config.defaults);
    let context = args.context.gather();

    let asks = args.title.is_none() && words::somebody_is_there() && context.title.is_none();
    if (args.editor || asks) && !args.record.dry_run {
        // Nobody should write a text and then hear that there is no key.
        session.client()?;
    }
    let words = words(&args, &fields, &context).await?;
    let mut draft = Draft::new(&fields, change(&args, &fields, words)?)?;
    context.apply(&mut draft.change);
    let recorded = record::record(&session, draft, &args.record).await?;
    recorded.show(&mut session.output)
}

/// Takes the title and description from where they are.
async fn words(args: &LogArgs, fields: &ChangeFields, context: &Context) -> Outcome<Words> {
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
    // Some CI systems give their runs a terminal at which nobody sits.
    let composed = context.title.clone().map(|title| Words {
        title,
        ..Words::default()
    });
    if words::somebody_is_there() && composed.is_none() {
        return words::from_person(fields.risk.as_ref(), fields.status.as_ref(), description);
    }
    if std::io::IsTerminal::is_terminal(&std::io::stdin()) {
        // There is a terminal to read from, and none to ask on.
        return composed.ok_or_else(words::no_title);
    }
    match (words::from_pipe().await?, composed) {
        (Some(words), _) | (None, Some(words)) => Ok(words),
        (None, None) => Err(words::no_title()),
    }
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
