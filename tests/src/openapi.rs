//! The OpenAPI document, and a check of values against its schemas.

use serde_json::{Map, Value};

use crate::{TestApp, TestResponse};

/// The OpenAPI document.
pub struct Document(pub Value);

impl Document {
    /// Fetches the document from the service.
    pub async fn of(app: &TestApp) -> Self {
        Self(app.anonymous().get("/api/openapi.json").await.body(200))
    }

    /// Resolves references.
    pub fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(reference) => {
                let pointer = reference.strip_prefix('#').expect("a local reference");
                let found = self.0.pointer(pointer);
                self.resolve(found.unwrap_or_else(|| panic!("{reference} does not exist")))
            }
            None => schema,
        }
    }

    /// Returns one of the named schemas.
    pub fn schema(&self, name: &str) -> &Value {
        &self.0["components"]["schemas"][name]
    }

    /// Returns where a value does not match a schema.
    pub fn mismatches(&self, place: &str, schema: &Value, value: &Value) -> Vec<String> {
        let schema = self.resolve(schema);
        let mut found = Vec::new();
        for (word, all) in [("allOf", true), ("oneOf", false), ("anyOf", false)] {
            let Some(parts) = schema[word].as_array() else {
                continue;
            };
            let tried: Vec<Vec<String>> = parts
                .iter()
                .map(|part| self.mismatches(place, part, value))
                .collect();
            if all || tried.iter().all(|mismatches| !mismatches.is_empty()) {
                found.extend(tried.into_iter().flatten());
            }
        }
        let types: Vec<&str> = match &schema["type"] {
            Value::String(one) => vec![one],
            Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if !types.is_empty() && !types.iter().any(|name| has_type(name, value)) {
            found.push(format!("{place}: {value} is no {types:?}"));
            return found;
        }
        if let Some(words) = schema["enum"].as_array()
            && !words.contains(value)
        {
            found.push(format!("{place}: {value} is none of {words:?}"));
        }
        match value {
            Value::String(text) => found.extend(string_mismatches(place, schema, text)),
            Value::Number(_) => {
                let (number, min) = (value.as_f64(), schema["minimum"].as_f64());
                if number.zip(min).is_some_and(|(number, min)| number < min) {
                    found.push(format!("{place}: {value} is too small"));
                }
            }
            Value::Array(elements) => {
                if let Some(max) = schema["maxItems"].as_u64()
                    && elements.len() as u64 > max
                {
                    found.push(format!("{place}: more than {max}"));
                }
                if schema["items"].is_object() {
                    for (index, element) in elements.iter().enumerate() {
                        let place = format!("{place}/{index}");
                        found.extend(self.mismatches(&place, &schema["items"], element));
                    }
                }
            }
            Value::Object(members) => found.extend(self.object_mismatches(place, schema, members)),
            Value::Null | Value::Bool(_) => {}
        }
        found
    }

    fn object_mismatches(
        &self,
        place: &str,
        schema: &Value,
        members: &Map<String, Value>,
    ) -> Vec<String> {
        let mut found = Vec::new();
        for name in schema["required"].as_array().into_iter().flatten() {
            if !members.contains_key(name.as_str().unwrap_or_default()) {
                found.push(format!("{place}: {name} is missing"));
            }
        }
        let Some(properties) = schema["properties"].as_object() else {
            return found;
        };
        for (name, value) in members {
            match properties.get(name) {
                Some(schema) => {
                    found.extend(self.mismatches(&format!("{place}/{name}"), schema, value));
                }
                // Members that are not documented must not appear.
                None => found.push(format!("{place}: {name} is not documented")),
            }
        }
        found
    }

    /// Requires that a response is documented for this operation, and matches its schema.
    #[track_caller]
    pub fn assert_documented(&self, method: &str, path: &str, answer: &TestResponse) {
        let operation = &self.0["paths"][path][method];
        assert!(operation.is_object(), "{method} {path} is not documented");
        let response = self.resolve(&operation["responses"][answer.status.to_string()]);
        assert!(
            response.is_object(),
            "{method} {path}: {} is not documented",
            answer.status
        );
        let schema = &response["content"][answer.header("content-type")]["schema"];
        assert!(
            !schema.is_null(),
            "{method} {path}: {} as {} is not documented",
            answer.status,
            answer.header("content-type")
        );
        let mismatches = self.mismatches("", schema, &answer.json());
        assert!(
            mismatches.is_empty(),
            "{method} {path}, {}: {mismatches:#?}",
            answer.status
        );
        if let Some(codes) = response["x-codes"].as_array() {
            let code = &answer.json()["code"];
            assert!(
                codes.contains(code),
                "{method} {path}: {code} is not documented"
            );
        }
        for name in response["headers"]
            .as_object()
            .into_iter()
            .flat_map(Map::keys)
        {
            // These headers are present only in some responses.
            if !matches!(
                name.as_str(),
                "idempotent-replayed"
                    | "preference-applied"
                    | "ratelimit"
                    | "ratelimit-policy"
                    | "retry-after"
            ) {
                assert_ne!(
                    answer.header(name),
                    "",
                    "{method} {path}, {}: {name}",
                    answer.status
                );
            }
        }
    }
}

fn has_type(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other} is no type"),
    }
}

fn string_mismatches(place: &str, schema: &Value, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let count = text.chars().count() as u64;
    if schema["minLength"].as_u64().is_some_and(|min| count < min) {
        found.push(format!("{place}: {text:?} is too short"));
    }
    if schema["maxLength"].as_u64().is_some_and(|max| count > max) {
        found.push(format!("{place}: {text:?} is too long"));
    }
    let of_format = match schema["format"].as_str() {
        Some("uuid") => uuid::Uuid::try_parse(text).is_ok(),
        Some("date-time") => chrono::DateTime::parse_from_rfc3339(text).is_ok(),
        Some("uri") => url::Url::parse(text).is_ok(),
        Some(_) | None => true,
    };
    if !of_format {
        found.push(format!("{place}: {text:?} is no {}", schema["format"]));
    }
    found
}
