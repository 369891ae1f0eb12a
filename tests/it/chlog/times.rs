//! Times as users write them, in the time zone of the machine.

use serde_json::{Value, json};

use crate::chlog::{ChlogOutput, chlog};
use changelog_tests::{TestApp, on_one};

on_one!(
    times_are_in_the_local_time_zone,
    times_are_accepted_by_every_command,
);

/// Central European Time; the last Sundays of March and October change the clocks.
const ZONE: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

async fn times_are_in_the_local_time_zone(app: TestApp) {
    let log = |flag: &str, time: &str| {
        let mut command = app.chlog();
        command.env("TZ", ZONE);
        ChlogOutput::of(command.args(["log", "Deploy api", "--dry-run", flag, time]))
    };
    let sent = |flag: &str, time: &str| -> Value {
        let name = flag.trim_start_matches('-').replace('-', "_");
        log(flag, time).succeeds().json()[name].clone()
    };
    for (time, expected) in [
        ("2026-01-15 08:30", "2026-01-15T07:30:00.000Z"),
        ("2026-07-15 08:30", "2026-07-15T06:30:00.000Z"),
        ("2026-01-15", "2026-01-14T23:00:00.000Z"),
        ("2026-01-15T08:30Z", "2026-01-15T08:30:00.000Z"),
        ("2026-01-15 08:30 +0200", "2026-01-15T06:30:00.000Z"),
        ("2026-03-29 01:59", "2026-03-29T00:59:00.000Z"),
        ("2025-10-26 02:30+02:00", "2025-10-26T00:30:00.000Z"),
    ] {
        assert_eq!(sent("--occurred-at", time), json!(expected), "{time}");
    }
    assert_eq!(
        sent("--scheduled-for", "2126-12-01 04:00"),
        json!("2126-12-01T03:00:00.000Z")
    );
    // A time that does not exist, and one that exists twice.
    let output = log("--occurred-at", "2026-03-29 02:30").exits_with(2);
    output.says("does not exist");
    let output = log("--occurred-at", "2025-10-26 02:30").exits_with(2);
    for part in ["ambiguous", "2025-10-26T02:30:00+02:00", "+01:00"] {
        output.says(part);
    }
}

async fn times_are_accepted_by_every_command(app: TestApp) {
    let output = chlog(&app, "log 'Deploy api' --format ids").succeeds();
    let id = output.stdout.trim();
    for arguments in [
        "list --since -2h --until now",
        "list --since '1 hour ago'",
        "export --since yesterday",
        "around",
        "around now",
        "around -5m",
        "around 'yesterday 08:30' -L 3",
        &format!("update {id} --started-at -2h"),
        "log 'Move DNS' --scheduled-for 'in 2h'",
        "log 'Move DNS' --occurred-at -1h",
    ] {
        chlog(&app, arguments).succeeds();
    }
    // The server's time does not replace one that was given.
    let planned = ["log", "Move DNS", "--status", "planned", "--format", "ids"];
    let planned = chlog(&app, &planned).succeeds().stdout;
    let planned = planned.trim();
    let output = chlog(&app, &format!("update {planned} --started-at -2h")).exits_with(6);
    output.says("started_at: ");
    let output = chlog(&app, &format!("update {id} --ended-at -3h")).exits_with(6);
    output.says("ended_at: ");
    chlog(&app, "log 'Move DNS' --scheduled-for 2h").exits_with(2);
    chlog(&app, "list --since whenever").exits_with(2);
}
