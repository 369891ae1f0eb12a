//! The lanes of a timeline: a change is in the lane of its service, and marks that would
//! overlap are stacked or counted.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use changelog_core::{RiskLevel, ServiceId, ServiceRef};
use chrono::TimeDelta;

use super::event::{Event, State};
use super::{Range, Subject};
use crate::dashboard::parts::format;
use crate::dashboard::parts::zone::Zone;

/// The most lanes of services; the changes of the others share one.
const MAX_SERVICES: usize = 11;
/// The most marks; the other changes are counted.
const MAX_MARKS: usize = 200;
/// The most marks above each other in a lane.
const MAX_ROWS: usize = 4;
/// The width of a mark, and of the number of a suspect next to it, in percent.
const MARK_WIDTH: f64 = 2.0;
const RANK_WIDTH: f64 = 1.8;
/// The width of a place in which changes are counted, in percent.
const CROWD_WIDTH: f64 = 4.0;
/// The most characters of a name that has room, but for wide letters.
const MAX_SHORT_NAME_CHARS: usize = 16;
/// The last characters of a longer name, which tell it from others.
const NAME_END_CHARS: usize = 7;
/// Heights in pixels.
const ROW_HEIGHT: usize = 20;
const LANE_PADDING: usize = 6;
/// The middle of the first row of a lane.
const FIRST_MIDDLE: usize = 13;

/// The changes of a service.
pub(super) struct Lane {
    pub(super) name: String,
    /// The page of the service.
    pub(super) address: Option<String>,
    pub(super) color: Option<String>,
    /// How the service is related to the affected one.
    pub(super) note: &'static str,
    pub(super) height: usize,
    pub(super) marks: Vec<Mark>,
    pub(super) crowds: Vec<Crowd>,
}

impl Lane {
    /// Splits a name that may be too long into what is cut then, and its end.
    pub(super) fn long_name(&self) -> Option<(&str, &str)> {
        self.name.char_indices().nth(MAX_SHORT_NAME_CHARS)?;
        let mut from_end = self.name.char_indices().rev();
        let (end, _) = from_end.nth(NAME_END_CHARS - 1)?;
        Some(self.name.split_at(end))
    }
}

/// A change, drawn.
pub(super) struct Mark {
    pub(super) address: String,
    pub(super) label: String,
    pub(super) risk: RiskLevel,
    pub(super) state: &'static str,
    pub(super) is_crossed: bool,
    /// Whether it started before the range, so that only its bar is drawn.
    pub(super) is_cut: bool,
    pub(super) x: f64,
    pub(super) y: usize,
    /// The start and the width of the bar of a change that took time.
    pub(super) bar: Option<(f64, f64)>,
    pub(super) rank: Option<usize>,
}

/// Changes that have no room, counted.
pub(super) struct Crowd {
    pub(super) x: f64,
    pub(super) y: usize,
    pub(super) count: usize,
    /// The list of the changes of the lane at that time, or the timeline of that time.
    pub(super) address: String,
}

/// Where a lane belongs, in the order of lanes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Affected,
    Related(usize),
    Other,
}

/// The events of a lane.
struct Group {
    service: Option<ServiceRef>,
    place: Place,
    note: &'static str,
    events: Vec<Event>,
}

/// Arranges events in lanes. Returns the lanes, the events that are drawn, by time, and
/// the number of those that are only counted.
pub(super) fn arrange(
    mut events: Vec<Event>,
    subject: &Subject<'_>,
    crowd: &dyn Fn(Range, Option<String>) -> String,
) -> (Vec<Lane>, Vec<Event>, usize) {
    // The most important first: they are drawn if not all can be.
    events.sort_by_key(|event| {
        let is_usual = event.state == State::Completed;
        let rank = event.rank.unwrap_or(usize::MAX);
        (
            rank,
            is_usual,
            Reverse(event.risk.clone()),
            Reverse(event.at),
            event.id,
        )
    });
    let mut room = MAX_MARKS;
    let mut drawn = Vec::new();
    let mut lanes = Vec::new();
    let mut merged = 0;
    for group in groups(events, subject) {
        let (lane, events, count) = lane(group, subject, &mut room, crowd);
        drawn.extend(events);
        lanes.push(lane);
        merged += count;
    }
    drawn.sort_by_key(|event| (event.at, event.id));
    (lanes, drawn, merged)
}

/// Groups events by service: the affected one, those it is related to, then those with
/// the most changes.
fn groups(events: Vec<Event>, subject: &Subject<'_>) -> Vec<Group> {
    let affected = subject.affected;
    let mut related: Vec<(ServiceRef, Place, &'static str)> = Vec::new();
    if let Some(service) = &affected.service {
        related.push((service.clone(), Place::Affected, "affected"));
    }
    for (services, note) in [
        (&affected.dependencies, "dependency"),
        (&affected.dependents, "dependent"),
    ] {
        for service in services {
            let place = Place::Related(related.len());
            related.push((service.clone(), place, note));
        }
    }
    let mut groups: BTreeMap<Option<ServiceId>, Group> = BTreeMap::new();
    // The affected service has a lane even if nothing happened to it.
    if let Some((service, place, note)) = related.first()
        && *place == Place::Affected
    {
        let group = Group::new(Some(service.clone()), place.clone(), note);
        groups.insert(Some(service.id), group);
    }
    for event in events {
        let found = related.iter().find(|(service, ..)| event.is_of(service.id));
        let (service, place, note) = match found {
            Some((service, place, note)) => (Some(service.clone()), place.clone(), *note),
            None => (event.service.clone(), Place::Other, ""),
        };
        let id = service.as_ref().map(|service| service.id);
        let group = groups.entry(id);
        let group = group.or_insert_with(|| Group::new(service, place, note));
        group.events.push(event);
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by_cached_key(|group| {
        let name = group.service.as_ref().map(|service| service.name.clone());
        // Changes without a service come last.
        let number = Reverse(group.events.len());
        (group.place.clone(), name.is_none(), number, name)
    });
    if groups.len() > MAX_SERVICES + 1 {
        let mut rest = groups.split_off(MAX_SERVICES);
        let mut other = Group::new(None, Place::Other, "other");
        for group in &mut rest {
            other.events.append(&mut group.events);
        }
        groups.push(other);
    }
    groups
}

impl Group {
    fn new(service: Option<ServiceRef>, place: Place, note: &'static str) -> Self {
        Self {
            service,
            place,
            note,
            events: Vec::new(),
        }
    }
}

/// Draws a lane. Returns it with the events that are drawn and the number of the others.
fn lane(
    group: Group,
    subject: &Subject<'_>,
    room: &mut usize,
    crowd: &dyn Fn(Range, Option<String>) -> String,
) -> (Lane, Vec<Event>, usize) {
    let range = subject.range;
    let mut rows: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut marks = Vec::new();
    let mut drawn = Vec::new();
    let mut crowds: BTreeMap<i64, usize> = BTreeMap::new();
    let mut merged = 0;
    for event in group.events {
        let x = range.position(event.at).clamp(0.0, 100.0);
        let end = match (event.state, event.end) {
            (State::Running, _) => Some(subject.now),
            (_, end) => end,
        };
        let end = end.map_or(x, |end| range.position(end).clamp(x, 100.0));
        let number = if event.rank.is_some() {
            RANK_WIDTH
        } else {
            0.0
        };
        let space = (x - MARK_WIDTH / 2.0, end.max(x + MARK_WIDTH / 2.0 + number));
        let free = |row: &Vec<(f64, f64)>| {
            row.iter()
                .all(|(from, to)| space.1 <= *from || *to <= space.0)
        };
        let row = match rows.iter().position(free) {
            Some(row) => Some(row),
            None if rows.len() < MAX_ROWS => {
                rows.push(Vec::new());
                Some(rows.len() - 1)
            }
            None => None,
        };
        let Some(row) = row.filter(|_| *room > 0) else {
            #[expect(clippy::cast_possible_truncation, reason = "at most 100")]
            let place = (x / CROWD_WIDTH) as i64;
            *crowds.entry(place).or_default() += 1;
            merged += 1;
            continue;
        };
        rows[row].push(space);
        *room -= 1;
        marks.push(Mark {
            address: format!("/changes/{}", event.id),
            label: label(&event, subject.zone),
            risk: event.risk.clone(),
            state: event.state.class(),
            is_crossed: event.state.is_undone(),
            is_cut: event.at < range.from,
            x,
            y: row * ROW_HEIGHT + FIRST_MIDDLE,
            bar: (end - x > MARK_WIDTH / 2.0).then_some((x, end - x)),
            rank: event.rank,
        });
        drawn.push(event);
    }
    // From left to right, as the keyboard moves.
    marks.sort_by(|one, other| one.x.total_cmp(&other.x));
    let height = |rows: usize| rows.max(1) * ROW_HEIGHT + LANE_PADDING;
    let crowd_row = rows.len();
    let id = group.service.as_ref().map(|service| service.id.to_string());
    let crowds: Vec<Crowd> = crowds
        .into_iter()
        .map(|(place, count)| Crowd {
            #[expect(clippy::cast_precision_loss, reason = "at most 100")]
            x: (place as f64 + 0.5) * CROWD_WIDTH,
            y: crowd_row * ROW_HEIGHT + FIRST_MIDDLE,
            count,
            address: crowd(part(range, place), id.clone()),
        })
        .collect();
    let lane = Lane {
        name: match (&group.service, group.note) {
            (Some(service), _) => service.name.clone(),
            (None, "other") => "other services".to_owned(),
            (None, _) => "no service".to_owned(),
        },
        address: id.as_ref().map(|id| format!("/services/{id}")),
        color: group.service.map(|service| service.color),
        note: group.note,
        height: height(crowd_row + usize::from(!crowds.is_empty())),
        marks,
        crowds,
    };
    (lane, drawn, merged)
}

/// Returns the part of a range in which changes are counted together.
fn part(range: Range, place: i64) -> Range {
    #[expect(clippy::cast_possible_truncation, reason = "a part of a hundred")]
    let places = (100.0 / CROWD_WIDTH) as i64;
    let length = range.length().num_milliseconds() / places;
    let start = range.from.plus(TimeDelta::milliseconds(length * place));
    Range {
        from: start,
        // Addresses have whole seconds.
        to: start.plus(TimeDelta::milliseconds(length + 1_000)),
    }
}

/// Describes a change for its tooltip and for screen readers.
fn label(event: &Event, zone: Zone) -> String {
    let first = format!(
        "{} {}, {} risk, {}",
        zone.recent(&event.at),
        format::visible(&event.title),
        event.risk,
        event.state.label()
    );
    let took = event.end.map(|end| {
        let took = end.to_datetime() - event.at.to_datetime();
        format!("took {}", format::duration(&took))
    });
    let environment = event.environment.as_ref().map(ToString::to_string);
    let rank = event.rank.map(|rank| format!("suspect {rank}"));
    let rest = [took, environment, rank].into_iter().flatten();
    let parts: Vec<String> = std::iter::once(first).chain(rest).collect();
    parts.join(", ")
}
