//! Services: logical applications that changes are made to.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::activity::ResourceType;
use crate::ids::{OrganizationId, ServiceId};
use crate::input::{Input, ObjectReader};
use crate::limits::{
    MAX_DEPENDENCIES, MAX_LONG_TEXT_CHARS, MAX_NAME_CHARS, MIN_SERVICE_NAME_CHARS,
};
use crate::named::{Named, replace};
use crate::problem::{Invalid, ViolationCode, Violations};
use crate::rules::{self, TextKind};
use crate::time::Timestamp;

/// The default color of a service.
pub const DEFAULT_COLOR: &str = "#6366f1";

/// A service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Service {
    /// The id.
    pub id: ServiceId,
    /// The name, unique in the organization without regard to ASCII case.
    #[cfg_attr(feature = "openapi", schema(example = "payments"))]
    pub name: String,
    /// A description.
    #[cfg_attr(feature = "openapi", schema(required, example = "Takes card payments"))]
    pub description: Option<String>,
    /// The color, `#rgb` or `#rrggbb`.
    #[cfg_attr(feature = "openapi", schema(example = "#6366f1"))]
    pub color: String,
    /// The ids of the services that this one depends on, in the order given. Services
    /// may depend on each other.
    pub depends_on: Vec<ServiceId>,
    /// The organization that the service belongs to.
    pub organization_id: OrganizationId,
    /// The time at which the service was created.
    pub created_at: Timestamp,
}

/// Input for creating a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(example = json!({
    "name": "payments",
    "description": "Takes card payments",
    "color": "#6366f1",
})))]
#[serde(deny_unknown_fields)]
pub struct NewService {
    /// The name; unique in the organization without regard to ASCII case.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::ServiceName))]
    pub name: String,
    /// A description.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::LongText>))]
    pub description: Option<String>,
    /// A hex color, `#rgb` or `#rrggbb`; `#6366f1` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Color>))]
    pub color: Option<String>,
    /// The ids of the services that this one depends on; duplicates are removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Dependencies>))]
    pub depends_on: Vec<ServiceId>,
}

impl Input for NewService {
    const FIELDS: &'static [&'static str] = &["name", "description", "color", "depends_on"];

    fn read(object: &mut ObjectReader<'_>) -> Self {
        Self {
            name: object.required_string("name"),
            description: object.string("description"),
            color: object.string("color"),
            depends_on: object
                .parsed_list("depends_on", MAX_DEPENDENCIES)
                .unwrap_or_default(),
        }
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        check_name(problems, &mut self.name);
        check_description(problems, &mut self.description);
        if let Some(color) = &mut self.color {
            rules::color(problems, "/color", color);
        }
        check_depends_on(problems, &mut self.depends_on);
    }
}

/// Input for updating a service. Absent fields keep their value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(example = json!({"description": "Takes card payments", "color": "#0ea5e9"})))]
#[serde(deny_unknown_fields)]
pub struct ServicePatch {
    /// As on create.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::ServiceName, required = false))]
    pub name: Option<String>,
    /// As on create; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::LongText>))]
    pub description: Option<Option<String>>,
    /// As on create; null keeps the present value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Color>))]
    pub color: Option<String>,
    /// As on create; replaces the whole list. Null empties it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Dependencies>))]
    pub depends_on: Option<Vec<ServiceId>>,
}

impl Named for Service {
    const NOUN: &'static str = "service";
    const RESOURCE_TYPE: ResourceType = ResourceType::Service;
    const PLURAL: &'static str = "services";
    const NAME_FIELD: &'static str = "name";

    type Id = ServiceId;
    type New = NewService;
    type Patch = ServicePatch;

    fn id(&self) -> ServiceId {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn named(name: String) -> NewService {
        NewService {
            name,
            ..NewService::default()
        }
    }

    fn name_of(new: &NewService) -> &str {
        &new.name
    }

    fn create(
        new: NewService,
        id: ServiceId,
        organization_id: OrganizationId,
        created_at: Timestamp,
    ) -> Self {
        Self {
            id,
            name: new.name,
            description: new.description,
            color: new.color.unwrap_or_else(|| DEFAULT_COLOR.to_owned()),
            depends_on: new.depends_on,
            organization_id,
            created_at,
        }
    }

    fn apply(&mut self, patch: ServicePatch) -> Result<(), Invalid> {
        let ServicePatch {
            name,
            description,
            color,
            depends_on,
        } = patch;
        let mut problems = Violations::default();
        let itself = depends_on.iter().flatten().position(|id| *id == self.id);
        if let Some(index) = itself {
            problems.add(
                format!("/depends_on/{index}"),
                ViolationCode::UnknownValue,
                format!(
                    "must be another service, got the id of {} itself",
                    self.name
                ),
            );
        }
        replace(&mut self.name, name);
        replace(&mut self.description, description);
        replace(&mut self.color, color);
        replace(&mut self.depends_on, depends_on);
        problems.into_result(())
    }
}

impl Input for ServicePatch {
    const FIELDS: &'static [&'static str] = NewService::FIELDS;

    fn read(object: &mut ObjectReader<'_>) -> Self {
        Self {
            name: object.patch_required_string("name"),
            description: object.patch("description", ObjectReader::string),
            color: object.string("color"),
            depends_on: object
                .patch("depends_on", |object, name| {
                    object.parsed_list(name, MAX_DEPENDENCIES)
                })
                .map(Option::unwrap_or_default),
        }
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        if let Some(name) = &mut self.name {
            check_name(problems, name);
        }
        if let Some(description) = &mut self.description {
            check_description(problems, description);
        }
        if let Some(color) = &mut self.color {
            rules::color(problems, "/color", color);
        }
        if let Some(depends_on) = &mut self.depends_on {
            check_depends_on(problems, depends_on);
        }
    }
}

fn check_name(problems: &mut Violations, name: &mut String) {
    rules::text(
        problems,
        "/name",
        name,
        MIN_SERVICE_NAME_CHARS..=MAX_NAME_CHARS,
        TextKind::Key,
    );
}

fn check_description(problems: &mut Violations, description: &mut Option<String>) {
    rules::optional_text(
        problems,
        "/description",
        description,
        MAX_LONG_TEXT_CHARS,
        TextKind::MultiLine,
    );
}

/// Checks the length of the list, which may come from code, and removes duplicates.
fn check_depends_on(problems: &mut Violations, ids: &mut Vec<ServiceId>) {
    if rules::at_most(problems, "/depends_on", ids, MAX_DEPENDENCIES) {
        let mut seen = HashSet::new();
        ids.retain(|id| seen.insert(*id));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;
    use crate::input::{InputError, from_json};
    use crate::problem::ViolationCode;

    /// Requires the same of creating and of updating.
    fn both(field: &str, value: &Value, expected: Option<&ViolationCode>) {
        fn code<T: Input>(body: &Value) -> Option<ViolationCode> {
            let result = from_json::<T>(body.to_string().as_bytes(), Timestamp::EPOCH);
            match result.err()? {
                InputError::Invalid(invalid) => {
                    assert_eq!(invalid.violations.len(), 1, "{invalid}");
                    Some(invalid.violations[0].code.clone())
                }
                malformed @ InputError::Malformed(_) => panic!("{malformed}"),
            }
        }
        let mut body = json!({ "name": "fine" });
        body[field] = value.clone();
        let shown: String = value.to_string().chars().take(60).collect();
        assert_eq!(
            code::<NewService>(&body).as_ref(),
            expected,
            "{field}: {shown}"
        );
        assert_eq!(
            code::<ServicePatch>(&json!({ field: value })).as_ref(),
            expected,
            "patch of {field}: {shown}"
        );
    }

    #[test]
    fn texts_at_their_limits() {
        for (field, size, code) in [
            ("name", 0, Some(ViolationCode::TooShort)),
            ("name", 1, Some(ViolationCode::TooShort)),
            ("name", 2, None),
            ("name", 3, None),
            ("name", 99, None),
            ("name", 100, None),
            ("name", 101, Some(ViolationCode::TooLong)),
            ("description", 0, None),
            ("description", MAX_LONG_TEXT_CHARS - 1, None),
            ("description", MAX_LONG_TEXT_CHARS, None),
            (
                "description",
                MAX_LONG_TEXT_CHARS + 1,
                Some(ViolationCode::TooLong),
            ),
        ] {
            for letter in ["x", "🚀"] {
                both(field, &json!(letter.repeat(size)), code.as_ref());
            }
        }
        both(
            "name",
            &json!("a\nb"),
            Some(&ViolationCode::ControlCharacter),
        );
        both("description", &json!("a\nb"), None);
    }

    #[test]
    fn colors_are_hex() {
        assert_eq!(DEFAULT_COLOR, "#6366f1");
        for good in ["#000", "#FfF", "#6366f1", "#ABCDEF", " #fff "] {
            both("color", &json!(good), None);
        }
        for bad in [
            "", "#", "#ff", "#ffff", "#fffff", "#fffffff", "fff", "#ggg", "##ff", "#é1",
        ] {
            both("color", &json!(bad), Some(&ViolationCode::InvalidFormat));
        }
    }

    #[test]
    fn dependencies_are_ids_of_other_services() {
        let id = |number: u128| ServiceId(Uuid::from_u128(number));
        let many: Vec<ServiceId> = (0..=MAX_DEPENDENCIES as u128).map(id).collect();
        both("depends_on", &json!(null), None);
        both("depends_on", &json!(many[1..]), None);
        both("depends_on", &json!(many), Some(&ViolationCode::TooMany));
        both("depends_on", &json!(id(1)), Some(&ViolationCode::WrongType));
        both("depends_on", &json!([1]), Some(&ViolationCode::WrongType));
        both(
            "depends_on",
            &json!(["x"]),
            Some(&ViolationCode::InvalidFormat),
        );

        let read = |list: Value| -> ServicePatch {
            let body = json!({ "depends_on": list }).to_string();
            from_json(body.as_bytes(), Timestamp::EPOCH).unwrap()
        };
        assert_eq!(read(json!(null)).depends_on, Some(vec![]));
        let patch = read(json!([id(2), id(1), id(2)]));
        assert_eq!(patch.depends_on, Some(vec![id(2), id(1)]));
        let mut service = Service {
            id: id(3),
            name: "payments".to_owned(),
            description: None,
            color: DEFAULT_COLOR.to_owned(),
            depends_on: vec![],
            organization_id: OrganizationId(Uuid::nil()),
            created_at: Timestamp::EPOCH,
        };
        service.apply(patch).unwrap();
        assert_eq!(service.depends_on, [id(2), id(1)]);
        let invalid = service.apply(read(json!([id(1), id(3)]))).unwrap_err();
        let expected = "depends_on/1: must be another service, got the id of payments itself";
        assert_eq!(invalid.violations[0].to_string(), expected);
    }
}
