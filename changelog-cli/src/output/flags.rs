//! The flags that choose how results are printed.

use clap::Args;

use changelog_core::text::closest;

use super::format::Format;
use crate::base::failure::{Failure, Outcome};

/// How results are printed.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output options")]
pub(crate) struct OutputFlags {
    /// Output format [default: table]
    #[arg(short = 'o', long, global = true, value_enum, value_name = "FORMAT")]
    pub(super) format: Option<Format>,
    /// Same as --format json; --json=id,title prints only these fields
    ///
    /// The fields follow after `=`, separated by commas; `--json id` would be a word of the
    /// command. The document keeps its shape: a list has its records in `data`.
    #[arg(
        long,
        global = true,
        value_name = "FIELDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = fields,
        conflicts_with = "format",
    )]
    json: Option<Names>,
    /// Print the results of a jq expression on the JSON; strings without quotes
    ///
    /// With --format ndjson, and in `chlog watch`, each record is a document of its own.
    #[arg(long, global = true, value_name = "EXPRESSION", hide_short_help = true)]
    pub(super) jq: Option<String>,
    /// Print the JSON through a Jinja template
    #[arg(
        long,
        global = true,
        value_name = "TEMPLATE",
        conflicts_with = "jq",
        hide_short_help = true
    )]
    pub(super) template: Option<String>,
    /// Columns of a table or of CSV, separated by commas
    ///
    /// A wrong name lists those of the command.
    #[arg(
        long,
        global = true,
        value_name = "COLUMNS",
        value_parser = columns,
        conflicts_with_all = ["json", "jq", "template"],
        hide_short_help = true
    )]
    columns: Option<Names>,
    /// Do not show long output in a pager (`CHLOG_PAGER`, `PAGER`, or else less)
    #[arg(long, global = true, hide_short_help = true)]
    pub(super) no_pager: bool,
}

impl OutputFlags {
    /// Returns the format that the user has chosen.
    pub(crate) fn chosen_format(&self) -> Option<Format> {
        let is_json = self.json.is_some();
        self.format.or(is_json.then_some(Format::Json))
    }

    /// Returns whether any flag chooses what is printed.
    pub(crate) fn is_set(&self) -> bool {
        self.chosen_format().is_some()
            || self.jq.is_some()
            || self.template.is_some()
            || self.columns.is_some()
    }

    /// Refuses columns that the table of the command does not have, before anything is
    /// sent.
    pub(crate) fn check_columns(&self, known: &[&str]) -> Outcome {
        check(&self.columns(), "column", known)
            .map_err(|unknown| Failure::usage(format!("--columns: {unknown}")))
    }

    /// Returns the fields to which records are reduced; none for all.
    pub(super) fn fields(&self) -> Vec<String> {
        self.json.clone().unwrap_or_default().0
    }

    /// Returns the chosen columns, in their order; none for the usual ones.
    pub(super) fn columns(&self) -> Vec<String> {
        self.columns.clone().unwrap_or_default().0
    }
}

/// Comma-separated names.
#[derive(Clone, Debug, Default)]
struct Names(Vec<String>);

fn names(text: &str) -> Vec<String> {
    let names = text.split(',').map(|name| name.trim().to_lowercase());
    names.filter(|name| !name.is_empty()).collect()
}

fn fields(text: &str) -> Result<Names, String> {
    let names = names(text);
    let known: Vec<&str> = FIELDS.split_whitespace().collect();
    check(&names, "field", &known)?;
    Ok(Names(names))
}

fn columns(text: &str) -> Result<Names, String> {
    let names = names(text).into_iter();
    let names: Vec<String> = names.map(|name| name.replace(['-', ' '], "_")).collect();
    if names.is_empty() {
        return Err("must name at least one column".to_owned());
    }
    Ok(Names(names))
}

/// Rejects an unknown name before anything is sent.
fn check(names: &[String], noun: &str, known: &[&str]) -> Result<(), String> {
    let is_unknown = |name: &&String| !known.contains(&name.as_str());
    match names.iter().find(is_unknown) {
        Some(name) => Err(unknown(noun, name, known)),
        None => Ok(()),
    }
}

/// Returns the message for an unknown name, with the closest known one.
pub(super) fn unknown(noun: &str, name: &str, known: &[&str]) -> String {
    let guess = closest(name, known.iter().copied());
    let guess = guess.map(|name| format!("; did you mean {name}?"));
    format!(
        "unknown {noun} {name}{}\nThe {noun}s are {}",
        guess.unwrap_or_default(),
        known.join(", ")
    )
}

/// The fields of all records and reports, for `--json=FIELDS`.
const FIELDS: &str = "\
    action agent already_there at by cause cause_change_id change changes checks color commit \
    committed_at created_at created_by db depends_on description ended_at entries environment error event first_suspects fqdn gaps \
    host_id host_ref hostname id impact imported ip_address kept_at key key_fingerprint key_source \
    key_state latency_ms links name occurred_at on_behalf_of organization organization_id os \
    outcome platform profile ranked_at reason reasons rejected rejected_file resolved_at risk_level \
    roles scheduled_for score service service_id service_ids services severity source started_at \
    state status suspects tags \
    title updated_at updated_by url url_source works";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::changes::tests::change;

    #[test]
    fn every_field_of_a_change_can_be_chosen() {
        let change = serde_json::to_value(change("Deploy")).unwrap();
        for field in change.as_object().unwrap().keys() {
            assert!(fields(field).is_ok(), "{field}");
        }
        assert!(FIELDS.split_whitespace().is_sorted());
    }

    #[test]
    fn an_unknown_name_is_rejected_with_the_known_ones() {
        let message = fields("id,titel").unwrap_err();
        assert!(
            message.starts_with("unknown field titel; did you mean title?\nThe fields are action,"),
            "{message}"
        );
        assert_eq!(columns("ID, depends on,").unwrap().0, ["id", "depends_on"]);
        assert!(columns("").is_err());
    }
}
