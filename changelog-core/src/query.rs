//! Reading and writing query strings.

use std::fmt::Display;
use std::str::FromStr;

use url::form_urlencoded;

use crate::problem::{BadValue, Invalid, ViolationCode, Violations};
use crate::text::closest;

/// The parameters of one query string, taken one by one. Unknown, repeated and
/// malformed parameters are reported together.
pub struct Query {
    pairs: Vec<(String, String)>,
    known: Vec<&'static str>,
    problems: Violations,
}

impl Query {
    /// Splits a query string, without its `?`.
    pub fn new(raw: &str) -> Self {
        let pairs: Vec<(String, String)> = form_urlencoded::parse(raw.as_bytes())
            .into_owned()
            .collect();
        let mut problems = Violations::default();
        // Decoding puts this character where the bytes are not UTF-8.
        let was_sent = raw.contains('\u{fffd}') || raw.to_ascii_uppercase().contains("%EF%BF%BD");
        for (name, value) in &pairs {
            if !was_sent && value.contains('\u{fffd}') {
                problems.add(
                    format!("?{name}"),
                    ViolationCode::InvalidFormat,
                    "must be UTF-8",
                );
            }
        }
        Self {
            pairs,
            known: Vec::new(),
            problems,
        }
    }

    /// Takes every value of a parameter that may be repeated.
    pub fn all(&mut self, name: &'static str) -> Vec<String> {
        self.known.push(name);
        let (taken, rest) = std::mem::take(&mut self.pairs)
            .into_iter()
            .partition(|(n, _)| n == name);
        self.pairs = rest;
        let taken: Vec<(String, String)> = taken;
        taken.into_iter().map(|(_, value)| value).collect()
    }

    /// Takes the value of a parameter that may be given once.
    pub fn one(&mut self, name: &'static str) -> Option<String> {
        let mut values = self.all(name);
        if values.len() > 1 {
            self.add(
                name,
                ViolationCode::Duplicate,
                format!("must be given once, got {} values", values.len()),
            );
        }
        values.pop()
    }

    /// Takes and parses a value: an id, a time, a word of an enum.
    pub fn parsed<T: FromStr<Err = BadValue>>(&mut self, name: &'static str) -> Option<T> {
        match self.one(name)?.parse() {
            Ok(value) => Some(value),
            Err(bad) => {
                self.add(name, bad.code, bad.message);
                None
            }
        }
    }

    /// Takes and parses several values, separated by commas or in repeated parameters, as
    /// clients that are generated from the OpenAPI document send them; each once.
    pub fn parsed_list<T: FromStr<Err = BadValue> + PartialEq>(
        &mut self,
        name: &'static str,
    ) -> Vec<T> {
        let mut values = Vec::new();
        let texts = self.all(name);
        for word in texts.iter().flat_map(|text| text.split(',')) {
            match word.trim().parse::<T>() {
                Ok(value) if values.contains(&value) => {}
                Ok(value) => values.push(value),
                Err(bad) => {
                    self.add(name, bad.code, bad.message);
                    break;
                }
            }
        }
        values
    }

    /// Takes `true` or `false`.
    pub fn boolean(&mut self, name: &'static str) -> Option<bool> {
        let text = self.one(name)?;
        let value = text.parse().ok();
        if value.is_none() {
            let message = format!("must be true or false, got {}", crate::rules::quoted(&text));
            self.add(name, ViolationCode::InvalidFormat, message);
        }
        value
    }

    /// Takes a whole number in plain digits, at least `least`. Numbers too
    /// large for 64 bits count as the largest that fits.
    pub fn number(&mut self, name: &'static str, least: u64) -> Option<u64> {
        let text = self.one(name)?;
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
            let message = format!(
                "must be a whole number from {least}, got {}",
                crate::rules::quoted(&text)
            );
            self.add(name, ViolationCode::InvalidFormat, message);
            return None;
        }
        let number = text.parse().unwrap_or(u64::MAX);
        if number < least {
            self.add(
                name,
                ViolationCode::OutOfRange,
                format!("must be at least {least}, got {number}"),
            );
            return None;
        }
        Some(number)
    }

    /// Takes `true` or `false`; an absent parameter is `false`.
    pub fn flag(&mut self, name: &'static str) -> bool {
        match self.one(name).as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => {
                let message = format!("must be true or false, got {}", crate::rules::quoted(other));
                self.add(name, ViolationCode::InvalidFormat, message);
                false
            }
        }
    }

    /// Reports a value that is well formed but not allowed.
    pub fn add(&mut self, name: &str, code: ViolationCode, message: impl Into<String>) {
        self.problems.add(format!("?{name}"), code, message);
    }

    /// Returns the value if every parameter was known and well formed.
    pub fn finish<T>(mut self, value: T) -> Result<T, Invalid> {
        for (name, _) in self.pairs {
            let pointer = format!("?{name}");
            self.problems
                .add_with(pointer, ViolationCode::UnknownField, || {
                    let hint = closest(&name, self.known.iter().copied()).map_or_else(
                        || match self.known.as_slice() {
                            [] => "no parameters are accepted".to_owned(),
                            known => format!("valid parameters are {}", known.join(", ")),
                        },
                        |known| format!("did you mean {known}?"),
                    );
                    format!("is not a known parameter; {hint}")
                });
        }
        self.problems.into_result(value)
    }
}

/// Collects the pairs of a query string that is being written.
pub struct Pairs(form_urlencoded::Serializer<'static, String>);

impl Default for Pairs {
    fn default() -> Self {
        Self(form_urlencoded::Serializer::new(String::new()))
    }
}

impl Pairs {
    /// Adds a parameter.
    pub fn push(&mut self, name: &str, value: impl Display) {
        self.0.append_pair(name, &value.to_string());
    }

    /// Adds a parameter if it has a value.
    pub fn push_some(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.push(name, value);
        }
    }

    /// Adds a parameter with several values, separated by commas, if it has any.
    pub fn push_list(&mut self, name: &str, values: &[impl Display]) {
        if !values.is_empty() {
            let words: Vec<String> = values.iter().map(ToString::to_string).collect();
            self.push(name, words.join(","));
        }
    }

    /// Returns the query string, without `?`.
    pub fn finish(mut self) -> String {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(raw: &str) -> Result<Option<u64>, Vec<ViolationCode>> {
        let mut query = Query::new(raw);
        let number = query.number("n", 1);
        query
            .finish(number)
            .map_err(|invalid| invalid.violations.into_iter().map(|v| v.code).collect())
    }

    #[test]
    fn numbers_are_plain_digits() {
        for (raw, expected) in [
            ("", Ok(None)),
            ("n=1", Ok(Some(1))),
            ("n=007", Ok(Some(7))),
            ("n=9223372036854775808", Ok(Some(1 << 63))),
            ("n=99999999999999999999", Ok(Some(u64::MAX))),
            ("n=0", Err(vec![ViolationCode::OutOfRange])),
            ("n=", Err(vec![ViolationCode::InvalidFormat])),
            ("n", Err(vec![ViolationCode::InvalidFormat])),
            ("n=-1", Err(vec![ViolationCode::InvalidFormat])),
            ("n=%2B1", Err(vec![ViolationCode::InvalidFormat])),
            ("n=1e3", Err(vec![ViolationCode::InvalidFormat])),
            ("n=%205", Err(vec![ViolationCode::InvalidFormat])),
            ("n=%D9%A1", Err(vec![ViolationCode::InvalidFormat])),
            ("n=1&n=1", Err(vec![ViolationCode::Duplicate])),
            ("m=1", Err(vec![ViolationCode::UnknownField])),
            (
                "n=0&m=1",
                Err(vec![ViolationCode::OutOfRange, ViolationCode::UnknownField]),
            ),
        ] {
            assert_eq!(number(raw), expected, "{raw}");
        }
    }

    #[test]
    fn repeated_values_keep_their_order() {
        let mut query = Query::new("tag=b&x=1&tag=a&tag=b");
        assert_eq!(query.all("tag"), ["b", "a", "b"]);
        assert_eq!(query.one("x").as_deref(), Some("1"));
        assert!(query.finish(()).is_ok());
    }
}
