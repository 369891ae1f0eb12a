//! The services and hosts of the demo, and who changes them.

use std::collections::HashMap;

use changelog_client::Client;
use changelog_core::{Environment, Platform, ServiceId};

use crate::commands::Failure;

/// A service: name, color, the services that it depends on, and how often it changes
/// relative to others.
pub(super) struct DemoService {
    pub(super) name: &'static str,
    color: &'static str,
    depends_on: &'static [&'static str],
    pub(super) weight: u32,
}

/// A service may depend on earlier ones only.
pub(super) const SERVICES: [DemoService; 12] = [
    service("accounts", "#0891b2", &[], 7),
    service("ledger", "#7c3aed", &[], 4),
    service("search", "#6366f1", &[], 8),
    service("fraud", "#be123c", &["ledger"], 3),
    service("payments", "#16a34a", &["ledger", "fraud", "accounts"], 12),
    service("catalog", "#d97706", &["search"], 10),
    service("recommendations", "#c026d3", &["catalog"], 6),
    service(
        "checkout",
        "#2563eb",
        &["payments", "catalog", "accounts"],
        11,
    ),
    service("billing", "#db2777", &["ledger", "payments"], 5),
    service("notifications", "#65a30d", &["accounts"], 5),
    service(
        "edge-gateway",
        "#475569",
        &["checkout", "catalog", "search"],
        6,
    ),
    service("warehouse", "#92400e", &["ledger", "catalog"], 4),
];

const fn service(
    name: &'static str,
    color: &'static str,
    depends_on: &'static [&'static str],
    weight: u32,
) -> DemoService {
    DemoService {
        name,
        color,
        depends_on,
        weight,
    }
}

/// A host: name, system, platform and environment.
type DemoHost = (&'static str, &'static str, Platform, Environment);

pub(super) const HOSTS: [DemoHost; 12] = [
    ("prod-web-1", "Debian 13", Platform::Aws, Environment::Prod),
    ("prod-web-2", "Debian 13", Platform::Aws, Environment::Prod),
    ("prod-db-1", "Debian 13", Platform::Aws, Environment::Prod),
    ("prod-db-2", "Debian 13", Platform::Aws, Environment::Prod),
    ("prod-k8s-1", "Talos 1.11", Platform::Aws, Environment::Prod),
    ("prod-k8s-2", "Talos 1.11", Platform::Aws, Environment::Prod),
    (
        "prod-kafka-1",
        "Debian 13",
        Platform::Gcp,
        Environment::Prod,
    ),
    (
        "prod-kafka-2",
        "Debian 13",
        Platform::Gcp,
        Environment::Prod,
    ),
    ("edge-1", "Alpine 3.22", Platform::OnPrem, Environment::Prod),
    (
        "staging-k8s-1",
        "Talos 1.11",
        Platform::Aws,
        Environment::Staging,
    ),
    (
        "staging-db-1",
        "Debian 13",
        Platform::Aws,
        Environment::Staging,
    ),
    (
        "build-1",
        "Ubuntu 24.04",
        Platform::OnPrem,
        Environment::Dev,
    ),
];

/// Who records a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    People,
    Pipeline,
    Terraform,
}

/// Creates the services and hosts.
pub(super) async fn create(client: &Client) -> Result<(), Failure> {
    let mut ids: HashMap<&str, ServiceId> = HashMap::new();
    for service in SERVICES {
        let needed = service.depends_on.iter();
        let needed: Vec<_> = needed.filter_map(|name| ids.get(name).copied()).collect();
        let create = client.services().create(service.name);
        let created = create
            .color(service.color)
            .depends_on(needed)
            .send()
            .await?;
        ids.insert(service.name, created.id);
    }
    for (name, os, platform, environment) in HOSTS {
        let create = client.hosts().create(name);
        create
            .fqdn(format!("{name}.example.com"))
            .os(os)
            .platform(platform)
            .environment(environment)
            .send()
            .await?;
    }
    Ok(())
}
