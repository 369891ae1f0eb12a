//! Asynchronous and blocking clients: what they have in common.

use std::fmt;
use std::pin::Pin;

use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::request::ApiRequest;
use crate::transport::Transport;

/// How a client waits for responses: [`Async`], or `blocking::Blocking`.
///
/// The types of both clients are the same but for this parameter.
pub trait Mode: Clone + fmt::Debug + Send + Sync + sealed::Sealed + 'static {
    /// What sending a request returns: a future of the response, or the response.
    type Response<T: Send + 'static>;

    /// Sends a request.
    #[doc(hidden)]
    fn send<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Self::Response<T>;
}

pub(crate) mod sealed {
    /// Only this crate implements [`Mode`](super::Mode).
    pub trait Sealed {}
}

/// The mode of the asynchronous [`Client`](crate::Client): requests are futures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Async;

impl sealed::Sealed for Async {}

/// The future of a response. Nothing is sent before it is polled.
pub type ResponseFuture<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

impl Mode for Async {
    type Response<T: Send + 'static> = ResponseFuture<T>;

    fn send<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> ResponseFuture<T> {
        Box::pin(request)
    }
}

/// Sends requests in a mode. Clones share the connections.
#[derive(Clone, Debug)]
pub(crate) struct Sender<M> {
    pub(crate) transport: Transport,
    pub(crate) mode: M,
}

impl<M: Mode> Sender<M> {
    /// Sends a request with retries; the response is its member `data`.
    pub(crate) fn data<T: DeserializeOwned + Send + 'static>(
        &self,
        request: Result<ApiRequest, Error>,
    ) -> M::Response<T> {
        self.run(|transport| async move { transport.send_for_data(&request?).await })
    }

    /// Sends a request with retries; the response is its whole body.
    pub(crate) fn body<T: DeserializeOwned + Send + 'static>(
        &self,
        request: Result<ApiRequest, Error>,
    ) -> M::Response<T> {
        self.run(|transport| async move { transport.send(&request?).await })
    }

    /// Sends several requests one after the other.
    pub(crate) fn run<T, F>(&self, requests: impl FnOnce(Transport) -> F) -> M::Response<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        self.mode.send(requests(self.transport.clone()))
    }
}

/// Makes builders of the asynchronous client futures, so that `.await` sends them.
macro_rules! into_future {
    ($($builder:ident => $response:ty),+ $(,)?) => {$(
        impl IntoFuture for $builder {
            type Output = Result<$response, crate::Error>;
            type IntoFuture = crate::mode::ResponseFuture<$response>;

            fn into_future(self) -> Self::IntoFuture {
                self.send()
            }
        }
    )+};
}
pub(crate) use into_future;
