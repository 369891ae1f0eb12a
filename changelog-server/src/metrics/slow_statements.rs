//! The slowest statements since the process was started. sqlx warns of each one that took a
//! second or more, which is how they come into the log; this layer of the log's subscriber keeps
//! the longest run of each. The subscriber is one for a process, and so is what it keeps.

use std::sync::{Mutex, MutexGuard, PoisonError};

use changelog_core::Timestamp;
use chrono::Utc;
use serde::{Deserialize, Serialize};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Where sqlx reports statements.
const TARGET: &str = "sqlx::query";
/// The limit on statements that are kept.
const MAX_KEPT: usize = 20;
/// The limit on the characters of a statement that are kept.
const MAX_CHARS: usize = 500;

/// The slowest first.
static KEPT: Mutex<Vec<SlowStatement>> = Mutex::new(Vec::new());

/// A statement that took a second or more, without its values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SlowStatement {
    /// Its text, its first 500 characters.
    pub(crate) statement: String,
    /// How often it was slow.
    pub(crate) count: u64,
    /// How long the slowest run took.
    pub(crate) longest_seconds: f64,
    /// When a slow run ended last.
    pub(crate) last_at: Timestamp,
}

/// Returns what the server keeps, the slowest first.
pub(crate) fn slowest() -> Vec<SlowStatement> {
    kept().clone()
}

/// Returns the layer that keeps them.
pub(crate) fn layer<S>() -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    SlowStatements.with_filter(Targets::new().with_target(TARGET, Level::WARN))
}

struct SlowStatements;

impl<S: Subscriber> Layer<S> for SlowStatements {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut reported = Reported::default();
        event.record(&mut reported);
        keep(&mut kept(), &reported, Utc::now().into());
    }
}

/// What sqlx reports: the text of a statement of up to four words is the summary only.
#[derive(Debug, Default)]
struct Reported {
    summary: String,
    statement: String,
    seconds: f64,
}

impl Visit for Reported {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "summary" => value.clone_into(&mut self.summary),
            "db.statement" => value.clone_into(&mut self.statement),
            _ => {}
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        if field.name() == "elapsed_secs" {
            self.seconds = value;
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

fn kept() -> MutexGuard<'static, Vec<SlowStatement>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep(kept: &mut Vec<SlowStatement>, reported: &Reported, now: Timestamp) {
    let text = match reported.statement.trim() {
        "" => &reported.summary,
        text => text,
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let statement: String = words.join(" ").chars().take(MAX_CHARS).collect();
    let known = kept.iter_mut().find(|one| one.statement == statement);
    if let Some(known) = known {
        known.count += 1;
        known.longest_seconds = known.longest_seconds.max(reported.seconds);
        known.last_at = now;
    } else {
        kept.push(SlowStatement {
            statement,
            count: 1,
            longest_seconds: reported.seconds,
            last_at: now,
        });
    }
    kept.sort_by(|one, other| other.longest_seconds.total_cmp(&one.longest_seconds));
    kept.truncate(MAX_KEPT);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_statements_are_kept_without_growing() {
        let mut all = Vec::new();
        let now = Timestamp::from_millis(0);
        for number in 0..2 * MAX_KEPT {
            let slow = |seconds| Reported {
                summary: format!("SELECT {number} FROM"),
                statement: format!("\n\nSELECT {number}\n  FROM changes\n"),
                seconds,
            };
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let seconds = 1.0 + number as f64;
            keep(&mut all, &slow(seconds), now);
            keep(&mut all, &slow(1.0), now);
        }
        assert_eq!(all.len(), MAX_KEPT);
        let statements = |all: &[SlowStatement]| -> Vec<String> {
            all.iter().map(|one| one.statement.clone()).collect()
        };
        assert_eq!(statements(&all)[0], "SELECT 39 FROM changes");
        assert_eq!((all[0].count, all[0].longest_seconds), (2, 40.0));
        assert_eq!(statements(&all)[MAX_KEPT - 1], "SELECT 20 FROM changes");
        let short = Reported {
            summary: "COMMIT".to_owned(),
            seconds: 500.0,
            ..Reported::default()
        };
        keep(&mut all, &short, now);
        assert_eq!(statements(&all)[0], "COMMIT");
    }
}
