//! The OpenAPI document matches what the service does.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use changelog_tests::openapi::Document;
use changelog_tests::{TestApp, on_both, run, send, text};

on_both!(
    the_command_prints_the_document_of_the_endpoint,
    every_endpoint_is_documented_and_exists,
    every_operation_names_its_caller,
    examples_are_accepted_and_match_their_schemas,
    null_is_accepted_where_the_document_allows_it,
    responses_match_the_document,
    error_responses_match_the_document,
);

async fn the_command_prints_the_document_of_the_endpoint(app: TestApp) {
    let document = Document::of(&app).await.0;
    // The command needs no database.
    let mut command = changelog_tests::server_command(app.folder());
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
    for caller in [app.key(), app.with_key("chlog_wrong")] {
        assert_eq!(caller.body("/api/openapi.json").await, document);
    }
}

/// The list of all endpoints.
const ROUTES: &str = include_str!("../../../changelog-server/src/api/mod.rs");
/// Those that are not in the document: `mcp.rs` and `health.rs` test them.
const ELSEWHERE: [&str; 3] = ["mcp", "livez", "readyz"];

/// Checks that each path of the source is in the document, or tested elsewhere.
fn check_routes<'p>(documented: impl Iterator<Item = &'p String>) {
    // Paths of the source, in which each variable is `{}`.
    let generic = |path: &str| -> String {
        let parts = path.split('/').filter(|part| !part.is_empty());
        let parts = parts.map(|part| {
            if part.starts_with(['{', ':']) {
                "{}"
            } else {
                part
            }
        });
        parts.collect::<Vec<_>>().join("/")
    };
    let known: BTreeSet<String> = documented.map(|path| generic(path)).collect();
    for path in ROUTES.split("at(\"").skip(1) {
        let (path, _) = path.split_once('"').expect("the end of a path");
        let path = generic(path);
        assert!(
            known.contains(&path) || ELSEWHERE.contains(&path.as_str()),
            "{path} is neither documented nor tested elsewhere"
        );
    }
}

async fn every_endpoint_is_documented_and_exists(app: TestApp) {
    let document = Document::of(&app).await;
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
        "GET /api/changes/annotations",
        "GET /api/changes/around",
        "GET /api/changes/stream",
        "GET /api/changes/upcoming",
        "GET /api/changes/{id}",
        "GET /api/changes/{id}/history",
        "GET /api/health",
        "GET /api/hosts",
        "GET /api/hosts/{id}",
        "GET /api/incidents",
        "GET /api/incidents/{id}",
        "GET /api/key",
        "GET /api/openapi.json",
        "GET /api/services",
        "GET /api/services/{id}",
        "PATCH /api/changes/{id}",
        "PATCH /api/hosts/{id}",
        "PATCH /api/incidents/{id}",
        "PATCH /api/services/{id}",
        "POST /api/changes",
        "POST /api/changes/bulk",
        "POST /api/hosts",
        "POST /api/incidents",
        "POST /api/ingest/{kind}/{token}",
        "POST /api/services",
        "PUT /api/incidents/{id}/cause",
    ];
    assert_eq!(
        documented.iter().map(String::as_str).collect::<Vec<_>>(),
        expected
    );
    check_routes(paths.keys());
    let browser = app.browser().await;
    let key = app.key();
    let source = app.source("generic", "Any JSON", None).path;
    for operation in &documented {
        let (method, path) = operation.split_once(' ').expect("a method and a path");
        let list = path.split("/{id}").next().unwrap_or(path);
        let caller = if list.contains("activity") {
            &browser
        } else {
            &key
        };
        let path = if list == path {
            path.to_owned()
        } else {
            let body = match list {
                "/api/changes" | "/api/incidents" => json!({ "title": operation }),
                "/api/hosts" => json!({ "hostname": operation }),
                _ => json!({ "name": operation }),
            };
            path.replace("{id}", &key.create(list, body).await)
        };
        let path = path.replace("/api/ingest/{kind}/{token}", &source);
        // A stream does not end.
        let method = if list.ends_with("/stream") {
            "HEAD"
        } else {
            method
        };
        let request = caller.request(method, &path);
        let request = if matches!(method, "GET" | "HEAD") {
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
}

async fn every_operation_names_its_caller(app: TestApp) {
    let document = Document::of(&app).await;
    let paths = document.0["paths"].as_object().expect("paths");
    // Every operation has a summary, an id and its authentication.
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
                "/api/health" | "/api/openapi.json" | "/api/ingest/{kind}/{token}" => json!([{}]),
                "/api/activity" | "/api/activity/actors" => json!([{ "session": [] }]),
                "/api/key" => json!([{ "api_key": [] }, { "id_token": [] }]),
                // Requests with keys of each scope are in `scopes.rs`.
                path => {
                    let is_named = path.contains("/hosts") || path.contains("/services");
                    let scope = match method.as_str() {
                        "get" => "read",
                        _ if is_named => "admin",
                        _ => "record",
                    };
                    json!([{ "api_key": [scope] }, { "id_token": [scope] }])
                }
            };
            assert_eq!(*security, expected, "{method} {path}");
        }
    }
    let schemes = &document.0["components"]["securitySchemes"];
    assert_eq!(schemes["api_key"]["name"], "x-api-key");
    assert_eq!(schemes["id_token"]["scheme"], "bearer");
    assert_eq!(schemes["session"]["name"], "changelog_session");
}

async fn examples_are_accepted_and_match_their_schemas(app: TestApp) {
    let document = Document::of(&app).await;
    let key = app.key();
    let schemas = document.0["components"]["schemas"]
        .as_object()
        .expect("schemas");
    // Each example matches its schema.
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
    assert!(seen > 30, "too few examples: {seen}");
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
    // A body of all examples is accepted, and each example in an update.
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
            // The example ids do not exist in the organization.
            if let Some(example) = example_of(&document, schema)
                && !name.ends_with("_id")
            {
                body.insert(name.clone(), example.clone());
            }
        }
        let answer = key.post(path, Value::Object(body.clone())).await;
        let id = text(&answer.data(201)["id"]);
        document.assert_documented("post", path, &answer);
        let record = format!("{path}/{id}");
        for (name, value) in body {
            let one = json!({ name.clone(): value });
            let answer = key.patch(&record, one).await;
            let only_in_creates = ["occurred_at", "service_name", "hostname"];
            if path == "/api/changes" && only_in_creates.contains(&name.as_str()) {
                answer.is(422);
            } else {
                answer.is(200);
            }
            document.assert_documented("patch", &format!("{path}/{{id}}"), &answer);
        }
    }
}

async fn null_is_accepted_where_the_document_allows_it(app: TestApp) {
    let document = Document::of(&app).await;
    let key = app.key();
    let members = |schema: &str| -> Vec<(String, bool)> {
        let properties = document.schema(schema)["properties"].as_object();
        let properties = properties.expect("properties").iter();
        let allows = |schema| document.mismatches("", schema, &Value::Null).is_empty();
        properties
            .map(|(name, schema)| (name.clone(), allows(schema)))
            .collect()
    };
    let mut sent = 0;
    for (path, new, patch, required) in [
        ("/api/changes", "NewChange", "ChangePatch", "title"),
        ("/api/hosts", "NewHost", "HostPatch", "hostname"),
        ("/api/services", "NewService", "ServicePatch", "name"),
    ] {
        let id = key.create(path, json!({ required: "first" })).await;
        for (name, allowed) in members(new) {
            let mut body = json!({ required: format!("{new} {name}") });
            body[&name] = Value::Null;
            key.post(path, body)
                .await
                .is(if allowed { 201 } else { 422 });
            sent += 1;
        }
        for (name, allowed) in members(patch) {
            let answer = key
                .patch(&format!("{path}/{id}"), json!({ name: null }))
                .await;
            answer.is(if allowed { 200 } else { 422 });
            sent += 1;
        }
    }
    // Objects within a change, with null and without the member.
    let id = key.change("nested").await;
    for (schema, field, is_list, full) in [
        (
            "NewAgent",
            "agent",
            false,
            json!({ "name": "a", "mode": "autonomous", "run": "r" }),
        ),
        (
            "NewLink",
            "links",
            true,
            json!({ "label": "l", "url": "https://e.com" }),
        ),
    ] {
        let required = &document.schema(schema)["required"];
        for (name, allowed) in members(schema) {
            let mut without = full.clone();
            let mut null = full.clone();
            null[&name] = Value::Null;
            without.as_object_mut().expect("an object").remove(&name);
            let is_required = required.as_array().expect("a list").contains(&json!(name));
            for (object, accepted) in [(null, allowed), (without, !is_required)] {
                let value = if is_list { json!([object]) } else { object };
                let body = json!({ "title": "nested", field: value });
                let answer = key.post("/api/changes", body.clone()).await;
                answer.is(if accepted { 201 } else { 422 });
                let answer = key.patch(&format!("/api/changes/{id}"), body).await;
                answer.is(if accepted { 200 } else { 422 });
                sent += 1;
            }
        }
    }
    assert!(sent > 60, "too few members: {sent}");
}

/// Returns the example of a schema, or of the schema that it refers to.
fn example_of<'d>(document: &'d Document, schema: &'d Value) -> Option<&'d Value> {
    let schema = document.resolve(schema);
    let choices = schema["oneOf"].as_array().into_iter().flatten();
    schema
        .get("example")
        .or_else(|| schema["examples"].get(0))
        .or_else(|| {
            choices
                .into_iter()
                .find_map(|one| example_of(document, one))
        })
}

#[expect(clippy::too_many_lines, reason = "one table")]
async fn responses_match_the_document(app: TestApp) {
    let document = Document::of(&app).await;
    let (key, browser, anonymous) = (app.key(), app.browser().await, app.anonymous());
    let host = key
        .create(
            "/api/hosts",
            json!({ "hostname": "web-1", "environment": "prod" }),
        )
        .await;
    let service = key.service("payments").await;
    let body = json!({
        "title": "Deploy", "service_id": service, "host_id": host, "tags": ["a"], "impact": "x",
        "links": [{ "label": "l", "url": "https://e.com" }], "scheduled_for": "2027-01-01T00:00:00Z",
    });
    let change = key.create("/api/changes", body).await;
    key.change("bare").await;
    let nowhere = uuid::Uuid::now_v7().to_string();
    for (method, path, target, body) in [
        ("get", "/api/health", String::new(), None),
        ("get", "/api/key", String::new(), None),
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
        ("get", "/api/changes/{id}/history", change.clone(), None),
        ("get", "/api/changes/{id}/history", nowhere.clone(), None),
        (
            "post",
            "/api/changes",
            String::new(),
            Some(json!({ "title": "valid" })),
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
        let target = if path.contains("{id}") {
            path.replace("{id}", &target)
        } else {
            format!("{path}{target}")
        };
        let callers = if path.contains("activity") {
            [&browser, &anonymous]
        } else {
            [&key, &anonymous]
        };
        for caller in callers {
            let request = caller.request(&method.to_uppercase(), &target);
            let request = match &body {
                Some(body) => request.json(body),
                None => request,
            };
            document.assert_documented(method, path, &send(request).await);
        }
    }
}

async fn error_responses_match_the_document(app: TestApp) {
    let document = Document::of(&app).await;
    let key = app.key();
    let answer = key.post_bytes("/api/changes", "{").await;
    document.assert_documented("post", "/api/changes", &answer);
    let answer = send(key.request("POST", "/api/changes").body("{}")).await;
    document.assert_documented("post", "/api/changes", &answer);
    let answer = key.post_bytes("/api/changes", vec![b' '; 300_000]).await;
    document.assert_documented("post", "/api/changes", &answer);
    app.admin(&["org", "set-plan", &app.organization.id, "free"]);
    let answer = key.get("/api/changes").await;
    answer.is(403);
    document.assert_documented("get", "/api/changes", &answer);
}
