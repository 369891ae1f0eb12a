//! Forms: what was typed, as the JSON object that the API would receive, so that
//! both have the same rules; and the errors, next to their fields, with everything
//! that was typed still there.

use std::collections::BTreeMap;

use changelog_core::input::from_object;
use changelog_core::{Input, Invalid, Link, ProblemCode, Timestamp, list};
use serde_json::{Map, Value, json};

use super::zone::{self, Zone};
use crate::blocking_pool;
use crate::web::body::MAX_BODY_BYTES;
use crate::web::{ApiError, Request};

/// The maximum number of fields; no page has half as many. Each lookup of a field
/// goes through all of them.
const MAX_FIELDS: usize = 100;
/// The media type of a form.
const FORM_TYPE: &str = "application/x-www-form-urlencoded";
/// The limit on a body: of what the API takes, each byte may be written as three.
const MAX_FORM_BYTES: usize = 3 * MAX_BODY_BYTES;

/// The end of the name of the hidden field with the moment that a field for a time shows.
pub(crate) const MOMENT: &str = "_moment";

/// A submitted form.
#[derive(Clone, Debug, Default)]
pub(crate) struct Form {
    values: Vec<(String, String)>,
    /// The field in which typing begins, if nothing was refused.
    focus: &'static str,
    /// The error messages of each field; those of the whole form are under "".
    errors: BTreeMap<String, Vec<String>>,
}

/// A field of a form, which is a member of the API's object. A name with a slash is that of
/// a member of an object in it, such as `templates/title`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: FieldKind,
    pub(crate) label: &'static str,
    /// Explains the field below it; may be empty.
    pub(crate) hint: &'static str,
    /// The list of names that completes what is typed, as in `/names/LIST`.
    pub(crate) names: Option<&'static str>,
}

/// How a field is shown, and how it becomes JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FieldKind {
    /// A line of text that is not optional.
    Required,
    /// A line of text; null when it is empty.
    Optional,
    /// Several lines of text; null when they are empty.
    LongText,
    /// Names, separated by commas.
    List,
    /// One string per line.
    Lines,
    /// One `label=url` per line.
    Links,
    /// A box, which is sent only if it is checked.
    Checkbox,
    /// Words with a box each, of which those that are checked are sent.
    Boxes,
    /// A color; it always has a value.
    Color,
    /// A time in the form's zone as browsers send it, or in RFC 3339.
    Time,
    /// One of some words.
    Choice {
        words: &'static [&'static str],
        /// The label of the empty choice, where there is one.
        none: Option<&'static str>,
    },
}

impl Field {
    pub(crate) const fn new(name: &'static str, kind: FieldKind, label: &'static str) -> Self {
        Self {
            name,
            kind,
            label,
            hint: "",
            names: None,
        }
    }

    pub(crate) const fn hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    pub(crate) const fn completed_from(self, names: &'static str) -> Self {
        Self {
            names: Some(names),
            ..self
        }
    }

    /// Returns a required field that the template writes itself, with its label.
    pub(crate) const fn required(name: &'static str) -> Self {
        Self::new(name, FieldKind::Required, "")
    }

    pub(crate) fn is_required(&self) -> bool {
        matches!(self.kind, FieldKind::Required)
    }

    /// Whether the field takes several names.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.kind, FieldKind::List)
    }

    pub(crate) fn is_multiline(&self) -> bool {
        matches!(
            self.kind,
            FieldKind::LongText | FieldKind::Lines | FieldKind::Links
        )
    }

    pub(crate) fn is_checkbox(&self) -> bool {
        matches!(self.kind, FieldKind::Checkbox)
    }

    /// Whether a form without the field says that it has no value: browsers do not send
    /// boxes that are not checked.
    pub(crate) fn is_sent_only_checked(&self) -> bool {
        matches!(self.kind, FieldKind::Checkbox | FieldKind::Boxes)
    }

    /// Returns the words of a choice and the label of the empty one.
    pub(crate) fn choices(&self) -> Option<(&'static [&'static str], &'static str)> {
        match self.kind {
            FieldKind::Choice { words, none } => Some((words, none.unwrap_or_default())),
            _ => None,
        }
    }

    /// Returns the type of the HTML input.
    pub(crate) fn input_type(&self) -> &'static str {
        match self.kind {
            FieldKind::Time => "datetime-local",
            FieldKind::Color => "color",
            _ => "text",
        }
    }
}

impl Request {
    /// Reads the form in the body.
    pub(crate) async fn form(&self) -> Result<Form, ApiError> {
        let body = self.body_of_type(FORM_TYPE, MAX_FORM_BYTES).await?;
        let size = body.len();
        let form = blocking_pool::run_sized(size, move || Form::parse(&body)).await;
        if form.values.len() > MAX_FIELDS {
            return Err(ApiError::new(ProblemCode::MalformedBody, too_many_fields()));
        }
        Ok(form)
    }

    /// Waits until the form in the body has arrived, if there is one.
    pub(crate) async fn receive_form(&self) -> Result<(), ApiError> {
        if self.is_of_type(FORM_TYPE) {
            let body = self.raw_body(MAX_FORM_BYTES).await?;
            self.received.get_or_init(|| body);
        }
        Ok(())
    }

    /// Reads the query string as a form.
    pub(crate) fn query_form(&self) -> Form {
        let mut form = Form::parse(self.query.as_bytes());
        if form.values.len() > MAX_FIELDS {
            form.values.clear();
            form = form.refuse_field("", too_many_fields());
        }
        form
    }
}

fn too_many_fields() -> String {
    format!("a form must have at most {MAX_FIELDS} fields")
}

impl Form {
    /// Reads at most [`MAX_FIELDS`] and one more.
    fn parse(encoded: &[u8]) -> Self {
        let pairs = form_urlencoded::parse(encoded).into_owned();
        Self {
            values: pairs.take(MAX_FIELDS + 1).collect(),
            ..Self::default()
        }
    }

    /// Creates a form with values.
    pub(crate) fn with_values<'n>(values: impl IntoIterator<Item = (&'n str, String)>) -> Self {
        Self {
            values: values
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            ..Self::default()
        }
    }

    /// Sets the field in which typing begins.
    pub(crate) fn focused_on(mut self, name: &'static str) -> Self {
        self.focus = name;
        self
    }

    /// Returns whether typing begins in a field: of several with errors, browsers choose
    /// the first.
    pub(crate) fn is_focused(&self, name: &str) -> bool {
        if self.is_refused() {
            return self.has_errors(name);
        }
        self.focus == name
    }

    /// Replaces the value of a field.
    pub(crate) fn set(&mut self, name: &str, value: String) {
        self.remove(name);
        self.values.push((name.to_owned(), value));
    }

    /// Removes a field.
    pub(crate) fn remove(&mut self, name: &str) {
        self.values.retain(|(found, _)| found != name);
    }

    /// Removes all fields but these.
    pub(crate) fn retain(&mut self, names: &[&str]) {
        self.values
            .retain(|(found, _)| names.contains(&found.as_str()));
    }

    /// Adds the fields of another form that were not sent in this one.
    pub(crate) fn with_missing(mut self, other: Self) -> Self {
        let sent = self.values.len();
        for (name, value) in other.values {
            if !self.values[..sent].iter().any(|(found, _)| *found == name) {
                self.values.push((name, value));
            }
        }
        self
    }

    /// Returns whether a field that takes several words has this one. Words may be
    /// separated by commas, or be values of their own.
    pub(crate) fn is_chosen(&self, name: &str, word: &str) -> bool {
        self.pairs()
            .filter(|(found, _)| *found == name)
            .any(|(_, value)| value.split(',').any(|given| given.trim() == word))
    }

    /// Joins the words of [`FieldKind::Boxes`], of which each is sent by itself, with commas.
    pub(crate) fn join(&mut self, fields: &[Field]) {
        let has_boxes = |field: &&Field| matches!(field.kind, FieldKind::Boxes);
        for field in fields.iter().filter(has_boxes) {
            let values = self.pairs().filter(|(found, _)| *found == field.name);
            let values: Vec<&str> = values.map(|(_, value)| value).collect();
            if values.len() > 1 {
                let joined = values.join(",");
                self.set(field.name, joined);
            }
        }
    }

    /// Returns the first value of a field; empty when it was not sent.
    pub(crate) fn value(&self, name: &str) -> &str {
        self.sent(name).unwrap_or_default()
    }

    /// Returns whether a field was sent, even if it is empty.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.sent(name).is_some()
    }

    fn sent(&self, name: &str) -> Option<&str> {
        let found = self.values.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Shows a moment in a field for a time, and remembers it.
    pub(crate) fn show_time(&mut self, name: &str, at: Option<Timestamp>, zone: Zone) {
        let (shown, moment) = match at {
            Some(at) => (zone.field(&at), zone::rfc3339(at)),
            None => Default::default(),
        };
        self.set(name, shown);
        self.set(&format!("{name}{MOMENT}"), moment);
    }

    /// Returns the moment that a field for a time was shown with; empty if it was not sent.
    pub(crate) fn moment(&self, name: &str) -> &str {
        self.value(&format!("{name}{MOMENT}"))
    }

    /// Converts the value of a field for a time to RFC 3339. One that was left as it was shown
    /// is the moment that [`Self::show_time`] remembered: fields have no milliseconds, and an
    /// hour may come twice.
    pub(crate) fn time(&self, name: &str, value: &str) -> String {
        let (zone, moment) = (self.zone(), self.moment(name));
        let typed = zone.parse_field(value.trim());
        match moment.parse::<Timestamp>() {
            Ok(at) if zone.parse_field(&zone.field(&at)) == typed => moment.to_owned(),
            _ => typed,
        }
    }

    /// Returns the zone that the times of the form are in.
    pub(crate) fn zone(&self) -> Zone {
        Zone::named(self.value(zone::FIELD), Timestamp::EPOCH)
    }

    /// Returns the zone that the times of the form are in, or that of its reader if it does
    /// not name one: a button sends times in RFC 3339.
    pub(crate) fn zone_or(&self, reader: Zone) -> Zone {
        if self.has(zone::FIELD) {
            self.zone()
        } else {
            reader
        }
    }

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "templates pass references"
    )]
    /// Returns the name of the zone for a form that is shown again, or for the first
    /// time to a reader.
    pub(crate) fn zone_name<'z>(&'z self, reader: &Zone) -> &'z str {
        self.sent(zone::FIELD).unwrap_or_else(|| reader.name())
    }

    /// Returns every field with its value.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.values.iter();
        pairs.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Reads the form as input for creating something: empty fields are absent.
    pub(crate) async fn create<T: Input + Send + 'static>(
        &self,
        fields: &'static [Field],
        now: Timestamp,
    ) -> Result<T, Invalid> {
        self.read(fields, now, |value| !value.is_null()).await
    }

    /// Reads the form as an update: fields that were not sent keep their value,
    /// empty fields are cleared.
    pub(crate) async fn patch<T: Input + Send + 'static>(
        &self,
        fields: &'static [Field],
        now: Timestamp,
    ) -> Result<T, Invalid> {
        self.read(fields, now, |_| true).await
    }

    /// Reads a large form on the blocking pool.
    async fn read<T: Input + Send + 'static>(
        &self,
        fields: &'static [Field],
        now: Timestamp,
        keep: fn(&Value) -> bool,
    ) -> Result<T, Invalid> {
        let size = self.values.iter().map(|(_, value)| value.len()).sum();
        let form = self.clone();
        let read = move || {
            let mut object = form.object(fields);
            object.retain(|_, value| keep(value));
            from_object(object, now)
        };
        blocking_pool::run_sized(size, read).await
    }

    fn object(&self, fields: &[Field]) -> Map<String, Value> {
        let zone = self.zone();
        let mut object = Map::new();
        for field in fields {
            let Some(text) = self.sent(field.name) else {
                continue;
            };
            let value = field.kind.to_json(text, zone);
            match field.name.split_once('/') {
                None => {
                    object.insert(field.name.to_owned(), value);
                }
                Some((outer, name)) => {
                    let nested = object.entry(outer).or_insert_with(|| json!({}));
                    nested[name] = value;
                }
            }
        }
        object
    }

    /// Adds the violations to the errors.
    pub(crate) fn refuse(mut self, invalid: &Invalid) -> Self {
        for violation in &invalid.violations {
            // A JSON Pointer or a query parameter.
            let name = violation.pointer.trim_start_matches('/');
            if name.contains('/') && self.has(name) {
                self = self.refuse_field(name, &violation.message);
                continue;
            }
            let mut tokens = violation.pointer.split(['/', '?']).skip(1);
            let field = tokens.next().unwrap_or_default().to_owned();
            let message = match tokens.next().and_then(|index| index.parse::<usize>().ok()) {
                Some(index) => {
                    let noun = match field.as_str() {
                        "links" => "link",
                        "tags" => "tag",
                        "service_ids" | "depends_on" => "service",
                        "environments" | "workflows" => "line",
                        _ => "number",
                    };
                    format!("{noun} {}: {}", index + 1, violation.message)
                }
                None => violation.message.clone(),
            };
            self.errors.entry(field).or_default().push(message);
        }
        if invalid.more > 0 {
            let message = format!("{} more errors", invalid.more);
            self.errors.entry(String::new()).or_default().push(message);
        }
        self
    }

    /// Adds an error to a field, or with "" to the whole form.
    pub(crate) fn refuse_field(mut self, field: &str, message: impl Into<String>) -> Self {
        let messages = self.errors.entry(field.to_owned()).or_default();
        messages.push(message.into());
        self
    }

    pub(crate) fn is_refused(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Returns the error messages of the whole form.
    pub(crate) fn general(&self) -> &[String] {
        self.errors("")
    }

    /// Returns the error messages of a field.
    pub(crate) fn errors(&self, name: &str) -> &[String] {
        self.errors.get(name).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn has_errors(&self, name: &str) -> bool {
        !self.errors(name).is_empty()
    }

    /// Returns the ids of the elements with the error messages of a field.
    pub(crate) fn described_by(&self, name: &str) -> String {
        let ids = (1..=self.errors(name).len()).map(|number| format!("{name}-error-{number}"));
        ids.collect::<Vec<_>>().join(" ")
    }
}

impl FieldKind {
    pub(super) fn to_json(self, text: &str, zone: Zone) -> Value {
        match self {
            Self::Required => json!(text),
            _ if text.trim().is_empty() => Value::Null,
            Self::Optional | Self::LongText | Self::Color | Self::Choice { .. } => {
                json!(text.replace("\r\n", "\n"))
            }
            Self::List | Self::Boxes => list::parse(text).into(),
            Self::Lines => {
                let lines = text.lines().map(str::trim);
                lines.filter(|line| !line.is_empty()).collect()
            }
            Self::Checkbox => json!(true),
            Self::Links => {
                let lines = text.lines().map(str::trim);
                lines
                    .filter(|line| !line.is_empty())
                    .map(parse_link)
                    .collect()
            }
            Self::Time => json!(zone.parse_field(text.trim())),
        }
    }
}

/// Reads a line of a field for links.
fn parse_link(line: &str) -> Value {
    match line.parse::<Link>() {
        Ok(parsed) => json!(parsed),
        // The rules for changes report it with its number.
        Err(_) => json!({ "label": Link::DEFAULT_LABEL, "url": line }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_become_the_json_of_the_api() {
        for (kind, text, expected) in [
            (FieldKind::Required, "", json!("")),
            (FieldKind::Optional, " ", Value::Null),
            (FieldKind::Optional, "a\r\nb", json!("a\nb")),
            (FieldKind::List, " a, b ,, c", json!(["a", "b", "c"])),
            (FieldKind::List, " , ", json!([])),
            (
                FieldKind::List,
                "a,\"b, c\",\"d\"\"e\"",
                json!(["a", "b, c", "d\"e"]),
            ),
            (FieldKind::Lines, "a=b\r\n\n c ", json!(["a=b", "c"])),
            (FieldKind::Checkbox, "on", json!(true)),
            (
                FieldKind::Links,
                "run = https://a/b?c=d\r\n\r\nhttps://e/?f=g",
                json!([{"label": "run", "url": "https://a/b?c=d"},
                       {"label": "link", "url": "https://e/?f=g"}]),
            ),
            (
                FieldKind::Time,
                "2026-11-21T08:30",
                json!("2026-11-21T08:30:00Z"),
            ),
            (
                FieldKind::Time,
                "2026-11-21T08:30:05",
                json!("2026-11-21T08:30:05Z"),
            ),
            (
                FieldKind::Time,
                "2026-11-21T08:30:05.123",
                json!("2026-11-21T08:30:05.123Z"),
            ),
            (
                FieldKind::Time,
                "2026-11-21T08:30:05+01:00",
                json!("2026-11-21T08:30:05+01:00"),
            ),
            (FieldKind::Time, "soon", json!("soon")),
        ] {
            assert_eq!(
                kind.to_json(text, Form::default().zone()),
                expected,
                "{text:?}"
            );
        }
    }

    #[test]
    fn times_that_were_left_as_shown_are_the_same_moments() {
        let zone = Zone::named("Europe/Berlin", Timestamp::EPOCH);
        // The second 02:30 of that night, and milliseconds.
        for moment in ["2026-10-25T01:30:00Z", "2026-11-22T11:05:09.250Z"] {
            let mut form = Form::with_values([(zone::FIELD, zone.name().to_owned())]);
            form.show_time("since", moment.parse().ok(), zone);
            let shown = form.value("since");
            assert_eq!(form.time("since", shown), moment);
            // Browsers leave out seconds that are zero.
            assert_eq!(form.time("since", shown.trim_end_matches(":00")), moment);
            let other = form.time("since", "2026-11-01T08:00");
            assert_eq!(other, "2026-11-01T07:00:00Z");
        }
    }

    #[test]
    fn names_with_a_slash_are_members_of_objects() {
        const FIELDS: &[Field] = &[
            Field::required("name"),
            Field::required("templates/title"),
            Field::required("templates/status"),
        ];
        let form = Form::with_values([
            ("name", "a".to_owned()),
            ("templates/title", "b".to_owned()),
        ]);
        let expected = json!({ "name": "a", "templates": { "title": "b" } });
        assert_eq!(Value::Object(form.object(FIELDS)), expected);
        let mut problems = changelog_core::Violations::default();
        let code = changelog_core::ViolationCode::TooLong;
        problems.add("/templates/title", code, "is too long");
        let invalid = problems.into_result(()).expect_err("a violation");
        assert!(form.refuse(&invalid).has_errors("templates/title"));
    }
}
