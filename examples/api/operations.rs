//! An example for each operation of the API: with curl, with `chlog`, and with the Rust
//! SDK. `/api/docs` shows these texts, and `tests/it/api/examples.rs` runs them.
//!
//! An operation begins with `// #` and its id, and has the three parts below. A part that
//! begins with `None:` says why there is no example. Of a function, the page shows what
//! is between its braces, without the `Ok(())` at the end.

use changelog_client::{
    ChangeId, ChangeQuery, Client, Environment, Error, HostId, IncidentId, IncidentStatus,
    NewChange, RiskLevel, ServiceId, Severity, Status,
};
use futures_util::TryStreamExt;

// # list_changes
// ## curl
// curl -s "$CHLOG_URL/api/changes?risk_level=high&tag=deploy" \
//   -H "x-api-key: $CHLOG_API_KEY"
// ## chlog
// chlog list --risk high --tag deploy --limit 10
// ## Rust
pub(super) async fn list_changes(client: &Client) -> Result<(), Error> {
    let query = ChangeQuery::new().risk_level(RiskLevel::High).tag("deploy");
    let mut changes = client.changes().list().matching(query).stream();
    while let Some(change) = changes.try_next().await? {
        println!("{} {}", change.id, change.title);
    }
    Ok(())
}

// # create_change
// ## curl
// curl -s "$CHLOG_URL/api/changes" \
//   -H "x-api-key: $CHLOG_API_KEY" \
//   -H 'content-type: application/json' \
//   -H 'idempotency-key: pipeline-4711' \
//   -d '{"title": "Deploy payments 2.3.1",
//        "status": "completed", "risk_level": "medium",
//        "service_name": "payments", "tags": ["deploy"]}'
// ## chlog
// chlog log "Deploy payments 2.3.1" --service payments \
//   --risk medium --tag deploy
// ## Rust
pub(super) async fn create_change(client: &Client) -> Result<(), Error> {
    let change = client
        .changes()
        .create("Deploy payments 2.3.1")
        .status(Status::Completed)
        .risk_level(RiskLevel::Medium)
        .service_name("payments")
        .tag("deploy")
        .idempotency_key("pipeline-4712")
        .await?;
    println!("{}", change.id);
    Ok(())
}

// # create_changes
// ## curl
// curl -s "$CHLOG_URL/api/changes/bulk" \
//   -H "x-api-key: $CHLOG_API_KEY" \
//   -H 'content-type: application/json' \
//   -d '{"changes": [{"title": "Rotate the certificates"},
//                    {"title": "Raise the timeout", "hostname": "web-1"}]}'
// ## chlog
// echo '{"title": "Rotate the certificates", "occurred_at": "2026-11-21T08:30:00Z"}' |
//   chlog import -
// ## Rust
pub(super) async fn create_changes(client: &Client) -> Result<(), Error> {
    let titles = ["Rotate the certificates", "Raise the timeout"];
    let changes = titles.map(|title| NewChange {
        title: title.to_owned(),
        ..NewChange::default()
    });
    let created = client.changes().create_many(changes).await?;
    println!("{} changes", created.len());
    Ok(())
}

// # watch_changes
// ## curl
// curl -sN "$CHLOG_URL/api/changes/stream?min_risk=medium" \
//   -H "x-api-key: $CHLOG_API_KEY"
// ## chlog
// chlog watch --min-risk medium
// ## Rust
pub(super) async fn watch_changes(client: &Client) -> Result<(), Error> {
    let query = ChangeQuery::new().min_risk(&RiskLevel::Medium);
    let mut changes = client.changes().watch().matching(query).stream();
    // The next change; `while let` reads all that follow.
    if let Some(watched) = changes.try_next().await? {
        println!("{} {}", watched.change.id, watched.change.title);
    }
    Ok(())
}

// # upcoming_changes
// ## curl
// curl -s "$CHLOG_URL/api/changes/upcoming?limit=5" -H "x-api-key: $CHLOG_API_KEY"
// ## chlog
// chlog upcoming --limit 5
// ## Rust
pub(super) async fn upcoming_changes(client: &Client) -> Result<(), Error> {
    for change in client.changes().upcoming(5).await? {
        println!("{:?} {}", change.scheduled_for, change.title);
    }
    Ok(())
}

// # changes_annotations
// ## curl
// curl -s "$CHLOG_URL/api/changes/annotations?max=100" \
//   -H "x-api-key: $CHLOG_API_KEY"
// ## chlog
// chlog api "changes/annotations?max=100"
// ## Rust
// None: Grafana reads the annotations; the SDK has no method for them.

// # changes_around
// ## curl
// curl -s -G "$CHLOG_URL/api/changes/around" \
//   -H "x-api-key: $CHLOG_API_KEY" \
//   --data-urlencode "at=2026-11-21T14:20:00+01:00" \
//   --data-urlencode "service_id=$SERVICE_ID" \
//   --data-urlencode "q=card payments time out"
// ## chlog
// chlog around "2026-11-21 14:20+0100" --service payments \
//   --symptom "card payments time out"
// ## Rust
pub(super) async fn changes_around(client: &Client) -> Result<(), Error> {
    let payments = client.services().find("payments").await?;
    let mut around = client.changes().around().symptom("card payments time out");
    if let Some(payments) = payments {
        around = around.service(payments.id);
    }
    for suspect in around.await?.data {
        println!("{} {}", suspect.score, suspect.change.title);
    }
    Ok(())
}

// # get_change
// ## curl
// curl -s "$CHLOG_URL/api/changes/$ID" -H "x-api-key: $CHLOG_API_KEY"
// ## chlog
// chlog show "$ID"
// ## Rust
pub(super) async fn get_change(client: &Client, id: ChangeId) -> Result<(), Error> {
    let change = client.changes().get(id).await?;
    println!("{}: {}", change.title, change.status);
    Ok(())
}

// # update_change
// ## curl
// curl -s -X PATCH "$CHLOG_URL/api/changes/$ID" \
//   -H "x-api-key: $CHLOG_API_KEY" \
//   -H 'content-type: application/json' \
//   -d '{"status": "completed", "impact": null}'
// ## chlog
// chlog update "$ID" --status completed --clear impact
// ## Rust
pub(super) async fn update_change(client: &Client, id: ChangeId) -> Result<(), Error> {
    let update = client.changes().update(id).status(Status::Completed);
    let change = update.clear_impact().await?;
    println!("ended at {:?}", change.ended_at);
    Ok(())
}

// # change_history
// ## curl
// curl -s "$CHLOG_URL/api/changes/$ID/history" -H "x-api-key: $CHLOG_API_KEY"
// ## chlog
// chlog history "$ID"
// ## Rust
pub(super) async fn change_history(client: &Client, id: ChangeId) -> Result<(), Error> {
    for entry in client.changes().history(id).await?.entries {
        println!("{} {} by {}", entry.at, entry.action, entry.by.name);
    }
    Ok(())
}

// # list_hosts
// ## curl
// curl -s "$CHLOG_URL/api/hosts" -H "x-api-key: $CHLOG_API_KEY"
// ## chlog
// chlog host list
// ## Rust
pub(super) async fn list_hosts(client: &Client) -> Result<(), Error> {
    for host in client.hosts().list().await? {
        println!("{} {}", host.id, host.hostname);
    }
    Ok(())
}

// # create_host
// ## curl
// curl -s "$CHLOG_URL/api/hosts" \
//   -H "x-api-key: $CHLOG_API_KEY" \
//   -H 'content-type: application/json' \
//   -d '{"hostname": "web-2", "environment": "prod", "roles": ["web"]}'
// ## chlog
// chlog host create web-3 --environment prod --role web
// ## Rust
pub(super) async fn create_host(client: &Client) -> Result<(), Error> {
    let host = client.hosts().create("web-4").role("web");
    let host = host.environment(Environment::Prod).await?;
    println!("{}", host.id);
    Ok(())
}

// # get_host
// ## curl
// curl -s "$CHLOG_URL/api/hosts/$ID" -H "x-api-key: $CHLOG_API_KEY"
// ## chlog
// chlog host show "$ID"
// ## Rust
pub(super) async fn get_host(client: &Client, id: HostId) -> Result<(), Error> {
    let host = client.hosts().get(id).await?;
    println!("{}: {:?}", host.hostname, host.os);
    Ok(())
}

// # update_host
// ## curl
// curl -s -X PATCH "$CHLOG_URL/api/hosts/$ID" \
//   -H "x-api-key: $CHLOG_API_KEY" \
//   -H 'content-type: application/json' \
//   -d '{"os": "Debian 12", "description": null}'
// ## chlog
// chlog host update "$ID" --os "Debian 12" --clear description
// ## Rust
pub(super) async fn update_host(client: &Client, id: HostId) -> Result<(), Error> {
    let update = client.hosts().update(id).os("Debian 12");
    update.clear_description().await?;
    Ok(())
}

// # list_services
// ## curl
// curl -s "$CHLOG_URL/api/services" -H "x-api-key: $CHLOG_API_KEY"
// ## chlog
// chlog service list
// ## Rust
pub(super) async fn list_services(client: &Client) -> Result<(), Error> {
    for service in client.services().list().await? {
        println!("{} {}", service.id, service.name);
    }
    Ok(())
}

// # create_service
// ## curl
// curl -s "$CHLOG_URL/api/services" \
//   -H "x-api-key: $CHLOG_API_KEY" \
//   -H 'content-type: application/json' \
//   -d '{"name": "search", "color": "#0ea5e9"}'
// ## chlog
// chlog service create mail --color "#0ea5e9"
// ## Rust
pub(super) async fn create_service(client: &Client) -> Result<(), Error> {
    let service = client.services().create("ledger").color("#0ea5e9").await?;
    println!("{}", service.id);
    Ok(())
}

// # get_service
// ## curl
// curl -s "$CHLOG_URL/api/services/$ID" -H "x-api-key: $CHLOG_API_KEY"
// ## chlog
// chlog service show "$ID"
// ## Rust
pub(super) async fn get_service(client: &Client, id: ServiceId) -> Result<(), Error> {
    let service = client.services().get(id).await?;
    println!("{}: {:?}", service.name, service.description);
    Ok(())
}

// # update_service
// ## curl
// curl -s -X PATCH "$CHLOG_URL/api/services/$ID" \
//   -H "x-api-key: $CHLOG_API_KEY" \
//   -H 'content-type: application/json' \
//   -d '{"description": "Takes the cards of the shop"}'
// ## chlog
// chlog service update "$ID" \
//   --description "Takes the cards of the shop"
// ## Rust
pub(super) async fn update_service(client: &Client, id: ServiceId) -> Result<(), Error> {
    let update = client.services().update(id);
    update.description("Takes the cards of the shop").await?;
    Ok(())
}

// # list_incidents
// ## curl
// curl -s "$CHLOG_URL/api/incidents?status=open" \
//   -H "x-api-key: $CHLOG_API_KEY"
// ## chlog
// chlog incident list --status open
// ## Rust
pub(super) async fn list_incidents(client: &Client) -> Result<(), Error> {
    let open = client.incidents().list().status(IncidentStatus::Open);
    for incident in open.await? {
        println!("{} {}", incident.id, incident.title);
    }
    Ok(())
}

// # create_incident
// ## curl
// curl -s "$CHLOG_URL/api/incidents" \
//   -H "x-api-key: $CHLOG_API_KEY" \
//   -H 'content-type: application/json' \
//   -d '{"title": "Checkout returns 502", "severity": "critical",
//        "service_name": "payments", "environment": "prod"}'
// ## chlog
// chlog incident open "Checkout returns 502" \
//   --severity critical --service payments --environment prod
// ## Rust
pub(super) async fn create_incident(client: &Client) -> Result<(), Error> {
    let incident = client
        .incidents()
        .open("Checkout returns 502")
        .severity(Severity::Critical)
        .service_name("payments")
        .environment(Environment::Prod)
        .await?;
    println!("{}", incident.id);
    Ok(())
}

// # get_incident
// ## curl
// curl -s "$CHLOG_URL/api/incidents/$ID" \
//   -H "x-api-key: $CHLOG_API_KEY"
// ## chlog
// chlog incident show "$ID"
// ## Rust
pub(super) async fn get_incident(client: &Client, id: IncidentId) -> Result<(), Error> {
    let incident = client.incidents().get(id).await?;
    for suspect in incident.suspects {
        println!("{} {}", suspect.score, suspect.change.title);
    }
    Ok(())
}

// # update_incident
// ## curl
// curl -s "$CHLOG_URL/api/incidents/$ID" -X PATCH \
//   -H "x-api-key: $CHLOG_API_KEY" \
//   -H 'content-type: application/json' \
//   -d '{"status": "resolved"}'
// ## chlog
// chlog incident resolve "$ID"
// ## Rust
pub(super) async fn update_incident(client: &Client, id: IncidentId) -> Result<(), Error> {
    let incident = client.incidents().resolve(id).await?;
    println!("{}", incident.status);
    Ok(())
}

// # mark_cause
// ## curl
// curl -s "$CHLOG_URL/api/incidents/$ID/cause" -X PUT \
//   -H "x-api-key: $CHLOG_API_KEY" \
//   -H 'content-type: application/json' \
//   -d '{"change_id": null, "none_of_these": true}'
// ## chlog
// chlog incident cause "$ID" --none
// ## Rust
pub(super) async fn mark_cause(
    client: &Client,
    id: IncidentId,
    change: ChangeId,
) -> Result<(), Error> {
    let incident = client.incidents().mark_cause(id, change).await?;
    println!("{:?}", incident.cause_change_id);
    Ok(())
}

// # get_key
// ## curl
// curl -s "$CHLOG_URL/api/key" -H "x-api-key: $CHLOG_API_KEY"
// ## chlog
// chlog auth status
// ## Rust
pub(super) async fn get_key(client: &Client) -> Result<(), Error> {
    let key = client.key().await?;
    println!("{} of {}", key.name, key.organization.name);
    Ok(())
}

// # send_event
// ## curl
// curl -s "$CHLOG_URL/api/ingest/generic/$TOKEN" \
//   -H 'content-type: application/json' \
//   -d '{"title": "Deploy search 7.9.1", "service": "search"}'
// # TOKEN: the end of the address, which the page of the source shows once
// ## chlog
// None: senders have no key; `chlog import --from KIND FILE` reads the same from a file.
// ## Rust
// None: senders have no key; programs with the SDK create changes.

// # list_activity
// ## curl
// curl -s "$CHLOG_URL/api/activity?limit=20" -b "$COOKIE"
// # COOKIE: NAME=VALUE, the session cookie of a browser
// ## chlog
// None: the activity log takes the session of a person, and `chlog` has a key.
// ## Rust
// None: the activity log takes the session of a person, and the SDK has a key.

// # list_actors
// ## curl
// curl -s "$CHLOG_URL/api/activity/actors" -b "$COOKIE"
// # COOKIE: NAME=VALUE, the session cookie of a browser
// ## chlog
// None: the activity log takes the session of a person, and `chlog` has a key.
// ## Rust
// None: the activity log takes the session of a person, and the SDK has a key.

// # get_health
// ## curl
// curl -s "$CHLOG_URL/api/health"
// ## chlog
// chlog health
// ## Rust
pub(super) async fn get_health(client: &Client) -> Result<(), Error> {
    let health = client.health().await?;
    println!("{}", health.status);
    Ok(())
}

// # get_openapi
// ## curl
// curl -s "$CHLOG_URL/api/openapi.json"
// ## chlog
// chlog api openapi.json
// ## Rust
// None: the SDK has the types of the document already.
