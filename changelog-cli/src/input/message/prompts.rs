//! The questions to the person at the terminal.
//!
//! Text is read with bracketed paste, so that what is pasted with several lines
//! is one answer: the first line is the title, and the others belong to the
//! description. Where a terminal cannot tell pasted text from typed, each line
//! comes as an answer of its own, faster than anybody types.

use std::time::{Duration, Instant};

use changelog_core::{Input, NewChange, RiskLevel, Status};
use inquire::{InquireError, Select};
use rustyline::config::Behavior;
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{Config, Editor};

use super::{Typed, Words};
use crate::base::failure::{Exit, Failure, Outcome, note};
use crate::base::time;

/// An empty line that comes sooner than this after the line before it was pasted
/// and does not end the description.
const TYPING: Duration = Duration::from_millis(50);

type Prompt = Editor<(), MemHistory>;

/// Asks the person at the terminal: the title, and what else is not known yet.
pub(crate) fn from_person(
    risk: Option<&RiskLevel>,
    status: Option<&Status>,
    description: Option<&str>,
) -> Outcome<(Words, Typed)> {
    let mut prompt = prompt().map_err(|error| unread(&error))?;
    note("what is done, in a line; pasted lines after the first become the description");
    let (title, pasted) = title(&mut prompt)?;
    let mut parts: Vec<String> = description.map(str::to_owned).into_iter().collect();
    parts.extend(pasted);
    // From here on nothing that was typed is lost.
    let typed = Typed::new(&text(&title, &parts))?;
    if parts.is_empty() {
        note("the description, ended by an empty line; enter for none");
        parts.extend(lines(&mut prompt)?);
        typed.write(&text(&title, &parts))?;
    }
    let risk = match risk {
        Some(_) => None,
        None => Some(
            Select::new("Risk:", RiskLevel::ALL.to_vec())
                .prompt()
                .map_err(unanswered)?,
        ),
    };
    let status = match status {
        Some(_) => None,
        None => Some(
            Select::new("Status:", Status::ALL.to_vec())
                .prompt()
                .map_err(unanswered)?,
        ),
    };
    let words = Words {
        title,
        description: (!parts.is_empty()).then(|| parts.join("\n\n")),
        risk,
        status,
    };
    Ok((words, typed))
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

/// Asks for the title until there is one that the service takes. Returns what
/// was pasted after its line as well.
fn title(prompt: &mut Prompt) -> Outcome<(String, Option<String>)> {
    let mut given = String::new();
    let mut rest: Option<String> = None;
    loop {
        let answer = prompt.readline_with_initial("Title: ", (&given, ""));
        let words = Words::split(&answer.map_err(|error| unread(&error))?);
        if let Some(more) = words.description {
            rest = Some(match rest {
                Some(rest) => format!("{rest}\n{more}"),
                None => more,
            });
        }
        match title_problem(&words.title) {
            None => return Ok((words.title, rest)),
            Some(problem) => note(&format!("title: {problem}")),
        }
        given = words.title;
    }
}

/// Asks for lines until one is left empty; none if the first is.
fn lines(prompt: &mut Prompt) -> Outcome<Option<String>> {
    let mut all: Vec<String> = Vec::new();
    let mut question = "Description: ";
    loop {
        let asked = Instant::now();
        let line = match prompt.readline(question) {
            Ok(line) => line,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(unread(&error)),
        };
        if line.trim().is_empty() && (all.is_empty() || asked.elapsed() > TYPING) {
            break;
        }
        all.push(line);
        question = "";
    }
    let text = all.join("\n").trim().to_owned();
    Ok((!text.is_empty()).then_some(text))
}

/// Writes what is known down as `chlog log -F` reads it.
fn text(title: &str, parts: &[String]) -> String {
    format!("{title}\n\n{}\n", parts.join("\n\n"))
}

/// Says what is wrong with a title, in the words of the service.
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

/// Says why a text was not read.
fn unread(error: &ReadlineError) -> Failure {
    match error {
        ReadlineError::Interrupted | ReadlineError::Eof => {
            Failure::cancelled("cancelled; nothing was done")
        }
        error => Failure::new(Exit::Other, format!("cannot ask: {error}")),
    }
}

/// Says why a question has no answer.
pub(crate) fn unanswered(error: InquireError) -> Failure {
    match error {
        InquireError::OperationCanceled | InquireError::OperationInterrupted => {
            Failure::cancelled("cancelled; nothing was done")
        }
        error => Failure::new(Exit::Other, format!("cannot ask: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_judged_as_the_service_does() {
        assert_eq!(title_problem("abc"), None);
        assert!(title_problem("ab").is_some_and(|text| text.contains("3 to 300")));
    }
}
