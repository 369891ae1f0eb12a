//! The health report.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// Whether the service can work.
    HealthStatus, "a status", example "ok" {
        /// The database answers.
        Ok = "ok",
        /// The database does not answer, or cannot be written to.
        Degraded = "degraded",
    }
}

wire_enum! {
    /// Whether the database answers.
    DbStatus, "a database status", example "reachable" {
        /// A round trip succeeded.
        Reachable = "reachable",
        /// No answer in time, or an error.
        Unreachable = "unreachable",
    }
}

/// The response to `GET /api/health`: with `latency_ms` and `timestamp` when
/// healthy, with `error` when not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Health {
    /// Whether the service can work.
    pub status: HealthStatus,
    /// Whether the database answers.
    pub db: DbStatus,
    /// The round-trip time of the database, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false, example = 1))]
    pub latency_ms: Option<u64>,
    /// The time of the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub timestamp: Option<Timestamp>,
    /// A fixed description of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(nullable = false, example = "the database does not answer")
    )]
    pub error: Option<String>,
}

impl Health {
    /// Returns the report for a database that answered.
    pub fn ok(latency_ms: u64, timestamp: Timestamp) -> Self {
        Self {
            status: HealthStatus::Ok,
            db: DbStatus::Reachable,
            latency_ms: Some(latency_ms),
            timestamp: Some(timestamp),
            error: None,
        }
    }

    /// Returns the report for a database that did not answer.
    pub fn degraded(error: &str) -> Self {
        Self {
            status: HealthStatus::Degraded,
            db: DbStatus::Unreachable,
            latency_ms: None,
            timestamp: None,
            error: Some(error.to_owned()),
        }
    }

    /// Returns the report for a database that answers but cannot be written to.
    pub fn read_only(error: &str) -> Self {
        Self {
            db: DbStatus::Reachable,
            ..Self::degraded(error)
        }
    }

    /// Returns whether the service can work.
    pub fn is_ok(&self) -> bool {
        self.status == HealthStatus::Ok
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reports_have_the_specified_members() {
        let at: Timestamp = "2026-11-21T08:30:00Z".parse().unwrap();
        let healthy = Health::ok(2, at);
        assert!(healthy.is_ok());
        let expected = json!({
            "status": "ok", "db": "reachable", "latency_ms": 2, "timestamp": "2026-11-21T08:30:00.000Z",
        });
        assert_eq!(serde_json::to_value(&healthy).unwrap(), expected);
        let degraded = Health::degraded("gone");
        assert!(!degraded.is_ok());
        let expected = json!({ "status": "degraded", "db": "unreachable", "error": "gone" });
        assert_eq!(serde_json::to_value(&degraded).unwrap(), expected);
    }
}
