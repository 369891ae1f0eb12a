//! Builds a warp filter from a list of endpoints.
//!
//! The filter only decides which handler runs: the path first, then the method
//! (so that a wrong method is 405 with `Allow`, and `HEAD` works wherever `GET`
//! does), and everything that can fail is a `?` inside the handler. The path is looked up
//! in a tree: with a filter for each endpoint, a request would pass through all of them.

use std::sync::{Arc, Mutex, OnceLock};

use bytes::{Buf, Bytes};
use changelog_core::ProblemCode;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method};
use matchit::Router;
use warp::filters::BoxedFilter;
use warp::reply::Response;
use warp::{Filter, Rejection};

use super::compression::{self, Accepted};
use super::request::{BodyStream, Request, RequestContext, RequestInfo};
use super::{ApiError, ApiResult};
use crate::app::App;

type Handler = Arc<dyn Fn(App, Request) -> BoxFuture<'static, ApiResult> + Send + Sync>;

/// Renders a failure as a page, for a request from a browser.
pub(crate) type FailurePage = fn(ApiError, &RequestInfo) -> Response;

/// Renders a failure outside of the handlers: under `/api` and for agents as problem details,
/// else as a page.
pub(crate) fn respond_with_failure(
    error: ApiError,
    request: &RequestInfo,
    page: FailurePage,
) -> Response {
    let path = request.target.split('?').next().unwrap_or_default();
    if ["/api", "/mcp"].contains(&path) || path.starts_with("/api/") {
        error.into_response(&request.id)
    } else {
        page(error, request)
    }
}

/// A path and the handlers of its methods.
pub(crate) struct Endpoint {
    path: &'static str,
    handlers: Vec<(Method, Handler)>,
    failure: Option<FailurePage>,
}

/// Starts an endpoint. A segment such as `:id` is a parameter.
pub(crate) fn at(path: &'static str) -> Endpoint {
    Endpoint {
        path,
        handlers: Vec::new(),
        failure: None,
    }
}

impl Endpoint {
    /// Adds the handler of `GET` and `HEAD`.
    pub(crate) fn get<F>(self, handler: impl Fn(App, Request) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ApiResult> + Send + 'static,
    {
        self.on(Method::GET, handler)
    }

    /// Adds the handler of `POST`.
    pub(crate) fn post<F>(self, handler: impl Fn(App, Request) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ApiResult> + Send + 'static,
    {
        self.on(Method::POST, handler)
    }

    /// Adds the handler of `PATCH`.
    pub(crate) fn patch<F>(
        self,
        handler: impl Fn(App, Request) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ApiResult> + Send + 'static,
    {
        self.on(Method::PATCH, handler)
    }

    /// Adds the handler of `PUT`.
    pub(crate) fn put<F>(self, handler: impl Fn(App, Request) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ApiResult> + Send + 'static,
    {
        self.on(Method::PUT, handler)
    }

    /// Adds the handler of `OPTIONS`.
    pub(crate) fn options<F>(
        self,
        handler: impl Fn(App, Request) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ApiResult> + Send + 'static,
    {
        self.on(Method::OPTIONS, handler)
    }

    fn on<F>(
        mut self,
        method: Method,
        handler: impl Fn(App, Request) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ApiResult> + Send + 'static,
    {
        self.handlers.push((
            method,
            Arc::new(move |app, request| Box::pin(handler(app, request))),
        ));
        self
    }

    /// Renders failures as pages instead of problem details.
    pub(crate) fn failing_with(mut self, failure: FailurePage) -> Self {
        self.failure = Some(failure);
        self
    }
}

/// Joins endpoints into one filter; an unknown path is a 404, outside of `/api` as
/// a page.
pub(crate) fn join(
    app: &App,
    endpoints: Vec<Endpoint>,
    failure: FailurePage,
) -> BoxedFilter<(Response,)> {
    let (app, router) = (app.clone(), Arc::new(router(endpoints)));
    request()
        .then(move |request| respond(app.clone(), Arc::clone(&router), failure, request))
        .boxed()
}

fn router(endpoints: Vec<Endpoint>) -> Router<Endpoint> {
    let mut router = Router::new();
    for endpoint in endpoints {
        let added = router.insert(pattern(endpoint.path), endpoint);
        added.expect("each path is listed once");
    }
    router
}

/// Writes the parameters of a path as the router does.
fn pattern(path: &str) -> String {
    let segments = path
        .split('/')
        .map(|segment| match segment.strip_prefix(':') {
            Some(name) => format!("{{{name}}}"),
            None => segment.to_owned(),
        });
    segments.collect::<Vec<_>>().join("/")
}

/// Extracts a request, without the parameter of its path.
fn request() -> impl Filter<Extract = (Request,), Error = Rejection> + Clone {
    warp::method()
        .and(warp::path::full())
        .and(warp::query::raw().or_else(|_| async { Ok::<_, Rejection>((String::new(),)) }))
        .and(warp::header::headers_cloned())
        .and(warp::ext::get::<RequestContext>())
        .and(warp::body::stream())
        .map(
            |method: Method,
             path: warp::path::FullPath,
             query: String,
             headers: HeaderMap,
             context: RequestContext,
             body| Request {
                context,
                method,
                path: path.as_str().to_owned(),
                query,
                headers,
                parameter: String::new(),
                body: Mutex::new(Some(boxed(body))),
                received: OnceLock::new(),
            },
        )
}

fn boxed<S, B>(body: S) -> BodyStream
where
    S: futures_util::Stream<Item = Result<B, warp::Error>> + Send + Sync + 'static,
    B: Buf + 'static,
{
    let bytes = |mut chunk: B| -> Bytes { chunk.copy_to_bytes(chunk.remaining()) };
    Box::pin(body.map(move |chunk| chunk.map(bytes)))
}

/// Runs the handler of the path and the method, renders its failure and adds the rate-limit
/// headers.
async fn respond(
    app: App,
    router: Arc<Router<Endpoint>>,
    failure: FailurePage,
    mut request: Request,
) -> Response {
    let Ok(found) = router.at(&request.path) else {
        return respond_with_failure(ApiError::unknown_path(), &request.info(), failure);
    };
    let endpoint = found.value;
    let parameters = found.params.iter().map(|(_, value)| value);
    request.parameter = parameters.collect::<Vec<_>>().join("/");
    // Set once: one endpoint handles a request.
    let _ = request.context.state.route.set(endpoint.path);
    let id = Arc::clone(&request.context.id);
    let page = endpoint.failure.map(|page| (page, request.info()));
    let state = Arc::clone(&request.context.state);
    let accepted = Accepted::of(&request.headers);
    let result = match find(&endpoint.handlers, &request.method) {
        Ok(handler) => handler(app, request).await,
        Err(error) => Err(error),
    };
    let mut response = result.unwrap_or_else(|error| match page {
        Some((page, info)) => page(error, &info),
        None => error.into_response(&id),
    });
    response = compression::compress(response, accepted).await;
    if let Some(limit) = state.rate_limit.get() {
        let headers = response.headers_mut();
        let policy = format!("\"key\";q={};w=1", limit.quota);
        let left = format!("\"key\";r={};t=1", limit.remaining);
        for (name, value) in [("ratelimit-policy", policy), ("ratelimit", left)] {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(name, value);
            }
        }
    }
    response
}

/// Finds the handler of a method; `GET` also handles `HEAD`.
fn find<'e>(handlers: &'e [(Method, Handler)], method: &Method) -> Result<&'e Handler, ApiError> {
    let handled = if method == Method::HEAD {
        &Method::GET
    } else {
        method
    };
    if let Some((_, handler)) = handlers.iter().find(|(known, _)| known == handled) {
        return Ok(handler);
    }
    let mut allowed: Vec<&str> = handlers.iter().map(|(known, _)| known.as_str()).collect();
    if allowed.contains(&"GET") {
        allowed.push("HEAD");
    }
    let allowed = allowed.join(", ");
    let detail = format!("{method} is not allowed here; allowed: {allowed}");
    Err(ApiError::new(ProblemCode::MethodNotAllowed, detail)
        .with_header(http::header::ALLOW, allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(path: &'static str) -> Endpoint {
        async fn handler(_: App, _: Request) -> ApiResult {
            Err(ApiError::unknown_path())
        }
        at(path).get(handler).post(handler)
    }

    /// Returns the index of the handler, or the status and the header `Allow`.
    fn find_in(method: &Method) -> Result<Option<usize>, (u16, String)> {
        let handlers = endpoint("/changes").handlers;
        match find(&handlers, method) {
            Ok(found) => Ok(handlers
                .iter()
                .position(|(_, handler)| Arc::ptr_eq(handler, found))),
            Err(error) => {
                let response = error.into_response("id");
                let allow = response.headers().get(http::header::ALLOW);
                let allow = allow.map_or("", |allow| allow.to_str().unwrap());
                Err((response.status().as_u16(), allow.to_owned()))
            }
        }
    }

    #[test]
    fn the_method_selects_the_handler() {
        assert_eq!(find_in(&Method::GET), Ok(Some(0)));
        assert_eq!(find_in(&Method::HEAD), Ok(Some(0)));
        assert_eq!(find_in(&Method::POST), Ok(Some(1)));
        let allowed = "GET, POST, HEAD".to_owned();
        assert_eq!(find_in(&Method::DELETE), Err((405, allowed)));
    }

    #[test]
    fn the_path_selects_the_endpoint() {
        let paths = ["/", "/sso/callback", "/sso/:id", "/events/:source/:event"];
        let router = router(paths.map(endpoint).into());
        for (path, expected) in [
            ("/", Some("/")),
            ("/sso/callback", Some("/sso/callback")),
            ("/sso/callback2", Some("/sso/:id")),
            ("/sso/%2F", Some("/sso/:id")),
            ("/events/a/b", Some("/events/:source/:event")),
            // Each resource has one path.
            ("/sso/callback/", None),
            ("/sso/a/", None),
            ("/sso/", None),
            ("/sso", None),
            ("//sso/a", None),
            ("/events//b", None),
            ("/events/a/b/c", None),
            ("", None),
            ("*", None),
        ] {
            let found = router.at(path).ok();
            assert_eq!(found.map(|found| found.value.path), expected, "{path}");
        }
    }

    #[test]
    fn a_failure_outside_the_api_is_a_page() {
        let page: FailurePage = |_, _| Response::new("page".into());
        let status = |target: &str| {
            let info = RequestInfo {
                id: "id".into(),
                method: Method::GET,
                target: target.to_owned(),
                sent_from: String::new(),
            };
            let response = respond_with_failure(ApiError::unknown_path(), &info, page);
            response.status().as_u16()
        };
        for path in ["/api", "/api/x", "/api?x", "/mcp?x"] {
            assert_eq!(status(path), 404, "{path}");
        }
        // The status of the page above.
        assert_eq!([status("/apis"), status("/changes?x=/api/")], [200, 200]);
    }
}
