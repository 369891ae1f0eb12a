//! Any JSON, by templates of the source in the language of Jinja:
//! <https://docs.rs/minijinja/latest/minijinja/syntax/index.html>.
//!
//! Every request is a change, or every element of a list in it. Without any template the
//! title is looked for where many senders have it, so that a first event can be shown.

use std::io::{self, Write};

use minijinja::value::{Serde, ValueKind};
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde_json::Value;

use super::Kind;
use crate::json::{digest_of, first_line, links, parse, text, time_of};
use crate::observation::{Facts, Observation, Progress, Reading, State, Unreadable};
use crate::proof::{Hash, Proof};
use crate::received::Received;
use crate::settings::{GenericTemplates, Settings};

pub(super) const KIND: Kind = Kind {
    proofs: &[
        Proof::Secret {
            header: "authorization",
        },
        Proof::Hmac {
            header: "x-signature-256",
            prefix: "sha256=",
            hash: Hash::Sha256,
        },
        Proof::Hmac {
            header: "x-hub-signature-256",
            prefix: "sha256=",
            hash: Hash::Sha256,
        },
    ],
    request_id: id_of,
    ..Kind::new(read)
};

/// Returns what the headers call a request.
fn id_of(received: &Received<'_>) -> Option<String> {
    let names = ["webhook-id", "idempotency-key", "x-request-id"];
    let mut ids = names.iter().filter_map(|name| received.headers.get(name));
    ids.next().map(str::to_owned)
}

/// The work of a template, in instructions. The bytes of strings cost as well, before they are
/// made: 64 of them one instruction, so that a product such as `a * 9999999` is refused.
const FUEL: u64 = 5_000;
/// The bytes that a template may write.
const MAX_BYTES: usize = 64 * 1024;
/// The characters of a title that is looked for.
const MAX_TITLE_CHARS: usize = 200;

fn read(received: &Received<'_>, settings: &Settings) -> Result<Reading, Unreadable> {
    let body = parse(received.body)?;
    let each = settings.generic.each.trim();
    let elements = match body.pointer(each) {
        // The pointer to the whole body is empty: a body that is a list needs no setting.
        Some(Value::Array(elements)) => elements,
        Some(body) if each.is_empty() => std::slice::from_ref(body),
        _ => return Err(Unreadable(format!("each: there is no list at {each}"))),
    };
    let templates = Templates::new(&settings.generic);
    let mut reading = Reading::default();
    for (index, element) in elements.iter().enumerate() {
        match templates.state(element, index, received) {
            Ok(Some(state)) => reading
                .observations
                .push(Observation::State(Box::new(state))),
            Ok(None) => reading.ignore("the template for what is ignored is true"),
            Err(error) if elements.len() == 1 => return Err(error),
            Err(Unreadable(reason)) => reading.ignore(reason),
        }
    }
    if elements.is_empty() {
        reading.ignore("the list is empty");
    }
    Ok(reading)
}

struct Templates<'s> {
    of: &'s GenericTemplates,
    environment: Environment<'static>,
}

impl<'s> Templates<'s> {
    fn new(of: &'s GenericTemplates) -> Self {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Chainable);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        // As in JSON, not as in Python: what is null is nothing.
        environment.set_formatter(|output, state, value| match value.kind() {
            ValueKind::None => Ok(()),
            ValueKind::Bool => Ok(write!(output, "{}", value.is_true())?),
            _ => minijinja::escape_formatter(output, state, value),
        });
        environment.set_fuel(Some(FUEL));
        Self { of, environment }
    }

    /// Reads an element; `None` if it is to be ignored.
    fn state(
        &self,
        element: &Value,
        index: usize,
        received: &Received<'_>,
    ) -> Result<Option<State>, Unreadable> {
        let of = self.of;
        if !element.is_object() {
            return Err(Unreadable("expected a JSON object".to_owned()));
        }
        let render = |name, template| self.render(name, template, element);
        if render("ignore", &of.ignore)?.as_deref() == Some("true") {
            return Ok(None);
        }
        let title = match render("title", &of.title)? {
            Some(title) => title,
            None if *of == GenericTemplates::default() => likely_title(element)?,
            None if of.title.is_empty() => {
                return Err(Unreadable(
                    "set the template of the title, which is required".to_owned(),
                ));
            }
            None => {
                return Err(Unreadable(
                    "title: the template renders to nothing".to_owned(),
                ));
            }
        };
        let progress = match render("status", &of.status)? {
            Some(status) => progress_of(&status)?,
            None => Progress::Succeeded,
        };
        let at = match render("at", &of.at)? {
            Some(at) => time_of(&at)
                .ok_or_else(|| Unreadable(format!("at: {} is no time", first_line(&at, 50))))?,
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

    /// Renders the template of a field; `None` if nothing is left of it.
    fn render(
        &self,
        name: &str,
        template: &str,
        element: &Value,
    ) -> Result<Option<String>, Unreadable> {
        if template.is_empty() {
            return Ok(None);
        }
        let error = |reason: String| Unreadable(format!("{name}: {reason}"));
        let template = self.environment.template_from_str(template);
        let template = template.map_err(|reason| error(reason.to_string()))?;
        let mut text = Text(Vec::new());
        template
            .render_captured_to(Serde(element), &mut text)
            .map_err(|reason| error(reason.to_string()))?;
        let text = String::from_utf8_lossy(&text.0).trim().to_owned();
        Ok(Some(text).filter(|text| !text.is_empty()))
    }
}

/// What a template writes, up to a length.
struct Text(Vec<u8>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_BYTES {
            return Err(io::Error::other("the text is too long"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the title of a source that has no templates yet.
fn likely_title(element: &Value) -> Result<String, Unreadable> {
    let members = ["/title", "/message", "/text", "/summary", "/name"];
    let title = members.iter().find_map(|member| text(element, member));
    let title = title.map(|title| first_line(&title, MAX_TITLE_CHARS));
    title.ok_or_else(|| {
        Unreadable(
            "set the template of the title: there is no title, message, text, summary or name"
                .to_owned(),
        )
    })
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
            "commit": "{{ sha }}", "description": "{{ notes }}",
        }));
        let event = |state: &str, time: u64| {
            json!({
                "id": 7, "kind": "deploy", "nothing": null, "app": { "name": "shop", "version": "<2>" },
                "state": state, "time": time, "stage": "prod-eu", "by": "ada",
                "url": "https://ci.example.com/7", "sha": "1a2b3c4d", "token": "hunter2",
            })
        };
        let body = json!({ "events": [
            event("STARTED", 1_795_168_800), event("Done", 1_795_168_860), { "kind": "test" }, 7,
        ] });
        let request = (vec![], body.to_string());
        let changes = changes_of(&KIND, &settings, &[request.clone(), request]);
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].services, ["shop"]);
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
