//! The lanes of a timeline: a change is in the lane of its service, and marks that would
//! overlap are stacked or counted.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use changelog_core::{RiskLevel, ServiceId, ServiceRef};
use chrono::TimeDelta;

use super::bars::{Bar, bars};
use super::density::{Count, Counts, Density};
use super::event::{Event, Events, State};
use super::{Range, Subject};
use crate::dashboard::parts::format;
use crate::dashboard::parts::zone::Zone;

/// The most lanes of services; the changes of the others share one.
const MAX_SERVICES: usize = 11;
/// The most marks; the other changes are counted.
const MAX_MARKS: usize = 200;
/// The most marks above each other in a lane, and in all lanes: they fit one screen.
const MAX_ROWS: usize = 4;
const MAX_ROWS_OF_ALL: usize = 30;
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
    /// How much happened, if the changes are not drawn one by one.
    pub(super) bars: Vec<Bar>,
}

impl Lane {
    /// Returns the number of changes in its bars.
    pub(super) fn changes(&self) -> u64 {
        self.bars.iter().map(|bar| bar.count.changes).sum()
    }

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
    counts: Counts,
    /// Whether the other services share the lane, and their number, unless it is not known.
    is_shared: bool,
    services: Option<u64>,
}

/// Arranges what happened in lanes. Returns the lanes, the events that are drawn, by time,
/// and the number of those that are only counted.
pub(super) fn arrange(
    found: Events,
    subject: &Subject<'_>,
    crowd: &dyn Fn(Range, Option<String>) -> String,
) -> (Vec<Lane>, Vec<Event>, usize) {
    let Events {
        mut events,
        density,
    } = found;
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
    let mut drawn = Vec::new();
    let mut lanes = Vec::new();
    let mut merged = 0;
    let is_dense = density.is_some();
    let groups = groups(events, subject, density);
    let most = busiest_part(&groups);
    let mut rows = MAX_ROWS_OF_ALL.saturating_sub(groups.len());
    let mut room = MAX_MARKS;
    for group in groups {
        // Bars are as high as a row.
        let max_rows = if is_dense { 1 } else { MAX_ROWS.min(1 + rows) };
        let bars = bars(&group.counts, most, group.is_shared);
        let (mut lane, events, count) = lane(group, subject, (&mut room, max_rows), crowd);
        lane.bars = bars;
        rows = rows.saturating_sub(lane.height / ROW_HEIGHT - 1);
        drawn.extend(events);
        lanes.push(lane);
        merged += count;
    }
    drawn.sort_by_key(|event| (event.at, event.id));
    (lanes, drawn, merged)
}

/// Returns the most changes in a part of a service.
fn busiest_part(groups: &[Group]) -> u64 {
    let of_services = groups.iter().filter(|group| !group.is_shared);
    let counts = of_services.flat_map(|group| group.counts.values());
    counts.map(|count| count.changes).max().unwrap_or(0)
}

/// Groups events by service: the affected one, those it is related to, then those with
/// the most changes, or with the most undone ones if changes are counted.
fn groups(events: Vec<Event>, subject: &Subject<'_>, density: Option<Density>) -> Vec<Group> {
    let related = Related::of(subject);
    let mut groups: BTreeMap<Option<ServiceId>, Group> = BTreeMap::new();
    // The affected service has a lane even if nothing happened to it.
    if let Some(service) = &subject.affected.service {
        groups.insert(Some(service.id), related.group(Some(service.clone())));
    }
    for event in events {
        let found = related.first_of(&event).or(event.service.as_ref());
        let service = found.cloned();
        let id = service.as_ref().map(|service| service.id);
        let group = groups.entry(id).or_insert_with(|| related.group(service));
        group.events.push(event);
    }
    let mut rest = None;
    if let Some(density) = density {
        let mut others = Group::of_others(density.more_services);
        others.counts = density.rest;
        let mut counted: BTreeMap<Option<ServiceId>, Group> = BTreeMap::new();
        for (service, counts) in density.services {
            let id = Some(service.id);
            let known = groups.remove(&id);
            let mut group = known.unwrap_or_else(|| related.group(Some(service)));
            group.counts = counts;
            if group.place == Place::Affected || !group.is_empty() {
                counted.insert(id, group);
            }
        }
        let uncounted = std::mem::replace(&mut groups, counted);
        others.events = uncounted
            .into_values()
            .flat_map(|group| group.events)
            .collect();
        rest = Some(others).filter(|others| !others.is_empty());
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by_cached_key(|group| {
        let name = group.service.as_ref().map(|service| service.name.clone());
        let sum = group
            .counts
            .values()
            .copied()
            .reduce(Count::plus)
            .unwrap_or_default();
        let number = (sum.undone, sum.changes, group.events.len());
        // Changes without a service come last.
        (group.place.clone(), name.is_none(), Reverse(number), name)
    });
    if rest.is_none() && groups.len() > MAX_SERVICES + 1 {
        let others = groups.split_off(MAX_SERVICES);
        let number = others
            .iter()
            .filter(|group| group.service.is_some())
            .count();
        let mut joined = Group::of_others(Some(number as u64));
        joined.events = others.into_iter().flat_map(|group| group.events).collect();
        rest = Some(joined);
    }
    groups.extend(rest);
    groups
}

/// The affected service and those it is related to, in the order of their lanes.
struct Related(Vec<(ServiceRef, Place, &'static str)>);

impl Related {
    fn of(subject: &Subject<'_>) -> Self {
        let affected = subject.affected;
        let mut related = Vec::new();
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
        Self(related)
    }

    /// Returns the first of them that an event is of.
    fn first_of(&self, event: &Event) -> Option<&ServiceRef> {
        let mut services = self.0.iter().map(|(service, ..)| service);
        services.find(|service| event.is_of(service.id))
    }

    /// Returns the lane of a service, without events.
    fn group(&self, service: Option<ServiceRef>) -> Group {
        let id = service.as_ref().map(|service| service.id);
        let found = self.0.iter().find(|(one, ..)| Some(one.id) == id);
        match found {
            Some((_, place, note)) => Group::new(service, place.clone(), note),
            None => Group::new(service, Place::Other, ""),
        }
    }
}

impl Group {
    fn new(service: Option<ServiceRef>, place: Place, note: &'static str) -> Self {
        Self {
            service,
            place,
            note,
            events: Vec::new(),
            counts: Counts::new(),
            is_shared: false,
            services: None,
        }
    }

    /// Returns the lane of so many other services.
    fn of_others(number: Option<u64>) -> Self {
        Self {
            is_shared: true,
            services: number,
            ..Self::new(None, Place::Other, "")
        }
    }

    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.counts.is_empty()
    }

    fn name(&self) -> String {
        match (&self.service, self.is_shared, self.services) {
            (Some(service), ..) => service.name.clone(),
            (None, false, _) | (None, true, Some(0)) => "no service".to_owned(),
            (None, true, None) => "other services".to_owned(),
            (None, true, Some(number)) => format!(
                "{} more {}",
                format::number(number),
                format::plural(&number, "service", "services")
            ),
        }
    }
}

/// Draws a lane. Returns it with the events that are drawn and the number of the others.
fn lane(
    group: Group,
    subject: &Subject<'_>,
    (room, max_rows): (&mut usize, usize),
    crowd: &dyn Fn(Range, Option<String>) -> String,
) -> (Lane, Vec<Event>, usize) {
    let range = subject.range;
    let name = group.name();
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
            None if rows.len() < max_rows => {
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
        name,
        address: id.as_ref().map(|id| format!("/services/{id}")),
        color: group.service.map(|service| service.color),
        note: group.note,
        height: height(crowd_row + usize::from(!crowds.is_empty())),
        marks,
        crowds,
        bars: Vec::new(),
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
