//! Parses as much of SQL as is needed to find the conditions on each table.

use std::collections::BTreeSet;
use std::fmt;

/// The conditions of a statement on a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Conditions {
    pub(super) table: String,
    /// The alias of the table in the statement.
    pub(super) alias: String,
    /// The columns that it compares.
    pub(super) columns: BTreeSet<String>,
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        write!(f, "{} of {}", columns.join(", "), self.table)
    }
}

/// Splits a string into statements at semicolons outside of quotes.
pub(super) fn split(text: &str) -> Vec<String> {
    let mut statements = vec![String::new()];
    let mut quote = None;
    for c in text.chars() {
        match quote {
            None if c == ';' => {
                statements.push(String::new());
                continue;
            }
            None if c == '\'' || c == '"' => quote = Some(c),
            Some(open) if open == c => quote = None,
            _ => {}
        }
        if let Some(last) = statements.last_mut() {
            last.push(c);
        }
    }
    let statements = statements.iter().map(|text| text.trim().to_owned());
    statements.filter(|text| !text.is_empty()).collect()
}

/// Returns a statement with only the first row of each list of values.
pub(super) fn shorten(statement: &str) -> String {
    shorten_and_count(statement).0
}

/// Returns a statement with only the first row of each list of values, and how many rows
/// they have. A list of several rows may end with a limit.
pub(super) fn shorten_and_count(statement: &str) -> (String, u32) {
    let mut short = String::new();
    let mut count = 0;
    let mut rest = statement;
    while let Some((before, values)) = rest.split_once("VALUES (") {
        let (first, mut after) = split_row(values);
        short.extend([before, "VALUES (", first, ")"]);
        count += 1;
        while let Some(next) = after.strip_prefix(", (") {
            (_, after) = split_row(next);
            count += 1;
        }
        if let Some(limit) = after.strip_prefix(" LIMIT $") {
            after = limit.trim_start_matches(|c: char| c.is_ascii_digit());
        }
        rest = after;
    }
    (short + rest, count)
}

/// Splits a string, which begins behind an opening parenthesis, at the closing one.
fn split_row(text: &str) -> (&str, &str) {
    let mut open = 1;
    let end = text.find(|c| {
        match c {
            '(' => open += 1,
            ')' => open -= 1,
            _ => {}
        }
        open == 0
    });
    end.map_or((text, ""), |end| (&text[..end], &text[end + 1..]))
}

/// Returns the conditions in WHERE and ON for each table of each select. Conditions in
/// parentheses, such as an OR, are ignored.
pub(super) fn conditions(statement: &str) -> Vec<Conditions> {
    let spaced: String = statement
        .chars()
        .flat_map(|c| match c {
            '(' | ')' | ',' => vec![' ', c, ' '],
            c => vec![c],
        })
        .collect();
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let word = |number: usize| words.get(number).copied().unwrap_or_default();
    let mut all = Vec::new();
    // One per open pair of parentheses: its tables, and whether the parser is within
    // conditions.
    let mut open: Vec<(Vec<Conditions>, bool)> = vec![(Vec::new(), false)];
    for number in 0..words.len() {
        let Some((tables, compares)) = open.last_mut() else {
            panic!("unbalanced parentheses: {statement}");
        };
        match word(number) {
            "(" => open.push((Vec::new(), false)),
            ")" => {
                let (tables, _) = open.pop().unwrap_or_default();
                all.extend(tables);
            }
            "FROM" | "JOIN" | "UPDATE" if is_name(word(number + 1)) => {
                let table = word(number + 1).to_owned();
                let alias = Some(word(number + 2)).filter(|alias| is_name(alias));
                tables.push(Conditions {
                    alias: alias.map_or_else(|| table.clone(), str::to_owned),
                    table,
                    columns: BTreeSet::new(),
                });
                *compares = false;
            }
            "ON" => *compares = word(number + 1) != "CONFLICT",
            "WHERE" => *compares = true,
            "JOIN" | "LEFT" | "ORDER" | "GROUP" | "LIMIT" | "SET" | "RETURNING" => {
                *compares = false;
            }
            name if *compares
                && ["=", "<", ">", "<=", ">=", "IS", "MATCH"].contains(&word(number + 1)) =>
            {
                let (alias, column) = match name.split_once('.') {
                    Some((alias, column)) => (Some(alias), column),
                    None => (None, name),
                };
                let is_it = |table: &&mut Conditions| alias.is_none_or(|it| table.alias == it);
                if let Some(table) = tables.iter_mut().find(is_it) {
                    table.columns.insert(column.to_owned());
                }
            }
            _ => {}
        }
    }
    all.extend(open.into_iter().flat_map(|(tables, _)| tables));
    all.retain(|conditions| !conditions.columns.is_empty());
    all
}

/// Returns whether a word is a name: keywords are in capitals.
fn is_name(word: &str) -> bool {
    let mut characters = word.chars();
    let first = characters.next();
    first.is_some_and(|c| c.is_ascii_lowercase() || c == '_')
}

#[test]
fn statements_are_split_shortened_and_read() {
    assert_eq!(
        split("BEGIN; SELECT ';' || \";\" ;\n"),
        ["BEGIN", "SELECT ';' || \";\""]
    );
    let found = conditions(
        "SELECT (SELECT count(*) FROM a WHERE x = $1 AND (y IS NULL OR y < $2)), c.w FROM \
         (SELECT z FROM b WHERE b.u >= ? ORDER BY z LIMIT 5) AS page \
         JOIN c ON c.w = page.z LEFT JOIN d e ON e.v = c.v WHERE c.t IS NULL",
    );
    let found: Vec<String> = found.iter().map(Conditions::to_string).collect();
    assert_eq!(found, ["x of a", "u of b", "t, w of c", "v of d"]);
    let short = shorten("SELECT a FROM (VALUES (?, ?), (?, ?), (?, ?)) AS b, c");
    assert_eq!(short, "SELECT a FROM (VALUES (?, ?)) AS b, c");
    let statement = "INSERT INTO a VALUES ($1, b(c($2, ' '))), ($3, b(c($4, ' '))) ON";
    let short = "INSERT INTO a VALUES ($1, b(c($2, ' '))) ON";
    assert_eq!(shorten_and_count(statement), (short.to_owned(), 2));
    let limited = statement.replace(" ON", " LIMIT $5 ON");
    assert_eq!(shorten_and_count(&limited), (short.to_owned(), 2));
    let found = conditions("UPDATE a SET b = c WHERE d = $1");
    assert_eq!(
        found.iter().map(Conditions::to_string).collect::<Vec<_>>(),
        ["d of a"]
    );
}
