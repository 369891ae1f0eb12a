//! A change in a file: exported by a server, or written by hand.

use serde_json::Value;

use super::NewChange;
use crate::csv::COLUMNS;
use crate::host::Environment;
use crate::ids::{ChangeId, OrganizationId};
use crate::input::{Input, ObjectReader};
use crate::limits::{MAX_NAME_CHARS, MIN_SERVICE_NAME_CHARS};
use crate::problem::{ViolationCode, Violations};
use crate::rules::{self, TextKind};
use crate::time::Timestamp;

/// A change to import: a line of an export, or one that was written by hand. Its
/// service and host are given by name, because ids are valid in one organization only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportedChange {
    /// Its id in the organization that exported it.
    pub id: Option<ChangeId>,
    /// The organization that exported it. Its service and host existed there.
    pub exported_by: Option<OrganizationId>,
    /// The input of the change. `occurred_at` is always set; `service_id` and
    /// `host_id` are those of the file.
    pub change: NewChange,
    /// The service's name.
    pub service: Option<String>,
    /// The names of the other services, in the order of their ids in `service_ids`,
    /// if the file has them.
    pub more_services: Vec<String>,
    /// The service's color, if the file has it.
    pub service_color: Option<String>,
    /// The host's name.
    pub host: Option<String>,
    /// The host's environment, if the file has it.
    pub host_environment: Option<Environment>,
}

/// The columns of CSV, and the member that JSON has instead of `host`.
const NAMES: [&str; COLUMNS.len() + 1] = {
    let mut names = ["host_ref"; COLUMNS.len() + 1];
    names
        .split_at_mut(COLUMNS.len())
        .0
        .copy_from_slice(&COLUMNS);
    names
};

impl Input for ImportedChange {
    const FIELDS: &'static [&'static str] = &NAMES;

    fn read(object: &mut ObjectReader<'_>) -> Self {
        let mut change = NewChange::read(object);
        let service = Reference::read(object, "service", "name");
        let host = Reference::read(object, "host_ref", "hostname");
        let host = if host.name.is_some() {
            host
        } else {
            Reference::read(object, "host", "hostname")
        };
        change.service_id = change
            .service_id
            .or_else(|| service.member("id")?.parse().ok());
        change.host_id = change.host_id.or_else(|| host.member("id")?.parse().ok());
        let mut services = read_services(object).into_iter();
        let first = services.next();
        // The times of recording belong to the other organization.
        for name in [
            "created_at",
            "updated_at",
            "updated_by",
            "host",
            "host_ref",
            "source",
        ] {
            object.take(name);
        }
        // So does its author, whose name remains as a claim.
        if let Some(author) = object.take("created_by") {
            let name = author.get("name").and_then(Value::as_str);
            let claim = change.on_behalf_of.take();
            change.on_behalf_of = claim.or_else(|| name.map(str::to_owned));
        }
        Self {
            id: object.parsed("id"),
            exported_by: object.parsed("organization_id"),
            change,
            service_color: service.member("color").map(str::to_owned),
            host_environment: host
                .member("environment")
                .and_then(|environment| environment.parse().ok()),
            more_services: services.collect(),
            service: service.name.or(first),
            host: host.name,
        }
    }

    fn check(&mut self, problems: &mut Violations, now: Timestamp) {
        self.change.check(problems, now);
        if self.change.occurred_at.is_none() {
            // Without a time, a repeated import would create another change.
            let message = "is required for an imported change";
            problems.add("/occurred_at", ViolationCode::Required, message);
        }
        if let Some(name) = &mut self.service {
            rules::text(
                problems,
                "/service",
                name,
                MIN_SERVICE_NAME_CHARS..=MAX_NAME_CHARS,
                TextKind::Key,
            );
        }
        for (index, name) in self.more_services.iter_mut().enumerate() {
            let pointer = format!("/services/{}", index + 1);
            let chars = MIN_SERVICE_NAME_CHARS..=MAX_NAME_CHARS;
            rules::text(problems, &pointer, name, chars, TextKind::Key);
        }
        if let Some(name) = &mut self.host {
            rules::text(problems, "/host", name, 1..=MAX_NAME_CHARS, TextKind::Key);
        }
    }
}

impl ImportedChange {
    /// Returns the time by which the imported change is listed.
    pub fn effective_at(&self) -> Timestamp {
        self.change.effective_at(Timestamp::EPOCH)
    }
}

/// Reads the names of all services: strings, or the objects that an export has.
fn read_services(object: &mut ObjectReader<'_>) -> Vec<String> {
    let services = match object.take("services") {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Array(services)) => services,
        Some(other) => {
            object.wrong_type("services", "an array of names", &other);
            return Vec::new();
        }
    };
    let name = |service: &Value| {
        let name = service.as_str().or_else(|| service.get("name")?.as_str());
        name.unwrap_or_default().trim().to_owned()
    };
    services.iter().map(name).collect()
}

/// A service or a host: its name, or the object that an export has.
#[derive(Default)]
struct Reference {
    name: Option<String>,
    object: serde_json::Map<String, Value>,
}

impl Reference {
    fn read(object: &mut ObjectReader<'_>, field: &str, name: &str) -> Self {
        let some = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        match object.take(field) {
            None | Some(Value::Null) => Self::default(),
            Some(Value::String(text)) => Self {
                name: some(&text),
                ..Self::default()
            },
            Some(Value::Object(object)) => Self {
                name: object.get(name).and_then(Value::as_str).and_then(some),
                object,
            },
            Some(other) => {
                object.wrong_type(field, "a name, or an object as in an export", &other);
                Self::default()
            }
        }
    }

    fn member(&self, name: &str) -> Option<&str> {
        self.object.get(name)?.as_str()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::input::{InputError, from_json};

    const ID: &str = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";

    fn read(value: &Value) -> Result<ImportedChange, InputError> {
        let now = "2026-11-21T08:30:00.000Z".parse().unwrap();
        from_json(value.to_string().as_bytes(), now)
    }

    #[test]
    fn every_member_of_an_export_is_read() {
        let exported = json!({
            "id": ID, "title": "Deploy", "description": null, "risk_level": "high",
            "status": "completed", "impact": null,
            "service": { "id": ID, "name": "payments", "color": "#fff" },
            "host_ref": { "id": ID, "hostname": "web-1", "environment": "prod" },
            "tags": ["a"], "links": [{ "label": "run", "url": "https://e.com" }],
            "scheduled_for": null, "occurred_at": "2026-01-01T00:00:00.000Z",
            "organization_id": ID, "created_at": "2026-01-01T00:00:00.000Z",
            "updated_at": "2026-01-01T00:00:00.000Z",
        });
        let record = read(&exported).unwrap();
        assert!(record.exported_by.is_some());
        assert_eq!(record.service.as_deref(), Some("payments"));
        assert_eq!(record.service_color.as_deref(), Some("#fff"));
        assert_eq!(record.host.as_deref(), Some("web-1"));
        assert_eq!(record.host_environment, Some(Environment::Prod));
        assert_eq!(record.change.service_id, ID.parse().ok());
        assert_eq!(record.change.host_id, ID.parse().ok());
        assert_eq!(record.change.tags, ["a"]);
    }

    #[test]
    fn a_handwritten_line_has_names_and_a_time() {
        let at = "2026-01-01T00:00:00Z";
        let record = json!({ "title": "Deploy", "occurred_at": at, "service": "web", "host": "h" });
        let record = read(&record).unwrap();
        assert!(record.exported_by.is_none());
        assert_eq!(record.service.as_deref(), Some("web"));
        assert_eq!(record.host.as_deref(), Some("h"));
        let several = json!({ "title": "Deploy", "occurred_at": at, "services": ["web", "shop"] });
        let several = read(&several).unwrap();
        assert_eq!(several.service.as_deref(), Some("web"));
        assert_eq!(several.more_services, ["shop"]);
        for (field, value) in [
            ("occurred_at", Value::Null),
            ("title", json!("")),
            ("service", json!("x")),
            ("host", json!(7)),
            ("risk", json!("high")),
        ] {
            let mut record = json!({ "title": "Deploy", "occurred_at": at });
            record[field] = value;
            let Err(InputError::Invalid(invalid)) = read(&record) else {
                panic!("{field} is accepted");
            };
            assert_eq!(invalid.violations[0].pointer, format!("/{field}"));
        }
    }
}
