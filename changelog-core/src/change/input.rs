//! What makes a change and what changes one, with the rules of both.

use chrono::TimeDelta;
use serde::Serialize;

use super::{Link, RiskLevel, Status};
use crate::ids::{HostId, ServiceId};
use crate::input::{Fields, Input};
use crate::problem::{Code, Violations};
use crate::rules::{self, Lines};
use crate::time::Timestamp;

/// The longest description and impact, in characters.
pub const MAX_TEXT: usize = 20_000;
/// The most tags of one change.
pub const MAX_TAGS: usize = 20;
/// The most links of one change.
pub const MAX_LINKS: usize = 10;
/// The longest address of a link, in characters.
pub const MAX_URL: usize = 2_048;
/// The most changes that are made at once.
pub const MAX_CHANGES: usize = 500;
/// How far in the future `occurred_at` may lie, for clocks that differ.
pub const MAX_CLOCK_SKEW: TimeDelta = TimeDelta::minutes(5);

/// What makes a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewChange {
    /// 3 to 300 characters.
    #[cfg_attr(
        feature = "openapi",
        schema(
            min_length = 3,
            max_length = 300,
            pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$",
            example = "Deploy api 2.3"
        )
    )]
    pub title: String,
    /// At most 20000 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(
            max_length = 20000,
            pattern = "^([^\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f]|\\r\\n)*$",
            example = "Rolls out the new rate limiter."
        )
    )]
    pub description: Option<String>,
    /// A service of the organization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_id: Option<ServiceId>,
    /// A host of the organization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_id: Option<HostId>,
    /// `low` when not supplied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<RiskLevel>,
    /// `planned` when not supplied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// At most 20000 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(
            max_length = 20000,
            pattern = "^([^\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f]|\\r\\n)*$",
            example = "Two minutes of read-only mode"
        )
    )]
    pub impact: Option<String>,
    /// At most 20 of 1 to 100 characters each; duplicates collapse.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<crate::rules::Name>>, max_items = 20, example = json!(["terraform", "prod"])))]
    pub tags: Vec<String>,
    /// At most 10.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Link>>, max_items = 10))]
    pub links: Vec<Link>,
    /// When it is scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_for: Option<Timestamp>,
    /// When it happened, if not now: from 1970 on, and at most five minutes
    /// ahead of the service's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(example = "2026-01-15T08:30:00.000Z"))]
    pub occurred_at: Option<Timestamp>,
}

impl Input for NewChange {
    const FIELDS: &'static [&'static str] = &[
        "title",
        "description",
        "service_id",
        "host_id",
        "risk_level",
        "status",
        "impact",
        "tags",
        "links",
        "scheduled_for",
        "occurred_at",
    ];

    fn read(fields: &mut Fields<'_>) -> Self {
        Self {
            title: fields.required_text("title"),
            description: fields.text("description"),
            service_id: fields.parsed("service_id"),
            host_id: fields.parsed("host_id"),
            risk_level: fields.parsed("risk_level"),
            status: fields.parsed("status"),
            impact: fields.text("impact"),
            tags: fields.texts("tags", MAX_TAGS).unwrap_or_default(),
            links: read_links(fields, "links").unwrap_or_default(),
            scheduled_for: fields.parsed("scheduled_for"),
            occurred_at: fields.parsed("occurred_at"),
        }
    }

    fn check(&mut self, problems: &mut Violations, now: Timestamp) {
        check_title(problems, &mut self.title);
        check_long(problems, "/description", &mut self.description);
        check_long(problems, "/impact", &mut self.impact);
        check_tags(problems, &mut self.tags);
        check_links(problems, &mut self.links);
        if let Some(at) = self.occurred_at {
            let latest = now.plus(MAX_CLOCK_SKEW);
            if at > latest {
                let message =
                    format!("must be at most 5 minutes after the server time ({now}), got {at}");
                problems.add("/occurred_at", Code::OutOfRange, message);
            } else if at < Timestamp::EPOCH {
                let message = format!("must be {} or later, got {at}", Timestamp::EPOCH);
                problems.add("/occurred_at", Code::OutOfRange, message);
            }
        }
    }
}

/// What makes several changes at once: all of them, or none when one breaks a
/// rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewChanges {
    /// 1 to 500.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 500))]
    pub changes: Vec<NewChange>,
}

impl Input for NewChanges {
    const FIELDS: &'static [&'static str] = &["changes"];

    fn read(fields: &mut Fields<'_>) -> Self {
        let changes = fields.objects("changes", MAX_CHANGES, NewChange::FIELDS, NewChange::read);
        Self {
            changes: changes.unwrap_or_default(),
        }
    }

    fn check(&mut self, problems: &mut Violations, now: Timestamp) {
        if self.changes.is_empty() {
            problems.add(
                "/changes",
                Code::Required,
                "must contain at least one change",
            );
        }
        if !rules::at_most(problems, "/changes", &self.changes, MAX_CHANGES) {
            return;
        }
        for (index, change) in self.changes.iter_mut().enumerate() {
            let mut found = Violations::default();
            change.check(&mut found, now);
            problems.add_within(&format!("/changes/{index}"), found);
        }
    }
}

/// What changes a change; what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ChangePatch {
    /// As on create.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(
            nullable = false,
            min_length = 3,
            max_length = 300,
            pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"
        )
    )]
    pub title: Option<String>,
    /// As on create; null takes it away.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, max_length = 20000, pattern = "^([^\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f]|\\r\\n)*$"))]
    pub description: Option<Option<String>>,
    /// As on create; null takes it away.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<ServiceId>))]
    pub service_id: Option<Option<ServiceId>>,
    /// As on create; null takes it away.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<HostId>))]
    pub host_id: Option<Option<HostId>>,
    /// As on create; null leaves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<RiskLevel>,
    /// As on create; null leaves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// As on create; null takes it away.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, max_length = 20000, pattern = "^([^\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f]|\\r\\n)*$"))]
    pub impact: Option<Option<String>>,
    /// As on create, replacing the whole list; null empties it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<crate::rules::Name>>, max_items = 20))]
    pub tags: Option<Vec<String>>,
    /// As on create, replacing the whole list; null empties it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_items = 10))]
    pub links: Option<Vec<Link>>,
    /// As on create; null takes it away.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Timestamp>))]
    pub scheduled_for: Option<Option<Timestamp>>,
}

impl Input for ChangePatch {
    const FIELDS: &'static [&'static str] = &[
        "title",
        "description",
        "service_id",
        "host_id",
        "risk_level",
        "status",
        "impact",
        "tags",
        "links",
        "scheduled_for",
    ];

    fn read(fields: &mut Fields<'_>) -> Self {
        fields.refuse_immutable(
            "occurred_at",
            "cannot be changed: the id and the order of a change are derived from it",
        );
        Self {
            title: fields.patch_required_text("title"),
            description: fields.patch("description", Fields::text),
            service_id: fields.patch("service_id", Fields::parsed),
            host_id: fields.patch("host_id", Fields::parsed),
            risk_level: fields.parsed("risk_level"),
            status: fields.parsed("status"),
            impact: fields.patch("impact", Fields::text),
            tags: fields
                .patch("tags", |fields, name| fields.texts(name, MAX_TAGS))
                .map(Option::unwrap_or_default),
            links: fields
                .patch("links", read_links)
                .map(Option::unwrap_or_default),
            scheduled_for: fields.patch("scheduled_for", Fields::parsed),
        }
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        if let Some(title) = &mut self.title {
            check_title(problems, title);
        }
        if let Some(description) = &mut self.description {
            check_long(problems, "/description", description);
        }
        if let Some(impact) = &mut self.impact {
            check_long(problems, "/impact", impact);
        }
        if let Some(tags) = &mut self.tags {
            check_tags(problems, tags);
        }
        if let Some(links) = &mut self.links {
            check_links(problems, links);
        }
    }
}

fn read_links(fields: &mut Fields<'_>, name: &str) -> Option<Vec<Link>> {
    fields.objects(name, MAX_LINKS, &["label", "url"], |link| Link {
        label: link.required_text("label"),
        url: link.required_text("url"),
    })
}

fn check_title(problems: &mut Violations, title: &mut String) {
    rules::text(problems, "/title", title, 3..=300, Lines::One);
}

fn check_long(problems: &mut Violations, pointer: &str, text: &mut Option<String>) {
    rules::optional_text(problems, pointer, text, MAX_TEXT, Lines::Many);
}

fn check_tags(problems: &mut Violations, tags: &mut Vec<String>) {
    rules::names(problems, "/tags", tags, MAX_TAGS, Lines::One);
    if tags.len() > MAX_TAGS {
        return;
    }
    let mut seen = std::collections::HashSet::new();
    tags.retain(|tag| seen.insert(tag.clone()));
}

fn check_links(problems: &mut Violations, links: &mut [Link]) {
    if !rules::at_most(problems, "/links", links, MAX_LINKS) {
        return;
    }
    for (index, link) in links.iter_mut().enumerate() {
        let pointer = format!("/links/{index}/label");
        rules::text(problems, &pointer, &mut link.label, 1..=100, Lines::One);
        let pointer = format!("/links/{index}/url");
        rules::text(problems, &pointer, &mut link.url, 1..=MAX_URL, Lines::One);
        let web = url::Url::parse(&link.url)
            .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        if !web {
            let given = rules::quoted(&link.url);
            let message = format!("must be an http or https URL, got {given}");
            problems.add(pointer, Code::InvalidFormat, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::input::{InputError, from_json};

    fn now() -> Timestamp {
        "2026-11-21T08:30:00.000Z".parse().unwrap()
    }

    /// Returns the broken rules of a body, as pointer and code.
    fn broken<T: Input>(body: &Value) -> Vec<(String, Code)> {
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
    fn both(field: &str, value: &Value, expected: &[(&str, Code)]) {
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
            ("title", 300),
            ("description", MAX_TEXT),
            ("impact", MAX_TEXT),
        ] {
            let pointer = format!("/{field}");
            for letter in ["x", "é", "🚀"] {
                both(field, &json!(letter.repeat(most - 1)), &[]);
                both(field, &json!(letter.repeat(most)), &[]);
                both(field, &json!(format!(" {} ", letter.repeat(most))), &[]);
                both(
                    field,
                    &json!(letter.repeat(most + 1)),
                    &[(&pointer, Code::TooLong)],
                );
            }
        }
        for (title, expected) in [
            ("", &[("/title", Code::TooShort)][..]),
            ("ab", &[("/title", Code::TooShort)]),
            (" ab ", &[("/title", Code::TooShort)]),
            ("abc", &[]),
            ("abcd", &[]),
            ("a\nbc", &[("/title", Code::ControlCharacter)]),
            ("a\u{0}bc", &[("/title", Code::ControlCharacter)]),
        ] {
            both("title", &json!(title), expected);
        }
        both("description", &json!("a\n\tb\r\nc"), &[]);
        both(
            "impact",
            &json!("a\u{b}b"),
            &[("/impact", Code::ControlCharacter)],
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
            both(field, &list(most + 1), &[(&pointer, Code::TooMany)]);
        }
        both(
            "tags",
            &json!(vec!["same"; MAX_TAGS + 1]),
            &[("/tags", Code::TooMany)],
        );
        for (size, code) in [
            (0, Some(Code::TooShort)),
            (1, None),
            (99, None),
            (100, None),
            (101, Some(Code::TooLong)),
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
            (MAX_URL - 1, None),
            (MAX_URL, None),
            (MAX_URL + 1, Some(Code::TooLong)),
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
            let expected = [("/occurred_at".to_owned(), Code::OutOfRange)];
            assert_eq!(found, if fine { &[] } else { &expected[..] }, "{at}");
            // It cannot be changed at all.
            let found = broken::<ChangePatch>(&json!({ "occurred_at": at }));
            assert_eq!(found, [("/occurred_at".to_owned(), Code::Immutable)]);
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
        assert_eq!(found, [("/title".to_owned(), Code::Required)]);
    }
}
