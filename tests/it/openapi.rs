//! The OpenAPI document: what it says is what the service does.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::world::{Answer, World, on_both, run, send, text};

on_both!(
    the_command_and_the_endpoint_agree,
    every_endpoint_is_documented_and_exists,
    examples_are_taken_and_match,
    answers_match_the_document,
);

/// The document, and a small reader of its schemas.
struct Document(Value);

impl Document {
    async fn of(world: &World) -> Self {
        Self(world.anonymous().get("/api/openapi.json").await.body(200))
    }

    /// Follows references to where they lead.
    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(reference) => {
                let pointer = reference.strip_prefix('#').expect("a local reference");
                let found = self.0.pointer(pointer);
                self.resolve(found.unwrap_or_else(|| panic!("{reference} leads nowhere")))
            }
            None => schema,
        }
    }

    fn schema(&self, name: &str) -> &Value {
        &self.0["components"]["schemas"][name]
    }

    /// Says where a value does not match a schema.
    fn mismatches(&self, place: &str, schema: &Value, value: &Value) -> Vec<String> {
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
        if !types.is_empty() && !types.iter().any(|name| is_of(name, value)) {
            found.push(format!("{place}: {value} is no {types:?}"));
            return found;
        }
        if let Some(words) = schema["enum"].as_array()
            && !words.contains(value)
        {
            found.push(format!("{place}: {value} is none of {words:?}"));
        }
        match value {
            Value::String(text) => found.extend(text_mismatches(place, schema, text)),
            Value::Number(_) => {
                let (number, least) = (value.as_f64(), schema["minimum"].as_f64());
                if number
                    .zip(least)
                    .is_some_and(|(number, least)| number < least)
                {
                    found.push(format!("{place}: {value} is too small"));
                }
            }
            Value::Array(elements) => {
                if let Some(most) = schema["maxItems"].as_u64()
                    && elements.len() as u64 > most
                {
                    found.push(format!("{place}: more than {most}"));
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
                // What is not documented is a surprise.
                None => found.push(format!("{place}: {name} is not documented")),
            }
        }
        found
    }

    /// Requires that an answer is documented for this operation, and has the
    /// documented shape.
    #[track_caller]
    fn documents(&self, method: &str, path: &str, answer: &Answer) {
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
        for name in response["headers"]
            .as_object()
            .into_iter()
            .flat_map(Map::keys)
        {
            // These come only with what they are about.
            if !matches!(
                name.as_str(),
                "idempotent-replayed" | "ratelimit" | "ratelimit-policy" | "retry-after"
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

fn is_of(name: &str, value: &Value) -> bool {
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

fn text_mismatches(place: &str, schema: &Value, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let count = text.chars().count() as u64;
    if schema["minLength"]
        .as_u64()
        .is_some_and(|least| count < least)
    {
        found.push(format!("{place}: {text:?} is too short"));
    }
    if schema["maxLength"]
        .as_u64()
        .is_some_and(|most| count > most)
    {
        found.push(format!("{place}: {text:?} is too long"));
    }
    let of_format = match schema["format"].as_str() {
        Some("uuid") => uuid::Uuid::try_parse(text).is_ok(),
        Some("date-time") => chrono::DateTime::parse_from_rfc3339(text).is_ok(),
        Some("uri-reference") | None => true,
        Some("uri") => url::Url::parse(text).is_ok(),
        Some(_) => true,
    };
    if !of_format {
        found.push(format!("{place}: {text:?} is no {}", schema["format"]));
    }
    found
}

async fn the_command_and_the_endpoint_agree(world: World) {
    let document = Document::of(&world).await.0;
    // It needs no database.
    let mut command = crate::world::server::command(world.folder());
    command.arg("openapi");
    let output = run(command, "");
    assert!(output.status.success());
    let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(printed, document);
    assert!(
        document["openapi"]
            .as_str()
            .is_some_and(|version| version.starts_with("3.1"))
    );
    for caller in [world.key(), world.with_key("chlog_wrong")] {
        assert_eq!(caller.get("/api/openapi.json").await.body(200), document);
    }
}

async fn every_endpoint_is_documented_and_exists(world: World) {
    let document = Document::of(&world).await;
    let paths = document.0["paths"].as_object().expect("paths");
    let mut documented = BTreeSet::new();
    for (path, operations) in paths {
        for method in operations.as_object().expect("operations").keys() {
            documented.insert(format!("{} {path}", method.to_uppercase()));
        }
    }
    let expected = [
        "GET /api/activity",
        "GET /api/activity/actors",
        "GET /api/changes",
        "GET /api/changes/{id}",
        "GET /api/health",
        "GET /api/hosts",
        "GET /api/hosts/{id}",
        "GET /api/openapi.json",
        "GET /api/services",
        "GET /api/services/{id}",
        "PATCH /api/changes/{id}",
        "PATCH /api/hosts/{id}",
        "PATCH /api/services/{id}",
        "POST /api/changes",
        "POST /api/hosts",
        "POST /api/services",
    ];
    assert_eq!(
        documented.iter().map(String::as_str).collect::<Vec<_>>(),
        expected
    );
    let browser = world.browser().await;
    let key = world.key();
    for operation in &documented {
        let (method, path) = operation.split_once(' ').expect("a method and a path");
        let list = path.trim_end_matches("/{id}");
        let caller = if list.contains("activity") {
            &browser
        } else {
            &key
        };
        let path = if list == path {
            path.to_owned()
        } else {
            let body = match list {
                "/api/changes" => json!({ "title": operation }),
                "/api/hosts" => json!({ "hostname": operation }),
                _ => json!({ "name": operation }),
            };
            format!("{list}/{}", key.create(list, body).await)
        };
        let request = caller.request(method, &path);
        let request = if method == "GET" {
            request
        } else {
            request.json(&json!({}))
        };
        let answer = send(request).await;
        assert!(
            !matches!(answer.status, 404 | 405 | 500..),
            "{operation}: {}",
            answer.text
        );
    }
    // Every operation says what it is, and which way in it has.
    for (path, operations) in paths {
        for (method, operation) in operations.as_object().expect("operations") {
            for words in ["summary", "operationId"] {
                assert!(
                    operation[words]
                        .as_str()
                        .is_some_and(|text| !text.is_empty()),
                    "{method} {path}: {words}"
                );
            }
            let security = match &operation["security"] {
                Value::Null => &document.0["security"],
                own => own,
            };
            let expected = match path.as_str() {
                "/api/health" | "/api/openapi.json" => json!([{}]),
                "/api/activity" | "/api/activity/actors" => json!([{ "session": [] }]),
                _ => json!([{ "api_key": [] }]),
            };
            assert_eq!(*security, expected, "{method} {path}");
        }
    }
    let schemes = &document.0["components"]["securitySchemes"];
    assert_eq!(schemes["api_key"]["name"], "x-api-key");
    assert_eq!(schemes["session"]["name"], "changelog_session");
}

async fn examples_are_taken_and_match(world: World) {
    let document = Document::of(&world).await;
    let key = world.key();
    let schemas = document.0["components"]["schemas"]
        .as_object()
        .expect("schemas");
    // Each example matches the schema that it stands in.
    let mut seen = 0;
    for (name, schema) in schemas {
        let parts = schema["properties"].as_object().into_iter().flatten();
        let parts = parts.map(|(name, schema)| (name.as_str(), schema));
        for (part, schema) in parts.chain([("", schema)]) {
            let several = schema["examples"].as_array().into_iter().flatten();
            let one = schema.get("example");
            for example in several.chain(one) {
                let mismatches = document.mismatches(&format!("{name}.{part}"), schema, example);
                assert!(mismatches.is_empty(), "{mismatches:#?}");
                seen += 1;
            }
        }
    }
    assert!(seen > 30, "there are few examples: {seen}");
    for operations in document.0["paths"].as_object().expect("paths").values() {
        for operation in operations.as_object().expect("operations").values() {
            for response in operation["responses"]
                .as_object()
                .expect("responses")
                .values()
            {
                for content in document.resolve(response)["content"]
                    .as_object()
                    .into_iter()
                    .flat_map(Map::values)
                {
                    if let Some(example) = content.get("example") {
                        let mismatches =
                            document.mismatches("example", &content["schema"], example);
                        assert!(mismatches.is_empty(), "{mismatches:#?}");
                    }
                }
            }
        }
    }
    // A body made of the examples is taken, as a whole and piece by piece.
    for (path, schema) in [
        ("/api/hosts", "NewHost"),
        ("/api/services", "NewService"),
        ("/api/changes", "NewChange"),
    ] {
        let mut body = Map::new();
        let properties = document.schema(schema)["properties"]
            .as_object()
            .expect("properties");
        for (name, schema) in properties {
            if let Some(example) = schema.get("example") {
                body.insert(name.clone(), example.clone());
            }
        }
        let answer = key.post(path, Value::Object(body.clone())).await;
        let id = text(&answer.data(201)["id"]);
        document.documents("post", path, &answer);
        let record = format!("{path}/{id}");
        for (name, value) in body {
            let one = json!({ name.clone(): value });
            let answer = key.patch(&record, one).await;
            if name == "occurred_at" {
                answer.is(422);
            } else {
                answer.is(200);
            }
            document.documents("patch", &format!("{path}/{{id}}"), &answer);
        }
    }
}

async fn answers_match_the_document(world: World) {
    let document = Document::of(&world).await;
    let (key, browser, nobody) = (world.key(), world.browser().await, world.anonymous());
    let host = key
        .create(
            "/api/hosts",
            json!({ "hostname": "web-1", "environment": "prod" }),
        )
        .await;
    let service = key
        .create("/api/services", json!({ "name": "payments" }))
        .await;
    let body = json!({
        "title": "Deploy", "service_id": service, "host_id": host, "tags": ["a"], "impact": "x",
        "links": [{ "label": "l", "url": "https://e.com" }], "scheduled_for": "2027-01-01T00:00:00Z",
    });
    let change = key.create("/api/changes", body).await;
    key.change("bare").await;
    let nowhere = uuid::Uuid::now_v7().to_string();
    for (method, path, target, body) in [
        ("get", "/api/health", String::new(), None),
        ("get", "/api/hosts", String::new(), None),
        ("get", "/api/hosts/{id}", host.clone(), None),
        ("get", "/api/hosts/{id}", nowhere.clone(), None),
        ("get", "/api/hosts/{id}", "x".to_owned(), None),
        (
            "post",
            "/api/hosts",
            String::new(),
            Some(json!({ "hostname": "web-2" })),
        ),
        (
            "post",
            "/api/hosts",
            String::new(),
            Some(json!({ "hostname": "web-1" })),
        ),
        ("post", "/api/hosts", String::new(), Some(json!({}))),
        ("patch", "/api/hosts/{id}", host, Some(json!({ "os": "x" }))),
        ("get", "/api/services", String::new(), None),
        ("get", "/api/services/{id}", service.clone(), None),
        ("get", "/api/services/{id}", nowhere.clone(), None),
        (
            "post",
            "/api/services",
            String::new(),
            Some(json!({ "name": "other" })),
        ),
        (
            "post",
            "/api/services",
            String::new(),
            Some(json!({ "name": "payments" })),
        ),
        (
            "patch",
            "/api/services/{id}",
            service.clone(),
            Some(json!({ "name": "other" })),
        ),
        (
            "patch",
            "/api/services/{id}",
            service,
            Some(json!({ "color": "red" })),
        ),
        ("get", "/api/changes", "?q=deploy".to_owned(), None),
        ("get", "/api/changes", "?page=0".to_owned(), None),
        ("get", "/api/changes/{id}", change.clone(), None),
        ("get", "/api/changes/{id}", nowhere.clone(), None),
        (
            "post",
            "/api/changes",
            String::new(),
            Some(json!({ "title": "ok then" })),
        ),
        (
            "post",
            "/api/changes",
            String::new(),
            Some(json!({ "title": "", "risk": "high" })),
        ),
        (
            "patch",
            "/api/changes/{id}",
            change.clone(),
            Some(json!({ "status": "completed" })),
        ),
        (
            "patch",
            "/api/changes/{id}",
            nowhere,
            Some(json!({ "status": "completed" })),
        ),
        ("get", "/api/activity", "?limit=100".to_owned(), None),
        ("get", "/api/activity", "?limit=0".to_owned(), None),
        ("get", "/api/activity/actors", String::new(), None),
    ] {
        let target = match (path.strip_suffix("/{id}"), target.as_str()) {
            (Some(list), id) => format!("{list}/{id}"),
            (None, query) => format!("{path}{query}"),
        };
        let callers = if path.contains("activity") {
            [&browser, &nobody]
        } else {
            [&key, &nobody]
        };
        for caller in callers {
            let request = caller.request(&method.to_uppercase(), &target);
            let request = match &body {
                Some(body) => request.json(body),
                None => request,
            };
            document.documents(method, path, &send(request).await);
        }
    }
    let answer = key.post_bytes("/api/changes", "{").await;
    document.documents("post", "/api/changes", &answer);
    let answer = send(key.request("POST", "/api/changes").body("{}")).await;
    document.documents("post", "/api/changes", &answer);
    let answer = key.post_bytes("/api/changes", vec![b' '; 300_000]).await;
    document.documents("post", "/api/changes", &answer);
    world.admin(&["org", "set-plan", &world.organization.id, "free"]);
    let answer = key.get("/api/changes").await;
    answer.is(403);
    document.documents("get", "/api/changes", &answer);
}
