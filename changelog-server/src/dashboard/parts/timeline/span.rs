//! What lies over the lanes of a timeline: times without changes of a source, and what took
//! place meanwhile, such as incidents.

use changelog_core::Timestamp;

use super::Subject;
use crate::dashboard::parts::format;

/// Something that took place, such as an incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Band {
    pub(crate) from: Timestamp,
    /// When it ended; `None` if it has not.
    pub(crate) until: Option<Timestamp>,
    /// What it was, in a few words.
    pub(crate) label: String,
    /// Its page.
    pub(crate) address: String,
}

/// A part of the width, in percent.
pub(super) struct Span {
    pub(super) x: f64,
    pub(super) width: f64,
    pub(super) label: String,
    /// From when until when, in words.
    pub(super) words: String,
    /// Empty if it has no page.
    pub(super) address: String,
}

/// Returns the bands of incidents that the range shows, in the order of their starts.
pub(super) fn bands(subject: &Subject<'_>) -> Vec<Span> {
    let bands = subject.bands.iter().filter_map(|band| {
        let address = band.address.clone();
        span(subject, (band.from, band.until), &band.label, address)
    });
    sorted(bands.collect())
}

/// Returns the gaps that the range shows, in the order of their starts.
pub(super) fn gaps(subject: &Subject<'_>) -> Vec<Span> {
    let gaps = subject.gaps.iter();
    let gaps =
        gaps.filter_map(|gap| span(subject, (gap.since, gap.until), &gap.name, String::new()));
    sorted(gaps.collect())
}

fn sorted(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by(|one, other| one.x.total_cmp(&other.x));
    spans
}

/// Returns what the range shows of a time; what has not ended lasts until now.
fn span(
    subject: &Subject<'_>,
    (from, until): (Timestamp, Option<Timestamp>),
    label: &str,
    address: String,
) -> Option<Span> {
    let Subject {
        range, zone, now, ..
    } = *subject;
    let end = until.unwrap_or(now.max(from));
    if end < range.from || from > range.to {
        return None;
    }
    let [x, end_x] = [from, end].map(|at| range.position(at).clamp(0.0, 100.0));
    let words = match until {
        Some(until) => format!("{} to {}", zone.recent(&from), zone.recent(&until)),
        None => format!("since {}", zone.recent(&from)),
    };
    Some(Span {
        x,
        width: end_x - x,
        label: format::visible(label),
        words,
        address,
    })
}
