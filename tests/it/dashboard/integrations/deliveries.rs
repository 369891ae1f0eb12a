//! The deliveries of a connection, and the limits of what people cause.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{PATH, connect, webhook};
use crate::dashboard::{between, join};
use changelog_tests::{TestApp, assert_contains, on_both, on_one};

on_both!(deliveries_are_paged_and_replayed);
on_one!(tests_and_public_keys_have_rate_limits);

/// Returns the number of deliveries on a page, and the link to older ones.
fn listed(page: &str) -> (usize, Option<String>) {
    let older = page.split_once("rel=\"next\" href=\"");
    let older = older.map(|(_, rest)| between(rest, "", "\"").replace("&#38;", "&"));
    (page.matches("data-label=\"Last attempt\"").count(), older)
}

async fn deliveries_are_paged_and_replayed(app: TestApp) {
    let owner = app.browser().await;
    let path = connect(&owner, &webhook("Bot")).await;
    let changes: Vec<Value> = (0..55)
        .map(|number| json!({ "title": format!("Deploy {number}"), "status": "completed" }))
        .collect();
    app.key().create_changes(changes).await;
    let deadline = Instant::now() + Duration::from_mins(1);
    let (newest, older) = loop {
        let page = owner.get(&path).await.text;
        if let (50, Some(older)) = listed(&page) {
            break (page, older);
        }
        assert!(Instant::now() < deadline, "{page}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let rest = owner.get(&older).await.text;
    assert_eq!(listed(&rest), (5, None));
    let title = |number: usize| format!(">Deploy {number}<");
    for number in 0..55 {
        let shown = [&newest, &rest].map(|page| page.contains(&title(number)));
        assert!(shown[0] != shown[1], "{number} is on {shown:?}");
    }
    // None has failed for good.
    let failed = format!("{path}?failed=1");
    assert_eq!(listed(&owner.get(&failed).await.text), (0, None));
    owner.submit(&format!("{path}/disable"), &[]).await;
    app.execute("UPDATE deliveries SET state = 'dead', is_claimed = 0")
        .await;
    let page = owner.get(&failed).await.text;
    assert_eq!(listed(&page).0, 50);
    assert_contains(&page, "Replay all failed (55)");
    let older = listed(&page).1.expect("older ones");
    assert_eq!(listed(&owner.get(&older).await.text), (5, None));
    // One, then all.
    let sequence = between(&page, "name=\"sequence\" value=\"", "\"");
    let replay = format!("{path}/replay");
    let answer = owner.post_form(&replay, &[("sequence", sequence)]).await;
    answer.is(303);
    let page = owner.get(answer.header("location")).await.text;
    assert_contains(&page, "Replay all failed (54)");
    owner.submit(&format!("{path}/replay-dead"), &[]).await;
    assert_eq!(listed(&owner.get(&failed).await.text), (0, None));
    let list = owner.get(PATH).await.text;
    assert_contains(&list, "data-label=\"Queued\" class=\"number\">55<");
    for sequence in ["0", "9999999999999"] {
        let answer = owner.post_form(&replay, &[("sequence", sequence)]).await;
        answer.is(409);
        assert_contains(&answer.text, "no longer kept");
    }
    for sequence in ["", "one", "99999999999999999999"] {
        let fields = [("sequence", sequence)];
        owner.post_form(&replay, &fields).await.is(422);
    }
}

async fn tests_and_public_keys_have_rate_limits(app: TestApp) {
    let owner = app.browser().await;
    let mut arguments = vec!["integration", "create", "--org", &app.organization.id];
    arguments.extend([
        "--kind",
        "webhook",
        "--name",
        "Inside",
        "--url",
        "https://10.0.0.1/",
    ]);
    // Allowed for the command, and not for the server.
    arguments.extend(["--allow-receivers", "10.0.0.0/8"]);
    let made = app.admin(&arguments);
    let path = format!("{PATH}/{}", made["id"].as_str().expect("an id"));
    let test = format!("{path}/test");
    let mut answers = Vec::new();
    for _ in 0..24 {
        let answer = owner.post_form(&test, &[]).await;
        if answer.status == 200 {
            let refused = answer.text.contains("private or reserved network");
            assert!(refused, "{}", answer.text);
        }
        answers.push(answer.status);
    }
    assert_eq!(answers[..20], [200; 20]);
    assert!(answers[20..].contains(&429), "{answers:?}");
    // Of one person only.
    let admin = join(&app, &owner, "Alan", "admin").await.browser;
    admin.post_form(&test, &[]).await.is(200);
    let keys = app.anonymous();
    let path = format!(
        "/.well-known/changelog-webhook-keys/{}",
        uuid::Uuid::now_v7()
    );
    let mut limited = None;
    for _ in 0..200 {
        let answer = keys.get(&path).await;
        if answer.status != 404 {
            limited = Some(answer);
            break;
        }
    }
    let limited = limited.expect("a limit");
    limited.is(429);
    assert_ne!(limited.header("retry-after"), "");
    assert_eq!(limited.header("content-type"), "application/problem+json");
}
