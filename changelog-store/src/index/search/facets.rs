//! Terms: what a change is indexed under. The words of its title consist of
//! letters and digits only, and facets (its risk, status, service, host and tags)
//! begin with a colon, so that nothing in a term is syntax to a database.

use std::collections::BTreeSet;

use changelog_core::text::words;
use changelog_core::{Environment, HostId, MadeBy, RiskLevel, ServiceId, Status};
use sha2::{Digest, Sha256};
use sqlx::types::Uuid;

use crate::Tenant;

/// The fields of a change that filters compare, except its title and its time.
#[derive(Clone, Debug)]
pub(crate) struct Facets<'c> {
    pub(crate) risk_level: &'c RiskLevel,
    pub(crate) status: &'c Status,
    pub(crate) environment: Option<&'c Environment>,
    pub(crate) services: &'c [ServiceId],
    pub(crate) host_id: Option<HostId>,
    pub(crate) tags: &'c [String],
    /// The API key or the person that recorded the change.
    pub(crate) author: Option<Uuid>,
    /// The name of the source that told of the change.
    pub(crate) source: Option<&'c str>,
    /// The name of the automation that made the change.
    pub(crate) agent: Option<&'c str>,
    pub(crate) made_by: &'static [MadeBy],
}

/// Returns the terms of a change, each prefixed with its organization, separated
/// by spaces.
pub(crate) fn indexed_text(tenant: Tenant, title: &str, facets: &Facets<'_>) -> String {
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
    let words_of_title = words(title);
    for word in &words_of_title {
        add(word);
    }
    add(&risk(facets.risk_level));
    add(&status(facets.status));
    if let Some(name) = facets.environment {
        add(&environment(name));
    }
    for id in facets.services {
        add(&service(*id));
    }
    if let Some(id) = facets.host_id {
        add(&host(id));
    }
    for name in facets.tags {
        add(&tag(name));
    }
    if let Some(id) = facets.author {
        add(&author(id));
    }
    if let Some(name) = facets.source {
        add(&source(name));
    }
    if let Some(name) = facets.agent {
        add(&agent(name));
    }
    for by in facets.made_by {
        add(&made_by(by));
    }
    let words_of_tags: BTreeSet<String> = facets.tags.iter().flat_map(|tag| words(tag)).collect();
    for word in words_of_tags {
        // A word of the title is found without this.
        if !words_of_title.contains(&word) {
            add(&tag_word(&word));
        }
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

/// Returns the terms that a change has instead of one of these, if they are fewer: each
/// change has one status and one risk level.
pub(super) fn fewer_others(facets: &[String]) -> Option<Vec<String>> {
    let others = |all: Vec<String>| {
        let is_one_kind = facets.iter().all(|facet| all.contains(facet));
        let others: Vec<String> = all
            .into_iter()
            .filter(|other| !facets.contains(other))
            .collect();
        (is_one_kind && others.len() < facets.len()).then_some(others)
    };
    others(Status::ALL.iter().map(status).collect())
        .or_else(|| others(RiskLevel::ALL.iter().map(risk).collect()))
}

/// Returns the term of an environment.
pub(super) fn environment(environment: &Environment) -> String {
    format!(":e{environment}")
}

/// Returns the term of an API key or a person that recorded changes.
pub(super) fn author(id: Uuid) -> String {
    format!(":c{}", id.simple())
}

/// Returns the term of the name of a source, whose ASCII case is ignored.
pub(super) fn source(name: &str) -> String {
    format!(":o{}", hashed(&name.to_ascii_lowercase()))
}

/// Returns the term of the name of an automation, whose ASCII case is ignored.
pub(super) fn agent(name: &str) -> String {
    format!(":a{}", hashed(&name.to_ascii_lowercase()))
}

/// Returns the term of what makes changes.
pub(super) fn made_by(by: &MadeBy) -> String {
    format!(":y{by}")
}

/// Returns the term of a word of a tag.
pub(super) fn tag_word(word: &str) -> String {
    format!(":w{word}")
}

/// Returns the term of a service.
pub(super) fn service(id: ServiceId) -> String {
    format!(":v{}", id.0.simple())
}

/// Returns the term of a host.
pub(super) fn host(id: HostId) -> String {
    format!(":h{}", id.0.simple())
}

/// Returns the term of a tag.
pub(super) fn tag(name: &str) -> String {
    format!(":t{}", hashed(name))
}

/// Returns a hash of a name, because a name can contain any character.
fn hashed(name: &str) -> String {
    hex::encode(&Sha256::digest(name)[..16])
}

/// Returns the prefix of an organization's terms: the random half of its id.
pub(super) fn prefix(tenant: Tenant) -> String {
    let (_, random) = tenant.uuid().as_u64_pair();
    format!("{random:016x}")
}
