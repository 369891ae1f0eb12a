//! `changelog-server check`

use super::{Failure, note, print, print_json};
use crate::config::Common;
use crate::store::{Problem, check};

/// Checks the database; the command fails if something is wrong and was not repaired.
pub(super) async fn run(common: &Common, repair: bool) -> Result<(), Failure> {
    let quiet = common.json;
    let progress = move |text: &str| {
        if !quiet {
            note(text);
        }
    };
    let report = check(&common.database_url, repair, &progress).await?;
    if common.json {
        print_json(&report)?;
    } else {
        for problem in &report.problems {
            print(&describe(problem))?;
        }
        let (organizations, changes) = (report.organizations, report.changes);
        let verdict = match report.problems.len() {
            0 => "nothing is wrong".to_owned(),
            1 => "1 problem".to_owned(),
            problems => format!("{problems} problems"),
        };
        print(&format!(
            "checked {changes} changes of {organizations} organizations: {verdict}"
        ))?;
    }
    if report.is_sound() {
        return Ok(());
    }
    Err(Failure::Unsound {
        hint: if repair {
            "what is left cannot be rebuilt: restore a backup"
        } else {
            "`check --repair` corrects counts and search while no server runs"
        },
    })
}

fn describe(problem: &Problem) -> String {
    let Problem {
        check,
        problem,
        rows,
        examples,
        is_repaired,
    } = problem;
    let repaired = if *is_repaired { " (repaired)" } else { "" };
    let mut text = format!("{check}: {rows} {problem}{repaired}");
    for example in examples {
        text.push_str("\n  ");
        text.push_str(example);
    }
    text
}
