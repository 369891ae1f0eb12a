//! Who recorded a change, and what changed, as the pages show it.

use serde_json::{Value, json};

use super::{between, main_of};
use changelog_tests::{TestApp, assert_contains, assert_lacks, each, on_one, text};

on_one!(
    the_author_of_a_change_leads_to_their_changes,
    claims_are_shown_as_claims,
    several_services_are_recorded_and_changed,
    a_first_service_is_changed_without_those_of_others,
    changes_are_filtered_by_environment_author_and_text,
);

async fn the_author_of_a_change_leads_to_their_changes(app: TestApp) {
    let (key, owner) = (app.key(), app.browser().await);
    key.change("By the key").await;
    let fields = [("title", "By hand"), ("status", "completed")];
    let answer = owner.post_form("/changes", &fields).await;
    let path = answer.header("location").to_owned();
    let me = &app.organization.owner_id;
    let is_linked = |shown: &str, name: &str| {
        let link = format!("<a href=\"/changes?created_by={me}\"");
        let mut links = shown.split(&link).skip(1);
        links.any(|rest| between(rest, "<bdi>", "</bdi>") == name)
    };
    let old = app.organization.owner_name.as_str();
    for page in ["/", "/changes", &path] {
        let shown = main_of(&owner, page).await;
        assert!(is_linked(&shown, old), "{page}: {shown}");
    }
    // A new name is shown at once, and found.
    owner.submit("/account", &[("name", "Ada King")]).await;
    for page in ["/", "/changes", &path] {
        let shown = main_of(&owner, page).await;
        assert!(is_linked(&shown, "Ada King"), "{page}: {shown}");
    }
    for by in [me.as_str(), "ada+king", "terraform"] {
        let list = main_of(&owner, &format!("/changes?created_by={by}")).await;
        let (title, name) = match by {
            "terraform" => ("By the key", "terraform"),
            "ada+king" => ("By hand", "ada king"),
            _ => ("By hand", "Ada King"),
        };
        assert!(list.contains("1 change<"), "{by}: {list}");
        assert!(list.contains(title), "{by}: {list}");
        let field = between(&list, "id=\"created_by\"", ">");
        assert!(
            field.contains(&format!("value=\"{name}\"")),
            "{by}: {field}"
        );
    }
    let list = owner.get("/changes?created_by=terrafrom").await;
    list.is(400);
    let error = between(&list.text, "id=\"created_by-error-1\">", "<");
    assert_eq!(
        error,
        "No person or API key named &#34;terrafrom&#34;. Did you mean terraform?"
    );
    // The other filters stay in the form.
    let typed = "created_by=terrafrom&tag=eu&since=2026-02-01T10%3A00%3A00Z";
    let list = owner.get(&format!("/changes?{typed}")).await;
    list.is(400);
    for (field, value) in [
        ("created_by", "terrafrom"),
        ("tags", "eu"),
        ("since", "2026-02-01T10:00"),
    ] {
        let shown = between(&list.text, &format!("id=\"{field}\""), ">");
        assert!(
            shown.contains(&format!("value=\"{value}")),
            "{field}: {shown}"
        );
    }
}

async fn claims_are_shown_as_claims(app: TestApp) {
    let (key, owner) = (app.key(), app.browser().await);
    let body = json!({
        "title": "Deploy", "status": "completed", "on_behalf_of": "mei@example.com",
        "agent": { "name": "deploy-bot", "mode": "autonomous", "run": "javascript:alert(1)" },
        "commit": "1a2b3c4d5e6f", "committed_at": "2026-02-01T10:00:00Z",
    });
    let id = key.create("/api/changes", body).await;
    let facts = async |id: &str| {
        let page = main_of(&owner, &format!("/changes/{id}")).await;
        between(&page, "data-live=\"facts\"", "</section>").to_owned()
    };
    let shown = facts(&id).await;
    for fact in [
        "<bdi>mei@example.com</bdi> <span class=\"quiet\">(claimed)</span>",
        "<bdi>deploy-bot</bdi></a>, autonomous, run javascript:alert(1) <span class=\"quiet\">(claimed)</span>",
        "1a2b3c4d5e6f",
        "2026-02-01 10:00<",
        "<bdi>terraform</bdi></a> <span class=\"tag\">key</span>",
    ] {
        assert!(shown.contains(fact), "{fact}: {shown}");
    }
    let run = json!({ "agent": { "name": "bot", "run": "https://ci.example.com/42" } });
    key.update(&format!("/api/changes/{id}"), run).await;
    let shown = facts(&id).await;
    assert_contains(&shown, "<a href=\"https://ci.example.com/42\"");
    // Nothing is claimed by a change that a person recorded.
    let fields = [("title", "By hand"), ("on_behalf_of", "Grace")];
    let answer = owner.post_form("/changes", &fields).await;
    let (_, id) = answer.header("location").rsplit_once('/').expect("an id");
    let shown = facts(id).await;
    assert_contains(&shown, "Grace");
    assert_lacks(&shown, "<dt>Agent");
}

async fn several_services_are_recorded_and_changed(app: TestApp) {
    let (key, owner) = (app.key(), app.browser().await);
    let mut ids = Vec::new();
    for name in ["payments", "ledger", "a, b"] {
        ids.push(key.service(name).await);
    }
    let [payments, ledger, comma] = ids.as_slice() else {
        panic!("three services");
    };
    let further = format!("LEDGER, \"a, b\", {ledger}");
    let fields = [
        ("title", "Of three"),
        ("service_id", payments),
        ("service_ids", &further),
    ];
    let answer = owner.post_form("/changes", &fields).await;
    answer.is(303);
    let path = answer.header("location").to_owned();
    let services = async || {
        let change = key.read(&format!("/api{path}")).await;
        change["service_ids"].clone()
    };
    assert_eq!(services().await, json!([payments, ledger, comma]));
    let list = main_of(&owner, "/changes").await;
    assert_contains(&list, format!("href=\"/services/{payments}\""));
    assert_contains(&list, "title=\"ledger, a, b\">+2<");
    for id in &ids {
        let found = main_of(&owner, &format!("/changes?service_id={id}")).await;
        assert_contains(&found, "Of three");
    }
    // The form shows the further services by name, and takes them back.
    let form = main_of(&owner, &format!("{path}/edit")).await;
    let shown = between(between(&form, "id=\"service_ids\"", ">"), "value=\"", "\"");
    assert_eq!(shown, "ledger, &#34;a, b&#34;");
    let shown = shown.replace("&#34;", "\"");
    for (first, further, expected) in [
        (payments, shown.as_str(), json!([payments, ledger, comma])),
        (ledger, shown.as_str(), json!([ledger, comma])),
        (payments, "ledger", json!([payments, ledger])),
        (&String::new(), "payments", json!([payments])),
        (&String::new(), "", json!([])),
    ] {
        let form = main_of(&owner, &format!("{path}/edit")).await;
        let fields = [
            ("service_id", first.as_str()),
            ("service_ids", further),
            ("shown", between(&form, "name=\"shown\" value=\"", "\"")),
        ];
        owner.submit(&path, &fields).await;
        assert_eq!(services().await, expected, "{first} {further}");
        // A change without a service leads to the field for one.
        let offers = main_of(&owner, &path).await.contains("/edit#service_id\"");
        assert_eq!(offers, expected == json!([]), "{first} {further}");
    }
    let fields = [("service_ids", "ledger, nothing")];
    let answer = owner.post_form(&path, &fields).await;
    answer.is(422);
    let error = between(&answer.text, "id=\"service_ids-error-1\">", "<");
    assert_eq!(error, "service 2: No service named &#34;nothing&#34;");
}

async fn a_first_service_is_changed_without_those_of_others(app: TestApp) {
    let (key, owner) = (app.key(), app.browser().await);
    let mut ids = Vec::new();
    for name in ["accounts", "billing", "catalog", "checkout"] {
        ids.push(key.service(name).await);
    }
    let [accounts, billing, catalog, checkout] = ids.as_slice() else {
        panic!("four services");
    };
    let body = json!({ "title": "Of two", "service_ids": [accounts, billing] });
    let path = format!("/changes/{}", key.create("/api/changes", body).await);
    let form = main_of(&owner, &format!("{path}/edit")).await;
    let meanwhile = json!({ "service_ids": [accounts, catalog] });
    key.update(&format!("/api{path}"), meanwhile).await;
    let fields = [
        ("service_id", "checkout"),
        ("service_ids", "billing"),
        ("shown", between(&form, "name=\"shown\" value=\"", "\"")),
    ];
    owner.submit(&path, &fields).await;
    let change = key.read(&format!("/api{path}")).await;
    assert_eq!(change["service_ids"], json!([checkout, catalog]));
}

#[expect(clippy::too_many_lines, reason = "one filter after the other")]
async fn changes_are_filtered_by_environment_author_and_text(app: TestApp) {
    let (key, owner) = (app.key(), app.browser().await);
    let service = key.service("payments").await;
    let host = json!({ "hostname": "web-1", "environment": "staging" });
    let host = key.create("/api/hosts", host).await;
    for (minute, mut body) in [
        json!({ "title": "One", "environment": "prod", "risk_level": "high", "tags": ["needle"] }),
        json!({ "title": "Two", "host_id": host, "risk_level": "medium" }),
        json!({ "title": "Three", "service_id": service, "status": "completed" }),
    ]
    .into_iter()
    .enumerate()
    {
        // All on one day.
        body["occurred_at"] = json!(format!("2026-01-21T14:0{minute}:00Z"));
        key.create("/api/changes", body).await;
    }
    for (typed, canonical, titles) in [
        (
            "environment=prod&environment=staging",
            "environment=prod%2Cstaging",
            vec!["Two", "One"],
        ),
        ("environment=staging", "environment=staging", vec!["Two"]),
        (
            "risk_level=high&status=&risk_level=low",
            "risk_level=high%2Clow",
            vec!["Three", "One"],
        ),
        (
            "status=planned&status=completed&risk_level=low",
            "status=planned%2Ccompleted&risk_level=low",
            vec!["Three"],
        ),
        ("min_risk=medium", "min_risk=medium", vec!["Two", "One"]),
        ("not_status=planned", "not_status=planned", vec!["Three"]),
        ("text=needle", "text=needle", vec!["One"]),
        ("text=web-1", "text=web-1", vec!["Two"]),
        ("text=payments", "text=payments", vec!["Three"]),
        // An address of before searches titles.
        ("q=needle", "q=needle", vec![]),
        ("q=one", "q=one", vec!["One"]),
    ] {
        let mut page = owner.get(&format!("/changes?{typed}")).await;
        if typed != canonical {
            page.is(303);
            assert_eq!(page.header("location"), format!("/changes?{canonical}"));
            page = owner.get(&format!("/changes?{canonical}")).await;
        }
        page.is(200);
        let rows = page.text.split("<a class=\"title\"").skip(1);
        let shown: Vec<&str> = rows.map(|row| between(row, ">", "<")).collect();
        // What is planned has a heading of its own, before what happened on that day.
        let mut expected = titles.clone();
        expected.sort_by_key(|title| *title == "Three");
        assert_eq!(shown, expected, "{typed}");
        let file = owner.get(&format!("/changes.ndjson?{canonical}")).await;
        let lines: Vec<Value> = file
            .text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let lines = json!(lines);
        let downloaded: Vec<String> = each(&lines, "title").into_iter().map(text).collect();
        assert_eq!(downloaded, titles, "{typed}");
    }
    // The form shows what is chosen.
    let page = main_of(
        &owner,
        "/changes?environment=prod%2Cstaging&min_risk=medium&q=t",
    )
    .await;
    for (name, chosen) in [
        ("environment", vec!["prod", "staging"]),
        ("risk_level", vec![]),
        ("status", vec![]),
    ] {
        let start = format!("name=\"{name}\" value=\"");
        let boxes = page.split(&start).skip(1);
        let checked: Vec<&str> = boxes
            .filter_map(|rest| rest.split_once('>'))
            .filter(|(field, _)| field.contains("checked"))
            .filter_map(|(field, _)| field.split_once('"'))
            .map(|(value, _)| value)
            .collect();
        assert_eq!(checked.len(), chosen.len(), "{name}: {checked:?}");
        assert!(
            chosen.iter().all(|word| checked.contains(word)),
            "{name}: {checked:?}"
        );
    }
    let least = between(&page, "<select id=\"min_risk\"", "</select>");
    assert_contains(&least, "value=\"medium\" selected");
    let title = between(&page, "name=\"q\"", ">");
    assert_contains(&title, "value=\"t\"");
    let plain = main_of(&owner, "/changes").await;
    assert_lacks(&plain, "name=\"q\"");
    for query in [
        "environment=prod%2Cmoon",
        "risk_level=huge",
        "created_by=%01",
    ] {
        let page = owner.get(&format!("/changes?{query}")).await;
        page.is(400);
        let (field, _) = query.split_once('=').expect("a field");
        let error = format!("id=\"{field}-error-1\"");
        assert!(page.text.contains(&error), "{query}: {}", page.text);
    }
}
