//! `chlog service`: which services a service depends on, and edits.

use serde_json::Value;

use crate::chlog::chlog;
use changelog_tests::{TestApp, on_one, text};

on_one!(services_depend_on_services, services_are_edited,);

async fn services_depend_on_services(app: TestApp) {
    let create = |line: &str| {
        let created = chlog(&app, &format!("service create --json {line}")).succeeds();
        created.json()["data"].take()
    };
    let ids =
        |services: &[&Value]| -> Value { services.iter().map(|one| &one["id"]).cloned().collect() };
    let (ledger, mail, shop) = (create("ledger"), create("mail"), create("shop"));
    let by_id = text(&shop["id"]);
    let payments = create(&format!(
        "payments --depends-on mail,LEDGER --depends-on {by_id}"
    ));
    assert_eq!(payments["depends_on"], ids(&[&mail, &ledger, &shop]));
    let unknown = ["service", "create", "other", "--depends-on", "mali"];
    chlog(&app, &unknown)
        .exits_with(3)
        .says("did you mean mail?");

    let update = |line: &str| chlog(&app, &format!("service update payments {line}"));
    for (arguments, expected) in [
        ("--remove-depends-on mail,shop", vec![&ledger]),
        ("--depends-on mail,ledger", vec![&ledger, &mail]),
        (
            "--depends-on shop --remove-depends-on ledger",
            vec![&mail, &shop],
        ),
        ("--clear depends-on", vec![]),
        (&format!("--depends-on {by_id}"), vec![&shop]),
    ] {
        let updated = update(&format!("{arguments} --json")).succeeds().json();
        assert_eq!(
            updated["data"]["depends_on"],
            ids(&expected),
            "{arguments:?}"
        );
    }
    let itself = update("--depends-on payments");
    itself.exits_with(6).says("must be another service");
    update("--depends-on nobody").exits_with(3);
    update("--depends-on mail --clear depends-on").exits_with(2);
    update("--remove-depends-on nobody").exits_with(3);

    let shown = |name: &str| {
        chlog(&app, &format!("service show {name}"))
            .succeeds()
            .stdout
    };
    let (payments, shop) = (shown("payments"), shown("shop"));
    assert!(payments.contains("depends on  shop\n"), "{payments}");
    assert!(!payments.contains("needed by"), "{payments}");
    assert!(shop.contains("needed by  payments\n"), "{shop}");
    assert!(!shop.contains("depends on"), "{shop}");
    let table = chlog(&app, "service list").succeeds().stdout;
    let row = table.lines().find(|line| line.starts_with("payments"));
    assert!(row.is_some_and(|row| row.contains(" shop ")), "{table}");
    let csv = chlog(&app, "service list --format csv").succeeds().stdout;
    assert!(csv.contains(&format!(",{by_id},")), "{csv}");
}

async fn services_are_edited(app: TestApp) {
    chlog(&app, "service create payments -m 'Takes cards'").succeeds();
    let update = |line: &str| chlog(&app, &format!("service update {line}"));
    let service = update("Payments --name billing --color '#0aF' --json").succeeds();
    let service = service.json()["data"].take();
    assert_eq!(
        [&service["name"], &service["color"], &service["description"]],
        ["billing", "#0aF", "Takes cards"]
    );
    let id = text(&service["id"]);
    let line = update(&format!("{id} --clear description"))
        .succeeds()
        .stdout;
    assert_eq!(line, format!("{id}  billing\n"));
    let path = format!("/api/services/{id}");
    assert_eq!(app.key().read(&path).await["description"], Value::Null);
    update("billing").exits_with(2).says("nothing to update");
    update("billing -m x --clear description").exits_with(2);
    update("billing --name x").exits_with(6);
    update("payments --name other").exits_with(3);
    app.key().service("taken").await;
    update("billing --name TAKEN").exits_with(5);
}
