//! Input for creating and updating changes, with its rules.

use std::collections::HashSet;

use serde::Serialize;

use super::fields::{FIELDS, FieldKind, NAMES, long_texts};
use super::{Change, Link, RiskLevel, Status, link};
use crate::ids::{ChangeId, HostId, OrganizationId, ServiceId};
use crate::input::{Input, ObjectReader};
use crate::limits::{
    MAX_BULK_CHANGES, MAX_CLOCK_SKEW, MAX_LONG_TEXT_CHARS, MAX_TAGS, MAX_TITLE_CHARS,
    MIN_TITLE_CHARS,
};
use crate::problem::{ViolationCode, Violations};
use crate::rules::{self, TextKind};
use crate::time::Timestamp;

/// Input for creating a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewChange {
    /// What was done, in one line.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Title))]
    pub title: String,
    /// What was done and how to undo it, in Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::LongText>))]
    pub description: Option<String>,
    /// A service of the organization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_id: Option<ServiceId>,
    /// A host of the organization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_id: Option<HostId>,
    /// The risk level; `low` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<RiskLevel>,
    /// The status; `planned` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// What to expect from the change, in Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::LongText>))]
    pub impact: Option<String>,
    /// The tags; duplicates are removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Tags>))]
    pub tags: Vec<String>,
    /// The links.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Links>))]
    pub links: Vec<Link>,
    /// The time for which the change is scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_for: Option<Timestamp>,
    /// The time at which the change happened; now by default. From 1970 until 5
    /// minutes after the server time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(example = "2026-01-15T08:30:00.000Z"))]
    pub occurred_at: Option<Timestamp>,
}

impl Input for NewChange {
    const FIELDS: &'static [&'static str] = &NAMES;

    fn read(object: &mut ObjectReader<'_>) -> Self {
        let mut new = Self {
            title: object.required_string("title"),
            service_id: object.parsed("service_id"),
            host_id: object.parsed("host_id"),
            risk_level: object.parsed("risk_level"),
            status: object.parsed("status"),
            tags: object.strings("tags", MAX_TAGS).unwrap_or_default(),
            links: link::read(object, "links").unwrap_or_default(),
            scheduled_for: object.parsed("scheduled_for"),
            occurred_at: object.parsed("occurred_at"),
            ..Self::default()
        };
        for (name, text) in long_texts() {
            *(text.of_new_mut)(&mut new) = object.string(name);
        }
        new
    }

    fn check(&mut self, problems: &mut Violations, now: Timestamp) {
        check_title(problems, &mut self.title);
        for (name, text) in long_texts() {
            check_long_text(problems, name, (text.of_new_mut)(self));
        }
        check_tags(problems, &mut self.tags);
        link::check(problems, &mut self.links);
        if let Some(at) = self.occurred_at {
            let latest = now.plus(MAX_CLOCK_SKEW);
            let minutes = MAX_CLOCK_SKEW.num_minutes();
            if at > latest {
                let message = format!(
                    "must be at most {minutes} minutes after the server time ({now}), got {at}"
                );
                problems.add("/occurred_at", ViolationCode::OutOfRange, message);
            } else if at < Timestamp::EPOCH {
                let message = format!("must be {} or later, got {at}", Timestamp::EPOCH);
                problems.add("/occurred_at", ViolationCode::OutOfRange, message);
            }
        }
    }
}

impl NewChange {
    /// Returns the change that this input creates, without its service and host,
    /// whose names the input does not have.
    pub fn into_change(
        self,
        id: ChangeId,
        organization_id: OrganizationId,
        now: Timestamp,
    ) -> Change {
        Change {
            id,
            title: self.title,
            description: self.description,
            risk_level: self.risk_level.unwrap_or(RiskLevel::Low),
            status: self.status.unwrap_or(Status::Planned),
            impact: self.impact,
            service: None,
            host_ref: None,
            tags: self.tags,
            links: self.links,
            scheduled_for: self.scheduled_for,
            occurred_at: self.occurred_at.unwrap_or(now),
            organization_id,
            created_at: now,
            updated_at: now,
        }
    }
}

/// Input for creating several changes: all of them, or none when one is invalid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewChanges {
    /// The changes, in the order in which they are created.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::NewChanges))]
    pub changes: Vec<NewChange>,
}

impl Input for NewChanges {
    const FIELDS: &'static [&'static str] = &["changes"];

    fn read(object: &mut ObjectReader<'_>) -> Self {
        let changes = object.objects(
            "changes",
            MAX_BULK_CHANGES,
            NewChange::FIELDS,
            NewChange::read,
        );
        Self {
            changes: changes.unwrap_or_default(),
        }
    }

    fn check(&mut self, problems: &mut Violations, now: Timestamp) {
        if self.changes.is_empty() {
            let message = "must contain at least one change";
            problems.add("/changes", ViolationCode::Required, message);
        }
        if !rules::at_most(problems, "/changes", &self.changes, MAX_BULK_CHANGES) {
            return;
        }
        for (index, change) in self.changes.iter_mut().enumerate() {
            let mut found = Violations::default();
            change.check(&mut found, now);
            problems.add_within(&format!("/changes/{index}"), found);
        }
    }
}

/// Input for updating a change. Absent fields keep their value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ChangePatch {
    /// The new title.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Title, required = false))]
    pub title: Option<String>,
    /// The new description; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::LongText>))]
    pub description: Option<Option<String>>,
    /// The new service; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<ServiceId>))]
    pub service_id: Option<Option<ServiceId>>,
    /// The new host; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<HostId>))]
    pub host_id: Option<Option<HostId>>,
    /// The new risk level; null keeps the present one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<RiskLevel>,
    /// The new status; null keeps the present one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The new impact; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::LongText>))]
    pub impact: Option<Option<String>>,
    /// The new tags, which replace all tags; null removes all tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Tags>))]
    pub tags: Option<Vec<String>>,
    /// The new links, which replace all links; null removes all links.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Links>))]
    pub links: Option<Vec<Link>>,
    /// The new scheduled time; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Timestamp>))]
    pub scheduled_for: Option<Option<Timestamp>>,
}

impl Input for ChangePatch {
    /// All but the last one, `occurred_at`.
    const FIELDS: &'static [&'static str] = NAMES.split_at(NAMES.len() - 1).0;

    fn read(object: &mut ObjectReader<'_>) -> Self {
        object.refuse_immutable(
            "occurred_at",
            "cannot be changed: the id and the order of a change are derived from it",
        );
        let mut patch = Self {
            title: object.patch_required_string("title"),
            service_id: object.patch("service_id", ObjectReader::parsed),
            host_id: object.patch("host_id", ObjectReader::parsed),
            risk_level: object.parsed("risk_level"),
            status: object.parsed("status"),
            tags: object
                .patch("tags", |object, name| object.strings(name, MAX_TAGS))
                .map(Option::unwrap_or_default),
            links: object
                .patch("links", link::read)
                .map(Option::unwrap_or_default),
            scheduled_for: object.patch("scheduled_for", ObjectReader::parsed),
            ..Self::default()
        };
        for (name, text) in long_texts() {
            *(text.of_patch_mut)(&mut patch) = object.patch(name, ObjectReader::string);
        }
        patch
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        if let Some(title) = &mut self.title {
            check_title(problems, title);
        }
        for (name, text) in long_texts() {
            if let Some(text) = (text.of_patch_mut)(self) {
                check_long_text(problems, name, text);
            }
        }
        if let Some(tags) = &mut self.tags {
            check_tags(problems, tags);
        }
        if let Some(links) = &mut self.links {
            link::check(problems, links);
        }
    }
}

impl ChangePatch {
    /// Sets the fields of a change that this update has, except the service and
    /// the host, whose names the update does not have.
    pub fn apply(mut self, change: &mut Change) {
        fn set<T>(value: &mut T, new: Option<T>) {
            if let Some(new) = new {
                *value = new;
            }
        }
        for field in FIELDS {
            match field.kind {
                FieldKind::Title => set(&mut change.title, self.title.take()),
                FieldKind::LongText(text) => {
                    set((text.of_mut)(change), (text.of_patch_mut)(&mut self).take());
                }
                FieldKind::RiskLevel => set(&mut change.risk_level, self.risk_level.take()),
                FieldKind::Status => set(&mut change.status, self.status.take()),
                FieldKind::Tags => set(&mut change.tags, self.tags.take()),
                FieldKind::Links => set(&mut change.links, self.links.take()),
                FieldKind::ScheduledFor => {
                    set(&mut change.scheduled_for, self.scheduled_for.take());
                }
                FieldKind::Service | FieldKind::Host | FieldKind::OccurredAt => {}
            }
        }
    }
}

fn check_title(problems: &mut Violations, title: &mut String) {
    let chars = MIN_TITLE_CHARS..=MAX_TITLE_CHARS;
    rules::text(problems, "/title", title, chars, TextKind::Line);
}

fn check_tags(problems: &mut Violations, tags: &mut Vec<String>) {
    rules::names(problems, "/tags", tags, MAX_TAGS, TextKind::Line);
    if tags.len() > MAX_TAGS {
        return;
    }
    let mut seen = HashSet::new();
    tags.retain(|tag| seen.insert(tag.clone()));
}

fn check_long_text(problems: &mut Violations, name: &str, text: &mut Option<String>) {
    let pointer = format!("/{name}");
    let kind = TextKind::MultiLine;
    rules::optional_text(problems, &pointer, text, MAX_LONG_TEXT_CHARS, kind);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use chrono::TimeDelta;

    use super::*;
    use crate::input::{InputError, from_json};
    use crate::limits::{MAX_LINKS, MAX_NAME_CHARS, MAX_URL_CHARS};

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
}
