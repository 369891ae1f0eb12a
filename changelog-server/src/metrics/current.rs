//! A registry of values that are looked up when Prometheus asks.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

type Seconds = Gauge<f64, AtomicU64>;

/// The values of this moment.
pub(super) struct Current(pub(super) Registry);

impl Current {
    /// Starts with names that begin with a prefix.
    pub(super) fn with_prefix(prefix: &str) -> Self {
        Self(Registry::with_prefix(prefix))
    }

    /// Adds a number.
    pub(super) fn number(&mut self, name: &str, help: &str, value: u64) {
        let gauge = Gauge::<u64, AtomicU64>::default();
        gauge.set(value);
        self.0.register(name, help, gauge);
    }

    /// Adds a length of time or a time since 1970, in seconds.
    pub(super) fn seconds(&mut self, name: &str, help: &str, value: f64) {
        let gauge = Seconds::default();
        gauge.set(value);
        self.0.register(name, help, gauge);
    }

    /// Adds a total of seconds, which only grows.
    pub(super) fn total_seconds(&mut self, name: &str, help: &str, value: Duration) {
        let counter = Counter::<f64, AtomicU64>::default();
        counter.inc_by(value.as_secs_f64());
        self.0.register(name, help, counter);
    }

    /// Adds numbers that differ in their labels.
    pub(super) fn numbers<L>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (L, u64)>,
    ) where
        L: Clone + std::fmt::Debug + Eq + std::hash::Hash + EncodeLabelSet + Send + Sync + 'static,
    {
        let family = Family::<L, Gauge<u64, AtomicU64>>::default();
        for (labels, value) in values {
            family.get_or_create(&labels).set(value);
        }
        self.0.register(name, help, family);
    }

    /// Adds totals that differ in their labels, and only grow.
    pub(super) fn totals<L>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (L, u64)>,
    ) where
        L: Clone + std::fmt::Debug + Eq + std::hash::Hash + EncodeLabelSet + Send + Sync + 'static,
    {
        let family = Family::<L, Counter>::default();
        for (labels, value) in values {
            family.get_or_create(&labels).inc_by(value);
        }
        self.0.register(name, help, family);
    }
}
