//! The question: which moment, what was affected, and how far to look back.

use crate::host::Environment;
use crate::ids::{HostId, ServiceId};
use crate::limits::{
    DEFAULT_SUSPECTS, MAX_QUERY_WORDS, MAX_SUSPECTS, MAX_TITLE_CHARS, MAX_WINDOW_MINUTES,
};
use crate::problem::Invalid;
use crate::problem::ViolationCode;
use crate::query::{Pairs, Query};
use crate::text;
use crate::time::Timestamp;

/// The fewest characters of a word that is compared with titles. Shorter ones are in
/// too many titles.
const MIN_WORD_CHARS: usize = 3;
/// Words that sentences have in common, whatever they are about.
const COMMON_WORDS: [&str; 40] = [
    "about", "after", "all", "and", "any", "are", "because", "been", "before", "but", "can",
    "cannot", "does", "for", "from", "had", "has", "have", "into", "its", "not", "now", "off",
    "our", "out", "over", "since", "some", "that", "the", "their", "there", "they", "this", "too",
    "was", "when", "were", "with", "you",
];

/// The moment, what was affected, and how far to look back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AroundFilter {
    /// The end of the window; now by default.
    pub at: Option<Timestamp>,
    /// The service that was affected.
    pub service_id: Option<ServiceId>,
    /// The host that was affected.
    pub host_id: Option<HostId>,
    /// The environment that was affected; that of the host by default.
    pub environment: Option<Environment>,
    /// The symptom. Its words are compared with titles and names of services.
    pub q: Option<String>,
    /// The length of the window in minutes, 1 to [`MAX_WINDOW_MINUTES`]. By default a
    /// day, or longer if that day has nothing of weight.
    pub window_minutes: Option<u64>,
    /// Whether planned changes are ranked, too.
    pub planned: bool,
    /// The most changes to return, 1 to [`MAX_SUSPECTS`].
    pub limit: u64,
}

impl Default for AroundFilter {
    fn default() -> Self {
        Self {
            at: None,
            service_id: None,
            host_id: None,
            environment: None,
            q: None,
            window_minutes: None,
            planned: false,
            limit: DEFAULT_SUSPECTS,
        }
    }
}

impl AroundFilter {
    /// Reads a query string; a `limit` above the maximum becomes the maximum, a
    /// window above it is refused.
    pub fn from_query(raw: &str) -> Result<Self, Invalid> {
        let mut query = Query::new(raw);
        let filter = Self {
            at: query.parsed("at"),
            service_id: query.parsed("service_id"),
            host_id: query.parsed("host_id"),
            environment: query.parsed("environment"),
            q: query.one("q"),
            window_minutes: query.number("window_minutes", 1),
            planned: query.flag("planned"),
            limit: query
                .number("limit", 1)
                .unwrap_or(DEFAULT_SUSPECTS)
                .min(MAX_SUSPECTS),
        };
        if let Some(minutes) = filter.window_minutes
            && minutes > MAX_WINDOW_MINUTES
        {
            let message = format!("must be at most {MAX_WINDOW_MINUTES} (7 days), got {minutes}");
            query.add("window_minutes", ViolationCode::OutOfRange, message);
        }
        query.finish(filter)
    }

    /// Writes the query string that [`Self::from_query`] reads.
    pub fn to_query(&self) -> String {
        let mut pairs = Pairs::default();
        pairs.push_some("at", self.at);
        pairs.push_some("service_id", self.service_id);
        pairs.push_some("host_id", self.host_id);
        pairs.push_some("environment", self.environment.as_ref());
        pairs.push_some("q", self.q.as_ref());
        pairs.push_some("window_minutes", self.window_minutes);
        pairs.push_some("planned", self.planned.then_some(true));
        pairs.push("limit", self.limit);
        pairs.finish()
    }

    /// Replaces the symptom by its words that are compared, so that it may be a whole log and
    /// the address of the request is still of a moderate length.
    pub fn with_short_symptom(mut self) -> Self {
        let mut words = self.words();
        // No title has a longer one.
        words.retain(|word| word.chars().count() <= MAX_TITLE_CHARS);
        self.q = (!words.is_empty()).then(|| words.join(" "));
        self
    }

    /// Returns the words of the symptom that are compared, at most
    /// [`MAX_QUERY_WORDS`]: the first ones of three or more characters, without those
    /// that most sentences have.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for word in text::words(self.q.as_deref().unwrap_or_default()) {
            let is_short = word.chars().nth(MIN_WORD_CHARS - 1).is_none();
            if !is_short && !COMMON_WORDS.contains(&word.as_str()) && !words.contains(&word) {
                words.push(word);
            }
            if words.len() == MAX_QUERY_WORDS {
                break;
            }
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "018f4e9a-7b1c-7d3e-9a51-000000000001";

    #[test]
    fn the_window_and_the_limit_have_limits() {
        let read = |query: &str| {
            AroundFilter::from_query(query).map(|filter| (filter.window_minutes, filter.limit))
        };
        for (query, expected) in [
            ("", (None, 20)),
            ("window_minutes=1&limit=1", (Some(1), 1)),
            ("window_minutes=10080&limit=100", (Some(10_080), 100)),
            ("limit=101", (None, 100)),
        ] {
            assert_eq!(read(query), Ok(expected), "{query}");
        }
        for query in [
            "window_minutes=0",
            "window_minutes=10081",
            "limit=0",
            "page=1",
            "planned=1",
            "environment=moon",
        ] {
            assert!(read(query).is_err(), "{query}");
        }
    }

    #[test]
    fn what_a_client_writes_is_what_the_service_reads() {
        let filter = AroundFilter {
            at: "2026-11-21T12:00:00.000Z".parse().ok(),
            service_id: ID.parse().ok(),
            host_id: ID.parse().ok(),
            environment: Some(Environment::Staging),
            q: Some("50% & more=?#".into()),
            window_minutes: Some(7),
            planned: true,
            limit: 3,
        };
        assert_eq!(AroundFilter::from_query(&filter.to_query()), Ok(filter));
        let defaults = AroundFilter::default();
        assert_eq!(AroundFilter::from_query(&defaults.to_query()), Ok(defaults));
    }

    #[test]
    fn a_symptom_is_compared_by_its_telling_words() {
        let words = |q: &str| {
            let filter = AroundFilter {
                q: Some(q.to_owned()),
                ..AroundFilter::default()
            };
            filter.words()
        };
        assert_eq!(
            words("The checkout returns 502 for EU, the Checkout!"),
            ["checkout", "returns", "502"]
        );
        assert!(words("is it on?").is_empty());
        assert!(AroundFilter::default().words().is_empty());
        let many: Vec<String> = (100..200).map(|number| number.to_string()).collect();
        assert_eq!(words(&many.join(" ")), many[..MAX_QUERY_WORDS]);
    }

    #[test]
    fn a_short_symptom_has_the_same_words() {
        let short = |q: &str| {
            let filter = AroundFilter {
                q: Some(q.to_owned()),
                ..AroundFilter::default()
            };
            let short = filter.clone().with_short_symptom();
            assert_eq!(short.words(), filter.words());
            short.q
        };
        assert_eq!(short("It is on"), None);
        assert_eq!(
            short("Überlauf: the STRASSE, ﬁlter").as_deref(),
            Some("uberlauf strasse filter")
        );
        let log = "ERROR: connection 17 refused, retrying\n".repeat(1_000);
        assert_eq!(
            short(&log).as_deref(),
            Some("error connection refused retrying")
        );
        let with_token = AroundFilter {
            q: Some(format!("timeout {}", "x".repeat(10_000))),
            ..AroundFilter::default()
        };
        assert_eq!(
            with_token.with_short_symptom().q.as_deref(),
            Some("timeout")
        );
    }
}
