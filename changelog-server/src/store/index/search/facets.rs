//! Terms: what a change is indexed under. The words of its title consist of
//! letters and digits only, and facets (its risk, status, service, host and tags)
//! begin with a colon, so that nothing in a term is syntax to a database.

use changelog_core::text::words;
use changelog_core::{HostId, RiskLevel, ServiceId, Status};
use sha2::{Digest, Sha256};

use crate::store::Tenant;

/// The fields of a change that filters compare, except its title and its time.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Facets<'c> {
    pub(in crate::store) risk_level: &'c RiskLevel,
    pub(in crate::store) status: &'c Status,
    pub(in crate::store) service_id: Option<ServiceId>,
    pub(in crate::store) host_id: Option<HostId>,
    pub(in crate::store) tags: &'c [String],
}

/// Returns the terms of a change, each prefixed with its organization, separated
/// by spaces.
pub(in crate::store) fn indexed_text(tenant: Tenant, title: &str, facets: &Facets<'_>) -> String {
    let prefix = prefix(tenant);
    let mut text = String::new();
    for_each_term(title, facets, |term| {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&prefix);
        text.push_str(term);
    });
    text
}

/// Calls `add` with each term of a change.
pub(super) fn for_each_term(title: &str, facets: &Facets<'_>, mut add: impl FnMut(&str)) {
    for word in words(title) {
        add(&word);
    }
    add(&risk(facets.risk_level));
    add(&status(facets.status));
    if let Some(id) = facets.service_id {
        add(&service(id));
    }
    if let Some(id) = facets.host_id {
        add(&host(id));
    }
    for name in facets.tags {
        add(&tag(name));
    }
}

/// Returns the term of a risk level.
pub(super) fn risk(risk: &RiskLevel) -> String {
    format!(":r{risk}")
}

/// Returns the term of a status, without the underscore, at which SQLite would
/// split it.
pub(super) fn status(status: &Status) -> String {
    format!(":s{}", status.as_str().replace('_', ""))
}

/// Returns the term of a service.
pub(super) fn service(id: ServiceId) -> String {
    format!(":v{}", id.0.simple())
}

/// Returns the term of a host.
pub(super) fn host(id: HostId) -> String {
    format!(":h{}", id.0.simple())
}

/// Returns the term of a tag: a hash, because a tag can contain any character.
pub(super) fn tag(name: &str) -> String {
    format!(":t{}", hex::encode(&Sha256::digest(name)[..16]))
}

/// Returns the prefix of an organization's terms: the random half of its id.
pub(super) fn prefix(tenant: Tenant) -> String {
    let (_, random) = tenant.uuid().as_u64_pair();
    format!("{random:016x}")
}
