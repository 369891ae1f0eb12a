//! A client for programs that are not asynchronous.
//!
//! Its types are those of the asynchronous client in another [`Mode`]: what returns a
//! future there returns the response here.
//!
//! ```no_run
//! use changelog_client::{Client, blocking};
//!
//! # fn example() -> Result<(), changelog_client::Error> {
//! let client: blocking::Client = Client::from_env()?.blocking()?;
//!
//! let change = client.changes().create("Deploy api 2.3").send()?;
//! println!("{}", change.id);
//! for change in client.changes().list().iter() {
//!     println!("{}", change?.title);
//! }
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use changelog_core::Change;
use futures_util::{Stream, StreamExt};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::changes::{ListChanges, WatchChanges, WatchedChange};
use crate::error::Error;
use crate::incidents::{WatchIncidents, WatchedIncident};
use crate::mode::{Mode, sealed};

/// A client whose requests wait for their responses; see [`Client::blocking`].
///
/// It may be shared by threads. Inside an asynchronous runtime every request is an
/// [`Error::Builder`], because it would block the other tasks of its thread. The threads of
/// `tokio::task::spawn_blocking` belong to the runtime, so that this holds there, too: use a
/// thread of [`std::thread`], or the asynchronous client.
///
/// [`Client::blocking`]: crate::Client::blocking
pub type Client = crate::Client<Blocking>;

/// The mode of the blocking [`Client`]: requests return responses.
#[derive(Clone)]
pub struct Blocking {
    runtime: Arc<BackgroundRuntime>,
}

/// A runtime that may be dropped anywhere: dropping one inside another panics.
struct BackgroundRuntime(Option<Runtime>);

impl Drop for BackgroundRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Blocking {
    pub(crate) fn new() -> Result<Self, Error> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::Builder(format!("cannot start a runtime: {error}")))?;
        Ok(Self {
            runtime: Arc::new(BackgroundRuntime(Some(runtime))),
        })
    }

    fn wait<T>(&self, future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        match &self.runtime.0 {
            Some(runtime) if Handle::try_current().is_err() => runtime.block_on(async {
                notice_closed_connections().await;
                future.await
            }),
            _ => Err(Error::Builder(
                "a blocking client cannot be used inside an asynchronous runtime; use \
                 `changelog_client::Client` there"
                    .to_owned(),
            )),
        }
    }
}

/// Lets the tasks of connections see which the server has closed. They do not run between
/// requests, and a request on such a connection fails.
async fn notice_closed_connections() {
    // The first yield lets the runtime poll for events, the second runs the tasks that these
    // wake, and the third what those wake.
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
}

impl sealed::Sealed for Blocking {}

impl Mode for Blocking {
    type Response<T: Send + 'static> = Result<T, Error>;

    fn send<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        self.wait(request)
    }
}

impl fmt::Debug for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Blocking")
    }
}

impl ListChanges<Blocking> {
    /// Iterates over the whole list; see [`ListChanges::stream`].
    pub fn iter(self) -> Iter<Change> {
        let mode = self.mode().clone();
        Iter::new(mode, self.into_stream())
    }
}

impl WatchChanges<Blocking> {
    /// Iterates over changes, waiting for each; see [`WatchChanges::stream`].
    pub fn iter(self) -> Iter<WatchedChange> {
        let mode = self.mode().clone();
        Iter::new(mode, self.into_stream())
    }
}

impl WatchIncidents<Blocking> {
    /// Iterates over incidents, waiting for each; see [`WatchIncidents::stream`].
    pub fn iter(self) -> Iter<WatchedIncident> {
        let mode = self.mode().clone();
        Iter::new(mode, self.into_stream())
    }
}

/// An iterator that waits for each item. It ends after an error.
#[must_use = "nothing is sent until `next`"]
pub struct Iter<T> {
    mode: Blocking,
    stream: Pin<Box<dyn Stream<Item = Result<T, Error>> + Send>>,
    failed: bool,
}

impl<T> Iter<T> {
    fn new(mode: Blocking, stream: impl Stream<Item = Result<T, Error>> + Send + 'static) -> Self {
        Self {
            mode,
            stream: Box::pin(stream),
            failed: false,
        }
    }
}

impl<T> Iterator for Iter<T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let item = async { self.stream.next().await.transpose() };
        let item = self.mode.wait(item).transpose();
        self.failed = matches!(item, Some(Err(_)));
        item
    }
}

impl<T> fmt::Debug for Iter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").finish_non_exhaustive()
    }
}
