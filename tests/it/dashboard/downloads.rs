//! Lists as files.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use changelog_tests::{TestApp, each, on_one, text};

on_one!(
    downloads_have_each_of_many_changes_once,
    csv_cells_are_not_formulas,
);

async fn downloads_have_each_of_many_changes_once(app: TestApp) {
    let key = app.key();
    let mut wanted = BTreeSet::new();
    for round in 0..5 {
        let changes: Vec<Value> = (0..500)
            .map(|number: u32| {
                let tag = if number.is_multiple_of(2) {
                    "even"
                } else {
                    "odd"
                };
                json!({ "title": format!("Change {round} {number}"), "tags": [tag] })
            })
            .collect();
        let body = json!({ "changes": changes });
        let made = key.post("/api/changes/bulk", body).await.data(201);
        let ids = each(&made, "id").into_iter().map(text);
        wanted.extend(ids.step_by(2));
    }
    let owner = app.browser().await;
    let list = owner.get("/changes?tag=even").await;
    assert!(list.text.contains("1,250 changes"), "{}", list.text.len());
    for ending in ["csv", "ndjson"] {
        let answer = owner.get(&format!("/changes.{ending}?tag=even")).await;
        answer.is(200);
        let found = ids_in(ending, &answer.text);
        assert_eq!(found.len(), 1_250, "{ending}");
        assert!(found.is_sorted_by(|a, b| a > b), "newest first");
        let found: BTreeSet<String> = found.into_iter().collect();
        assert_eq!(found, wanted, "{ending}");
    }
}

async fn csv_cells_are_not_formulas(app: TestApp) {
    let key = app.key();
    let bad = ["=1+1", "+1", "-1", "@SUM(A1)"];
    for start in bad {
        let body = json!({
            "title": format!("{start} as a title"),
            "description": format!("{start},\"\nmore"),
            "impact": start,
            "tags": [format!("{start}tag")],
            "links": [{ "label": format!("{start}label"), "url": "https://example.com/" }],
        });
        key.create("/api/changes", body).await;
    }
    let service = key.service("=cmd").await;
    let host = key.host("@host").await;
    let body = json!({ "title": "Of both", "service_id": service, "host_id": host });
    key.create("/api/changes", body).await;
    let csv = app.browser().await.get("/changes.csv").await.text;
    let rows = rows(&csv);
    assert_eq!(rows.len(), 6);
    for cell in rows.iter().flatten() {
        assert!(
            !cell.starts_with(['=', '+', '-', '@', '\t', '\r']),
            "{cell}"
        );
    }
    for start in bad {
        let title = format!("'{start} as a title");
        let row = rows.iter().find(|row| row.contains(&title));
        let row = row.unwrap_or_else(|| panic!("{title}: {csv}"));
        assert!(row.contains(&format!("'{start},\"\nmore")), "{row:?}");
    }
    assert!(rows[1].contains(&"'=cmd".to_owned()) && rows[1].contains(&"'@host".to_owned()));
}

pub(super) fn json_of(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Reads CSV, RFC 4180.
/// Returns the ids of the changes in a downloaded file, in its order.
pub(super) fn ids_in(ending: &str, file: &str) -> Vec<String> {
    if ending == "csv" {
        let rows = rows(file);
        rows.iter().skip(1).map(|row| row[0].clone()).collect()
    } else {
        let lines = file.lines();
        lines.map(|line| text(&json_of(line)["id"])).collect()
    }
}

pub(super) fn rows(csv: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut characters = csv.chars().peekable();
    let mut is_quoted = false;
    while let Some(character) = characters.next() {
        match character {
            '"' if !is_quoted => is_quoted = true,
            '"' if characters.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' => is_quoted = false,
            ',' if !is_quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !is_quoted => {}
            '\n' if !is_quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            other => cell.push(other),
        }
    }
    assert!(
        row.is_empty() && cell.is_empty() && !is_quoted,
        "the CSV is incomplete"
    );
    rows
}
