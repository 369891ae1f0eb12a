//! How long an organization keeps what it has recorded.

use std::fmt;
use std::str::FromStr;

use chrono::Months;

use crate::input::{Input, ObjectReader};
use crate::problem::{BadValue, Violations};
use crate::time::Timestamp;

/// The longest retention that can be set: 20 years.
const MAX_MONTHS: u32 = 240;

/// For how many calendar months an organization keeps its changes, its resolved incidents and
/// its activity: 1 to 240.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionMonths(u32);

impl RetentionMonths {
    /// Returns the number of months.
    pub fn get(self) -> u32 {
        self.0
    }

    /// Returns the time before which nothing is kept.
    pub fn cutoff(self, now: Timestamp) -> Timestamp {
        let cutoff = now.to_datetime().checked_sub_months(Months::new(self.0));
        cutoff.map_or(Timestamp::EPOCH, Timestamp::from)
    }
}

impl TryFrom<i64> for RetentionMonths {
    type Error = BadValue;

    fn try_from(months: i64) -> Result<Self, BadValue> {
        months.to_string().parse()
    }
}

impl FromStr for RetentionMonths {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text.trim().parse() {
            Ok(months @ 1..=MAX_MONTHS) => Ok(Self(months)),
            _ => Err(BadValue::format(format!(
                "must be a number of months from 1 to {MAX_MONTHS}, got {text:?}"
            ))),
        }
    }
}

/// Such as `1 month` or `18 months`.
impl fmt::Display for RetentionMonths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0 == 1 { "" } else { "s" };
        write!(f, "{} month{plural}", self.0)
    }
}

/// Input that sets for how long an organization keeps what it has recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionInput {
    /// For how many months; `None` forever.
    pub months: Option<RetentionMonths>,
}

impl Input for RetentionInput {
    const FIELDS: &'static [&'static str] = &["months"];

    fn read(object: &mut ObjectReader<'_>) -> Self {
        Self {
            months: object.parsed("months"),
        }
    }

    fn check(&mut self, _problems: &mut Violations, _now: Timestamp) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_are_those_of_the_calendar() {
        let months = |text: &str| text.parse::<RetentionMonths>();
        for bad in ["0", "241", "-1", "", "six", "1.5", "99999999999"] {
            let error = months(bad).unwrap_err();
            assert!(error.message.contains("from 1 to 240"), "{bad}: {error}");
        }
        assert_eq!(months("1").unwrap().to_string(), "1 month");
        assert_eq!(months(" 18 ").unwrap().to_string(), "18 months");
        let now: Timestamp = "2026-05-31T10:00:00Z".parse().unwrap();
        let cutoff = |text| months(text).unwrap().cutoff(now).to_string();
        assert_eq!(cutoff("3"), "2026-02-28T10:00:00.000Z");
        assert_eq!(cutoff("240"), "2006-05-31T10:00:00.000Z");
    }
}
