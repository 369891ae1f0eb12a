//! The filter of the activity log.

use changelog_core::activity::API_KEY_ACTOR;
use changelog_core::problem::ViolationCode;
use changelog_core::query::{Pairs, Query};
use changelog_core::{Action, ActivityId, Invalid, ResourceType, Timestamp};

use crate::dashboard::parts::activity_rows::KEY_PREFIX;
use crate::dashboard::parts::form::{Form, MOMENT};
use crate::dashboard::parts::time_ranges::{RANGE, TIME_RANGES};
use crate::dashboard::parts::zone;
use crate::store::{ActivitySearch, EntriesBy};

/// Returns the query string of a filter form: without empty fields, and with RFC 3339 for
/// times.
pub(super) fn canonical_query(form: &Form) -> String {
    let is_fixed = ["since", "until"]
        .iter()
        .any(|name| !form.value(name).trim().is_empty());
    let mut pairs = Pairs::default();
    for (name, value) in form.pairs() {
        match (name, value.trim()) {
            (zone::FIELD, _) | (_, "") => {}
            (name, _) if name.ends_with(MOMENT) => {}
            // Times replace the range that was chosen before.
            (RANGE, _) if is_fixed => {}
            ("since" | "until", value) => pairs.push(name, form.time(name, value)),
            (_, value) => pairs.push(name, value),
        }
    }
    pairs.finish()
}

/// Reads a query string. A range ends now.
pub(super) fn read(query: &str, now: Timestamp) -> Result<ActivitySearch, Invalid> {
    let mut query = Query::new(query);
    let mut search = ActivitySearch {
        resource: query.parsed::<ResourceType>("resource"),
        action: query.parsed::<Action>("action"),
        by: None,
        since: query.parsed("since"),
        until: query.parsed("until"),
        before: query.parsed::<ActivityId>("before"),
    };
    if let Some(text) = query.one("actor_id") {
        search.by = entries_by(&text);
        if search.by.is_none() {
            let message = format!(
                "must be a person's id, {API_KEY_ACTOR}, or {KEY_PREFIX} and the id of an API key"
            );
            query.add("actor_id", ViolationCode::InvalidFormat, message);
        }
    }
    if let Some(name) = query.one(RANGE) {
        if let Some(range) = TIME_RANGES.iter().find(|range| range.name == name) {
            search.since = range.start(now).parse().ok();
        } else {
            let names: Vec<&str> = TIME_RANGES.iter().map(|range| range.name).collect();
            let message = format!("must be one of {}", names.join(", "));
            query.add(RANGE, ViolationCode::InvalidFormat, message);
        }
    }
    query.finish(search)
}

fn entries_by(text: &str) -> Option<EntriesBy> {
    if text == API_KEY_ACTOR {
        return Some(EntriesBy::AnyKey);
    }
    match text.strip_prefix(KEY_PREFIX) {
        Some(key) => Some(EntriesBy::Key(key.parse().ok()?)),
        None => Some(EntriesBy::Person(text.parse().ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::parts::activity_rows::key_actor;

    const ID: &str = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";

    fn read(query: &str) -> Result<ActivitySearch, Invalid> {
        super::read(query, "2026-11-22T10:00:00Z".parse().expect("a time"))
    }

    #[test]
    fn filters_are_read() {
        let by = |query: &str| read(query).expect(query).by;
        assert_eq!(
            by(&format!("actor_id={ID}")),
            Some(EntriesBy::Person(ID.parse().expect("an id")))
        );
        assert_eq!(
            by(&format!("actor_id={}", key_actor(ID))),
            Some(EntriesBy::Key(ID.parse().expect("an id")))
        );
        assert_eq!(by("actor_id=__api_key__"), Some(EntriesBy::AnyKey));
        let search = read("range=4h&action=deleted&resource=host").expect("a filter");
        let since = search.since.map(|at| at.to_string());
        assert_eq!(since.as_deref(), Some("2026-11-22T06:00:00.000Z"));
        assert_eq!(search.action, Some(Action::Deleted));
        for bad in [
            "range=2y",
            "actor_id=ada",
            "actor_id=key:",
            "since=soon",
            "x=1",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
