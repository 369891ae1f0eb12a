//! Compares the words by which services and hosts are found with their names, and corrects them.

use std::collections::BTreeSet;

use changelog_core::text::words;
use changelog_core::{Host, Named, Service};
use sqlx::types::Uuid;

use super::{CheckError, Checker, Found};
use crate::Tenant;
use crate::engine::direct::{run_unlimited, unlimited};

/// The names of a kind.
const NAMES: [(&str, &str); 2] = [
    (
        Service::NOUN,
        "SELECT id, name FROM services WHERE organization_id = $1",
    ),
    (
        Host::NOUN,
        "SELECT id, hostname FROM hosts WHERE organization_id = $1",
    ),
];

const SELECT: &str = "SELECT kind, word, id FROM catalog_words WHERE organization_id = $1";

const DELETE: &str = "
DELETE FROM catalog_words
WHERE organization_id = $1 AND kind = $2 AND word = $3 AND id = $4";

const INSERT: &str =
    "INSERT INTO catalog_words (organization_id, kind, word, id) VALUES ($1, $2, $3, $4)";

/// A kind, a word and an id.
type Word = (String, String, Uuid);

impl Checker<'_> {
    /// Compares the words of the names of an organization.
    pub(super) async fn check_words(&mut self, tenant: Tenant) -> Result<(), CheckError> {
        let mut expected: BTreeSet<Word> = BTreeSet::new();
        for (kind, select) in NAMES {
            let names: Vec<(Uuid, String)> = unlimited!(&mut self.db, |db| sqlx::query_as(select)
                .bind(tenant.uuid())
                .fetch_all(&mut *db))?;
            for (id, name) in names {
                let words = words(&name).into_iter();
                expected.extend(words.map(|word| (kind.to_owned(), word, id)));
            }
        }
        let stored: Vec<Word> = unlimited!(&mut self.db, |db| sqlx::query_as(SELECT)
            .bind(tenant.uuid())
            .fetch_all(&mut *db))?;
        let stored = BTreeSet::from_iter(stored);
        let mut found = Found::default();
        for (wrong, problem, statement) in [
            (stored.difference(&expected), "is not in the name", DELETE),
            (expected.difference(&stored), "is missing", INSERT),
        ] {
            for (kind, word, id) in wrong {
                found.add(|| format!("{kind} {id}: the word {word:?} {problem}"));
                if self.repair {
                    run_unlimited!(&mut self.db, |db| sqlx::query(statement)
                        .bind(tenant.uuid())
                        .bind(kind)
                        .bind(word)
                        .bind(id)
                        .execute(&mut *db))?;
                }
            }
        }
        found.is_repaired = self.repair;
        let problem = "words of services and hosts that differ from their names";
        self.report.add("names", problem, found);
        Ok(())
    }
}
