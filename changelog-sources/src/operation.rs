//! An operation: what is known from all requests about one deployment, run or session, and
//! the change that it is shown as.

use changelog_core::change::BY_HAND;
use changelog_core::limits::{MAX_LINKS, MAX_NAME_CHARS, MAX_SERVICES, MAX_TAGS, MAX_TITLE_CHARS};
use changelog_core::{Environment, InputError, NewChange, RiskLevel, SourceKind, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::environment::environment_of;
use crate::json::{fit, one_line};
use crate::observation::{Call, Facts, Progress, State};
use crate::session::{SESSION_PAUSE, Session};
use crate::settings::Settings;

/// The attempts at a valid change, each without the fields that were refused.
const MAX_ATTEMPTS: usize = 4;

/// What is known of an operation. It is stored as JSON, and stays below a few kilobytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    facts: Facts,
    progress: Progress,
    /// When that progress was reached.
    at: Timestamp,
    started_at: Option<Timestamp>,
    #[serde(default)]
    session: Option<Session>,
}

/// The change that an operation is shown as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedChange {
    /// The fields of a [`NewChange`], valid by its rules.
    pub fields: Map<String, Value>,
    /// The names of its services.
    pub services: Vec<String>,
    /// The name of its host.
    pub hostname: Option<String>,
}

impl From<State> for Operation {
    fn from(state: State) -> Self {
        let started = (state.progress == Progress::Running).then_some(state.at);
        Self {
            facts: state.facts,
            progress: state.progress,
            at: state.at,
            started_at: state.started_at.or(started),
            session: None,
        }
    }
}

impl From<Call> for Operation {
    fn from(call: Call) -> Self {
        Self {
            progress: Progress::Running,
            at: call.at,
            started_at: None,
            facts: call.facts.clone(),
            session: Some(Session::from(call)),
        }
    }
}

impl Operation {
    /// Adds a state that may have been reached before or after what is known.
    pub fn add_state(&mut self, state: State) {
        let started = (state.progress == Progress::Running).then_some(state.at);
        let started = state.started_at.or(started);
        self.started_at = match (self.started_at, started) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        if (state.at, state.progress) >= (self.at, self.progress) {
            let older = std::mem::replace(&mut self.facts, state.facts);
            self.facts.complete(older);
            self.progress = state.progress;
            self.at = state.at;
        } else {
            self.facts.complete(state.facts);
        }
    }

    /// Returns whether a call at a time belongs to this session.
    pub fn takes_call_at(&self, at: Timestamp) -> bool {
        self.session.as_ref().is_some_and(|session| {
            at >= session.first_at.plus(-SESSION_PAUSE) && at <= self.at.plus(SESSION_PAUSE)
        })
    }

    /// Adds a call to a session.
    pub fn add_call(&mut self, call: Call) {
        let Some(session) = &mut self.session else {
            return;
        };
        self.at = self.at.max(call.at);
        self.facts.deletes |= call.facts.deletes;
        self.facts.complete(call.facts.clone());
        session.add(call);
        self.reopen();
    }

    /// Adds the calls of another session, between which and this one a late call has closed
    /// the pause.
    pub fn join(&mut self, other: Self) {
        let (Some(session), Some(others)) = (&mut self.session, other.session) else {
            return;
        };
        session.join(others);
        self.at = self.at.max(other.at);
        self.facts.deletes |= other.facts.deletes;
        self.facts.complete(other.facts);
        if other.progress == Progress::Failed {
            self.progress = Progress::Failed;
        }
        self.reopen();
    }

    /// Lets a session that was ended go on until it is ended again: a call was late.
    fn reopen(&mut self) {
        let is_of_run = self
            .session
            .as_ref()
            .is_some_and(|session| session.is_of_run);
        if self.progress == Progress::Succeeded && !is_of_run {
            self.progress = Progress::Running;
        }
    }

    /// Makes the calls of a session a part of a run that is recorded as a change of its own:
    /// that change says how far the run is.
    pub fn attach_to_run(&mut self) {
        if let Some(session) = &mut self.session {
            session.is_of_run = true;
            self.progress = Progress::Succeeded;
        }
    }

    /// Returns whether its calls are a part of a run.
    pub fn is_of_run(&self) -> bool {
        self.session
            .as_ref()
            .is_some_and(|session| session.is_of_run)
    }

    /// Returns whether a recorded run of Terraform may be what its calls are a part of.
    pub fn may_be_of_run(&self) -> bool {
        let mut session = self.session.iter();
        session.any(|session| session.tool.is_terraform() && !session.is_of_run)
    }

    /// Returns what a run's change says of its calls: `14 calls, ec2 and iam`.
    pub fn calls(&self) -> Option<String> {
        self.session.as_ref().map(Session::calls)
    }

    /// Returns the environment, as far as it is known.
    pub fn environment(&self, settings: &Settings) -> Option<Environment> {
        environment_of(&self.facts.places, settings)
    }

    /// Returns the names of its services.
    pub fn services(&self) -> &[String] {
        &self.facts.services
    }

    /// Records that a call of the session failed after it had been accepted.
    pub fn fail_call(&mut self) {
        self.progress = Progress::Failed;
    }

    /// Ends a session whose pause is over. Returns whether it was open.
    pub fn close(&mut self) -> bool {
        let is_open = self.session.is_some() && self.progress == Progress::Running;
        if is_open {
            self.progress = Progress::Succeeded;
        }
        is_open
    }

    /// Returns when a session that is still open ends, unless calls follow.
    pub fn closes_at(&self) -> Option<Timestamp> {
        let is_open = self.session.is_some() && self.progress == Progress::Running;
        is_open.then(|| self.at.plus(SESSION_PAUSE))
    }

    /// Returns the first and the last time that is known of it.
    pub fn span(&self) -> (Timestamp, Timestamp) {
        let first = self.session.as_ref().map(|session| session.first_at);
        let first = first.or(self.started_at).unwrap_or(self.at);
        (first.min(self.at), self.at)
    }

    /// Returns the change that it is shown as. What core's rules refuse is left out: a
    /// change without a link is better than none.
    pub fn change(&self, kind: &SourceKind, settings: &Settings, now: Timestamp) -> ObservedChange {
        let facts = &self.facts;
        let environment = environment_of(&facts.places, settings);
        let (first, last) = self.span();
        let mut fields = json!({
            "title": self.title(),
            "risk_level": self.risk(environment.as_ref(), settings),
            "status": match self.progress {
                Progress::Planned => "planned",
                Progress::Running => "in_progress",
                Progress::Succeeded => "completed",
                Progress::Undone | Progress::Failed => "rolled_back",
            },
            "occurred_at": first,
            "tags": self.tags(kind),
            "links": facts.links.iter().take(MAX_LINKS).collect::<Vec<_>>(),
        });
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                fields[name] = value;
            }
        };
        set("description", self.description().map(Value::from));
        set(
            "environment",
            environment.map(|environment| json!(environment)),
        );
        set("commit", facts.commit.clone().map(Value::from));
        set("on_behalf_of", facts.person.clone().map(Value::from));
        let automation = self.session.as_ref().and_then(Session::automation);
        let agent = facts.agent.as_deref().or(automation);
        set(
            "agent",
            agent.map(|name| json!({ "name": fit(name, MAX_NAME_CHARS) })),
        );
        let outcome = match self.progress {
            Progress::Planned | Progress::Running => None,
            Progress::Succeeded => Some("succeeded"),
            Progress::Undone => Some("undone"),
            Progress::Failed => Some("failed"),
        };
        set("outcome", outcome.map(Value::from));
        if self.progress != Progress::Planned {
            set("started_at", Some(json!(first)));
        }
        if self.progress.is_final() {
            set("ended_at", Some(json!(last)));
        }
        let mut services = facts.services.clone();
        services.extend(
            settings
                .service
                .clone()
                .filter(|_| facts.services.is_empty()),
        );
        services.truncate(MAX_SERVICES);
        ObservedChange {
            fields: valid(fields, now),
            services,
            hostname: facts.hostname.clone(),
        }
    }

    fn title(&self) -> String {
        let title = match &self.session {
            Some(session) if session.is_of_several() => session.title(),
            _ => self.facts.title.clone(),
        };
        fit(&one_line(&title), MAX_TITLE_CHARS)
    }

    fn description(&self) -> Option<String> {
        match &self.session {
            Some(session) if session.is_of_several() => Some(session.description()),
            _ => self.facts.description.clone(),
        }
    }

    fn tags(&self, kind: &SourceKind) -> Vec<String> {
        let mut tags = vec![kind.as_str().to_owned()];
        if self.session.as_ref().is_some_and(Session::is_by_hand) {
            tags.push(BY_HAND.to_owned());
        }
        for tag in &self.facts.tags {
            if !tags.contains(tag) {
                tags.push(tag.clone());
            }
        }
        tags.truncate(MAX_TAGS);
        tags
    }

    fn risk(&self, environment: Option<&Environment>, settings: &Settings) -> RiskLevel {
        let rules = &settings.risk;
        let reasons = [
            (self.facts.deletes, &rules.deletes),
            (self.progress == Progress::Failed, &rules.failures),
            (environment == Some(&Environment::Prod), &rules.production),
        ];
        let risks = reasons
            .into_iter()
            .filter_map(|(applies, risk)| applies.then_some(risk));
        risks.max().cloned().unwrap_or(RiskLevel::Low)
    }
}

impl Facts {
    /// Adds what is not known from other facts.
    fn complete(&mut self, other: Self) {
        fn fill<T>(value: &mut Vec<T>, other: Vec<T>) {
            if value.is_empty() {
                *value = other;
            }
        }
        if self.title.is_empty() {
            self.title = other.title;
        }
        fill(&mut self.services, other.services);
        fill(&mut self.places, other.places);
        fill(&mut self.links, other.links);
        fill(&mut self.tags, other.tags);
        for (value, other) in [
            (&mut self.description, other.description),
            (&mut self.hostname, other.hostname),
            (&mut self.commit, other.commit),
            (&mut self.person, other.person),
            (&mut self.agent, other.agent),
        ] {
            if value.is_none() {
                *value = other;
            }
        }
        self.deletes |= other.deletes;
    }
}

/// Returns the fields that core's rules accept.
fn valid(mut fields: Value, now: Timestamp) -> Map<String, Value> {
    for _ in 0..MAX_ATTEMPTS {
        let checked =
            changelog_core::input::from_json::<NewChange>(fields.to_string().as_bytes(), now);
        let Err(InputError::Invalid(invalid)) = checked else {
            break;
        };
        for violation in &invalid.violations {
            let name = violation.pointer.split('/').nth(1).unwrap_or_default();
            match name {
                "title" => fields["title"] = "Change without a title".into(),
                "occurred_at" | "started_at" | "ended_at" => {
                    // A clock that is ahead, or a time before 1970.
                    fields[name] = json!(now);
                }
                _ => {
                    if let Some(fields) = fields.as_object_mut() {
                        fields.remove(name);
                    }
                }
            }
        }
    }
    fields
        .as_object_mut()
        .map(std::mem::take)
        .unwrap_or_default()
}
