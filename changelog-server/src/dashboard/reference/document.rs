//! Reads the OpenAPI document into what the pages show. Nothing here knows an operation or
//! a field by its name: what the document says is what is shown.

use std::collections::BTreeSet;
use std::fmt::Write;

use changelog_core::headers;
use serde_json::Value;

use super::examples::Examples;
use super::text::{Part, prose, range};

/// The API as the pages show it.
pub(super) struct Reference {
    pub(super) about: Vec<Part>,
    pub(super) nouns: Vec<Noun>,
    /// The objects that others refer to, by name.
    pub(super) objects: Vec<Object>,
}

/// What can be done with one kind of record: a tag of the document.
pub(super) struct Noun {
    pub(super) name: String,
    pub(super) about: Vec<Part>,
    pub(super) operations: Vec<Operation>,
}

pub(super) struct Operation {
    pub(super) id: String,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) summary: Vec<Part>,
    pub(super) about: Vec<Part>,
    /// How callers authenticate.
    pub(super) access: Vec<Part>,
    pub(super) parameters: Vec<Field>,
    pub(super) body: Option<Object>,
    pub(super) answers: Vec<Answer>,
    /// The codes of the problems of each status.
    pub(super) errors: Vec<(String, Vec<String>)>,
    pub(super) examples: Option<Examples>,
}

impl Operation {
    /// Returns the path without what all paths begin with.
    pub(super) fn short_path(&self) -> &str {
        self.path.strip_prefix("/api").unwrap_or(&self.path)
    }
}

/// A response that is not a problem.
pub(super) struct Answer {
    pub(super) status: String,
    pub(super) about: Vec<Part>,
    pub(super) media_type: String,
    pub(super) content: Object,
}

/// The fields of a body, a response or a schema.
#[derive(Default)]
pub(super) struct Object {
    /// The name of the schema if this is where its fields are shown, else empty.
    pub(super) name: String,
    pub(super) about: Vec<Part>,
    /// What it is, if it has no fields.
    pub(super) kind: Vec<Part>,
    pub(super) limits: Vec<String>,
    pub(super) fields: Vec<Field>,
}

/// A field, a parameter or a header.
pub(super) struct Field {
    /// Where it is: `query`, `path` or `header`; empty for fields.
    pub(super) place: String,
    pub(super) name: String,
    pub(super) kind: Vec<Part>,
    pub(super) limits: Vec<String>,
    pub(super) is_required: bool,
    pub(super) default: Option<String>,
    pub(super) example: Option<String>,
    pub(super) about: Vec<Part>,
}

impl Reference {
    /// Reads the text of the document, which takes milliseconds.
    pub(super) fn read(document: &str) -> Result<Self, serde_json::Error> {
        let document: Value = serde_json::from_str(document)?;
        let mut reader = Reader {
            document: &document,
            linked: BTreeSet::new(),
            shown: BTreeSet::new(),
        };
        let nouns = list(&document["tags"]).map(|tag| Noun {
            name: text(&tag["name"]),
            about: prose(&text(&tag["description"])),
            operations: reader.operations(&tag["name"]),
        });
        Ok(Self {
            about: prose(&text(&document["info"]["description"])),
            nouns: nouns.collect(),
            objects: reader.objects(),
        })
    }

    /// Returns the operations that can answer a problem code.
    pub(super) fn answering<'r>(&'r self, code: &'r str) -> impl Iterator<Item = &'r Operation> {
        let operations = self.nouns.iter().flat_map(|noun| &noun.operations);
        operations.filter(move |operation| {
            let mut codes = operation.errors.iter().flat_map(|(_, codes)| codes);
            codes.any(|known| known == code)
        })
    }
}

struct Reader<'d> {
    document: &'d Value,
    /// The schemas that something refers to, and those that are shown with an operation.
    linked: BTreeSet<String>,
    shown: BTreeSet<String>,
}

/// What a schema says of a value in one line.
#[derive(Default)]
struct Kind {
    parts: Vec<Part>,
    limits: Vec<String>,
    is_nullable: bool,
}

impl Kind {
    /// Names a value without a type.
    fn name_any(&mut self) {
        if self.parts.is_empty() {
            self.parts.push(Part::Text("any value".into()));
        }
    }
}

impl<'d> Reader<'d> {
    fn operations(&mut self, tag: &Value) -> Vec<Operation> {
        let mut operations = Vec::new();
        for (path, item) in members(&self.document["paths"]) {
            for method in ["get", "post", "put", "patch", "delete"] {
                let operation = &item[method];
                if list(&operation["tags"]).any(|own| own == tag) {
                    operations.push(self.operation(method, path, operation));
                }
            }
        }
        operations
    }

    fn operation(&mut self, method: &str, path: &str, operation: &'d Value) -> Operation {
        let id = text(&operation["operationId"]);
        let parameters = list(&operation["parameters"]);
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        let (mut answers, mut errors) = (Vec::new(), Vec::new());
        for (status, response) in members(&operation["responses"]) {
            let problem = &response["content"]["application/problem+json"];
            if problem.is_object() {
                // Links to its schema, which the list of errors does as well.
                self.kind(&problem["schema"]);
                let codes = list(&response["x-codes"]).map(text);
                errors.push((status.clone(), codes.collect()));
            } else {
                answers.push(self.answer(status, response));
            }
        }
        Operation {
            method: method.to_uppercase(),
            path: path.to_owned(),
            summary: prose(text(&operation["summary"]).trim_end_matches('.')),
            about: prose(&text(&operation["description"])),
            access: self.access(operation),
            parameters: parameters.map(|one| self.parameter(one)).collect(),
            body: body.is_object().then(|| self.body(body)),
            answers,
            errors,
            examples: Examples::of(&id),
            id,
        }
    }

    /// Says what an operation's `security`, or else that of the document, requires.
    fn access(&self, operation: &'d Value) -> Vec<Part> {
        let required = match &operation["security"] {
            Value::Null => &self.document["security"],
            own => own,
        };
        let schemes = list(required).flat_map(members);
        let schemes = schemes.map(|(name, scopes)| {
            let scheme = &self.document["components"]["securitySchemes"][name];
            let mut words = if scheme["type"] == "http" {
                "the id token of a pipeline in the header `authorization`".to_owned()
            } else {
                format!("{} `{}`", text(&scheme["in"]), text(&scheme["name"]))
            };
            for scope in list(scopes) {
                let _ = write!(words, ", with the scope `{}`", text(scope));
            }
            words
        });
        let schemes: Vec<String> = schemes.collect();
        if schemes.is_empty() {
            return prose("no authentication");
        }
        prose(&schemes.join(" or "))
    }

    fn parameter(&mut self, parameter: &'d Value) -> Field {
        let required = parameter["required"] == true;
        let name = text(&parameter["name"]);
        let mut field = self.field(name, &parameter["schema"], required);
        field.place = text(&parameter["in"]);
        // A parameter is absent, not null.
        field
            .kind
            .retain(|part| *part != Part::Text(OR_NULL.into()));
        if let Value::String(about) = &parameter["description"] {
            field.about = prose(about);
        }
        field.example = parameter.get("example").map(shown).or(field.example);
        field
    }

    /// Shows the fields of a body where it is first used, and a link from there on.
    fn body(&mut self, schema: &'d Value) -> Object {
        let mut object = self.object(schema);
        if let Some(name) = name(schema).filter(|_| !object.fields.is_empty()) {
            if self.shown.insert(name.to_owned()) {
                name.clone_into(&mut object.name);
            } else {
                object.fields.clear();
            }
        }
        object
    }

    fn answer(&mut self, status: &str, response: &'d Value) -> Answer {
        let content = members(&response["content"]).next();
        let mut object = match content {
            Some((_, content)) => self.object(&content["schema"]),
            None => Object::default(),
        };
        let in_all = |name: &str| name.eq_ignore_ascii_case(headers::REQUEST_ID);
        for (name, header) in members(&response["headers"]).filter(|(name, _)| !in_all(name)) {
            let mut field = self.field(name.clone(), &header["schema"], false);
            "header".clone_into(&mut field.place);
            field.about = prose(&text(&header["description"]));
            object.fields.push(field);
        }
        Answer {
            status: status.to_owned(),
            about: prose(&text(&response["description"])),
            media_type: content.map(|(name, _)| name.clone()).unwrap_or_default(),
            content: object,
        }
    }

    /// Returns the objects that are referred to and not shown with an operation.
    fn objects(&mut self) -> Vec<Object> {
        let mut objects = Vec::new();
        loop {
            let next = self.linked.difference(&self.shown).next().cloned();
            let Some(name) = next else { break };
            let schema = &self.document["components"]["schemas"][&name];
            objects.push(Object {
                name: name.clone(),
                about: prose(&text(&schema["description"])),
                fields: self.fields(schema, ""),
                ..Object::default()
            });
            self.shown.insert(name);
        }
        objects.sort_by(|one, other| one.name.cmp(&other.name));
        objects
    }

    /// Shows a schema: its fields if it is an object, else what it is.
    fn object(&mut self, schema: &'d Value) -> Object {
        let target = self.target(schema);
        if target["properties"].is_object() {
            return Object {
                fields: self.fields(target, ""),
                kind: name(schema).map_or_else(Vec::new, |name| vec![Part::Schema(name.into())]),
                ..Object::default()
            };
        }
        let kind = self.kind(schema);
        Object {
            kind: kind.parts,
            limits: kind.limits,
            ..Object::default()
        }
    }

    /// Returns the fields of an object: the required ones in their order, then the others.
    fn fields(&mut self, schema: &'d Value, within: &str) -> Vec<Field> {
        let required: Vec<&Value> = list(&schema["required"]).collect();
        let place = |name: &str| required.iter().position(|known| *known == name);
        let mut properties: Vec<_> = members(&schema["properties"]).collect();
        properties.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
        let mut fields = Vec::new();
        for (name, property) in properties {
            let path = format!("{within}{name}");
            fields.push(self.field(path.clone(), property, place(name).is_some()));
            // Objects without a name are shown in place.
            if property["properties"].is_object() {
                fields.extend(self.fields(property, &format!("{path}.")));
            }
            if property["items"]["properties"].is_object() {
                fields.extend(self.fields(&property["items"], &format!("{path}[].")));
            }
        }
        fields
    }

    fn field(&mut self, name: String, schema: &'d Value, is_required: bool) -> Field {
        let mut kind = self.kind(schema);
        kind.name_any();
        if kind.is_nullable {
            kind.parts.push(Part::Text(OR_NULL.into()));
        }
        let example = self.find(schema, "example");
        let example = example.or_else(|| self.find(schema, "examples")?.get(0));
        // An example of a word or an id adds nothing.
        let is_known = kind.parts.iter().any(|part| matches!(part, Part::Code(_)))
            || self
                .find(schema, "format")
                .is_some_and(|format| format == "uuid");
        let example = example.filter(|_| !is_known);
        Field {
            place: String::new(),
            name,
            kind: kind.parts,
            limits: kind.limits,
            is_required,
            default: self.find(schema, "default").map(shown),
            example: example.map(shown),
            about: prose(
                &self
                    .find(schema, "description")
                    .map(text)
                    .unwrap_or_default(),
            ),
        }
    }

    /// Returns the schema that a schema refers to, or itself.
    fn target(&self, schema: &'d Value) -> &'d Value {
        let target = name(schema).map(|name| &self.document["components"]["schemas"][name]);
        target.unwrap_or(schema)
    }

    /// Finds what a schema, the only choice that it has, or what it refers to says.
    fn find(&self, schema: &'d Value, key: &str) -> Option<&'d Value> {
        if let Some(found) = schema.get(key) {
            return Some(found);
        }
        if name(schema).is_some() {
            return self.find(self.target(schema), key);
        }
        choices(schema).find_map(|choice| self.find(choice, key))
    }

    fn kind(&mut self, schema: &'d Value) -> Kind {
        if let Some(name) = name(schema) {
            let target = self.target(schema);
            if !target["properties"].is_object() {
                return self.kind(target);
            }
            self.linked.insert(name.to_owned());
            return Kind {
                parts: vec![Part::Schema(name.to_owned())],
                ..Kind::default()
            };
        }
        let mut kind = Kind {
            limits: limits(schema),
            ..Kind::default()
        };
        for choice in choices(schema) {
            if choice["type"] == "null" {
                kind.is_nullable = true;
                continue;
            }
            let choice = self.kind(choice);
            // Some have conditions only.
            if !kind.parts.is_empty() && !choice.parts.is_empty() {
                kind.parts.push(Part::Text(" or ".into()));
            }
            kind.parts.extend(choice.parts);
            kind.limits.extend(choice.limits);
            kind.is_nullable |= choice.is_nullable;
        }
        let types = match &schema["type"] {
            Value::Array(types) => types.as_slice(),
            one => std::slice::from_ref(one),
        };
        kind.is_nullable |= types.iter().any(|one| one == "null");
        if !kind.parts.is_empty() {
            return kind;
        }
        let words = list(&schema["enum"]).chain(schema.get("const"));
        for word in words.filter(|word| !word.is_null()) {
            let separator = if kind.parts.is_empty() { "" } else { " " };
            kind.parts.push(Part::Text(separator.into()));
            kind.parts.push(Part::Code(shown(word)));
        }
        if kind.parts.is_empty() {
            let named = types.iter().filter(|one| *one != "null").map(text);
            let named: Vec<String> = named.filter(|name| !name.is_empty()).collect();
            self.name_type(&mut kind, schema, &named.join(" or "));
        }
        kind
    }

    /// Adds the name of a type.
    fn name_type(&mut self, kind: &mut Kind, schema: &'d Value, name: &str) {
        let values = &schema["additionalProperties"];
        let (prefix, inner) = match name {
            "array" => ("array of ", &schema["items"]),
            "object" if values.is_object() => ("object, each value ", values),
            "string" => {
                let format = schema["format"].as_str().unwrap_or("string");
                kind.parts.push(Part::Text(format.to_owned()));
                return;
            }
            "" => return,
            other => return kind.parts.push(Part::Text(other.to_owned())),
        };
        let mut inner = self.kind(inner);
        inner.name_any();
        kind.parts.push(Part::Text(prefix.into()));
        kind.parts.extend(inner.parts);
        let each = inner
            .limits
            .into_iter()
            .map(|limit| format!("each {limit}"));
        kind.limits.extend(each);
    }
}

const OR_NULL: &str = " or null";

/// Returns the name of the schema that a schema refers to.
fn name(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.rsplit('/').next()
}

fn choices(schema: &Value) -> impl Iterator<Item = &Value> {
    let keywords = ["oneOf", "anyOf", "allOf"];
    keywords
        .into_iter()
        .flat_map(move |keyword| list(&schema[keyword]))
}

/// The longest pattern that is shown; the description says what a longer one means.
const MAX_PATTERN: usize = 50;

/// Puts the limits of a schema into words.
fn limits(schema: &Value) -> Vec<String> {
    let ranges = [
        range(&schema["minLength"], &schema["maxLength"], " characters"),
        range(&schema["minItems"], &schema["maxItems"], " elements"),
        range(&schema["minimum"], &schema["maximum"], ""),
    ];
    let mut limits: Vec<String> = ranges.into_iter().flatten().collect();
    if schema["uniqueItems"] == true {
        limits.push("all different".into());
    }
    match schema["pattern"].as_str() {
        // The patterns of multi-line and of single-line strings.
        Some(pattern) if pattern.contains("\\u0008") => {
            limits.push("no control characters but line breaks and tabs".into());
        }
        Some(pattern) if pattern.contains("\\u001f") => limits.push("no control characters".into()),
        Some(pattern) if pattern.len() <= MAX_PATTERN => {
            limits.push(format!("matches {pattern}"));
        }
        _ => {}
    }
    limits
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns a value as the page shows it: strings without quotes.
fn shown(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
