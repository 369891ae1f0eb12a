//! Every limit of a field: one below, at, and one above the limit.

use serde_json::{Value, json};

use changelog_tests::{TestApp, TestClient, on_both, send};

on_both!(
    string_lengths_are_limited,
    list_sizes_are_limited,
    lengths_count_characters_after_trimming,
    link_urls_are_validated,
    body_size_is_limited,
    header_size_is_limited,
    the_request_rate_of_a_key_is_limited,
);

const MAX_BODY: usize = 256 * 1024;

/// A limit, and how to make a body with a value of a certain size.
struct Limit {
    path: &'static str,
    pointer: &'static str,
    min: usize,
    max: usize,
    body: fn(Value) -> Value,
}

fn change(field: &str, value: &Value) -> Value {
    json!({ "title": "limits", field: value })
}

/// Returns an unused name for a host or service.
fn unique_name() -> String {
    uuid::Uuid::now_v7().simple().to_string()
}

const STRING_LIMITS: [Limit; 13] = [
    Limit {
        path: "/api/changes",
        pointer: "/title",
        min: 3,
        max: 300,
        body: |text| json!({ "title": text }),
    },
    Limit {
        path: "/api/changes",
        pointer: "/description",
        min: 0,
        max: 20_000,
        body: |text| change("description", &text),
    },
    Limit {
        path: "/api/changes",
        pointer: "/impact",
        min: 0,
        max: 20_000,
        body: |text| change("impact", &text),
    },
    Limit {
        path: "/api/changes",
        pointer: "/tags/1",
        min: 1,
        max: 100,
        body: |text| change("tags", &json!(["first", text])),
    },
    Limit {
        path: "/api/changes",
        pointer: "/links/0/label",
        min: 1,
        max: 100,
        body: |text| change("links", &json!([{ "label": text, "url": "https://e.com" }])),
    },
    Limit {
        path: "/api/hosts",
        pointer: "/hostname",
        min: 1,
        max: 100,
        body: |text| json!({ "hostname": text }),
    },
    Limit {
        path: "/api/hosts",
        pointer: "/fqdn",
        min: 0,
        max: 253,
        body: |text| json!({ "hostname": unique_name(), "fqdn": text }),
    },
    Limit {
        path: "/api/hosts",
        pointer: "/os",
        min: 0,
        max: 100,
        body: |text| json!({ "hostname": unique_name(), "os": text }),
    },
    Limit {
        path: "/api/hosts",
        pointer: "/description",
        min: 0,
        max: 1000,
        body: |text| json!({ "hostname": unique_name(), "description": text }),
    },
    Limit {
        path: "/api/hosts",
        pointer: "/roles/0",
        min: 1,
        max: 100,
        body: |text| json!({ "hostname": unique_name(), "roles": [text] }),
    },
    Limit {
        path: "/api/services",
        pointer: "/name",
        min: 2,
        max: 100,
        body: |text| json!({ "name": text }),
    },
    Limit {
        path: "/api/services",
        pointer: "/description",
        min: 0,
        max: 20_000,
        body: |text| json!({ "name": unique_name(), "description": text }),
    },
    // The whole URL counts: `https://e.com/` has 14 characters.
    Limit {
        path: "/api/changes",
        pointer: "/links/0/url",
        min: 14,
        max: 2048,
        body: |text| {
            let text = text.as_str().unwrap_or_default();
            let path = "x".repeat(text.chars().count().saturating_sub(14));
            change(
                "links",
                &json!([{ "label": "l", "url": format!("https://e.com/{path}") }]),
            )
        },
    },
];

/// Creates a record with a value, and updates one to it; both must have the same result.
async fn create_and_update(key: &TestClient, limit: &Limit, value: Value, code: Option<&str>) {
    let body = (limit.body)(value.clone());
    let update = (limit.body)(value.clone());
    let size = value.as_str().map_or(0, |text| text.chars().count());
    let what = format!("{} of size {size}", limit.pointer);
    let answer = key.post(limit.path, body.clone()).await;
    let target = match limit.path {
        "/api/hosts" => json!({ "hostname": unique_name() }),
        "/api/services" => json!({ "name": unique_name() }),
        _ => json!({ "title": "to be updated" }),
    };
    match code {
        None => assert_eq!(answer.status, 201, "{what}: {}", answer.text),
        Some(code) => answer.violates(&[(limit.pointer, code)]),
    }
    // Valid names are used now, so an update to them would be a conflict.
    let named = matches!(limit.pointer, "/hostname" | "/name");
    if code.is_some() || !named {
        let id = key.create(limit.path, target).await;
        let answer = key.patch(&format!("{}/{id}", limit.path), update).await;
        match code {
            None => assert_eq!(answer.status, 200, "update of {what}: {}", answer.text),
            Some(code) => answer.violates(&[(limit.pointer, code)]),
        }
    }
}

async fn string_lengths_are_limited(app: TestApp) {
    let key = app.key();
    for limit in &STRING_LIMITS {
        let url = limit.pointer.ends_with("url");
        for letter in ["x", "é", "🚀"] {
            let of = |size: usize| json!(letter.repeat(size));
            if limit.min > 0 && !url {
                create_and_update(&key, limit, of(limit.min - 1), Some("too_short")).await;
            }
            create_and_update(&key, limit, of(limit.min), None).await;
            create_and_update(&key, limit, of(limit.min + 1), None).await;
            create_and_update(&key, limit, of(limit.max - 1), None).await;
            create_and_update(&key, limit, of(limit.max), None).await;
            create_and_update(&key, limit, of(limit.max + 1), Some("too_long")).await;
        }
    }
}

/// Makes a list of this many elements.
type List<'a> = &'a dyn Fn(usize) -> Value;

async fn list_sizes_are_limited(app: TestApp) {
    let key = app.key();
    let words = |count: usize| -> Value { (0..count).map(|n| format!("word {n}")).collect() };
    let links = |count: usize| -> Value {
        (0..count)
            .map(|n| json!({ "label": format!("{n}"), "url": "https://e.com" }))
            .collect()
    };
    let cases: [(&str, &str, usize, List<'_>); 3] = [
        ("/api/changes", "tags", 20, &words),
        ("/api/changes", "links", 10, &links),
        ("/api/hosts", "roles", 50, &words),
    ];
    for (path, field, max, list) in cases {
        for (size, accepted) in [
            (0, true),
            (1, true),
            (max - 1, true),
            (max, true),
            (max + 1, false),
        ] {
            let mut body = match path {
                "/api/hosts" => json!({ "hostname": unique_name() }),
                _ => json!({ "title": "limits" }),
            };
            let id = key.create(path, body.clone()).await;
            if let Some(name) = body.get_mut("hostname") {
                *name = json!(unique_name());
            }
            body[field] = list(size);
            let created = key.post(path, body).await;
            let one = format!("{path}/{id}");
            let updated = key.patch(&one, json!({ field: list(size) })).await;
            if accepted {
                assert_eq!(created.status, 201, "{size} {field}: {}", created.text);
                assert_eq!(updated.data(200)[field], list(size), "{size} {field}");
            } else {
                created.violates(&[(&format!("/{field}"), "too_many")]);
                updated.violates(&[(&format!("/{field}"), "too_many")]);
            }
        }
    }
    // Tags are counted before duplicates are merged.
    let answer = key
        .post("/api/changes", change("tags", &json!(vec!["same"; 21])))
        .await;
    answer.violates(&[("/tags", "too_many")]);
    let answer = key
        .post("/api/changes", change("tags", &json!(vec!["same"; 20])))
        .await;
    answer.is(201);
}

async fn lengths_count_characters_after_trimming(app: TestApp) {
    let key = app.key();
    for (title, accepted) in [
        (format!("  {}\n\t", "x".repeat(300)), true),
        (" ab ".to_owned(), false),
        ("\u{3000}ab\u{a0}".to_owned(), false),
        ("   ".to_owned(), false),
        ("a b".to_owned(), true),
        // 300 characters of four bytes, of two in UTF-16.
        ("🚀".repeat(300), true),
        ("🚀".repeat(301), false),
        // A combining character counts separately.
        ("e\u{301}".repeat(150), true),
        ("e\u{301}".repeat(151), false),
    ] {
        let answer = key.post("/api/changes", json!({ "title": title })).await;
        if accepted {
            assert_eq!(answer.data(201)["title"], title.trim());
        } else {
            assert_eq!(answer.status, 422, "{title:?}");
        }
    }
}

async fn link_urls_are_validated(app: TestApp) {
    let key = app.key();
    for (url, accepted) in [
        ("https://e.com", true),
        ("http://127.0.0.1:8080/x?y=z#w", true),
        ("https://[2001:db8::1]/", true),
        ("HTTPS://E.COM/", true),
        ("https://ü.example/ä", true),
        ("", false),
        ("e.com", false),
        ("//e.com", false),
        ("/runs/42", false),
        ("https://", false),
        ("https:", false),
        ("ftp://e.com", false),
        ("file:///etc/passwd", false),
        ("javascript:alert(1)", false),
        ("data:text/html,x", false),
        ("https://e.com:99999/", false),
    ] {
        let links = json!([{ "label": "l", "url": url }]);
        let answer = key.post("/api/changes", change("links", &links)).await;
        if accepted {
            let id = answer.data(201)["id"].take();
            let path = format!("/api/changes/{}", changelog_tests::text(&id));
            assert_eq!(key.read(&path).await["links"], links);
        } else {
            assert_eq!(answer.status, 422, "{url}: {}", answer.text);
        }
    }
}

/// Returns a change of exactly this many bytes.
fn sized(bytes: usize) -> String {
    let body = json!({ "title": "large", "description": "🚀".repeat(20_000) }).to_string();
    format!("{}{body}", " ".repeat(bytes - body.len()))
}

async fn body_size_is_limited(app: TestApp) {
    let key = app.key();
    let id = key.change("fine").await;
    let one = format!("/api/changes/{id}");
    for (size, accepted) in [
        (MAX_BODY - 1, true),
        (MAX_BODY, true),
        (MAX_BODY + 1, false),
    ] {
        for chunked in [false, true] {
            for (method, path) in [("POST", "/api/changes"), ("PATCH", one.as_str())] {
                let request = key
                    .request(method, path)
                    .header("content-type", "application/json");
                let request = if chunked {
                    let body = sized(size).into_bytes();
                    let chunks: Vec<_> = body
                        .chunks(9_000)
                        .map(|chunk| Ok::<_, std::io::Error>(chunk.to_vec()))
                        .collect();
                    request.body(reqwest::Body::wrap_stream(futures_util::stream::iter(
                        chunks,
                    )))
                } else {
                    request.body(sized(size))
                };
                let answer = send(request).await;
                let what = format!("{method} of {size} bytes, chunked: {chunked}");
                if accepted {
                    assert!(answer.status < 300, "{what}: {}", answer.text);
                } else {
                    assert_eq!(answer.status, 413, "{what}: {}", answer.text);
                    answer.problem(413, "payload_too_large");
                }
            }
        }
    }
    assert_eq!(key.body("/api/changes").await["count"], 5);
}

async fn header_size_is_limited(app: TestApp) {
    let key = app.key();
    let with = |size: usize| {
        key.request("GET", "/api/hosts")
            .header("x-filler", "x".repeat(size))
    };
    // 16 KiB in all, of which the other headers take a few hundred bytes.
    send(with(15 * 1024)).await.is(200);
    let answer = changelog_tests::client::try_send(with(17 * 1024)).await;
    let status = answer.map(|answer| answer.status);
    assert!(matches!(status, Ok(431 | 400) | Err(_)), "{status:?}");
    // The query string counts too.
    let answer = key
        .get(&format!("/api/changes?q={}", "x".repeat(15 * 1024)))
        .await;
    answer.is(200);
    key.get("/api/hosts").await.is(200);
}

/// The limit is off by default. If it is set, responses have the remaining requests.
async fn the_request_rate_of_a_key_is_limited(mut app: TestApp) {
    let answer = app.key().get("/api/hosts").await;
    assert_eq!(answer.header("ratelimit"), "");
    app.restart_with(&["--rate-limit", "5"]).await;
    let other = app.create_key(&[]);
    let key = app.key();
    let requests = (0..40).map(|_| key.get("/api/hosts"));
    let answers = futures_util::future::join_all(requests).await;
    let refused: Vec<_> = answers
        .iter()
        .filter(|answer| answer.status != 200)
        .collect();
    assert!(
        !refused.is_empty(),
        "40 at once, where 5 a second are allowed"
    );
    assert!(answers.len() - refused.len() >= 5, "5 a second are allowed");
    for answer in refused {
        answer.problem(429, "too_many_requests");
        let wait: u64 = answer.header("retry-after").parse().expect("whole seconds");
        assert!((1..=2).contains(&wait), "{wait}");
    }
    for answer in answers.iter().filter(|answer| answer.status == 200) {
        assert_ne!(answer.header("ratelimit"), "");
        assert_ne!(answer.header("ratelimit-policy"), "");
    }
    // Other keys are not affected.
    app.with_key(&changelog_tests::text(&other["key"]))
        .get("/api/hosts")
        .await
        .is(200);
    app.anonymous().body("/api/health").await;
}
