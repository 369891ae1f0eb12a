//! `chlog man`: writes manual pages.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, roman};

use crate::base::failure::{Exit, Failure, Outcome, note};
use crate::base::text::plural;
use crate::output::Output;

/// The section of the manual for programs.
const SECTION: &str = "1";

/// Prints a manual page.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Command, such as log or service create
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write a page for each command into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    out: Option<PathBuf>,
}

/// Prints the manual page of the program or of one of its commands, or writes all.
pub(crate) fn run(output: &mut Output, program: Command, args: &ManArgs) -> Outcome {
    let mut program = program.disable_help_subcommand(true);
    // Sets the full names of the commands and the global options.
    program.build();
    let common = help_sections(&program);
    if let Some(directory) = &args.out {
        let unwritable = |error: std::io::Error| {
            Failure::new(Exit::Other, format!("{}: {error}", directory.display()))
        };
        fs::create_dir_all(directory).map_err(unwritable)?;
        let mut pages = Vec::new();
        collect(&program, &common, &mut pages)?;
        for (name, page) in &pages {
            let file = directory.join(format!("{name}.{SECTION}"));
            fs::write(file, page).map_err(unwritable)?;
        }
        note(&format!(
            "wrote {} to {}",
            plural(pages.len() as u64, "page"),
            directory.display()
        ));
        return Ok(());
    }
    let mut command = &program;
    for name in &args.command {
        command = command
            .find_subcommand(name)
            .ok_or_else(|| Failure::usage(format!("there is no command {name:?}")))?;
    }
    output.bytes(&page(command, &common)?)
}

/// Renders the pages of a command and all its subcommands, each with its name.
fn collect(
    command: &Command,
    common: &[HelpSection],
    pages: &mut Vec<(String, Vec<u8>)>,
) -> Outcome {
    pages.push((name(command), page(command, common)?));
    for subcommand in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        collect(subcommand, common, pages)?;
    }
    Ok(())
}

/// Returns the name of a page, such as `chlog-service-create`.
fn name(command: &Command) -> String {
    let name = command.get_display_name();
    name.unwrap_or(command.get_name()).to_owned()
}

/// A part of the text after the options, such as the examples.
struct HelpSection {
    /// The heading; empty for the text before the first one.
    heading: String,
    lines: Vec<String>,
}

/// Splits the text after the options at its headings.
fn help_sections(command: &Command) -> Vec<HelpSection> {
    let text = command.get_after_help().map(ToString::to_string);
    let mut sections = vec![HelpSection {
        heading: String::new(),
        lines: Vec::new(),
    }];
    for line in text.unwrap_or_default().lines() {
        let heading = line.strip_suffix(':').filter(|_| !line.starts_with(' '));
        if let Some(heading) = heading.filter(|heading| !heading.contains(['.', ','])) {
            sections.push(HelpSection {
                heading: heading.to_owned(),
                lines: Vec::new(),
            });
        } else if let Some(section) = sections.last_mut() {
            section.lines.push(line.to_owned());
        }
    }
    sections
}

/// Renders a page: what all commands share follows after what is special.
fn page(command: &Command, common: &[HelpSection]) -> Outcome<Vec<u8>> {
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Other, format!("cannot write the page: {error}"))
    };
    let mut command = command.clone();
    let usage = command.render_usage().to_string();
    let sections = help_sections(&command);
    let man = Man::new(command.clone().display_name(name(&command)))
        .section(SECTION)
        .manual("chlog manual");
    let mut page = Vec::new();
    man.render_title(&mut page).map_err(failed)?;
    // Commands are copied: not hyphenated, and the same width between all words.
    page.extend_from_slice(b".nh\n.ad l\n");
    man.render_name_section(&mut page).map_err(failed)?;
    let mut synopsis = Roff::default();
    synopsis.control("SH", ["SYNOPSIS"]);
    synopsis.text([roman(usage.trim_start_matches("Usage:").trim())]);
    synopsis.to_writer(&mut page).map_err(failed)?;
    man.render_description_section(&mut page).map_err(failed)?;
    if let Some(text) = sections.iter().find(|section| section.heading.is_empty()) {
        write_lines(&text.lines)
            .to_writer(&mut page)
            .map_err(failed)?;
    }
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(&mut page).map_err(failed)?;
    }
    if command.has_subcommands() {
        let mut commands = Roff::default();
        commands.control("SH", ["COMMANDS"]);
        for subcommand in command.get_subcommands().filter(|one| !one.is_hide_set()) {
            let about = subcommand.get_about().map(ToString::to_string);
            commands.control("TP", []);
            commands.text([clap_mangen::roff::bold(subcommand.get_name())]);
            commands.text([roman(about.unwrap_or_default())]);
        }
        commands.to_writer(&mut page).map_err(failed)?;
    }
    for (heading, title) in [
        ("Examples", "EXAMPLES"),
        ("Changes (ID)", "CHANGES"),
        ("Times (TIME)", "TIMES"),
        ("Environment", "ENVIRONMENT"),
        ("Files", "FILES"),
        ("Exit codes", "EXIT STATUS"),
    ] {
        let is = |section: &&HelpSection| section.heading == heading;
        if let Some(section) = sections.iter().find(is).or(common.iter().find(is)) {
            let mut roff = Roff::default();
            roff.control("SH", [title]);
            roff.to_writer(&mut page).map_err(failed)?;
            write_lines(&section.lines)
                .to_writer(&mut page)
                .map_err(failed)?;
        }
    }
    Ok(page)
}

/// Writes indented lines as they are, and others as paragraphs.
fn write_lines(lines: &[String]) -> Roff {
    let mut roff = Roff::default();
    let mut is_literal = false;
    for line in lines {
        let literal = line.starts_with("  ");
        if literal != is_literal {
            roff.control(if literal { "nf" } else { "fi" }, []);
            is_literal = literal;
        }
        match line.trim() {
            "" => {
                roff.control("PP", []);
            }
            text => {
                let text: Inline = roman(text);
                roff.text([text]);
            }
        }
    }
    if is_literal {
        roff.control("fi", []);
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_sections_and_copyable_examples() {
        let mut program = crate::cli::command().disable_help_subcommand(true);
        program.build();
        let common = help_sections(&program);
        let mut pages = Vec::new();
        collect(&program, &common, &mut pages).unwrap();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for name in [
            "chlog",
            "chlog-log",
            "chlog-service-create",
            "chlog-spool-flush",
        ] {
            assert!(names.contains(&name), "{names:?}");
        }
        for (name, page) in &pages {
            let page = String::from_utf8(page.clone()).unwrap();
            for section in ["NAME", "SYNOPSIS", "EXAMPLES", "ENVIRONMENT", "FILES"] {
                assert!(page.contains(&format!(".SH {section}\n")), "{name}: {page}");
            }
            assert!(page.contains(".SH \"EXIT STATUS\"\n"), "{name}: {page}");
            assert!(page.contains("\n.nh\n"), "{name}");
        }
    }
}
