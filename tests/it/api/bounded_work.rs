//! Small input that could cause much work: the work and the response are bounded.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use changelog_tests::{TestApp, on_both, send};

on_both!(
    elements_of_a_too_long_list_are_not_validated,
    at_most_100_violations_are_reported_and_the_rest_counted,
    a_search_has_at_most_16_words,
    large_requests_do_not_delay_others,
    a_form_has_at_most_100_fields,
);

/// Repeats an element, separated by commas.
fn many(element: &str, count: usize) -> String {
    vec![element; count].join(",")
}

async fn elements_of_a_too_long_list_are_not_validated(app: TestApp) {
    let key = app.key();
    for (path, body, pointer) in [
        (
            "/api/changes",
            format!("{{\"title\":\"abc\",\"tags\":[{}]}}", many("1", 131_000)),
            "/tags",
        ),
        (
            "/api/changes",
            format!("{{\"title\":\"abc\",\"links\":[{}]}}", many("{}", 80_000)),
            "/links",
        ),
        (
            "/api/changes/bulk",
            format!("{{\"changes\":[{}]}}", many("{}", 80_000)),
            "/changes",
        ),
        (
            "/api/hosts",
            format!(
                "{{\"hostname\":\"abc\",\"roles\":[{}]}}",
                many("\"\"", 80_000)
            ),
            "/roles",
        ),
    ] {
        let answer = key.post_bytes(path, body).await;
        answer.violates(&[(pointer, "too_many")]);
        assert!(answer.text.len() < 1_000, "{}", answer.text.len());
    }
    // A form has the same limit.
    let owner = app.browser().await;
    let tags = many("\u{1}", 40_000);
    let fields = [("title", "abc"), ("tags", tags.as_str())];
    let answer = owner.post_form("/changes", &fields).await;
    answer.is(422);
    assert!(answer.text.contains("id=\"tags-error-1\""));
    assert!(!answer.text.contains("id=\"tags-error-2\""));
    // The form still has the input.
    assert!(
        answer.text.len() < tags.len() + 50_000,
        "{}",
        answer.text.len()
    );
    // Blanks and quotation marks once took quadratic time.
    let tags = format!("{}a{}", " ".repeat(60_000), "\"".repeat(50_000));
    let begun = Instant::now();
    let fields = [("title", "abc"), ("tags", tags.as_str())];
    owner.post_form("/changes", &fields).await.is(422);
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
}

async fn at_most_100_violations_are_reported_and_the_rest_counted(app: TestApp) {
    let key = app.key();
    let reported = |problem: &Value| {
        let errors = problem["errors"].as_array().map_or(0, Vec::len);
        (errors, problem["more_errors"].as_u64())
    };
    // Changes without a title.
    for (count, expected) in [
        (99, (99, None)),
        (100, (100, None)),
        (101, (100, Some(1))),
        (500, (100, Some(400))),
    ] {
        let body = json!({ "changes": vec![json!({}); count] });
        let answer = key.post("/api/changes/bulk", body).await;
        let problem = answer.problem(422, "validation_failed");
        assert_eq!(reported(&problem), expected);
        let detail = problem["detail"].as_str().expect("a string");
        let more = expected.1.map(|more| format!("; and {more} more"));
        assert!(more.is_none_or(|more| detail.ends_with(&more)), "{detail}");
    }
    let unknown: Vec<String> = (0..20_000).map(|n| format!("\"f{n}\":0")).collect();
    let body = format!("{{\"title\":\"abc\",{}}}", unknown.join(","));
    let answer = key.post_bytes("/api/changes", body).await;
    let problem = answer.problem(422, "validation_failed");
    assert_eq!(reported(&problem), (100, Some(19_900)));
    // Each names the valid fields.
    assert!(answer.text.len() < 80_000, "{}", answer.text.len());
    let unknown: Vec<String> = (0..2_000).map(|n| format!("f{n}=")).collect();
    let path = format!("/api/changes?{}", unknown.join("&"));
    let problem = key.get(&path).await.problem(400, "malformed_query");
    assert_eq!(reported(&problem), (100, Some(1_900)));
}

async fn a_search_has_at_most_16_words(app: TestApp) {
    let key = app.key();
    let owner = app.browser().await;
    key.change("w1 w2 w3 w4 w5 w6 w7 w8 w9 wa wb wc wd we wf wg")
        .await;
    let all = "w1+w2+w3+w4+w5+w6+w7+w8+w9+wa+wb+wc+wd+we+wf+wg";
    let found = |answer: Value| answer["count"].as_u64();
    for q in [
        all.to_owned(),
        // Repeated words, another case, and prefixes of other words.
        format!("{all}+W1+w+W"),
        "w1+".repeat(1_000),
    ] {
        let list = key.body(&format!("/api/changes?q={q}")).await;
        assert_eq!(found(list), Some(1), "{q}");
    }
    let more = format!("{all}+wh");
    for path in [
        format!("/api/changes?q={more}"),
        format!("/api/changes/stream?q={more}"),
    ] {
        let answer = key.get(&path).await;
        answer.violates_query(&[("?q", "too_many")]);
    }
    let page = owner.get(&format!("/changes?q={more}")).await;
    page.is(400);
    assert!(page.text.contains("at most 16 different words"));
    owner.get(&format!("/changes?q={all}")).await.is(200);
}

async fn large_requests_do_not_delay_others(app: TestApp) {
    let key = app.key();
    let tags = format!("{{\"title\":\"abc\",\"tags\":[{}]}}", many("1", 131_000));
    let fields: Vec<String> = (0..25_000).map(|n| format!("\"{n}\":0")).collect();
    let fields = format!("{{{}}}", fields.join(","));
    let floods: Vec<_> = (0..4)
        .flat_map(|_| [tags.clone(), fields.clone()])
        .map(|body| {
            let key = key.clone();
            tokio::spawn(async move { key.post_bytes("/api/changes", body).await.is(422) })
        })
        .collect();
    // This took 177 s before the work was bounded.
    let begun = Instant::now();
    app.anonymous().get("/api/health").await.is(200);
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    for flood in floods {
        flood.await.expect("the request is refused");
    }
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
}

async fn a_form_has_at_most_100_fields(app: TestApp) {
    let owner = app.browser().await;
    let post = async |count: usize| {
        let body = "title=abc&".to_owned() + &"x=1&".repeat(count - 1);
        let request = owner.request("POST", "/changes");
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        send(request.body(body)).await
    };
    post(100).await.is(303);
    post(101).await.is(400);
    post(60_000).await.is(400);
    // Each repetition once caused a query.
    let page = owner
        .get(&format!("/changes?{}", "service=x&".repeat(99)))
        .await;
    page.is(400);
    assert!(page.text.contains("Enter one name"));
    owner
        .get(&format!("/changes?{}", "service=x&".repeat(1_000)))
        .await
        .is(400);
}
