//! The admin commands that use the database.

use changelog_tests::receivers::Receiver;
use changelog_tests::{TestApp, text};
use serde_json::Value;

/// Runs the admin commands that use the database, but for the rotation of secrets, which needs
/// to read those of all connections. `run` gets its arguments and its
/// standard input, and returns what it prints. Returns the id of the organization that one of
/// them creates.
pub(super) fn run_all(
    app: &TestApp,
    receiver: &Receiver,
    mut run: impl FnMut(&[&str], &str) -> Value,
) -> String {
    let organization = &app.organization;
    let org = organization.id.as_str();
    let password = organization.password.as_str();
    run(&["org", "list"], "");
    run(&["org", "set-plan", org, "pro"], "");
    run(&["org", "retention", org, "200", "--dry-run"], "");
    run(&["org", "retention", org, "200"], "");
    run(&["org", "retention", org, "off"], "");
    let email = "commander@example.org";
    let owner = ["--owner-email", email, "--owner-name", "Grace"];
    let create = ["org", "create", "--name", "By a command"];
    let password_file = ["--owner-password-file", "-"];
    let created = run(&[&create[..], &owner, &password_file].concat(), password);
    let key = run(&["key", "create", "--org", org, "--name", "another"], "");
    let bounded = ["key", "create", "--org", org, "--name", "bounded"];
    // A service of the fixture.
    run(&[&bounded[..], &["--service", "ledger"]].concat(), "");
    run(&["key", "list", "--org", org], "");
    run(&["key", "revoke", &text(&key["id"])], "");
    let set_password = ["user", "set-password", "--email", &organization.email];
    run(
        &[&set_password[..], &["--password-file", "-"]].concat(),
        password,
    );

    let url = receiver.url();
    let create = ["integration", "create", "--org", org, "--kind", "webhook"];
    let named = ["--name", "By a command", "--url", &url];
    let connection = run(&[&create[..], &named].concat(), "");
    let id = text(&connection["id"]);
    let allowed = ["--allow-receivers", "127.0.0.0/8"];
    run(&["integration", "list", "--org", org], "");
    run(&[&["integration", "test", &id][..], &allowed].concat(), "");
    run(&["integration", "deliveries", &id], "");
    run(&["integration", "deliveries", &id, "--dead"], "");
    run(&["integration", "enable", &id], "");
    run(&["integration", "delete", &id], "");

    let create = ["source", "create", "--org", org, "--kind", "github"];
    let named = ["--name", "By a command", "--secret-file", "-"];
    let source = run(&[&create[..], &named].concat(), "secret");
    let id = text(&source["id"]);
    run(&["source", "list", "--org", org], "");
    run(&["source", "events", &id], "");
    run(&["source", "renew", &id], "");
    run(&["source", "delete", &id], "");
    let set = [
        "sso",
        "set",
        "--org",
        org,
        "--issuer",
        "https://login.invalid",
    ];
    let client = ["--client-id", "log", "--client-secret-file", "-"];
    run(&[&set[..], &client].concat(), "the secret of the client");
    run(&["sso", "show", "--org", org], "");
    run(&["sso", "remove", "--org", org], "");
    text(&created["organization"]["id"])
}
