//! Any JSON, by templates of the source in the language of Jinja:
//! <https://docs.rs/minijinja/latest/minijinja/syntax/index.html>.
//!
//! Every request is a change, or every element of a list in it. Without any template the
//! title is looked for where many senders have it, so that a first event can be shown.

use serde_json::Value;

use super::Kind;
use super::template::{Renderer, id_of, read_each, time_in};
use crate::json::{digest_of, first_line, links, parse};
use crate::observation::{Facts, Observation, Progress, Reading, State, Unreadable};
use crate::received::Received;
use crate::settings::{GenericTemplates, Settings};

pub(super) const KIND: Kind = Kind {
    proofs: super::template::PROOFS,
    request_id: id_of,
    ..Kind::new(read)
};

fn read(received: &Received<'_>, settings: &Settings) -> Result<Reading, Unreadable> {
    let body = parse(received.body)?;
    let templates = Templates::new(&settings.generic);
    read_each(&body, &settings.generic.each, |element, index| {
        let state = templates.state(element, index, received)?;
        Ok(state.map(|state| Observation::State(Box::new(state))))
    })
}

struct Templates<'s> {
    of: &'s GenericTemplates,
    renderer: Renderer,
}

impl<'s> Templates<'s> {
    fn new(of: &'s GenericTemplates) -> Self {
        let renderer = Renderer::new();
        Self { of, renderer }
    }

    /// Reads an element; `None` if it is to be ignored.
    fn state(
        &self,
        element: &Value,
        index: usize,
        received: &Received<'_>,
    ) -> Result<Option<State>, Unreadable> {
        let of = self.of;
        let render = |name, template| self.renderer.render(name, template, element);
        if render("ignore", &of.ignore)?.as_deref() == Some("true") {
            return Ok(None);
        }
        let has_templates = *of != GenericTemplates::default();
        let title = self.renderer.title(&of.title, has_templates, element)?;
        let progress = match render("status", &of.status)? {
            Some(status) => progress_of(&status)?,
            None => Progress::Succeeded,
        };
        let at = match render("at", &of.at)? {
            Some(at) => time_in("at", &at)?,
            None => received.at,
        };
        let key = match render("key", &of.key)? {
            Some(key) => key,
            None => format!(
                "{}/{index}",
                id_of(received).unwrap_or_else(|| digest_of(received.body))
            ),
        };
        Ok(Some(State {
            key,
            at,
            progress,
            started_at: None,
            facts: Facts {
                title,
                description: render("description", &of.description)?,
                services: render("service", &of.service)?.into_iter().collect(),
                hostname: render("host", &of.host)?,
                places: render("environment", &of.environment)?
                    .into_iter()
                    .collect(),
                commit: render("commit", &of.commit)?,
                links: links([("link", render("link", &of.link)?)]),
                person: render("person", &of.person)?,
                ..Facts::default()
            },
        }))
    }
}

/// Returns how far a change is, in the words of many senders.
fn progress_of(status: &str) -> Result<Progress, Unreadable> {
    let word = status.trim().to_lowercase().replace([' ', '-'], "_");
    Ok(match word.as_str() {
        "planned" | "scheduled" | "queued" | "waiting" | "pending" | "created" | "requested" => {
            Progress::Planned
        }
        "in_progress" | "inprogress" | "running" | "started" | "start" | "deploying" | "active"
        | "processing" => Progress::Running,
        "completed" | "complete" | "success" | "successful" | "succeeded" | "ok" | "done"
        | "finished" | "passed" | "deployed" | "resolved" | "true" => Progress::Succeeded,
        "failed" | "failure" | "fail" | "error" | "errored" | "canceled" | "cancelled"
        | "aborted" | "timed_out" | "false" => Progress::Failed,
        "rolled_back" | "rolledback" | "rollback" | "undone" | "reverted" => Progress::Undone,
        _ => {
            return Err(Unreadable(format!(
                "status: {} is no known status; write planned, in_progress, completed or failed",
                first_line(status, 50)
            )));
        }
    })
}

#[cfg(test)]
mod tests {
    use changelog_core::SourceKind;
    use serde_json::json;

    use super::*;
    use crate::kinds::testing::{changes_of, reading_of};

    const KIND: SourceKind = SourceKind::Generic;

    fn settings(members: &Value) -> Settings {
        let generic = serde_json::from_value(members.clone()).unwrap();
        Settings {
            generic,
            ..Settings::default()
        }
    }

    #[test]
    fn templates_fill_the_fields() {
        let settings = settings(&json!({
            "each": "/events", "ignore": "{{ kind == 'test' }}", "key": "{{ id }}",
            "title": "Deploy {{ app.name }} {{ app.version }}{{ app.none.at_all }}{{ nothing }}",
            "status": "{{ state }}", "at": "{{ time }}", "service": "{{ app.name }}",
            "environment": "{{ stage }}", "person": "{{ by }}", "link": "{{ url }}",
            "commit": "{{ sha }}", "description": "{{ notes }}", "host": "{{ node }}",
        }));
        let event = |state: &str, time: u64| {
            json!({
                "id": 7, "kind": "deploy", "nothing": null, "app": { "name": "shop", "version": "<2>" },
                "state": state, "time": time, "stage": "prod-eu", "by": "ada",
                "url": "https://ci.example.com/7", "sha": "1a2b3c4d", "token": "hunter2",
                "node": "web-1",
            })
        };
        let body = json!({ "events": [
            event("STARTED", 1_795_168_800), event("Done", 1_795_168_860), { "kind": "test" }, 7,
        ] });
        let request = (vec![], body.to_string());
        let changes = changes_of(&KIND, &settings, &[request.clone(), request]);
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].services, ["shop"]);
        assert_eq!(changes[0].hostname.as_deref(), Some("web-1"));
        assert_eq!(
            Value::Object(changes[0].fields.clone()),
            json!({
                "title": "Deploy shop <2>", "risk_level": "medium", "status": "completed",
                "outcome": "succeeded", "occurred_at": "2026-11-20T10:00:00.000Z",
                "started_at": "2026-11-20T10:00:00.000Z", "ended_at": "2026-11-20T10:01:00.000Z",
                "environment": "prod", "commit": "1a2b3c4d", "on_behalf_of": "ada",
                "tags": ["generic"],
                "links": [{ "label": "link", "url": "https://ci.example.com/7" }],
            })
        );
    }

    #[test]
    fn a_first_event_is_shown_without_templates() {
        let body = json!({ "message": "Deployed the shop\nand more" }).to_string();
        let requests = [(vec![], body.clone()), (vec![], body)];
        let changes = changes_of(&KIND, &Settings::default(), &requests);
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].fields["title"], "Deployed the shop");
    }

    #[test]
    fn words_of_many_senders_are_statuses() {
        for (word, progress) in [
            ("Scheduled", Progress::Planned),
            ("in progress", Progress::Running),
            ("OK", Progress::Succeeded),
            ("error", Progress::Failed),
            ("Rolled back", Progress::Undone),
        ] {
            assert_eq!(progress_of(word), Ok(progress));
        }
    }

    #[test]
    fn what_cannot_be_read_says_which_template_to_change() {
        for (members, body, reason) in [
            (
                json!({}),
                "{}",
                "set the template of the title: there is no title, message, text, summary or name",
            ),
            (
                json!({ "key": "1" }),
                "{}",
                "set the template of the title, which is required",
            ),
            (
                json!({ "title": "{{ a }}" }),
                "{}",
                "title: the template renders to nothing",
            ),
            (
                json!({ "title": "a", "each": "/a" }),
                "{}",
                "each: there is no list at /a",
            ),
            (
                json!({ "title": "a", "at": "soon" }),
                "{}",
                "at: soon is no time",
            ),
            (
                json!({ "title": "{% for a in range(10000) %}{{ a }}{% endfor %}" }),
                "{}",
                "title: ",
            ),
            (
                json!({ "title": "{{ 'a' * 1000000 }}" }),
                "{}",
                "title: engine ran out of fuel",
            ),
            (
                json!({ "title": "{{ (a * 99999999) | length }}" }),
                r#"{"a":"a"}"#,
                "title: engine ran out of fuel",
            ),
            (
                json!({ "title": "{{ ([a] * 99999999) | join }}" }),
                r#"{"a":"a"}"#,
                "title: engine ran out of fuel",
            ),
            (json!({ "title": "{{ a" }), "{}", "title: syntax error"),
            (
                json!({ "title": "{{ a | none }}" }),
                "{}",
                "title: unknown filter",
            ),
            (
                json!({ "title": "a", "status": "blue" }),
                "{}",
                "status: blue is no known status",
            ),
            (
                json!({ "title": "a" }),
                "{",
                "the body is not what this kind of source sends",
            ),
        ] {
            let error = reading_of(&KIND, &settings(&members), &[], body).unwrap_err();
            assert!(error.0.starts_with(reason), "{error}");
        }
    }

    #[test]
    fn the_origin_is_proven_by_a_secret_or_a_signature() {
        use crate::kinds::testing::received;
        use ring::hmac;
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"hunter2");
        let tag = hex::encode(hmac::sign(&key, b"{}").as_ref());
        let verify = |header: &str, value: &str| {
            received(&[(header, value)], "{}", |received| {
                super::super::verify(&KIND, Some("hunter2"), received).is_ok()
            })
        };
        assert!(verify("authorization", "Bearer hunter2"));
        assert!(verify("x-signature-256", &format!("sha256={tag}")));
        assert!(!verify("authorization", "Bearer hunter3"));
        assert!(!verify("other", "hunter2"));
    }
}
