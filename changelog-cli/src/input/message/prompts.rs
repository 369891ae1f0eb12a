//! A message from prompts on the terminal.
//!
//! Text is read with bracketed paste: pasted lines are one input, of which the
//! first line is the title and the rest belongs to the description. A terminal
//! without bracketed paste passes each pasted line as an input of its own, faster
//! than a user types.

use std::time::{Duration, Instant};

use changelog_core::{Input, NewChange, RiskLevel, Status};
use inquire::{InquireError, Select};
use rustyline::config::Behavior;
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{Config, Editor};

use super::Message;
use super::saved::SavedText;
use crate::base::failure::{Exit, Failure, Outcome, note};
use crate::base::time;

/// An empty line that follows the last one sooner than this was pasted and does
/// not end the description.
const MIN_TYPING_TIME: Duration = Duration::from_millis(50);

type Prompt = Editor<(), MemHistory>;

/// Prompts for the title and for what is not known yet.
pub(crate) fn ask(
    risk: Option<&RiskLevel>,
    status: Option<&Status>,
    default_status: &Status,
    description: Option<&str>,
) -> Outcome<(Message, SavedText)> {
    let mut prompt = prompt().map_err(|error| readline_failure(&error))?;
    note("enter the title; further pasted lines become the description");
    let (title, pasted) = title(&mut prompt)?;
    let mut parts: Vec<String> = description.map(str::to_owned).into_iter().collect();
    parts.extend(pasted);
    // From now on the typed text is saved.
    let saved = SavedText::new(&text(&title, &parts))?;
    if parts.is_empty() {
        note("enter the description and end it with an empty line; press Enter for none");
        parts.extend(lines(&mut prompt)?);
        saved.write(&text(&title, &parts))?;
    }
    let risk = match risk {
        Some(_) => None,
        None => Some(
            Select::new("Risk:", RiskLevel::ALL.to_vec())
                .prompt()
                .map_err(prompt_failure)?,
        ),
    };
    let status = if status.is_none() {
        let cursor = Status::ALL.iter().position(|one| one == default_status);
        let select = Select::new("Status:", Status::ALL.to_vec())
            .with_starting_cursor(cursor.unwrap_or_default());
        Some(select.prompt().map_err(prompt_failure)?)
    } else {
        None
    };
    let message = Message {
        title,
        description: (!parts.is_empty()).then(|| parts.join("\n\n")),
        risk,
        status,
    };
    Ok((message, saved))
}

fn prompt() -> Result<Prompt, ReadlineError> {
    let config = Config::builder()
        // Standard output is for the result.
        .behavior(Behavior::PreferTerm)
        .bracketed_paste(true)
        .build();
    let history = MemHistory::with_config(&config);
    Editor::with_history(config, history)
}

/// Prompts until the title is valid. Also returns the text that was pasted after
/// the title.
fn title(prompt: &mut Prompt) -> Outcome<(String, Option<String>)> {
    let mut initial = String::new();
    let mut rest: Option<String> = None;
    loop {
        let answer = prompt.readline_with_initial("Title: ", (&initial, ""));
        let message = Message::parse(&answer.map_err(|error| readline_failure(&error))?);
        if let Some(more) = message.description {
            rest = Some(match rest {
                Some(rest) => format!("{rest}\n{more}"),
                None => more,
            });
        }
        match title_problem(&message.title) {
            None => return Ok((message.title, rest)),
            Some(problem) => note(&format!("title: {problem}")),
        }
        initial = message.title;
    }
}

/// Prompts for lines until one is empty; none if the first one is.
fn lines(prompt: &mut Prompt) -> Outcome<Option<String>> {
    let mut all: Vec<String> = Vec::new();
    let mut label = "Description: ";
    loop {
        let asked = Instant::now();
        let line = match prompt.readline(label) {
            Ok(line) => line,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(readline_failure(&error)),
        };
        if line.trim().is_empty() && (all.is_empty() || asked.elapsed() > MIN_TYPING_TIME) {
            break;
        }
        all.push(line);
        label = "";
    }
    let text = all.join("\n").trim().to_owned();
    Ok((!text.is_empty()).then_some(text))
}

/// Returns the text as `chlog log -F` reads it.
fn text(title: &str, parts: &[String]) -> String {
    format!("{title}\n\n{}\n", parts.join("\n\n"))
}

/// Returns why the server would reject a title.
fn title_problem(title: &str) -> Option<String> {
    let change = NewChange {
        title: title.to_owned(),
        ..NewChange::default()
    };
    let invalid = change.checked(time::now()).err()?;
    invalid
        .violations
        .first()
        .map(|broken| broken.message.clone())
}

/// Returns the failure for input that was not read.
fn readline_failure(error: &ReadlineError) -> Failure {
    match error {
        ReadlineError::Interrupted | ReadlineError::Eof => {
            Failure::cancelled("cancelled; nothing was done")
        }
        error => Failure::new(Exit::Other, format!("cannot prompt: {error}")),
    }
}

/// Returns the failure for a prompt without an answer.
pub(crate) fn prompt_failure(error: InquireError) -> Failure {
    match error {
        InquireError::OperationCanceled | InquireError::OperationInterrupted => {
            Failure::cancelled("cancelled; nothing was done")
        }
        error => Failure::new(Exit::Other, format!("cannot prompt: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_checked_as_the_server_does() {
        assert_eq!(title_problem("abc"), None);
        assert!(title_problem("ab").is_some_and(|text| text.contains("3 to 300")));
    }
}
