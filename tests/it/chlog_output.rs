//! What `chlog` prints: formats, tables, streams, exit codes, connections.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::chlog::{Said, chlog};
use crate::world::{World, binaries, each, keys, on_both, text};

on_both!(
    formats_hold_the_same,
    tables_look_as_they_should,
    nothing_steers_a_terminal,
    a_closed_pipe_is_no_error,
    exit_codes_tell_what_went_wrong,
    a_reading_flag_behind_log_is_explained,
    health_needs_no_key,
    keys_come_from_where_they_should,
    keys_are_stored_and_forgotten,
    completions_and_manuals_are_printed,
);

/// Two changes at fixed times.
async fn two(world: &World) {
    let key = world.key();
    let service = key
        .create("/api/services", json!({ "name": "payments" }))
        .await;
    let host = json!({ "hostname": "web-1", "environment": "prod" });
    let host = key.create("/api/hosts", host).await;
    let body = json!({
        "title": "Deploy \"payments\", 2.3", "service_id": service, "host_id": host,
        "tags": ["deploy", "eu"], "risk_level": "high", "status": "completed",
        "description": "One\nTwo", "impact": "None", "scheduled_for": "2026-01-01T00:00:00Z",
        "occurred_at": "2026-01-02T03:04:05Z",
        "links": [{ "label": "run", "url": "https://e.com/1" }],
    });
    key.create("/api/changes", body).await;
    let body = json!({ "title": "Überlauf 数据库 🚀", "occurred_at": "2026-01-01T00:00:00Z" });
    key.create("/api/changes", body).await;
}

async fn formats_hold_the_same(world: World) {
    two(&world).await;
    let api = world.key().get("/api/changes").await.body(200);
    assert_eq!(
        chlog(&world, &["list", "--format", "json"]).done().json(),
        api
    );
    assert_eq!(chlog(&world, &["list", "--json"]).done().json(), api);
    let lines = chlog(&world, &["list", "--format", "ndjson"]).done().out;
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(json!(lines), api["data"]);
    let ids: Vec<String> = each(&api["data"], "id").into_iter().map(text).collect();
    let said = chlog(&world, &["list", "--format", "ids"]).done().out;
    assert_eq!(said, ids.join("\n") + "\n");
    let csv = chlog(&world, &["list", "--format", "csv"]).done().out;
    let header = csv.lines().next().expect("a header");
    assert!(header.starts_with("id,title,"), "{header}");
    assert!(csv.contains("\"Deploy \"\"payments\"\", 2.3\""), "{csv}");
    assert!(csv.contains("\"One\nTwo\""), "{csv}");
    let one = &ids[0];
    let detail = world
        .key()
        .get(&format!("/api/changes/{one}"))
        .await
        .body(200);
    assert_eq!(
        chlog(&world, &["show", one, "--json"]).done().json(),
        detail
    );
    assert_eq!(
        chlog(&world, &["show", one, "--format", "ids"]).done().out,
        format!("{one}\n")
    );
    // Nothing but the results is on standard output, also when there are none.
    let empty = chlog(&world, &["list", "-q", "nothing"]).done();
    assert_eq!(empty.out, "");
    assert_ne!(empty.err, "");
    let empty = chlog(&world, &["list", "-q", "nothing", "--json"])
        .done()
        .json();
    assert_eq!((&empty["data"], &empty["count"]), (&json!([]), &json!(0)));
    assert_eq!(
        chlog(&world, &["list", "-q", "nothing", "--format", "ids"])
            .done()
            .out,
        ""
    );
    chlog(&world, &["list", "--format", "xml"]).ended(2);
    chlog(&world, &["list", "--format", "csv", "--json"]).ended(2);
}

/// Replaces what differs from run to run.
fn redacted(output: &str) -> String {
    let mut settings = String::new();
    for line in output.lines() {
        let mut line = line.to_owned();
        while let Some(at) = find_id(&line) {
            line.replace_range(at..at + 36, "[id]");
        }
        settings.push_str(line.trim_end());
        settings.push('\n');
    }
    settings
}

fn find_id(line: &str) -> Option<usize> {
    let ends = line.char_indices().map(|(at, _)| at);
    ends.filter(|at| line.is_char_boundary(at + 36)).find(|at| {
        line.get(*at..at + 36)
            .is_some_and(|part| uuid::Uuid::try_parse(part).is_ok())
    })
}

async fn tables_look_as_they_should(world: World) {
    two(&world).await;
    let list = chlog(&world, &["list"]).done().out;
    assert!(!list.contains('\u{1b}'), "no colour in a pipe");
    // How long ago it was changes with the calendar.
    let mut when = Vec::new();
    for line in list.lines() {
        when.push(line.split("  ").next().unwrap_or_default().to_owned());
    }
    let mut rest = list.clone();
    for word in &when[1..] {
        rest = rest.replace(word.as_str(), "[when]");
    }
    insta::assert_snapshot!("list", redacted(&rest));
    let id = text(&world.key().get("/api/changes").await.body(200)["data"][0]["id"]);
    let shown = chlog(&world, &["show", &id]).done().out;
    assert!(shown.contains("2026-01-02"), "exact times: {shown}");
    let lines: String = shown
        .lines()
        // Made now.
        .filter(|line| !line.trim_start().starts_with("recorded"))
        .map(|line| match line.split_once(" (") {
            Some((exact, _)) if line.contains("ago") => format!("{exact} ([ago])\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    insta::assert_snapshot!("show", redacted(&lines));
    insta::assert_snapshot!(
        "services",
        redacted(&chlog(&world, &["service", "list"]).done().out)
    );
    insta::assert_snapshot!(
        "hosts",
        redacted(&chlog(&world, &["host", "list"]).done().out)
    );
}

async fn nothing_steers_a_terminal(world: World) {
    let key = world.key();
    // The service refuses control characters; what it allows reorders text.
    let body =
        json!({ "title": "safe \u{202e}desrever", "description": "tab\there\nand \u{2066}there" });
    let id = key.create("/api/changes", body).await;
    for arguments in [&["list"][..], &["show", &id], &["list", "--json"]] {
        let said = chlog(&world, arguments).done().out;
        for steering in ['\u{202e}', '\u{2066}', '\u{1b}', '\u{7}'] {
            assert!(!said.contains(steering), "{arguments:?}: {said:?}");
        }
    }
    let list = chlog(&world, &["list", "--json"]).done().json();
    assert_eq!(
        list["data"][0]["title"], "safe \u{202e}desrever",
        "JSON means the same"
    );
}

async fn a_closed_pipe_is_no_error(world: World) {
    let key = world.key();
    let long = "long ".repeat(50);
    for index in 0..120 {
        key.post(
            "/api/changes",
            json!({ "title": format!("{index} {long}"), "description": long.repeat(20) }),
        )
        .await
        .is(201);
    }
    for format in ["table", "json", "ndjson", "csv"] {
        let mut child = Command::new(binaries::chlog())
            .args(["list", "--all", "--format", format])
            .env_clear()
            .env("HOME", world.folder())
            .env("CHLOG_URL", world.url())
            .env("CHLOG_API_KEY", &world.organization.key)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("chlog runs");
        // One line, as `head -1` takes, and then nobody reads any more.
        let mut reader = BufReader::with_capacity(64, child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        drop(reader);
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{format}: {} {said}",
            output.status
        );
        assert_eq!(said, "", "{format}");
    }
}

async fn exit_codes_tell_what_went_wrong(mut world: World) {
    let nowhere = uuid::Uuid::now_v7().to_string();
    world
        .key()
        .create("/api/hosts", json!({ "hostname": "web-1" }))
        .await;
    for (arguments, code) in [
        (&["health"][..], 0),
        (&["--version"], 0),
        (&["--help"], 0),
        (&["log", "--help"], 0),
        (&[], 2),
        (&["frobnicate"], 2),
        (&["log", "title", "--frobnicate"], 2),
        (&["log", "title", "--risk", "extreme"], 2),
        (&["log", "title", "--link", "no-address"], 2),
        (&["show", &nowhere], 3),
        (&["host", "show", "nobody"], 3),
        (&["host", "create", "web-1"], 5),
        (&["log", "ab"], 6),
        (&["log", "title", "--tag", ""], 6),
    ] {
        chlog(&world, arguments).ended(code);
    }
    let with_key = |key: &str| {
        let mut command = world.chlog();
        Said::of(command.args(["list"]).env("CHLOG_API_KEY", key))
    };
    with_key("chlog_nonsense").ended(4);
    let unknown = changelog_core::api_key::assemble("0123456789abcdefghijABCDEFGHIJ01");
    let said = with_key(&unknown).ended(4);
    assert!(!said.err.contains(&unknown), "{}", said.err);
    world.admin(&["org", "set-plan", &world.organization.id, "free"]);
    let said = chlog(&world, &["log", "title"]).ended(4);
    assert!(said.err.contains("plan"), "{}", said.err);
    world.admin(&["org", "set-plan", &world.organization.id, "pro"]);
    // Nobody there.
    world.server.terminate();
    world
        .server
        .ended(Duration::from_secs(15))
        .await
        .expect("it ends");
    chlog(&world, &["list"]).ended(7);
    chlog(&world, &["health"]).ended(7);
    chlog(&world, &["log", "title", "--strict"]).ended(7);
    // Somebody else there.
    let said = Said::of(world.chlog().args(["list"]).env("CHLOG_URL", "nonsense"));
    said.ended(2);
}

async fn a_reading_flag_behind_log_is_explained(world: World) {
    for arguments in [
        &["log", "--since", "2h"][..],
        &["log", "-q", "deploy"],
        &["log", "--search", "deploy"],
        &["log", "--until=2026-01-01"],
        &["log", "-L", "5"],
        &["log", "--limit", "5"],
        &["log", "--page", "2"],
        &["log", "--all"],
    ] {
        let said = chlog(&world, arguments).ended(2);
        assert!(
            said.err.contains("did you mean `chlog list`?"),
            "{arguments:?}: {}",
            said.err
        );
    }
    assert_eq!(world.key().get("/api/changes").await.body(200)["count"], 0);
}

async fn health_needs_no_key(world: World) {
    let said = Said::of(world.bare_chlog().args(["health", "--url", &world.url()])).done();
    assert!(
        said.out.contains("ok") && said.out.contains("reachable"),
        "{}",
        said.out
    );
    let mut command = world.bare_chlog();
    let health = Said::of(
        command
            .args(["health", "--json"])
            .env("CHLOG_URL", world.url()),
    )
    .done();
    assert_eq!(
        keys(&health.json()),
        ["db", "latency_ms", "status", "timestamp"]
    );
    let said = Said::of(world.bare_chlog().arg("health")).ended(2);
    assert!(
        said.err.contains("CHLOG_URL") && said.err.contains("--url"),
        "{}",
        said.err
    );
}

async fn keys_come_from_where_they_should(world: World) {
    let key = &world.organization.key;
    let file = world.folder().join("key");
    std::fs::write(&file, format!("{key}\n")).expect("a file");
    let url = world.url();
    let list = |environment: &[(&str, &str)], arguments: &[&str]| {
        let mut command = world.bare_chlog();
        command.arg("list").args(arguments);
        for (name, value) in environment {
            command.env(name, value);
        }
        Said::of(&mut command)
    };
    let path = file.to_str().expect("a path");
    list(&[("CHLOG_URL", &url), ("CHLOG_API_KEY", key)], &[]).done();
    list(&[("CHLOG_URL", &url), ("CHLOG_API_KEY_FILE", path)], &[]).done();
    // A flag beats the environment.
    let nowhere = "http://127.0.0.1:1";
    list(
        &[("CHLOG_URL", nowhere), ("CHLOG_API_KEY", key)],
        &["--url", &url],
    )
    .done();
    list(
        &[("CHLOG_URL", &url), ("CHLOG_API_KEY", key)],
        &["--url", nowhere],
    )
    .ended(7);
    // The environment beats the user's file; profiles are chosen by name.
    let config = world.folder().join("config/chlog");
    std::fs::create_dir_all(&config).expect("a folder");
    let settings = format!("url = \"{nowhere}\"\n[profiles.here]\nurl = \"{url}\"\n");
    std::fs::write(config.join("config.toml"), settings).expect("a file");
    list(&[("CHLOG_API_KEY", key)], &[]).ended(7);
    list(&[("CHLOG_API_KEY", key), ("CHLOG_URL", &url)], &[]).done();
    list(&[("CHLOG_API_KEY", key)], &["--profile", "here"]).done();
    list(&[("CHLOG_API_KEY", key), ("CHLOG_PROFILE", "here")], &[]).done();
    let said = list(&[("CHLOG_API_KEY", key)], &["--profile", "hree"]).ended(2);
    assert!(said.err.contains("hree"), "{}", said.err);
    // Without a key, or with a file that is not there, nothing is sent.
    let said = list(&[("CHLOG_URL", &url)], &[]);
    assert!(matches!(said.code, 2 | 4), "{}: {}", said.code, said.err);
    assert!(
        said.err.contains("CHLOG_API_KEY") && said.err.contains("auth login"),
        "{}",
        said.err
    );
    list(
        &[
            ("CHLOG_URL", &url),
            ("CHLOG_API_KEY_FILE", "/nowhere/at/all"),
        ],
        &[],
    )
    .ended(2);
}

async fn keys_are_stored_and_forgotten(world: World) {
    let url = world.url();
    let key = &world.organization.key;
    let bare = |arguments: &[&str], input: &str| {
        Said::of(world.bare_chlog().args(arguments).write_stdin(input))
    };
    let login = ["auth", "login", "--with-token", "--url", &url];
    // Only a key that works is stored.
    let unknown = changelog_core::api_key::assemble("0123456789abcdefghijABCDEFGHIJ01");
    bare(&login, &unknown).ended(4);
    bare(&login, "nonsense").ended(4);
    bare(&login, "").ended(2);
    bare(&["auth", "login"], key).ended(2);
    let said = bare(&["auth", "status", "--url", &url], "");
    assert_ne!(said.code, 0);
    let said = bare(&login, &format!("{key}\n")).done();
    assert!(!said.out.contains(key.as_str()) && !said.err.contains(key.as_str()));
    // Readable by its owner only.
    let folder = world.folder().join("config/chlog");
    let mut holding = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
        if std::fs::read_to_string(entry.path()).is_ok_and(|text| text.contains(key.as_str())) {
            let mode = entry.metadata().expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{:?}", entry.path());
            holding.push(entry.file_name());
        }
    }
    assert_eq!(holding.len(), 1, "{holding:?}");
    assert_ne!(holding[0], "config.toml", "apart from the settings");
    // It is used, shown masked, and sent nowhere else.
    bare(&["log", "With a stored key"], "").done();
    let said = bare(&["auth", "status"], "").done();
    assert!(
        said.out.contains("chlog_") && said.out.contains(&key[40..]),
        "{}",
        said.out
    );
    assert!(!said.out.contains(key.as_str()));
    let elsewhere = bare(&["list", "--url", "http://127.0.0.1:1"], "");
    assert!(
        matches!(elsewhere.code, 2 | 4),
        "{}: {}",
        elsewhere.code,
        elsewhere.err
    );
    // The environment beats it, and says so in the status.
    let mut command = world.bare_chlog();
    let said = Said::of(
        command
            .args(["auth", "status"])
            .env("CHLOG_API_KEY", &unknown),
    )
    .ended(4);
    assert!(said.out.contains("CHLOG_API_KEY") || said.err.contains("CHLOG_API_KEY"));
    bare(&["auth", "logout"], "").done();
    let said = bare(&["list"], "");
    assert_ne!(said.code, 0);
    bare(&["auth", "logout"], "").done();
    assert!(
        std::fs::read_dir(&folder)
            .expect("a folder")
            .flatten()
            .all(|entry| {
                !std::fs::read_to_string(entry.path())
                    .unwrap_or_default()
                    .contains(key.as_str())
            })
    );
}

async fn completions_and_manuals_are_printed(world: World) {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = Said::of(world.bare_chlog().args(["completions", shell]))
            .done()
            .out;
        assert!(
            script.contains("chlog") && script.contains("rollback"),
            "{shell}: {script}"
        );
    }
    Said::of(world.bare_chlog().args(["completions", "tcsh"])).ended(2);
    let page = Said::of(world.bare_chlog().arg("man")).done().out;
    assert!(page.contains(".TH") && page.contains("chlog"), "{page}");
    let help = Said::of(world.bare_chlog().arg("--help")).done().out;
    for word in [
        "log", "list", "show", "update", "start", "done", "rollback", "service", "host", "auth",
        "health",
    ] {
        assert!(help.contains(word), "{word}: {help}");
    }
    // The key itself is never a flag.
    for command in ["list", "log", "auth"] {
        let help = Said::of(world.bare_chlog().args([command, "--help"]))
            .done()
            .out;
        assert!(
            !help.contains("--api-key") && !help.contains("--key "),
            "{help}"
        );
    }
}
