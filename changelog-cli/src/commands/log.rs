//! `chlog log`: records a change.

use std::path::{Path, PathBuf};

use changelog_core::NewChange;
use clap::Args;

use crate::base::failure::{Exit, Failure, Outcome};
use crate::base::time::{self, Moment};
use crate::environment::app::App;
use crate::environment::context::{Context, ContextArgs};
use crate::input::flags::ChangeFields;
use crate::input::message::{self, Typed, Words};
use crate::input::names::Missing;
use crate::recording::spool::owner::Owner;
use crate::recording::submit::{self, Draft, RecordArgs, hurried};

/// Records a change.
#[derive(Debug, Args)]
#[command(after_help = "\
Without TITLE it is asked for on a terminal, and read from standard input otherwise: \
the first line is the title, the rest the description. In a CI run without input it is \
put together from the run.

In a script that the shell itself reads from standard input (bash < script, ssh HOST bash -s, \
kubectl exec -i … -- bash -s), give a title, or -F with a file, or redirect the input (< /dev/null): \
otherwise the rest of the script is read as the title and the description, and never run. That \
cannot be told from a pipe. Where a pipe is meant, say so: … | chlog log -F -

What was typed in an editor or at the prompts is kept in a file until it is recorded; --recover \
takes it up again.

Tags (ci, repo, commit, actor) and links (run, commit, branch, pull request) are added from the \
CI run and the git repository; what is given counts first, and --no-context turns it off.")]
pub(crate) struct LogArgs {
    /// What is done, in a line: 3 to 300 characters; - reads it from standard input
    title: Option<String>,
    #[command(flatten)]
    pub(crate) fields: ChangeFields,
    /// When it happened, if not now: RFC 3339, a date, or an age such as 2h
    #[arg(long, value_name = "TIME", value_parser = time::parse, help_heading = "The change")]
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
    /// Take up the text that was typed last and not recorded; on a terminal, or with -e, in the editor
    #[arg(long, conflicts_with_all = ["title", "file"], help_heading = "Behaviour")]
    recover: bool,
    #[command(flatten)]
    record: RecordArgs,
    #[command(flatten)]
    context: ContextArgs,
}

/// Records the change, or says why not.
pub(crate) async fn run(mut app: App, args: LogArgs) -> Outcome {
    let fields = args.fields.clone().or(&app.config.defaults);
    let context = args.context.gather();

    let is_given = args.title.is_some() || args.file.is_some() || args.recover;
    let asks = !is_given && message::somebody_is_there() && context.title.is_none();
    if (args.editor || asks) && !args.record.dry_run {
        check(&app, &args, &fields).await?;
    }
    let (words, typed) = words(&args, &fields, &context).await?;
    let is_typed = typed.is_some();
    let mut draft = Draft::new(&fields, change(&args, &fields, words, is_typed)?)?;
    context.apply(&mut draft.change);
    let recorded = submit::record(&app, draft, &args.record).await?;
    if let Some(typed) = typed.filter(|_| !args.record.dry_run) {
        typed.discard();
    }
    recorded.show(&mut app.output)
}

/// Finds what is wrong with the flags, the key and the names before the user
/// types anything. A service that does not answer is no reason not to write: the
/// change is kept then.
async fn check(app: &App, args: &LogArgs, fields: &ChangeFields) -> Outcome {
    let words = Words {
        title: "A title that is valid".to_owned(),
        ..Words::default()
    };
    let mut draft = Draft::new(fields, change(args, fields, words, true)?)?;
    let client = app.hurried_client()?;
    let owner = Owner::of(app)?;
    let checking = async {
        owner.ask(&client).await?;
        if draft.create_missing {
            return Ok(());
        }
        draft.resolve(&client, Missing::Offer).await
    };
    match hurried(Box::pin(checking)).await {
        Err(failure) if failure.is_transient() && !args.record.strict => Ok(()),
        Err(failure) if failure.is_transient() => Err(failure.with_exit(Exit::Unavailable)),
        checked => checked,
    }
}

/// Takes the title and description from where they are, and what was typed.
async fn words(
    args: &LogArgs,
    fields: &ChangeFields,
    context: &Context,
) -> Outcome<(Words, Option<Typed>)> {
    let typed = |typed: Outcome<(Words, Typed)>| typed.map(|(words, typed)| (words, Some(typed)));
    let description = fields.description.as_deref();
    let title = args.title.as_deref();
    let file = args.file.as_deref();
    if let Some(path) = file.or((title == Some("-")).then_some(Path::new("-"))) {
        return Ok((message::from_file(path).await?, None));
    }
    if args.recover {
        return typed(message::recovered(args.editor));
    }
    if args.editor {
        return typed(message::from_editor(title.unwrap_or_default(), description));
    }
    let titled = |title: String| Words {
        title,
        ..Words::default()
    };
    if let Some(title) = &args.title {
        return Ok((titled(title.clone()), None));
    }
    // Some CI systems give their runs a terminal at which nobody sits.
    let composed = context.title.clone().map(titled);
    if message::somebody_is_there() && composed.is_none() {
        let (risk, status) = (fields.risk.as_ref(), fields.status.as_ref());
        return typed(message::from_person(risk, status, description));
    }
    if std::io::IsTerminal::is_terminal(&std::io::stdin()) {
        // There is a terminal to read from, and none to ask on.
        return composed
            .map(|words| (words, None))
            .ok_or_else(message::no_title);
    }
    match (message::from_pipe().await?, composed) {
        (Some(words), _) | (None, Some(words)) => Ok((words, None)),
        (None, None) => Err(message::no_title()),
    }
}

/// Puts the words of the change together.
fn change(
    args: &LogArgs,
    fields: &ChangeFields,
    words: Words,
    is_typed: bool,
) -> Outcome<NewChange> {
    // In an editor, the description given is what was edited; at the prompts it
    // comes before what was pasted.
    let given = fields.description.clone();
    let given = given.filter(|_| !args.editor && (!is_typed || words.description.is_none()));
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
        occurred_at: args.occurred_at.map(|at| at.start(time::now())),
        ..NewChange::default()
    })
}
