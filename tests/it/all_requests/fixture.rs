//! What the requests are about.

use changelog_tests::TestApp;
use serde_json::json;

/// The ids, words and times that the requests use.
pub(super) struct Fixture {
    pub(super) change: String,
    /// The API key or person that recorded the changes.
    pub(super) author: String,
    pub(super) service: String,
    pub(super) other_service: String,
    pub(super) host: String,
    pub(super) incident: String,
    pub(super) tag: String,
    pub(super) other_tag: String,
    pub(super) word: String,
    pub(super) other_word: String,
    /// The prefix of a word.
    pub(super) prefix: String,
    pub(super) since: String,
    pub(super) until: String,
}

impl Fixture {
    /// Creates a change with everything that changes are found by.
    pub(super) async fn create(app: &TestApp) -> Self {
        let key = app.key();
        let service = key.service("payments").await;
        let other_service = key.service("ledger").await;
        let host = key.host("web-1").await;
        busy_hour(app, &[&service, &other_service]).await;
        let body = json!({
            "title": "Deploy with a needle",
            "service_id": service,
            "host_id": host,
            "tags": ["often", "seldom"],
        });
        let incident = json!({ "title": "Down", "service_id": service });
        let incident = key.create("/api/incidents", incident).await;
        Self {
            change: key.create("/api/changes", body).await,
            author: app.organization.key_id.clone(),
            service,
            other_service,
            host,
            incident,
            tag: "often".to_owned(),
            other_tag: "seldom".to_owned(),
            word: "deploy".to_owned(),
            other_word: "needle".to_owned(),
            prefix: "de".to_owned(),
            since: "2026-01-01T00:00:00.500Z".to_owned(),
            until: "2026-02-03T04:05:06.500Z".to_owned(),
        }
    }
}

/// Records more changes within an hour than a timeline draws one by one.
pub(super) async fn busy_hour(app: &TestApp, services: &[&str]) {
    let changes = (0..400).map(|number| {
        json!({
            "title": "One of many", "service_id": services[number % services.len()],
            "status": "completed", "started_at": format!("2026-03-01T10:{:02}:00Z", number % 60),
        })
    });
    app.key().create_changes(changes.collect::<Vec<_>>()).await;
}
