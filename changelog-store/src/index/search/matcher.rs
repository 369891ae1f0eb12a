//! Comparing one change with a filter, with the same result as the index.

use std::borrow::Cow;

use changelog_core::ids::IdPrefix;
use changelog_core::text::words;
use changelog_core::{
    Agent, Author, ChangeFilter, ChangeId, Environment, HostRef, MadeBy, RiskLevel, ServiceId,
    ServiceRef, SourceRef, Status,
};
use serde::Deserialize;
use sqlx::types::Uuid;

use super::facets::{
    Facets, agent, author, environment, for_each_term, host, made_by, risk, service, source,
    status, tag, tag_word,
};

/// The terms of one change, to compare it without the index: those of the index, and
/// what the index does not have because it can change: the words of the names of
/// services and host as terms of [`tag_word`], the author's name, and the id.
#[derive(Clone, Debug)]
pub struct IndexTerms(Vec<String>);

/// The fields of a change's JSON that it is found by.
#[derive(Deserialize)]
struct IndexedFields<'c> {
    id: ChangeId,
    #[serde(borrow)]
    title: Cow<'c, str>,
    risk_level: RiskLevel,
    status: Status,
    service: Option<ServiceRef>,
    service_ids: Vec<ServiceId>,
    #[serde(default)]
    services: Vec<ServiceRef>,
    host_ref: Option<HostRef>,
    environment: Option<Environment>,
    tags: Vec<String>,
    created_by: Option<Author>,
    agent: Option<Agent>,
    on_behalf_of: Option<String>,
    source: Option<SourceRef>,
}

impl IndexTerms {
    /// Reads the terms of a change from its JSON.
    ///
    /// # Errors
    /// Fails if the JSON is not that of a change.
    pub(crate) fn from_json(json: &str) -> Result<Self, serde_json::Error> {
        let fields: IndexedFields<'_> = serde_json::from_str(json)?;
        let facets = Facets {
            risk_level: &fields.risk_level,
            status: &fields.status,
            environment: fields.environment.as_ref(),
            services: &fields.service_ids,
            host_id: fields.host_ref.as_ref().map(|host| host.id),
            tags: &fields.tags,
            author: fields.created_by.as_ref().map(|author| author.id),
            source: fields.source.as_ref().map(|source| source.name.as_str()),
            agent: fields.agent.as_ref().map(|agent| agent.name.as_str()),
            made_by: MadeBy::of(
                &fields.tags,
                fields.agent.as_ref(),
                fields.created_by.as_ref(),
                fields.on_behalf_of.as_deref(),
            ),
        };
        let mut terms = Vec::new();
        for_each_term(&fields.title, &facets, |term| terms.push(term.to_owned()));
        let services = fields.service.iter().chain(&fields.services);
        let names = services
            .map(|service| &service.name)
            .chain(fields.host_ref.as_ref().map(|host| &host.hostname));
        terms.extend(
            names
                .flat_map(|name| words(name))
                .map(|word| tag_word(&word)),
        );
        terms.extend(fields.created_by.map(|author| author_name(&author.name)));
        terms.push(id(&fields.id.0.simple().to_string()));
        Ok(Self(terms))
    }
}

impl IndexTerms {
    /// Returns whether the change has a status.
    pub(crate) fn has_status(&self, wanted: &Status) -> bool {
        self.0.contains(&status(wanted))
    }
}

/// Returns the term of the name of an author, whose ASCII case is ignored.
fn author_name(name: &str) -> String {
    format!(":n{}", name.to_ascii_lowercase())
}

/// Returns the term of the id of a change, or of its beginning.
fn id(digits: &str) -> String {
    format!(":i{digits}")
}

/// The author that a filter names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AuthorFilter {
    Id(Uuid),
    /// The name of an API key or a person.
    Name(String),
}

impl AuthorFilter {
    pub(crate) fn new(given: &str) -> Self {
        Uuid::try_parse(given).map_or_else(|_| Self::Name(given.to_owned()), Self::Id)
    }

    /// Returns the term that a stream compares.
    fn term(&self) -> String {
        match self {
            Self::Id(id) => author(*id),
            Self::Name(name) => author_name(name),
        }
    }
}

/// The part of a filter that the search index answers: everything except time and
/// position. Lists look it up in the index; streams compare a change with it.
#[derive(Clone, Debug)]
pub struct ChangeMatcher {
    /// The title has a word with each of these prefixes.
    pub(super) words: Vec<String>,
    /// The title, a tag, or the name of a service or the host has a word with each of
    /// these prefixes.
    pub(super) text: Vec<String>,
    /// The change has a facet of each of these lists.
    pub(super) facets: Vec<Vec<String>>,
    pub(super) author: Option<AuthorFilter>,
    /// The digits by which `text` may name the change itself.
    pub(crate) id_prefix: Option<String>,
}

impl ChangeMatcher {
    /// Creates the matcher of a filter.
    pub fn new(filter: &ChangeFilter) -> Self {
        let any_of = [
            filter.risk_levels.iter().map(risk).collect(),
            filter.statuses.iter().map(status).collect(),
            filter.environments.iter().map(environment).collect(),
            filter.made_by.iter().map(made_by).collect(),
        ];
        let source = filter.source.as_deref().map(|given| {
            // The id of a source is that of the author of its changes.
            Uuid::try_parse(given).map_or_else(|_| source(given), author)
        });
        let all_of = (filter.service_id.map(service).into_iter())
            .chain(filter.host_id.map(host))
            .chain(source)
            .chain(filter.agent.as_deref().map(agent))
            .chain(filter.tags.iter().map(|name| tag(name)))
            .map(|facet| vec![facet]);
        Self {
            words: filter.words(),
            text: filter.text_words(),
            facets: any_of
                .into_iter()
                .filter(|facets: &Vec<_>| !facets.is_empty())
                .chain(all_of)
                .collect(),
            author: filter.created_by.as_deref().map(AuthorFilter::new),
            id_prefix: filter.text.as_deref().and_then(id_prefix),
        }
    }

    /// Returns whether the filter names no word.
    pub(crate) fn is_without_words(&self) -> bool {
        self.words.is_empty() && self.text.is_empty()
    }

    /// Returns whether the filter selects a change.
    pub fn matches(&self, terms: &IndexTerms) -> bool {
        let IndexTerms(terms) = terms;
        let starts = |with: &str| terms.iter().any(|term| term.starts_with(with));
        // A word cannot be the prefix of a facet, which begins with a colon.
        let in_text = |word: &String| starts(word) || starts(&tag_word(word));
        let is_named = self
            .id_prefix
            .as_ref()
            .is_some_and(|digits| starts(&id(digits)));
        self.words.iter().all(|word| starts(word))
            && (is_named || self.text.iter().all(in_text))
            && self
                .facets
                .iter()
                .all(|any_of| any_of.iter().any(|facet| terms.contains(facet)))
            && self
                .author
                .as_ref()
                .is_none_or(|author| terms.contains(&author.term()))
    }
}

/// Returns the digits of a string that may be the id of a change or its beginning, with
/// hyphens or without.
fn id_prefix(text: &str) -> Option<String> {
    let prefix: IdPrefix = text.parse().ok()?;
    Some(prefix.digits().to_owned())
}

#[cfg(test)]
mod tests {
    use changelog_core::{HostId, StreamFilter};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_filter_selects_by_words_and_facets() {
        let (service, host) = (ServiceId::from(uuid(1)), HostId::from(uuid(2)));
        let change = json!({
            "id": uuid(3),
            "title": "Straße \"deploys\"",
            "description": null,
            "risk_level": "high",
            "status": "in_progress",
            "tags": ["prod", ":rlow"],
            "links": [{ "label": "a", "url": "b" }],
            "service": { "id": service, "name": "payments", "color": "#fff" },
            "service_ids": [service, uuid(5)],
            "services": [
                { "id": service, "name": "payments", "color": "#fff" },
                { "id": uuid(5), "name": "Card Vault", "color": "#fff" },
            ],
            "host_ref": { "id": host, "hostname": "web-1", "environment": null },
            "environment": "staging",
            "created_by": { "type": "api_key", "name": "CI Main", "id": uuid(6) },
        });
        let terms = IndexTerms::from_json(&change.to_string()).unwrap();
        let without = json!({
            "id": uuid(4),
            "title": "other",
            "risk_level": "low",
            "status": "planned",
            "tags": [],
            "service": null,
            "service_ids": [],
            "host_ref": null,
            "environment": null,
            "created_by": null,
        });
        let other_terms = IndexTerms::from_json(&without.to_string()).unwrap();
        for (query, expected) in [
            (String::new(), [true, true]),
            ("q=deploy".to_owned(), [true, false]),
            ("q=STRASS+dep".to_owned(), [true, false]),
            ("q=eploys".to_owned(), [false, false]),
            ("q=rhigh".to_owned(), [false, false]),
            ("risk_level=high".to_owned(), [true, false]),
            ("risk_level=low".to_owned(), [false, true]),
            (
                "status=in_progress&risk_level=high".to_owned(),
                [true, false],
            ),
            ("tag=prod".to_owned(), [true, false]),
            ("tag=prod&tag=pro".to_owned(), [false, false]),
            ("tag=prod&tag=%3Arlow".to_owned(), [true, false]),
            (
                format!("service_id={service}&host_id={host}"),
                [true, false],
            ),
            (format!("service_id={}", uuid(2)), [false, false]),
            (format!("service_id={}", uuid(5)), [true, false]),
            ("risk_level=high,low".to_owned(), [true, true]),
            ("min_risk=medium".to_owned(), [true, false]),
            ("not_status=planned".to_owned(), [true, false]),
            ("environment=staging,prod".to_owned(), [true, false]),
            ("environment=prod".to_owned(), [false, false]),
            ("created_by=ci+main".to_owned(), [true, false]),
            (format!("created_by={}", uuid(6)), [true, false]),
            ("created_by=ci".to_owned(), [false, false]),
            ("text=vault+web+prod+deploy+1".to_owned(), [true, false]),
            ("text=vault+webs".to_owned(), [false, false]),
            ("q=vault".to_owned(), [false, false]),
            (format!("text={}", uuid(3)), [true, false]),
            (format!("text={}", uuid(4).simple()), [false, true]),
            ("text=0000000".to_owned(), [false, false]),
        ] {
            let filter = StreamFilter::from_query(&query).unwrap();
            let matcher = ChangeMatcher::new(&filter.changes);
            let found = [&terms, &other_terms].map(|terms| matcher.matches(terms));
            assert_eq!(found, expected, "{query}");
        }
    }

    #[test]
    fn json_that_is_no_change_is_an_error() {
        assert!(IndexTerms::from_json("{}").is_err());
        assert!(IndexTerms::from_json("").is_err());
    }

    fn uuid(number: u128) -> sqlx::types::Uuid {
        sqlx::types::Uuid::from_u128(number)
    }
}
