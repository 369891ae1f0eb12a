//! Services: logical applications that changes are made to.

use serde::{Deserialize, Serialize};

use crate::ids::{OrganizationId, ServiceId};
use crate::input::{Fields, Input};
use crate::problem::Violations;
use crate::rules::{self, Lines};
use crate::time::Timestamp;

/// The color of a service for which none was chosen.
pub const DEFAULT_COLOR: &str = "#6366f1";
/// The longest description, in characters.
pub const MAX_DESCRIPTION: usize = 20_000;

/// A service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Service {
    /// Its id.
    pub id: ServiceId,
    /// Its name, unique in the organization without regard to ASCII case.
    #[cfg_attr(feature = "openapi", schema(example = "payments"))]
    pub name: String,
    /// What it is.
    #[cfg_attr(feature = "openapi", schema(required, example = "Takes card payments"))]
    pub description: Option<String>,
    /// Its color, `#rgb` or `#rrggbb`.
    #[cfg_attr(feature = "openapi", schema(example = "#6366f1"))]
    pub color: String,
    /// The organization that it belongs to.
    pub organization_id: OrganizationId,
    /// When it was recorded.
    pub created_at: Timestamp,
}

/// What makes a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewService {
    /// 2 to 100 characters; unique in the organization without regard to ASCII case.
    #[cfg_attr(
        feature = "openapi",
        schema(
            min_length = 2,
            max_length = 100,
            pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$",
            example = "payments"
        )
    )]
    pub name: String,
    /// At most 20000 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(
            max_length = 20000,
            pattern = "^([^\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f]|\\r\\n)*$",
            example = "Takes card payments"
        )
    )]
    pub description: Option<String>,
    /// A hex color; `#6366f1` when not supplied.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(pattern = "^#([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$", example = "#6366f1")
    )]
    pub color: Option<String>,
}

impl Input for NewService {
    const FIELDS: &'static [&'static str] = &["name", "description", "color"];

    fn read(fields: &mut Fields<'_>) -> Self {
        Self {
            name: fields.required_text("name"),
            description: fields.text("description"),
            color: fields.text("color"),
        }
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        check_name(problems, &mut self.name);
        check_description(problems, &mut self.description);
        if let Some(color) = &mut self.color {
            rules::color(problems, "/color", color);
        }
    }
}

/// What changes a service; what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ServicePatch {
    /// As on create.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(
            nullable = false,
            min_length = 2,
            max_length = 100,
            pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"
        )
    )]
    pub name: Option<String>,
    /// As on create; null takes it away.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, max_length = 20000, pattern = "^([^\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f]|\\r\\n)*$"))]
    pub description: Option<Option<String>>,
    /// As on create; null leaves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(pattern = "^#([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$")
    )]
    pub color: Option<String>,
}

impl Input for ServicePatch {
    const FIELDS: &'static [&'static str] = NewService::FIELDS;

    fn read(fields: &mut Fields<'_>) -> Self {
        Self {
            name: fields.patch_required_text("name"),
            description: fields.patch("description", Fields::text),
            color: fields.text("color"),
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
    }
}

fn check_name(problems: &mut Violations, name: &mut String) {
    rules::text(problems, "/name", name, 2..=100, Lines::Key);
}

fn check_description(problems: &mut Violations, description: &mut Option<String>) {
    rules::optional_text(
        problems,
        "/description",
        description,
        MAX_DESCRIPTION,
        Lines::Many,
    );
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::input::{InputError, from_json};
    use crate::problem::Code;

    /// Requires the same of creating and of updating.
    fn both(field: &str, value: &Value, expected: Option<&Code>) {
        fn code<T: Input>(body: &Value) -> Option<Code> {
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
            ("name", 0, Some(Code::TooShort)),
            ("name", 1, Some(Code::TooShort)),
            ("name", 2, None),
            ("name", 3, None),
            ("name", 99, None),
            ("name", 100, None),
            ("name", 101, Some(Code::TooLong)),
            ("description", 0, None),
            ("description", MAX_DESCRIPTION - 1, None),
            ("description", MAX_DESCRIPTION, None),
            ("description", MAX_DESCRIPTION + 1, Some(Code::TooLong)),
        ] {
            for letter in ["x", "🚀"] {
                both(field, &json!(letter.repeat(size)), code.as_ref());
            }
        }
        both("name", &json!("a\nb"), Some(&Code::ControlCharacter));
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
            both("color", &json!(bad), Some(&Code::InvalidFormat));
        }
    }
}
