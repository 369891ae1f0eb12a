//! `changelog-server demo`.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use changelog_tests::{
    Demo, TestApp, TestClient, assert_contains, each, on_sqlite, run, sign_in, text,
};

on_sqlite!(process: the_demo_serves_and_keeps_its_data);

async fn the_demo_serves_and_keeps_its_data(app: TestApp) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut demo = Demo::start(folder.path()).await;
    let first = memory(&demo);
    let (url, key) = (demo.export("CHLOG_URL"), demo.export("CHLOG_API_KEY"));
    assert_eq!(url, format!("http://{}", demo.server.address));
    let caller = TestClient::new(&demo.server.address).with("x-api-key", &key);
    let list = caller.body("/api/changes").await;
    let titles: Vec<String> = each(&list["data"], "title").into_iter().map(text).collect();
    assert!(titles.len() >= 4, "too few: {titles:?}");
    for title in &titles {
        let shown: String = title.chars().take(48).collect();
        assert!(
            demo.output().contains(shown.trim_end()),
            "{title} is in the table"
        );
    }
    let count = list["count"].as_u64().expect("a count");
    assert!(count > 1_000, "a year has {count} changes");
    let chlog = |arguments: &[&str]| {
        let mut command = app.bare_chlog();
        let output = command
            .args(arguments)
            .env("CHLOG_URL", &url)
            .env("CHLOG_API_KEY", &key)
            .assert()
            .success();
        String::from_utf8_lossy(&output.get_output().stdout).into_owned()
    };
    chlog(&[
        "log",
        "terraform apply: 41 added",
        "--status",
        "completed",
        "--tag",
        "terraform",
    ]);
    chlog(&[
        "log",
        "terraform apply failed",
        "--status",
        "rolled_back",
        "--risk",
        "high",
    ]);
    assert!(chlog(&["list"]).contains("terraform apply: 41 added"));
    let risky = chlog(&["list", "--risk", "high"]);
    assert!(risky.contains("terraform apply failed"), "{risky}");
    assert!(!risky.contains("41 added"), "{risky}");
    // The story: the change that broke payments stands first, in both places.
    let command = demo.after("chlog around ");
    let (time, _) = command[1..].split_once('"').expect("a quoted time");
    let around = chlog(&["around", time, "--service", "payments", "--format", "json"]);
    let around: Value = serde_json::from_str(&around).expect("JSON");
    assert_eq!(
        around["data"][0]["change"]["title"],
        "Deploy payments 4.18.0"
    );
    answers_an_agent(&url, &key, &text(&around["at"]));
    let (email, password) = (demo.after("Sign in with:"), demo.after("Password:"));
    let anonymous = TestClient::new(&demo.server.address);
    let cookie = sign_in(&anonymous, &email, &password).await;
    anonymous
        .with("cookie", &cookie)
        .body("/api/activity")
        .await;
    check_sources(&caller).await;
    // Files with the key are readable by their owner only.
    for entry in fs::read_dir(folder.path().join("demo"))
        .expect("the folder")
        .flatten()
    {
        let bytes = fs::read(entry.path()).expect("a file");
        if String::from_utf8_lossy(&bytes).contains(&key) {
            use std::os::unix::fs::PermissionsExt;
            let mode = entry.metadata().expect("the file").permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}", entry.path().display());
        }
    }
    demo.server.terminate();
    let status = demo
        .server
        .wait_for_exit(std::time::Duration::from_secs(15))
        .await;
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    drop(demo);

    let demo = Demo::start(folder.path()).await;
    let later = memory(&demo);
    assert!(first < later * 3 / 2, "{first} KiB, then {later}");
    assert_eq!(demo.export("CHLOG_API_KEY"), key, "the key is the same");
    assert_eq!(demo.after("Password:"), password);
    let caller = TestClient::new(&demo.server.address).with("x-api-key", &key);
    let list = caller.body("/api/changes").await;
    assert_eq!(
        list["count"],
        json!(count + 2),
        "lost or duplicated changes"
    );
}

/// Two sources have told of changes, and one of them has fallen silent.
async fn check_sources(caller: &TestClient) {
    let by_hand = caller
        .body("/api/changes?by=hand&source=aws%20production")
        .await;
    assert!(by_hand["count"].as_u64() > Some(3), "{by_hand}");
    let deployed = caller.body("/api/changes?source=github").await;
    assert!(deployed["count"].as_u64() > Some(5), "{deployed}");
    let now = caller.body("/api/changes/around").await;
    let gaps = &now["coverage"]["gaps"];
    let names: Vec<String> = each(gaps, "name").into_iter().map(text).collect();
    assert_eq!(names, ["AWS production"], "{gaps}");
}

/// Returns how much memory a demo takes, without its program and its files, in KiB.
fn memory(demo: &Demo) -> u64 {
    let id = demo.server.pid();
    let status = fs::read_to_string(format!("/proc/{id}/status")).expect("a process");
    let (_, size) = status.split_once("RssAnon:").expect("the line");
    let size = size.trim_start().split(' ').next();
    size.and_then(|size| size.parse().ok()).expect("a number")
}

/// The script of the examples finds the cause by one call, as its exit code says.
fn answers_an_agent(url: &str, key: &str, at: &str) {
    const SCRIPT: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../examples/agents/incident.py"
    );
    let mut command = Command::new("python3");
    command.arg(SCRIPT).args(["--at", at]);
    command.env("CHLOG_URL", url).env("CHLOG_API_KEY", key);
    let output = run(command, "");
    let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{printed}");
    for plan in ["ask for incidents", "read the list"] {
        let line = printed.lines().find(|line| line.starts_with(plan));
        assert_contains(line.unwrap_or_default(), "  found");
    }
}
