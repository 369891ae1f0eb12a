//! `chlog terraform run`: runs Terraform and records what it did.
//!
//! Terraform prints either events or text for people. `apply` and `destroy` are run in
//! two steps: `plan` on the terminal, saved in a private file, with all attributes that
//! change; the prompt, unless `-auto-approve` is given; `apply -json` of that file,
//! whose events are printed as text. With a saved plan, there is only the last step; so
//! it is with `-auto-approve` and a remote backend, whose plans cannot be saved. A `plan`
//! is run unchanged, and the file that it saves is read.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;

use super::change::{Recorded, add_context, new_draft, record, terraform_directory};
use super::command_line::{CommandLine, without_added};
use super::events::{follow, print_on_terminal, print_unchanged};
use super::flags::Flags;
use super::signals::{ignore_signals, until_interrupted};
use crate::base::failure::{Exit, Failure, Outcome, name_program, note};
use crate::environment::app::App;
use crate::recording::spool::delivery::Delivery;
use crate::recording::submit::Submitted;
use crate::supervise;
use crate::terraform::events::{Events, RunFacts};
use crate::terraform::plan::Plan;
use crate::terraform::summary::{Ending, Operation, Summary};

/// Terraform and its command line.
#[derive(Clone)]
struct Terraform {
    program: OsString,
    line: CommandLine,
}

/// The end of Terraform, and what to record.
struct Finished {
    status: ExitStatus,
    summary: Option<Summary>,
    /// The fingerprint of the saved plan that was created or applied.
    fingerprint: Option<String>,
}

impl Finished {
    /// Nothing is to be recorded.
    fn unrecorded(status: ExitStatus) -> Self {
        Self {
            status,
            summary: None,
            fingerprint: None,
        }
    }
}

/// Runs Terraform and records what it did; returns Terraform's exit code.
pub(super) async fn run(
    app: Outcome<App>,
    flags: Flags,
    arguments: &[OsString],
) -> Outcome<ExitCode> {
    let program = program().ok_or_else(|| {
        Failure::new(Exit::Other, "neither terraform nor tofu found in PATH")
            .hint("CHLOG_TERRAFORM names another program")
    })?;
    name_program();
    let strict = flags.submit.strict;
    let (app, flags) = match app.and_then(|app| check(app, &flags)) {
        Ok((app, flags)) => (Some(app), flags),
        Err(failure) if strict => {
            return Err(failure.line("nothing was recorded, and Terraform was not started"));
        }
        Err(failure) => {
            failure.context("this run will not be recorded").report();
            (None, flags)
        }
    };
    let terraform = Terraform {
        program,
        line: CommandLine::parse(arguments, |name| std::env::var(name).ok()),
    };
    ignore_signals();
    let finished = terraform.run().await?;
    let code = supervise::code(finished.status);
    if let (Some(mut summary), Some(app)) = (finished.summary, app) {
        let chdir = terraform.line.chdir();
        add_context(&mut summary, chdir.as_deref(), &terraform.line.secrets());
        let fingerprint = finished.fingerprint.as_deref();
        let recorded = until_interrupted(record(&app, &summary, &flags, fingerprint)).await;
        if recorded.is_ok() {
            Delivery::after(&app).await;
        }
        match recorded.and_then(|recorded| print(app, recorded)) {
            Ok(()) => {}
            // Terraform succeeded, and the user requires a record.
            Err(failure) if code == 0 && flags.submit.strict => return Err(failure),
            Err(failure) => {
                let _ = failure.context("this run was not recorded").report();
            }
        }
    }
    Ok(ExitCode::from(code))
}

/// Checks the flags and the settings before anything is changed, and returns the flags
/// with values that fit.
fn check(app: App, flags: &Flags) -> Outcome<(App, Flags)> {
    let draft = |flags: &Flags| new_draft(&app, &Summary::default(), flags, None);
    let fitted = match draft(flags) {
        Err(failure) if failure.exit == Exit::Invalid && !flags.submit.strict => {
            let fitted = flags.fitted(&app.config.defaults);
            draft(&fitted)?;
            fitted
        }
        Err(failure) => return Err(failure),
        Ok(_) => flags.clone(),
    };
    if !flags.submit.dry_run {
        app.quick_client()?;
    }
    Ok((app, fitted))
}

/// Prints the result on standard error: standard output is Terraform's.
fn print(mut app: App, recorded: Recorded) -> Outcome {
    let (id, title) = match recorded {
        Recorded::New(Submitted::Created(created)) => (created.id, created.title),
        Recorded::Updated(change) => (change.id, change.title),
        // The warning has said that it is kept.
        Recorded::New(Submitted::Queued(queued)) | Recorded::Queued(queued) => {
            return queued.failure.map_or(Ok(()), Err);
        }
        recorded => return recorded.print(&mut app),
    };
    note(&format!("recorded {id}  {title}"));
    Ok(())
}

impl Terraform {
    async fn run(&self) -> Outcome<Finished> {
        let line = &self.line;
        let as_given = self.words(&line.rest);
        match line.command.as_str() {
            _ if line.has("help") => Ok(Finished::unrecorded(self.run_unchanged(&as_given).await?)),
            "plan" if line.has("json") => self.plan_as_json(as_given).await,
            "plan" => self.plan().await,
            // Terraform refuses them; the plan in its place would not.
            "apply" | "destroy" if line.has_plan_only() => {
                Ok(Finished::unrecorded(self.run_unchanged(&as_given).await?))
            }
            "apply" | "destroy" => {
                let operation = if line.command == "destroy" || line.has("destroy") {
                    Operation::Destroy
                } else {
                    Operation::Apply
                };
                let fingerprint = match line.positional.as_slice() {
                    [plan] => self.read_plan(plan).await.map(|plan| plan.fingerprint()),
                    _ => None,
                };
                let mut finished = if line.has("json") {
                    self.events(as_given, operation, print_unchanged).await?
                } else if !line.positional.is_empty()
                    || (line.has("auto-approve") && self.plans_remotely())
                {
                    let words = self.with("-json", &line.rest);
                    self.events(words, operation, print_on_terminal).await?
                } else {
                    self.plan_and_apply(operation).await?
                };
                finished.fingerprint = fingerprint;
                Ok(finished)
            }
            _ => Ok(Finished::unrecorded(self.run_unchanged(&as_given).await?)),
        }
    }

    /// Plans with events as the output. A plan that fails is not recorded: nothing was
    /// changed.
    async fn plan_as_json(&self, words: Vec<OsString>) -> Outcome<Finished> {
        let finished = self.events(words, Operation::Plan, print_unchanged).await?;
        if !is_planned(finished.status) {
            return Ok(Finished::unrecorded(finished.status));
        }
        let fingerprint = match self.line.value("out") {
            Some(path) => self.read_plan(OsStr::new(&path)).await,
            None => None,
        };
        Ok(Finished {
            fingerprint: fingerprint.map(|plan| plan.fingerprint()),
            ..finished
        })
    }

    /// Plans on the terminal, and reads the saved plan.
    async fn plan(&self) -> Outcome<Finished> {
        let directory = private_directory()?;
        let temporary = directory.path().join("plan");
        let saved = self.line.value("out");
        let (words, path) = match &saved {
            Some(path) => (self.words(&self.line.rest), OsString::from(path)),
            None => (
                self.plan_arguments(&temporary, &self.line.rest),
                temporary.into(),
            ),
        };
        let status = self.run_unchanged(&words).await?;
        let planned = is_planned(status);
        let plan = if planned {
            self.read_plan(&path).await
        } else {
            None
        };
        if saved.is_none() && planned {
            note("(temporary plan file deleted; use -out=FILE to keep it)");
        }
        let Some(plan) = plan else {
            note("nothing planned, so nothing was recorded");
            return Ok(Finished::unrecorded(status));
        };
        Ok(Finished {
            status,
            summary: Some(plan.summary()),
            fingerprint: saved.map(|_| plan.fingerprint()),
        })
    }

    /// Returns whether the plans of the project cannot be saved on this machine: they are
    /// made by a remote backend.
    fn plans_remotely(&self) -> bool {
        let directory = self.line.chdir().unwrap_or_default();
        let settings = terraform_directory(&directory).join("terraform.tfstate");
        let settings = fs::read(settings).unwrap_or_default();
        let settings: Value = serde_json::from_slice(&settings).unwrap_or_default();
        matches!(
            settings["backend"]["type"].as_str(),
            Some("remote" | "cloud")
        )
    }

    /// Plans, prompts unless `-auto-approve` is given, and applies the plan.
    async fn plan_and_apply(&self, operation: Operation) -> Outcome<Finished> {
        let is_approved = self.line.has("auto-approve");
        if !is_approved && self.line.has_disabled("input") {
            return Err(Failure::usage("can't ask for approval with -input=false")
                .hint("use -auto-approve or a saved plan"));
        }
        let directory = private_directory()?;
        let path = directory.path().join("plan");
        let mut flags = self.line.to_plan();
        if operation == Operation::Destroy && !self.line.has("destroy") {
            flags.insert(0, "-destroy".into());
        }
        let words = self.plan_arguments(&path, &flags);
        let mut command = self.command(&words);
        // Those of this subcommand are among the flags.
        without_added(&mut command, "plan");
        let began = Instant::now();
        let status = wait(command).await?;
        let is_planned = is_planned(status);
        if !is_planned && is_approved {
            return Ok(Finished {
                status,
                summary: Some(Summary {
                    tofu: self.program.to_string_lossy().ends_with("tofu"),
                    operation: Some(operation),
                    ending: Ending::Failed,
                    duration: Some(began.elapsed()),
                    ..Summary::default()
                }),
                fingerprint: None,
            });
        }
        if !is_planned {
            note(if status.success() {
                "no changes, so nothing was recorded"
            } else {
                "the plan failed, so nothing was recorded"
            });
            return Ok(Finished::unrecorded(status));
        }
        // A signal that arrives here would reach no process of Terraform.
        let reading = async { Ok(self.read_plan(path.as_os_str()).await) };
        let plan = until_interrupted(reading).await?.ok_or_else(|| {
            Failure::new(Exit::Other, "the plan cannot be read; nothing was changed")
        })?;
        let is_no_op = plan.summary().is_no_op() && !self.line.has("refresh-only");
        if !is_no_op && !is_approved && !approved(operation).await? {
            return Err(Failure::new(
                Exit::Other,
                "not approved; nothing was changed or recorded",
            ));
        }
        let mut words = self.with("-json", &self.line.to_apply());
        if let Some(command) = words.iter_mut().find(|word| *word == "destroy") {
            *command = "apply".into();
        }
        words.push(path.into());
        let mut command = self.command(&words);
        without_added(&mut command, "apply");
        follow_command(command, operation, print_on_terminal).await
    }

    /// Reads a saved plan with `terraform show`; none if that fails.
    async fn read_plan(&self, plan: &OsStr) -> Option<Plan> {
        let mut words = self.line.global.clone();
        words.extend(["show".into(), "-json".into(), plan.to_owned()]);
        let mut command = self.command(&words);
        without_added(&mut command, "show");
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
        print: fn(&[u8]),
    ) -> Outcome<Finished> {
        follow_command(self.command(&words), operation, print).await
    }

    /// Runs Terraform with the terminal.
    async fn run_unchanged(&self, words: &[OsString]) -> Outcome<ExitStatus> {
        wait(self.command(words)).await
    }

    fn command(&self, words: &[OsString]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words);
        command
    }

    /// Returns the whole command line with other arguments after the subcommand.
    fn words(&self, rest: &[OsString]) -> Vec<OsString> {
        let mut words = self.line.global.clone();
        if !self.line.command.is_empty() {
            words.push(self.line.command.clone().into());
        }
        words.extend_from_slice(rest);
        words
    }

    fn with(&self, flag: &str, rest: &[OsString]) -> Vec<OsString> {
        let mut all = vec![flag.into()];
        all.extend_from_slice(rest);
        self.words(&all)
    }

    fn plan_arguments(&self, path: &Path, rest: &[OsString]) -> Vec<OsString> {
        let mut out = OsString::from("-out=");
        out.push(path);
        let mut words = self.line.global.clone();
        words.extend(["plan".into(), out]);
        words.extend_from_slice(rest);
        words
    }
}

/// Returns the program that `CHLOG_TERRAFORM` names, or else the one in the
/// search path.
fn program() -> Option<OsString> {
    if let Some(named) = std::env::var_os("CHLOG_TERRAFORM").filter(|name| !name.is_empty()) {
        return Some(named);
    }
    let path = std::env::var_os("PATH")?;
    let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let has = |name: &str| {
        let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
        directories
            .iter()
            .any(|directory| directory.join(&name).is_file())
    };
    ["terraform", "tofu"]
        .into_iter()
        .find(|name| has(name))
        .map(Into::into)
}

/// Returns whether `plan` succeeded: with -detailed-exitcode, 2 means that there are changes.
fn is_planned(status: ExitStatus) -> bool {
    matches!(supervise::code(status), 0 | 2)
}

/// Creates a private directory: a plan holds every value.
fn private_directory() -> Outcome<TempDir> {
    tempfile::Builder::new()
        .prefix("chlog-")
        .tempdir()
        .map_err(|error| Failure::new(Exit::Other, format!("cannot create a directory: {error}")))
}

/// Prompts as Terraform does.
async fn approved(operation: Operation) -> Outcome<bool> {
    let question = if operation == Operation::Destroy {
        "Do you really want to destroy all resources?"
    } else {
        "Do you want to perform these actions?"
    };
    note("(temporary plan file, deleted afterwards)");
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
    let answer = until_interrupted(answer).await?;
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

/// Runs a command, prints its events and summarizes them.
async fn follow_command(
    mut command: Command,
    operation: Operation,
    print: fn(&[u8]),
) -> Outcome<Finished> {
    let program = command.get_program().display().to_string();
    command.stdout(Stdio::piped());
    let finished = async {
        let mut running = supervise::start(command)?;
        let events = match running.stdout.take() {
            Some(stdout) => {
                let follow = move || follow(BufReader::new(stdout), print);
                tokio::task::spawn_blocking(follow).await?
            }
            None => Events::default(),
        };
        io::Result::Ok((running.wait().await?, events))
    };
    let (status, events) = finished.await.map_err(|error| not_run(&program, &error))?;
    if !events.any() && !status.success() {
        // Terraform failed before its first event.
        return Ok(Finished::unrecorded(status));
    }
    let summary = events.finish(RunFacts {
        operation: Some(operation),
        success: Some(match operation {
            Operation::Plan => is_planned(status),
            _ => status.success(),
        }),
    });
    Ok(Finished {
        status,
        summary: Some(summary),
        fingerprint: None,
    })
}

fn not_run(program: &str, error: &io::Error) -> Failure {
    Failure::new(Exit::Other, format!("cannot run {program}: {error}"))
}
