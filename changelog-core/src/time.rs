//! Moments: milliseconds since 1970 in UTC, RFC 3339 on the wire.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::problem::BadValue;

/// A moment in UTC, to the millisecond.
///
/// On the wire it is RFC 3339 with milliseconds and `Z`
/// (`2026-11-21T08:30:00.000Z`); input may carry any offset. Anything finer
/// than a millisecond is cut off. Years 0001 to 9999.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(i64);

/// 0001-01-01T00:00:00Z
const FIRST_MILLI: i64 = -62_135_596_800_000;
/// 9999-12-31T23:59:59.999Z
const LAST_MILLI: i64 = 253_402_300_799_999;

impl Timestamp {
    /// The start of 1970: no change is older.
    pub const EPOCH: Self = Self(0);

    /// Makes a moment from milliseconds since 1970; years before 0001 and
    /// after 9999 become the first and last representable moment.
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(FIRST_MILLI, LAST_MILLI))
    }

    /// Returns the milliseconds since 1970.
    pub fn millis(self) -> i64 {
        self.0
    }

    /// Returns this moment for chrono's arithmetic and formatting.
    pub fn to_datetime(self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.0).unwrap_or_default()
    }

    /// Returns the moment this much later (or earlier), within the
    /// representable years.
    pub fn plus(self, delta: chrono::TimeDelta) -> Self {
        Self::from_millis(self.0.saturating_add(delta.num_milliseconds()))
    }
}

impl From<DateTime<Utc>> for Timestamp {
    fn from(at: DateTime<Utc>) -> Self {
        Self::from_millis(at.timestamp_millis())
    }
}

impl From<SystemTime> for Timestamp {
    /// Times before 1970 become 1970, and the rest of a millisecond is dropped.
    fn from(time: SystemTime) -> Self {
        let since = time
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Self::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(
            &self
                .to_datetime()
                .to_rfc3339_opts(SecondsFormat::Millis, true),
        )
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = BadValue;

    /// Reads RFC 3339 with any offset.
    fn from_str(text: &str) -> Result<Self, BadValue> {
        DateTime::parse_from_rfc3339(text)
            .ok()
            .map(|at| at.timestamp_millis())
            .filter(|millis| (FIRST_MILLI..=LAST_MILLI).contains(millis))
            .map(Self)
            .ok_or_else(|| {
                BadValue::format(format!(
                    "must be an RFC 3339 time with an offset such as 2026-11-21T08:30:00Z, got {}",
                    crate::rules::quoted(text)
                ))
            })
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Timestamp {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("RFC 3339, UTC, with milliseconds"))
            .examples(["2026-01-15T08:30:00.000Z"])
            .build()
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Timestamp {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_any_offset_and_writes_utc_milliseconds() {
        for (input, output) in [
            ("2026-11-21T08:30:00Z", "2026-11-21T08:30:00.000Z"),
            ("2026-11-21T10:30:00.5+02:00", "2026-11-21T08:30:00.500Z"),
            ("2026-11-21T08:30:00.123999Z", "2026-11-21T08:30:00.123Z"),
        ] {
            assert_eq!(input.parse::<Timestamp>().unwrap().to_string(), output);
        }
    }

    #[test]
    fn refuses_what_is_not_a_moment() {
        for bad in [
            "",
            "yesterday",
            "2026-11-21",
            "2026-11-21T08:30:00",
            "2026-13-01T00:00:00Z",
            "0000-01-01T00:00:00Z",
            "9999-12-31T23:59:59-01:00",
        ] {
            assert!(bad.parse::<Timestamp>().is_err(), "{bad}");
        }
    }
}
