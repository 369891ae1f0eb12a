//! The filters of a list as words, each with the address of the list without it.

use changelog_core::Timestamp;
use changelog_core::query::Pairs;

use super::filters::SEVERAL;
use crate::dashboard::parts::form::Form;
use crate::dashboard::parts::format;
use crate::dashboard::parts::query_string::address;
use crate::dashboard::parts::time_ranges::{RANGE, TIME_RANGES};
use crate::dashboard::parts::zone::Zone;

/// One filter.
#[derive(Debug)]
pub(super) struct Chip {
    /// What is filtered; empty if the value says so.
    pub(super) field: &'static str,
    pub(super) value: String,
    /// The value as in the title of the page.
    pub(super) words: String,
    /// The list without this filter.
    pub(super) without: String,
}

/// Returns the filters of a query string. `form` has the names for its ids.
pub(super) fn chips(query: &str, form: &Form, zone: Zone) -> Vec<Chip> {
    let pairs: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    let mut chips = Vec::new();
    for (index, (name, value)) in pairs.iter().enumerate() {
        let words: Vec<&str> = if SEVERAL.contains(&name.as_str()) {
            value.split(',').collect()
        } else {
            vec![value]
        };
        for word in &words {
            let Some((field, value, words_of_title)) = describe(name, word, form, zone) else {
                continue;
            };
            let kept: Vec<&str> = words.iter().filter(|kept| *kept != word).copied().collect();
            chips.push(Chip {
                field,
                value: format::visible(&format::excerpt(&value)),
                words: format::visible(&format::excerpt(&words_of_title)),
                without: without(&pairs, index, &kept.join(",")),
            });
        }
    }
    chips
}

/// Returns the address of the list with another value of one parameter, or without it.
fn without(pairs: &[(String, String)], index: usize, value: &str) -> String {
    let mut query = Pairs::default();
    for (number, (name, kept)) in pairs.iter().enumerate() {
        let kept = if number == index { value } else { kept };
        if !kept.is_empty() && name != "page" {
            query.push(name, kept);
        }
    }
    address("/changes", &query.finish())
}

/// Returns what is filtered, by which value, and how the title of the page says it;
/// `None` for parameters that select the page of a list.
fn describe(
    name: &str,
    value: &str,
    form: &Form,
    zone: Zone,
) -> Option<(&'static str, String, String)> {
    let label = format::label(value);
    let same = |field, value: String| Some((field, value.clone(), value));
    let named = |field| {
        let name = form.value(name.trim_end_matches("_id"));
        let name = if name.is_empty() { value } else { name };
        same(field, name.to_owned())
    };
    let time = |at: &str| {
        let at: Result<Timestamp, _> = at.parse();
        at.map_or_else(|_| value.to_owned(), |at| zone.minute(&at))
    };
    match name {
        "text" => same("Search", value.to_owned()),
        "q" => same("Title", value.to_owned()),
        "service_id" => named("Service"),
        "host_id" => named("Host"),
        "created_by" => named("By"),
        "source" => named("Source"),
        "agent" => same("Agent", value.to_owned()),
        "by" => {
            let who = format::maker(value);
            let words = format!("made by {who}");
            Some(("Made by", who, words))
        }
        "tag" => same("Tag", value.to_owned()),
        "environment" => same("Environment", label),
        "risk_level" => Some(("Risk", label.clone(), format!("{label} risk"))),
        "min_risk" => Some((
            "Risk",
            format!("at least {label}"),
            format!("risk at least {label}"),
        )),
        "status" => same("Status", label),
        "not_status" => same("Status", format!("not {label}")),
        "active" if value == "true" => same("Status", "in progress".to_owned()),
        "active" => same("Status", "not in progress".to_owned()),
        "since" => Some(("From", time(value), format!("from {}", time(value)))),
        "until" => Some(("Until", time(value), format!("until {}", time(value)))),
        RANGE => {
            let range = TIME_RANGES.iter().find(|range| range.name == value)?;
            same("", format!("last {}", range.words))
        }
        _ => None,
    }
}

/// Returns the start of the title of the page: the values of all filters.
pub(super) fn title(chips: &[Chip]) -> String {
    let words: Vec<&str> = chips.iter().map(|chip| chip.words.as_str()).collect();
    format::excerpt(&words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_filter_can_be_removed() {
        let form = Form::with_values([("service", "payments".to_owned())]);
        let zone = Zone::named("Europe/Berlin", Timestamp::EPOCH);
        let query = "service_id=7&risk_level=high%2Cmedium&tag=a&tag=b&page=3\
            &since=2026-11-22T13:00:00Z&per_page=50";
        let chips = chips(query, &form, zone);
        let found: Vec<_> = chips
            .iter()
            .map(|chip| (chip.field, chip.value.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("Service", "payments"),
                ("Risk", "high"),
                ("Risk", "medium"),
                ("Tag", "a"),
                ("Tag", "b"),
                ("From", "2026-11-22 14:00"),
            ]
        );
        let rest = "tag=a&tag=b&since=2026-11-22T13%3A00%3A00Z&per_page=50";
        assert_eq!(
            chips[0].without,
            format!("/changes?risk_level=high%2Cmedium&{rest}")
        );
        assert_eq!(
            chips[1].without,
            format!("/changes?service_id=7&risk_level=medium&{rest}")
        );
        assert_eq!(
            title(&chips),
            "payments, high risk, medium risk, a, b, from 2026-11-22 14:00"
        );
        assert_eq!(title(&[]), "");
    }
}
