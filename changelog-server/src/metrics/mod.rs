//! Metrics for Prometheus: counted as events occur ([`Metrics`]), or read at each scrape
//! (`scrape.rs`). The listener also serves the slowest SQL statements, for `status`.

mod current;
pub(crate) mod listener;
mod process;
mod scrape;
pub(crate) mod slow_statements;

use std::time::Duration;

use http::Method;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::store::Store;

/// What the name of each metric begins with.
const PREFIX: &str = "chlog";
/// The route of a request that no endpoint has: paths are chosen by clients.
pub(crate) const NO_ROUTE: &str = "none";
/// The bounds of the durations of requests, in seconds; the last one is the time limit.
const DURATION_BOUNDS: [f64; 13] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 20.0,
];

/// What is counted while it happens.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Family<RouteLabels, Histogram, fn() -> Histogram>,
    in_flight: Gauge,
    deliveries: Family<DeliveryLabels, Counter>,
    mails: Family<OutcomeLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: &'static str,
    route: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeliveryLabels {
    kind: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

impl Metrics {
    /// Makes them, with those that the store counts.
    pub(crate) fn new(store: &Store) -> Self {
        let durations: fn() -> Histogram = || Histogram::new(DURATION_BOUNDS);
        let mut metrics = Self {
            registry: Registry::with_prefix(PREFIX),
            requests: Family::default(),
            durations: Family::new_with_constructor(durations),
            in_flight: Gauge::default(),
            deliveries: Family::default(),
            mails: Family::default(),
        };
        metrics.register(store);
        metrics
    }

    fn register(&mut self, store: &Store) {
        let registry = &mut self.registry;
        let build = Family::<BuildLabels, Gauge>::default();
        let version = env!("CARGO_PKG_VERSION");
        build.get_or_create(&BuildLabels { version }).set(1);
        registry.register("build_info", "The running program; always 1", build);
        registry.register(
            "http_requests",
            "Answered requests by method, route and status",
            self.requests.clone(),
        );
        registry.register(
            "http_request_duration_seconds",
            "The time from the head of a request to the head of its answer",
            self.durations.clone(),
        );
        registry.register(
            "http_requests_in_flight",
            "Requests that are being answered; streams count until they begin",
            self.in_flight.clone(),
        );
        registry.register(
            "deliveries",
            "Attempts to deliver events to receivers, by kind of receiver and outcome",
            self.deliveries.clone(),
        );
        registry.register(
            "mails",
            "Attempts to send mails, by outcome",
            self.mails.clone(),
        );
        let [group_jobs, batch_requests] = store.batch_sizes();
        registry.register(
            "writer_group_jobs",
            "Transactions and batches that share a COMMIT on SQLite",
            group_jobs,
        );
        registry.register(
            "create_batch_requests",
            "Requests to create changes that are written together",
            batch_requests,
        );
    }

    /// Counts a request that is being answered until the returned value is dropped.
    pub(crate) fn begin_request(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    /// Counts a request that was answered.
    pub(crate) fn count_request(
        &self,
        method: &Method,
        route: &'static str,
        status: u16,
        duration: Duration,
    ) {
        let method = known_method(method);
        let labels = RouteLabels { method, route };
        let seconds = duration.as_secs_f64();
        self.durations.get_or_create(&labels).observe(seconds);
        let labels = RequestLabels {
            method,
            route,
            status,
        };
        self.requests.get_or_create(&labels).inc();
    }

    /// Counts an attempt to deliver an event to a kind of receiver.
    pub(crate) fn count_delivery(&self, kind: &str, outcome: &'static str) {
        let kind = kind.to_owned();
        let labels = DeliveryLabels { kind, outcome };
        self.deliveries.get_or_create(&labels).inc();
    }

    /// Counts an attempt to send a mail.
    pub(crate) fn count_mail(&self, outcome: &'static str) {
        self.mails.get_or_create(&OutcomeLabels { outcome }).inc();
    }
}

/// A request that is being answered.
pub(crate) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Returns a method as a label: clients can send any name.
fn known_method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
