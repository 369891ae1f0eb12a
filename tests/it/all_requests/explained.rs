//! Reads the statements and their plans from PostgreSQL's log (`auto_explain`, with the
//! rows of each step).

use std::collections::BTreeMap;

use super::sql::shorten_and_count;

/// The limit on rows that one step of a request reads. The index entries of a week of a
/// million changes a year are 25,180, the days of an author by risk, status and
/// environment 21,960.
const MAX_ROWS: f64 = 30_000.0;

/// Tables with hardly a row. The SQLite test requires that their rows are found by an
/// index; PostgreSQL does not use one for a single page.
const SMALL: [&str; 2] = ["pending_activity", "setup_token"];

/// A statement with the plan by which it was run.
#[derive(Debug)]
pub(super) struct Explained {
    /// Its offset in the log.
    pub(super) at: usize,
    /// What the log's prefix says before the level: the process, and the transaction
    /// if `log_line_prefix` has it.
    pub(super) session: String,
    /// The statement, without repeated rows of values.
    pub(super) statement: String,
    /// How many rows of values it has.
    pub(super) value_rows: u32,
    /// How many elements the longest array among its values has.
    pub(super) longest_array: u32,
    /// The values, such as `$1 = '7', $2 = NULL`, if `log_statement` writes them.
    pub(super) parameters: String,
    pub(super) plan: String,
}

/// A step of a plan.
#[derive(Debug, Default)]
struct Step {
    /// Such as `Seq Scan on changes c`.
    name: String,
    /// The estimated number of rows.
    expected: f64,
    /// The number of runs.
    runs: f64,
    /// The rows that it returned and removed, in all runs.
    seen: f64,
    is_filtered: bool,
    /// Its parents, from the root to the nearest.
    parents: Vec<String>,
}

/// Reads the statements of the server from the log of the database.
pub(super) fn read(log: &str) -> Vec<Explained> {
    let mut all = Vec::new();
    let mut parameters = BTreeMap::new();
    let mut lines = log.split_inclusive('\n').peekable();
    let mut at = 0;
    while let Some(line) = lines.next() {
        let start = at;
        at += line.len();
        let mut text = String::new();
        // Continuation lines start with a tab.
        while let Some(more) = lines.next_if(|next| next.starts_with('\t')) {
            at += more.len();
            text.push_str(&more[1..]);
        }
        // Before the plan of a statement its values are written.
        if let Some((session, values)) = line.split_once(" DETAIL:  parameters: ") {
            parameters.insert(session, values.trim_end());
        }
        let is_ours = line.starts_with("changelog-server[") && line.ends_with("  plan:\n");
        if !is_ours {
            continue;
        }
        let cost = text.find("  (cost=").expect("a plan has costs");
        let end = text[..cost].rfind('\n').map_or(0, |end| end + 1);
        let (statement, plan) = text.split_at(end);
        let (statement, values) = statement
            .split_once("\nQuery Parameters: ")
            .unwrap_or((statement, ""));
        let (session, _) = line.split_once(" LOG: ").unwrap_or_default();
        let statement = statement.trim_start_matches("Query Text: ");
        let (statement, value_rows) = shorten_and_count(statement.trim());
        all.push(Explained {
            at: start,
            session: session.to_owned(),
            statement,
            value_rows,
            longest_array: longest_array(values),
            parameters: parameters.remove(session).unwrap_or_default().to_owned(),
            plan: plan.to_owned(),
        });
    }
    all
}

/// Returns how many elements the longest array has, as in `$1 = '7', $2 = '{1,2,3}'`.
fn longest_array(values: &str) -> u32 {
    let arrays = values.split("'{").skip(1);
    let elements = arrays.map(|rest| {
        let (array, _) = rest.split_once("}'").unwrap_or((rest, ""));
        1 + array.matches(',').count()
    });
    u32::try_from(elements.max().unwrap_or_default()).unwrap_or(u32::MAX)
}

impl Explained {
    /// Returns whether the plan is generic: for any values.
    pub(super) fn is_generic(&self) -> bool {
        let mut conditions = self.plan.lines().filter(|line| {
            let (name, _) = line.split_once(": ").unwrap_or_default();
            name.ends_with("Cond") || name.ends_with("Filter")
        });
        conditions.any(|line| line.contains('$'))
    }

    /// Returns the steps that scan a table; with `counts_words`, the request counts the
    /// matches of a very common word.
    pub(super) fn problems(&self, counts_words: bool) -> Vec<String> {
        let scans = |step: &Step| step.scans() && !(counts_words && step.counts_words());
        let steps = self.steps();
        let walking = steps.iter().filter(|step| scans(step));
        walking.map(|step| step.name.clone()).collect()
    }

    /// Returns how many rows and pages it has read: the rows of all steps, with those that
    /// they removed, and the pages in memory or not (`auto_explain.log_buffers`).
    pub(super) fn cost(&self) -> f64 {
        let rows: f64 = self.steps().iter().map(|step| step.seen).sum();
        // The first step includes the others.
        let pages = self
            .plan
            .lines()
            .find(|line| line.contains("Buffers: shared"));
        let pages = pages.unwrap_or_default();
        rows + after(pages, " hit=") + after(pages, " read=")
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        let mut open: Vec<(usize, String)> = Vec::new();
        for line in self.plan.lines() {
            let Some((name, numbers)) = line.split_once("  (cost=") else {
                if let Some(step) = steps.last_mut() {
                    step.is_filtered |= line.trim_start().starts_with("Filter: ");
                    if let Some((_, removed)) = line.split_once("Rows Removed by ") {
                        step.seen += after(removed, ": ") * step.runs;
                    }
                }
                continue;
            };
            let name = name.trim_end();
            let indent = name.len() - name.trim_start().len();
            let name = name.trim_start().trim_start_matches("->  ").to_owned();
            open.retain(|(outer, _)| *outer < indent);
            let runs = after(numbers, " loops=");
            steps.push(Step {
                expected: after(numbers, " rows="),
                runs,
                seen: after(numbers, "(actual rows=") * runs,
                is_filtered: false,
                parents: open.iter().map(|(_, name)| name.clone()).collect(),
                name: name.clone(),
            });
            open.push((indent, name));
        }
        steps
    }
}

impl Step {
    /// Returns whether it reads a whole table, or more rows than the limit.
    fn scans(&self) -> bool {
        let is = |kind: &str| self.name.starts_with(kind);
        let is_first_rows = self.parents.last().is_some_and(|parent| parent == "Limit");
        if let Some((_, table)) = self.name.split_once("Seq Scan on ") {
            if SMALL.contains(&table) {
                return false;
            }
            // Any few rows.
            return self.is_filtered || !is_first_rows;
        }
        let is_whole = is("Sort") || is("Bitmap Heap Scan");
        let reads = is_whole || is("Incremental Sort") || self.name.contains("Scan ");
        reads && self.seen > MAX_ROWS || is_whole && self.expected > MAX_ROWS
    }

    /// Returns whether it counts matches in the search index. There are no stored counts
    /// of words, so counting half a million matches reads as many rows; reading the page
    /// does not.
    fn counts_words(&self) -> bool {
        let is_search = self.name.contains(" on change_search");
        let parent = |kinds: &[&str]| {
            let mut parents = self.parents.iter().rev();
            parents.position(|parent| kinds.iter().any(|kind| parent.contains(kind)))
        };
        let counted = parent(&["Aggregate"]);
        let paged = parent(&["Limit"]);
        is_search && counted.is_some() && paged.is_none_or(|paged| counted < Some(paged))
    }
}

/// Reads the number after some text.
fn after(text: &str, before: &str) -> f64 {
    let (_, rest) = text.split_once(before).unwrap_or_default();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
    rest[..end.unwrap_or(rest.len())]
        .parse()
        .unwrap_or_default()
}

#[test]
fn scans_are_found() {
    let plan = |lines: &[&str]| {
        let begin = [
            "Query Text: SELECT 1",
            "  FROM a",
            "Query Parameters: $1 = '1', $2 = '{1,2,3}'",
        ];
        let text = [&begin, lines].concat().join("\n\t");
        let log = format!("a[1] LOG:  no\nchangelog-server[2] LOG:  a  plan:\n\t{text}\n");
        let mut read = read(&log);
        assert_eq!(read[0].statement, "SELECT 1\n  FROM a");
        assert_eq!(read[0].longest_array, 3);
        read.remove(0)
    };
    let scan = "Seq Scan on a  (cost=0.00..1.00 rows=1 width=8) (actual rows=1 loops=1)";
    assert_eq!(plan(&[scan]).problems(true), ["Seq Scan on a"]);
    let small = scan.replace(" a ", " setup_token ");
    assert!(plan(&[&small]).problems(true).is_empty());
    let limit = "Limit  (cost=0.00..1.00 rows=1 width=8) (actual rows=1 loops=1)";
    let within = format!("  ->  {scan}");
    assert!(plan(&[limit, &within]).problems(false).is_empty());
    let filter = "        Filter: (b = 1)";
    assert_eq!(
        plan(&[limit, &within, filter]).problems(false),
        ["Seq Scan on a"]
    );

    let index =
        "  ->  Index Scan using b on a  (cost=0.42..8.44 rows=1 width=8) (actual rows=25 loops=9)";
    let removed = |rows: u32| format!("        Rows Removed by Filter: {rows}");
    assert!(
        plan(&[limit, index, &removed(2_000)])
            .problems(false)
            .is_empty()
    );
    let generic = plan(&[
        limit,
        index,
        "        Index Cond: (b = $1)",
        &removed(3_500),
    ]);
    assert_eq!(generic.problems(false), ["Index Scan using b on a"]);
    assert!(generic.is_generic() && !plan(&[limit, index]).is_generic());

    let sort = "  ->  Sort  (cost=0.42..8.44 rows=30001 width=8) (never executed)";
    assert_eq!(plan(&[limit, sort]).problems(true), ["Sort"]);

    let words = "        ->  Bitmap Index Scan on change_search_by_words  \
        (cost=0.00..5.00 rows=9 width=0) (actual rows=500000 loops=1)";
    let count = "  ->  Aggregate  (cost=0.00..1.00 rows=1 width=8) (actual rows=1 loops=1)";
    assert!(plan(&[limit, count, words]).problems(true).is_empty());
    assert_eq!(plan(&[limit, count, words]).problems(false).len(), 1);
    let page = "     ->  Limit  (cost=0.00..1.00 rows=1 width=8) (actual rows=1 loops=1)";
    assert_eq!(plan(&[count, page, words]).problems(true).len(), 1);
}
