//! How many connections there may be, in all and of one address.
//!
//! When all places are taken, the connections that have waited longest for a
//! request make room. Where all are busy, a few more connections are accepted
//! only to be told so, and for the health of the service.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::connection::Connection;
use crate::web::client_limit::{ClientLimit, ClientPermit};

/// Connections in all, where the limit of open files allows it.
const MAX_CONNECTIONS: usize = 4_096;
/// Connections of one client, unless it is a trusted proxy; beyond that they are
/// closed at once.
pub(super) const MAX_PER_CLIENT: usize = 256;
/// Connections beyond all places that are told so.
const SURPLUS_CONNECTIONS: usize = 64;
/// Open files that are not connections: the database's and the system's.
const OTHER_FILES: usize = 128;
/// The fewest connections that are served, whatever the limit of open files.
const LEAST: usize = 32;
/// How many open files the service asks for at its start.
const WANTED_FILES: u64 = 8_192;
/// How long a connection waits for a request at least before it makes room.
const SPARED: Duration = Duration::from_secs(1);
/// How many connections make room together at most.
const CLOSED_TOGETHER: usize = 16;
/// How often is looked for connections that can make room.
const LOOK: Duration = Duration::from_millis(100);

/// Lets the process open as many files as it needs, or else as many as it may.
pub(crate) fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit
        .maximum
        .map_or(WANTED_FILES, |most| most.min(WANTED_FILES));
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
    }
    let raised = Rlimit {
        current: Some(wanted),
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}

/// Returns how many connections are served at once, and how many more are told
/// that there are too many.
fn sizes() -> (usize, usize) {
    let files = getrlimit(Resource::Nofile).current;
    let files = files.map_or(usize::MAX, |files| {
        usize::try_from(files).unwrap_or(usize::MAX)
    });
    let room = files.saturating_sub(OTHER_FILES).max(LEAST);
    let surplus = SURPLUS_CONNECTIONS.min(room / 8);
    (MAX_CONNECTIONS.min(room - surplus), surplus)
}

/// Returns how many connections are served at once.
pub(crate) fn max_connections() -> usize {
    sizes().0
}

/// The places for connections.
pub(super) struct ConnectionLimit {
    regular: Arc<Semaphore>,
    surplus: Arc<Semaphore>,
    shares: ClientLimit,
    taken: Arc<Taken>,
    numbers: AtomicU64,
}

/// The connections that hold places, by number.
type Taken = Mutex<HashMap<u64, Weak<Connection>>>;

fn lock(taken: &Taken) -> MutexGuard<'_, HashMap<u64, Weak<Connection>>> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place that is free.
#[derive(Debug)]
pub(super) struct FreeSlot {
    /// Whether it is one beyond all places.
    is_surplus: bool,
    _permit: OwnedSemaphorePermit,
}

impl FreeSlot {
    fn regular(permit: OwnedSemaphorePermit) -> Self {
        Self {
            is_surplus: false,
            _permit: permit,
        }
    }

    fn surplus(permit: OwnedSemaphorePermit) -> Self {
        Self {
            is_surplus: true,
            _permit: permit,
        }
    }
}

/// A place that one connection holds until it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    number: u64,
    taken: Arc<Taken>,
    regular: Arc<Semaphore>,
    permit: Mutex<FreeSlot>,
    _share: Option<ClientPermit>,
}

impl ConnectionLimit {
    pub(super) fn new() -> Self {
        let (regular, surplus) = sizes();
        Self {
            regular: Arc::new(Semaphore::new(regular)),
            surplus: Arc::new(Semaphore::new(surplus)),
            shares: ClientLimit::new(MAX_PER_CLIENT),
            taken: Arc::default(),
            numbers: AtomicU64::default(),
        }
    }

    /// Waits until there is a place at all.
    pub(super) async fn free(&self) -> FreeSlot {
        loop {
            if let Ok(permit) = Arc::clone(&self.regular).try_acquire_owned() {
                return FreeSlot::regular(permit);
            }
            if let Ok(permit) = Arc::clone(&self.surplus).try_acquire_owned() {
                return FreeSlot::surplus(permit);
            }
            self.make_room();
            let regular = Arc::clone(&self.regular).acquire_owned();
            if let Ok(Ok(permit)) = timeout(LOOK, regular).await {
                return FreeSlot::regular(permit);
            }
        }
    }

    /// Gives the place to a connection of an address; to none when that client
    /// has its share already. A trusted proxy has no share of its own: behind
    /// it are many clients.
    pub(super) fn take(
        &self,
        free: FreeSlot,
        address: IpAddr,
        is_proxy: bool,
    ) -> Option<Arc<Connection>> {
        let share = if is_proxy {
            None
        } else {
            let share = self.shares.take(address);
            if share.is_none() {
                tracing::debug!(%address, "too many connections of one address");
                return None;
            }
            share
        };
        if free.is_surplus {
            self.make_room();
        }
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let connection = Arc::new(Connection::new(ConnectionSlot {
            number,
            taken: Arc::clone(&self.taken),
            regular: Arc::clone(&self.regular),
            permit: Mutex::new(free),
            _share: share,
        }));
        lock(&self.taken).insert(number, Arc::downgrade(&connection));
        Some(connection)
    }

    /// Closes the connections that have waited longest for a request.
    pub(super) fn make_room(&self) {
        // A connection that is dropped here would want the same lock.
        let connections: Vec<_> = lock(&self.taken).values().cloned().collect();
        let mut waiting: Vec<(Instant, Arc<Connection>)> = connections
            .into_iter()
            .filter_map(|connection| connection.upgrade())
            .filter_map(|connection| Some((connection.waits_since()?, connection)))
            .filter(|(since, _)| since.elapsed() >= SPARED)
            .collect();
        waiting.sort_unstable_by_key(|(since, _)| *since);
        for (since, connection) in waiting.iter().take(CLOSED_TOGETHER) {
            connection.close_if_waiting(*since);
        }
    }
}

impl ConnectionSlot {
    /// Tells whether requests are served here; a place beyond all others becomes
    /// a regular one as soon as there is one free.
    pub(super) fn is_regular(&self) -> bool {
        let mut permit = self.permit.lock().unwrap_or_else(PoisonError::into_inner);
        if permit.is_surplus
            && let Ok(regular) = Arc::clone(&self.regular).try_acquire_owned()
        {
            *permit = FreeSlot::regular(regular);
        }
        !permit.is_surplus
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        lock(&self.taken).remove(&self.number);
    }
}
