//! What systemd is told of the service, if it started it (`Type=notify`): that it is ready,
//! that it is stopping, and, if it asks, that it still works.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{interval, timeout};

use crate::store::Store;

/// Reports that requests are answered.
pub(crate) fn ready(address: &str) {
    let status = format!("listening on {address}");
    notify(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

/// Reports that the service drains.
pub(crate) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Reports that the service works, as often as systemd asks, for as long as this is polled.
///
/// A beginning transaction has to return before each report: with an error as well, because
/// a database that is away is no better after a restart. If none returns, the task that
/// writes hangs, and systemd restarts the service.
pub(crate) async fn feed_watchdog(store: Store) {
    let Some(limit) = sd_notify::watchdog_enabled() else {
        return;
    };
    let period = (limit / 3).max(Duration::from_millis(100));
    let mut interval = interval(period);
    loop {
        interval.tick().await;
        if timeout(limit, store.begin()).await.is_ok() {
            notify(&[NotifyState::Watchdog]);
        } else {
            tracing::error!(?limit, "no transaction has begun: systemd is not answered");
        }
    }
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "systemd could not be notified");
    }
}
