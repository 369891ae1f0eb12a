//! Changes as annotations of graphs, in the shape that Grafana's Infinity data source
//! reads: a JSON array of objects with `time`, `timeEnd`, `title`, `text` and `tags`.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::{Change, ChangeFilter, RiskLevel};
use crate::limits::{DEFAULT_ANNOTATIONS, MAX_ANNOTATIONS};
use crate::problem::{BadValue, Invalid};
use crate::query::Query;
use crate::time::Timestamp;

/// The changes whose titles the text of a merged annotation has.
const TITLES_SHOWN: usize = 5;

/// An annotation: a point or a region of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Annotation {
    /// The start, in milliseconds since 1970.
    pub time: i64,
    /// The end, in milliseconds since 1970; absent for a point.
    #[serde(rename = "timeEnd", skip_serializing_if = "Option::is_none")]
    pub time_end: Option<i64>,
    /// The title of the change, or how many changes there are.
    pub title: String,
    /// What the change is about, as HTML. Text of users is escaped.
    pub text: String,
    /// Risk, status, environment and services, separated by commas.
    pub tags: String,
}

impl Annotation {
    /// Returns the annotation of the changes from a time until `until`, in milliseconds
    /// since 1970, that are only counted.
    pub fn of_older(count: u64, since: Option<Timestamp>, until: i64) -> Self {
        let start = since.map_or(until, Timestamp::millis).min(until);
        Self {
            time: start,
            time_end: Some(until).filter(|end| *end > start),
            title: format!("{count} earlier changes"),
            text: "Choose a shorter time range or a filter to see them.".to_owned(),
            tags: String::new(),
        }
    }
}

/// Which changes to show, and as how many annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotationFilter {
    /// The changes; planned ones only if the query asks for them.
    pub changes: ChangeFilter,
    /// The maximum number of annotations, 1 to [`MAX_ANNOTATIONS`].
    pub max: u64,
}

/// A time in milliseconds since 1970, as Grafana writes it, or in RFC 3339.
struct GraphTime(Timestamp);

impl std::str::FromStr for GraphTime {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text.parse() {
            Ok(millis) if !text.starts_with('-') => Ok(Self(Timestamp::from_millis(millis))),
            _ => text.parse().map(Self),
        }
    }
}

impl AnnotationFilter {
    /// Reads a query string: `from`, `to`, `max`, and the parameters that select changes
    /// in [`ChangeFilter::from_query`].
    pub fn from_query(raw: &str) -> Result<Self, Invalid> {
        let mut query = Query::new(raw);
        let mut time = |name| query.parsed::<GraphTime>(name).map(|time| time.0);
        let (since, until) = (time("from"), time("to"));
        let max = query.number("max", 1);
        let changes = ChangeFilter {
            since,
            until,
            ..ChangeFilter::selection(&mut query)
        };
        let changes = changes.without_planned(raw);
        query.finish(Self {
            changes,
            max: max.unwrap_or(DEFAULT_ANNOTATIONS).min(MAX_ANNOTATIONS),
        })
    }
}

/// What an annotation needs of a change, without its long texts.
#[derive(Clone, Debug)]
pub struct Annotated {
    start: i64,
    end: Option<i64>,
    title: String,
    facts: String,
    risk: RiskLevel,
    link: String,
    tags: Vec<String>,
}

impl Annotated {
    /// Keeps what an annotation needs. `link` is the address of the change's page.
    pub fn new(change: &Change, link: String) -> Self {
        let status = change.status_label();
        let services = change.all_services().iter();
        let services: Vec<&str> = services.map(|service| service.name.as_str()).collect();
        let environment = change.environment.as_ref().map(ToString::to_string);
        let mut facts = format!("{} risk, {status}", change.risk_level);
        for fact in services.iter().copied().chain(environment.as_deref()) {
            let _ = write!(facts, ", {fact}");
        }
        if let Some(author) = &change.created_by {
            let _ = write!(facts, ", by {}", author.name);
        }
        let own = [change.risk_level.as_str(), status].into_iter();
        let tags = own
            .chain(environment.as_deref())
            .chain(services.iter().copied());
        let start = change.effective_at().millis();
        let end = change.ended_at.map(Timestamp::millis);
        Self {
            start,
            end: end.filter(|end| *end > start),
            title: change.title.clone(),
            facts,
            risk: change.risk_level.clone(),
            link,
            // The separator must not be in a name.
            tags: tags.map(|tag| tag.replace(',', " ")).collect(),
        }
    }

    fn end(&self) -> i64 {
        self.end.unwrap_or(self.start)
    }
}

/// Returns at most `max` annotations of changes, oldest first: neighbors are merged
/// where the gaps between them are smallest.
pub fn annotations(mut changes: Vec<Annotated>, max: usize) -> Vec<Annotation> {
    changes.sort_by_key(|change| change.start);
    let mut gaps: Vec<usize> = (1..changes.len()).collect();
    // The greatest gaps first, of equal ones the older.
    gaps.sort_by_key(|index| changes[index - 1].start - changes[*index].start);
    gaps.truncate(max.saturating_sub(1));
    gaps.sort_unstable();
    gaps.push(changes.len());
    let mut rest = changes.as_slice();
    let mut taken = 0;
    let mut merged = Vec::with_capacity(gaps.len());
    for boundary in gaps {
        let (group, after) = rest.split_at(boundary - taken);
        (rest, taken) = (after, boundary);
        merged.extend(annotation(group));
    }
    merged
}

fn annotation(group: &[Annotated]) -> Option<Annotation> {
    let first = group.first()?;
    if let [only] = group {
        return Some(Annotation {
            time: only.start,
            time_end: only.end,
            title: only.title.clone(),
            text: format!("{}<br>{}", linked(only), escaped(&only.facts)),
            tags: only.tags.join(","),
        });
    }
    let end = group.iter().map(Annotated::end).max()?;
    let high = group
        .iter()
        .filter(|one| one.risk == RiskLevel::High)
        .count();
    let mut title = format!("{} changes", group.len());
    if high > 0 {
        let _ = write!(title, ", {high} of high risk");
    }
    // The riskiest first, then the newest.
    let mut shown: Vec<&Annotated> = group.iter().rev().collect();
    shown.sort_by(|a, b| b.risk.cmp(&a.risk));
    let mut text = String::new();
    for one in shown.iter().take(TITLES_SHOWN) {
        let _ = write!(text, "{}<br>", linked(one));
    }
    if shown.len() > TITLES_SHOWN {
        let _ = write!(text, "and {} more", shown.len() - TITLES_SHOWN);
    }
    let mut tags: Vec<&str> = Vec::new();
    for tag in group.iter().flat_map(|one| &one.tags) {
        if !tags.contains(&tag.as_str()) {
            tags.push(tag);
        }
    }
    Some(Annotation {
        time: first.start,
        time_end: Some(end).filter(|end| *end > first.start),
        title,
        text,
        tags: tags.join(","),
    })
}

fn linked(change: &Annotated) -> String {
    let (link, title) = (escaped(&change.link), escaped(&change.title));
    format!("<a href=\"{link}\">{title}</a>")
}

/// Escapes text for HTML: Grafana shows annotations as HTML.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Status;

    fn change(start: i64, end: Option<i64>) -> Annotated {
        Annotated {
            start,
            end,
            title: format!("<b>{start}</b>"),
            facts: "low risk".to_owned(),
            risk: if start == 50 {
                RiskLevel::High
            } else {
                RiskLevel::Low
            },
            link: "https://c.example.com/changes/1".to_owned(),
            tags: vec!["low".to_owned()],
        }
    }

    #[test]
    fn neighbors_are_merged_at_the_smallest_gaps() {
        let changes = || {
            [0, 1, 2, 50, 52, 100]
                .map(|start| change(start, None))
                .to_vec()
        };
        let spans = |max: usize| -> Vec<(i64, Option<i64>)> {
            let merged = annotations(changes(), max);
            merged.iter().map(|one| (one.time, one.time_end)).collect()
        };
        assert_eq!(spans(6).len(), 6);
        assert_eq!(spans(100).len(), 6);
        assert_eq!(spans(3), [(0, Some(2)), (50, Some(52)), (100, None)]);
        assert_eq!(spans(2), [(0, Some(2)), (50, Some(100))]);
        assert_eq!(spans(1), [(0, Some(100))]);
        assert_eq!(annotations(Vec::new(), 5), []);
        let merged = annotations(changes(), 1);
        assert_eq!(merged[0].title, "6 changes, 1 of high risk");
        assert!(
            merged[0]
                .text
                .starts_with("<a href=\"https://c.example.com/changes/1\">&lt;b&gt;50")
        );
        assert!(merged[0].text.ends_with("and 1 more"), "{}", merged[0].text);
        assert_eq!(merged[0].tags, "low");
    }

    #[test]
    fn a_region_ends_with_its_last_change() {
        let changes = vec![change(0, Some(90)), change(10, Some(20))];
        let merged = annotations(changes, 1);
        assert_eq!((merged[0].time, merged[0].time_end), (0, Some(90)));
    }

    #[test]
    fn times_are_milliseconds_or_rfc_3339() {
        let read = AnnotationFilter::from_query("from=1767225600000&to=2026-01-02T00:00:00Z&max=7");
        let read = read.expect("a filter");
        let times = [read.changes.since, read.changes.until].map(|at| at.map(Timestamp::millis));
        assert_eq!(times, [Some(1_767_225_600_000), Some(1_767_312_000_000)]);
        assert_eq!(read.max, 7);
        assert!(!read.changes.statuses.contains(&Status::Planned));
        for bad in [
            "from=-5",
            "from=soon",
            "max=0",
            "since=2026-01-02T00:00:00Z",
            "page=2",
        ] {
            assert!(AnnotationFilter::from_query(bad).is_err(), "{bad}");
        }
        let most = AnnotationFilter::from_query("max=99999&status=planned").expect("a filter");
        assert_eq!(most.max, MAX_ANNOTATIONS);
        assert_eq!(most.changes.statuses, [Status::Planned]);
    }
}
