//! Builds a warp filter from a list of endpoints.
//!
//! A filter only decides which handler runs: the path first, then the method
//! (so that a wrong method is 405 with `Allow`, and `HEAD` works wherever `GET`
//! does), and everything that can fail is a `?` inside the handler. Only an
//! unknown path is ever rejected.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use changelog_core::ProblemCode;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method};
use warp::filters::BoxedFilter;
use warp::reply::Response;
use warp::{Filter, Rejection};

use super::compression::{self, Accepted};
use super::request::{BodyStream, Request, RequestContext, RequestInfo};
use super::{ApiError, ApiResult};
use crate::app::App;

/// The filters of several endpoints.
pub(crate) type Routes = Vec<BoxedFilter<(Response,)>>;

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
    let is_for_programs = ["/api", "/mcp"].contains(&&*request.target);
    if is_for_programs || request.target.starts_with("/api/") {
        error.into_response(&request.id)
    } else {
        page(error, request)
    }
}

/// Returns a [`Path`], as `warp::path!` does; without segments, that of `/`.
macro_rules! route_path {
    () => {
        $crate::web::route::Path { filter: warp::path::end(), template: "/" }
    };
    ($($segment:tt)/ *) => {
        $crate::web::route::Path {
            filter: warp::path!($($segment)/ *),
            template: concat!($("/", $crate::web::route::segment!($segment)),*),
        }
    };
}
pub(crate) use route_path as path;

/// Returns the text of a segment of a path.
macro_rules! segment {
    (String) => {
        ":id"
    };
    ($name:literal) => {
        $name
    };
}
pub(crate) use segment;

/// A filter of a path, and its text with `:id` for parameters, for metrics.
pub(crate) struct Path<F> {
    pub(crate) filter: F,
    pub(crate) template: &'static str,
}

/// A path and the handlers of its methods.
pub(crate) struct Endpoint {
    template: &'static str,
    /// Extracts the parameter of the path; empty for a path without one.
    path: BoxedFilter<(String,)>,
    handlers: Vec<(Method, Handler)>,
    failure: Option<FailurePage>,
}

/// Starts an endpoint for a path without a parameter.
pub(crate) fn at<F>(path: Path<F>) -> Endpoint
where
    F: Filter<Extract = (), Error = Rejection> + Clone + Send + Sync + 'static,
{
    Endpoint {
        template: path.template,
        path: path.filter.map(String::new).boxed(),
        handlers: Vec::new(),
        failure: None,
    }
}

/// Starts an endpoint for a path with a parameter.
pub(crate) fn at_id<F>(path: Path<F>) -> Endpoint
where
    F: Filter<Extract = (String,), Error = Rejection> + Clone + Send + Sync + 'static,
{
    Endpoint {
        template: path.template,
        path: path.filter.boxed(),
        handlers: Vec::new(),
        failure: None,
    }
}

/// Starts an endpoint for a path with two parameters, which are one with a slash between
/// them.
pub(crate) fn at_ids<F>(path: Path<F>) -> Endpoint
where
    F: Filter<Extract = (String, String), Error = Rejection> + Clone + Send + Sync + 'static,
{
    Endpoint {
        template: path.template,
        path: path
            .filter
            .map(|first: String, second: String| first + "/" + &second)
            .boxed(),
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

    /// Builds the filter.
    pub(crate) fn filter(self, app: &App) -> BoxedFilter<(Response,)> {
        let app = app.clone();
        let (failure, template) = (self.failure, self.template);
        let handlers: Arc<[(Method, Handler)]> = self.handlers.into();
        self.path
            .and(request())
            .then(move |parameter: String, mut request: Request| {
                request.parameter = parameter;
                // Set once: one endpoint handles a request.
                let _ = request.context.state.route.set(template);
                // Boxed, as the request is: each endpoint whose path is compared allocates the
                // state of all that follows.
                Box::pin(respond(
                    app.clone(),
                    Arc::clone(&handlers),
                    failure,
                    request,
                ))
            })
            .boxed()
    }
}

/// Extracts a request, without the parameter of its path.
fn request() -> BoxedFilter<(Request,)> {
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
                body: Some(boxed(body)),
            },
        )
        .boxed()
}

fn boxed<S, B>(body: S) -> BodyStream
where
    S: futures_util::Stream<Item = Result<B, warp::Error>> + Send + Sync + 'static,
    B: Buf + 'static,
{
    let bytes = |mut chunk: B| -> Bytes { chunk.copy_to_bytes(chunk.remaining()) };
    Box::pin(body.map(move |chunk| chunk.map(bytes)))
}

/// Runs the handler of the method, renders its failure and adds the rate-limit
/// headers.
async fn respond(
    app: App,
    handlers: Arc<[(Method, Handler)]>,
    failure: Option<FailurePage>,
    request: Request,
) -> Response {
    let id = Arc::clone(&request.context.id);
    let page = failure.map(|page| (page, request.info()));
    let state = Arc::clone(&request.context.state);
    let accepted = Accepted::of(&request.headers);
    let result = match find(&handlers, &request.method, &request.path) {
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
fn find(handlers: &[(Method, Handler)], method: &Method, path: &str) -> Result<Handler, ApiError> {
    // warp matches `/a/` like `/a`; here each resource has one path.
    if path.len() > 1 && path.ends_with('/') {
        return Err(ApiError::unknown_path());
    }
    let handled = if method == Method::HEAD {
        &Method::GET
    } else {
        method
    };
    if let Some((_, handler)) = handlers.iter().find(|(known, _)| known == handled) {
        return Ok(Arc::clone(handler));
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

/// Joins endpoints into one filter; an unknown path is a 404, outside of `/api` as
/// a page.
pub(crate) fn join(routes: Routes, failure: FailurePage) -> BoxedFilter<(Response,)> {
    let unknown = warp::any()
        .and(warp::method())
        .and(warp::path::full())
        .and(warp::ext::get::<RequestContext>())
        .map(
            move |method: Method, path: warp::path::FullPath, context: RequestContext| {
                let info = RequestInfo {
                    id: context.id,
                    method,
                    target: path.as_str().to_owned(),
                    sent_from: String::new(),
                };
                respond_with_failure(ApiError::unknown_path(), &info, failure)
            },
        )
        .boxed();
    match any_of(routes) {
        Some(known) => known.or(unknown).unify().boxed(),
        None => unknown,
    }
}

/// Joins filters, of which the first one that does not reject responds, as a balanced tree.
/// A request passes through each level whenever its future is polled; in a chain, each
/// endpoint would be a level of all requests.
fn any_of(mut filters: Routes) -> Option<BoxedFilter<(Response,)>> {
    if filters.len() < 2 {
        return filters.pop();
    }
    let last = any_of(filters.split_off(filters.len() / 2))?;
    let first = any_of(filters)?;
    Some(first.or(last).unify().boxed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> Endpoint {
        async fn handler(_: App, _: Request) -> ApiResult {
            Err(ApiError::unknown_path())
        }
        at(path!("changes")).get(handler).post(handler)
    }

    /// Returns the index of the handler, or the status and the header `Allow`.
    fn find_in(method: &Method, path: &str) -> Result<Option<usize>, (u16, String)> {
        let handlers = endpoint().handlers;
        match find(&handlers, method, path) {
            Ok(found) => Ok(handlers
                .iter()
                .position(|(_, handler)| Arc::ptr_eq(handler, &found))),
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
        assert_eq!(find_in(&Method::GET, "/changes"), Ok(Some(0)));
        assert_eq!(find_in(&Method::HEAD, "/changes"), Ok(Some(0)));
        assert_eq!(find_in(&Method::POST, "/changes"), Ok(Some(1)));
        let allowed = "GET, POST, HEAD".to_owned();
        assert_eq!(find_in(&Method::DELETE, "/changes"), Err((405, allowed)));
    }

    #[test]
    fn a_path_has_no_trailing_slash() {
        assert_eq!(find_in(&Method::GET, "/"), Ok(Some(0)));
        assert_eq!(
            find_in(&Method::GET, "/changes/"),
            Err((404, String::new()))
        );
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
        assert_eq!([status("/api"), status("/api/x")], [404, 404]);
        // The status of the page above.
        assert_eq!([status("/apis"), status("/changes")], [200, 200]);
    }
}
