//! The timeline: a lane for each service, marks for its changes, a line at the moment.
//!
//! Positions across are percentages of the width and heights are pixels, so that marks
//! and letters keep their size on every screen without a script.

mod axis;
mod bars;
mod density;
mod event;
mod lanes;
mod span;

use std::collections::BTreeMap;

use askama::Template;
use changelog_core::change::around::Affected;
use changelog_core::{Gap, Timestamp, query::Pairs};
use chrono::TimeDelta;

use super::format;
use super::query_string;
use super::zone::{Zone, rfc3339};
use axis::Tick;
use density::Count;
pub(crate) use event::{Event, Events, read};
use lanes::Lane;
pub(crate) use span::Band;
use span::Span;

/// The shortest and the longest range that is drawn.
const MIN_RANGE: TimeDelta = TimeDelta::minutes(4);
const MAX_RANGE: TimeDelta = TimeDelta::days(8);

/// The most gaps that are named below a timeline.
const MAX_GAPS_NAMED: usize = 3;

/// A range of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
}

impl Range {
    /// Returns a range that is neither too short nor too long to be drawn.
    pub(crate) fn new(from: Timestamp, to: Timestamp) -> Self {
        let to = to.max(from.plus(MIN_RANGE)).min(from.plus(MAX_RANGE));
        Self { from, to }
    }

    /// Returns the part of a range that can be drawn: its end, or if `at` is before that, the
    /// part with `at`.
    pub(crate) fn drawn_part(self, at: Timestamp) -> Self {
        let start = self.to.plus(-MAX_RANGE);
        let is_before = (self.from..start).contains(&at);
        let start = if is_before {
            at.plus(-MAX_RANGE / 2)
        } else {
            start
        };
        Self::new(self.from.max(start), self.to)
    }

    /// Returns how long the range is.
    pub(crate) fn length(self) -> TimeDelta {
        TimeDelta::milliseconds(self.to.millis() - self.from.millis())
    }

    /// Returns the position of a time, in percent of the width.
    #[expect(clippy::cast_precision_loss, reason = "a drawing is not exact")]
    fn position(self, at: Timestamp) -> f64 {
        let length = (self.to.millis() - self.from.millis()).max(1) as f64;
        (at.millis() - self.from.millis()) as f64 * 100.0 / length
    }

    pub(crate) fn contains(self, at: Timestamp) -> bool {
        (self.from..=self.to).contains(&at)
    }

    /// Returns the range moved by a part of its length.
    fn moved(self, halves: i32) -> Self {
        let by = self.length() / 2 * halves;
        Self::new(self.from.plus(by), self.to.plus(by))
    }

    /// Returns the range with its middle kept and its length doubled or halved.
    fn scaled(self, is_wider: bool) -> Self {
        let by = if is_wider {
            self.length().min(MAX_RANGE - self.length()) / 2
        } else {
            -self.length() / 4
        };
        Self::new(self.from.plus(-by), self.to.plus(by))
    }
}

/// What a timeline shows.
pub(crate) struct Subject<'a> {
    pub(crate) range: Range,
    /// The time at which something broke.
    pub(crate) moment: Option<Timestamp>,
    pub(crate) now: Timestamp,
    pub(crate) zone: Zone,
    pub(crate) affected: &'a Affected,
    /// When changes may be missing, because a source was silent.
    pub(crate) gaps: &'a [Gap],
    /// What else took place.
    pub(crate) bands: &'a [Band],
    /// The query string of the pages with other ranges, without its range.
    pub(crate) query: String,
}

/// A vertical line with its label.
struct Line {
    x: f64,
    anchor: &'static str,
    label: String,
}

/// A change in the table.
struct Row {
    event: Event,
    /// How long before or after the moment it started.
    offset: String,
}

/// The changes of a part of the range, in the table.
struct CountRow {
    start: Timestamp,
    /// From when until when.
    words: String,
    /// The timeline of the part, or its list if it is as long as the range.
    address: String,
    /// Where it begins and how wide it is, in percent.
    x: f64,
    width: f64,
    count: Count,
    /// The count of each lane.
    cells: Vec<Option<Count>>,
}

/// A timeline as HTML.
#[derive(Template)]
#[template(path = "timeline/timeline.html")]
pub(crate) struct Timeline {
    zone: Zone,
    range: Range,
    /// What the timeline shows, for its label.
    words: String,
    moment: Option<Line>,
    now: Option<Line>,
    gaps: Vec<Span>,
    bands: Vec<Span>,
    ticks: Vec<Tick>,
    lanes: Vec<Lane>,
    rows: Vec<Row>,
    /// The parts of the range, if changes are counted.
    parts: BTreeMap<i64, CountRow>,
    has_moment: bool,
    /// The number of changes in all bars.
    changes: u64,
    /// The number of changes that are counted, not drawn.
    merged: usize,
    /// The address of the page with another range, which the script completes.
    address: String,
    earlier: String,
    later: String,
    zoom_in: Option<String>,
    zoom_out: Option<String>,
    /// The list of all changes of the range.
    list: String,
}

impl Timeline {
    /// Draws events.
    pub(crate) fn new(subject: &Subject<'_>, found: Events) -> Self {
        let Subject {
            range, zone, now, ..
        } = *subject;
        let list = |range: Range, service: Option<String>| {
            let mut query = Pairs::default();
            query.push_some("service_id", service);
            query.push("since", rfc3339(range.from));
            query.push("until", rfc3339(range.to));
            format!("/changes?{}&{}", query.finish(), format::HAPPENED_QUERY)
        };
        let page = |range: Range| {
            let query = query_string::with(&subject.query, "from", rfc3339(range.from));
            format!(
                "/around?{}",
                query_string::with(&query, "to", rfc3339(range.to))
            )
        };
        // Other changes than those of a service cannot be listed, but be looked at closely.
        let crowd = |part: Range, service: Option<String>| match service {
            None if part.length() >= MIN_RANGE => page(part),
            service => list(part, service),
        };
        let whole = |part: Range| part.from <= range.from && part.to >= range.to;
        let parts = found.density.iter().flat_map(density::Density::parts);
        let parts = parts.map(|(start, (part, count))| {
            let [x, end] = [part.from, part.to].map(|at| range.position(at).clamp(0.0, 100.0));
            let row = CountRow {
                start: part.from,
                words: axis::words(part, zone),
                address: if whole(part) {
                    list(part, None)
                } else {
                    page(Range::new(part.from, part.to))
                },
                x,
                width: end - x,
                count,
                cells: Vec::new(),
            };
            (start, row)
        });
        let mut parts: BTreeMap<i64, CountRow> = parts.collect();
        let (lanes, drawn, merged) = lanes::arrange(found, subject, &crowd);
        for (start, part) in &mut parts {
            let bars = lanes.iter().map(|lane| {
                let mut bars = lane.bars.iter();
                Some(bars.find(|bar| bar.start == *start)?.count)
            });
            part.cells = bars.collect();
        }
        let line = |at: Timestamp, label: String| {
            range.contains(at).then(|| {
                let x = range.position(at);
                let anchor = match x {
                    ..4.0 => "start",
                    96.0.. => "end",
                    _ => "middle",
                };
                Line { x, anchor, label }
            })
        };
        let rows = drawn.into_iter().map(|event| Row {
            offset: subject
                .moment
                .map(|moment| format::offset(event.at, moment))
                .unwrap_or_default(),
            event,
        });
        let is_now = subject.moment.is_some_and(|moment| moment >= now);
        Self {
            zone,
            range,
            words: axis::words(range, zone),
            moment: subject.moment.and_then(|at| line(at, zone.clock(&at))),
            now: line(now, "now".to_owned()).filter(|_| !is_now),
            gaps: span::gaps(subject),
            bands: span::bands(subject),
            ticks: axis::ticks(range, zone),
            lanes,
            rows: rows.collect(),
            changes: parts.values().map(|part| part.count.changes).sum(),
            parts,
            has_moment: subject.moment.is_some(),
            merged,
            address: format!("/around?{}", subject.query),
            earlier: page(range.moved(-1)),
            later: page(range.moved(1)),
            zoom_in: (range.length() > MIN_RANGE).then(|| page(range.scaled(false))),
            zoom_out: (range.length() < MAX_RANGE).then(|| page(range.scaled(true))),
            list: list(range, None),
        }
    }
}
