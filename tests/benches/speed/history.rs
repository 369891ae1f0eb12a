//! The stored changes: a year of them, the same in every run except for the last day.

use std::fmt::Write;
use std::ops::Range;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

use crate::text::{mix, pick};

/// The number of changes with a rare word or tag.
const RARE_CHANGES: u64 = 100;
/// The number of rolled back changes of high risk: the oldest changes.
const ROLLED_BACK_HIGH_RISKS: u64 = 10;
const RISKS: [&str; 3] = ["high", "low", "medium"];
const STATUSES: [&str; 4] = ["completed", "in_progress", "planned", "rolled_back"];
/// A fifth of the changes has none.
const ENVIRONMENTS: [&str; 5] = ["prod", "staging", "dev", "test", ""];
const VERBS: [&str; 5] = ["Migrate", "Patch", "Restart", "Rotate", "Scale"];
/// The number of different other words.
const WORD_COUNT: u64 = 2_000;

/// The changes of one organization.
pub(crate) struct History {
    pub(crate) count: u64,
    begin: DateTime<Utc>,
    length: TimeDelta,
    /// Makes the changes of organizations differ.
    salt: u64,
    /// The ids of the services; about half of the changes have one.
    pub(crate) services: Vec<String>,
}

/// One change of a history.
pub(crate) struct Entry {
    at: DateTime<Utc>,
    random: u64,
    pub(crate) risk: &'static str,
    pub(crate) status: &'static str,
    pub(crate) environment: &'static str,
    pub(crate) deploy: bool,
    pub(crate) needle: bool,
    tags: &'static [&'static str],
    pub(crate) service: Option<usize>,
}

impl History {
    pub(crate) fn new(count: u64, salt: u64, services: Vec<String>) -> Self {
        // Ends before now, so that the newest changes are those of the benchmark.
        let end = Utc::now() - TimeDelta::minutes(10);
        Self {
            count,
            begin: end - year(),
            length: year(),
            salt: mix(salt),
            services,
        }
    }

    /// Returns the changes of a busy day some months ago.
    pub(crate) fn busy_day(count: u64, services: Vec<String>) -> Self {
        Self {
            begin: Utc::now() - TimeDelta::days(100),
            length: TimeDelta::days(1),
            ..Self::new(count, 0, services)
        }
    }

    /// Returns the end of the last change.
    pub(crate) fn end(&self) -> DateTime<Utc> {
        self.begin + self.length
    }

    /// Returns the hour in the middle of the year.
    pub(crate) fn middle_hour(&self) -> Range<DateTime<Utc>> {
        let middle = self.begin + year() / 2;
        middle..middle + TimeDelta::hours(1)
    }

    /// Returns the beginning of the last month.
    pub(crate) fn last_month(&self) -> DateTime<Utc> {
        self.begin + year() - TimeDelta::days(30)
    }

    /// Counts the changes that match a predicate.
    pub(crate) fn matching(&self, is: impl Fn(&Entry) -> bool) -> u64 {
        let all = 0..self.count;
        all.map(|index| u64::from(is(&self.entry(index)))).sum()
    }

    fn entry(&self, index: u64) -> Entry {
        let random = mix(index ^ self.salt);
        let bit = |number: u32| random >> number & 1 == 1;
        let rolled_back = index < ROLLED_BACK_HIGH_RISKS;
        let risk = if rolled_back {
            RISKS[0]
        } else {
            *pick(&RISKS, random >> 8)
        };
        let status = match risk {
            "high" if rolled_back => STATUSES[3],
            "high" => *pick(&STATUSES[..3], random >> 24),
            _ => *pick(&STATUSES, random >> 24),
        };
        let service = bit(2) && !self.services.is_empty();
        let services = u64::try_from(self.services.len()).unwrap_or(u64::MAX);
        let at = self.length.num_milliseconds() / i64::try_from(self.count).unwrap_or(i64::MAX);
        let at = TimeDelta::milliseconds(at * i64::try_from(index).unwrap_or(i64::MAX));
        Entry {
            at: self.begin + at,
            random,
            risk,
            status,
            environment: pick::<&str>(&ENVIRONMENTS, random >> 16),
            deploy: bit(0),
            needle: self.is_rare(index, 2),
            tags: match (bit(1), self.is_rare(index, 3)) {
                (true, true) => &["common", "rare"],
                (true, false) => &["common"],
                (false, true) => &["rare"],
                (false, false) => &[],
            },
            service: service.then(|| usize::try_from((random >> 40) % services).unwrap_or(0)),
        }
    }

    /// Returns whether a change is one of the rare ones, which are evenly spread.
    fn is_rare(&self, index: u64, part: u64) -> bool {
        let step = self.count / RARE_CHANGES;
        step > 0 && index % step == step / part && index / step < RARE_CHANGES
    }

    /// Writes a range of the changes as JSON, separated by commas.
    pub(crate) fn write(&self, some: Range<u64>, json: &mut String) {
        for index in some.clone() {
            if index > some.start {
                json.push(',');
            }
            self.write_one(&self.entry(index), json);
        }
    }

    fn write_one(&self, entry: &Entry, json: &mut String) {
        let mut random = entry.random;
        let mut next = || {
            random = mix(random);
            word(random)
        };
        json.push_str(r#"{"title":""#);
        let verb = *pick(&VERBS, entry.random >> 32);
        json.push_str(if entry.deploy { "Deploy" } else { verb });
        for _ in 0..3 {
            json.push(' ');
            json.extend(next().map(char::from));
        }
        if entry.needle {
            json.push_str(" needle");
        }
        json.push_str(r#"","description":"The next version of "#);
        json.extend(next().map(char::from));
        json.push_str("; the runbook says how to go back, and whom to ask.");
        for (name, value) in [("risk_level", entry.risk), ("status", entry.status)] {
            json.push_str("\",\"");
            json.push_str(name);
            json.push_str("\":\"");
            json.push_str(value);
        }
        json.push_str(r#"","tags":["#);
        for (index, tag) in entry.tags.iter().enumerate() {
            json.push_str(if index == 0 { "\"" } else { "\",\"" });
            json.push_str(tag);
        }
        json.push_str(if entry.tags.is_empty() { "]," } else { "\"]," });
        if let Some(service) = entry.service {
            json.push_str(r#""service_id":""#);
            json.push_str(&self.services[service]);
            json.push_str(r#"","#);
        }
        if !entry.environment.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(json, r#""environment":"{}","#, entry.environment);
        }
        let _ = write!(json, r#""occurred_at":"{}"}}"#, timestamp(entry.at));
    }
}

impl Entry {
    pub(crate) fn has_tag(&self, tag: &str) -> bool {
        self.tags.contains(&tag)
    }

    pub(crate) fn is_within(&self, times: &Range<DateTime<Utc>>) -> bool {
        times.contains(&self.at)
    }
}

/// Formats a time as the service does.
pub(crate) fn timestamp(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Returns one of the words. Consonants and vowels alternate, so that no word starts like
/// one that is searched for.
pub(crate) fn word(random: u64) -> [u8; 6] {
    let number = random % WORD_COUNT;
    let [first, second] = [number % 50, number / 50];
    let mut word = [0; 6];
    for (index, syllable) in [first, second, (first + second) % 50]
        .into_iter()
        .enumerate()
    {
        word[index * 2] = *pick(b"bdfgklmnrt", syllable);
        word[index * 2 + 1] = *pick(b"aeiou", syllable / 10);
    }
    word
}

fn year() -> TimeDelta {
    TimeDelta::days(365)
}
