//! Hosts: machines that changes are made on.

use serde::{Deserialize, Serialize};

use crate::activity::ResourceType;
use crate::ids::{HostId, OrganizationId};
use crate::input::{Input, ObjectReader};
use crate::limits::{MAX_FQDN_CHARS, MAX_HOST_DESCRIPTION_CHARS, MAX_NAME_CHARS, MAX_ROLES};
use crate::named::{Named, replace};
use crate::problem::{Invalid, Violations};
use crate::rules::{self, TextKind};
use crate::time::Timestamp;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// The platform that a host runs on.
    Platform, "a platform", example "aws" {
        /// The organization's own premises.
        OnPrem = "on-prem",
        /// The organization's own cloud.
        PrivateCloud = "private-cloud",
        /// Amazon Web Services.
        Aws = "aws",
        /// Google Cloud.
        Gcp = "gcp",
        /// Microsoft Azure.
        Azure = "azure",
        /// Any other platform.
        Other = "other",
    }
}

wire_enum! {
    /// The environment of a host.
    Environment, "an environment", example "prod" {
        /// Production.
        Prod = "prod",
        /// Staging.
        Staging = "staging",
        /// Development.
        Dev = "dev",
        /// Tests.
        Test = "test",
    }
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Host {
    /// The id.
    pub id: HostId,
    /// The name, unique in the organization without regard to ASCII case.
    #[cfg_attr(feature = "openapi", schema(example = "web-1"))]
    pub hostname: String,
    /// The fully qualified domain name.
    #[cfg_attr(feature = "openapi", schema(required, example = "web-1.example.com"))]
    pub fqdn: Option<String>,
    /// The IP address in canonical form.
    #[cfg_attr(feature = "openapi", schema(required, example = "192.0.2.10"))]
    pub ip_address: Option<String>,
    /// The operating system.
    #[cfg_attr(feature = "openapi", schema(required, example = "Debian 12"))]
    pub os: Option<String>,
    /// The platform.
    pub platform: Platform,
    /// The environment.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub environment: Option<Environment>,
    /// The roles.
    #[cfg_attr(feature = "openapi", schema(example = json!(["web", "cache"])))]
    pub roles: Vec<String>,
    /// A description.
    #[cfg_attr(feature = "openapi", schema(required, example = "Behind the balancer"))]
    pub description: Option<String>,
    /// The organization that the host belongs to.
    pub organization_id: OrganizationId,
    /// The time at which the host was created.
    pub created_at: Timestamp,
}

/// Input for creating a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewHost {
    /// The name; unique in the organization without regard to ASCII case.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::KeyName))]
    pub hostname: String,
    /// The fully qualified domain name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Fqdn>))]
    pub fqdn: Option<String>,
    /// An IPv4 or IPv6 address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::IpAddress>))]
    pub ip_address: Option<String>,
    /// The operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::OptionalName>))]
    pub os: Option<String>,
    /// The platform; `on-prem` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// The environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// The roles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Roles>))]
    pub roles: Vec<String>,
    /// A description.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::HostDescription>))]
    pub description: Option<String>,
}

impl Input for NewHost {
    const FIELDS: &'static [&'static str] = &[
        "hostname",
        "fqdn",
        "ip_address",
        "os",
        "platform",
        "environment",
        "roles",
        "description",
    ];

    fn read(object: &mut ObjectReader<'_>) -> Self {
        Self {
            hostname: object.required_string("hostname"),
            fqdn: object.string("fqdn"),
            ip_address: object.string("ip_address"),
            os: object.string("os"),
            platform: object.parsed("platform"),
            environment: object.parsed("environment"),
            roles: object.strings("roles", MAX_ROLES).unwrap_or_default(),
            description: object.string("description"),
        }
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        check_hostname(problems, &mut self.hostname);
        check_fqdn(problems, &mut self.fqdn);
        check_ip_address(problems, &mut self.ip_address);
        check_os(problems, &mut self.os);
        rules::names(
            problems,
            "/roles",
            &mut self.roles,
            MAX_ROLES,
            TextKind::Key,
        );
        check_description(problems, &mut self.description);
    }
}

/// Input for updating a host. Absent fields keep their value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct HostPatch {
    /// As on create.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::KeyName, required = false))]
    pub hostname: Option<String>,
    /// As on create; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Fqdn>))]
    pub fqdn: Option<Option<String>>,
    /// As on create; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::IpAddress>))]
    pub ip_address: Option<Option<String>>,
    /// As on create; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::OptionalName>))]
    pub os: Option<Option<String>>,
    /// As on create; null keeps the present value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// As on create; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Environment>))]
    pub environment: Option<Option<Environment>>,
    /// As on create; replaces the whole list. Null empties it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Roles>))]
    pub roles: Option<Vec<String>>,
    /// As on create; null clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::HostDescription>))]
    pub description: Option<Option<String>>,
}

impl Named for Host {
    const NOUN: &'static str = "host";
    const RESOURCE_TYPE: ResourceType = ResourceType::Host;
    const PLURAL: &'static str = "hosts";
    const NAME_FIELD: &'static str = "hostname";

    type Id = HostId;
    type New = NewHost;
    type Patch = HostPatch;

    fn id(&self) -> HostId {
        self.id
    }

    fn name(&self) -> &str {
        &self.hostname
    }

    fn named(hostname: String) -> NewHost {
        NewHost {
            hostname,
            ..NewHost::default()
        }
    }

    fn name_of(new: &NewHost) -> &str {
        &new.hostname
    }

    fn create(
        new: NewHost,
        id: HostId,
        organization_id: OrganizationId,
        created_at: Timestamp,
    ) -> Self {
        Self {
            id,
            hostname: new.hostname,
            fqdn: new.fqdn,
            ip_address: new.ip_address,
            os: new.os,
            platform: new.platform.unwrap_or(Platform::OnPrem),
            environment: new.environment,
            roles: new.roles,
            description: new.description,
            organization_id,
            created_at,
        }
    }

    fn apply(&mut self, patch: HostPatch) -> Result<(), Invalid> {
        let HostPatch {
            hostname,
            fqdn,
            ip_address,
            os,
            platform,
            environment,
            roles,
            description,
        } = patch;
        replace(&mut self.hostname, hostname);
        replace(&mut self.fqdn, fqdn);
        replace(&mut self.ip_address, ip_address);
        replace(&mut self.os, os);
        replace(&mut self.platform, platform);
        replace(&mut self.environment, environment);
        replace(&mut self.roles, roles);
        replace(&mut self.description, description);
        Ok(())
    }
}

impl Input for HostPatch {
    const FIELDS: &'static [&'static str] = NewHost::FIELDS;

    fn read(object: &mut ObjectReader<'_>) -> Self {
        Self {
            hostname: object.patch_required_string("hostname"),
            fqdn: object.patch("fqdn", ObjectReader::string),
            ip_address: object.patch("ip_address", ObjectReader::string),
            os: object.patch("os", ObjectReader::string),
            platform: object.parsed("platform"),
            environment: object.patch("environment", ObjectReader::parsed),
            roles: object
                .patch("roles", |object, name| object.strings(name, MAX_ROLES))
                .map(Option::unwrap_or_default),
            description: object.patch("description", ObjectReader::string),
        }
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        if let Some(hostname) = &mut self.hostname {
            check_hostname(problems, hostname);
        }
        if let Some(fqdn) = &mut self.fqdn {
            check_fqdn(problems, fqdn);
        }
        if let Some(address) = &mut self.ip_address {
            check_ip_address(problems, address);
        }
        if let Some(os) = &mut self.os {
            check_os(problems, os);
        }
        if let Some(roles) = &mut self.roles {
            rules::names(problems, "/roles", roles, MAX_ROLES, TextKind::Key);
        }
        if let Some(description) = &mut self.description {
            check_description(problems, description);
        }
    }
}

fn check_hostname(problems: &mut Violations, hostname: &mut String) {
    rules::text(
        problems,
        "/hostname",
        hostname,
        1..=MAX_NAME_CHARS,
        TextKind::Key,
    );
}

fn check_fqdn(problems: &mut Violations, fqdn: &mut Option<String>) {
    rules::optional_text(problems, "/fqdn", fqdn, MAX_FQDN_CHARS, TextKind::Line);
}

fn check_ip_address(problems: &mut Violations, address: &mut Option<String>) {
    if let Some(address) = address {
        rules::ip_address(problems, "/ip_address", address);
    }
}

fn check_os(problems: &mut Violations, os: &mut Option<String>) {
    rules::optional_text(problems, "/os", os, MAX_NAME_CHARS, TextKind::Line);
}

fn check_description(problems: &mut Violations, description: &mut Option<String>) {
    rules::optional_text(
        problems,
        "/description",
        description,
        MAX_HOST_DESCRIPTION_CHARS,
        TextKind::MultiLine,
    );
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::input::{InputError, from_json};
    use crate::problem::ViolationCode;

    /// Requires the same of creating and of updating.
    fn both(field: &str, value: &Value, expected: Option<(&str, ViolationCode)>) {
        fn broken<T: Input>(body: &Value) -> Option<(String, ViolationCode)> {
            let result = from_json::<T>(body.to_string().as_bytes(), Timestamp::EPOCH);
            match result.err()? {
                InputError::Invalid(mut invalid) => {
                    let only = invalid.violations.pop()?;
                    assert!(invalid.violations.is_empty(), "{invalid}");
                    Some((only.pointer, only.code))
                }
                malformed @ InputError::Malformed(_) => panic!("{malformed}"),
            }
        }
        let expected = expected.map(|(pointer, code)| (pointer.to_owned(), code));
        let mut body = json!({ "hostname": "fine" });
        body[field] = value.clone();
        let shown: String = value.to_string().chars().take(60).collect();
        assert_eq!(broken::<NewHost>(&body), expected, "{field}: {shown}");
        let patch = json!({ field: value });
        assert_eq!(
            broken::<HostPatch>(&patch),
            expected,
            "patch of {field}: {shown}"
        );
    }

    #[test]
    fn texts_at_their_limits() {
        for (field, least, most) in [
            ("hostname", 1, MAX_NAME_CHARS),
            ("fqdn", 0, MAX_FQDN_CHARS),
            ("os", 0, MAX_NAME_CHARS),
            ("description", 0, MAX_HOST_DESCRIPTION_CHARS),
        ] {
            let pointer = format!("/{field}");
            for letter in ["x", "é", "🚀"] {
                for size in [least, least + 1, most - 1, most] {
                    both(field, &json!(letter.repeat(size)), None);
                }
                let long = json!(letter.repeat(most + 1));
                both(field, &long, Some((&pointer, ViolationCode::TooLong)));
            }
            if least > 0 {
                both(
                    field,
                    &json!(" "),
                    Some((&pointer, ViolationCode::TooShort)),
                );
            }
            both(
                field,
                &json!("a\u{0}b"),
                Some((&pointer, ViolationCode::ControlCharacter)),
            );
        }
        both("description", &json!("a\n\tb"), None);
        both(
            "os",
            &json!("a\nb"),
            Some(("/os", ViolationCode::ControlCharacter)),
        );
    }

    #[test]
    fn roles_at_their_limits() {
        for (size, code) in [
            (0, None),
            (MAX_ROLES - 1, None),
            (MAX_ROLES, None),
            (MAX_ROLES + 1, Some(("/roles", ViolationCode::TooMany))),
        ] {
            both("roles", &json!(vec!["web"; size]), code);
        }
        for (size, code) in [
            (0, Some(("/roles/0", ViolationCode::TooShort))),
            (1, None),
            (99, None),
            (100, None),
            (101, Some(("/roles/0", ViolationCode::TooLong))),
        ] {
            both("roles", &json!(["x".repeat(size)]), code);
        }
    }

    #[test]
    fn words_are_the_specifications() {
        assert_eq!(
            Platform::WORDS,
            ["on-prem", "private-cloud", "aws", "gcp", "azure", "other"]
        );
        assert_eq!(Environment::WORDS, ["prod", "staging", "dev", "test"]);
        for word in Platform::WORDS {
            both("platform", &json!(word), None);
        }
        for word in Environment::WORDS {
            both("environment", &json!(word), None);
        }
        both(
            "platform",
            &json!("AWS"),
            Some(("/platform", ViolationCode::UnknownValue)),
        );
        both(
            "environment",
            &json!(""),
            Some(("/environment", ViolationCode::UnknownValue)),
        );
    }

    #[test]
    fn addresses_become_canonical() {
        for (given, kept) in [
            ("192.0.2.10", "192.0.2.10"),
            (" ::1 ", "::1"),
            ("2001:0DB8:0:0::1", "2001:db8::1"),
            ("::ffff:192.0.2.1", "::ffff:192.0.2.1"),
        ] {
            let body = json!({ "hostname": "h", "ip_address": given }).to_string();
            let host: NewHost = from_json(body.as_bytes(), Timestamp::EPOCH).unwrap();
            assert_eq!(host.ip_address.as_deref(), Some(kept));
        }
        for bad in [
            "",
            "192.0.2",
            "192.0.2.256",
            "192.0.2.1:80",
            "::1%eth0",
            "localhost",
        ] {
            both(
                "ip_address",
                &json!(bad),
                Some(("/ip_address", ViolationCode::InvalidFormat)),
            );
        }
    }
}
