//! Where the tables are on a database that is distributed by Citus.
//!
//! What an organization records is on the node that has its shard. Accounts, keys and
//! organizations are read before the organization is known; they stay on the
//! coordinator, so that signing in and revoking a key need no other node.

/// The tables of which every row belongs to one organization, in the order in which
/// they are distributed: a table comes after those that its foreign keys refer to.
const OF_ORGANIZATIONS: &[&str] = &[
    "services",
    "service_dependencies",
    "hosts",
    "catalog_words",
    "changes",
    "change_tags",
    "change_services",
    "change_counts",
    "change_hours",
    "change_search",
    "activity",
    "activity_actors",
    "saved_views",
    "events",
    "connections",
    "deliveries",
    "receiver_messages",
    "sources",
    "source_events",
    "source_operations",
    "source_calls",
    "incidents",
    "incident_alerts",
    "joined_changes",
    "rhythms",
    "retentions",
    "idempotency",
];

/// All other tables, in the same order.
const OF_COORDINATOR: &[&str] = &[
    "_sqlx_migrations",
    "organizations",
    "users",
    "memberships",
    "invitations",
    "sessions",
    "sso_providers",
    "sso_identities",
    "sso_used",
    "feeds",
    "subscriptions",
    "notifications",
    "mailboxes",
    "sign_in_failures",
    "known_browsers",
    "erasures",
    "api_keys",
    "workloads",
    "pending_activity",
    "latest_time",
    "setup_token",
];

/// Returns the tables of which every row belongs to one organization; a table comes after those
/// that its foreign keys refer to.
pub(super) fn tables_of_organizations() -> impl Iterator<Item = &'static str> + Clone {
    OF_ORGANIZATIONS.iter().copied()
}

/// Returns all other tables, in the same order.
pub(super) fn other_tables() -> impl Iterator<Item = &'static str> + Clone {
    OF_COORDINATOR.iter().copied()
}

/// Without this, Citus would convert the tables that a reference table has foreign keys
/// with, and could not distribute them any more.
const KEEP_OTHER_TABLES: &str = "SET citus.enable_local_reference_table_foreign_keys TO off";

/// Returns the statements that distribute a migrated database by Citus.
///
/// With `every_node`, the tables of the coordinator become reference tables, of which
/// every node has a copy. Servers can then connect to every node, and each write to one
/// of these tables needs all nodes.
pub fn citus_statements(every_node: bool) -> Vec<String> {
    let copied = OF_COORDINATOR.iter().copied().filter(|_| every_node);
    let copied = copied.map(|table| format!("SELECT create_reference_table('{table}')"));
    // Citus places a shard of each with the shard of the first that has the same rows.
    let colocated = |table| match OF_ORGANIZATIONS[0] {
        first if first == table => "none",
        first => first,
    };
    let distributed = OF_ORGANIZATIONS.iter().copied().map(|table| {
        let with = colocated(table);
        format!("SELECT create_distributed_table('{table}', 'organization_id', colocate_with => '{with}')")
    });
    [KEEP_OTHER_TABLES.to_owned()]
        .into_iter()
        .chain(copied)
        .chain(distributed)
        .collect()
}
