//! The rules that creating and updating a change share.

use std::collections::HashSet;

use super::fields::{FieldKind, Optional};
use crate::ids::ServiceId;
use crate::input::ObjectReader;
use crate::limits::{
    MAX_LONG_TEXT_CHARS, MAX_SERVICES, MAX_TAGS, MAX_TITLE_CHARS, MIN_TITLE_CHARS,
};
use crate::problem::{ViolationCode, Violations};
use crate::rules::{self, TextKind};

pub(super) fn read_services(object: &mut ObjectReader<'_>) -> Option<Vec<ServiceId>> {
    object.parsed_list("service_ids", MAX_SERVICES)
}

/// Puts the first service first, removes duplicates, and reports a first service that
/// is not among all services.
pub(super) fn check_services(
    problems: &mut Violations,
    first: Option<ServiceId>,
    services: &mut Vec<ServiceId>,
) {
    let mut seen = HashSet::new();
    services.retain(|id| seen.insert(*id));
    let Some(first) = first else {
        return;
    };
    if let Some(place) = services.iter().position(|id| *id == first) {
        services[..=place].rotate_right(1);
    } else if !services.is_empty() {
        let message = format!("must be one of service_ids, which does not contain {first}");
        problems.add("/service_id", ViolationCode::OutOfRange, message);
    }
}

/// Checks an optional string of one line or several.
pub(super) fn check_text<'c>(
    problems: &mut Violations,
    name: &str,
    kind: &FieldKind,
    value: impl FnOnce(&Optional<String>) -> Option<&'c mut Option<String>>,
) {
    let is_line = matches!(kind, FieldKind::ShortText(_));
    let (field, max_chars, kind) = match kind {
        FieldKind::LongText(field) => (field, MAX_LONG_TEXT_CHARS, TextKind::MultiLine),
        FieldKind::ShortText(text) => (&text.field, text.max_chars, TextKind::Line),
        _ => return,
    };
    let Some(value) = value(field) else {
        return;
    };
    rules::optional_text(problems, &format!("/{name}"), value, max_chars, kind);
    // What an environment variable that is not set becomes.
    if is_line && value.as_ref().is_some_and(String::is_empty) {
        *value = None;
    }
}

pub(super) fn check_title(problems: &mut Violations, title: &mut String) {
    let chars = MIN_TITLE_CHARS..=MAX_TITLE_CHARS;
    rules::text(problems, "/title", title, chars, TextKind::Line);
}

pub(super) fn check_tags(problems: &mut Violations, tags: &mut Vec<String>) {
    rules::names(problems, "/tags", tags, MAX_TAGS, TextKind::Line);
    if tags.len() > MAX_TAGS {
        return;
    }
    let mut seen = HashSet::new();
    tags.retain(|tag| seen.insert(tag.clone()));
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use chrono::TimeDelta;

    use super::super::{ChangePatch, NewChange};
    use super::*;
    use crate::input::{Input, InputError, from_json};
    use crate::limits::{MAX_CLOCK_SKEW, MAX_LINKS, MAX_NAME_CHARS, MAX_URL_CHARS};
    use crate::time::Timestamp;

    fn now() -> Timestamp {
        "2026-11-21T08:30:00.000Z".parse().unwrap()
    }

    /// Returns the broken rules of a body, as pointer and code.
    fn broken<T: Input>(body: &Value) -> Vec<(String, ViolationCode)> {
        match from_json::<T>(body.to_string().as_bytes(), now()) {
            Ok(_) => Vec::new(),
            Err(InputError::Invalid(invalid)) => invalid
                .violations
                .into_iter()
                .map(|violation| (violation.pointer, violation.code))
                .collect(),
            Err(malformed) => panic!("{malformed}"),
        }
    }

    /// Requires the same of creating and of updating.
    fn both(field: &str, value: &Value, expected: &[(&str, ViolationCode)]) {
        let expected: Vec<_> = expected
            .iter()
            .map(|(pointer, code)| ((*pointer).to_owned(), code.clone()))
            .collect();
        let mut body = json!({ "title": "fine" });
        body[field] = value.clone();
        let shown: String = value.to_string().chars().take(60).collect();
        assert_eq!(broken::<NewChange>(&body), expected, "{field}: {shown}");
        let patch = json!({ field: value });
        assert_eq!(
            broken::<ChangePatch>(&patch),
            expected,
            "patch of {field}: {shown}"
        );
    }

    #[test]
    fn texts_at_their_limits() {
        for (field, most) in [
            ("title", MAX_TITLE_CHARS),
            ("description", MAX_LONG_TEXT_CHARS),
            ("impact", MAX_LONG_TEXT_CHARS),
        ] {
            let pointer = format!("/{field}");
            for letter in ["x", "é", "🚀"] {
                both(field, &json!(letter.repeat(most - 1)), &[]);
                both(field, &json!(letter.repeat(most)), &[]);
                both(field, &json!(format!(" {} ", letter.repeat(most))), &[]);
                both(
                    field,
                    &json!(letter.repeat(most + 1)),
                    &[(&pointer, ViolationCode::TooLong)],
                );
            }
        }
        for (title, expected) in [
            ("", &[("/title", ViolationCode::TooShort)][..]),
            ("ab", &[("/title", ViolationCode::TooShort)]),
            (" ab ", &[("/title", ViolationCode::TooShort)]),
            ("abc", &[]),
            ("abcd", &[]),
            ("a\nbc", &[("/title", ViolationCode::ControlCharacter)]),
            ("a\u{0}bc", &[("/title", ViolationCode::ControlCharacter)]),
        ] {
            both("title", &json!(title), expected);
        }
        both("description", &json!("a\n\tb\r\nc"), &[]);
        both(
            "impact",
            &json!("a\u{b}b"),
            &[("/impact", ViolationCode::ControlCharacter)],
        );
    }

    #[test]
    fn lists_at_their_limits() {
        let tags = |count: usize| -> Value { (0..count).map(|n| n.to_string()).collect() };
        let link = |label: &str, url: &str| json!({ "label": label, "url": url });
        let links = |count: usize| -> Value { vec![link("l", "https://e.com"); count].into() };
        for (field, list, most) in [
            ("tags", &tags as &dyn Fn(usize) -> Value, MAX_TAGS),
            ("links", &links, MAX_LINKS),
        ] {
            for size in [0, 1, most - 1, most] {
                both(field, &list(size), &[]);
            }
            let pointer = format!("/{field}");
            both(
                field,
                &list(most + 1),
                &[(&pointer, ViolationCode::TooMany)],
            );
        }
        both(
            "tags",
            &json!(vec!["same"; MAX_TAGS + 1]),
            &[("/tags", ViolationCode::TooMany)],
        );
        for (size, code) in [
            (0, Some(ViolationCode::TooShort)),
            (1, None),
            (MAX_NAME_CHARS - 1, None),
            (MAX_NAME_CHARS, None),
            (MAX_NAME_CHARS + 1, Some(ViolationCode::TooLong)),
        ] {
            let expected = |pointer| code.clone().map(|code| (pointer, code));
            both(
                "tags",
                &json!(["x".repeat(size)]),
                expected("/tags/0").as_slice(),
            );
            let list = json!([link(&"x".repeat(size), "https://e.com")]);
            both("links", &list, expected("/links/0/label").as_slice());
        }
        for (size, code) in [
            (MAX_URL_CHARS - 1, None),
            (MAX_URL_CHARS, None),
            (MAX_URL_CHARS + 1, Some(ViolationCode::TooLong)),
        ] {
            let url = format!("https://e.com/{}", "x".repeat(size - 14));
            let expected = code.map(|code| ("/links/0/url", code));
            both("links", &json!([link("l", &url)]), expected.as_slice());
        }
    }

    #[test]
    fn duplicate_tags_collapse_in_order() {
        let body = br#"{"title": "abc", "tags": ["b", "a", " b", "B", "a"]}"#;
        let new: NewChange = from_json(body, now()).unwrap();
        assert_eq!(new.tags, ["b", "a", "B"]);
    }

    #[test]
    fn occurred_at_is_not_before_1970_nor_far_ahead() {
        let ahead = |millis| now().plus(MAX_CLOCK_SKEW + TimeDelta::milliseconds(millis));
        let epoch = |millis| Timestamp::from_millis(millis);
        for (at, fine) in [
            (ahead(-1), true),
            (ahead(0), true),
            (ahead(1), false),
            (epoch(1), true),
            (epoch(0), true),
            (epoch(-1), false),
        ] {
            let found = broken::<NewChange>(&json!({ "title": "abc", "occurred_at": at }));
            let expected = [("/occurred_at".to_owned(), ViolationCode::OutOfRange)];
            assert_eq!(found, if fine { &[] } else { &expected[..] }, "{at}");
            // It cannot be changed at all.
            let found = broken::<ChangePatch>(&json!({ "occurred_at": at }));
            assert_eq!(
                found,
                [("/occurred_at".to_owned(), ViolationCode::Immutable)]
            );
        }
    }

    #[test]
    fn null_is_not_supplied_on_create_and_clears_on_update() {
        let mut nulls = json!({ "title": "abc" });
        for field in &NewChange::FIELDS[1..] {
            nulls[*field] = Value::Null;
        }
        let new: NewChange = from_json(nulls.to_string().as_bytes(), now()).unwrap();
        let bare = NewChange {
            title: "abc".into(),
            ..NewChange::default()
        };
        assert_eq!(new, bare);
        let patch = |body: Value| {
            let body = body.to_string();
            from_json::<ChangePatch>(body.as_bytes(), now()).unwrap()
        };
        assert_eq!(patch(json!({})), ChangePatch::default());
        let cleared = patch(json!({
            "description": null, "service_id": null, "host_id": null, "impact": null,
            "tags": null, "links": null, "scheduled_for": null, "risk_level": null, "status": null,
        }));
        let expected = ChangePatch {
            description: Some(None),
            service_id: Some(None),
            host_id: Some(None),
            impact: Some(None),
            tags: Some(Vec::new()),
            links: Some(Vec::new()),
            scheduled_for: Some(None),
            ..ChangePatch::default()
        };
        assert_eq!(cleared, expected);
        let found = broken::<ChangePatch>(&json!({ "title": null }));
        assert_eq!(found, [("/title".to_owned(), ViolationCode::Required)]);
    }

    #[test]
    fn the_first_service_is_one_of_all() {
        let ids: Vec<String> = (1..4)
            .map(|n| format!("018f4e9a-7b1c-7d3e-9a51-00000000000{n}"))
            .collect();
        let [a, b, c] = [0, 1, 2].map(|index| ids[index].as_str());
        for (body, expected) in [
            (json!({ "service_id": a }), Ok(vec![a])),
            (json!({ "service_ids": [a, b, a] }), Ok(vec![a, b])),
            (
                json!({ "service_id": b, "service_ids": [a, b, c] }),
                Ok(vec![b, a, c]),
            ),
            (
                json!({ "service_id": c, "service_ids": [a, b] }),
                Err("/service_id"),
            ),
            (json!({ "service_ids": [a, "x"] }), Err("/service_ids/1")),
            (
                json!({ "service_ids": vec![a; MAX_SERVICES + 1] }),
                Err("/service_ids"),
            ),
            (json!({}), Ok(vec![])),
        ] {
            let mut new = body.clone();
            new["title"] = json!("fine");
            let new = from_json::<NewChange>(new.to_string().as_bytes(), now());
            let patch = from_json::<ChangePatch>(body.to_string().as_bytes(), now());
            match expected {
                Ok(services) => {
                    let shown = |ids: Vec<ServiceId>| -> Vec<String> {
                        ids.iter().map(ToString::to_string).collect()
                    };
                    assert_eq!(shown(new.unwrap().all_service_ids()), services, "{body}");
                    let after = patch.unwrap().services_after(&[]).unwrap_or_default();
                    assert_eq!(shown(after), services, "{body}");
                }
                Err(pointer) => {
                    for found in [
                        broken::<NewChange>(&{
                            let mut new = body.clone();
                            new["title"] = json!("fine");
                            new
                        }),
                        broken::<ChangePatch>(&body),
                    ] {
                        assert_eq!(found.len(), 1, "{body}: {found:?}");
                        assert_eq!(found[0].0, pointer, "{body}");
                    }
                }
            }
        }
        let patch = |body: Value| from_json::<ChangePatch>(body.to_string().as_bytes(), now());
        let before: Vec<ServiceId> = ids.iter().map(|id| id.parse().unwrap()).collect();
        let after = |body| patch(body).unwrap().services_after(&before);
        assert_eq!(after(json!({ "title": "other" })), None);
        assert_eq!(after(json!({ "service_id": null })), Some(vec![]));
        assert_eq!(
            after(json!({ "service_id": b })),
            Some(vec![before[1], before[2]])
        );
        assert!(patch(json!({ "service_id": null, "service_ids": [a] })).is_err());
    }
}
