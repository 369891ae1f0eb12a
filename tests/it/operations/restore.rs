//! `changelog-server backup` and `restore`.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

use changelog_tests::{TestApp, assert_contains, assert_lacks, on_postgres, on_sqlite};
use serde_json::Value;

on_sqlite!(
    process:
    a_backup_replaces_the_database,
    a_database_is_restored_where_none_is,
    a_restored_database_has_the_owner_of_the_replaced_one,
    only_sound_backups_are_restored,
);
on_postgres!(process: postgres_has_its_own_tools);

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// Runs `restore`, which must fail, and returns the message.
fn refused(app: &TestApp, backup: &Path) -> String {
    let output = app.try_admin(&["restore", path(backup)], "");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

async fn a_backup_replaces_the_database(mut app: TestApp) {
    app.key().change("before the backup").await;
    let backup = app.folder().join("backup.db");
    app.admin(&["backup", path(&backup)]);
    app.key().change("after the backup").await;

    assert_contains(&refused(&app, &backup), "stop it first");
    assert_eq!(app.key().body("/api/changes").await["count"], 2);
    app.server.kill9();

    let restored = app.admin(&["restore", path(&backup)]);
    let replaced = restored["replaced"]
        .as_str()
        .expect("it is kept")
        .to_owned();
    // A database that was just restored has no log yet.
    assert_eq!(app.admin(&["status"])["organizations"][0]["changes"], 1);
    let again = app.folder().join("again.db");
    app.admin(&["backup", path(&again)]);
    app.restart().await;
    let list = app.key().body("/api/changes").await;
    assert_eq!(
        (&list["count"], &list["data"][0]["title"]),
        (&1.into(), &"before the backup".into())
    );
    app.key().change("after the restore").await;
    assert_eq!(app.admin(&["check"])["problems"], Value::Array(Vec::new()));

    // The database that was replaced has what its write-ahead log had.
    let mut command = app.admin_command(&["check", "--json"]);
    command.env("CHANGELOG_DATABASE_URL", format!("sqlite://{replaced}"));
    let output = changelog_tests::run(command, "");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report["changes"], 2, "{report}");
}

async fn a_database_is_restored_where_none_is(mut app: TestApp) {
    app.key().change("kept").await;
    let backup = app.folder().join("backup.db");
    app.admin(&["backup", path(&backup)]);
    app.server.kill9();
    for purpose in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{purpose}", path(&app.file())));
    }
    let restored = app.admin(&["restore", path(&backup)]);
    assert_eq!(restored["replaced"], Value::Null);
    app.restart().await;
    assert_eq!(app.key().body("/api/changes").await["count"], 1);
}

/// Root runs the command for the user of the service.
async fn a_restored_database_has_the_owner_of_the_replaced_one(mut app: TestApp) {
    let owner = 12_345;
    app.server.kill9();
    if chown(app.file(), Some(owner), Some(owner)).is_err() {
        eprintln!("skipped: only root can give files away");
        return;
    }
    let backup = app.folder().join("backup.db");
    app.admin(&["backup", path(&backup)]);
    app.admin(&["restore", path(&backup)]);
    let restored = std::fs::metadata(app.file()).expect("it is there");
    assert_eq!((restored.uid(), restored.mode() & 0o777), (owner, 0o600));
}

async fn only_sound_backups_are_restored(mut app: TestApp) {
    app.key().change("kept").await;
    let backup = app.folder().join("backup.db");
    app.admin(&["backup", path(&backup)]);
    app.server.kill9();
    let damaged = app.folder().join("damaged.db");
    let mut bytes = std::fs::read(&backup).expect("the backup");
    let middle = bytes.len() / 2;
    bytes[4096..middle].fill(0x5a);
    std::fs::write(&damaged, bytes).expect("a file");
    let text = app.folder().join("text");
    std::fs::write(&text, "not a database").expect("a file");
    for (file, expected) in [
        (app.folder().join("missing.db"), "no such file"),
        (app.file(), "the database itself"),
        (text, "not a backup"),
        (damaged, "error: "),
    ] {
        assert_contains(&refused(&app, &file), expected);
    }
    let folder = std::fs::read_dir(app.folder()).expect("the folder");
    for entry in folder {
        let name = entry.expect("an entry").file_name();
        assert_lacks(&name.to_string_lossy(), "before-restore");
    }
    app.restart().await;
    assert_eq!(app.key().body("/api/changes").await["count"], 1);
}

async fn postgres_has_its_own_tools(app: TestApp) {
    let backup = app.folder().join("backup.db");
    assert_contains(&refused(&app, &backup), "pg_restore");
    let output = app.try_admin(&["backup", path(&backup)], "");
    assert_contains(&String::from_utf8_lossy(&output.stderr), "pg_dump");
}
