//! `chlog log`: records a change.

use std::path::{Path, PathBuf};

use changelog_core::{Host, Service, Status};
use clap::Args;

use crate::base::failure::{Exit, Failure, Outcome};
use crate::base::prompting::is_interactive;
use crate::base::time::{self, TimeArg};
use crate::environment::app::{App, within_spool_time};
use crate::environment::context::{Context, ContextArgs};
use crate::input::flags::{ChangeFields, ProgressFlags, title_help};
use crate::input::message::prompts;
use crate::input::message::saved::SavedText;
use crate::input::message::{Message, editor, file};
use crate::input::names::{Missing, all_non_empty, find_unknown, non_empty, settle};
use crate::input::web::WebArgs;
use crate::recording::draft::{Draft, Progress};
use crate::recording::spool::owner::Owner;
use crate::recording::submit::{self, SubmitArgs, Submitted};

/// Records a change.
#[derive(Debug, Args)]
#[command(after_help = "\
Without TITLE, chlog prompts for it on a terminal, and otherwise reads standard input: the first \
line is the title, the rest the description. A TITLE of several lines is split in the same way. With \
a TITLE, -F reads only the description. In a CI run without input, the title is composed from \
the run.

In a script that the shell reads from a pipe (ssh HOST bash -s, kubectl exec -i … -- bash -s), pass a title, use -F with a file, or redirect the input (< /dev/null). Otherwise \
the rest of the script is read as the title and description and is never run: chlog cannot \
distinguish such a script from a pipe. To read a pipe, use: … | chlog log -F -

Text that was typed in an editor or at the prompts is kept in a file until it is recorded; \
--recover continues with it.

Tags (ci, repo, commit), links (run, commit, branch, pull request), the commit with its time, the \
environment and the person who started the run are added from the CI run and the git repository. \
Flags take precedence; --no-context adds nothing. The tags of config.toml and .chlog.toml are added \
to those of --tag.")]
#[command(next_help_heading = "Behavior")]
#[command(mut_arg("risk", |risk| risk.help("Risk level [default: low, or that of the settings]")))]
#[command(mut_arg("status", |status| {
    status.help("Status [default: completed; with --scheduled-for: planned]")
}))]
pub(crate) struct LogArgs {
    #[arg(help = title_help("; - reads it from standard input"), help_heading = None::<&'static str>)]
    title: Option<String>,
    #[command(flatten)]
    fields: ChangeFields,
    /// Time of the change, such as 2h, 08:30 or "yesterday 08:30" [default: now]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = time::parse,
        allow_hyphen_values = true,
        help_heading = "The change"
    )]
    occurred_at: Option<TimeArg>,
    #[command(flatten)]
    progress: ProgressFlags,
    /// Read the title (first line) and the description (the rest) from a file, or with
    /// TITLE only the description; - is standard input
    #[arg(short = 'F', long, value_name = "PATH", conflicts_with = "editor")]
    file: Option<PathBuf>,
    /// Write the title and description in $VISUAL or $EDITOR
    #[arg(short, long)]
    editor: bool,
    /// Continue with the text that was typed last and not recorded; on a terminal, or
    /// with -e, in the editor
    #[arg(long, conflicts_with_all = ["title", "file"])]
    recover: bool,
    #[command(flatten)]
    submit: SubmitArgs,
    #[command(flatten)]
    web: WebArgs,
    #[command(flatten)]
    context: ContextArgs,
}

impl LogArgs {
    /// Returns the title of the command line.
    pub(crate) fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }
}

/// Records the change.
pub(crate) async fn run(app: &mut App, args: LogArgs) -> Outcome {
    let mut fields = args.fields.clone().or_defaults(&app.config.defaults);
    fields.description = described(&args, fields.description).await?;
    let context = args.context.gather();

    let has_text = args.title.is_some() || args.file.is_some() || args.recover;
    let prompts = !has_text && is_interactive() && context.title.is_none();
    if is_interactive() && !args.submit.dry_run {
        settle_names(app, &mut fields).await?;
    }
    if (args.editor || prompts) && !args.submit.dry_run {
        check(app, &args, &fields).await?;
    }
    let (message, origin) = message(&args, &fields, &context).await?;
    let text = message.text();
    let recording = async {
        let is_typed = matches!(origin, Origin::Typed(_));
        let mut draft = draft(&args, fields, message, is_typed)?;
        context.apply(&mut draft.change);
        submit::create(app, draft, &args.submit).await
    };
    let submitted = Box::pin(recording).await;
    match origin {
        Origin::Typed(saved) if submitted.is_ok() && !args.submit.dry_run => saved.discard(),
        // What wrote it may not write it again.
        Origin::Piped if submitted.is_err() => drop(SavedText::new(&text)?),
        Origin::Typed(_) | Origin::Piped | Origin::Given => {}
    }
    let submitted = submitted?;
    let id = match &submitted {
        Submitted::Created(created) => Some(created.id),
        _ => None,
    };
    submitted.print(app)?;
    id.map_or(Ok(()), |id| args.web.open(app, id))
}

/// Where a message is from.
enum Origin {
    /// An argument or a file.
    Given,
    /// Standard input.
    Piped,
    /// An editor or prompts; with the file that keeps the text.
    Typed(SavedText),
}

/// Returns the description of the flag; `-` is standard input.
async fn described(args: &LogArgs, description: Option<String>) -> Outcome<Option<String>> {
    if description.as_deref() != Some("-") {
        return Ok(description);
    }
    let has_title = args.title.as_deref().is_some_and(|title| title != "-");
    if !has_title && !args.editor {
        return Err(Failure::usage(
            "--description -: standard input is the description, so pass the title as the argument",
        ));
    }
    file::text_of(Path::new("-")).await.map(Some)
}

/// Lets the user decide about services and hosts that do not exist. If the server is
/// unavailable, the names are checked when the change is sent.
async fn settle_names(app: &App, fields: &mut ChangeFields) -> Outcome {
    if fields.create_missing {
        return Ok(());
    }
    let client = app.quick_client()?;
    let mut services = Vec::new();
    for name in all_non_empty(fields.services.as_deref()) {
        services.extend(
            match within_spool_time(find_unknown::<Service>(&client, name)).await {
                Ok(Some(unknown)) => settle::<Service>(&client, name, unknown).await?,
                Ok(None) => Some(name.to_owned()),
                // Only one attempt per command: the user waits.
                Err(_) => return Ok(()),
            },
        );
    }
    if fields.services.is_some() {
        fields.services = Some(services);
    }
    if let Some(name) = non_empty(fields.host.as_deref())
        && let Ok(Some(unknown)) = within_spool_time(find_unknown::<Host>(&client, name)).await
    {
        // An empty name means none.
        let settled = settle::<Host>(&client, name, unknown).await?;
        fields.host = Some(settled.unwrap_or_default());
    }
    Ok(())
}

/// Checks the flags, the key and the names before the user types anything. If
/// the server is unavailable, the user may type: the change is then kept.
async fn check(app: &App, args: &LogArgs, fields: &ChangeFields) -> Outcome {
    let message = Message {
        title: "A valid title".to_owned(),
        ..Message::default()
    };
    let mut draft = draft(args, fields.clone(), message, true)?;
    let client = app.quick_client()?;
    let owner = Owner::of(app)?;
    let checking = async {
        owner.fetch(&client).await?;
        if draft.create_missing {
            return Ok(());
        }
        draft.resolve(&client, Missing::Offer).await
    };
    match within_spool_time(Box::pin(checking)).await {
        Err(failure) if failure.is_transient() && !args.submit.strict => Ok(()),
        Err(failure) if failure.is_transient() => Err(failure.with_exit(Exit::Unavailable)),
        checked => checked,
    }
}

/// Reads the message from its source.
async fn message(
    args: &LogArgs,
    fields: &ChangeFields,
    context: &Context,
) -> Outcome<(Message, Origin)> {
    let typed = |typed: Outcome<(Message, SavedText)>| {
        typed.map(|(message, saved)| (message, Origin::Typed(saved)))
    };
    let description = fields.description.as_deref();
    let title = args.title.as_deref();
    let path = args.file.as_deref();
    let origin_of = |path: &Path| {
        if path == Path::new("-") {
            Origin::Piped
        } else {
            Origin::Given
        }
    };
    let given = args.title.as_deref().filter(|title| *title != "-");
    let given = given.map(Message::parse);
    match (path, given) {
        (Some(path), None) => return Ok((file::from_file(path).await?, origin_of(path))),
        (Some(path), Some(mut given)) => {
            if given.description.is_some() {
                return Err(two_descriptions());
            }
            let text = file::text_of(path).await?;
            given.description = Some(text.trim().to_owned()).filter(|text| !text.is_empty());
            return Ok((given, origin_of(path)));
        }
        (None, Some(given)) if !args.editor => return Ok((given, Origin::Given)),
        (None, None) if title == Some("-") => {
            let path = Path::new("-");
            return Ok((file::from_file(path).await?, origin_of(path)));
        }
        (None, _) => {}
    }
    if args.recover {
        return typed(editor::recover(args.editor));
    }
    if args.editor {
        return typed(editor::from_editor(title.unwrap_or_default(), description));
    }
    let titled = |title: String| Message {
        title,
        ..Message::default()
    };
    // Some CI systems run their jobs on a terminal without a user.
    let composed = context.title.clone().map(titled);
    if is_interactive() && composed.is_none() {
        let (risk, status) = (fields.risk.as_ref(), fields.status.as_ref());
        let default_status = default_status(fields.scheduled_for);
        return typed(prompts::ask(risk, status, &default_status, description));
    }
    if std::io::IsTerminal::is_terminal(&std::io::stdin()) {
        // Standard input is a terminal, but standard error is not.
        return composed
            .map(|message| (message, Origin::Given))
            .ok_or_else(file::no_title);
    }
    if let Some(composed) = &composed
        && file::is_script()
    {
        return Ok((composed.clone(), Origin::Given));
    }
    match (file::from_unnamed_pipe().await?, composed) {
        (Some(message), _) => Ok((message, Origin::Piped)),
        (None, Some(message)) => Ok((message, Origin::Given)),
        (None, None) => Err(file::no_title()),
    }
}

/// Returns the status of a change that the user gives none.
fn default_status(scheduled_for: Option<TimeArg>) -> Status {
    match scheduled_for {
        Some(_) => Status::Planned,
        None => Status::Completed,
    }
}

fn two_descriptions() -> Failure {
    Failure::usage(
        "there are two descriptions; use only one of --description, -F, and the lines after the first line of the title",
    )
}

/// Merges the flags and the message into a change.
fn draft(
    args: &LogArgs,
    mut fields: ChangeFields,
    message: Message,
    is_typed: bool,
) -> Outcome<Draft> {
    // An editor starts with the description of the flag, and prompts put it
    // before the typed one: the message then includes it.
    let is_included = args.editor || (is_typed && message.description.is_some());
    if is_included {
        fields.description = None;
    }
    if fields.description.is_some() && message.description.is_some() {
        return Err(two_descriptions());
    }
    let status = fields.status.or(message.status);
    let status = status.unwrap_or_else(|| default_status(fields.scheduled_for));
    let fields = ChangeFields {
        description: fields.description.or(message.description),
        risk: fields.risk.or(message.risk),
        status: Some(status),
        ..fields
    };
    let now = time::now();
    let at = |time: Option<TimeArg>| time.map(|time| time.start(now));
    let progress = Progress {
        occurred_at: at(args.occurred_at),
        started_at: at(args.progress.started_at),
        ended_at: at(args.progress.ended_at),
        outcome: args.progress.outcome.clone(),
    };
    Draft::new(message.title, fields, progress)
}
