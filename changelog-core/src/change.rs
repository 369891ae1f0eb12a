//! Changes: what was done, or will be, to the infrastructure.

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use crate::host::Environment;
use crate::ids::{ChangeId, HostId, OrganizationId, ServiceId};
use crate::input::{Fields, Input};
use crate::problem::{Code, Invalid, Violations};
use crate::query::{Pairs, Query};
use crate::rules::{self, Lines};
use crate::time::Timestamp;
use crate::wire_enum::wire_enum;

/// The longest description and impact, in characters.
pub const MAX_TEXT: usize = 20_000;
/// The most tags of one change.
pub const MAX_TAGS: usize = 20;
/// The most links of one change.
pub const MAX_LINKS: usize = 10;
/// The longest address of a link, in characters.
pub const MAX_URL: usize = 2_048;
/// How many changes a page has when nothing is said.
pub const DEFAULT_PER_PAGE: u64 = 25;
/// How many changes a page has at most.
pub const MAX_PER_PAGE: u64 = 100;
/// How far in the future `occurred_at` may lie, for clocks that differ.
pub const MAX_CLOCK_SKEW: TimeDelta = TimeDelta::minutes(5);

wire_enum! {
    /// How dangerous a change is.
    RiskLevel, "a risk level", example "high" {
        /// Nobody will notice.
        Low = "low",
        /// Worth watching.
        Medium = "medium",
        /// Worth being awake for.
        High = "high",
    }
}

wire_enum! {
    /// Where a change stands. Any status may follow any other.
    Status, "a status", example "completed" {
        /// Announced.
        Planned = "planned",
        /// Being done.
        InProgress = "in_progress",
        /// Done.
        Completed = "completed",
        /// Undone, or failed.
        RolledBack = "rolled_back",
    }
}

/// Something to look at beside a change: the pipeline run, the commit, the ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Link {
    /// What it is; 1 to 100 characters.
    #[cfg_attr(
        feature = "openapi",
        schema(
            min_length = 1,
            max_length = 100,
            pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$",
            example = "pipeline"
        )
    )]
    pub label: String,
    /// Where it is: an `http` or `https` address of at most 2048 characters.
    #[cfg_attr(
        feature = "openapi",
        schema(
            max_length = 2048,
            format = "uri",
            example = "https://ci.example.com/runs/42"
        )
    )]
    pub url: String,
}

/// The service of a change, as far as the change shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServiceRef {
    /// The service's id.
    pub id: ServiceId,
    /// The service's name.
    #[cfg_attr(feature = "openapi", schema(example = "payments"))]
    pub name: String,
    /// The service's color.
    #[cfg_attr(feature = "openapi", schema(example = "#6366f1"))]
    pub color: String,
}

/// The host of a change, as far as the change shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HostRef {
    /// The host's id.
    pub id: HostId,
    /// The host's name.
    #[cfg_attr(feature = "openapi", schema(example = "web-1"))]
    pub hostname: String,
    /// What the host is for.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub environment: Option<Environment>,
}

/// A change in full: the detail shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Change {
    /// Its id.
    pub id: ChangeId,
    /// What was done, in a line.
    #[cfg_attr(feature = "openapi", schema(example = "Deploy api 2.3"))]
    pub title: String,
    /// What was done, in full.
    #[cfg_attr(
        feature = "openapi",
        schema(required, example = "Rolls out the new rate limiter.")
    )]
    pub description: Option<String>,
    /// How dangerous it is.
    pub risk_level: RiskLevel,
    /// Where it stands.
    pub status: Status,
    /// What to expect from it.
    #[cfg_attr(
        feature = "openapi",
        schema(required, example = "Two minutes of read-only mode")
    )]
    pub impact: Option<String>,
    /// The service that it was made to.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub service: Option<ServiceRef>,
    /// The host that it was made on.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub host_ref: Option<HostRef>,
    /// Its tags, in the order given.
    #[cfg_attr(feature = "openapi", schema(example = json!(["terraform", "prod"])))]
    pub tags: Vec<String>,
    /// Its links, in the order given.
    pub links: Vec<Link>,
    /// When it is scheduled.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub scheduled_for: Option<Timestamp>,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// The organization that it belongs to.
    pub organization_id: OrganizationId,
    /// When it was recorded.
    pub created_at: Timestamp,
    /// When the record was last changed.
    pub updated_at: Timestamp,
}

/// What creating a change answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangeCreated {
    /// Its id.
    pub id: ChangeId,
    /// What was done, in a line.
    #[cfg_attr(feature = "openapi", schema(example = "Deploy api 2.3"))]
    pub title: String,
    /// How dangerous it is.
    pub risk_level: RiskLevel,
    /// Where it stands.
    pub status: Status,
    /// The organization that it belongs to.
    pub organization_id: OrganizationId,
    /// When it was recorded.
    pub created_at: Timestamp,
}

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
            tags: fields.texts("tags").unwrap_or_default(),
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
                let message = format!(
                    "must be at most 5 minutes ahead of the service's clock, which says {now}, got {at}"
                );
                problems.add("/occurred_at", Code::OutOfRange, message);
            } else if at < Timestamp::EPOCH {
                let message = format!("must be {} or later, got {at}", Timestamp::EPOCH);
                problems.add("/occurred_at", Code::OutOfRange, message);
            }
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
            "cannot be changed: a change's id and its place in the list are made from it",
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
                .patch("tags", Fields::texts)
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
    fields.objects(name, &["label", "url"], |link| Link {
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
    rules::names(problems, "/tags", tags, MAX_TAGS);
    let mut seen = std::collections::HashSet::new();
    tags.retain(|tag| seen.insert(tag.clone()));
}

fn check_links(problems: &mut Violations, links: &mut [Link]) {
    rules::at_most(problems, "/links", links, MAX_LINKS);
    for (index, link) in links.iter_mut().enumerate() {
        let pointer = format!("/links/{index}/label");
        rules::text(problems, &pointer, &mut link.label, 1..=100, Lines::One);
        let pointer = format!("/links/{index}/url");
        rules::text(problems, &pointer, &mut link.url, 1..=MAX_URL, Lines::One);
        let web = url::Url::parse(&link.url)
            .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        if !web {
            let given = rules::quoted(&link.url);
            let message = format!("must be an http or https address, got {given}");
            problems.add(pointer, Code::InvalidFormat, message);
        }
    }
}

/// Which changes to list, and which page of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeFilter {
    /// The page, from 1.
    pub page: u64,
    /// How many a page, 1 to [`MAX_PER_PAGE`].
    pub per_page: u64,
    /// Only those whose title has, for every word of this, a word that begins so.
    pub q: Option<String>,
    /// Only of this service.
    pub service_id: Option<ServiceId>,
    /// Only on this host.
    pub host_id: Option<HostId>,
    /// Only of this risk.
    pub risk_level: Option<RiskLevel>,
    /// Only of this status.
    pub status: Option<Status>,
    /// Only with all of these tags, each spelled exactly so.
    pub tags: Vec<String>,
    /// Only what happened then or later.
    pub since: Option<Timestamp>,
    /// Only what happened before then.
    pub until: Option<Timestamp>,
    /// Continue after this change (towards older ones), for walking everything
    /// without the drift that pages have; `count` stays that of the whole list.
    pub before: Option<ChangeId>,
}

impl Default for ChangeFilter {
    fn default() -> Self {
        Self {
            page: 1,
            per_page: DEFAULT_PER_PAGE,
            q: None,
            service_id: None,
            host_id: None,
            risk_level: None,
            status: None,
            tags: Vec::new(),
            since: None,
            until: None,
            before: None,
        }
    }
}

impl ChangeFilter {
    /// Reads a query string; a `per_page` above the maximum becomes the maximum.
    pub fn from_query(raw: &str) -> Result<Self, Invalid> {
        let mut query = Query::new(raw);
        let filter = Self {
            page: query.number("page", 1).unwrap_or(1),
            per_page: query
                .number("per_page", 1)
                .unwrap_or(DEFAULT_PER_PAGE)
                .min(MAX_PER_PAGE),
            q: query.one("q"),
            service_id: query.parsed("service_id"),
            host_id: query.parsed("host_id"),
            risk_level: query.parsed("risk_level"),
            status: query.parsed("status"),
            tags: query.all("tag"),
            since: query.parsed("since"),
            until: query.parsed("until"),
            before: query.parsed("before"),
        };
        if filter.tags.len() > MAX_TAGS {
            let message = format!(
                "must stand at most {MAX_TAGS} times, got {}",
                filter.tags.len()
            );
            query.add("tag", Code::TooMany, message);
        }
        query.finish(filter)
    }

    /// Writes the query string that [`Self::from_query`] reads.
    pub fn to_query(&self) -> String {
        let mut pairs = Pairs::default();
        pairs.push("page", self.page);
        pairs.push("per_page", self.per_page);
        pairs.push_some("q", self.q.as_ref());
        pairs.push_some("service_id", self.service_id);
        pairs.push_some("host_id", self.host_id);
        pairs.push_some("risk_level", self.risk_level.as_ref());
        pairs.push_some("status", self.status.as_ref());
        for tag in &self.tags {
            pairs.push("tag", tag);
        }
        pairs.push_some("since", self.since);
        pairs.push_some("until", self.until);
        pairs.push_some("before", self.before);
        pairs.finish()
    }

    /// Returns the words of `q`, folded as titles are; none means no search.
    pub fn words(&self) -> Vec<String> {
        self.q
            .as_deref()
            .map(crate::text::words)
            .unwrap_or_default()
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

    #[test]
    fn what_a_client_writes_is_what_the_service_reads() {
        let id = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";
        let filter = ChangeFilter {
            page: 3,
            per_page: 100,
            q: Some("50% & more=?#".into()),
            service_id: id.parse().ok(),
            host_id: id.parse().ok(),
            risk_level: Some(RiskLevel::High),
            status: Some(Status::RolledBack),
            tags: vec!["a b".into(), "ä&=".into()],
            since: Some(now()),
            until: Some(now()),
            before: id.parse().ok(),
        };
        assert_eq!(ChangeFilter::from_query(&filter.to_query()), Ok(filter));
        assert_eq!(ChangeFilter::from_query(""), Ok(ChangeFilter::default()));
        let defaults = ChangeFilter::default();
        assert_eq!(ChangeFilter::from_query(&defaults.to_query()), Ok(defaults));
    }

    #[test]
    fn pages_at_their_limits() {
        let read = |query: &str| ChangeFilter::from_query(query).map(|f| (f.page, f.per_page));
        for (query, expected) in [
            ("page=1", (1, 25)),
            ("page=2", (2, 25)),
            ("page=18446744073709551615", (u64::MAX, 25)),
            ("page=18446744073709551616", (u64::MAX, 25)),
            ("per_page=1", (1, 1)),
            ("per_page=99", (1, 99)),
            ("per_page=100", (1, 100)),
            ("per_page=101", (1, 100)),
        ] {
            assert_eq!(read(query), Ok(expected), "{query}");
        }
        for query in [
            "page=0",
            "page=-1",
            "page=1e3",
            "page=+5",
            "page=%205",
            "per_page=0",
        ] {
            assert!(read(query).is_err(), "{query}");
        }
    }
}
