//! The flags that several commands share, and the parsers of their values.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use changelog_core::change::fields::{FIELDS, FieldKind, Optional, ShortText};
use changelog_core::limits::{MAX_TITLE_CHARS, MIN_TITLE_CHARS};
use changelog_core::{
    Agent, AgentClient, ChangePatch, Environment, IncidentStatus, Invalid, Link, MadeBy, NewChange,
    Outcome, RiskLevel, Severity, SourceKind, Status,
};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::complete;
use crate::base::time::{self, TimeArg};
use crate::environment::defaults::{Defaults, with_tags};

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
    /// Service that is changed; repeatable, or comma-separated; an empty name means none
    #[arg(
        long = "service",
        value_name = "NAME|ID",
        value_delimiter = ',',
        add = complete::services()
    )]
    pub(crate) services: Option<Vec<String>>,
    /// Host that is changed; an empty name means none
    #[arg(long, value_name = "HOSTNAME|ID", add = complete::hosts())]
    pub(crate) host: Option<String>,
    /// Environment that is changed; by default that of the CI run, or else of the host
    #[arg(
        long,
        visible_alias = "env",
        value_name = "ENVIRONMENT",
        ignore_case = true,
        value_parser = environment()
    )]
    pub(crate) environment: Option<Environment>,
    /// Tag; repeatable, or comma-separated
    #[arg(long = "tag", value_name = "TAG", value_delimiter = ',')]
    pub(crate) tags: Option<Vec<String>>,
    /// Description (Markdown)
    #[arg(short = 'm', long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    #[command(flatten)]
    pub(crate) texts: TextFlags,
    /// Link, such as pipeline=https://…; repeatable
    #[arg(long = "link", value_name = "LABEL=URL")]
    pub(crate) links: Option<Vec<Link>>,
    /// Scheduled time, such as "tomorrow 04:00", 2026-12-01 (midnight) or "in 2h"
    #[arg(long, value_name = "TIME", value_parser = time::parse_scheduled)]
    pub(crate) scheduled_for: Option<TimeArg>,
    /// Automation that acts, such as renovate:autonomous; the mode is interactive or
    /// autonomous
    #[arg(long, value_name = "NAME[:MODE]")]
    pub(crate) agent: Option<Agent>,
    /// Create the services and the host if they do not exist
    #[arg(long, help_heading = "Behavior")]
    pub(crate) create_missing: bool,
}

impl ChangeFields {
    /// Fills the fields that are not set from the settings, and adds their tags.
    pub(crate) fn or_defaults(self, defaults: &Defaults) -> Self {
        Self {
            risk: self.risk.or_else(|| defaults.risk.clone()),
            services: self
                .services
                .or_else(|| Some(vec![defaults.service.clone()?])),
            host: self.host.or_else(|| defaults.host.clone()),
            tags: with_tags(self.tags, defaults.tags.as_deref()),
            create_missing: self.create_missing || defaults.create_missing.unwrap_or_default(),
            ..self
        }
    }
}

/// The flags for when a change was made, and how it ended. Commands that observe it do
/// not have them.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "The change")]
pub(crate) struct ProgressFlags {
    /// Time of the start, such as 2h, 08:30 or "yesterday 08:30"
    #[arg(long, value_name = "TIME", value_parser = time::parse, allow_hyphen_values = true)]
    pub(crate) started_at: Option<TimeArg>,
    /// Time of the end, such as 2h, 08:30 or "yesterday 08:30"
    #[arg(long, value_name = "TIME", value_parser = time::parse, allow_hyphen_values = true)]
    pub(crate) ended_at: Option<TimeArg>,
    /// How it ended, if the status does not say it
    #[arg(long, value_name = "OUTCOME", ignore_case = true, value_parser = outcome())]
    pub(crate) outcome: Option<Outcome>,
}

/// Names the flags instead of the fields of the API in broken rules.
pub(crate) fn name_flags(mut invalid: Invalid, tags: &[String], links: &[Link]) -> Invalid {
    for violation in &mut invalid.violations {
        let mut parts = violation.field().split('/');
        let field = parts.next().unwrap_or_default();
        let index = parts.next().and_then(|index| index.parse::<usize>().ok());
        let flag = match (field, index) {
            // Those may be from a file, an editor or prompts.
            ("" | "title" | "description", _) => continue,
            ("tags", Some(index)) => match tags.get(index) {
                Some(tag) => format!("--tag {tag:?}"),
                None => continue,
            },
            ("links", Some(index)) => match links.get(index) {
                Some(link) => format!("--link {:?}", format!("{}={}", link.label, link.url)),
                None => continue,
            },
            ("tags", None) => "--tag".to_owned(),
            ("links", None) => "--link".to_owned(),
            ("risk_level", _) => "--risk".to_owned(),
            (field, _) => format!("--{}", field.replace('_', "-")),
        };
        violation.pointer = flag;
    }
    invalid
}

/// Returns the help text of a title, with its limits; `rest` follows them.
pub(crate) fn title_help(rest: &str) -> String {
    format!("Title: {MIN_TITLE_CHARS} to {MAX_TITLE_CHARS} characters{rest}")
}

/// Returns a parser of whole numbers in a range; an error states the range.
pub(crate) fn whole_number(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| match (range.start(), range.end()) {
            (start, &u64::MAX) => format!("must be a whole number of at least {start}"),
            (start, end) => format!("must be a whole number from {start} to {end}"),
        })
    }
}

/// Parses a risk level, in any case.
pub(crate) fn risk() -> impl TypedValueParser<Value = RiskLevel> {
    PossibleValuesParser::new(RiskLevel::WORDS).try_map(|word| word.to_lowercase().parse())
}

/// Parses an environment, in any case.
pub(crate) fn environment() -> impl TypedValueParser<Value = Environment> {
    PossibleValuesParser::new(Environment::WORDS).try_map(|word| word.to_lowercase().parse())
}

/// Parses how bad an incident is, in any case.
pub(crate) fn severity() -> impl TypedValueParser<Value = Severity> {
    PossibleValuesParser::new(Severity::WORDS).try_map(|word| word.to_lowercase().parse())
}

/// Parses the status of an incident, in any case.
pub(crate) fn incident_status() -> impl TypedValueParser<Value = IncidentStatus> {
    PossibleValuesParser::new(IncidentStatus::WORDS).try_map(|word| word.to_lowercase().parse())
}

/// Parses what made a change, in any case.
pub(crate) fn made_by() -> impl TypedValueParser<Value = MadeBy> {
    PossibleValuesParser::new(MadeBy::WORDS).try_map(|word| word.to_lowercase().parse())
}

/// Parses a client of the Model Context Protocol, in any case.
pub(crate) fn agent_client() -> impl TypedValueParser<Value = AgentClient> {
    PossibleValuesParser::new(AgentClient::WORDS).try_map(|word| word.to_lowercase().parse())
}

/// Parses a kind of source, in any case.
pub(crate) fn source_kind() -> impl TypedValueParser<Value = SourceKind> {
    let kinds = SourceKind::ALL
        .iter()
        .filter(|kind| kind.tells_of_changes());
    let words: Vec<&'static str> = kinds.map(SourceKind::as_str).collect();
    PossibleValuesParser::new(words).try_map(|word| word.to_lowercase().parse())
}

/// Parses an outcome, in any case.
fn outcome() -> impl TypedValueParser<Value = Outcome> {
    PossibleValuesParser::new(Outcome::WORDS).try_map(|word| word.to_lowercase().parse())
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

/// Returns the optional texts of a change except the description.
fn other_texts() -> impl Iterator<Item = (&'static str, Optional<String>)> {
    FIELDS.iter().filter_map(|field| match field.kind {
        FieldKind::LongText(text) | FieldKind::ShortText(ShortText { field: text, .. })
            if field.name != "description" =>
        {
            Some((field.name, text))
        }
        _ => None,
    })
}

/// One flag for each optional text of a change, such as `--impact`. The description
/// is not among them, because it can come from other sources too.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextFlags(BTreeMap<&'static str, String>);

impl TextFlags {
    /// Sets the texts of a new change.
    pub(crate) fn fill(&self, change: &mut NewChange) {
        for (name, text) in other_texts() {
            *(text.of_new_mut)(change) = self.0.get(name).cloned();
        }
    }

    /// Sets the given texts in an update.
    pub(crate) fn apply(&self, patch: &mut ChangePatch) {
        for (name, text) in other_texts() {
            if let Some(value) = self.0.get(name) {
                *(text.of_patch_mut)(patch) = Some(Some(value.clone()));
            }
        }
    }

    /// Replaces each text by what `map` returns for its flag, the text, and the change that
    /// has only that text.
    pub(crate) fn filter_map(
        self,
        mut map: impl FnMut(&str, String, &dyn Fn(String) -> NewChange) -> Option<String>,
    ) -> Self {
        let mapped = self.0.into_iter().filter_map(|(name, text)| {
            let change = |text: String| {
                let mut change = NewChange::default();
                Self(BTreeMap::from([(name, text)])).fill(&mut change);
                change
            };
            let flag = format!("--{}", name.replace('_', "-"));
            Some((name, map(&flag, text, &change)?))
        });
        Self(mapped.collect())
    }
}

impl Args for TextFlags {
    fn augment_args(command: Command) -> Command {
        other_texts().fold(command, |command, (name, text)| {
            // clap takes static strings only.
            let flag: &'static str = name.replace('_', "-").leak();
            let arg = Arg::new(name).long(flag).value_name("TEXT").help(text.help);
            command.arg(arg)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for TextFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = other_texts().filter_map(|(name, _)| {
            let text = matches.get_one::<String>(name)?;
            Some((name, text.clone()))
        });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.extend(Self::from_arg_matches(matches)?.0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use changelog_core::ViolationCode;
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
    fn a_number_outside_its_range_is_refused_with_the_range() {
        let page = whole_number(1..=u64::MAX);
        assert_eq!(page("7"), Ok(7));
        for text in ["0", "-1", "x", ""] {
            let message = "must be a whole number of at least 1";
            assert_eq!(page(text), Err(message.to_owned()), "{text}");
        }
        let limit = whole_number(1..=100);
        assert_eq!(limit("100"), Ok(100));
        let message = "must be a whole number from 1 to 100";
        assert_eq!(limit("101"), Err(message.to_owned()));
    }

    #[test]
    fn broken_rules_name_flags() {
        let links = [Link {
            label: "foo".to_owned(),
            url: "bar".to_owned(),
        }];
        let tags = ["a".to_owned(), String::new()];
        for (pointer, expected) in [
            ("/tags/1", "--tag \"\": is wrong"),
            ("/tags/7", "tags/7: is wrong"),
            ("/links/0/url", "--link \"foo=bar\": is wrong"),
            ("/risk_level", "--risk: is wrong"),
            ("/scheduled_for", "--scheduled-for: is wrong"),
            ("/agent/name", "--agent: is wrong"),
            ("/title", "title: is wrong"),
            ("", "the body is wrong"),
        ] {
            let invalid = Invalid::one(pointer, ViolationCode::InvalidFormat, "is wrong");
            let named = name_flags(invalid, &tags, &links);
            assert_eq!(named.violations[0].to_string(), expected);
        }
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
    fn every_other_text_has_a_flag() {
        let fields = parse("log --impact none --on-behalf-of ada --commit 1a2b3c4").unwrap();
        let mut change = NewChange::default();
        fields.texts.fill(&mut change);
        assert_eq!(change.impact.as_deref(), Some("none"));
        assert_eq!(change.on_behalf_of.as_deref(), Some("ada"));
        assert_eq!(change.commit.as_deref(), Some("1a2b3c4"));
    }
}
