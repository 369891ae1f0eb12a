//! A client for programs that are not asynchronous.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use tokio::runtime::{Builder, Runtime};

use crate::error::Error;

/// A blocking client. It has no endpoints of its own: [`Client::wait`] runs a
/// request of the asynchronous [`Client`](crate::Client), and [`Client::iter`]
/// iterates over a stream of it.
///
/// Clones are cheap. Do not use or drop the client inside an asynchronous runtime:
/// blocking there panics.
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
/// for change in client.iter(|client| client.changes().list().stream()) {
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
    /// Wraps an asynchronous client.
    ///
    /// # Errors
    /// [`Error::Builder`] if the system has no resources for a runtime.
    pub fn new(client: crate::Client) -> Result<Self, Error> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::Builder(format!("cannot start a runtime: {error}")))?;
        Ok(Self {
            client,
            runtime: Arc::new(runtime),
        })
    }

    /// Sends a request and waits for its response.
    ///
    /// # Panics
    /// If it is called inside an asynchronous runtime.
    pub fn wait<F: Future>(&self, request: impl FnOnce(&crate::Client) -> F) -> F::Output {
        self.runtime.block_on(request(&self.client))
    }

    /// Iterates over a stream, waiting for each item.
    ///
    /// # Panics
    /// If the next item is requested inside an asynchronous runtime.
    pub fn iter<S: Stream + 'static>(
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

/// The items of a stream; see [`Client::iter`].
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
