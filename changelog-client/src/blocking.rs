//! The client for programs that are not asynchronous.
//!
//! It does not repeat the requests: what the asynchronous client can ask, this
//! one waits for.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use tokio::runtime::{Builder, Runtime};

use crate::error::Error;

/// A client that waits in the calling thread.
///
/// Cheap to clone. It must not be used or dropped inside of an asynchronous
/// runtime: waiting there panics; use [`crate::Client`] itself.
///
/// ```no_run
/// use changelog_client::blocking;
///
/// # fn example() -> Result<(), changelog_client::Error> {
/// let client = changelog_client::Client::builder()
///     .url("http://127.0.0.1:8080")
///     .api_key("chlog_…")
///     .build()?;
/// let client = blocking::Client::new(client)?;
///
/// let change = client.wait(|client| client.changes().create("Deploy api 2.3").send())?;
/// println!("{}", change.id);
/// for change in client.iterate(|client| client.changes().list().stream()) {
///     println!("{}", change?.title);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    client: crate::Client,
    runtime: Arc<Runtime>,
}

impl Client {
    /// Makes a client that waits out of one that does not.
    ///
    /// # Errors
    /// [`Error::Builder`] when the system has no resources for it.
    pub fn new(client: crate::Client) -> Result<Self, Error> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::Builder(format!("cannot start: {error}")))?;
        Ok(Self {
            client,
            runtime: Arc::new(runtime),
        })
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Panics
    /// When it is called inside of an asynchronous runtime.
    pub fn wait<F: Future>(&self, request: impl FnOnce(&crate::Client) -> F) -> F::Output {
        self.runtime.block_on(request(&self.client))
    }

    /// Walks a stream, waiting whenever it has nothing ready.
    ///
    /// # Panics
    /// When it is walked inside of an asynchronous runtime.
    pub fn iterate<S: Stream + 'static>(
        &self,
        request: impl FnOnce(&crate::Client) -> S,
    ) -> Iter<S::Item> {
        Iter {
            stream: Box::pin(request(&self.client)),
            runtime: self.runtime.clone(),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("blocking::Client")
            .field(&self.client)
            .finish()
    }
}

/// The elements of a stream, one after the other.
pub struct Iter<T> {
    stream: Pin<Box<dyn Stream<Item = T>>>,
    runtime: Arc<Runtime>,
}

impl<T> Iterator for Iter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.runtime.block_on(self.stream.next())
    }
}

impl<T> fmt::Debug for Iter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").finish_non_exhaustive()
    }
}
