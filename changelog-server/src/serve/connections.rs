//! The open connections. When all slots are taken, the connections that have
//! waited longest for a request are closed. While all others are busy, a few
//! surplus connections are accepted only to refuse their requests, and to report
//! the health of the service.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::connection::Connection;
use super::connection_limit::{ConnectionLimit, MAX_PER_CLIENT, Slot};
use crate::client_limit::{ClientLimit, ClientPermit};

/// A connection may wait this long for a request before it can be closed to free
/// its slot.
const MIN_WAIT: Duration = Duration::from_secs(1);
/// The maximum number of connections that are closed at once to free their slots.
const MAX_CLOSED_AT_ONCE: usize = 16;
/// How often idle connections are looked for while no slot is free.
const RETRY: Duration = Duration::from_millis(100);

/// The open connections, by number.
type Open = Mutex<HashMap<u64, Weak<Connection>>>;

fn lock(open: &Open) -> MutexGuard<'_, HashMap<u64, Weak<Connection>>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) struct Connections {
    limit: ConnectionLimit,
    clients: ClientLimit,
    open: Arc<Open>,
    next_number: AtomicU64,
}

/// The entry of an open connection; removed on drop.
pub(super) struct Registration {
    number: u64,
    open: Arc<Open>,
    _permit: Option<ClientPermit>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        lock(&self.open).remove(&self.number);
    }
}

impl Connections {
    pub(super) fn new() -> Self {
        Self {
            limit: ConnectionLimit::new(),
            clients: ClientLimit::new(MAX_PER_CLIENT),
            open: Arc::default(),
            next_number: AtomicU64::default(),
        }
    }

    /// Waits for a slot.
    pub(super) async fn slot(&self) -> Slot {
        loop {
            if let Some(slot) = self.limit.try_take() {
                return slot;
            }
            self.close_idle();
            if let Some(slot) = self.limit.take_within(RETRY).await {
                return slot;
            }
        }
    }

    /// Registers a connection; `None` if its client has too many. Trusted proxies
    /// have no limit: each forwards the requests of many clients.
    pub(super) fn open(
        &self,
        slot: Slot,
        address: IpAddr,
        is_proxy: bool,
    ) -> Option<(Arc<Connection>, Registration)> {
        let permit = if is_proxy {
            None
        } else {
            let permit = self.clients.take(address);
            if permit.is_none() {
                tracing::debug!(%address, "too many connections of one address");
                return None;
            }
            permit
        };
        if !slot.is_regular() {
            self.close_idle();
        }
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let connection = Arc::new(Connection::new(slot));
        lock(&self.open).insert(number, Arc::downgrade(&connection));
        let registration = Registration {
            number,
            open: Arc::clone(&self.open),
            _permit: permit,
        };
        Some((connection, registration))
    }

    /// Closes the connections that have waited longest for a request.
    pub(super) fn close_idle(&self) {
        let open: Vec<_> = lock(&self.open)
            .values()
            .filter_map(Weak::upgrade)
            .collect();
        let mut waiting: Vec<(Instant, Arc<Connection>)> = open
            .into_iter()
            .filter_map(|connection| Some((connection.waits_since()?, connection)))
            .filter(|(since, _)| since.elapsed() >= MIN_WAIT)
            .collect();
        waiting.sort_unstable_by_key(|(since, _)| *since);
        for (since, connection) in waiting.iter().take(MAX_CLOSED_AT_ONCE) {
            connection.close_if_waiting(*since);
        }
    }
}
