//! A source of a service, and what its sender sends.

use std::time::{Duration, Instant};

use reqwest::RequestBuilder;
use ring::hmac;
use serde_json::Value;

use crate::{TestApp, TestResponse, send, text};

/// How long requests may take to be read.
const READ_TIMEOUT: Duration = Duration::from_mins(2);

/// A source.
pub struct TestSource<'a> {
    app: &'a TestApp,
    /// The id.
    pub id: String,
    /// The path that the sender posts to.
    pub path: String,
    secret: Option<String>,
}

impl TestApp {
    /// Makes a source of a kind, with a secret if one is given.
    pub fn source(&self, kind: &str, name: &str, secret: Option<&str>) -> TestSource<'_> {
        let org = self.organization.id.as_str();
        let create = [
            "source", "create", "--org", org, "--kind", kind, "--name", name,
        ];
        let signed = ["--secret-file", "-"];
        let options = ["--create-missing"];
        let made = match secret {
            None => self.admin(&[&create[..], &options].concat()),
            Some(secret) => self.admin_with(&[&create[..], &options, &signed].concat(), secret),
        };
        TestSource {
            app: self,
            id: text(&made["id"]),
            path: text(&made["path"]),
            secret: secret.map(str::to_owned),
        }
    }

    /// Returns a source that was made otherwise.
    pub fn source_at(&self, id: &str, path: &str, secret: Option<&str>) -> TestSource<'_> {
        TestSource {
            app: self,
            id: id.to_owned(),
            path: path.to_owned(),
            secret: secret.map(str::to_owned),
        }
    }
}

impl TestSource<'_> {
    /// Sends a body as GitHub does, signed with the secret if there is one.
    pub async fn send_github(&self, event: &str, delivery: &str, body: &Value) -> TestResponse {
        send(self.github_request(event, delivery, body.to_string())).await
    }

    /// Returns a request as GitHub sends it, signed with the secret if there is one.
    pub fn github_request(&self, event: &str, delivery: &str, body: String) -> RequestBuilder {
        let mut request = self.app.anonymous().request("POST", &self.path);
        if let Some(secret) = &self.secret {
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
            let tag = hmac::sign(&key, body.as_bytes());
            let digits: Vec<String> = tag
                .as_ref()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            request = request.header("x-hub-signature-256", format!("sha256={}", digits.concat()));
        }
        request
            .header("x-github-event", event)
            .header("x-github-delivery", delivery)
            .header("content-type", "application/json")
            .body(body)
    }

    /// Sends a body as JSON.
    pub async fn send(&self, body: &Value) -> TestResponse {
        self.app.anonymous().post(&self.path, body.clone()).await
    }

    /// Waits until all requests are read, and returns what became of them, newest first.
    pub async fn events(&self) -> Vec<Value> {
        let started = Instant::now();
        loop {
            let events = self
                .app
                .admin(&["source", "events", &self.id, "--limit", "1000"]);
            let events = events.as_array().expect("a list").clone();
            if events.iter().all(|event| event["outcome"] != "pending") {
                return events;
            }
            assert!(started.elapsed() < READ_TIMEOUT, "{events:?}");
            // The command takes time from the service that reads.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until all requests are read, and returns their outcomes, oldest first.
    pub async fn outcomes(&self) -> Vec<String> {
        let events = self.events().await;
        events
            .iter()
            .rev()
            .map(|event| text(&event["outcome"]))
            .collect()
    }
}
