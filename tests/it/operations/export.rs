//! Everything of an organization as one archive.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};

use crate::dashboard::join;
use changelog_tests::{TestApp, TestClient, assert_contains, assert_lacks, on_both, text};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

on_both!(an_owner_gets_everything_and_no_secret, only_owners_get_it,);

const PATH: &str = "/settings/organization/export";

/// Downloads the archive and returns the texts of its files by their names.
async fn export(owner: &TestClient) -> BTreeMap<String, String> {
    let response = owner.request("POST", PATH).send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "application/zip");
    let name = response.headers()["content-disposition"].to_str();
    let name = name.expect("a name").to_owned();
    assert!(
        name.starts_with("attachment; filename=\"change-log-20"),
        "{name}"
    );
    let bytes = response.bytes().await.expect("the archive");
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).expect("an archive");
    let mut files = BTreeMap::new();
    for index in 0..archive.len() {
        let mut file = archive.by_index(index).expect("a file");
        let mut content = String::new();
        file.read_to_string(&mut content).expect("text");
        let name = file.name().expect("a name").into_owned();
        files.insert(name, content);
    }
    files
}

fn records(text: &str) -> Vec<Value> {
    let parsed = text.lines().map(serde_json::from_str);
    parsed.collect::<Result<_, _>>().expect("JSON in each line")
}

async fn an_owner_gets_everything_and_no_secret(app: TestApp) {
    let (key, owner) = (app.key(), app.browser().await);
    let service = key.service("payments").await;
    key.host("db-1").await;
    for number in 0..230 {
        let body = json!({
            "title": format!("Deploy payments {number}"), "service_id": &service,
            "description": "é".repeat(300), "status": "completed", "risk_level": "high",
        });
        key.create("/api/changes", body).await;
    }
    for number in 0..103 {
        let body = json!({ "title": format!("Timeouts {number}"), "service_id": &service });
        key.create("/api/incidents", body).await;
    }
    let others = app.second_organization();
    let stranger = app.with_key(&others.key);
    stranger
        .create("/api/changes", json!({ "title": "Of others" }))
        .await;
    let made = app.create_key(&["--scope", "read"]);
    let source = app.admin(&[
        "source",
        "create",
        "--org",
        &app.organization.id,
        "--kind",
        "generic",
        "--name",
        "CI",
    ]);
    let fields = [
        ("kind", "webhook"),
        ("name", "Receiver"),
        ("url", "https://hooks.example.com/secret-path"),
        ("events", "change.created"),
    ];
    let shown = owner.post_form("/settings/integrations", &fields).await;
    shown.is(200);

    let files = export(&owner).await;
    let manifest: Value = serde_json::from_str(&files["manifest.json"]).expect("JSON");
    let listed = manifest["files"].as_array().expect("a list");
    assert_eq!(listed.len() + 1, files.len());
    for file in listed {
        let content = &files[&text(&file["name"])];
        assert_eq!(
            json!(content.matches('\n').count()),
            file["lines"],
            "{file}"
        );
        let sha256 = format!("{:?}", digest(&SHA256, content.as_bytes()));
        assert_eq!(
            sha256,
            format!("SHA256:{}", text(&file["sha256"])),
            "{file}"
        );
        if text(&file["name"]).ends_with(".ndjson") {
            records(content);
        }
    }
    // Changes are those of the API.
    let changes = records(&files["changes.ndjson"]);
    assert_eq!(changes.len(), 230);
    let newest = &key.body("/api/changes?per_page=1").await["data"][0];
    assert_eq!(changes[0]["id"], newest["id"]);
    assert_eq!(changes[0]["description"], newest["description"]);
    assert_eq!(records(&files["incidents.ndjson"]).len(), 103);
    let incident = &records(&files["incidents.ndjson"])[0];
    let path = format!("/api/incidents/{}", text(&incident["id"]));
    assert_eq!(*incident, key.read(&path).await);
    for (file, names) in [
        ("services.ndjson", "\"payments\""),
        ("hosts.ndjson", "\"db-1\""),
        ("members.ndjson", app.organization.email.as_str()),
        ("api_keys.ndjson", app.organization.key_id.as_str()),
        ("sources.ndjson", "\"CI\""),
        ("connections.ndjson", "\"Receiver\""),
        ("organization.json", app.organization.name.as_str()),
        ("README.txt", "chlog import"),
    ] {
        assert_contains(&files[file], names);
    }
    let activity = records(&files["activity.ndjson"]);
    assert_eq!(activity[0]["action"], "exported");
    assert!(activity.len() > 335, "{}", activity.len());
    // Neither secrets nor others.
    let all = files.values().cloned().collect::<String>();
    let (other, path) = (text(&made["key"]), text(&source["path"]));
    let own = app.organization.key.as_str();
    for secret in [own, &other, &path, "secret-path", "Of others"] {
        assert_lacks(&all, secret);
    }
    let log = owner.page("/activity").await;
    assert_contains(&log, "exported everything of");
    // The changes can be imported elsewhere.
    let file = app.folder().join("changes.ndjson");
    std::fs::write(&file, &files["changes.ndjson"]).expect("a file");
    let mut import = app.chlog();
    import.env("CHLOG_API_KEY", &others.key);
    import.args(["import", "--create-missing"]).arg(&file);
    import.assert().success();
    assert_eq!(stranger.body("/api/changes").await["count"], 231);
}

async fn only_owners_get_it(app: TestApp) {
    let owner = app.browser().await;
    for role in ["admin", "member", "viewer"] {
        let member = join(&app, &owner, role, role).await;
        member.browser.post_form(PATH, &[]).await.is(403);
        let page = member.browser.page("/settings/organization").await;
        assert_lacks(&page, PATH);
    }
    let page = owner.page("/settings/organization").await;
    assert_contains(&page, PATH);
}
