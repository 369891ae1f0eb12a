//! Full-text search on titles: the same results on both databases.

use serde_json::json;

use changelog_tests::{TestApp, TestClient, each, on_both};

on_both!(
    each_word_matches_the_start_of_a_title_word,
    punctuation_is_not_query_syntax,
    a_changed_title_is_found_by_its_new_words,
    only_titles_are_searched,
);

const TITLES: [&str; 12] = [
    "Deploy API v2.3",
    "deploy payments-api to prod",
    "Überlauf in der Straße behoben",
    "uberlauf strasse",
    "Rollback: database migration 0042",
    "don't panic (100% \"safe\")",
    "数据库 升级 to 15",
    "İstanbul and ΣΟΦΟΣ",
    "OR NOT AND NEAR",
    "café CAFE\u{301} olé",
    "🚀 launch_pad * 9",
    "a-b.c:d/e",
];

async fn search(key: &TestClient, q: &str) -> (u64, Vec<String>) {
    let query: String = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("q", q)
        .finish();
    let body = key.body(&format!("/api/changes?{query}")).await;
    let titles = each(&body["data"], "title");
    let titles = titles
        .iter()
        .map(|title| changelog_tests::text(title))
        .collect();
    (body["count"].as_u64().expect("a count"), titles)
}

#[track_caller]
fn assert_found(q: &str, (count, titles): (u64, Vec<String>), expected: &[usize]) {
    let expected: Vec<&str> = expected.iter().rev().map(|index| TITLES[*index]).collect();
    assert_eq!(titles, expected, "q={q}");
    assert_eq!(count, expected.len() as u64, "q={q}");
}

const ALL: [usize; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

async fn each_word_matches_the_start_of_a_title_word(app: TestApp) {
    let key = app.key();
    for title in TITLES {
        key.change(title).await;
    }
    for (q, expected) in [
        ("deploy", &[0, 1][..]),
        ("DEPLOY", &[0, 1]),
        ("dep", &[0, 1]),
        ("eploy", &[]),
        ("deploy api", &[0, 1]),
        ("api deploy", &[0, 1]),
        ("pay dep", &[1]),
        ("payments-api", &[1]),
        ("deploy deploy", &[0, 1]),
        ("deploys", &[]),
        ("v2", &[0]),
        ("2", &[]),
        ("3", &[0]),
        ("v2.3", &[0]),
        ("überlauf", &[2, 3]),
        ("UBERLAUF", &[2, 3]),
        ("u\u{308}berl", &[2, 3]),
        ("straße", &[2, 3]),
        ("STRASSE", &[2, 3]),
        ("behoben über", &[2]),
        ("0042", &[4]),
        ("42", &[]),
        ("don", &[5]),
        ("t", &[1, 5, 6]),
        ("100", &[5]),
        ("数据", &[6]),
        ("数据库 15", &[6]),
        ("据库", &[]),
        ("istanbul", &[7]),
        ("σοφος", &[7]),
        ("or", &[8]),
        ("or not", &[8]),
        ("deploy OR rollback", &[]),
        ("deploy NOT payments", &[]),
        ("cafe", &[9]),
        ("CAFÉ olé", &[9]),
        ("launch", &[10]),
        ("pad", &[10]),
        ("launch_pad", &[10]),
        ("a b c d e", &[11]),
        ("e d c b a", &[11]),
        ("nothing", &[]),
        ("deploy nothing", &[]),
        // A query without a word selects everything.
        ("", &ALL),
        ("   ", &ALL),
        ("🚀", &ALL),
        ("%", &ALL),
    ] {
        assert_found(q, search(&key, q).await, expected);
    }
}

async fn punctuation_is_not_query_syntax(app: TestApp) {
    let key = app.key();
    for title in TITLES {
        key.change(title).await;
    }
    for (q, expected) in [
        ("%_'\"*)", &ALL[..]),
        ("'", &ALL),
        ("\"", &ALL),
        ("\"deploy", &[0, 1]),
        ("deploy\"", &[0, 1]),
        ("\"api deploy\"", &[0, 1]),
        ("dep*", &[0, 1]),
        ("*", &ALL),
        ("d%y", &[]),
        ("dep%", &[0, 1]),
        ("_eploy", &[]),
        ("-deploy", &[0, 1]),
        ("deploy -api", &[0, 1]),
        ("NEAR(", &[8]),
        ("NEAR(deploy api, 2)", &[]),
        ("title:deploy", &[]),
        (":", &ALL),
        ("deploy:", &[0, 1]),
        ("deploy:*", &[0, 1]),
        ("^deploy", &[0, 1]),
        ("^", &ALL),
        ("deploy & api", &[0, 1]),
        ("deploy | rollback", &[]),
        ("!deploy", &[0, 1]),
        ("deploy <-> api", &[0, 1]),
        ("(deploy", &[0, 1]),
        ("deploy)", &[0, 1]),
        ("{deploy}", &[0, 1]),
        ("deploy + api", &[0, 1]),
        ("\\", &ALL),
        ("deploy\\", &[0, 1]),
        ("'; DROP TABLE changes; --", &[]),
        ("\u{0}", &ALL),
        ("dep\u{0}", &[0, 1]),
        ("AND", &[7, 8]),
        ("and or not", &[8]),
    ] {
        assert_found(q, search(&key, q).await, expected);
    }
    // A very long word, and many words.
    assert_found("long", search(&key, &"x".repeat(3000)).await, &[]);
    assert_found("many", search(&key, &"deploy ".repeat(300)).await, &[0, 1]);
    // Invalid UTF-8 is never a server error.
    let answer = key.get("/api/changes?q=%ff%fe").await;
    assert!(matches!(answer.status, 200 | 400), "{}", answer.status);
}

async fn a_changed_title_is_found_by_its_new_words(app: TestApp) {
    let key = app.key();
    let id = key.change("Deploy api").await;
    key.change("Deploy web").await;
    let path = format!("/api/changes/{id}");
    key.update(&path, json!({ "title": "Rückbau der API" }))
        .await;
    assert_eq!(
        search(&key, "deploy").await,
        (1, vec!["Deploy web".to_owned()])
    );
    assert_eq!(
        search(&key, "ruck api").await,
        (1, vec!["Rückbau der API".to_owned()])
    );
}

async fn only_titles_are_searched(app: TestApp) {
    let key = app.key();
    let body = json!({ "title": "plain", "description": "hidden", "impact": "hidden", "tags": ["hidden"] });
    key.create("/api/changes", body).await;
    assert_eq!(search(&key, "hidden").await, (0, vec![]));
    assert_eq!(search(&key, "plain").await.0, 1);
}
