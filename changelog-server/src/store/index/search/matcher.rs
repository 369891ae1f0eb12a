//! Comparing one change with a filter, with the same result as the index.

use std::borrow::Cow;

use changelog_core::{ChangeFilter, HostId, RiskLevel, ServiceId, Status};
use serde::Deserialize;

use super::facets::{Facets, for_each_term, host, risk, service, status, tag};

/// The terms of one change, to compare it without the index.
#[derive(Clone, Debug)]
pub struct IndexTerms(Vec<String>);

/// The fields of a change's JSON that it is indexed by.
#[derive(Deserialize)]
struct IndexedFields<'c> {
    #[serde(borrow)]
    title: Cow<'c, str>,
    risk_level: RiskLevel,
    status: Status,
    service: Option<Reference<ServiceId>>,
    host_ref: Option<Reference<HostId>>,
    tags: Vec<String>,
}

#[derive(Deserialize)]
struct Reference<I> {
    id: I,
}

impl IndexTerms {
    /// Reads the terms of a change from its JSON.
    ///
    /// # Errors
    /// Fails if the JSON is not that of a change.
    pub(in crate::store) fn from_json(json: &str) -> Result<Self, serde_json::Error> {
        let fields: IndexedFields<'_> = serde_json::from_str(json)?;
        let facets = Facets {
            risk_level: &fields.risk_level,
            status: &fields.status,
            service_id: fields.service.map(|service| service.id),
            host_id: fields.host_ref.map(|host| host.id),
            tags: &fields.tags,
        };
        let mut terms = Vec::new();
        for_each_term(&fields.title, &facets, |term| terms.push(term.to_owned()));
        Ok(Self(terms))
    }
}

/// The part of a filter that the search index answers: everything except time and
/// position. Lists look it up in the index; streams compare a change with it.
#[derive(Clone, Debug)]
pub struct ChangeMatcher {
    /// The title has a word with each of these prefixes.
    pub(super) words: Vec<String>,
    /// The change has all of these facets.
    pub(super) facets: Vec<String>,
}

impl ChangeMatcher {
    /// Creates the matcher of a filter.
    pub fn new(filter: &ChangeFilter) -> Self {
        let facets = (filter.risk_level.as_ref().map(risk).into_iter())
            .chain(filter.status.as_ref().map(status))
            .chain(filter.service_id.map(service))
            .chain(filter.host_id.map(host))
            .chain(filter.tags.iter().map(|name| tag(name)))
            .collect();
        Self {
            words: filter.words(),
            facets,
        }
    }

    /// Returns whether the filter names no word.
    pub(in crate::store) fn is_without_words(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns whether the filter selects a change.
    pub fn matches(&self, IndexTerms(terms): &IndexTerms) -> bool {
        // A word cannot be the prefix of a facet, which begins with a colon.
        let has_word = |word: &String| terms.iter().any(|term| term.starts_with(word));
        self.words.iter().all(has_word) && self.facets.iter().all(|facet| terms.contains(facet))
    }
}

#[cfg(test)]
mod tests {
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
            "host_ref": { "id": host, "hostname": "web-1", "environment": null },
        });
        let terms = IndexTerms::from_json(&change.to_string()).unwrap();
        let without = json!({
            "title": "other",
            "risk_level": "low",
            "status": "planned",
            "tags": [],
            "service": null,
            "host_ref": null,
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
        ] {
            let filter = ChangeFilter::from_stream_query(&query).unwrap();
            let matcher = ChangeMatcher::new(&filter);
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
