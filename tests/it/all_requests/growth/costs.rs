//! What statements cost: on SQLite the steps of its virtual machine, which the service
//! logs; on PostgreSQL the rows that the steps of its plan read and the pages
//! (`auto_explain`).

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::explained::Explained;
use super::super::sql::shorten_and_count;

/// The filter of the service's log that makes it log costs.
pub(super) const LOG_FILTER: &str = "info,changelog_store::engine::statement_costs=debug";

/// The end of statements that read changes by a list of keys, which is one value on PostgreSQL.
/// Gets that arrive together share such a statement, also those of the same change.
const BY_KEYS: &str = " AND c.sort_key = ANY(";

/// What a run of each statement cost at most, for each row of values that it has, and the plan
/// of that run on PostgreSQL.
#[derive(Debug, Default)]
pub(super) struct Costs(pub(super) BTreeMap<String, (f64, String)>);

impl Costs {
    /// Reads what a process logged with [`LOG_FILTER`] as JSON.
    pub(super) fn add_sqlite(&mut self, log: &str) {
        for line in log.lines() {
            let line: Value = serde_json::from_str(line).unwrap_or_default();
            let fields = &line["fields"];
            if let (Some(statement), Some(steps), Some(runs)) = (
                fields["statement"].as_str(),
                fields["steps"].as_f64(),
                fields["runs"].as_f64(),
            ) {
                let (statement, rows) = shorten_and_count(statement);
                self.add(&statement, rows, steps / runs, "");
            }
        }
    }

    /// Reads plans of PostgreSQL.
    pub(super) fn add_postgres(&mut self, explained: &[Explained]) {
        for one in explained {
            let rows = if one.statement.contains(BY_KEYS) {
                one.longest_array
            } else {
                one.value_rows
            };
            self.add(&one.statement, rows, one.cost(), &one.plan);
        }
    }

    fn add(&mut self, statement: &str, rows: u32, cost: f64, plan: &str) {
        let (statement, pages) = ungroup(statement);
        let (statement, listed) = generalize(statement);
        let (known, of_known) = self.0.entry(statement).or_default();
        let cost = cost / f64::from(rows.max(listed).max(pages));
        if cost > *known {
            *known = cost;
            plan.clone_into(of_known);
        }
    }
}

/// Returns the first page of the pages that a statement reads together on PostgreSQL, and how
/// many it reads. Whether requests share a statement depends on when they arrive.
fn ungroup(statement: &str) -> (&str, u32) {
    let page = statement.strip_prefix("SELECT count, json FROM (SELECT 0 AS number, page.* FROM (");
    let Some((page, further)) = page.and_then(|rest| rest.split_once(") AS page (count, json)"))
    else {
        return (statement, 1);
    };
    let further = further.matches(") AS page (count, json)").count();
    (page, u32::try_from(further + 1).unwrap_or(u32::MAX))
}

#[test]
fn pages_of_one_statement_are_counted() {
    let one = "SELECT CAST(0 AS BIGINT) + 1, (SELECT 2)";
    assert_eq!(ungroup(one), (one, 1));
    let two = format!(
        "SELECT count, json FROM (SELECT 0 AS number, page.* FROM ({one}) AS page (count, json) \
         UNION ALL SELECT 1 AS number, page.* FROM ({one}) AS page (count, json)) AS pages \
         ORDER BY number"
    );
    assert_eq!(ungroup(&two), (one, 2));
}

/// Returns a statement in one line, in which `?` is each parameter, list of parameters and
/// number of a limit; and how many parameters the longest list has.
fn generalize(statement: &str) -> (String, u32) {
    let mut words = Vec::new();
    for word in statement.split_whitespace() {
        let is_limit = words.last() == Some(&"LIMIT") && word.parse::<u32>().is_ok();
        words.push(if is_limit { "?" } else { word });
    }
    let text = words.join(" ");
    let mut parts = text.split('$');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push('?');
        text.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    let (mut general, mut longest) = (String::new(), 1);
    let mut rest = text.as_str();
    while let Some((before, list)) = rest.split_once(" IN (") {
        let (parameters, after) = list.split_once(')').unwrap_or((list, ""));
        general.extend([before, " IN ("]);
        if parameters.contains(|c: char| !"?, ".contains(c)) {
            rest = list;
            continue;
        }
        general.push_str("?)");
        longest = longest.max(1 + parameters.matches(',').count());
        rest = after;
    }
    (general + rest, u32::try_from(longest).unwrap_or(u32::MAX))
}

#[test]
fn statements_are_generalized() {
    assert_eq!(
        generalize("SELECT a\n FROM b WHERE c IN (?, ?, ?) AND d IN (SELECT e FROM f) LIMIT 25"),
        (
            "SELECT a FROM b WHERE c IN (?) AND d IN (SELECT e FROM f) LIMIT ?".to_owned(),
            3
        )
    );
    assert_eq!(
        generalize("a IN ($1) LIMIT $2"),
        ("a IN (?) LIMIT ?".to_owned(), 1)
    );
}
