//! API keys: the record, its input, and the format of the key itself.

use serde::{Deserialize, Serialize};

use crate::change::ServiceRef;
use crate::host::Environment;
use crate::ids::{ApiKeyId, OrganizationId};
use crate::input::{Input, ObjectReader};
use crate::limits::MAX_NAME_CHARS;
use crate::organization::Plan;
use crate::permissions::{Permissions, Scope};
use crate::problem::{ViolationCode, Violations};
use crate::rules::{self, TextKind};
use crate::time::Timestamp;
use crate::workload::VerifiedRun;

/// The prefix of every key, by which secret scanners recognize it.
pub const PREFIX: &str = "chlog_";
/// The number of random characters after the prefix.
pub const RANDOM_LENGTH: usize = 32;
/// The number of characters of the checksum at the end.
const CHECKSUM_LENGTH: usize = 6;
/// The number of characters of a masked key at its end.
const SHOWN_CHARS: usize = 4;
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Builds a key from [`RANDOM_LENGTH`] random base62 characters.
pub fn assemble(random: &str) -> String {
    format!("{PREFIX}{random}{}", checksum(random))
}

/// Returns whether a string has the format and the checksum of a key, which
/// detects a mistyped or truncated key without a request.
pub fn is_well_formed(key: &str) -> bool {
    let Some(rest) = key.strip_prefix(PREFIX) else {
        return false;
    };
    rest.len() == RANDOM_LENGTH + CHECKSUM_LENGTH
        && rest.bytes().all(|b| b.is_ascii_alphanumeric())
        && checksum(&rest[..RANDOM_LENGTH]) == rest[RANDOM_LENGTH..]
}

/// Masks a key: returns its prefix and last four characters. Of a string that is not a
/// key, the prefix is left out, and the last characters too if there are few others.
pub fn mask(key: &str) -> String {
    let (prefix, rest) = match key.strip_prefix(PREFIX) {
        Some(rest) => (PREFIX, rest),
        None => ("", key),
    };
    let mut last = rest.char_indices().rev();
    let shown = last.nth(SHOWN_CHARS - 1).map(|(index, _)| &rest[index..]);
    let is_long = last.count() >= SHOWN_CHARS;
    format!("{prefix}…{}", shown.filter(|_| is_long).unwrap_or_default())
}

/// CRC-32 (ISO 3309) of the random part in base62, the least digit last.
fn checksum(random: &str) -> String {
    let mut rest = crc32fast::hash(random.as_bytes()) as usize;
    let mut digits = [b'0'; CHECKSUM_LENGTH];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[rest % 62];
        rest /= 62;
    }
    digits.iter().map(|b| char::from(*b)).collect()
}

/// An API key as it may be shown: never the key itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    /// The id of the key, for revoking it.
    pub id: ApiKeyId,
    /// The name chosen at creation.
    pub name: String,
    /// The masked key: its prefix and last four characters.
    pub masked: String,
    /// The organization that the key acts for.
    pub organization_id: OrganizationId,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The name of its creator at that time, if known.
    pub created_by: Option<String>,
    /// The time of the last use, to the minute.
    pub last_used_at: Option<Timestamp>,
    /// The time at which the key expires.
    pub expires_at: Option<Timestamp>,
    /// The time at which the key was revoked.
    pub revoked_at: Option<Timestamp>,
    /// What the key may do.
    #[serde(flatten)]
    pub permissions: Permissions,
}

/// The key, or the token of a pipeline, that a request carries: the response to
/// `GET /api/key`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeyInfo {
    /// The id of the key or of the workload identity.
    pub id: ApiKeyId,
    /// The name chosen at creation.
    #[cfg_attr(feature = "openapi", schema(example = "terraform"))]
    pub name: String,
    /// What the token of a pipeline says of its run; absent for a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Box<VerifiedRun>>,
    /// The masked key: its prefix and last four characters; `id token` for a token.
    #[cfg_attr(feature = "openapi", schema(example = "chlog_…4f2a"))]
    pub masked: String,
    /// The organization that the key acts for.
    pub organization: OrganizationRef,
    /// The organization's plan.
    pub plan: Plan,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time at which the key or the token expires.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub expires_at: Option<Timestamp>,
    /// What the key may do: `read` everything, `record` changes, and `admin`: create and
    /// update hosts and services.
    pub scopes: Vec<Scope>,
    /// The environments that the key may record changes in; empty when there is no limit.
    pub environments: Vec<Environment>,
    /// The services that the key may record changes of; empty when there is no limit.
    pub services: Vec<ServiceRef>,
}

/// What the service says of a request without a key that it accepts: the beginning of its
/// detail, which a client may put in other words.
pub const NOT_ACCEPTED: &str = "missing or invalid API key";

/// The organization of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OrganizationRef {
    /// The id.
    pub id: OrganizationId,
    /// The name.
    #[cfg_attr(feature = "openapi", schema(example = "Acme"))]
    pub name: String,
}

/// A new key: the only time that its value is shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedApiKey {
    /// The id of the key, for revoking it.
    pub id: ApiKeyId,
    /// The name chosen at creation.
    pub name: String,
    /// The key.
    pub key: String,
    /// The organization that the key acts for.
    pub organization_id: OrganizationId,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time at which the key expires.
    pub expires_at: Option<Timestamp>,
    /// What the key may do.
    #[serde(flatten)]
    pub permissions: Permissions,
}

/// Input for creating an API key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewApiKey {
    /// The name.
    pub name: String,
    /// The time at which the key expires; in the future.
    pub expires_at: Option<Timestamp>,
    /// What the key may do.
    pub permissions: Permissions,
}

impl Input for NewApiKey {
    const FIELDS: &'static [&'static str] = &[
        "name",
        "expires_at",
        Permissions::FIELDS[0],
        Permissions::FIELDS[1],
        Permissions::FIELDS[2],
    ];

    fn read(object: &mut ObjectReader<'_>) -> Self {
        Self {
            name: object.required_string("name"),
            expires_at: object.parsed("expires_at"),
            permissions: Permissions::read(object),
        }
    }

    fn check(&mut self, problems: &mut Violations, now: Timestamp) {
        rules::text(
            problems,
            "/name",
            &mut self.name,
            1..=MAX_NAME_CHARS,
            TextKind::Name,
        );
        if let Some(at) = self.expires_at
            && at <= now
        {
            let message = format!("must be in the future, got {at}");
            problems.add("/expires_at", ViolationCode::OutOfRange, message);
        }
        self.permissions.check(problems);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_told_by_its_checksum() {
        let key = assemble("0123456789abcdefghijABCDEFGHIJ01");
        assert_eq!(key.len(), 44);
        assert!(is_well_formed(&key));
        assert!(mask(&key).starts_with("chlog_…") && key.ends_with(&mask(&key)["chlog_…".len()..]));
        for (index, _) in key.char_indices().skip(PREFIX.len()) {
            let mut other = key.clone();
            let replacement = if key.as_bytes()[index] == b'x' {
                "y"
            } else {
                "x"
            };
            other.replace_range(index..=index, replacement);
            assert!(!is_well_formed(&other), "{other}");
        }
        for bad in [
            "",
            "chlog_",
            &key[..43],
            &format!("{key}0"),
            "chlog_ééééééééééééééééééé",
        ] {
            assert!(!is_well_formed(bad), "{bad}");
        }
    }

    #[test]
    fn names_and_expiry_at_their_limits() {
        let now = Timestamp::from_millis(1_000_000);
        for (size, after, taken) in [
            (0, None, false),
            (1, None, true),
            (99, None, true),
            (100, None, true),
            (101, None, false),
            (1, Some(-1), false),
            (1, Some(0), false),
            (1, Some(1), true),
        ] {
            let new = NewApiKey {
                name: "x".repeat(size),
                expires_at: after.map(|millis| Timestamp::from_millis(now.millis() + millis)),
                permissions: Permissions::default(),
            };
            assert_eq!(new.checked(now).is_ok(), taken, "{size}, {after:?}");
        }
    }
}
