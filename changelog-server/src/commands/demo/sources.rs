//! The sources of the demo: GitHub, which tells of deployments, AWS, from which nothing has been
//! heard for some hours, and Alertmanager, whose alert opens the incident.

use std::time::Duration;

use changelog_core::{
    Incident, IncidentFilter, NewSource, SourceId, SourceKind, SourceSettings, Timestamp,
};
use changelog_sources::Headers;
use chrono::TimeDelta;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::incident;
use crate::app::App;
use crate::commands::{Failure, now};
use crate::ingest::setup;
use crate::store::{Actor, NewSourceEvent, Reporter, Source, Tenant, new_id};

/// The events of each source: two days of hours, and some days before.
const EVENTS: i64 = 60;
/// For how long both were heard every hour, before their first event that is kept.
const RHYTHM: TimeDelta = TimeDelta::weeks(5);
/// For how long nothing has been heard from AWS.
const SILENCE: TimeDelta = TimeDelta::hours(7);
/// How long the events may take to be read.
const READ_TIMEOUT: Duration = Duration::from_mins(1);
/// What is deployed, in turn: not the service of the incident.
const DEPLOYED: [&str; 4] = ["catalog", "search", "recommendations", "warehouse"];
/// What people do by hand in AWS, in turn.
const CALLS: [(&str, &str, &str); 4] = [
    ("AuthorizeSecurityGroupIngress", "ec2", "lena"),
    ("ModifyDBInstance", "rds", "omar"),
    ("UpdateService", "ecs", "mei"),
    ("PutBucketLifecycle", "s3", "sam"),
];

/// Makes the sources with what they have sent, and waits until that was read.
pub(super) async fn create(app: &App, tenant: Tenant) -> Result<(), Failure> {
    let now: Timestamp = now().into();
    let github = make(app, tenant, SourceKind::Github, "GitHub").await?;
    let aws = make(app, tenant, SourceKind::Cloudtrail, "AWS production").await?;
    let silent_since = now.plus(-SILENCE);
    for (source, last) in [(&github, now), (&aws, silent_since)] {
        let hours = (EVENTS..RHYTHM.num_hours()).map(|hour| last.plus(-TimeDelta::hours(hour)));
        let mut tx = app.store.begin_for(tenant).await?;
        tx.hear(
            tenant,
            Reporter::Source(source.id),
            &hours.collect::<Vec<_>>(),
        )
        .await?;
        tx.commit().await?;
        for number in (0..EVENTS).rev() {
            let at = last
                .plus(-TimeDelta::hours(number))
                .plus(-TimeDelta::minutes(4));
            let (kind, body) = if source.kind == SourceKind::Github {
                deployment(number, at)
            } else {
                ("", call(number, at))
            };
            store(app, source, at, (kind, &body)).await?;
        }
    }
    for source in [&github, &aws] {
        wait_until_read(app, source).await?;
    }
    Ok(())
}

/// Makes the source of alerts, which has told of the incident and of its end, if that time has
/// come; and waits until the suspects are ranked.
pub(super) async fn alert(app: &App, tenant: Tenant, started: Timestamp) -> Result<(), Failure> {
    let now: Timestamp = now().into();
    let source = make(app, tenant, SourceKind::Alertmanager, "Alertmanager").await?;
    let ended = started.plus(incident::LASTED);
    for (at, ended) in [(started, None), (ended, Some(ended))] {
        if at <= now {
            store(app, &source, at, ("", &notification(started, ended))).await?;
        }
    }
    wait_until_read(app, &source).await?;
    let deadline = Instant::now() + READ_TIMEOUT;
    let filter = IncidentFilter::default();
    let is_ranked = |incident: &Incident| incident.ranked_at.is_some();
    while Instant::now() < deadline
        && !app
            .store
            .incidents(tenant, &filter)
            .await?
            .iter()
            .all(is_ranked)
    {
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

async fn wait_until_read(app: &App, source: &Source) -> Result<(), Failure> {
    let deadline = Instant::now() + READ_TIMEOUT;
    while Instant::now() < deadline {
        let events = app.store.source_events(source, None, EVENTS.unsigned_abs());
        if events.await?.iter().all(|event| event.outcome != "pending") {
            break;
        }
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

async fn make(app: &App, tenant: Tenant, kind: SourceKind, name: &str) -> Result<Source, Failure> {
    let (id, created) = (SourceId::from(new_id(now())), now());
    let signs = changelog_sources::is_signed(&kind);
    let new = NewSource {
        kind,
        name: name.to_owned(),
        secret: signs.then(setup::new_secret),
        settings: SourceSettings::default(),
    };
    let secrets = app.integrations.secrets();
    let source = setup::prepare(secrets, tenant, id, new, "Demo Owner", created.into())
        .map_err(std::io::Error::other)?;
    let mut tx = app.store.begin_for(tenant).await?;
    let token = setup::new_token(tenant);
    tx.insert_source(&Actor::operator(), &source, &token, created)
        .await?;
    tx.commit().await?;
    Ok(source)
}

/// Stores what a source was sent at a time.
async fn store(
    app: &App,
    source: &Source,
    at: Timestamp,
    (event, body): (&str, &Value),
) -> Result<(), Failure> {
    let body = body.to_string();
    let headers: Headers = [("x-github-event", event)].into_iter().collect();
    let event = NewSourceEvent {
        id: new_id(at.to_datetime()).into(),
        received_at: at,
        request_id: None,
        headers,
        body: body.as_bytes(),
    };
    Ok(app.store.insert_source_event(source, &event).await?)
}

/// Returns what Alertmanager sends about the incident.
fn notification(started: Timestamp, ended: Option<Timestamp>) -> Value {
    let status = if ended.is_some() {
        "resolved"
    } else {
        "firing"
    };
    let labels = json!({
        "alertname": "HighErrorRate", "service": incident::SERVICE, "env": "prod",
        "severity": "critical",
    });
    json!({
        "version": "4", "groupKey": "{}:{alertname=\"HighErrorRate\"}", "status": status,
        "receiver": "changes", "groupLabels": {}, "commonLabels": labels,
        "commonAnnotations": { "summary": "A third of all payments fail" },
        "externalURL": "https://alertmanager.example.com",
        "alerts": [{
            "status": status, "labels": labels, "annotations": {}, "startsAt": started,
            "endsAt": ended.map_or("0001-01-01T00:00:00Z".to_owned(), |at| at.to_string()),
            "generatorURL": "https://prometheus.example.com/graph?g0.expr=payment_errors",
        }],
    })
}

/// Returns an event of GitHub: some are deployments, the others are no changes.
fn deployment(number: i64, at: Timestamp) -> (&'static str, Value) {
    let Some(service) = nth(&DEPLOYED, number, 6) else {
        return ("push", json!({ "ref": "refs/heads/main" }));
    };
    let body = json!({
        "deployment": {
            "id": number, "ref": format!("4.{}.1", 30 - number / 6), "environment": "staging",
            "sha": format!("{:012x}", 0x9f3c_1e7a_b204_i64 - number),
            "created_at": at.plus(-TimeDelta::minutes(3)), "creator": { "login": "tom" },
        },
        "deployment_status": {
            "state": if number == 18 { "failure" } else { "success" }, "updated_at": at,
        },
        "repository": { "name": service, "full_name": format!("example/{service}") },
    });
    ("deployment_status", body)
}

/// Returns a call to AWS: most only read.
fn call(number: i64, at: Timestamp) -> Value {
    let changing = nth(&CALLS, number, 9);
    let (name, service, person) = changing
        .copied()
        .unwrap_or(("DescribeInstances", "ec2", "ada"));
    json!({
        "eventVersion": "1.08", "eventID": format!("demo-{number}"), "eventTime": at,
        "readOnly": changing.is_none(), "eventName": name,
        "eventSource": format!("{service}.amazonaws.com"), "awsRegion": "eu-west-1",
        "recipientAccountId": "123456789012", "userAgent": "console.amazonaws.com",
        "userIdentity": {
            "type": "IAMUser", "userName": format!("{person}@example.com"),
            "accountId": "123456789012",
        },
    })
}

/// Returns the next of some values at every `every`th number.
fn nth<T>(values: &'static [T], number: i64, every: i64) -> Option<&'static T> {
    let index = usize::try_from(number / every).unwrap_or_default();
    (number % every == 0).then(|| &values[index % values.len()])
}
