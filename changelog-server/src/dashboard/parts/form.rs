//! Forms: what was typed, as the JSON object that the API would have been sent,
//! so that both have the same rules; and what was wrong with it, beside its
//! field, with everything that was typed still there.

use std::collections::BTreeMap;

use changelog_core::input::from_object;
use changelog_core::{Input, Invalid, ProblemCode, Timestamp};
use serde_json::{Map, Value, json};

use crate::web::{ApiError, Request, blocking_pool};

/// How many fields a form may have; no page has half as many. A field is looked
/// up by going through all of them.
const MAX_FIELDS: usize = 100;

/// The fields of a form that was sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Form {
    values: Vec<(String, String)>,
    /// What was wrong, by field; what belongs to none is under "".
    errors: BTreeMap<String, Vec<String>>,
}

/// How a field of a form becomes a member of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A text that must be there.
    Required,
    /// A text; nothing when it is empty.
    Optional,
    /// Names with commas between them.
    List,
    /// One `label=address` a line.
    Links,
    /// A moment as browsers give it, in UTC, or RFC 3339.
    Moment,
}

impl Request {
    /// Reads the form that was sent.
    pub(crate) async fn form(&mut self) -> Result<Form, ApiError> {
        let body = self
            .body_of_type("application/x-www-form-urlencoded")
            .await?;
        let size = body.len();
        let form = blocking_pool::run_sized(size, move || Form::of(&body)).await;
        if form.values.len() > MAX_FIELDS {
            return Err(ApiError::new(ProblemCode::MalformedBody, too_many_fields()));
        }
        Ok(form)
    }

    /// Reads the query string as the form that it was sent by.
    pub(crate) fn query_form(&self) -> Form {
        let mut form = Form::of(self.query.as_bytes());
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
    /// Reads at most one field more than a form may have.
    fn of(encoded: &[u8]) -> Self {
        let pairs = form_urlencoded::parse(encoded).into_owned();
        Self {
            values: pairs.take(MAX_FIELDS + 1).collect(),
            errors: BTreeMap::new(),
        }
    }

    /// Makes a form that shows values.
    pub(crate) fn showing<const N: usize>(values: [(&str, String); N]) -> Self {
        Self {
            values: values
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            errors: BTreeMap::new(),
        }
    }

    /// Returns the first value of a field; empty when it was not sent.
    pub(crate) fn value(&self, name: &str) -> &str {
        self.sent(name).unwrap_or_default()
    }

    /// Returns whether a field was sent, be it empty.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.sent(name).is_some()
    }

    fn sent(&self, name: &str) -> Option<&str> {
        let found = self.values.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns every field with its value.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.values.iter();
        pairs.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Reads the form as what makes something: what is empty is absent.
    pub(crate) async fn create<T: Input + Send + 'static>(
        &self,
        fields: &'static [(&str, Kind)],
        now: Timestamp,
    ) -> Result<T, Invalid> {
        self.read(fields, now, |value| !value.is_null()).await
    }

    /// Reads the form as what changes something: what was not sent stays, what
    /// is empty goes.
    pub(crate) async fn patch<T: Input + Send + 'static>(
        &self,
        fields: &'static [(&str, Kind)],
        now: Timestamp,
    ) -> Result<T, Invalid> {
        self.read(fields, now, |_| true).await
    }

    /// Reads a large form on the blocking pool.
    async fn read<T: Input + Send + 'static>(
        &self,
        fields: &'static [(&str, Kind)],
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

    fn object(&self, fields: &[(&str, Kind)]) -> Map<String, Value> {
        let sent = fields.iter().filter_map(|(name, kind)| {
            let text = self.sent(name)?;
            Some(((*name).to_owned(), kind.read(text)))
        });
        sent.collect()
    }

    /// Notes what was wrong.
    pub(crate) fn refuse(mut self, invalid: &Invalid) -> Self {
        for violation in &invalid.violations {
            // A JSON Pointer, or a parameter of the address.
            let mut tokens = violation.pointer.split(['/', '?']).skip(1);
            let field = tokens.next().unwrap_or_default().to_owned();
            let message = match tokens.next().and_then(|index| index.parse::<usize>().ok()) {
                Some(index) => format!("number {}: {}", index + 1, violation.message),
                None => violation.message.clone(),
            };
            self.errors.entry(field).or_default().push(message);
        }
        if invalid.more > 0 {
            let message = format!("{} more rules are broken", invalid.more);
            self.errors.entry(String::new()).or_default().push(message);
        }
        self
    }

    /// Notes that a field, or the whole for "", was refused.
    pub(crate) fn refuse_field(mut self, field: &str, message: impl Into<String>) -> Self {
        let messages = self.errors.entry(field.to_owned()).or_default();
        messages.push(message.into());
        self
    }

    pub(crate) fn is_refused(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Returns everything that is wrong, with the names of the fields.
    pub(crate) fn all_errors(&self) -> impl Iterator<Item = String> {
        let errors = self.errors.iter();
        errors.flat_map(|(field, messages)| {
            messages
                .iter()
                .map(move |message| format!("{field} {message}"))
        })
    }

    /// Returns what is wrong with no field that the page shows.
    pub(crate) fn general(&self) -> &[String] {
        self.errors("")
    }

    /// Returns what is wrong with a field.
    pub(crate) fn errors(&self, name: &str) -> &[String] {
        self.errors.get(name).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn has_errors(&self, name: &str) -> bool {
        !self.errors(name).is_empty()
    }

    /// Returns the ids of the elements that say what is wrong with a field.
    pub(crate) fn described_by(&self, name: &str) -> String {
        let ids = (1..=self.errors(name).len()).map(|number| format!("{name}-error-{number}"));
        ids.collect::<Vec<_>>().join(" ")
    }
}

impl Kind {
    fn read(self, text: &str) -> Value {
        match self {
            Self::Required => json!(text),
            _ if text.trim().is_empty() => Value::Null,
            Self::Optional => json!(text.replace("\r\n", "\n")),
            Self::List => list(text).into(),
            Self::Links => {
                let lines = text.lines().map(str::trim);
                lines.filter(|line| !line.is_empty()).map(link).collect()
            }
            Self::Moment => json!(moment(text.trim())),
        }
    }
}

/// Reads names with commas between them; one with a comma in it stands in
/// quotation marks, as in CSV.
pub(crate) fn list(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut name = String::new();
    let mut is_quoted = false;
    // Whether the name has anything but white space; looking at all of it for
    // each quotation mark would take the square of its length.
    let mut is_blank = true;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                characters.next();
                name.push('"');
                is_blank = false;
            }
            '"' if is_quoted => is_quoted = false,
            '"' if is_blank => {
                name.clear();
                is_quoted = true;
            }
            ',' | '\n' if !is_quoted => {
                names.push(std::mem::take(&mut name));
                is_blank = true;
            }
            c => {
                is_blank &= c.is_whitespace();
                name.push(c);
            }
        }
    }
    names.push(name);
    let names = names.iter().map(|name| name.trim().to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

/// Writes names as [`list`] reads them.
pub(crate) fn listed(names: &[String]) -> String {
    let quoted = |name: &String| {
        if name.contains([',', '"']) {
            format!("\"{}\"", name.replace('"', "\"\""))
        } else {
            name.clone()
        }
    };
    names.iter().map(quoted).collect::<Vec<_>>().join(", ")
}

/// Reads a line of the field for links.
fn link(line: &str) -> Value {
    let (label, url) = match line.split_once('=') {
        // The sign may be a part of the address.
        Some((label, url)) if !label.contains("://") => (label.trim(), url.trim()),
        _ => ("link", line),
    };
    json!({ "label": label, "url": url })
}

/// Makes RFC 3339 of what a field for a moment in UTC gives.
pub(crate) fn moment(text: &str) -> String {
    let is_local = text.contains('T') && !text.ends_with(['Z', 'z']);
    match text.len() {
        16 if is_local => format!("{text}:00Z"),
        19 | 21..=23 if is_local => format!("{text}Z"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_what_the_api_takes() {
        for (kind, text, expected) in [
            (Kind::Required, "", json!("")),
            (Kind::Optional, " ", Value::Null),
            (Kind::Optional, "a\r\nb", json!("a\nb")),
            (Kind::List, " a, b ,, c", json!(["a", "b", "c"])),
            (Kind::List, " , ", json!([])),
            (
                Kind::List,
                "a,\"b, c\",\"d\"\"e\"",
                json!(["a", "b, c", "d\"e"]),
            ),
            (
                Kind::Links,
                "run = https://a/b?c=d\r\n\r\nhttps://e/?f=g",
                json!([{"label": "run", "url": "https://a/b?c=d"},
                       {"label": "link", "url": "https://e/?f=g"}]),
            ),
            (
                Kind::Moment,
                "2026-11-21T08:30",
                json!("2026-11-21T08:30:00Z"),
            ),
            (
                Kind::Moment,
                "2026-11-21T08:30:05",
                json!("2026-11-21T08:30:05Z"),
            ),
            (
                Kind::Moment,
                "2026-11-21T08:30:05.123",
                json!("2026-11-21T08:30:05.123Z"),
            ),
            (
                Kind::Moment,
                "2026-11-21T08:30:05+01:00",
                json!("2026-11-21T08:30:05+01:00"),
            ),
            (Kind::Moment, "soon", json!("soon")),
        ] {
            assert_eq!(kind.read(text), expected, "{text:?}");
        }
    }

    #[test]
    fn lists_are_read_as_they_were_written() {
        for names in [
            vec![],
            vec!["one"],
            vec!["a,b", "c", "d\"e", "f;g", "'h'", "=i"],
        ] {
            let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
            assert_eq!(list(&listed(&names)), names);
        }
    }
}
