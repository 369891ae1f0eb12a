//! CDEvents 0.4 and 0.5, and the deployments of 0.6: <https://cdevents.dev/docs/>. They come
//! in CloudEvents of binary or structured mode, in a batch of those, or bare.
//!
//! A service that is deployed, upgraded, rolled back, published or removed is a change, and
//! so is an environment that is created, modified or deleted. A deployment is one change
//! from its start to its end, as is the run of a pipeline that deploys: one that the source
//! names among its workflows, or if it names none, one whose name says so.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use changelog_core::Timestamp;
use serde_json::Value;

use super::Kind;
use crate::json::{failure, links, parse, phrase, required, text, time};
use crate::observation::{Facts, Progress, Reading, State, Unreadable};
use crate::received::Received;
use crate::settings::Settings;

pub(super) const KIND: Kind = Kind {
    request_id: |received| {
        let event = event(&parse(received.body).ok()?).ok()?;
        let source = text(&event, "/context/source")?;
        let kind = text(&event, "/context/type")?;
        Some(format!("{source} {} {kind}", text(&event, "/context/id")?))
    },
    ..Kind::new(read)
};

fn read(received: &Received<'_>, settings: &Settings) -> Result<Reading, Unreadable> {
    let body = parse(received.body)?;
    let Value::Array(batch) = &body else {
        return read_event(received.at, &event(&body)?, settings);
    };
    let mut reading = Reading::default();
    for one in batch {
        match event(one).and_then(|event| read_event(received.at, &event, settings)) {
            Ok(one) => {
                reading.observations.extend(one.observations);
                one.ignored
                    .into_iter()
                    .for_each(|reason| reading.ignore(reason));
            }
            Err(error) if batch.len() == 1 => return Err(error),
            // The others are not lost by it.
            Err(Unreadable(reason)) => {
                reading.ignore(format!("one of the events cannot be read: {reason}"));
            }
        }
    }
    Ok(reading)
}

/// Returns the event of a body, which in structured mode is the data in the envelope.
fn event(body: &Value) -> Result<Value, Unreadable> {
    if body.get("context").is_some() {
        return Ok(body.clone());
    }
    match (body.get("data"), text(body, "/data_base64")) {
        (Some(Value::String(json)), _) => parse(json.as_bytes()),
        (Some(data), _) => Ok(data.clone()),
        (None, Some(data)) => match BASE64_STANDARD.decode(data) {
            Ok(json) => parse(&json),
            Err(error) => Err(Unreadable(format!("the data_base64 is no base64: {error}"))),
        },
        (None, None) => Err(Unreadable(
            "expected a CDEvent with its context, or a CloudEvent with its data".to_owned(),
        )),
    }
}

fn read_event(now: Timestamp, event: &Value, settings: &Settings) -> Result<Reading, Unreadable> {
    let kind = required(event, "/context/type", "the event")?;
    let Some(words) = kind.strip_prefix("dev.cdevents.") else {
        return Ok(Reading::ignored(format!(
            "the type {kind} is not one of CDEvents"
        )));
    };
    // The version at the end says nothing that the members do not say.
    let mut words = words.split('.');
    let subject = words.next().unwrap_or_default();
    let predicate = words.next().unwrap_or_default();
    let event = Event {
        body: event,
        source: text(event, "/context/source").unwrap_or_default(),
        id: required(event, "/context/id", "the event")?,
        kind: format!("{subject}.{predicate}"),
        subject: required(event, "/subject/id", "the event")?,
        at: time(event, "/context/timestamp").unwrap_or(now),
        environment: text(event, "/subject/content/environment/name")
            .or_else(|| text(event, "/subject/content/environment/id")),
        artifact: text(event, "/subject/content/artifactId").map(|purl| Artifact::of(&purl)),
    };
    Ok(match (subject, predicate) {
        ("service", "deployed") => event.service(["Deploy ", " ", " to "]),
        ("service", "upgraded") => event.service(["Upgrade ", " to ", " in "]),
        ("service", "rolledback") => event.service(["Roll back ", " to ", " in "]),
        ("service", "published") => event.service(["Publish ", " ", " in "]),
        ("service", "removed") => event.service(["Remove ", " ", " from "]),
        ("environment", "created") => event.environment("Create"),
        ("environment", "modified") => event.environment("Change"),
        ("environment", "deleted") => event.environment("Delete"),
        ("deployment", "queued") => event.deployment(Progress::Planned),
        ("deployment", "started") => event.deployment(Progress::Running),
        ("deployment", "finished") => event.deployment(event.outcome()),
        ("pipelinerun", "queued") => event.pipeline_run(Progress::Planned, settings),
        ("pipelinerun", "started") => event.pipeline_run(Progress::Running, settings),
        ("pipelinerun", "finished") => event.pipeline_run(event.outcome(), settings),
        _ => Reading::ignored(format!(
            "events of type {subject}.{predicate} are no changes"
        )),
    })
}

/// An event with what most types have.
struct Event<'e> {
    body: &'e Value,
    source: String,
    id: String,
    /// What it says of what, such as `service.deployed`: some senders use one id for several
    /// events.
    kind: String,
    /// The id of the subject.
    subject: String,
    at: Timestamp,
    environment: Option<String>,
    artifact: Option<Artifact>,
}

impl Event<'_> {
    /// Reads what happened to a service; the words are those before the service, the
    /// version and the environment.
    fn service(&self, [verb, version, environment]: [&str; 3]) -> Reading {
        let name = last_segment(&self.subject);
        let facts = Facts {
            title: phrase([
                (verb, Some(name)),
                (version, self.version()),
                (environment, self.environment.as_deref()),
            ]),
            services: vec![name.to_owned()],
            places: self.environment.iter().cloned().collect(),
            deletes: verb == "Remove ",
            ..self.facts()
        };
        self.state(self.key(), Progress::Succeeded, facts)
    }

    fn environment(&self, verb: &str) -> Reading {
        let name = text(self.body, "/subject/content/name");
        let name = name.unwrap_or_else(|| last_segment(&self.subject).to_owned());
        let facts = Facts {
            title: format!("{verb} environment {name}"),
            places: vec![name, self.subject.clone()],
            deletes: verb == "Delete",
            ..self.facts()
        };
        self.state(self.key(), Progress::Succeeded, facts)
    }

    fn deployment(&self, progress: Progress) -> Reading {
        let artifact = self.artifact.as_ref().map(|artifact| artifact.name.clone());
        let name = artifact.unwrap_or_else(|| last_segment(&self.subject).to_owned());
        let facts = Facts {
            title: phrase([
                ("Deploy ", Some(&name)),
                (" ", self.version()),
                (" to ", self.environment.as_deref()),
            ]),
            services: vec![name],
            places: self.environment.iter().cloned().collect(),
            ..self.facts()
        };
        self.state(self.key_of_subject(), progress, facts)
    }

    fn pipeline_run(&self, progress: Progress, settings: &Settings) -> Reading {
        let name = text(self.body, "/subject/content/pipelineName");
        let name = name.unwrap_or_else(|| last_segment(&self.subject).to_owned());
        if !deploys(&name, settings) {
            return Reading::ignored(format!("the pipeline {name} is not one that deploys"));
        }
        let facts = Facts {
            title: format!("Run {name}"),
            places: self.environment.iter().cloned().chain([name]).collect(),
            ..self.facts()
        };
        self.state(self.key_of_subject(), progress, facts)
    }

    fn outcome(&self) -> Progress {
        match text(self.body, "/subject/content/outcome").as_deref() {
            None | Some("success") => Progress::Succeeded,
            Some(_) => Progress::Failed,
        }
    }

    fn version(&self) -> Option<&str> {
        self.artifact.as_ref()?.version.as_deref()
    }

    /// Returns the facts that all types have in common.
    fn facts(&self) -> Facts {
        let content = |name: &str| text(self.body, &format!("/subject/content/{name}"));
        let errors = content("errors").or_else(|| content("reason"));
        Facts {
            description: errors.and_then(|errors| failure(&errors)),
            links: links([
                ("run", content("url")),
                ("environment", content("environment/url")),
            ]),
            ..Facts::default()
        }
    }

    /// Returns the key of an event that is a change of its own.
    fn key(&self) -> String {
        format!("event/{}/{}/{}", self.source, self.id, self.kind)
    }

    /// Returns the key of what several events are about.
    fn key_of_subject(&self) -> String {
        // Only a subject that comes from elsewhere has a source of its own.
        let source = text(self.body, "/subject/source").unwrap_or_else(|| self.source.clone());
        format!("subject/{source}/{}", self.subject)
    }

    fn state(&self, key: String, progress: Progress, facts: Facts) -> Reading {
        State {
            key,
            at: self.at,
            progress,
            started_at: None,
            facts,
        }
        .into()
    }
}

/// What a package URL says: <https://github.com/package-url/purl-spec>.
struct Artifact {
    name: String,
    version: Option<String>,
}

impl Artifact {
    fn of(purl: &str) -> Self {
        let purl = purl.split('#').next().unwrap_or_default();
        let (path, qualifiers) = purl.split_once('?').unwrap_or((purl, ""));
        let (path, version) = match path.rsplit_once('@') {
            Some((path, version)) => (path, Some(decoded(version))),
            None => (path, None),
        };
        let mut qualifiers = form_urlencoded::parse(qualifiers.as_bytes());
        // The version of an image is a digest; its tag says more.
        let tag = qualifiers.find(|(name, _)| name == "tag");
        let tag = tag.map(|(_, tag)| tag.into_owned());
        Self {
            name: decoded(last_segment(path)),
            version: tag.or(version).map(|version| short(&version)),
        }
    }
}

/// Decodes the `%3A` of a package URL, whose `+` is no space.
fn decoded(text: &str) -> String {
    let text = text.replace('+', "%2B");
    let mut pairs = form_urlencoded::parse(text.as_bytes());
    pairs
        .next()
        .map(|(decoded, _)| decoded.into_owned())
        .unwrap_or_default()
}

/// Shortens a digest as people do.
fn short(version: &str) -> String {
    match version.split_once(':') {
        Some((_, digest)) => digest.chars().take(12).collect(),
        None => version.to_owned(),
    }
}

/// Returns the name in an id such as `services/payments`.
fn last_segment(path: &str) -> &str {
    let mut segments = path.rsplit('/').filter(|segment| !segment.is_empty());
    segments.next().unwrap_or(path)
}

fn deploys(pipeline: &str, settings: &Settings) -> bool {
    let named = &settings.workflows;
    if !named.is_empty() {
        return named.iter().any(|name| name.eq_ignore_ascii_case(pipeline));
    }
    let name = pipeline.to_lowercase();
    ["deploy", "rollout"].iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use changelog_core::SourceKind;
    use serde_json::json;

    use super::*;
    use crate::kinds::testing::{
        changes_in_any_order, changes_of, id_of, ignored, reading_of, withstands_garbage,
    };

    const KIND: SourceKind = SourceKind::Cdevents;
    const IMAGE: &str = "pkg:oci/payments@sha256%3A0123456789abcdef?tag=v4.2";

    fn cdevent(kind: &str, id: &str, at: &str, content: &Value) -> Value {
        json!({
            "context": {
                "specversion": "0.5.0", "id": id, "source": "/ci/main",
                "type": format!("dev.cdevents.{kind}.0.3.0"), "timestamp": at,
            },
            "subject": { "id": "services/payments", "content": content },
        })
    }

    fn service_event(predicate: &str, artifact: &str) -> Value {
        let content = json!({ "environment": { "id": "eu/production" }, "artifactId": artifact });
        cdevent(
            &format!("service.{predicate}"),
            predicate,
            "2026-11-20T10:00:00Z",
            &content,
        )
    }

    fn titles(bodies: &[Value]) -> Vec<String> {
        let changes = changes_in_any_order(&KIND, &[], bodies);
        let title =
            |change: &crate::ObservedChange| change.fields["title"].as_str().map(str::to_owned);
        changes.iter().filter_map(title).collect()
    }

    #[test]
    fn what_happens_to_a_service_is_a_change() {
        let events = [
            service_event("deployed", IMAGE),
            service_event("upgraded", "pkg:golang/example.com/payments@v4.3+b1"),
            service_event("rolledback", "pkg:oci/payments@sha256%3A0123456789abcdef"),
            service_event("published", ""),
            service_event("removed", ""),
        ];
        assert_eq!(
            titles(&events),
            [
                "Deploy payments v4.2 to eu/production",
                "Publish payments in eu/production",
                "Remove payments from eu/production",
                "Roll back payments to 0123456789ab in eu/production",
                "Upgrade payments to v4.3+b1 in eu/production",
            ]
        );
        let changes = changes_in_any_order(&KIND, &[], &events);
        assert_eq!(changes[0].services, ["payments"]);
        assert_eq!(changes[0].fields["environment"], "prod");
        assert_eq!(changes[0].fields["ended_at"], "2026-11-20T10:00:00.000Z");
        assert_eq!(changes[2].fields["risk_level"], "high");
    }

    #[test]
    fn what_happens_to_an_environment_is_a_change() {
        let events = ["created", "modified", "deleted"].map(|predicate| {
            let content = json!({ "name": "qa", "url": "https://qa.example.com" });
            cdevent(&format!("environment.{predicate}"), predicate, "", &content)
        });
        assert_eq!(
            titles(&events),
            [
                "Create environment qa",
                "Delete environment qa",
                "Change environment qa"
            ]
        );
    }

    #[test]
    fn a_deployment_and_a_run_go_from_start_to_end_in_any_order() {
        let content = |outcome: &str| {
            json!({
                "pipelineName": "deploy-payments", "artifactId": IMAGE, "outcome": outcome,
                "environment": { "id": "staging" }, "errors": "the pods did not start\nand more",
                "url": "https://ci.example.com/runs/7",
            })
        };
        for (subject, title) in [
            ("deployment", "Deploy payments v4.2 to staging"),
            ("pipelinerun", "Run deploy-payments"),
        ] {
            let event = |predicate: &str, at: &str, outcome: &str| {
                cdevent(
                    &format!("{subject}.{predicate}"),
                    predicate,
                    at,
                    &content(outcome),
                )
            };
            let changes = changes_in_any_order(
                &KIND,
                &[],
                &[
                    event("queued", "2026-11-20T10:00:00Z", ""),
                    event("started", "2026-11-20T10:01:00Z", ""),
                    event("finished", "2026-11-20T10:04:00Z", "failure"),
                ],
            );
            assert_eq!(changes.len(), 1);
            let fields = &changes[0].fields;
            assert_eq!(fields["title"], title);
            assert_eq!(fields["started_at"], "2026-11-20T10:01:00.000Z");
            assert_eq!(fields["ended_at"], "2026-11-20T10:04:00.000Z");
            assert_eq!(fields["outcome"], "failed");
            assert_eq!(fields["environment"], "staging");
            assert_eq!(fields["description"], "the pods did not start");
            assert_eq!(fields["links"][0]["url"], "https://ci.example.com/runs/7");
        }
    }

    #[test]
    fn every_mode_of_cloudevents_is_read() {
        let bare = service_event("deployed", IMAGE);
        let encoded = BASE64_STANDARD.encode(bare.to_string());
        for body in [
            bare.clone(),
            json!({ "specversion": "1.0", "id": "7", "data": bare }),
            json!({ "specversion": "1.0", "id": "7", "data": bare.to_string() }),
            json!({ "specversion": "1.0", "id": "7", "data_base64": encoded }),
            json!([bare, { "specversion": "1.0", "data": bare }]),
        ] {
            assert_eq!(titles(&[body]), ["Deploy payments v4.2 to eu/production"]);
        }
        let structured = json!({ "specversion": "1.0", "id": "7", "data": bare });
        for body in [bare, structured] {
            assert_eq!(
                id_of(&KIND, &[], &body).as_deref(),
                Some("/ci/main deployed dev.cdevents.service.deployed.0.3.0")
            );
        }
    }

    #[test]
    fn events_of_one_id_are_told_apart_by_their_type() {
        let mut removed = service_event("removed", IMAGE);
        removed["context"]["id"] = json!("deployed");
        let changes =
            changes_in_any_order(&KIND, &[], &[service_event("deployed", IMAGE), removed]);
        assert_eq!(changes.len(), 2);
    }

    #[test]
    fn an_event_that_cannot_be_read_does_not_lose_the_others() {
        let batch = json!([service_event("deployed", IMAGE), { "specversion": "1.0" }, 7]);
        let reading = reading_of(&KIND, &Settings::default(), &[], &batch.to_string()).unwrap();
        assert_eq!((reading.observations.len(), reading.ignored.len()), (1, 1));
    }

    #[test]
    fn events_of_0_4_are_read() {
        let mut event = service_event("deployed", IMAGE);
        event["context"]["version"] = json!("0.4.1");
        event["subject"]["type"] = json!("service");
        assert_eq!(titles(&[event]), ["Deploy payments v4.2 to eu/production"]);
    }

    #[test]
    fn other_events_are_ignored_with_a_reason() {
        for (kind, reason) in [
            (
                "build.finished",
                "events of type build.finished are no changes",
            ),
            (
                "incident.detected",
                "events of type incident.detected are no changes",
            ),
            (
                "targetrollout.finished",
                "events of type targetrollout.finished are no changes",
            ),
            (
                "pipelinerun.finished",
                "the pipeline nightly tests is not one that deploys",
            ),
        ] {
            let content = json!({ "pipelineName": "nightly tests" });
            assert_eq!(
                ignored(&KIND, &[], &cdevent(kind, "1", "", &content)),
                [reason]
            );
        }
        let other = json!({ "context": { "type": "com.example.thing" } });
        assert_eq!(
            ignored(&KIND, &[], &other),
            ["the type com.example.thing is not one of CDEvents"]
        );
    }

    #[test]
    fn the_source_can_name_its_pipelines() {
        let settings = Settings {
            workflows: vec!["Ship it".to_owned()],
            ..Settings::default()
        };
        let event = |name: &str| {
            let event = cdevent(
                "pipelinerun.started",
                "1",
                "",
                &json!({ "pipelineName": name }),
            );
            (vec![], event.to_string())
        };
        assert_eq!(changes_of(&KIND, &settings, &[event("ship it")]).len(), 1);
        assert_eq!(changes_of(&KIND, &settings, &[event("deploy")]).len(), 0);
    }

    #[test]
    fn garbage_is_withstood() {
        let content = json!({ "pipelineName": "deploy", "environment": { "id": "x" }, "url": "y" });
        for body in [
            service_event("deployed", IMAGE),
            cdevent("pipelinerun.finished", "1", "", &content),
            json!({ "data": service_event("deployed", IMAGE) }),
        ] {
            withstands_garbage(&KIND, &[], &body);
        }
        let error = reading_of(&KIND, &Settings::default(), &[], "{}");
        assert_eq!(
            error.map_err(|error| error.0),
            Err("expected a CDEvent with its context, or a CloudEvent with its data".to_owned())
        );
    }
}
