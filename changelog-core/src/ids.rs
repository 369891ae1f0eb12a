//! Identifiers: one type for each noun, so that the id of a host cannot be used as
//! the id of a service.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::{Builder, Uuid};

use crate::limits::MIN_ID_PREFIX;
use crate::problem::BadValue;
use crate::time::Timestamp;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident $(, example $example:literal)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = BadValue;

            /// Reads the hyphenated form, in either case; no other spelling is an id.
            fn from_str(text: &str) -> Result<Self, BadValue> {
                parse_uuid(text).map(Self)
            }
        }

        impl From<Uuid> for $name {
            fn from(id: Uuid) -> Self {
                Self(id)
            }
        }

        impl From<$name> for Uuid {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .format(Some(SchemaFormat::KnownFormat(KnownFormat::Uuid)))
                    // An example of an id that a body refers to would be refused: it does
                    // not exist.
                    .examples(None::<&str>$(.or(Some($example)))?)
                    .build()
                    .into()
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $name {}
    };
}

id! {
    /// The id of a connection.
    ConnectionId
}
id! {
    /// The id of an organization.
    OrganizationId
}
id! {
    /// The id of a change: a UUID version 7 made from the time at which the
    /// change happened, so that ids sort by time.
    ChangeId, example "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90"
}
id! {
    /// The id of a host.
    HostId
}
id! {
    /// The id of an incident: a UUID version 7 made from the time at which it was recorded.
    IncidentId
}
id! {
    /// The id of a service.
    ServiceId
}
id! {
    /// The id of a source.
    SourceId
}
id! {
    /// The id of a request that a source received.
    SourceEventId
}
id! {
    /// The id of an entry in the activity log.
    ActivityId, example "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90"
}
id! {
    /// The id of an API key (not the key itself).
    ApiKeyId
}
id! {
    /// The id of a workload identity.
    WorkloadId
}
id! {
    /// The id of a user.
    UserId
}
id! {
    /// The id of an invitation.
    InvitationId
}

/// The number of hexadecimal digits of an id.
const ID_DIGITS: usize = 32;

/// The first digits of an id, or all of them, with hyphens or without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdPrefix(String);

impl IdPrefix {
    /// Returns the digits in lower case, without hyphens.
    pub fn digits(&self) -> &str {
        &self.0
    }

    /// Returns the id if this is a whole one.
    pub fn whole(&self) -> Option<Uuid> {
        (self.0.len() == ID_DIGITS)
            .then(|| Uuid::try_parse(&self.0).ok())
            .flatten()
    }

    /// Returns the first and the last id that begin with it.
    pub fn range(&self) -> (Uuid, Uuid) {
        let filled = |digit: &str| {
            let rest = digit.repeat(ID_DIGITS.saturating_sub(self.0.len()));
            Uuid::try_parse(&(self.0.clone() + &rest)).unwrap_or_default()
        };
        (filled("0"), filled("f"))
    }
}

impl fmt::Display for IdPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for IdPrefix {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
        let is_prefix = (MIN_ID_PREFIX..=ID_DIGITS).contains(&digits.len())
            && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        if is_prefix {
            return Ok(Self(digits.to_ascii_lowercase()));
        }
        Err(BadValue::format(format!(
            "must be an id or at least its first {MIN_ID_PREFIX} digits, got {}",
            crate::rules::quoted(text)
        )))
    }
}

/// Reads a UUID in its hyphenated form.
fn parse_uuid(text: &str) -> Result<Uuid, BadValue> {
    if text.len() == 36
        && let Ok(id) = Uuid::try_parse(text)
    {
        return Ok(id);
    }
    Err(BadValue::format(format!(
        "must be a UUID such as 018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90, got {}",
        crate::rules::quoted(text)
    )))
}

/// Returns a UUID version 7 (RFC 9562) from a moment and ten random bytes.
///
/// Where the part of a millisecond is known, the twelve bits after the
/// milliseconds carry it (RFC 9562 section 6.2, method 3), so that two changes
/// of one millisecond keep their order to a quarter of a microsecond.
pub fn uuid_v7(at: Timestamp, nanos_of_milli: Option<u32>, mut random: [u8; 10]) -> Uuid {
    if let Some(nanos) = nanos_of_milli {
        let fraction = u64::from(nanos.min(999_999)) * 4096 / 1_000_000;
        random[..2].copy_from_slice(&u16::try_from(fraction).unwrap_or(0xfff).to_be_bytes());
    }
    let millis = u64::try_from(at.millis()).unwrap_or(0);
    Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
}

/// Returns the moment that a UUID version 7 was made from.
pub fn time_of_uuid(id: Uuid) -> Timestamp {
    let (high, _) = id.as_u64_pair();
    Timestamp::from_millis(i64::try_from(high >> 16).unwrap_or(0))
}

/// Returns the smallest UUID version 7 of a moment: every id made at or after
/// it is equal or greater, every id made before it is smaller.
pub fn first_uuid_at(at: Timestamp) -> Uuid {
    let millis = u64::try_from(at.millis()).unwrap_or(0);
    Builder::from_unix_timestamp_millis(millis, &[0; 10]).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time() {
        let at = |millis, nanos| uuid_v7(Timestamp::from_millis(millis), Some(nanos), [7; 10]);
        assert!(at(1_000, 0) < at(1_001, 0));
        assert!(at(1_000, 250_000) < at(1_000, 500_000));
        assert!(first_uuid_at(Timestamp::from_millis(1_000)) <= at(1_000, 0));
        assert!(at(999, 999_999) < first_uuid_at(Timestamp::from_millis(1_000)));
        assert_eq!(at(1_000, 999_999).get_version_num(), 7);
        assert_eq!(time_of_uuid(at(1_000, 999_999)).millis(), 1_000);
    }

    #[test]
    fn the_beginning_of_an_id_is_a_range_of_ids() {
        let id: Uuid = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90".parse().unwrap();
        for text in ["018F4E9A", "018f4e9a-7b1c", &id.to_string()] {
            let prefix: IdPrefix = text.parse().unwrap();
            let (first, last) = prefix.range();
            assert!((first..=last).contains(&id), "{text}");
            assert_eq!(prefix.whole(), (text.len() == 36).then_some(id), "{text}");
        }
        let (first, last) = "018f4e9a".parse::<IdPrefix>().unwrap().range();
        assert_eq!(last.as_u128() - first.as_u128(), u128::MAX >> 32);
        for bad in ["", "018f4e9", "018f4e9g", &format!("{id}0")] {
            assert!(bad.parse::<IdPrefix>().is_err(), "{bad}");
        }
    }

    #[test]
    fn only_the_hyphenated_form_is_an_id() {
        let id = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";
        assert!(id.parse::<HostId>().is_ok());
        assert!(id.to_uppercase().parse::<HostId>().is_ok());
        for bad in [
            "",
            "x",
            "018f4e9a7b1c7d3e9a512f6c8b7d1e90",
            &format!("{{{id}}}"),
        ] {
            assert!(bad.parse::<HostId>().is_err(), "{bad}");
        }
    }
}
