//! `chlog service`: which services a service depends on, and edits.

use serde_json::{Value, json};

use crate::chlog::{ChlogOutput, chlog};
use changelog_tests::{TestApp, on_one, text};

on_one!(services_depend_on_services, services_are_edited,);

/// Requires that a command fails with this exit code and says this.
#[track_caller]
fn fails(output: ChlogOutput, code: i32, message: &str) {
    let output = output.exits_with(code);
    assert!(output.stderr.contains(message), "{}", output.stderr);
}

async fn services_depend_on_services(app: TestApp) {
    let create = |arguments: &[&str]| {
        let arguments = [&["service", "create", "--json"], arguments].concat();
        chlog(&app, &arguments).succeeds().json()["data"].take()
    };
    let ids =
        |services: &[&Value]| -> Value { services.iter().map(|one| &one["id"]).cloned().collect() };
    let (ledger, mail, shop) = (create(&["ledger"]), create(&["mail"]), create(&["shop"]));
    let by_id = text(&shop["id"]);
    let given = [
        "payments",
        "--depends-on",
        "mail,LEDGER",
        "--depends-on",
        &by_id,
    ];
    let payments = create(&given);
    assert_eq!(payments["depends_on"], ids(&[&mail, &ledger, &shop]));
    let unknown = ["service", "create", "other", "--depends-on", "mali"];
    fails(chlog(&app, &unknown), 3, "did you mean mail?");

    let update = |arguments: &[&str]| {
        let arguments = [&["service", "update", "payments"], arguments].concat();
        chlog(&app, &arguments)
    };
    for (arguments, expected) in [
        (&["--remove-depends-on", "mail,shop"][..], vec![&ledger]),
        (&["--depends-on", "mail,ledger"], vec![&ledger, &mail]),
        (
            &["--depends-on", "shop", "--remove-depends-on", "ledger"],
            vec![&mail, &shop],
        ),
        (&["--clear", "depends-on"], vec![]),
        (&["--depends-on", &by_id], vec![&shop]),
    ] {
        let updated = update(&[arguments, &["--json"]].concat()).succeeds().json();
        assert_eq!(
            updated["data"]["depends_on"],
            ids(&expected),
            "{arguments:?}"
        );
    }
    let itself = update(&["--depends-on", "payments"]);
    fails(itself, 6, "must be another service");
    update(&["--depends-on", "nobody"]).exits_with(3);
    update(&["--depends-on", "mail", "--clear", "depends-on"]).exits_with(2);
    update(&["--remove-depends-on", "nobody"]).exits_with(3);

    let shown = |name: &str| chlog(&app, &["service", "show", name]).succeeds().stdout;
    let (payments, shop) = (shown("payments"), shown("shop"));
    assert!(payments.contains("depends on  shop\n"), "{payments}");
    assert!(!payments.contains("needed by"), "{payments}");
    assert!(shop.contains("needed by  payments\n"), "{shop}");
    assert!(!shop.contains("depends on"), "{shop}");
    let table = chlog(&app, &["service", "list"]).succeeds().stdout;
    let row = table.lines().find(|line| line.starts_with("payments"));
    assert!(row.is_some_and(|row| row.contains(" shop ")), "{table}");
    let csv = chlog(&app, &["service", "list", "--format", "csv"])
        .succeeds()
        .stdout;
    assert!(csv.contains(&format!(",{by_id},")), "{csv}");
}

async fn services_are_edited(app: TestApp) {
    let create = ["service", "create", "payments", "-m", "Takes cards"];
    chlog(&app, &create).succeeds();
    let update = |arguments: &[&str]| chlog(&app, &[&["service", "update"], arguments].concat());
    let renamed = ["Payments", "--name", "billing", "--color", "#0aF", "--json"];
    let service = update(&renamed).succeeds().json()["data"].take();
    assert_eq!(
        [&service["name"], &service["color"], &service["description"]],
        ["billing", "#0aF", "Takes cards"]
    );
    let id = text(&service["id"]);
    let line = update(&[&id, "--clear", "description"]).succeeds().stdout;
    assert_eq!(line, format!("{id}  billing\n"));
    let path = format!("/api/services/{id}");
    assert_eq!(
        app.key().get(&path).await.data(200)["description"],
        Value::Null
    );
    fails(update(&["billing"]), 2, "nothing to update");
    update(&["billing", "-m", "x", "--clear", "description"]).exits_with(2);
    update(&["billing", "--name", "x"]).exits_with(6);
    update(&["payments", "--name", "other"]).exits_with(3);
    app.key()
        .create("/api/services", json!({ "name": "taken" }))
        .await;
    update(&["billing", "--name", "TAKEN"]).exits_with(5);
}
