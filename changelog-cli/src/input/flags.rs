//! The flags that several commands share, and the parsers of their values.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use changelog_core::{Link, RiskLevel, Status};

use super::complete;
use crate::base::time::{self, TimeArg};
use crate::environment::defaults::Defaults;

/// The flags for the fields of a change.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "The change")]
pub(crate) struct ChangeFields {
    /// Risk level
    #[arg(long, value_name = "RISK", ignore_case = true, value_parser = risk())]
    pub(crate) risk: Option<RiskLevel>,
    /// Status
    #[arg(long, value_name = "STATUS", ignore_case = true, value_parser = status())]
    pub(crate) status: Option<Status>,
    /// Service that is changed; an empty name means none
    #[arg(long, value_name = "NAME|ID", add = complete::services())]
    pub(crate) service: Option<String>,
    /// Host that is changed; an empty name means none
    #[arg(long, value_name = "HOSTNAME|ID", add = complete::hosts())]
    pub(crate) host: Option<String>,
    /// Tag; repeatable, or comma-separated
    #[arg(long = "tag", value_name = "TAG", value_delimiter = ',')]
    pub(crate) tags: Option<Vec<String>>,
    /// Description (Markdown)
    #[arg(short = 'm', long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Expected impact
    #[arg(long, value_name = "TEXT")]
    pub(crate) impact: Option<String>,
    /// Link, such as pipeline=https://…; repeatable
    #[arg(long = "link", value_name = "LABEL=URL", value_parser = link)]
    pub(crate) links: Option<Vec<Link>>,
    /// Scheduled time: RFC 3339 or a date
    #[arg(long, value_name = "TIME", value_parser = time::parse_scheduled)]
    pub(crate) scheduled_for: Option<TimeArg>,
    /// Create the service and host if they do not exist
    #[arg(long, help_heading = "Behaviour")]
    pub(crate) create_missing: bool,
}

impl ChangeFields {
    /// Fills the fields that are not set from the settings.
    pub(crate) fn or_defaults(self, defaults: &Defaults) -> Self {
        Self {
            risk: self.risk.or_else(|| defaults.risk.clone()),
            service: self.service.or_else(|| defaults.service.clone()),
            host: self.host.or_else(|| defaults.host.clone()),
            tags: self.tags.or_else(|| defaults.tags.clone()),
            ..self
        }
    }
}

/// Parses a risk level, in any case.
pub(crate) fn risk() -> impl TypedValueParser<Value = RiskLevel> {
    PossibleValuesParser::new(RiskLevel::WORDS).try_map(|word| word.to_lowercase().parse())
}

/// Parses a status, in any case, with an underscore or a hyphen.
pub(crate) fn status() -> impl TypedValueParser<Value = Status> {
    let words = Status::WORDS.iter().map(|word| {
        PossibleValue::new(*word).aliases(match *word {
            "in_progress" => Some("in-progress"),
            "rolled_back" => Some("rolled-back"),
            _ => None,
        })
    });
    PossibleValuesParser::new(words).try_map(|word| word.to_lowercase().replace('-', "_").parse())
}

/// Parses `LABEL=URL`.
pub(crate) fn link(text: &str) -> Result<Link, String> {
    match text.split_once('=') {
        Some((label, url)) if !label.trim().is_empty() && !url.trim().is_empty() => Ok(Link {
            label: label.to_owned(),
            url: url.to_owned(),
        }),
        _ => Err("must be LABEL=URL, such as pipeline=https://ci.example.com/runs/42".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        fields: ChangeFields,
    }

    fn parse(line: &str) -> Result<ChangeFields, clap::Error> {
        Line::try_parse_from(line.split_whitespace()).map(|line| line.fields)
    }

    #[test]
    fn words_are_parsed_in_any_case_and_with_hyphens() {
        let fields = parse("log --risk HIGH --status In-Progress --tag a,b --tag c").unwrap();
        assert_eq!(fields.risk, Some(RiskLevel::High));
        assert_eq!(fields.status, Some(Status::InProgress));
        assert_eq!(fields.tags.unwrap(), ["a", "b", "c"]);
        assert!(parse("log --risk extreme").is_err());
    }

    #[test]
    fn a_link_is_a_label_and_a_url() {
        let link = link("run=https://ci.example.com/?a=b").unwrap();
        assert_eq!(
            (link.label.as_str(), link.url.as_str()),
            ("run", "https://ci.example.com/?a=b")
        );
        for bad in ["", "run", "=https://x", "run="] {
            assert!(super::link(bad).is_err(), "{bad}");
        }
    }
}
