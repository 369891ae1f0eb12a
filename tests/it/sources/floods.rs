//! Many requests at once, and a server that is killed while it reads them.

use changelog_tests::{TestApp, on_both, text};
use futures_util::future::join_all;
use serde_json::json;

use super::receiving::{SECRET, deployment};

on_both!(
    process:
    nothing_is_lost_or_done_twice_when_the_server_is_killed,
);

async fn nothing_is_lost_or_done_twice_when_the_server_is_killed(mut app: TestApp) {
    const COUNT: u64 = 300;
    let (id, path) = {
        let source = app.source("github", "Deployments", Some(SECRET));
        (source.id.clone(), source.path.clone())
    };
    for start in (0..COUNT).step_by(20) {
        let source = &app.source_at(&id, &path, Some(SECRET));
        let sent = (start..start + 20).map(|number| async move {
            let body = deployment(number, Some(("success", "2026-01-20T10:04:00Z")));
            let delivery = number.to_string();
            source
                .send_github("deployment_status", &delivery, &body)
                .await
        });
        for answer in join_all(sent).await {
            answer.is(202);
        }
        if start == COUNT / 2 {
            app.restart().await;
        }
    }
    app.restart().await;
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    loop {
        let events = app.admin(&["source", "events", &id, "--limit", "1000"]);
        let events = events.as_array().expect("a list");
        assert_eq!(events.len() as u64, COUNT);
        if events.iter().all(|event| event["outcome"] != "pending") {
            assert!(
                events
                    .iter()
                    .all(|event| text(&event["outcome"]) == "changed"),
                "{events:?}"
            );
            break;
        }
        assert!(std::time::Instant::now() < deadline, "not all were read");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    let list = app.key().get("/api/changes").await.body(200);
    assert_eq!(list["count"], json!(COUNT));
}
