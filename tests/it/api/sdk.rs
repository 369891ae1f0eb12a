//! The client library against the real service.

use std::time::Duration;

use changelog_client::limits::MAX_BULK_CHANGES;
use changelog_client::{
    ChangeQuery, Client, DbStatus, Environment, ErrorKind, NewChange, Platform, RetryPolicy,
    RiskLevel, Status, Timestamp,
};
use chrono::{TimeDelta, Utc};
use futures_util::TryStreamExt;

use changelog_tests::{Engine, Postgres, TestApp, on_both};

on_both!(
    the_sdk_creates_reads_updates_and_lists,
    the_sdk_declares_dependencies,
    the_sdk_names_services_and_creates_in_full,
    a_list_stream_yields_each_change_once,
    the_service_resolves_conditions_on_risk_and_status,
    a_symptom_may_be_a_whole_log,
    errors_have_kinds_and_violations,
    one_idempotency_key_creates_one_change,
    create_many_creates_all_or_none;
    process:
    a_retrying_client_survives_a_restart,
);

pub(super) fn client(app: &TestApp) -> Client {
    builder(app).build().expect("a client")
}

fn builder(app: &TestApp) -> changelog_client::ClientBuilder {
    // Installs the TLS provider.
    let _ = app.anonymous();
    Client::builder()
        .url(app.url())
        .api_key(app.organization.key.clone())
}

async fn the_sdk_declares_dependencies(app: TestApp) {
    let services = client(&app).services();
    let mail = services.create("mail").send().await.expect("created");
    let ledger = services.create("ledger").depends_on([mail.id, mail.id]);
    let ledger = ledger.send().await.expect("created");
    assert_eq!(ledger.depends_on, [mail.id]);
    // In a circle.
    let mail = services.update(mail.id).depends_on([ledger.id]);
    let mail = mail.send().await.expect("updated");
    assert_eq!(mail.depends_on, [ledger.id]);
    let ledger = services.update(ledger.id).depends_on([]);
    let ledger = ledger.send().await.expect("updated");
    assert!(ledger.depends_on.is_empty());
    let list = services.list().await.expect("a list");
    assert_eq!(list, [ledger, mail]);
}

async fn the_sdk_names_services_and_creates_in_full(app: TestApp) {
    let client = client(&app);
    let payments = client.services().ensure("payments").await.expect("created");
    let same = client.services().ensure("Payments").await.expect("found");
    assert_eq!(same.id, payments.id);
    let host = client.hosts().ensure("web-1").await.expect("created");
    let found = client.hosts().find("WEB-1").await.expect("a list");
    assert_eq!(found, Some(host.clone()));
    let create = client.changes().create("Deploy payments");
    let change = create.service_name("payments").hostname("web-1");
    let change = change.send_in_full().await.expect("created");
    assert_eq!(change.service.map(|service| service.id), Some(payments.id));
    assert_eq!(change.host_ref.map(|host| host.id), Some(host.id));
    let author = change.created_by.map(|author| author.name);
    assert_eq!(author.as_deref(), Some("terraform"));
}

async fn the_sdk_creates_reads_updates_and_lists(app: TestApp) {
    let client = client(&app);
    let health = client.health().await.expect("a healthy service");
    assert!(health.is_ok() && health.db == DbStatus::Reachable);

    let service = client
        .services()
        .create("payments")
        .color("#0aF")
        .send()
        .await
        .expect("created");
    let host = client
        .hosts()
        .create("web-1")
        .platform(Platform::Aws)
        .environment(Environment::Prod)
        .role("web")
        .send()
        .await
        .expect("created");
    let at = Timestamp::from(Utc::now() - TimeDelta::hours(1));
    let created = client
        .changes()
        .create("Deploy payments 2.3")
        .service(service.id)
        .host(host.id)
        .risk_level(RiskLevel::High)
        .status(Status::InProgress)
        .tags(["deploy", "eu"])
        .link("run", "https://ci.example.com/42")
        .description("All of it")
        .impact("None")
        .occurred_at(at)
        .send()
        .await
        .expect("created");
    let change = client.changes().get(created.id).await.expect("a change");
    assert_eq!(change.title, "Deploy payments 2.3");
    assert_eq!(
        change.service.as_ref().map(|service| &*service.color),
        Some("#0aF")
    );
    assert_eq!(
        change
            .host_ref
            .as_ref()
            .and_then(|host| host.environment.clone()),
        Some(Environment::Prod)
    );
    assert_eq!(change.tags, ["deploy", "eu"]);
    assert_eq!(change.occurred_at, at);
    let updated = client
        .changes()
        .update(created.id)
        .status(Status::Completed)
        .clear_description()
        .clear_service()
        .send()
        .await
        .expect("updated");
    assert_eq!(
        (updated.status, updated.description, updated.service),
        (Status::Completed, None, None)
    );
    let host = client
        .hosts()
        .update(host.id)
        .os("Debian 12")
        .send()
        .await
        .expect("updated");
    assert_eq!(host.os.as_deref(), Some("Debian 12"));
    let service = client
        .services()
        .update(service.id)
        .name("billing")
        .send()
        .await
        .expect("updated");
    assert_eq!(client.services().list().await.expect("a list"), [service]);
    assert_eq!(client.hosts().list().await.expect("a list"), [host]);
    let page = client
        .changes()
        .list()
        .matching(
            ChangeQuery::new()
                .q("pay")
                .risk_level(RiskLevel::High)
                .status(Status::Completed)
                .tag("eu")
                .since(at),
        )
        .per_page(10)
        .send()
        .await
        .expect("a page");
    assert_eq!((page.count, page.per_page, page.data.len()), (1, 10, 1));
    assert_eq!(page.data[0].id, created.id);
    assert!(!format!("{client:?}").contains(&app.organization.key));
}

async fn a_list_stream_yields_each_change_once(app: TestApp) {
    let client = client(&app);
    let mut expected = Vec::new();
    for index in 0..230 {
        let made = client
            .changes()
            .create(format!("number {index}"))
            .send()
            .await
            .expect("created");
        expected.push(made.id);
    }
    expected.reverse();
    let mut stream = client.changes().list().stream();
    let mut listed = Vec::new();
    while let Some(change) = stream.try_next().await.expect("a change") {
        listed.push(change.id);
        if listed.len() == 50 {
            // A change that is created meanwhile does not shift the pages.
            client
                .changes()
                .create("meanwhile")
                .send()
                .await
                .expect("created");
        }
    }
    assert_eq!(listed, expected);
}

async fn the_service_resolves_conditions_on_risk_and_status(app: TestApp) {
    let client = client(&app);
    for risk in [RiskLevel::Low, RiskLevel::Medium, RiskLevel::High] {
        let create = client.changes().create(format!("Deploy at {risk} risk"));
        let create = create.risk_level(risk).status(Status::Completed);
        create.send().await.expect("created");
    }
    let list = |query: ChangeQuery| client.changes().list().matching(query).send();
    for (query, expected) in [
        (ChangeQuery::new().min_risk(&RiskLevel::Medium), 2),
        (ChangeQuery::new().min_risk(&RiskLevel::Low), 3),
        (ChangeQuery::new().not_status(&[Status::Planned]), 3),
        (ChangeQuery::new().not_status(&[Status::Completed]), 0),
        (ChangeQuery::new().not_status(&[]), 3),
    ] {
        let page = list(query.clone()).await.expect("a list");
        assert_eq!(page.count, expected, "{query:?}");
    }
    let unknown = RiskLevel::Unknown("critical".into());
    for query in [
        ChangeQuery::new().min_risk(&unknown),
        ChangeQuery::new().not_status(Status::ALL),
    ] {
        let error = list(query.clone()).await.expect_err("nothing matches");
        assert_eq!(error.kind(), Some(ErrorKind::Invalid), "{query:?}");
        let mut watched = client.changes().watch().matching(query).stream();
        let error = watched.try_next().await.expect_err("nothing matches");
        assert_eq!(error.kind(), Some(ErrorKind::Invalid), "{error:?}");
    }
}

async fn a_symptom_may_be_a_whole_log(app: TestApp) {
    let client = client(&app);
    let create = client.changes().create("Replace the certificates");
    let change = create.status(Status::Completed).send().await;
    let change = change.expect("created");
    let line = "ERROR: the certificates have expired (Überlauf) ";
    let log = line.repeat(15_000 / line.len());
    let around = client.changes().around().symptom(log).send().await;
    let around = around.expect("a ranking");
    assert_eq!(around.data[0].change.id, change.id);
    let reasons = &around.data[0].reasons;
    assert!(
        reasons
            .iter()
            .any(|reason| reason.text.contains("certificates")),
        "{reasons:?}"
    );
}

async fn errors_have_kinds_and_violations(app: TestApp) {
    let client = client(&app);
    client
        .hosts()
        .create("web-1")
        .send()
        .await
        .expect("created");
    let error = client
        .hosts()
        .create("WEB-1")
        .send()
        .await
        .expect_err("a conflict");
    assert_eq!(error.kind(), Some(ErrorKind::Conflict), "{error:?}");
    let error = client
        .changes()
        .create("ab")
        .tags(vec!["x"; 21])
        .send()
        .await
        .expect_err("violations");
    assert_eq!(error.kind(), Some(ErrorKind::Invalid), "{error:?}");
    let mut pointers: Vec<&str> = error
        .violations()
        .iter()
        .map(|violation| &*violation.pointer)
        .collect();
    pointers.sort_unstable();
    assert_eq!(pointers, ["/tags", "/title"]);
    assert!(error.request_id().is_some());
    let nowhere = uuid::Uuid::now_v7().into();
    let error = client.changes().get(nowhere).await.expect_err("unknown");
    assert_eq!(error.kind(), Some(ErrorKind::NotFound), "{error:?}");
    let stranger = builder(&app)
        .api_key("chlog_nonsense")
        .build()
        .expect("a client");
    let error = stranger.hosts().list().await.expect_err("unknown");
    assert_eq!(error.kind(), Some(ErrorKind::Unauthorized), "{error:?}");
    app.admin(&["org", "set-plan", &app.organization.id, "free"]);
    let error = client.hosts().list().await.expect_err("the free plan");
    assert_eq!(error.kind(), Some(ErrorKind::PlanRequired), "{error:?}");
    assert!(!format!("{error:?}").contains(&app.organization.key));
}

async fn one_idempotency_key_creates_one_change(app: TestApp) {
    let client = client(&app);
    let create = || {
        client
            .changes()
            .create("once")
            .idempotency_key("run-42")
            .send()
    };
    let made = futures_util::future::join_all((0..20).map(|_| create())).await;
    let first = made[0].as_ref().expect("created").id;
    for one in &made {
        assert_eq!(one.as_ref().expect("created").id, first);
    }
    assert_eq!(
        client.changes().list().send().await.expect("a page").count,
        1
    );
    let error = client
        .changes()
        .create("other")
        .idempotency_key("run-42")
        .send()
        .await
        .expect_err("a used key");
    assert_eq!(error.kind(), Some(ErrorKind::Invalid), "{error:?}");
}

async fn create_many_creates_all_or_none(app: TestApp) {
    let client = client(&app);
    let start = Utc::now() - TimeDelta::hours(1);
    let titled = |index: usize, title: String| NewChange {
        title,
        occurred_at: Some(Timestamp::from(
            start + TimeDelta::seconds(i64::try_from(index).expect("a small number")),
        )),
        ..NewChange::default()
    };
    let number = |index: usize| titled(index, format!("number {index}"));
    let made = client
        .changes()
        .create_many((0..MAX_BULK_CHANGES).map(number))
        .send()
        .await
        .expect("created");
    let received: Vec<String> = made.iter().map(|made| made.title.clone()).collect();
    let expected: Vec<String> = (0..MAX_BULK_CHANGES)
        .map(|index| number(index).title)
        .collect();
    assert_eq!(received, expected, "in the order given");
    let stream = client.changes().list().stream();
    let listed: Vec<_> = stream
        .map_ok(|change| change.id)
        .try_collect()
        .await
        .expect("a change");
    let newest_first: Vec<_> = made.iter().rev().map(|made| made.id).collect();
    assert_eq!(listed, newest_first);

    let wrong = vec![number(0), titled(1, "ab".into())];
    let result = client.changes().create_many(wrong).send().await;
    let error = result.expect_err("a title that is too short");
    let pointers: Vec<&str> = error
        .violations()
        .iter()
        .map(|violation| &*violation.pointer)
        .collect();
    assert_eq!(pointers, ["/changes/1/title"]);
    let none = client.changes().create_many([]).send().await;
    let error = none.expect_err("no changes");
    assert_eq!(error.kind(), Some(ErrorKind::Invalid), "{error:?}");

    // One key covers the whole list; a request without a key creates again.
    let twice = || client.changes().create_many([number(1), number(2)]);
    let first = twice().idempotency_key("run-42").send().await;
    let first = first.expect("created");
    let again = twice().idempotency_key("run-42").send().await;
    assert_eq!(again.expect("the same answer"), first);
    assert_ne!(twice().send().await.expect("created"), first);
    let page = client.changes().list().send().await.expect("a page");
    assert_eq!(page.count, MAX_BULK_CHANGES as u64 + 4);
}

/// The service restarts at the same address: a retrying client succeeds, and creates
/// once.
async fn a_retrying_client_survives_a_restart(mut app: TestApp) {
    app.move_to_own_address().await;
    let policy = RetryPolicy {
        max_retries: 100,
        ..RetryPolicy::default()
    };
    let client = builder(&app)
        .total_timeout(Duration::from_mins(1))
        .retry(policy)
        .build()
        .expect("a client");
    client
        .changes()
        .create("before")
        .send()
        .await
        .expect("created");
    app.server.kill9();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.changes().create("meanwhile").send().await }
    });
    app.restart_in_place().await;
    waiting
        .await
        .expect("an exit")
        .expect("created after retries");
    let page = client.changes().list().send().await.expect("a page");
    assert_eq!(page.count, 2);
}

/// A client that retries succeeds when a hanging database continues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retrying_client_waits_for_a_hanging_database() {
    let Some(postgres) = Postgres::start().await else {
        return;
    };
    let app = TestApp::on_postgres(&postgres).await;
    assert_eq!(app.engine, Engine::Postgres);
    let retrying = builder(&app)
        .total_timeout(Duration::from_mins(1))
        .retry(RetryPolicy {
            max_retries: 100,
            ..RetryPolicy::default()
        })
        .build()
        .expect("a client");
    let never_retrying = builder(&app)
        .retry(RetryPolicy::NEVER)
        .build()
        .expect("a client");
    postgres.suspend();
    let error = never_retrying
        .changes()
        .create("lost")
        .send()
        .await
        .expect_err("no database");
    assert_eq!(error.kind(), Some(ErrorKind::Unavailable), "{error:?}");
    let waiting = tokio::spawn(async move { retrying.changes().create("at the end").send().await });
    // The first attempt has failed when this later request has failed.
    let error = never_retrying
        .hosts()
        .list()
        .await
        .expect_err("no database");
    assert_eq!(error.kind(), Some(ErrorKind::Unavailable), "{error:?}");
    postgres.resume();
    waiting
        .await
        .expect("an exit")
        .expect("created after retries");
    let page = client(&app)
        .changes()
        .list()
        .matching(ChangeQuery::new().q("end"))
        .send()
        .await
        .expect("a page");
    assert_eq!(page.count, 1);
}
