//! Records a history over the API, and asks about its incidents.

use changelog_core::Timestamp;
use changelog_tests::{Engine, TestApp, TestClient, each, text};
use serde_json::{Value, json};

use crate::Failure;
use crate::history::{History, Incident};
use crate::questions::{Asked, Window};
use crate::tally::{Outcome, Position, Tally};

/// The number of changes in a request, whose size is limited.
const CHANGES_PER_REQUEST: usize = 250;

/// Replays a history on a new server, and adds the outcomes of all questions.
pub(crate) async fn replay(history: &History, tally: &mut Tally) -> Result<(), Failure> {
    let app = TestApp::new(Engine::Sqlite).await.ok_or("no SQLite")?;
    let key = app.key();
    let services = record_services(&key, history).await;
    let changes = record_changes(&key, history, &services).await?;
    let mut replay = Replay {
        history,
        key,
        services,
        changes,
        tally,
    };
    for asked in [
        Asked::Service,
        Asked::Other,
        Asked::Wrong,
        Asked::Nothing,
        Asked::Symptom,
    ] {
        replay.ask_all(asked).await?;
    }
    replay.record_dependencies().await;
    replay.ask_all(Asked::WrongWithDependencies).await?;
    replay.live().await
}

struct Replay<'h> {
    history: &'h History,
    key: TestClient,
    /// The ids of the services.
    services: Vec<String>,
    /// The ids of the changes.
    changes: Vec<String>,
    tally: &'h mut Tally,
}

async fn record_services(key: &TestClient, history: &History) -> Vec<String> {
    let mut ids = Vec::new();
    for name in &history.services {
        ids.push(key.service(name).await);
    }
    ids
}

async fn record_changes(
    key: &TestClient,
    history: &History,
    services: &[String],
) -> Result<Vec<String>, Failure> {
    let mut ids = Vec::new();
    for chunk in history.changes.chunks(CHANGES_PER_REQUEST) {
        let changes: Vec<Value> = chunk
            .iter()
            .map(|change| {
                let touched = change.services.iter();
                let touched: Vec<&String> = touched.map(|service| &services[*service]).collect();
                json!({
                    "title": change.title,
                    "occurred_at": Timestamp::from_millis(change.at),
                    "status": "completed",
                    "risk_level": "medium",
                    "service_ids": touched,
                    "environment": change.environment,
                })
            })
            .collect();
        let body = json!({ "changes": changes });
        let created = key.post("/api/changes/bulk", body).await.data(201);
        ids.extend(each(&created, "id").into_iter().map(text));
    }
    if ids.len() == history.changes.len() {
        Ok(ids)
    } else {
        Err(format!("{} changes were recorded", ids.len()).into())
    }
}

impl Replay<'_> {
    /// Records what each service depends on.
    async fn record_dependencies(&self) {
        for (number, id) in self.services.iter().enumerate() {
            let all = self.history.dependencies.iter();
            let of_service = all.filter(|(service, _)| *service == number);
            let others: Vec<&String> = of_service
                .map(|(_, other)| &self.services[*other])
                .collect();
            if !others.is_empty() {
                let path = format!("/api/services/{id}");
                let answer = self.key.patch(&path, json!({ "depends_on": others })).await;
                answer.is(200);
            }
        }
    }

    /// Asks about all incidents.
    async fn ask_all(&mut self, asked: Asked) -> Result<(), Failure> {
        for incident in &self.history.incidents {
            self.ask(asked, incident).await?;
        }
        Ok(())
    }

    /// Asks about all incidents as they happen: what had been undone by then is marked.
    async fn live(&mut self) -> Result<(), Failure> {
        let changes = self.history.changes.iter().enumerate();
        let mut undone: Vec<(i64, usize)> = changes
            .filter_map(|(number, change)| Some((change.undone_at?, number)))
            .collect();
        undone.sort_unstable();
        let mut undone = undone.into_iter().peekable();
        for incident in &self.history.incidents {
            while let Some((at, number)) = undone.next_if(|(at, _)| *at <= incident.at) {
                let path = format!("/api/changes/{}", self.changes[number]);
                let body = json!({
                    "status": "rolled_back",
                    "ended_at": Timestamp::from_millis(at),
                });
                self.key.patch(&path, body).await.is(200);
            }
            self.ask(Asked::LiveService, incident).await?;
            self.ask(Asked::LiveNothing, incident).await?;
        }
        Ok(())
    }

    /// Asks about an incident with both windows.
    async fn ask(&mut self, asked: Asked, incident: &Incident) -> Result<(), Failure> {
        if !asked.fits(incident) {
            return Ok(());
        }
        let service = asked.service(incident);
        for window in [Window::Default, Window::Week] {
            let mut query = url::form_urlencoded::Serializer::new(String::new());
            let at = Timestamp::from_millis(incident.at);
            query.append_pair("at", &at.to_string());
            query.append_pair("limit", "10");
            if let Some(service) = service {
                query.append_pair("service_id", &self.services[service]);
            }
            if let Some(symptom) = asked.symptom(incident) {
                query.append_pair("q", symptom);
            }
            if window == Window::Week {
                query.append_pair("window_minutes", "10080");
            }
            let path = format!("/api/changes/around?{}", query.finish());
            let answer = self.key.body(&path).await;
            let since: Timestamp = text(&answer["since"]).parse().map_err(|_| "no time")?;
            let outcome = Outcome {
                ranked: self.position(&answer, incident),
                newest: self.newest(incident, since, None),
                newest_of_service: self.newest(incident, since, service),
            };
            self.tally.add(asked, window, outcome);
        }
        Ok(())
    }

    /// Returns the position of a cause in an answer.
    fn position(&self, answer: &Value, incident: &Incident) -> Position {
        let changes = each(&answer["data"], "change");
        let is_culprit = |change: &&Value| {
            let mut culprits = incident.culprits.iter();
            culprits.any(|number| change["id"] == *self.changes[*number])
        };
        changes.iter().position(is_culprit)
    }

    /// Returns the position of a cause among the changes since a time, newest first; if a
    /// service is named, those of that service come before all others.
    fn newest(&self, incident: &Incident, since: Timestamp, service: Option<usize>) -> Position {
        let changes = &self.history.changes;
        let is_of_service = |number: &usize| {
            let first = changes[*number].services.first();
            service.is_some() && first.copied() == service
        };
        let until = self.history.until(incident.at);
        let window = (0..until)
            .rev()
            .take_while(|number| changes[*number].at >= since.millis());
        let (first, others): (Vec<usize>, Vec<usize>) = window.partition(is_of_service);
        let mut order = first.into_iter().chain(others);
        order.position(|number| incident.culprits.contains(&number))
    }
}
