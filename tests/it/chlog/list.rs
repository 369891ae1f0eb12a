//! `chlog list` and `show`.

use serde_json::Value;

use crate::chlog::{chlog, newest};
use changelog_tests::{TestApp, each, keys, on_one, text};

on_one!(
    lists_are_filtered,
    filters_that_select_nothing_are_refused,
    lists_are_limited_and_paged,
);

/// Records four changes that filters tell apart.
fn record_four_changes(app: &TestApp) {
    for change in [
        "'Überlauf behoben' --risk high --tag a,b --service payments",
        "'Deploy api' --status rolled_back --tag a --host web-1",
        "'Deploy web' --occurred-at 3d --risk medium",
        "'Old one' --occurred-at 2026-01-15T12:00:00Z --status planned --environment staging \
         --service search,payments",
    ] {
        chlog(app, &format!("log {change} --create-missing")).succeeds();
    }
}

async fn lists_are_filtered(app: TestApp) {
    record_four_changes(&app);
    let author = newest(&app).await["created_by"]["name"].clone();
    let author = author.as_str().expect("a name");
    let shouted = author.to_uppercase();
    let everything = ["Deploy api", "Überlauf behoben", "Deploy web", "Old one"];
    for (arguments, expected) in [
        ("", &everything[..]),
        ("-q deploy", &["Deploy api", "Deploy web"]),
        ("--search uber", &["Überlauf behoben"]),
        ("--risk high", &["Überlauf behoben"]),
        ("--risk MEDIUM", &["Deploy web"]),
        ("--risk high,medium", &["Überlauf behoben", "Deploy web"]),
        ("--min-risk medium", &["Überlauf behoben", "Deploy web"]),
        ("--status rolled-back", &["Deploy api"]),
        ("--status rolled_back,planned", &["Deploy api", "Old one"]),
        (
            "--not-status completed --not-status planned",
            &["Deploy api"],
        ),
        ("--active", &[]),
        ("--environment staging", &["Old one"]),
        ("--env prod,dev", &[]),
        (&format!("--by '{author}'"), &everything),
        (
            &format!("--by '{shouted}' --risk high"),
            &["Überlauf behoben"],
        ),
        ("--by nobody", &[]),
        ("payments", &["Überlauf behoben", "Old one"]),
        ("web", &["Deploy api", "Deploy web"]),
        ("dep web-1", &["Deploy api"]),
        ("-q payments", &[]),
        ("--service search", &["Old one"]),
        ("--tag a", &["Deploy api", "Überlauf behoben"]),
        ("--tag a,b", &["Überlauf behoben"]),
        ("--tag a --tag b", &["Überlauf behoben"]),
        ("--service Payments", &["Überlauf behoben", "Old one"]),
        ("--host web-1", &["Deploy api"]),
        ("--since 2h", &["Deploy api", "Überlauf behoben"]),
        (
            "--since 7d",
            &["Deploy api", "Überlauf behoben", "Deploy web"],
        ),
        ("--until 2026-01-15", &["Old one"]),
        ("--until 2026-01-15T12:00:00Z", &[]),
        (
            "--since 2026-01-15T12:00:00Z --until 2d",
            &["Deploy web", "Old one"],
        ),
        ("--since 2026-01-16 --until 2d", &["Deploy web"]),
        ("-q nothing", &[]),
    ] {
        let list = chlog(&app, &format!("list --json {arguments}")).succeeds();
        let list = list.json();
        assert_eq!(each(&list["data"], "title"), expected, "{arguments:?}");
        assert_eq!(list["count"], expected.len(), "{arguments:?}");
    }
}

async fn filters_that_select_nothing_are_refused(app: TestApp) {
    chlog(&app, "list --service nobody").exits_with(3);
    for arguments in [
        "list --risk extreme",
        "list --risk high --min-risk low",
        "list --status planned --not-status completed",
        "list --active --status planned",
        "list --not-status planned,in_progress,completed,rolled_back",
        "list --since whenever",
        "list --limit 0",
        "list --page 0",
        "list --all --page 2",
        // An empty variable of a script must not list everything.
        "list --service ''",
        "list --host ' '",
        "list --tag ''",
        "list --by ''",
        "list -q ''",
        "list ''",
        // Nor must a query without words, which matches everything.
        "list '🚀'",
        "list -q %",
        "export _",
        "export --service=",
        "around --service ''",
        // The end is before the start.
        "list --since 2d --until 3d",
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
        ("", 104, 25),
        ("-L 3", 104, 3),
        ("-L 100", 104, 100),
        ("-L 102", 104, 102),
        ("--page 2", 79, 25),
        ("-L 50 --page 3", 4, 5),
        ("--page 6", 0, 0),
        ("--all", 104, 105),
    ] {
        let output = chlog(&app, &format!("ls --format ndjson {arguments}")).succeeds();
        let titles: Vec<String> = output
            .stdout
            .lines()
            .map(|line| text(&serde_json::from_str::<Value>(line).expect("JSON")["title"]))
            .collect();
        let expected: Vec<String> = (0..size).map(|n| format!("number {}", first - n)).collect();
        assert_eq!(titles, expected, "{arguments:?}");
    }
    let everything = chlog(&app, "list --all --json").succeeds().json();
    assert_eq!(
        keys(&everything),
        ["count", "data", "page", "per_page", "total_pages"]
    );
    assert_eq!(everything["count"], 105);
    assert_eq!(each(&everything["data"], "title").len(), 105);
}
