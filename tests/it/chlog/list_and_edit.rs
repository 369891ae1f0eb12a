//! `chlog list`, `show`, `update` and the commands for services and hosts.

use serde_json::{Value, json};

use crate::chlog::{ChlogOutput, chlog, newest};
use changelog_tests::{TestApp, each, keys, on_one, shapes, text};

on_one!(
    lists_are_filtered,
    filters_that_select_nothing_are_refused,
    lists_are_limited_and_paged,
    changes_are_edited,
    services_times_and_claims_are_edited,
    tags_and_links_are_added_removed_and_replaced,
    status_commands_set_the_status,
    notes_are_appended_to_the_description,
    hosts_are_edited,
    a_planned_change_is_of_the_day_on_which_it_is_made,
    services_and_hosts_are_managed,
);

/// Records four changes that filters tell apart.
fn record_four_changes(app: &TestApp) {
    for (title, more) in [
        (
            "Überlauf behoben",
            &["--risk", "high", "--tag", "a,b", "--service", "payments"][..],
        ),
        (
            "Deploy api",
            &["--status", "rolled_back", "--tag", "a", "--host", "web-1"],
        ),
        ("Deploy web", &["--occurred-at", "3d", "--risk", "medium"]),
        (
            "Old one",
            &[
                "--occurred-at",
                "2026-01-15T12:00:00Z",
                "--status",
                "planned",
                "--environment",
                "staging",
                "--service",
                "search,payments",
            ],
        ),
    ] {
        let mut arguments = vec!["log", title, "--create-missing"];
        arguments.extend(more);
        chlog(app, &arguments).succeeds();
    }
}

async fn lists_are_filtered(app: TestApp) {
    record_four_changes(&app);
    let author = newest(&app).await["created_by"]["name"].clone();
    let author = author.as_str().expect("a name");
    let everything = ["Deploy api", "Überlauf behoben", "Deploy web", "Old one"];
    for (arguments, expected) in [
        (&[][..], &everything[..]),
        (&["-q", "deploy"], &["Deploy api", "Deploy web"]),
        (&["--search", "uber"], &["Überlauf behoben"]),
        (&["--risk", "high"], &["Überlauf behoben"]),
        (&["--risk", "MEDIUM"], &["Deploy web"]),
        (
            &["--risk", "high,medium"],
            &["Überlauf behoben", "Deploy web"],
        ),
        (
            &["--min-risk", "medium"],
            &["Überlauf behoben", "Deploy web"],
        ),
        (&["--status", "rolled-back"], &["Deploy api"]),
        (
            &["--status", "rolled_back,planned"],
            &["Deploy api", "Old one"],
        ),
        (
            &["--not-status", "completed", "--not-status", "planned"],
            &["Deploy api"],
        ),
        (&["--active"], &[]),
        (&["--environment", "staging"], &["Old one"]),
        (&["--env", "prod,dev"], &[]),
        (&["--by", author], &everything),
        (
            &["--by", &author.to_uppercase(), "--risk", "high"],
            &["Überlauf behoben"],
        ),
        (&["--by", "nobody"], &[]),
        (&["payments"], &["Überlauf behoben", "Old one"]),
        (&["web"], &["Deploy api", "Deploy web"]),
        (&["dep", "web-1"], &["Deploy api"]),
        (&["-q", "payments"], &[]),
        (&["--service", "search"], &["Old one"]),
        (&["--tag", "a"], &["Deploy api", "Überlauf behoben"]),
        (&["--tag", "a,b"], &["Überlauf behoben"]),
        (&["--tag", "a", "--tag", "b"], &["Überlauf behoben"]),
        (&["--service", "Payments"], &["Überlauf behoben", "Old one"]),
        (&["--host", "web-1"], &["Deploy api"]),
        (&["--since", "2h"], &["Deploy api", "Überlauf behoben"]),
        (
            &["--since", "7d"],
            &["Deploy api", "Überlauf behoben", "Deploy web"],
        ),
        (&["--until", "2026-01-15"], &["Old one"]),
        (&["--until", "2026-01-15T12:00:00Z"], &[]),
        (
            &["--since", "2026-01-15T12:00:00Z", "--until", "2d"],
            &["Deploy web", "Old one"],
        ),
        (&["--since", "2026-01-16", "--until", "2d"], &["Deploy web"]),
        (&["-q", "nothing"], &[]),
    ] {
        let mut all = vec!["list", "--json"];
        all.extend(arguments);
        let list = chlog(&app, &all).succeeds().json();
        assert_eq!(each(&list["data"], "title"), expected, "{arguments:?}");
        assert_eq!(list["count"], expected.len(), "{arguments:?}");
    }
}

async fn filters_that_select_nothing_are_refused(app: TestApp) {
    chlog(&app, &["list", "--service", "nobody"]).exits_with(3);
    for arguments in [
        &["list", "--risk", "extreme"][..],
        &["list", "--risk", "high", "--min-risk", "low"],
        &["list", "--status", "planned", "--not-status", "completed"],
        &["list", "--active", "--status", "planned"],
        &[
            "list",
            "--not-status",
            "planned,in_progress,completed,rolled_back",
        ],
        &["list", "--since", "whenever"],
        &["list", "--limit", "0"],
        &["list", "--page", "0"],
        &["list", "--all", "--page", "2"],
        // An empty variable of a script must not list everything.
        &["list", "--service", ""],
        &["list", "--host", " "],
        &["list", "--tag", ""],
        &["list", "--by", ""],
        &["list", "-q", ""],
        &["list", ""],
        // Nor must a query without words, which matches everything.
        &["list", "🚀"],
        &["list", "-q", "%"],
        &["export", "_"],
        &["export", "--service="],
        &["around", "--service", ""],
        // The end is before the start.
        &["list", "--since", "2d", "--until", "3d"],
    ] {
        chlog(&app, arguments).exits_with(2);
    }
}

async fn lists_are_limited_and_paged(app: TestApp) {
    let key = app.key();
    for index in 0..105 {
        key.change(&format!("number {index}")).await;
    }
    for (arguments, first, size) in [
        (&[][..], 104, 25),
        (&["-L", "3"], 104, 3),
        (&["-L", "100"], 104, 100),
        (&["-L", "102"], 104, 102),
        (&["--page", "2"], 79, 25),
        (&["-L", "50", "--page", "3"], 4, 5),
        (&["--page", "6"], 0, 0),
        (&["--all"], 104, 105),
    ] {
        let mut all = vec!["ls", "--format", "ndjson"];
        all.extend(arguments);
        let output = chlog(&app, &all).succeeds();
        let titles: Vec<String> = output
            .stdout
            .lines()
            .map(|line| text(&serde_json::from_str::<Value>(line).expect("JSON")["title"]))
            .collect();
        let expected: Vec<String> = (0..size).map(|n| format!("number {}", first - n)).collect();
        assert_eq!(titles, expected, "{arguments:?}");
    }
    let everything = chlog(&app, &["list", "--all", "--json"]).succeeds().json();
    assert_eq!(
        keys(&everything),
        ["count", "data", "page", "per_page", "total_pages"]
    );
    assert_eq!(everything["count"], 105);
    assert_eq!(each(&everything["data"], "title").len(), 105);
}

async fn changes_are_edited(app: TestApp) {
    let key = app.key();
    key.create("/api/services", json!({ "name": "payments" }))
        .await;
    let id = key.change("Deploy").await;
    let arguments = [
        "update",
        &id,
        "--title",
        "Redeploy",
        "--risk",
        "high",
        "--status",
        "in_progress",
        "--service",
        "payments",
        "--host",
        "web-1",
        "--create-missing",
        "--tag",
        "x,y",
        "-m",
        "story",
        "--impact",
        "some",
        "--link",
        "run=https://e.com/",
        "--scheduled-for",
        "2027-01-01T00:00:00Z",
    ];
    let output = chlog(&app, &arguments).succeeds();
    assert!(
        output.stdout.contains(&id) && output.stdout.contains("Redeploy"),
        "{}",
        output.stdout
    );
    let change = newest(&app).await;
    for (field, value) in [
        ("title", json!("Redeploy")),
        ("risk_level", json!("high")),
        ("status", json!("in_progress")),
        ("tags", json!(["x", "y"])),
        ("description", json!("story")),
        ("impact", json!("some")),
        (
            "links",
            json!([{ "label": "run", "url": "https://e.com/" }]),
        ),
        ("scheduled_for", json!("2027-01-01T00:00:00.000Z")),
    ] {
        assert_eq!(change[field], value, "{field}");
    }
    assert_eq!(change["service"]["name"], "payments");
    assert_eq!(change["host_ref"]["hostname"], "web-1");
    // Other fields stay unchanged.
    chlog(&app, &["update", &id, "--risk", "low"]).succeeds();
    let mut expected = change;
    let change = newest(&app).await;
    expected["risk_level"] = json!("low");
    expected["updated_at"] = change["updated_at"].clone();
    assert_eq!(change, expected);
    let expected = newest(&app).await;
    chlog(&app, &["update", &id]).exits_with(2);
    chlog(&app, &["update", &id, "--title", "ab"]).exits_with(6);
    chlog(&app, &["update", &id, "--service", "nobody"]).exits_with(3);
    chlog(&app, &["update", &id, "--occurred-at", "2h"]).exits_with(2);
    chlog(&app, &["update", "not-an-id", "--risk", "low"]).exits_with(2);
    let nowhere = uuid::Uuid::now_v7().to_string();
    chlog(&app, &["update", &nowhere, "--risk", "low"]).exits_with(3);
    assert_eq!(newest(&app).await, expected);
}

async fn services_times_and_claims_are_edited(app: TestApp) {
    let id = app.key().change("Deploy").await;
    let host = [
        "update",
        &id,
        "--host",
        "web-1",
        "--status",
        "in_progress",
        "--create-missing",
    ];
    chlog(&app, &host).succeeds();
    let more = [
        "update",
        &id,
        "--service",
        "search,payments",
        "--create-missing",
        "--environment",
        "dev",
        "--started-at",
        "2026-01-02T03:04:05Z",
        "--on-behalf-of",
        "ada",
        "--clear",
        "host,scheduled-for",
    ];
    chlog(&app, &more).succeeds();
    let change = newest(&app).await;
    assert_eq!(each(&change["services"], "name"), ["search", "payments"]);
    for (field, value) in [
        ("environment", json!("dev")),
        ("started_at", json!("2026-01-02T03:04:05.000Z")),
        ("on_behalf_of", json!("ada")),
        ("host_ref", Value::Null),
        ("scheduled_for", Value::Null),
    ] {
        assert_eq!(change[field], value, "{field}");
    }
    chlog(&app, &["update", &id, "--service", "search"]).succeeds();
    assert_eq!(
        newest(&app).await["service_ids"],
        json!([change["service"]["id"]])
    );
    chlog(&app, &["update", &id, "--clear", "service"]).succeeds();
    assert_eq!(newest(&app).await["service_ids"], json!([]));
}

async fn tags_and_links_are_added_removed_and_replaced(app: TestApp) {
    let id = app.key().change("Deploy").await;
    let link = |label: &str| format!("{label}=https://example.com/{label}");
    let (one, two) = (link("one"), link("two"));
    for (arguments, tags, labels) in [
        (
            &["--tag", "ci=x,plan=1"][..],
            &["ci=x", "plan=1"][..],
            &[][..],
        ),
        (&["--tag", "c"], &["ci=x", "plan=1", "c"], &[]),
        (
            &["--tag", "c", "--remove-tag", "ci=x"],
            &["plan=1", "c"],
            &[],
        ),
        (&["--link", &one], &["plan=1", "c"], &["one"]),
        (
            &["--link", &two, "--tag", "d"],
            &["plan=1", "c", "d"],
            &["one", "two"],
        ),
        (&["--remove-link", "one"], &["plan=1", "c", "d"], &["two"]),
        (
            &["--set-tags", "a,b", "--set-links", &one],
            &["a", "b"],
            &["one"],
        ),
        (&["--clear", "tags,links"], &[], &[]),
    ] {
        let mut all = vec!["update", &id];
        all.extend(arguments);
        chlog(&app, &all).succeeds();
        let change = newest(&app).await;
        assert_eq!(change["tags"], json!(tags), "{arguments:?}");
        assert_eq!(each(&change["links"], "label"), labels, "{arguments:?}");
    }
    // A link with the same label replaces the link.
    for address in ["https://example.com/old", "https://example.com/new"] {
        chlog(&app, &["update", &id, "--link", &format!("run={address}")]).succeeds();
    }
    let links = newest(&app).await["links"].take();
    assert_eq!(
        links,
        json!([{ "label": "run", "url": "https://example.com/new" }])
    );
    chlog(&app, &["update", &id, "--tag", "a", "--set-tags", "b"]).exits_with(2);
    chlog(&app, &["update", &id, "--tag", ""]).exits_with(6);
}

async fn status_commands_set_the_status(app: TestApp) {
    let id = app.key().change("Deploy").await;
    for (word, status) in [
        ("start", "in_progress"),
        ("done", "completed"),
        ("rollback", "rolled_back"),
    ] {
        let output = chlog(&app, &[word, &id, "--json"]).succeeds().json();
        assert_eq!(keys(&output["data"]), shapes::CHANGE);
        assert_eq!(output["data"]["status"], status);
        assert_eq!(newest(&app).await["status"], status);
    }
    let history = format!("/api/changes/{id}/history");
    let reason = "Errors rose to 5 %";
    chlog(&app, &["done", &id]).succeeds();
    let output = chlog(&app, &["rollback", &id, "--reason", reason]).succeeds();
    assert!(
        output.stdout.contains("  rolled back  "),
        "{}",
        output.stdout
    );
    assert_eq!(newest(&app).await["outcome"], "undone");
    let moves = app.key().get(&history).await.body(200);
    assert!(moves.to_string().contains(reason), "{moves}");
    chlog(&app, &["start", &id]).succeeds();
    let output = chlog(&app, &["rollback", &id, "--failed"]).succeeds();
    assert!(output.stdout.contains("  failed  "), "{}", output.stdout);
    assert_eq!(newest(&app).await["outcome"], "failed");
    chlog(
        &app,
        &["update", &id, "--status", "completed", "--reason", "x"],
    )
    .exits_with(6);
    let nowhere = uuid::Uuid::now_v7().to_string();
    for word in ["start", "done", "rollback", "show"] {
        chlog(&app, &[word, &nowhere]).exits_with(3);
        chlog(&app, &[word, "not-an-id"]).exits_with(2);
        chlog(&app, &[word]).exits_with(2);
    }
}

async fn a_planned_change_is_of_the_day_on_which_it_is_made(app: TestApp) {
    let output = chlog(&app, &["upcoming"]).succeeds();
    assert_eq!(output.stdout, "");
    assert!(
        output.stderr.contains("scheduled changes"),
        "{}",
        output.stderr
    );
    let log = |arguments: &[&str]| {
        let all = [&["log"], arguments, &["--format", "ids"]].concat();
        let id = chlog(&app, &all).succeeds().stdout;
        id.trim().to_owned()
    };
    let later = log(&["Later", "--scheduled-for", "2099-01-01T00:00:00Z"]);
    let planned = log(&[
        "Switch the payments",
        "--occurred-at",
        "6d",
        "--scheduled-for",
        "2026-01-01T00:00:00Z",
        "--environment",
        "prod",
    ]);
    log(&["Earlier", "--occurred-at", "30m"]);
    let ids = |arguments: &[&str]| {
        let all = [arguments, &["--format", "ids"]].concat();
        let output = chlog(&app, &all).succeeds().stdout;
        output.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(ids(&["upcoming"]), [&planned, &later].map(String::as_str));
    assert_eq!(ids(&["upcoming", "-L", "1"]), [planned.as_str()]);
    let table = chlog(&app, &["upcoming"]).succeeds().stdout;
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[1].contains("  overdue ") && lines[1].contains("  prod  "),
        "{table}"
    );
    assert!(lines[2].contains("  2099-01-01 "), "{table}");
    assert!(!ids(&["list", "--since", "1h"]).contains(&planned));

    chlog(&app, &["start", &planned]).succeeds();
    assert_eq!(ids(&["list", "--active"]), [planned.as_str()]);
    assert_eq!(ids(&["list", "--since", "1h"])[0], planned);
    assert_eq!(ids(&["upcoming"]), [later.as_str()]);
    chlog(&app, &["done", &planned]).succeeds();
    assert_eq!(ids(&["list", "--since", "1h"])[0], planned);
    let beginning = planned.split('-').next().unwrap_or_default();
    assert_eq!(ids(&["list", beginning]), [planned.as_str()]);
    let table = chlog(&app, &["list", "switch"]).succeeds().stdout;
    let row = table.lines().nth(1).unwrap_or_default();
    assert!(row.contains("  now ") || row.contains("s ago "), "{table}");
    let shown = chlog(&app, &["show", &planned]).succeeds().stdout;
    for name in [
        "started",
        "ended",
        "duration",
        "occurred",
        "by ",
        "environment",
    ] {
        assert!(shown.contains(&format!("\n  {name}")), "{name}: {shown}");
    }
}

async fn services_and_hosts_are_managed(app: TestApp) {
    let arguments = [
        "service",
        "create",
        "payments",
        "--color",
        "#0aF",
        "--description",
        "Takes cards",
        "--json",
    ];
    let service = chlog(&app, &arguments).succeeds().json()["data"].take();
    assert_eq!(keys(&service), shapes::SERVICE);
    assert_eq!(
        (&service["name"], &service["color"]),
        (&json!("payments"), &json!("#0aF"))
    );
    let arguments = [
        "host",
        "create",
        "web-1",
        "--fqdn",
        "web-1.example.com",
        "--ip-address",
        "192.0.2.1",
        "--os",
        "Debian 12",
        "--platform",
        "aws",
        "--environment",
        "prod",
        "--role",
        "web,cache",
        "--role",
        "edge",
        "--description",
        "Behind the balancer",
        "--json",
    ];
    let host = chlog(&app, &arguments).succeeds().json()["data"].take();
    assert_eq!(keys(&host), shapes::HOST);
    assert_eq!(host["roles"], json!(["web", "cache", "edge"]));
    for (kind, record, name) in [("service", &service, "payments"), ("host", &host, "web-1")] {
        let id = text(&record["id"]);
        for given in [name, &name.to_uppercase(), &id] {
            let shown = chlog(&app, &[kind, "show", given, "--json"])
                .succeeds()
                .json();
            assert_eq!(&shown["data"], record, "{kind} {given}");
        }
        let list = chlog(&app, &[kind, "list", "--json"]).succeeds().json();
        assert_eq!(list, json!({ "data": [record] }));
        let ids = chlog(&app, &[kind, "list", "--format", "ids"])
            .succeeds()
            .stdout;
        assert_eq!(ids, format!("{id}\n"));
        let table = chlog(&app, &[kind, "list"]).succeeds().stdout;
        assert!(table.contains(name) && table.contains(&id), "{table}");
        let shown = chlog(&app, &[kind, "show", name]).succeeds().stdout;
        assert!(shown.contains(name) && shown.contains(&id), "{shown}");
        chlog(&app, &[kind, "create", name]).exits_with(5);
        chlog(&app, &[kind, "create", &name.to_uppercase()]).exits_with(5);
        chlog(&app, &[kind, "create", ""]).exits_with(6);
        chlog(&app, &[kind, "show", "nobody"]).exits_with(3);
        let nowhere = uuid::Uuid::now_v7().to_string();
        chlog(&app, &[kind, "show", &nowhere]).exits_with(3);
    }
    chlog(&app, &["service", "create", "other", "--color", "red"]).exits_with(6);
    chlog(
        &app,
        &["host", "create", "other", "--ip-address", "nowhere"],
    )
    .exits_with(6);
    chlog(&app, &["host", "create", "other", "--platform", "cloud"]).exits_with(2);
}

async fn notes_are_appended_to_the_description(app: TestApp) {
    chlog(&app, &["log", "Move DNS", "--status", "planned"]).succeeds();
    let description = async || newest(&app).await["description"].take();
    chlog(&app, &["note", "@last", "Waits for the provider"]).succeeds();
    assert_eq!(description().await, "Waits for the provider");
    let mut command = app.chlog();
    command.args(["note", "@last", "-"]);
    ChlogOutput::of(command.write_stdin("From a pipe\n")).succeeds();
    let expected = "Waits for the provider\n\nFrom a pipe";
    assert_eq!(description().await, expected);
    chlog(&app, &["start", "@last", "-m", "Begins"]).succeeds();
    // The note is kept while the server is unavailable.
    let mut command = app.chlog();
    let id = text(&newest(&app).await["id"]);
    command.env("CHLOG_URL", "http://127.0.0.1:9");
    ChlogOutput::of(command.args(["done", &id, "-m", "All green"])).succeeds();
    chlog(&app, &["spool", "flush", "--from", "http://127.0.0.1:9"]).succeeds();
    let expected = format!("{expected}\n\nBegins\n\nAll green");
    assert_eq!(description().await, expected);
    assert_eq!(newest(&app).await["status"], "completed");
    chlog(&app, &["rollback", "@last", "-m", "Errors rose"]).succeeds();
    let history = chlog(&app, &["history", "@last", "--json"]).succeeds();
    assert!(history.stdout.contains("Errors rose"), "{}", history.stdout);
    chlog(&app, &["note", "@last", " "]).exits_with(2);
    chlog(&app, &["note", "@last"]).exits_with(2);
}

async fn hosts_are_edited(app: TestApp) {
    let create = [
        "host", "create", "web-1", "--role", "api,db", "--os", "Debian",
    ];
    chlog(&app, &create).succeeds();
    let update = |arguments: &[&str]| chlog(&app, &[&["host", "update"], arguments].concat());
    let edited = [
        "WEB-1",
        "--hostname",
        "web-2",
        "--environment",
        "prod",
        "--role",
        "api,cache",
        "--remove-role",
        "db",
        "--clear",
        "os",
        "--json",
    ];
    let host = update(&edited).succeeds().json()["data"].take();
    assert_eq!(
        (&host["hostname"], &host["environment"], &host["os"]),
        (&json!("web-2"), &json!("prod"), &Value::Null)
    );
    assert_eq!(host["roles"], json!(["api", "cache"]));
    let id = text(&host["id"]);
    let line = update(&[&id, "--clear", "roles", "--platform", "aws"]).succeeds();
    assert_eq!(line.stdout, format!("{id}  web-2\n"));
    let host = app.key().get(&format!("/api/hosts/{id}")).await.data(200);
    assert_eq!(host["roles"], json!([]));
    update(&["web-2"]).exits_with(2);
    update(&["web-2", "--os", "x", "--clear", "os"]).exits_with(2);
    update(&["web-2", "--ip", "nonsense"]).exits_with(6);
    update(&["web-1", "--os", "x"]).exits_with(3);
}
