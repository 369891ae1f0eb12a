//! `chlog terraform run`: runs Terraform, shows what it says, and records it.
//!
//! What was done is known from Terraform's events, which it writes instead of
//! its words for people. So `apply` and `destroy` are run with `-json` and shown
//! as people know them, where they need no answer: with `-auto-approve`, or with
//! a saved plan. Where they would ask, the two steps that they are made of are
//! taken one by one: `plan` into a file that nobody else can read, on the user's
//! own terminal; the question; then that plan is applied. A `plan` is left as it
//! is, and what it saves is read.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use anstream::adapter::strip_str;
use changelog_core::text::printable;
use tempfile::TempDir;

use super::call::{self, Call};
use super::{Flags, Kept, draft, follow, record, see_it_through, surround, uninterrupted};
use crate::base::failure::{Exit, Failure, Outcome, note, warn};
use crate::environment::app::App;
use crate::recording::spool::delivery::Delivery;
use crate::recording::submit::Recorded;
use crate::supervise;
use crate::terraform::events::{Events, Known};
use crate::terraform::plan::Plan;
use crate::terraform::renderer::{Shown, shown};
use crate::terraform::summary::{Operation, Summary};

/// Terraform, as it is called.
#[derive(Clone)]
struct Terraform {
    program: OsString,
    call: Call,
}

/// How Terraform ended, and what is to be recorded of it.
struct Ended {
    status: ExitStatus,
    summary: Option<Summary>,
    /// Of the saved plan that was made or applied.
    print: Option<String>,
}

impl Ended {
    /// Nothing of it is to be recorded.
    fn unrecorded(status: ExitStatus) -> Self {
        Self {
            status,
            summary: None,
            print: None,
        }
    }
}

/// Runs Terraform and records what it did; ends as Terraform ended.
pub(super) async fn run(
    app: Outcome<App>,
    flags: Flags,
    arguments: &[OsString],
) -> Outcome<ExitCode> {
    let program = call::program().ok_or_else(|| {
        Failure::new(
            Exit::Other,
            "neither terraform nor tofu is in the search path",
        )
        .hint("CHLOG_TERRAFORM names another program")
    })?;
    let app = match app.and_then(|app| ready(app, &flags)) {
        Ok(app) => Some(app),
        // The flags are wrong, or somebody insists on its being recorded.
        Err(failure) if flags.record.strict || failure.exit == Exit::Invalid => {
            return Err(failure);
        }
        Err(failure) => {
            failure.report();
            warn("terraform runs all the same, and nothing is recorded");
            None
        }
    };
    let terraform = Terraform {
        program,
        call: Call::read(arguments),
    };
    see_it_through();
    let ended = terraform.run().await?;
    let code = supervise::code(ended.status);
    if let (Some(mut summary), Some(app)) = (ended.summary, app) {
        let chdir = terraform.call.chdir();
        surround(&mut summary, chdir.as_deref(), &terraform.call.secrets());
        let print = ended.print.as_deref();
        let recorded = uninterrupted(record(&app, &summary, &flags, print)).await;
        if recorded.is_ok() {
            Delivery::after(&app).await;
        }
        match recorded.and_then(|kept| tell(app, kept)) {
            Ok(()) => {}
            // Terraform succeeded, and somebody insists on its being recorded.
            Err(failure) if code == 0 && flags.record.strict => return Err(failure),
            Err(failure) => {
                let _ = failure.report();
            }
        }
    }
    Ok(ExitCode::from(code))
}

/// Finds out what is wrong with the flags and the settings before anything is
/// changed.
fn ready(app: App, flags: &Flags) -> Outcome<App> {
    draft(&app, &Summary::default(), flags, None)?;
    if !flags.record.dry_run {
        app.hurried_client()?;
    }
    Ok(app)
}

/// Says on standard error what was recorded: standard output is Terraform's.
fn tell(mut app: App, kept: Kept) -> Outcome {
    let (id, title) = match kept {
        Kept::New(Recorded::Created(created)) => (created.id, created.title),
        Kept::Updated(change) => (change.id, change.title),
        kept => return kept.show(&mut app),
    };
    note(&format!("recorded {id}  {title}"));
    Ok(())
}

impl Terraform {
    async fn run(&self) -> Outcome<Ended> {
        let call = &self.call;
        let as_given = self.words(&call.rest);
        match call.command.as_str() {
            _ if call.has("help") => Ok(Ended::unrecorded(self.plainly(&as_given).await?)),
            "plan" if call.has("json") => self.events(as_given, Operation::Plan, on_stdout).await,
            "plan" => self.plan().await,
            "apply" | "destroy" => {
                let operation = if call.command == "destroy" || call.has("destroy") {
                    Operation::Destroy
                } else {
                    Operation::Apply
                };
                let print = match call.named.as_slice() {
                    [plan] => self.show(plan).await.map(|plan| plan.fingerprint()),
                    _ => None,
                };
                let mut ended = if call.has("json") {
                    self.events(as_given, operation, on_stdout).await?
                } else if !call.named.is_empty() || call.has("auto-approve") {
                    let words = self.with("-json", &call.rest);
                    self.events(words, operation, on_terminal).await?
                } else {
                    self.ask(operation).await?
                };
                ended.print = print;
                Ok(ended)
            }
            _ => Ok(Ended::unrecorded(self.plainly(&as_given).await?)),
        }
    }

    /// Plans on the user's terminal, and reads what was saved.
    async fn plan(&self) -> Outcome<Ended> {
        let folder = private_folder()?;
        let temporary = folder.path().join("plan");
        let saved = self.call.value("out");
        let (words, path) = match &saved {
            Some(path) => (self.words(&self.call.rest), OsString::from(path)),
            None => (self.planning(&temporary, &self.call.rest), temporary.into()),
        };
        let status = self.plainly(&words).await?;
        // With -detailed-exitcode 2 says that there is something to do.
        let planned = matches!(supervise::code(status), 0 | 2);
        let plan = if planned {
            self.show(&path).await
        } else {
            None
        };
        if saved.is_none() && planned {
            note("(the plan was kept only until it was recorded; -out=FILE keeps it)");
        }
        let Some(plan) = plan else {
            note("nothing was planned, and nothing is recorded");
            return Ok(Ended::unrecorded(status));
        };
        Ok(Ended {
            status,
            summary: Some(plan.summary()),
            print: saved.map(|_| plan.fingerprint()),
        })
    }

    /// Plans, asks, and applies the plan.
    async fn ask(&self, operation: Operation) -> Outcome<Ended> {
        if self.call.has_not("input") {
            return Err(Failure::usage("with -input=false nobody can approve")
                .hint("give -auto-approve, or a saved plan"));
        }
        let folder = private_folder()?;
        let path = folder.path().join("plan");
        let mut flags = self.call.to_plan();
        if operation == Operation::Destroy && !self.call.has("destroy") {
            flags.insert(0, "-destroy".into());
        }
        let words = self.planning(&path, &flags);
        let mut command = self.command(&words);
        // What is meant for this command is part of the plan.
        let own = format!("TF_CLI_ARGS_{}", self.call.command);
        if let Some(words) = std::env::var_os(&own) {
            command.env("TF_CLI_ARGS_plan", words);
        }
        let status = wait(command).await?;
        if !status.success() {
            note("nothing was changed, and nothing is recorded");
            return Ok(Ended::unrecorded(status));
        }
        let plan = self.show(path.as_os_str()).await.ok_or_else(|| {
            Failure::new(Exit::Other, "the plan cannot be read; nothing was changed")
        })?;
        let nothing = plan.summary().is_nothing() && !self.call.has("refresh-only");
        if !nothing && !approved(operation).await? {
            return Err(Failure::new(
                Exit::Other,
                "not approved; nothing was changed, and nothing is recorded",
            ));
        }
        let mut words = self.with("-json", &self.call.to_apply());
        if let Some(command) = words.iter_mut().find(|word| *word == "destroy") {
            *command = "apply".into();
        }
        words.push(path.into());
        let mut command = self.command(&words);
        command.env_remove("TF_CLI_ARGS_apply");
        follow_command(command, operation, on_terminal).await
    }

    /// Reads a saved plan; none where that cannot be done.
    async fn show(&self, plan: &OsStr) -> Option<Plan> {
        let mut words = self.call.before.clone();
        words.extend(["show".into(), "-json".into(), plan.to_owned()]);
        let mut command = self.command(&words);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command.stdout(Stdio::piped());
        let read = move || {
            let mut child = command.spawn().ok()?;
            let stdout = child.stdout.take()?;
            let plan = Plan::read(BufReader::new(stdout)).ok();
            let done = child.wait().ok()?.success();
            plan.filter(|_| done)
        };
        tokio::task::spawn_blocking(read).await.ok()?
    }

    async fn events(
        &self,
        words: Vec<OsString>,
        operation: Operation,
        show: fn(&[u8]),
    ) -> Outcome<Ended> {
        follow_command(self.command(&words), operation, show).await
    }

    /// Runs it with the terminal to itself.
    async fn plainly(&self, words: &[OsString]) -> Outcome<ExitStatus> {
        wait(self.command(words)).await
    }

    fn command(&self, words: &[OsString]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words);
        command
    }

    /// Puts the command line together again.
    fn words(&self, rest: &[OsString]) -> Vec<OsString> {
        let mut words = self.call.before.clone();
        if !self.call.command.is_empty() {
            words.push(self.call.command.clone().into());
        }
        words.extend_from_slice(rest);
        words
    }

    fn with(&self, flag: &str, rest: &[OsString]) -> Vec<OsString> {
        let mut all = vec![flag.into()];
        all.extend_from_slice(rest);
        self.words(&all)
    }

    fn planning(&self, path: &Path, rest: &[OsString]) -> Vec<OsString> {
        let mut out = OsString::from("-out=");
        out.push(path);
        let mut words = self.call.before.clone();
        words.extend(["plan".into(), out]);
        words.extend_from_slice(rest);
        words
    }
}

/// Makes a folder that nobody else can look into: a plan holds every value.
fn private_folder() -> Outcome<TempDir> {
    tempfile::Builder::new()
        .prefix("chlog-")
        .tempdir()
        .map_err(|error| Failure::new(Exit::Other, format!("cannot make a folder: {error}")))
}

/// Asks as Terraform does.
async fn approved(operation: Operation) -> Outcome<bool> {
    let question = if operation == Operation::Destroy {
        "Do you really want to destroy all resources?"
    } else {
        "Do you want to perform these actions?"
    };
    note("(the plan is kept only until it is applied or not approved)");
    let mut stdout = io::stdout();
    let asked = write!(
        stdout,
        "\n{question}\n  Only 'yes' will be accepted to approve.\n\n  Enter a value: "
    );
    let _ = asked.and_then(|()| stdout.flush());
    let answer = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map(|_| answer)
    });
    let answer = async { Ok(answer.await) };
    let answer = uninterrupted(answer).await?;
    let yes = answer.is_ok_and(|read| read.is_ok_and(|answer| answer.trim() == "yes"));
    let _ = writeln!(stdout);
    Ok(yes)
}

async fn wait(command: Command) -> Outcome<ExitStatus> {
    let program = command.get_program().display().to_string();
    let ended = match supervise::start(command) {
        Ok(running) => running.wait().await,
        Err(error) => Err(error),
    };
    ended.map_err(|error| not_run(&program, &error))
}

/// Runs it, shows its events and sums them up.
async fn follow_command(
    mut command: Command,
    operation: Operation,
    show: fn(&[u8]),
) -> Outcome<Ended> {
    let program = command.get_program().display().to_string();
    command.stdout(Stdio::piped());
    let ended = async {
        let mut running = supervise::start(command)?;
        let events = match running.stdout.take() {
            Some(stdout) => {
                let follow = move || follow(BufReader::new(stdout), show);
                tokio::task::spawn_blocking(follow).await?
            }
            None => Events::default(),
        };
        io::Result::Ok((running.wait().await?, events))
    };
    let (status, events) = ended.await.map_err(|error| not_run(&program, &error))?;
    if !events.any() && !status.success() {
        // It did not get as far as to say what it does.
        return Ok(Ended::unrecorded(status));
    }
    let summary = events.finish(Known {
        operation: Some(operation),
        success: Some(status.success()),
    });
    Ok(Ended {
        status,
        summary: Some(summary),
        print: None,
    })
}

fn not_run(program: &str, error: &io::Error) -> Failure {
    Failure::new(Exit::Other, format!("cannot run {program}: {error}"))
}

/// Shows events as people know them, where Terraform would have said so.
fn on_terminal(line: &[u8]) {
    // Nobody may be reading any more; that must not end Terraform.
    match shown(line) {
        Shown::Nothing => {}
        Shown::Text(text) => {
            let _ = writeln!(io::stdout(), "{}", printable(&strip_str(&text).to_string()));
        }
        Shown::Error(text) => note(&strip_str(&text).to_string()),
        Shown::Foreign => on_stdout(line),
    }
}

/// Passes events on as they are.
fn on_stdout(line: &[u8]) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(line).and_then(|()| stdout.flush());
}
