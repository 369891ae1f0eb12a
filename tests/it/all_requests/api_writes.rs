//! Requests to the API that write.

use serde_json::{Value, json};
use uuid::Uuid;

use super::fixture::Fixture;

/// A request that writes: method, path, body, and the status of the answer.
type Write = (&'static str, String, Value, u16);

impl Fixture {
    /// Returns the requests that write. Each round writes other values.
    pub(super) fn writes(&self, round: usize) -> Vec<Write> {
        let mut writes = self.new_changes();
        writes.extend(self.patches(round));
        let unknown = Uuid::now_v7();
        for (path, id, name) in [
            ("hosts", &self.host, "hostname"),
            ("services", &self.service, "name"),
        ] {
            let all = format!("/api/{path}");
            let one = format!("/api/{path}/{id}");
            let taken = json!({ name: format!("taken-{round}") });
            let renamed = json!({ name: format!("renamed-{round}") });
            let described = json!({ "description": format!("described {round}") });
            writes.extend([
                ("POST", all.clone(), taken.clone(), 201),
                ("POST", all, taken.clone(), 409),
                ("PATCH", one.clone(), renamed, 200),
                ("PATCH", one.clone(), described.clone(), 200),
                ("PATCH", one, taken, 409),
                ("PATCH", format!("/api/{path}/{unknown}"), described, 404),
            ]);
        }
        writes.extend(self.dependencies(round));
        writes.extend(self.incidents(round));
        writes
    }

    /// Returns the requests that open, update and resolve incidents.
    fn incidents(&self, round: usize) -> Vec<Write> {
        let all = "/api/incidents".to_owned();
        let one = format!("/api/incidents/{}", self.incident);
        let cause = format!("{one}/cause");
        let new = json!({ "title": "Down", "service_name": "none" });
        let status = ["resolved", "open"][round % 2];
        vec![
            (
                "POST",
                all.clone(),
                json!({ "title": "Down", "service_id": self.service }),
                201,
            ),
            ("POST", all, new, 422),
            ("PATCH", one.clone(), json!({ "status": status }), 200),
            (
                "PATCH",
                one,
                json!({ "service_id": self.other_service }),
                200,
            ),
            (
                "PUT",
                cause.clone(),
                json!({ "change_id": self.change }),
                200,
            ),
            (
                "PUT",
                cause,
                json!({ "change_id": null, "none_of_these": true }),
                200,
            ),
        ]
    }

    /// Returns the requests that write which services a service depends on.
    fn dependencies(&self, round: usize) -> Vec<Write> {
        let all = "/api/services".to_owned();
        let one = format!("/api/services/{}", self.service);
        let needs = |ids: &[&str]| json!({ "depends_on": ids });
        let mut new = needs(&[&self.service]);
        new["name"] = json!(format!("depends-{round}"));
        let unknown = Uuid::now_v7().to_string();
        vec![
            ("POST", all, new, 201),
            ("PATCH", one.clone(), needs(&[&self.other_service]), 200),
            ("PATCH", one.clone(), needs(&[&unknown]), 422),
            ("PATCH", one, needs(&[]), 200),
        ]
    }

    fn new_changes(&self) -> Vec<Write> {
        let plain = json!({ "title": "Nothing but a title" });
        let full = json!({
            "title": format!("Everything {} {}", self.word, self.other_word),
            "description": "all of it",
            "impact": "none",
            "service_id": self.service,
            "host_id": self.host,
            "risk_level": "high",
            "status": "in_progress",
            "environment": "prod",
            "on_behalf_of": "ada@example.com",
            "agent": { "name": "deployer", "mode": "autonomous", "run": "42" },
            "commit": "1a2b3c4d",
            "committed_at": "2026-01-01T00:00:00Z",
            "tags": [self.tag, self.other_tag],
            "links": [{ "label": "runbook", "url": "https://example.com/" }],
            "scheduled_for": "2030-01-01T00:00:00Z",
            "occurred_at": self.since,
        });
        let unknown_reference =
            |field: &str| json!({ "title": "Unknown reference", field: Uuid::now_v7() });
        let several = json!({
            "title": "Several services", "service_ids": [self.service, self.other_service],
        });
        let moved = json!({
            "title": "Started before it was recorded", "status": "completed",
            "occurred_at": "2026-01-02T00:00:00Z", "started_at": "2026-01-01T00:00:00Z",
        });
        let all = "/api/changes".to_owned();
        let bulk = json!({ "changes": [plain, full] });
        vec![
            ("POST", all.clone(), plain, 201),
            ("POST", all.clone(), full, 201),
            ("POST", all.clone(), several, 201),
            ("POST", all.clone(), moved, 201),
            ("POST", all.clone(), unknown_reference("service_id"), 422),
            ("POST", all, unknown_reference("host_id"), 422),
            ("POST", "/api/changes/bulk".to_owned(), bulk, 201),
        ]
    }

    /// Returns updates of every field of a change.
    fn patches(&self, round: usize) -> Vec<Write> {
        let unknown = Uuid::now_v7();
        let (risk, status) = match round % 2 {
            0 => ("medium", "completed"),
            _ => ("high", "planned"),
        };
        let text = format!("new in round {round}");
        let links = json!([{ "label": text, "url": "https://example.com/" }]);
        let moment = format!("2031-01-01T00:00:{round:02}Z");
        let path = format!("/api/changes/{}", self.change);
        let mut writes: Vec<Write> = [
            (json!({ "title": text }), 200),
            (json!({ "description": text }), 200),
            (json!({ "impact": text }), 200),
            (json!({ "risk_level": risk }), 200),
            (json!({ "status": status }), 200),
            (json!({ "status": "rolled_back", "reason": text }), 200),
            // The same reason, and another one.
            (json!({ "reason": text }), 200),
            (json!({ "reason": format!("{text} again") }), 200),
            (
                json!({ "started_at": moment.replace("2031", "2021"), "ended_at": null }),
                200,
            ),
            (json!({ "status": "planned" }), 200),
            (json!({ "environment": "staging" }), 200),
            (
                json!({ "service_ids": [self.other_service, self.service] }),
                200,
            ),
            (json!({ "service_id": null }), 200),
            (json!({ "service_id": self.service }), 200),
            (json!({ "host_id": null }), 200),
            (json!({ "host_id": self.host }), 200),
            (json!({ "tags": [self.tag, text] }), 200),
            (json!({ "links": links }), 200),
            (json!({ "scheduled_for": moment }), 200),
            // The same value.
            (json!({ "service_id": self.service }), 200),
            (json!({ "service_id": unknown }), 422),
            (json!({ "host_id": unknown }), 422),
        ]
        .into_iter()
        .map(|(patch, status)| ("PATCH", path.clone(), patch, status))
        .collect();
        let path = format!("/api/changes/{unknown}");
        writes.push(("PATCH", path, json!({ "impact": text }), 404));
        writes
    }
}
