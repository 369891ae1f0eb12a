//! `chlog update` and the commands that set a status.

use serde_json::{Value, json};

use crate::chlog::{ChlogOutput, chlog, newest};
use changelog_tests::{TestApp, each, keys, on_one, shapes, text};

on_one!(
    changes_are_edited,
    services_times_and_claims_are_edited,
    tags_and_links_are_added_removed_and_replaced,
    status_commands_set_the_status,
    notes_are_appended_to_the_description,
    a_planned_change_is_of_the_day_on_which_it_is_made,
);

async fn changes_are_edited(app: TestApp) {
    let key = app.key();
    key.service("payments").await;
    let id = key.change("Deploy").await;
    let arguments = format!(
        "update {id} --title Redeploy --risk high --status in_progress \
        --service payments --host web-1 --create-missing --tag x,y -m story --impact some \
        --link run=https://e.com/ --scheduled-for 2027-01-01T00:00:00Z"
    );
    let output = chlog(&app, &arguments).succeeds();
    output.prints(&id);
    output.prints("Redeploy");
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
    chlog(&app, &format!("update {id} --risk low")).succeeds();
    let mut expected = change;
    let change = newest(&app).await;
    expected["risk_level"] = json!("low");
    expected["updated_at"] = change["updated_at"].clone();
    assert_eq!(change, expected);
    let expected = newest(&app).await;
    chlog(&app, &format!("update {id}")).exits_with(2);
    chlog(&app, &format!("update {id} --title ab")).exits_with(6);
    chlog(&app, &format!("update {id} --service nobody")).exits_with(3);
    chlog(&app, &format!("update {id} --occurred-at 2h")).exits_with(2);
    chlog(&app, "update not-an-id --risk low").exits_with(2);
    let nowhere = uuid::Uuid::now_v7().to_string();
    chlog(&app, &format!("update {nowhere} --risk low")).exits_with(3);
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
    let more = format!(
        "update {id} --service search,payments --create-missing \
        --environment dev --started-at 2026-01-02T03:04:05Z --on-behalf-of ada \
        --clear host,scheduled-for"
    );
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
    chlog(&app, &format!("update {id} --service search")).succeeds();
    assert_eq!(
        newest(&app).await["service_ids"],
        json!([change["service"]["id"]])
    );
    chlog(&app, &format!("update {id} --clear service")).succeeds();
    assert_eq!(newest(&app).await["service_ids"], json!([]));
}

async fn tags_and_links_are_added_removed_and_replaced(app: TestApp) {
    let id = app.key().change("Deploy").await;
    let link = |label: &str| format!("{label}=https://example.com/{label}");
    let (one, two) = (link("one"), link("two"));
    for (arguments, tags, labels) in [
        ("--tag ci=x,plan=1", &["ci=x", "plan=1"][..], &[][..]),
        ("--tag c", &["ci=x", "plan=1", "c"], &[]),
        ("--tag c --remove-tag ci=x", &["plan=1", "c"], &[]),
        (&format!("--link '{one}'"), &["plan=1", "c"], &["one"]),
        (
            &format!("--link '{two}' --tag d"),
            &["plan=1", "c", "d"],
            &["one", "two"],
        ),
        ("--remove-link one", &["plan=1", "c", "d"], &["two"]),
        (
            &format!("--set-tags a,b --set-links '{one}'"),
            &["a", "b"],
            &["one"],
        ),
        ("--clear tags,links", &[], &[]),
    ] {
        chlog(&app, &format!("update {id} {arguments}")).succeeds();
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
    chlog(&app, &format!("update {id} --tag a --set-tags b")).exits_with(2);
    chlog(&app, &format!("update {id} --tag ''")).exits_with(6);
}

async fn status_commands_set_the_status(app: TestApp) {
    let id = app.key().change("Deploy").await;
    for (word, status) in [
        ("start", "in_progress"),
        ("done", "completed"),
        ("rollback", "rolled_back"),
    ] {
        let output = chlog(&app, &format!("{word} {id} --json"))
            .succeeds()
            .json();
        assert_eq!(keys(&output["data"]), shapes::CHANGE);
        assert_eq!(output["data"]["status"], status);
        assert_eq!(newest(&app).await["status"], status);
    }
    let history = format!("/api/changes/{id}/history");
    let reason = "Errors rose to 5 %";
    chlog(&app, &format!("done {id}")).succeeds();
    let output = chlog(&app, &format!("rollback {id} --reason '{reason}'")).succeeds();
    output.prints("  rolled back  ");
    assert_eq!(newest(&app).await["outcome"], "undone");
    let moves = app.key().body(&history).await;
    assert!(moves.to_string().contains(reason), "{moves}");
    chlog(&app, &format!("start {id}")).succeeds();
    let output = chlog(&app, &format!("rollback {id} --failed")).succeeds();
    output.prints("  failed  ");
    assert_eq!(newest(&app).await["outcome"], "failed");
    chlog(&app, &format!("update {id} --status completed --reason x")).exits_with(6);
    let nowhere = uuid::Uuid::now_v7().to_string();
    for word in ["start", "done", "rollback", "show"] {
        chlog(&app, &format!("{word} {nowhere}")).exits_with(3);
        chlog(&app, &format!("{word} not-an-id")).exits_with(2);
        chlog(&app, word).exits_with(2);
    }
}

async fn a_planned_change_is_of_the_day_on_which_it_is_made(app: TestApp) {
    let output = chlog(&app, "upcoming").succeeds();
    assert_eq!(output.stdout, "");
    output.says("scheduled changes");
    let log = |line: &str| {
        let id = chlog(&app, &format!("log {line} --format ids")).succeeds();
        id.stdout.trim().to_owned()
    };
    let later = log("Later --scheduled-for 2099-01-01T00:00:00Z");
    let planned = log("'Switch the payments' --occurred-at 6d \
        --scheduled-for 2026-01-01T00:00:00Z --environment prod");
    log("Earlier --occurred-at 30m");
    let ids = |line: &str| {
        let output = chlog(&app, &format!("{line} --format ids")).succeeds();
        output.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(ids("upcoming"), [&planned, &later].map(String::as_str));
    assert_eq!(ids("upcoming -L 1"), [planned.as_str()]);
    let table = chlog(&app, "upcoming").succeeds().stdout;
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[1].contains("  overdue ") && lines[1].contains("  prod  "),
        "{table}"
    );
    assert!(lines[2].contains("  2099-01-01 "), "{table}");
    assert!(!ids("list --since 1h").contains(&planned));

    chlog(&app, &format!("start {planned}")).succeeds();
    assert_eq!(ids("list --active"), [planned.as_str()]);
    assert_eq!(ids("list --since 1h")[0], planned);
    assert_eq!(ids("upcoming"), [later.as_str()]);
    chlog(&app, &format!("done {planned}")).succeeds();
    assert_eq!(ids("list --since 1h")[0], planned);
    let beginning = planned.split('-').next().unwrap_or_default();
    assert_eq!(ids(&format!("list '{beginning}'")), [planned.as_str()]);
    let table = chlog(&app, "list switch").succeeds().stdout;
    let row = table.lines().nth(1).unwrap_or_default();
    assert!(row.contains("  now ") || row.contains("s ago "), "{table}");
    let shown = chlog(&app, &format!("show {planned}")).succeeds().stdout;
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

async fn notes_are_appended_to_the_description(app: TestApp) {
    chlog(&app, "log 'Move DNS' --status planned").succeeds();
    let description = async || newest(&app).await["description"].take();
    chlog(&app, "note @last 'Waits for the provider'").succeeds();
    assert_eq!(description().await, "Waits for the provider");
    let mut command = app.chlog();
    command.args(["note", "@last", "-"]);
    ChlogOutput::of(command.write_stdin("From a pipe\n")).succeeds();
    let expected = "Waits for the provider\n\nFrom a pipe";
    assert_eq!(description().await, expected);
    chlog(&app, "start @last -m Begins").succeeds();
    // The note is kept while the server is unavailable.
    let mut command = app.chlog();
    let id = text(&newest(&app).await["id"]);
    command.env("CHLOG_URL", "http://127.0.0.1:9");
    ChlogOutput::of(command.args(["done", &id, "-m", "All green"])).succeeds();
    chlog(&app, "spool flush --from http://127.0.0.1:9").succeeds();
    let expected = format!("{expected}\n\nBegins\n\nAll green");
    assert_eq!(description().await, expected);
    assert_eq!(newest(&app).await["status"], "completed");
    chlog(&app, "rollback @last -m 'Errors rose'").succeeds();
    let history = chlog(&app, "history @last --json").succeeds();
    history.prints("Errors rose");
    chlog(&app, "note @last ' '").exits_with(2);
    chlog(&app, "note @last").exits_with(2);
}
