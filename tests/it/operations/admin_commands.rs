//! The admin commands, on a database that a server uses.

use serde_json::{Value, json};

use changelog_tests::shapes::{assert_id, assert_recent};
use changelog_tests::{Engine, TestApp, assert_contains, assert_lacks, each, keys, on_both, text};

on_both!(
    process:
    organizations_are_created_and_listed,
    owners_are_created_with_organizations,
    plans_are_set_by_id_and_by_name,
    keys_are_listed_masked,
    keys_are_revoked_once,
    mistakes_are_reported_and_change_nothing,
    help_lists_commands_and_flags,
    a_missing_database_is_neither_backed_up_nor_created,
    an_empty_database_is_reported_as_such,
);

async fn an_empty_database_is_reported_as_such(app: TestApp) {
    let database = app.empty_database().await;
    let expected = match app.engine {
        Engine::Sqlite => "there is no database at",
        Engine::Postgres => "the database is empty; `changelog-server serve`",
    };
    for command in [&["status"][..], &["org", "list"]] {
        let output = app.try_admin(&[command, &["--database-url", &database]].concat(), "");
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_contains(&message, expected);
    }
}

async fn organizations_are_created_and_listed(app: TestApp) {
    let made = app.admin(&["org", "create", "--name", "Initech", "--plan", "pro"]);
    assert_eq!(keys(&made), ["organization", "owner"]);
    assert_eq!(made["owner"], Value::Null);
    let organization = &made["organization"];
    assert_eq!(keys(organization), ["created_at", "id", "name", "plan"]);
    assert_id(&organization["id"]);
    assert_recent(&organization["created_at"]);
    assert_eq!(organization["name"], "Initech");
    assert_eq!(organization["plan"], "pro");
    let free = app.admin(&["org", "create", "--name", "Hooli"]);
    assert_eq!(free["organization"]["plan"], "free", "the default plan");
    let list = app.admin(&["org", "list"]);
    let mut names: Vec<String> = each(&list, "name").into_iter().map(text).collect();
    names.sort();
    assert_eq!(names, ["Acme", "Hooli", "Initech"]);
    for listed in list.as_array().expect("a list") {
        assert_eq!(keys(listed), ["created_at", "id", "name", "plan"]);
    }
    // A key of the new organization works at once.
    let key = app.admin(&["key", "create", "--org", "Initech", "--name", "ci"]);
    assert_eq!(key["organization_id"], organization["id"]);
    app.with_key(&text(&key["key"])).read("/api/hosts").await;
    let key = app.admin(&["key", "create", "--org", "Hooli", "--name", "ci"]);
    let answer = app.with_key(&text(&key["key"])).get("/api/hosts").await;
    answer.problem(403, "plan_required");
}

async fn owners_are_created_with_organizations(app: TestApp) {
    let file = app.folder().join("password");
    std::fs::write(&file, "a long enough secret\n").expect("a file");
    let made = app.admin(&[
        "org",
        "create",
        "--name",
        "Initech",
        "--owner-email",
        "peter@example.com",
        "--owner-name",
        "Peter",
        "--owner-password-file",
        file.to_str().expect("a path"),
    ]);
    let owner = &made["owner"];
    assert_eq!(keys(owner), ["email", "id", "name"]);
    assert_id(&owner["id"]);
    assert_eq!(owner["email"], "peter@example.com");
    assert_eq!(owner["name"], "Peter");
    let cookie = changelog_tests::sign_in(
        &app.anonymous(),
        "peter@example.com",
        "a long enough secret",
    )
    .await;
    let browser = app.anonymous().with("cookie", &cookie);
    browser.body("/api/activity").await;
    // An email address has one account.
    let again = [
        "org",
        "create",
        "--name",
        "Initrode",
        "--owner-email",
        "Peter@Example.com",
        "--owner-name",
        "Peter",
        "--owner-password-file",
        "-",
    ];
    let output = app.try_admin(&again, "another long secret");
    assert!(!output.status.success());
    let list = app.admin(&["org", "list"]).to_string();
    assert!(
        !list.contains("Initrode"),
        "the organization was created: {list}"
    );
}

async fn plans_are_set_by_id_and_by_name(app: TestApp) {
    let organization = &app.organization;
    for (name, plan, status) in [
        (organization.id.as_str(), "free", 403),
        (organization.name.as_str(), "pro", 200),
        (organization.name.as_str(), "free", 403),
        (organization.id.as_str(), "pro", 200),
        (organization.id.as_str(), "pro", 200),
    ] {
        app.admin(&["org", "set-plan", name, plan]);
        app.key().get("/api/hosts").await.is(status);
        let list = app.admin(&["org", "list"]);
        assert_eq!(each(&list, "plan"), [plan]);
    }
}

async fn keys_are_listed_masked(app: TestApp) {
    let made = app.create_key(&["--expires-at", "2099-01-02T03:04:05+01:00"]);
    assert_eq!(made["expires_at"], "2099-01-02T02:04:05.000Z");
    let list = app.admin(&["key", "list", "--org", &app.organization.name]);
    assert_eq!(list.as_array().map(Vec::len), Some(2));
    for (row, value) in [
        (&list[0], &app.organization.key),
        (&list[1], &text(&made["key"])),
    ] {
        assert_eq!(
            keys(row),
            [
                "created_at",
                "created_by",
                "environments",
                "expires_at",
                "id",
                "last_used_at",
                "masked",
                "name",
                "organization_id",
                "revoked_at",
                "scopes",
                "service_ids",
            ]
        );
        let masked = text(&row["masked"]);
        assert!(masked.starts_with("chlog_"), "{masked}");
        assert!(masked.ends_with(&value[40..]), "{masked}");
        assert!(masked.chars().count() < 16, "{masked}");
        assert_eq!(row["revoked_at"], Value::Null);
        assert_eq!(row["created_by"], "Operator");
    }
    assert_eq!(list[1]["expires_at"], made["expires_at"]);
    // Keys of another organization are not listed, and no output shows a key.
    let second = app.second_organization();
    let list = app.admin(&["key", "list", "--org", &second.id]);
    assert_eq!(each(&list, "id"), [&json!(second.key_id)]);
    let plain = app.try_admin(&["key", "list", "--org", &second.id], "");
    let plain = String::from_utf8_lossy(&plain.stdout).into_owned();
    assert_contains(&plain, &second.key_id);
    assert_lacks(&plain, &second.key);
}

async fn keys_are_revoked_once(app: TestApp) {
    let made = app.create_key(&[]);
    let id = text(&made["id"]);
    app.admin(&["key", "revoke", &id]);
    let list = app.admin(&["key", "list", "--org", &app.organization.id]);
    assert_recent(&list[1]["revoked_at"]);
    // Revoking again is not an error, and does not change the time.
    app.try_admin(&["key", "revoke", &id], "");
    let again = app.admin(&["key", "list", "--org", &app.organization.id]);
    assert_eq!(again[1]["revoked_at"], list[1]["revoked_at"]);
    let browser = app.browser().await;
    let entries = browser.body("/api/activity?resource=api_key").await;
    let revoked = each(&entries["items"], "action");
    let revoked = revoked
        .iter()
        .filter(|action| **action == "revoked")
        .count();
    assert_eq!(revoked, 1);
}

#[expect(clippy::too_many_lines, reason = "one table")]
async fn mistakes_are_reported_and_change_nothing(app: TestApp) {
    let before = app.admin(&["org", "list"]);
    let nowhere = uuid::Uuid::now_v7().to_string();
    let long = "x".repeat(101);
    let org = app.organization.id.as_str();
    for (arguments, input) in [
        (&["org", "create"][..], ""),
        (&["org", "create", "--name", ""], ""),
        (&["org", "create", "--name", long.as_str()], ""),
        (&["org", "create", "--name", "X", "--plan", "gold"], ""),
        (
            &[
                "org",
                "create",
                "--name",
                "X",
                "--owner-email",
                "x@example.com",
            ],
            "",
        ),
        (
            &[
                "org",
                "create",
                "--name",
                "X",
                "--owner-email",
                "no-address",
                "--owner-name",
                "X",
                "--owner-password-file",
                "-",
            ],
            "a long enough secret",
        ),
        (
            &[
                "org",
                "create",
                "--name",
                "X",
                "--owner-email",
                "x@example.com",
                "--owner-name",
                "X",
                "--owner-password-file",
                "-",
            ],
            "too short",
        ),
        (
            &[
                "org",
                "create",
                "--name",
                "X",
                "--owner-email",
                "x@example.com",
                "--owner-name",
                "X",
                "--owner-password-file",
                "/nowhere/at/all",
            ],
            "",
        ),
        (&["org", "set-plan", nowhere.as_str(), "pro"], ""),
        (&["org", "set-plan", "Nobody", "pro"], ""),
        (&["org", "set-plan", org, "gold"], ""),
        (&["key", "create", "--org", "Nobody", "--name", "x"], ""),
        (&["key", "create", "--org", org, "--name", ""], ""),
        (
            &["key", "create", "--org", org, "--name", long.as_str()],
            "",
        ),
        (&["key", "list", "--org", "Nobody"], ""),
        (&["key", "revoke", nowhere.as_str()], ""),
        (&["key", "revoke", "not-an-id"], ""),
        (
            &[
                "user",
                "set-password",
                "--email",
                "nobody@example.com",
                "--password-file",
                "-",
            ],
            "a long enough secret",
        ),
        (&["serve", "--listen", "nowhere"], ""),
        (&["frobnicate"], ""),
    ] {
        let output = app.try_admin(arguments, input);
        assert!(!output.status.success(), "{arguments:?} succeeds");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!stderr.trim().is_empty(), "{arguments:?} says nothing");
        assert!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
        assert_eq!(output.stdout, b"", "{arguments:?}");
    }
    assert_eq!(app.admin(&["org", "list"]), before);
    let keys = app.admin(&["key", "list", "--org", org]);
    assert_eq!(each(&keys, "id"), [&json!(app.organization.key_id)]);
    // What is missing is named by its flag.
    let create = [
        "integration",
        "create",
        "--org",
        org,
        "--name",
        "x",
        "--kind",
    ];
    let grafana = ["grafana", "--url", "https://grafana.example.com"];
    let output = app.try_admin(&[&create[..], &grafana].concat(), "");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_contains(&stderr, "--token-file: is required");
    // Organizations with the same name must be given by id.
    app.admin(&["org", "create", "--name", "Acme"]);
    let output = app.try_admin(&["key", "create", "--org", "Acme", "--name", "x"], "");
    assert!(!output.status.success(), "an ambiguous name was accepted");
    app.admin(&["key", "create", "--org", org, "--name", "x"]);
}

async fn help_lists_commands_and_flags(app: TestApp) {
    for command in ["demo", "health", "move", "openapi", "man"] {
        let output = app.try_admin(&[command, "--help"], "");
        let help = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_lacks(&help, "--database-url");
    }
    for (arguments, words) in [
        (
            &["--help"][..],
            &[
                "serve", "demo", "org", "key", "user", "backup", "openapi", "schema",
            ][..],
        ),
        (
            &["serve", "--help"],
            &[
                "--listen",
                "CHANGELOG_LISTEN",
                "--public-url",
                "CHANGELOG_PUBLIC_URL",
            ],
        ),
        (&["demo", "--help"], &["--listen", "--data-dir"]),
        (&["status", "--help"], &["--database-url"]),
        (
            &["org", "create", "--help"],
            &[
                "--name",
                "--plan",
                "--owner-email",
                "--owner-name",
                "--owner-password-file",
            ],
        ),
        (
            &["key", "create", "--help"],
            &["--org", "--name", "--expires-at"],
        ),
        (
            &["user", "set-password", "--help"],
            &["--email", "--password-file"],
        ),
        (&["schema", "citus", "--help"], &["--every-node", "psql"]),
        (
            &["backup", "--help"],
            &["--database-url", "CHANGELOG_DATABASE_URL", "--json"],
        ),
    ] {
        let output = app.try_admin(arguments, "");
        assert!(output.status.success(), "{arguments:?}");
        let help = String::from_utf8_lossy(&output.stdout);
        for word in words {
            assert!(
                help.contains(word),
                "{arguments:?} does not name {word}: {help}"
            );
        }
        // The database URL may contain a password.
        assert_lacks(&help, &app.database);
    }
}

async fn a_missing_database_is_neither_backed_up_nor_created(app: TestApp) {
    let missing = app.folder().join("mistyped.db");
    let address = format!("sqlite://{}", missing.display());
    let copy = app.folder().join("copy-of-nothing.db");
    let copy = copy.to_str().expect("a path");
    for arguments in [
        &["backup", copy][..],
        &["key", "create", "--org", "Acme", "--name", "ci"],
        &["org", "list"],
    ] {
        let all = [arguments, &["--database-url", &address]].concat();
        let output = app.try_admin(&all, "");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_contains(&stderr, "mistyped.db");
        assert_contains(&stderr, "org create");
        assert!(!missing.exists(), "a file was created");
    }
    if app.engine == Engine::Sqlite {
        let output = app.try_admin(&["key", "list", "--org", "Acmee"], "");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_contains(&stderr, " in sqlite://");
    }
}
