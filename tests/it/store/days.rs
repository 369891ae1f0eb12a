//! Counts by day in time zones, against a model.

use changelog_core::{RiskLevel, Status, Timestamp};
use changelog_server::store::{ChartScope, KindCounts, Store, Tenant};
use chrono::{Days, NaiveDate, NaiveTime, TimeZone};
use chrono_tz::Tz;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::open;
use changelog_tests::{TestApp, on_both};

on_both!(process: days_of_each_zone_have_their_changes);

/// Clocks go back on 26 October in Berlin and on 2 November in Los Angeles.
const FIRST_DAY: &str = "2025-10-20";
const DAYS: u64 = 18;
const CHANGES: usize = 400;
const ZONES: [Tz; 5] = [
    Tz::UTC,
    Tz::Europe__Berlin,
    Tz::America__Los_Angeles,
    Tz::Asia__Kathmandu,
    Tz::Pacific__Kiritimati,
];

/// A recorded change, as far as it is counted.
struct Recorded {
    millis: i64,
    risk_level: RiskLevel,
    status: Status,
    /// The first service is that of the change, others are its further services.
    services: Vec<usize>,
    host: Option<usize>,
}

impl Recorded {
    /// Draws a change; most are near a midnight of one of the zones.
    fn draw(random: &mut StdRng) -> Self {
        let day = first_day() + Days::new(random.random_range(0..=DAYS));
        let zone = ZONES[random.random_range(0..ZONES.len())];
        let near = start_of_day(zone, day).millis() + random.random_range(-2..=2);
        let anywhere = near + random.random_range(0..86_400_000);
        let first = random.random_range(0..3);
        Self {
            millis: if random.random_bool(0.7) {
                near
            } else {
                anywhere
            },
            risk_level: RiskLevel::ALL[random.random_range(0..RiskLevel::ALL.len())].clone(),
            status: Status::ALL[random.random_range(0..Status::ALL.len())].clone(),
            services: match first {
                0 => Vec::new(),
                1 => vec![0],
                _ => vec![1, 0],
            },
            host: random.random_bool(0.5).then_some(0),
        }
    }

    fn json(&self, services: &[String], host: &str) -> Value {
        let services = self.services.iter().map(|service| &services[*service]);
        json!({
            "title": "counted",
            "occurred_at": Timestamp::from_millis(self.millis).to_string(),
            "risk_level": self.risk_level.as_str(),
            "status": self.status.as_str(),
            "service_ids": services.collect::<Vec<_>>(),
            "host_id": self.host.map(|_| host),
        })
    }
}

fn first_day() -> NaiveDate {
    FIRST_DAY.parse().expect("a date")
}

fn start_of_day(zone: Tz, day: NaiveDate) -> Timestamp {
    let midnight = zone.from_local_datetime(&day.and_time(NaiveTime::MIN));
    midnight
        .earliest()
        .expect("no zone skips a midnight here")
        .to_utc()
        .into()
}

/// Returns the counts of the model.
fn expected(
    changes: &[Recorded],
    starts: &[Timestamp],
    is_counted: impl Fn(&Recorded) -> bool,
) -> Vec<KindCounts> {
    let days = starts.windows(2).map(|day| {
        let mut counts = KindCounts::default();
        let within = day[0].millis()..day[1].millis();
        for change in changes {
            if within.contains(&change.millis) && is_counted(change) {
                counts.add(&change.risk_level, &change.status, 1);
            }
        }
        counts
    });
    days.collect()
}

async fn assert_counted(
    store: &Store,
    tenant: Tenant,
    changes: &[Recorded],
    services: &[String],
    host: &str,
) {
    let service = |number: usize| ChartScope::Service(services[number].parse().expect("an id"));
    for zone in ZONES {
        let days = (0..=DAYS).map(|day| start_of_day(zone, first_day() + Days::new(day)));
        let starts: Vec<Timestamp> = days.collect();
        for (scope, model) in [
            (
                ChartScope::Organization,
                expected(changes, &starts, |_| true),
            ),
            (
                service(0),
                expected(changes, &starts, |one| one.services.contains(&0)),
            ),
            (
                service(1),
                expected(changes, &starts, |one| one.services.contains(&1)),
            ),
            (
                ChartScope::Host(host.parse().expect("an id")),
                expected(changes, &starts, |one| one.host.is_some()),
            ),
        ] {
            // The second time, the parts of days are remembered.
            for _ in 0..2 {
                let counts = store.counts_between(tenant, scope, &starts).await;
                let counts = counts.expect("the store responds");
                assert_eq!(counts, model, "{scope:?} in {zone}");
            }
        }
    }
}

async fn days_of_each_zone_have_their_changes(app: TestApp) {
    let key = app.key();
    let mut services = Vec::new();
    for name in ["payments", "ledger"] {
        services.push(key.service(name).await);
    }
    let host = key.host("web-1").await;
    let mut random = StdRng::seed_from_u64(15);
    let mut changes: Vec<Recorded> = (0..CHANGES).map(|_| Recorded::draw(&mut random)).collect();
    let body: Vec<Value> = changes
        .iter()
        .map(|one| one.json(&services, &host))
        .collect();
    key.create_changes(body).await;
    let (store, tenant) = open(&app).await;
    assert_counted(&store, tenant, &changes, &services, &host).await;
    // What is recorded later is counted, although the parts of its day were remembered.
    let more: Vec<Recorded> = (0..20).map(|_| Recorded::draw(&mut random)).collect();
    for one in more {
        key.create("/api/changes", one.json(&services, &host)).await;
        changes.push(one);
    }
    assert_counted(&store, tenant, &changes, &services, &host).await;
    assert_eq!(
        store
            .counts_between(tenant, ChartScope::Organization, &[])
            .await
            .ok(),
        Some(Vec::new())
    );
    store.close().await;
}
