//! Requests for which the client has no method.

use http::Method;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::client::Client;
use crate::error::Error;
use crate::mode::Mode;
use crate::request::ApiRequest;

impl<M: Mode> Client<M> {
    /// Sends a request for which this client has no method, and returns the JSON of the
    /// response: [`Value::Null`] if it has no body.
    ///
    /// `path` is what follows after `/api/` in the address, with its query:
    /// `changes?per_page=5`. The request goes to the client's own server, with its key. A
    /// GET is repeated after transient errors as all requests are; other methods are sent
    /// once.
    pub fn raw(&self, method: Method, path: &str, body: Option<&Value>) -> M::Response<Value> {
        let is_repeatable = method == Method::GET;
        let request = request(method, path, body);
        self.sender().run(|transport| async move {
            let request = request?;
            if is_repeatable {
                return transport.send(&request).await;
            }
            let is_expected = |status: &http::StatusCode| status.is_success();
            let (body, _) = transport.send_once(&request, is_expected).await?;
            Ok(body)
        })
    }
}

fn request(method: Method, path: &str, body: Option<&Value>) -> Result<ApiRequest, Error> {
    let (path, query) = match path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path, None),
    };
    let segments: Vec<String> = path
        .trim_start_matches('/')
        .split('/')
        .map(|segment| {
            let decoded = percent_decode_str(segment).decode_utf8();
            decoded.map_or_else(|_| segment.to_owned(), std::borrow::Cow::into_owned)
        })
        .collect();
    if segments
        .iter()
        .any(|segment| matches!(segment.as_str(), "." | ".."))
    {
        return Err(Error::Builder("the path must not have . or ..".to_owned()));
    }
    let mut request = ApiRequest::raw(method, segments);
    request.may_be_answered_empty = true;
    if let Some(query) = query {
        request = request.query(query.to_owned());
    }
    match body {
        Some(body) => request.json(body),
        None => Ok(request),
    }
}
