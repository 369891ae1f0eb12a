//! Quotas of an organization: hosts, services, members and keys, and the length of
//! strings in the activity log.

use serde_json::{Value, json};

use changelog_tests::{TestApp, assert_contains, assert_lacks, each, on_both, send, text};

on_both!(
    hosts_and_services_are_limited,
    members_and_keys_are_limited,
    concurrent_creates_do_not_exceed_the_limit,
    lists_can_be_read_in_pages,
    long_strings_are_shortened_in_the_log,
    a_name_with_nul_is_refused,
);

async fn hosts_and_services_are_limited(mut app: TestApp) {
    app.restart_with(&["--max-hosts", "2", "--max-services", "1"])
        .await;
    let key = app.key();
    for (path, field, limit, flag) in [
        (
            "/api/hosts",
            "hostname",
            2,
            "--max-hosts or CHANGELOG_MAX_HOSTS",
        ),
        (
            "/api/services",
            "name",
            1,
            "--max-services or CHANGELOG_MAX_SERVICES",
        ),
    ] {
        for number in 0..limit {
            let body = json!({ field: format!("name {number}") });
            key.post(path, body).await.is(201);
        }
        // A used name is still a conflict.
        let taken = key.post(path, json!({ field: "name 0" })).await;
        taken.problem(409, "conflict");
        let keyed = key
            .request("POST", path)
            .header("idempotency-key", "one too many")
            .json(&json!({ field: "one too many" }));
        let problem = send(keyed).await.problem(403, "quota_exceeded");
        let detail = text(&problem["detail"]);
        assert_contains(&detail, format!("has {limit} "));
        assert_contains(&detail, flag);
        let list = key.read(path).await;
        assert_eq!(list.as_array().map(Vec::len), Some(limit));
    }
    // Another organization has its own quota. A higher quota applies at once, also to a
    // request that was refused before.
    let other = app.second_organization();
    let other = app.with_key(&other.key);
    other
        .post("/api/hosts", json!({ "hostname": "a" }))
        .await
        .is(201);
    app.restart_with(&["--max-hosts", "3"]).await;
    let keyed = app
        .key()
        .request("POST", "/api/hosts")
        .header("idempotency-key", "one too many")
        .json(&json!({ "hostname": "one too many" }));
    send(keyed).await.is(201);
}

async fn members_and_keys_are_limited(mut app: TestApp) {
    // The owner and the first key count.
    app.restart_with(&["--max-members", "2", "--max-api-keys", "1"])
        .await;
    let browser = app.browser().await;
    let invite = async |email: &'static str| {
        let fields = [("email", email), ("role", "member")];
        browser.post_form("/settings/members/invite", &fields).await
    };
    let make_key = async |name: &'static str| {
        let path = "/settings/api-keys";
        browser.post_form(path, &[("name", name)]).await
    };
    invite("bob@example.com").await.is(200);
    let refused = invite("carol@example.com").await;
    refused.is(403);
    assert_contains(&refused.text, "--max-members");
    let refused = make_key("second").await;
    refused.is(403);
    assert_contains(&refused.text, "--max-api-keys");
    // The operator may exceed the quota, and revoked keys do not count.
    let second = app.create_key(&[]);
    for id in [text(&second["id"]), app.organization.key_id.clone()] {
        app.admin(&["key", "revoke", &id]);
    }
    make_key("third").await.is(200);
}

async fn concurrent_creates_do_not_exceed_the_limit(mut app: TestApp) {
    app.restart_with(&["--max-hosts", "5"]).await;
    let key = app.key();
    let create = |number: usize| {
        let body = json!({ "hostname": format!("host-{number:02}") });
        send(key.request("POST", "/api/hosts").json(&body))
    };
    let answers = futures_util::future::join_all((0..24).map(create)).await;
    let made = answers.iter().filter(|answer| answer.status == 201).count();
    assert_eq!(made, 5);
    for answer in answers.iter().filter(|answer| answer.status != 201) {
        answer.problem(403, "quota_exceeded");
    }
    let hosts = key.read("/api/hosts").await;
    assert_eq!(hosts.as_array().map(Vec::len), Some(5));
}

async fn lists_can_be_read_in_pages(app: TestApp) {
    let key = app.key();
    for (path, field) in [("/api/hosts", "hostname"), ("/api/services", "name")] {
        for name in ["Delta", "alpha", "Bravo", "charlie", "echo"] {
            key.create(path, json!({ field: name })).await;
        }
        let all = key.read(path).await;
        let mut read = Vec::new();
        let mut after = String::new();
        loop {
            let query = format!("{path}?limit=2&after={after}");
            let part = key.read(&query).await;
            let Value::Array(part) = part else {
                panic!("a list: {part}");
            };
            assert!(part.len() <= 2, "{part:?}");
            let Some(last) = part.last() else {
                break;
            };
            after = text(&last[field]);
            read.extend(part);
        }
        assert_eq!(Value::Array(read), all);
        // `after` need not be an existing name, and ignores case.
        let part = key.read(&format!("{path}?after=CHAR")).await;
        assert_eq!(each(&part, field), ["charlie", "Delta", "echo"]);
        let part = key.read(&format!("{path}?limit=9999")).await;
        assert_eq!(part, all);
        key.get(&format!("{path}?limit=0"))
            .await
            .violates_query(&[("?limit", "out_of_range")]);
        key.get(&format!("{path}?after=%00"))
            .await
            .violates_query(&[("?after", "invalid_format")]);
    }
}

async fn long_strings_are_shortened_in_the_log(app: TestApp) {
    let key = app.key();
    let id = key.change("a change with long strings").await;
    let path = format!("/api/changes/{id}");
    let long = |letter: &str| letter.repeat(20_000);
    key.update(&path, json!({ "impact": long("a") })).await;
    key.update(
        &path,
        json!({ "impact": long("é"), "title": "b".repeat(300) }),
    )
    .await;
    assert_eq!(key.read(&path).await["impact"], long("é"));
    let browser = app.browser().await;
    let entries = browser.get("/api/activity?resource=change&limit=2").await;
    assert!(entries.text.len() < 4_000, "{} bytes", entries.text.len());
    let changes = &entries.body(200)["items"][0]["metadata"]["changes"];
    assert_eq!(
        changes["impact"],
        json!({
            "from": { "excerpt": "a".repeat(200), "length": 20_000 },
            "to": { "excerpt": "é".repeat(200), "length": 20_000 },
        })
    );
    assert_eq!(changes["title"]["to"], "b".repeat(300));
    let page = browser.page(&format!("/changes/{id}")).await;
    assert_lacks(&page, "excerpt");
}

async fn a_name_with_nul_is_refused(app: TestApp) {
    let browser = app.browser().await;
    for query in ["service=%00", "host=a%00b", "tag=%00", "service_id=%00"] {
        browser.get(&format!("/changes?{query}")).await.is(400);
    }
    let answer = app.key().get("/api/changes?tag=a%00b").await;
    answer.problem(400, "malformed_query");
}
