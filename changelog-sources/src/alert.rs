//! The state of an alert, and the incident that it is shown as.

use changelog_core::limits::{MAX_NAME_CHARS, MAX_SENDER_ID_CHARS, MAX_TITLE_CHARS, MAX_URL_CHARS};
use changelog_core::source::{ENVIRONMENT_LABELS, SERVICE_LABELS};
use changelog_core::{Environment, Severity, Timestamp};
use serde_json::Value;

use crate::environment::environment_of;
use crate::json::{fit, one_line};
use crate::settings::Settings;

/// The limit on the names of services that an alert may mean.
const MAX_SERVICES: usize = 10;

/// The state of an alert, or of a group of alerts that its sender reports together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// What the sender calls it: states of one key are one incident, until it has been
    /// resolved for a while.
    pub key: String,
    /// When it reached this state. A state never undoes a later one.
    pub at: Timestamp,
    /// When the sender told so, if it tells the present state again and again: it may then be in
    /// this state although it has reached it before another one.
    pub told_at: Option<Timestamp>,
    /// Whether it fires; otherwise it is resolved.
    pub is_firing: bool,
    /// What is wrong, in one line, as a person would write it.
    pub title: String,
    /// How bad it is, where the sender says so.
    pub severity: Option<Severity>,
    /// The names by which its service may be known, the most telling first.
    pub services: Vec<String>,
    /// The sender's words for where it fires, the most telling first.
    pub places: Vec<String>,
    /// When it began to fire, where the sender says so in each state.
    pub started_at: Option<Timestamp>,
    /// The sender's page about it.
    pub url: Option<String>,
}

impl Alert {
    /// Returns the title of its incident, which core's rules accept.
    pub fn incident_title(&self) -> String {
        match one_line(&self.title) {
            title if title.chars().count() < 3 => format!("Alert {title}").trim_end().to_owned(),
            title => fit(&title, MAX_TITLE_CHARS),
        }
    }

    /// Returns what its incident shows of the key.
    pub fn sender_id(&self) -> Option<String> {
        let key = one_line(&self.key);
        Some(key).filter(|key| !key.is_empty() && key.chars().count() <= MAX_SENDER_ID_CHARS)
    }

    /// Returns the environment that it fires in.
    pub fn environment(&self, settings: &Settings) -> Option<Environment> {
        environment_of(&self.places, settings)
    }

    /// Returns the names by which its service may be known; the default of the source if the
    /// alert has none.
    pub fn services(&self, settings: &Settings) -> Vec<String> {
        let given = self.services.iter().map(|name| one_line(name));
        let is_name = |name: &String| !name.is_empty() && name.chars().count() <= MAX_NAME_CHARS;
        let mut names: Vec<String> = given.filter(is_name).collect();
        if names.is_empty() {
            names.extend(settings.service.clone());
        }
        names.truncate(MAX_SERVICES);
        names
    }

    /// Returns the sender's page about it, if it is one for browsers.
    pub fn web_url(&self) -> Option<String> {
        let url = self.url.as_deref()?.trim();
        let is_web = url.starts_with("https://") || url.starts_with("http://");
        let is_url = is_web && url.chars().count() <= MAX_URL_CHARS && one_line(url) == url;
        is_url.then(|| url.to_owned())
    }
}

/// The labels or tags of an alert.
#[derive(Debug, Default)]
pub(crate) struct Labels(Vec<(String, String)>);

impl Labels {
    /// Reads the members of an object; values that are not text are left out.
    pub(crate) fn of_object(object: Option<&Value>) -> Self {
        let members = object.and_then(Value::as_object).into_iter().flatten();
        members
            .filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
            .collect()
    }

    /// Adds those of other labels.
    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Returns the values of the labels of these names, in the order of the names; the
    /// spelling of names matters as little as possible: `Service-Name` is `service_name`.
    pub(crate) fn named<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Vec<String> {
        let mut values = Vec::new();
        for name in names {
            let name = normal(name);
            for (label, value) in &self.0 {
                if *label == name && !values.contains(value) {
                    values.push(value.clone());
                }
            }
        }
        values
    }

    /// Returns the value of a label.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        self.named([name]).into_iter().next()
    }

    /// Returns the names of services in the labels that the source, or else this service,
    /// takes them from.
    pub(crate) fn services(&self, settings: &Settings) -> Vec<String> {
        self.chosen(&settings.service_labels, SERVICE_LABELS)
    }

    /// The same for environments.
    pub(crate) fn places(&self, settings: &Settings) -> Vec<String> {
        self.chosen(&settings.environment_labels, ENVIRONMENT_LABELS)
    }

    fn chosen(&self, own: &[String], default: &'static [&'static str]) -> Vec<String> {
        if own.is_empty() {
            self.named(default.iter().copied())
        } else {
            self.named(own.iter().map(String::as_str))
        }
    }

    /// Returns how bad the labels say it is.
    pub(crate) fn severity(&self) -> Option<Severity> {
        let words = self.named(["severity", "priority", "level", "urgency"]);
        words.iter().find_map(|word| severity_of(word))
    }
}

impl<N: AsRef<str>, V: AsRef<str>> FromIterator<(N, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let labels = pairs
            .into_iter()
            .map(|(name, value)| (normal(name.as_ref()), value.as_ref().trim().to_owned()));
        Self(labels.filter(|(_, value)| !value.is_empty()).collect())
    }
}

/// Returns the name of a label in one spelling.
fn normal(name: &str) -> String {
    let letters = name.trim().chars();
    letters
        .map(|letter| match letter {
            '-' | '.' | '/' | ' ' => '_',
            other => other.to_ascii_lowercase(),
        })
        .collect()
}

/// Returns the severity that a word of many senders stands for.
pub(crate) fn severity_of(word: &str) -> Option<Severity> {
    Some(match word.trim().to_lowercase().as_str() {
        "critical" | "crit" | "fatal" | "emergency" | "emerg" | "alert" | "page" | "error"
        | "high" | "highest" | "major" | "disaster" | "p0" | "p1" | "p2" | "sev0" | "sev1"
        | "sev2" | "1" => Severity::Critical,
        "warning" | "warn" | "medium" | "minor" | "average" | "ticket" | "p3" | "sev3" | "2" => {
            Severity::Warning
        }
        "info" | "information" | "informational" | "notice" | "low" | "lowest" | "none"
        | "debug" | "p4" | "p5" | "sev4" | "sev5" => Severity::Info,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_services_and_environments() {
        let labels: Labels = [
            ("job", "node"),
            ("App", "shop"),
            ("app.kubernetes.io/name", "web"),
            ("env", ""),
            ("namespace", "eu-prod"),
            ("team", "payments"),
            ("Severity", "PAGE"),
        ]
        .into_iter()
        .collect();
        let mut settings = Settings::default();
        assert_eq!(labels.services(&settings), ["shop", "web", "node"]);
        assert_eq!(labels.places(&settings), ["eu-prod"]);
        assert_eq!(labels.severity(), Some(Severity::Critical));
        settings.service_labels = vec!["team".to_owned()];
        assert_eq!(labels.services(&settings), ["payments"]);
    }

    #[test]
    fn an_incident_has_a_title_and_a_page_that_are_accepted() {
        let alert = |title: &str, url: &str| Alert {
            key: String::new(),
            at: Timestamp::EPOCH,
            told_at: None,
            is_firing: true,
            title: title.to_owned(),
            severity: None,
            services: vec![" ".to_owned(), "x".repeat(101)],
            places: Vec::new(),
            started_at: None,
            url: Some(url.to_owned()),
        };
        let one = alert("  Checkout\n is \u{7}down ", "javascript:alert(1)");
        assert_eq!(one.incident_title(), "Checkout is down");
        assert_eq!(one.web_url(), None);
        let settings = Settings {
            service: Some("shop".to_owned()),
            ..Settings::default()
        };
        assert_eq!(one.services(&settings), ["shop"]);
        let other = alert("", "https://a.example.com/1");
        assert_eq!(other.incident_title(), "Alert");
        assert_eq!(other.web_url().as_deref(), Some("https://a.example.com/1"));
        assert_eq!(
            alert(&"x".repeat(400), "").incident_title().chars().count(),
            300
        );
    }
}
