//! A request of a sender.

use std::collections::BTreeMap;

use changelog_core::Timestamp;
use serde::{Deserialize, Serialize};

/// The headers of a request that matter to a kind: names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Headers(BTreeMap<String, String>);

impl Headers {
    /// Returns the value of a header; the name is in lower case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns those headers that may be stored: without proofs of origin.
    pub fn without_secrets(&self) -> Self {
        let is_secret = |name: &str| {
            name.contains("signature")
                || name.contains("token")
                || name.contains("secret")
                || (name.contains("key") && name != "idempotency-key")
                || matches!(name, "authorization" | "cookie" | "proxy-authorization")
        };
        let kept = self.0.iter().filter(|(name, _)| !is_secret(name));
        Self(
            kept.map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        )
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Headers {
    /// Joins the values of one name by commas, as HTTP allows.
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut headers: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in pairs {
            let value = value.into();
            headers
                .entry(name.into().to_ascii_lowercase())
                .and_modify(|all| {
                    all.push(',');
                    all.push_str(&value);
                })
                .or_insert(value);
        }
        Self(headers)
    }
}

/// A request of a sender, as it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Received<'r> {
    /// The headers.
    pub headers: &'r Headers,
    /// The body.
    pub body: &'r [u8],
    /// When it arrived: the time of what has no time of its own.
    pub at: Timestamp,
}
