//! HTTP clients: without credentials, with an API key, or with a session.

use std::sync::OnceLock;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, RequestBuilder};
use serde::Serialize;
use serde_json::{Value, json};

/// Sends requests to one service, each with the same headers.
#[derive(Clone)]
pub struct TestClient {
    /// The HTTP client, without redirects and with a timeout of a minute.
    pub client: Client,
    base: String,
    headers: HeaderMap,
}

/// A response with its request.
#[derive(Clone, Debug)]
pub struct TestResponse {
    request: String,
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub text: String,
}

impl TestClient {
    /// Creates a client without credentials.
    pub fn new(address: &str) -> Self {
        static PROVIDER: OnceLock<()> = OnceLock::new();
        PROVIDER.get_or_init(|| {
            // Fails only if a provider is installed already.
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let client = Client::builder()
            .no_proxy()
            // The services are reached without TLS. Reading the system's certificates for
            // each client would take longer than most requests.
            .tls_certs_only([])
            .redirect(reqwest::redirect::Policy::none())
            .timeout(Duration::from_mins(1))
            .build()
            .expect("a client");
        Self {
            client,
            base: format!("http://{address}"),
            headers: HeaderMap::new(),
        }
    }

    /// Adds a header to every request.
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        let value = HeaderValue::from_str(value).expect("a header's value");
        self.headers.append(HeaderName::from_static(name), value);
        self
    }

    /// Returns a request that can be changed before it is sent.
    pub fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        self.client
            .request(method, format!("{}{path}", self.base))
            .headers(self.headers.clone())
    }

    /// Sends a GET request.
    pub async fn get(&self, path: &str) -> TestResponse {
        send(self.request("GET", path)).await
    }

    /// Posts JSON.
    pub async fn post(&self, path: &str, body: Value) -> TestResponse {
        send(self.request("POST", path).json(&body)).await
    }

    /// Patches with JSON.
    pub async fn patch(&self, path: &str, body: Value) -> TestResponse {
        send(self.request("PATCH", path).json(&body)).await
    }

    /// Puts JSON.
    pub async fn put(&self, path: &str, body: Value) -> TestResponse {
        send(self.request("PUT", path).json(&body)).await
    }

    /// Posts bytes with the content type of JSON.
    pub async fn post_bytes(&self, path: &str, body: impl Into<Vec<u8>>) -> TestResponse {
        let request = self.request("POST", path);
        let request = request.header("content-type", "application/json");
        send(request.body(body.into())).await
    }

    /// Posts a form.
    pub async fn post_form(&self, path: &str, fields: &[(&str, &str)]) -> TestResponse {
        send(form(self.request("POST", path), fields)).await
    }

    /// Creates a change with this title and returns its id.
    #[track_caller]
    pub fn change(&self, title: &str) -> impl Future<Output = String> {
        self.create("/api/changes", json!({ "title": title }))
    }

    /// Creates a completed change with this title and returns its id.
    #[track_caller]
    pub fn completed_change(&self, title: &str) -> impl Future<Output = String> {
        self.create(
            "/api/changes",
            json!({ "title": title, "status": "completed" }),
        )
    }

    /// Creates a service with this name and returns its id.
    pub async fn service(&self, name: &str) -> String {
        self.create("/api/services", json!({ "name": name })).await
    }

    /// Creates a host with this name and returns its id.
    pub async fn host(&self, name: &str) -> String {
        self.create("/api/hosts", json!({ "hostname": name })).await
    }

    /// Reads what is in the envelope of a response, which must succeed.
    pub async fn read(&self, path: &str) -> Value {
        self.get(path).await.data(200)
    }

    /// Reads the body of a response, which must succeed.
    pub async fn body(&self, path: &str) -> Value {
        self.get(path).await.body(200)
    }

    /// Reads a page, which must succeed.
    pub async fn page(&self, path: &str) -> String {
        let answer = self.get(path).await;
        answer.is(200);
        answer.text
    }

    /// Creates a record, which must succeed, and returns its id.
    pub async fn create(&self, path: &str, body: Value) -> String {
        text(&self.post(path, body).await.data(201)["id"])
    }

    /// Creates changes with one request, which must succeed.
    pub async fn create_changes(&self, changes: impl Serialize) {
        let body = json!({ "changes": changes });
        self.post("/api/changes/bulk", body).await.is(201);
    }

    /// Updates a record, which must succeed, and returns it.
    pub async fn update(&self, path: &str, body: Value) -> Value {
        self.patch(path, body).await.data(200)
    }

    /// Sends the form of the sign-in.
    pub async fn try_sign_in(&self, email: &str, password: &str) -> TestResponse {
        let fields = [("email", email), ("password", password)];
        self.post_form("/sign-in", &fields).await
    }

    /// Posts a form, which must succeed and lead to another page.
    pub async fn submit(&self, path: &str, fields: &[(&str, &str)]) {
        self.post_form(path, fields).await.is(303);
    }
}

/// Sets the body of a request to form fields.
pub fn form(request: RequestBuilder, fields: &[(&str, &str)]) -> RequestBuilder {
    let body = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish();
    request
        .header("content-type", "application/x-www-form-urlencoded")
        .body(body)
}

/// Sends a request; any response is accepted.
pub async fn send(request: RequestBuilder) -> TestResponse {
    try_send(request).await.expect("a response")
}

/// Sends a request that may get no response.
pub async fn try_send(request: RequestBuilder) -> Result<TestResponse, reqwest::Error> {
    let (client, request) = request.build_split();
    let request = request?;
    let name = format!("{} {}", request.method(), request.url());
    let response = client.execute(request).await?;
    Ok(TestResponse {
        request: name,
        status: response.status().as_u16(),
        headers: response.headers().clone(),
        text: response.text().await?,
    })
}

impl TestResponse {
    /// Parses the body, for any status.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text)
            .unwrap_or_else(|error| panic!("{}: {error}: {}", self.request, self.text))
    }

    /// Requires this status and returns the body.
    #[track_caller]
    pub fn body(&self, status: u16) -> Value {
        self.is(status);
        assert_eq!(
            self.header("content-type"),
            "application/json",
            "{}",
            self.request
        );
        self.json()
    }

    /// Requires this status and an envelope with `data` alone, and returns its content.
    #[track_caller]
    pub fn data(&self, status: u16) -> Value {
        let mut body = self.body(status);
        assert_eq!(keys(&body), ["data"], "{}", self.request);
        body["data"].take()
    }

    /// Requires this status.
    #[track_caller]
    pub fn is(&self, status: u16) {
        assert_eq!(self.status, status, "{}: {}", self.request, self.text);
    }

    /// Returns a header's value; empty if the header is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// Returns the cookie that is set, as a browser sends it.
    #[track_caller]
    pub fn cookie(&self) -> &str {
        let cookie = self.header("set-cookie");
        let (pair, _) = cookie.split_once(';').expect("a cookie with attributes");
        pair
    }

    /// Requires a problem of this status and code with all its members, and returns it.
    #[track_caller]
    pub fn problem(&self, status: u16, code: &str) -> Value {
        let request = &self.request;
        self.is(status);
        assert_eq!(
            self.header("content-type"),
            "application/problem+json",
            "{request}"
        );
        let problem = self.json();
        let mut expected = vec!["code", "detail", "request_id", "status", "title", "type"];
        if problem.get("errors").is_some() {
            expected.insert(2, "errors");
        }
        if problem.get("more_errors").is_some() {
            expected.insert(3, "more_errors");
        }
        assert_eq!(keys(&problem), expected, "{request}");
        assert_eq!(problem["code"], code, "{request}: {problem}");
        assert_eq!(problem["type"], format!("/problems/{code}"), "{request}");
        assert_eq!(problem["status"], status, "{request}");
        assert_ne!(problem["title"], "", "{request}");
        assert_ne!(problem["detail"], "", "{request}");
        assert_eq!(
            problem["request_id"],
            self.header("x-request-id"),
            "{request}"
        );
        assert_ne!(problem["request_id"], "", "{request}");
        let required_header = match status {
            401 => Some("www-authenticate"),
            405 => Some("allow"),
            429 | 503 => Some("retry-after"),
            _ => None,
        };
        if let Some(name) = required_header {
            assert_ne!(self.header(name), "", "{request}: {status} without {name}");
        }
        problem
    }

    /// Requires a 422 with exactly these violations, as pointer and code, in
    /// any order.
    #[track_caller]
    pub fn violates(&self, expected: &[(&str, &str)]) {
        let problem = self.problem(422, "validation_failed");
        assert_eq!(
            violations(&problem),
            sorted(expected),
            "{}: {problem}",
            self.request
        );
    }

    /// Requires a 400 about the query string with exactly these violations.
    #[track_caller]
    pub fn violates_query(&self, expected: &[(&str, &str)]) {
        let problem = self.problem(400, "malformed_query");
        assert_eq!(
            violations(&problem),
            sorted(expected),
            "{}: {problem}",
            self.request
        );
    }
}

fn sorted(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut pairs: Vec<_> = pairs
        .iter()
        .map(|(pointer, code)| ((*pointer).to_owned(), (*code).to_owned()))
        .collect();
    pairs.sort();
    pairs
}

/// Returns the violations of a problem, sorted; each must have a message.
#[track_caller]
fn violations(problem: &Value) -> Vec<(String, String)> {
    let errors = problem["errors"].as_array().expect("a list of errors");
    let mut pairs = Vec::new();
    for error in errors {
        assert_eq!(keys(error), ["code", "message", "pointer"], "{error}");
        assert_ne!(error["message"], "", "{error}");
        pairs.push((text(&error["pointer"]), text(&error["code"])));
    }
    pairs.sort();
    pairs
}

/// Requires that a text contains another one.
#[track_caller]
pub fn assert_contains(text: &(impl AsRef<str> + ?Sized), expected: impl AsRef<str>) {
    let (text, expected) = (text.as_ref(), expected.as_ref());
    assert!(text.contains(expected), "no {expected:?}: {text}");
}

/// Requires that a text does not contain another one.
#[track_caller]
pub fn assert_lacks(text: &(impl AsRef<str> + ?Sized), unexpected: impl AsRef<str>) {
    let (text, unexpected) = (text.as_ref(), unexpected.as_ref());
    assert!(!text.contains(unexpected), "{unexpected:?}: {text}");
}

/// Returns the names of an object's members, sorted.
#[track_caller]
pub fn keys(value: &Value) -> Vec<&str> {
    let object = value
        .as_object()
        .unwrap_or_else(|| panic!("not an object: {value}"));
    let mut keys: Vec<&str> = object.keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// Returns the string in a JSON value.
#[track_caller]
pub fn text(value: &Value) -> String {
    let text = value
        .as_str()
        .unwrap_or_else(|| panic!("not a string: {value}"));
    text.to_owned()
}

/// Returns one member of each element of a list.
#[track_caller]
pub fn each<'a>(list: &'a Value, member: &str) -> Vec<&'a Value> {
    let list = list
        .as_array()
        .unwrap_or_else(|| panic!("not a list: {list}"));
    list.iter().map(|element| &element[member]).collect()
}
