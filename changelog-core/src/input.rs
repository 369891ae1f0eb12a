//! Reading a JSON body into an input type, with all violations reported at once:
//! wrong types, unknown fields and broken rules, each with its JSON Pointer.
//!
//! serde's derive stops at the first type error and knows no rules, hence this
//! small reader over a parsed value.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::problem::{BadValue, Invalid, ViolationCode, Violations};
use crate::text::closest;
use crate::time::Timestamp;

/// A type that is read from a JSON object and checked against its rules.
pub trait Input: Sized {
    /// The names of the JSON members; any other member is reported as unknown.
    const FIELDS: &'static [&'static str];

    /// Reads the members; a value of the wrong type is reported and left out.
    fn read(object: &mut ObjectReader<'_>) -> Self;

    /// Normalizes the values (trims, collapses) and reports every broken rule.
    fn check(&mut self, problems: &mut Violations, now: Timestamp);

    /// Normalizes and checks a value that was built in code.
    fn checked(mut self, now: Timestamp) -> Result<Self, Invalid> {
        let mut problems = Violations::default();
        self.check(&mut problems, now);
        problems.into_result(self)
    }
}

/// Why a body was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// The bytes are not one JSON value (RFC 8259), or an object has a member
    /// twice. The text has the position.
    #[error("{0}")]
    Malformed(String),
    /// The JSON is well formed and breaks rules.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// Reads and checks a JSON body.
///
/// # Errors
/// [`InputError::Malformed`] for what is not JSON, [`InputError::Invalid`] with
/// every broken rule.
pub fn from_json<T: Input>(body: &[u8], now: Timestamp) -> Result<T, InputError> {
    let value = json_value(body).map_err(|malformed| {
        let empty = body.iter().all(u8::is_ascii_whitespace);
        InputError::Malformed(if empty {
            "the body is empty; a JSON object was expected".to_owned()
        } else {
            malformed
        })
    })?;
    let Value::Object(object) = value else {
        let message = format!("must be a JSON object, got {}", type_name(&value));
        return Err(Invalid::one("", ViolationCode::WrongType, message).into());
    };
    Ok(from_object(object, now)?)
}

/// Parses a JSON value in which no object has a member twice.
///
/// # Errors
/// What is wrong and where, for what is not one JSON value or has a member twice.
pub fn json_value(json: &[u8]) -> Result<Value, String> {
    match serde_json::from_slice(json) {
        Ok(Strict(value)) => Ok(value),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads and checks a JSON object, with the same rules as [`from_json`].
///
/// # Errors
/// Every broken rule.
pub fn from_object<T: Input>(object: Map<String, Value>, now: Timestamp) -> Result<T, Invalid> {
    let mut problems = Violations::default();
    let mut fields = ObjectReader::new(object, String::new(), T::FIELDS, &mut problems);
    let mut input = T::read(&mut fields);
    fields.finish();
    input.check(&mut problems, now);
    problems.into_result(input)
}

/// The members of one JSON object, taken one by one.
pub struct ObjectReader<'a> {
    object: Map<String, Value>,
    /// The JSON Pointer of the object; empty for the body itself.
    place: String,
    known: &'static [&'static str],
    problems: &'a mut Violations,
}

impl<'a> ObjectReader<'a> {
    fn new(
        object: Map<String, Value>,
        place: String,
        known: &'static [&'static str],
        problems: &'a mut Violations,
    ) -> Self {
        Self {
            object,
            place,
            known,
            problems,
        }
    }

    /// Reports the members that were not taken.
    fn finish(self) {
        for name in self.object.keys() {
            // RFC 6901 escapes.
            let token = name.replace('~', "~0").replace('/', "~1");
            let pointer = format!("{}/{token}", self.place);
            self.problems
                .add_with(pointer, ViolationCode::UnknownField, || {
                    let hint = closest(name, self.known.iter().copied()).map_or_else(
                        || format!("valid fields are {}", self.known.join(", ")),
                        |known| format!("did you mean {known}?"),
                    );
                    format!("is not a known field; {hint}")
                });
        }
    }

    /// Takes a member as it is: `None` when absent, `Some(Value::Null)` for null.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.object.remove(name)
    }

    fn pointer(&self, name: &str) -> String {
        format!("{}/{name}", self.place)
    }

    pub(crate) fn wrong_type(&mut self, name: &str, expected: &str, given: &Value) {
        let message = format!("must be {expected}, got {}", type_name(given));
        self.problems
            .add(self.pointer(name), ViolationCode::WrongType, message);
    }

    /// Takes a string; null counts as absent.
    pub fn string(&mut self, name: &str) -> Option<String> {
        match self.take(name)? {
            Value::Null => None,
            Value::String(text) => Some(text),
            other => {
                self.wrong_type(name, "a string", &other);
                None
            }
        }
    }

    /// Takes true or false; null counts as absent.
    pub fn boolean(&mut self, name: &str) -> Option<bool> {
        match self.take(name)? {
            Value::Null => None,
            Value::Bool(value) => Some(value),
            other => {
                self.wrong_type(name, "true or false", &other);
                None
            }
        }
    }

    /// Reports a member that is absent; null is not.
    pub fn require(&mut self, name: &str) {
        if !self.object.contains_key(name) {
            self.problems
                .add(self.pointer(name), ViolationCode::Required, "is required");
        }
    }

    /// Takes a required string.
    pub fn required_string(&mut self, name: &str) -> String {
        if self.is_null(name) {
            self.take(name);
        }
        self.require(name);
        self.string(name).unwrap_or_default()
    }

    /// Takes and parses a string: an id, a time, a word of an enum.
    pub fn parsed<T: FromStr<Err = BadValue>>(&mut self, name: &str) -> Option<T> {
        let text = self.string(name)?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(bad) => {
                self.problems.add(self.pointer(name), bad.code, bad.message);
                None
            }
        }
    }

    /// Takes an array of at most `max` strings; null counts as absent. The
    /// elements of a longer array are not read.
    pub fn strings(&mut self, name: &str, max: usize) -> Option<Vec<String>> {
        let elements = self.list(name, max)?;
        let mut texts = Vec::with_capacity(elements.len());
        for (index, element) in elements.into_iter().enumerate() {
            match element {
                Value::String(text) => texts.push(text),
                other => {
                    self.wrong_type(&format!("{name}/{index}"), "a string", &other);
                    // Kept in place, so that later pointers stay true.
                    texts.push(String::new());
                }
            }
        }
        Some(texts)
    }

    /// Takes an array of at most `max` strings and parses each; null counts as
    /// absent. The elements of a longer array are not read.
    pub fn parsed_list<T: FromStr<Err = BadValue>>(
        &mut self,
        name: &str,
        max: usize,
    ) -> Option<Vec<T>> {
        let texts = self.strings(name, max)?;
        let mut values = Vec::with_capacity(texts.len());
        for (index, text) in texts.iter().enumerate() {
            match text.parse::<T>() {
                Ok(value) => values.push(value),
                Err(bad) => {
                    let pointer = self.pointer(&format!("{name}/{index}"));
                    self.problems.add(pointer, bad.code, bad.message);
                }
            }
        }
        Some(values)
    }

    /// Takes an array of at most `max` objects, each read by `read`; null counts
    /// as absent. The elements of a longer array are not read.
    pub fn objects<T>(
        &mut self,
        name: &str,
        max: usize,
        known: &'static [&'static str],
        read: impl Fn(&mut ObjectReader<'_>) -> T,
    ) -> Option<Vec<T>> {
        let elements = self.list(name, max)?;
        let mut objects = Vec::with_capacity(elements.len());
        for (index, element) in elements.into_iter().enumerate() {
            let place = format!("{}/{name}/{index}", self.place);
            match element {
                Value::Object(object) => {
                    let mut fields = ObjectReader::new(object, place, known, self.problems);
                    objects.push(read(&mut fields));
                    fields.finish();
                }
                other => {
                    self.wrong_type(&format!("{name}/{index}"), "an object", &other);
                    // Keeps its place, so that those after it keep theirs.
                    let mut reported = Violations::default();
                    let mut fields = ObjectReader::new(Map::new(), place, known, &mut reported);
                    objects.push(read(&mut fields));
                }
            }
        }
        Some(objects)
    }

    /// Takes an object, read by `read`; null counts as absent.
    pub fn object<T>(
        &mut self,
        name: &str,
        known: &'static [&'static str],
        read: impl Fn(&mut ObjectReader<'_>) -> T,
    ) -> Option<T> {
        match self.take(name)? {
            Value::Null => None,
            Value::Object(object) => {
                let place = self.pointer(name);
                let mut fields = ObjectReader::new(object, place, known, self.problems);
                let value = read(&mut fields);
                fields.finish();
                Some(value)
            }
            other => {
                self.wrong_type(name, "an object", &other);
                None
            }
        }
    }

    fn list(&mut self, name: &str, max: usize) -> Option<Vec<Value>> {
        match self.take(name)? {
            Value::Null => None,
            Value::Array(elements) => {
                let pointer = self.pointer(name);
                let fits = crate::rules::at_most(self.problems, &pointer, &elements, max);
                fits.then_some(elements)
            }
            other => {
                self.wrong_type(name, "an array", &other);
                None
            }
        }
    }

    /// Returns whether a member is present and null, which clears it in a patch.
    pub fn is_null(&self, name: &str) -> bool {
        matches!(self.object.get(name), Some(Value::Null))
    }

    /// Reports a member that can only be set on create.
    pub fn refuse_immutable(&mut self, name: &str, reason: &str) {
        if self.take(name).is_some() {
            self.problems
                .add(self.pointer(name), ViolationCode::Immutable, reason);
        }
    }

    /// Takes a member of a patch: `None` keeps the value, `Some(None)` (null)
    /// clears it, `Some(Some(value))` sets it.
    pub fn patch<T>(
        &mut self,
        name: &str,
        take: impl FnOnce(&mut Self, &str) -> Option<T>,
    ) -> Option<Option<T>> {
        if self.is_null(name) {
            self.take(name);
            return Some(None);
        }
        take(self, name).map(Some)
    }

    /// Takes a string of a patch that can be set but not cleared.
    pub fn patch_required_string(&mut self, name: &str) -> Option<String> {
        if self.is_null(name) {
            self.problems.add(
                self.pointer(name),
                ViolationCode::Required,
                "is required and cannot be null",
            );
        }
        self.string(name)
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A JSON value in which no object has a member twice. Parsers differ in which of
/// the two they keep, so one could check what another does not see.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(element)) = elements.next_element()? {
            list.push(element);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.contains_key(&name) {
                let name = crate::rules::quoted(&name);
                return Err(A::Error::custom(format!(
                    "the member {name} appears twice in an object"
                )));
            }
            let Strict(value) = members.next_value()?;
            object.insert(name, value);
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::NewService;

    fn read(body: &[u8]) -> Result<NewService, InputError> {
        from_json(body, Timestamp::EPOCH)
    }

    #[test]
    fn what_is_not_json_is_malformed() {
        let deep = "[".repeat(10_000);
        for bad in [
            &b""[..],
            b"  ",
            b"{",
            b"{}{}",
            b"{\"name\": \"a\", \"name\": \"b\"}",
            b"{\"name\": \"a\", \"n\\u0061me\": \"b\"}",
            b"{\"x\": [{\"y\": {\"z\": 1, \"z\": 1}}]}",
            b"\xef\xbb\xbf{}",
            b"{\"name\": \"\xff\"}",
            b"{\"name\": \"\\ud800\"}",
            b"{\"name\": \"a\0b\"}",
            deep.as_bytes(),
        ] {
            let result = read(bad);
            assert!(
                matches!(result, Err(InputError::Malformed(_))),
                "{result:?}"
            );
        }
    }

    #[test]
    fn an_object_goes_through_the_same_rules() {
        for members in [
            serde_json::json!({ "name": " payments ", "description": null }),
            serde_json::json!({ "name": "", "color": "red" }),
            serde_json::json!({ "nmae": "payments", "description": 7 }),
            serde_json::json!({}),
        ] {
            let Value::Object(object) = members.clone() else {
                panic!("{members} is an object");
            };
            let found = from_object::<NewService>(object, Timestamp::EPOCH);
            let expected = read(members.to_string().as_bytes());
            assert_eq!(found.map_err(InputError::Invalid), expected, "{members}");
        }
    }

    #[test]
    fn what_is_no_object_breaks_a_rule() {
        for bad in ["null", "[]", "1", "true", "\"name\""] {
            let Err(InputError::Invalid(invalid)) = read(bad.as_bytes()) else {
                panic!("{bad} was taken");
            };
            let places: Vec<_> = invalid
                .violations
                .iter()
                .map(|v| (&*v.pointer, &v.code))
                .collect();
            assert_eq!(places, [("", &ViolationCode::WrongType)]);
        }
    }

    #[test]
    fn every_problem_is_reported_at_once() {
        let body = br#"{"nmae": "payments", "description": 7, "color": "red", "a/b~c": 1}"#;
        let Err(InputError::Invalid(invalid)) = read(body) else {
            panic!("it was taken");
        };
        let mut places: Vec<_> = invalid
            .violations
            .iter()
            .map(|v| (&*v.pointer, &v.code))
            .collect();
        places.sort();
        assert_eq!(
            places,
            [
                ("/a~1b~0c", &ViolationCode::UnknownField),
                ("/color", &ViolationCode::InvalidFormat),
                ("/description", &ViolationCode::WrongType),
                ("/name", &ViolationCode::Required),
                ("/nmae", &ViolationCode::UnknownField),
            ]
        );
        assert!(
            invalid.to_string().contains("did you mean name?"),
            "{invalid}"
        );
    }
}
