//! Every error is a problem (RFC 9457) that reports all violations at once.

use std::collections::BTreeSet;

use serde_json::json;
use uuid::Uuid;

use changelog_tests::{TestApp, TestClient, TestResponse, on_both, send};

on_both!(
    all_violations_are_reported_at_once,
    a_mistyped_field_gets_a_suggestion,
    wrong_types_are_reported,
    bodies_that_are_not_json_are_malformed,
    bodies_that_are_not_objects_are_invalid,
    the_content_type_must_be_json,
    a_wrong_method_lists_the_allowed_ones,
    head_responds_like_get_without_a_body,
    ids_in_paths_are_uuids,
    unknown_paths_are_not_found,
    every_response_has_a_request_id,
);

const CREATES: [&str; 3] = ["/api/changes", "/api/hosts", "/api/services"];

async fn all_violations_are_reported_at_once(app: TestApp) {
    let key = app.key();
    let body = json!({
        "title": "ab",
        "description": 7,
        "risk_level": "extreme",
        "status": "done",
        "service_id": "payments",
        "host_id": Uuid::now_v7().simple().to_string(),
        "tags": ["fine", "", 3, "x".repeat(101)],
        "links": [{ "label": "", "url": "ftp://e.com" }, { "url": "https://e.com", "title": "x" }, 1],
        "scheduled_for": "soon",
        "occurred_at": "2999-01-01T00:00:00Z",
        "risk": "high",
    });
    key.post("/api/changes", body).await.violates(&[
        ("/title", "too_short"),
        ("/description", "wrong_type"),
        ("/risk_level", "unknown_value"),
        ("/status", "unknown_value"),
        ("/service_id", "invalid_format"),
        ("/host_id", "invalid_format"),
        ("/tags/1", "too_short"),
        ("/tags/2", "wrong_type"),
        ("/tags/3", "too_long"),
        ("/links/0/label", "too_short"),
        ("/links/0/url", "invalid_format"),
        ("/links/1/label", "required"),
        ("/links/1/title", "unknown_field"),
        ("/links/2", "wrong_type"),
        ("/scheduled_for", "invalid_format"),
        ("/occurred_at", "out_of_range"),
        ("/risk", "unknown_field"),
    ]);
    let body = json!({
        "fqdn": "f".repeat(254), "ip_address": "nowhere", "os": "o".repeat(101), "platform": "cloud",
        "environment": "live", "roles": "web", "description": "d".repeat(1001),
    });
    key.post("/api/hosts", body).await.violates(&[
        ("/hostname", "required"),
        ("/fqdn", "too_long"),
        ("/ip_address", "invalid_format"),
        ("/os", "too_long"),
        ("/platform", "unknown_value"),
        ("/environment", "unknown_value"),
        ("/roles", "wrong_type"),
        ("/description", "too_long"),
    ]);
    let body = json!({ "name": null, "color": "red", "a/b~c": 1 });
    key.post("/api/services", body).await.violates(&[
        ("/name", "required"),
        ("/color", "invalid_format"),
        ("/a~1b~0c", "unknown_field"),
    ]);
    // An update has the same rules.
    let id = key.change("fine").await;
    let body = json!({ "title": "", "status": "done", "tags": [""], "created_at": "x", "id": 1 });
    key.patch(&format!("/api/changes/{id}"), body)
        .await
        .violates(&[
            ("/title", "too_short"),
            ("/status", "unknown_value"),
            ("/tags/0", "too_short"),
            ("/created_at", "unknown_field"),
            ("/id", "unknown_field"),
        ]);
    assert_eq!(key.body("/api/changes").await["count"], 1);
}

async fn a_mistyped_field_gets_a_suggestion(app: TestApp) {
    let key = app.key();
    for (path, mut body, typo, meant) in [
        (
            "/api/changes",
            json!({ "title": "fine" }),
            "risk",
            "risk_level",
        ),
        (
            "/api/changes",
            json!({ "title": "fine" }),
            "Status",
            "status",
        ),
        ("/api/changes", json!({ "title": "fine" }), "tag", "tags"),
        ("/api/hosts", json!({ "hostname": "h" }), "ip", "ip_address"),
        (
            "/api/hosts",
            json!({ "hostname": "h" }),
            "enviroment",
            "environment",
        ),
        ("/api/services", json!({ "name": "svc" }), "colour", "color"),
    ] {
        body[typo] = json!("high");
        let answer = key.post(path, body).await;
        answer.violates(&[(&format!("/{typo}"), "unknown_field")]);
        let problem = answer.json();
        let message = problem["errors"][0]["message"].as_str().expect("a string");
        assert!(message.contains(meant), "{typo}: {message}");
        // The detail names the field too.
        let detail = problem["detail"].as_str().expect("a string");
        assert!(detail.contains(typo), "{detail}");
    }
    for list in CREATES {
        assert!(
            !key.get(list).await.text.contains("fine"),
            "a record was created"
        );
    }
}

async fn wrong_types_are_reported(app: TestApp) {
    let key = app.key();
    let id = key.change("fine").await;
    let path = format!("/api/changes/{id}");
    for field in [
        "title",
        "description",
        "service_id",
        "host_id",
        "risk_level",
        "status",
        "impact",
        "scheduled_for",
    ] {
        for wrong in [json!(1), json!(true), json!([]), json!({}), json!(["x"])] {
            let pointer = format!("/{field}");
            let answer = key.patch(&path, json!({ field: wrong })).await;
            answer.violates(&[(&pointer, "wrong_type")]);
        }
    }
    for field in ["tags", "links"] {
        for wrong in [json!(1), json!("a,b"), json!({})] {
            let answer = key.patch(&path, json!({ field: wrong })).await;
            answer.violates(&[(&format!("/{field}"), "wrong_type")]);
        }
    }
}

async fn bodies_that_are_not_json_are_malformed(app: TestApp) {
    let key = app.key();
    let deep = format!("{{\"title\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let deep_objects = format!("{}1{}", "{\"title\":".repeat(10_000), "}".repeat(10_000));
    for path in CREATES {
        for (what, bytes) in [
            ("nothing", &b""[..]),
            ("white space", b" \n\t "),
            ("cut off", b"{\"title\": \"Dep"),
            ("single quotes", b"{'title': 'Deploy'}"),
            ("a trailing comma", b"{\"title\": \"Deploy\",}"),
            ("a comment", b"{\"title\": \"Deploy\"} // done"),
            ("two values", b"{\"title\": \"Deploy\"}{}"),
            ("a bare word", b"title"),
            ("not a number", b"{\"title\": NaN}"),
            ("a form", b"title=Deploy"),
            (
                "a member twice",
                b"{\"title\": \"Deploy\", \"title\": \"Again\"}",
            ),
            (
                "a member twice, below",
                b"{\"title\": \"Deploy\", \"links\": [{\"url\": 1, \"url\": 2}]}",
            ),
            (
                "a member twice, escaped",
                b"{\"title\": \"Deploy\", \"titl\\u0065\": \"Again\"}",
            ),
            ("a byte order mark", b"\xef\xbb\xbf{\"title\": \"Deploy\"}"),
            ("not UTF-8", b"{\"title\": \"D\xff\xfeploy\"}"),
            ("Latin-1", b"{\"title\": \"caf\xe9 au lait\"}"),
            ("UTF-16", b"\xff\xfe{\x00}\x00"),
            ("a lone surrogate", b"{\"title\": \"x\\ud800y\"}"),
            (
                "surrogates the wrong way round",
                b"{\"title\": \"\\udc00\\ud800\"}",
            ),
            ("a control character", b"{\"title\": \"a\x01b\"}"),
            ("a NUL", b"{\"title\": \"a\0b\"}"),
            ("a bad escape", b"{\"title\": \"a\\xb\"}"),
            ("deep lists", deep.as_bytes()),
            ("deep objects", deep_objects.as_bytes()),
        ] {
            let answer = key.post_bytes(path, bytes).await;
            assert_eq!(answer.status, 400, "{what} to {path}: {}", answer.text);
            answer.problem(400, "malformed_body");
        }
    }
    let id = key.change("fine").await;
    let patch = key.request("PATCH", &format!("/api/changes/{id}"));
    let patch = patch.header("content-type", "application/json").body("");
    send(patch).await.problem(400, "malformed_body");
    assert_eq!(key.body("/api/changes").await["count"], 1);
}

async fn bodies_that_are_not_objects_are_invalid(app: TestApp) {
    let key = app.key();
    for path in CREATES {
        for body in [
            "[]",
            "null",
            "true",
            "1",
            "\"Deploy\"",
            "[{\"title\": \"Deploy\"}]",
        ] {
            key.post_bytes(path, body)
                .await
                .violates(&[("", "wrong_type")]);
        }
    }
}

async fn the_content_type_must_be_json(app: TestApp) {
    let key = app.key();
    let id = key.change("fine").await;
    let path = format!("/api/changes/{id}");
    for (method, path, body) in [
        ("POST", "/api/changes", "{\"title\": \"typed\"}".to_owned()),
        ("PATCH", path.as_str(), "{}".to_owned()),
    ] {
        for (content_type, accepted) in [
            (Some("application/json"), true),
            (Some("application/json; charset=utf-8"), true),
            (Some("application/json;charset=UTF-8"), true),
            (Some("Application/JSON"), true),
            (None, false),
            (Some(""), false),
            (Some("text/plain"), false),
            (Some("text/json"), false),
            (Some("application/x-www-form-urlencoded"), false),
            (Some("multipart/form-data; boundary=x"), false),
            (Some("application/problem+json"), false),
            (Some("application/merge-patch+json"), false),
            (Some("application/jsonlines"), false),
            (Some("application/json, text/plain"), false),
        ] {
            let request = key.request(method, path).body(body.clone());
            let request = match content_type {
                Some(value) => request.header("content-type", value),
                None => request,
            };
            let answer = send(request).await;
            if accepted {
                assert!(answer.status < 300, "{content_type:?}: {}", answer.text);
            } else {
                assert_eq!(answer.status, 415, "{content_type:?}: {}", answer.text);
                answer.problem(415, "unsupported_media_type");
            }
        }
    }
}

async fn a_wrong_method_lists_the_allowed_ones(app: TestApp) {
    let key = app.key();
    let id = Uuid::now_v7();
    let one = |list: &str| format!("{list}/{id}");
    let records = ["GET", "HEAD", "PATCH"];
    for (path, allowed) in [
        ("/api/hosts".to_owned(), &["GET", "HEAD", "POST"][..]),
        ("/api/services".to_owned(), &["GET", "HEAD", "POST"]),
        ("/api/changes".to_owned(), &["GET", "HEAD", "POST"]),
        (one("/api/hosts"), &records),
        (one("/api/services"), &records),
        (one("/api/changes"), &records),
        ("/api/activity".to_owned(), &["GET", "HEAD"]),
        ("/api/activity/actors".to_owned(), &["GET", "HEAD"]),
        ("/api/health".to_owned(), &["GET", "HEAD"]),
        ("/api/openapi.json".to_owned(), &["GET", "HEAD"]),
        ("/sign-in".to_owned(), &["GET", "HEAD", "POST"]),
        ("/sign-out".to_owned(), &["POST"]),
    ] {
        for method in [
            "GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW",
        ] {
            if allowed.contains(&method) {
                continue;
            }
            let answer = send(key.request(method, &path)).await;
            assert_eq!(answer.status, 405, "{method} {path}: {}", answer.text);
            assert_error(&answer, 405, "method_not_allowed", &path);
            let methods: BTreeSet<&str> = answer.header("allow").split(", ").collect();
            assert_eq!(
                methods,
                allowed.iter().copied().collect(),
                "{method} {path}"
            );
        }
    }
}

async fn head_responds_like_get_without_a_body(app: TestApp) {
    let (key, browser) = (app.key(), app.browser().await);
    let id = key.change("fine").await;
    let nowhere = format!("/api/hosts/{}", Uuid::now_v7());
    let change = format!("/api/changes/{id}");
    for (caller, path) in [
        (&key, "/api/hosts"),
        (&key, "/api/services"),
        (&key, "/api/changes?per_page=1"),
        (&key, change.as_str()),
        (&key, nowhere.as_str()),
        (&key, "/api/changes?page=0"),
        (&key, "/api/openapi.json"),
        (&key, "/sign-in"),
        (&key, "/nowhere"),
        (&app.anonymous(), "/api/hosts"),
        (&browser, "/api/activity"),
        (&browser, "/api/activity/actors"),
        (&app.anonymous(), "/api/activity"),
        (&app.anonymous(), "/api/health"),
    ] {
        let get = caller.get(path).await;
        let head = send(caller.request("HEAD", path)).await;
        assert_eq!(head.status, get.status, "{path}");
        assert_eq!(
            head.header("content-type"),
            get.header("content-type"),
            "{path}"
        );
        assert_eq!(head.text, "", "{path}");
    }
}

async fn ids_in_paths_are_uuids(app: TestApp) {
    let key = app.key();
    let id = key.change("fine").await;
    for list in CREATES {
        for bad in [
            "1",
            "null",
            "web-1",
            "018f4e9a7b1c7d3e9a512f6c8b7d1e90",
            "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e9",
            "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e900",
            "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e9g",
            "%7B018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90%7D",
            "%00",
            "%ff",
            "%F0%9F%9A%80",
            "'; DROP TABLE changes; --",
        ] {
            let path = format!("{list}/{bad}");
            key.get(&path).await.problem(400, "malformed_id");
            key.patch(&path, json!({}))
                .await
                .problem(400, "malformed_id");
        }
    }
    let answer = key
        .get(&format!("/api/changes/{}", id.to_uppercase()))
        .await;
    assert_eq!(answer.data(200)["id"], json!(id));
}

/// Requires a problem from the API, or an error page with the same code from the
/// dashboard.
fn assert_error(answer: &TestResponse, status: u16, code: &str, path: &str) {
    if path == "/api" || path.starts_with("/api/") {
        answer.problem(status, code);
        return;
    }
    answer.is(status);
    assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
    let words = format!("{status} {code}, request ");
    assert!(answer.text.contains(&words), "{path}: {}", answer.text);
}

async fn unknown_paths_are_not_found(app: TestApp) {
    for caller in [app.anonymous(), app.key()] {
        for path in [
            "/api",
            "/api/",
            "/api/nothing",
            "/api/host",
            "/api/hosts/",
            "/api//hosts",
            "/API/hosts",
            "/api/changes/",
            "/api/health/",
            "/api/health/db",
            "/api/openapi.yaml",
            "/api/v1/changes",
            "/nothing",
            "/.env",
            "/sign-in/",
        ] {
            for method in ["GET", "POST"] {
                let answer = send(caller.request(method, path)).await;
                assert_error(&answer, 404, "not_found", path);
            }
        }
        let id = Uuid::now_v7();
        let below = format!("/api/hosts/{id}/changes");
        caller.get(&below).await.problem(404, "not_found");
        caller
            .get(&format!("/api/hosts/{id}/"))
            .await
            .problem(404, "not_found");
    }
}

async fn every_response_has_a_request_id(app: TestApp) {
    let key = app.key();
    let mut seen = BTreeSet::new();
    let requests: [(&TestClient, &str); 6] = [
        (&key, "/api/hosts"),
        (&key, "/api/hosts/x"),
        (&key, "/nothing"),
        (&key, "/api/health"),
        (&key, "/sign-in"),
        (&key, "/api/hosts"),
    ];
    for (caller, path) in requests {
        let answer = caller.get(path).await;
        let id = answer.header("x-request-id").to_owned();
        assert_ne!(id, "", "{path}");
        assert!(seen.insert(id), "{path}: repeated");
    }
    // The problem has the same id as the header.
    let answer = key.get("/api/changes?page=0").await;
    let id = answer.header("x-request-id").to_owned();
    assert_eq!(
        answer.problem(400, "malformed_query")["request_id"],
        json!(id)
    );
}
