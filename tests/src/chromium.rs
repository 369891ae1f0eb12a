//! A real browser: headless Chromium, driven through its driver.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fantoccini::elements::Element;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::sleep;
use url::Url;

use crate::{installed, watchdog};

/// How long a page may take to load on a busy machine.
const PAGE_TIMEOUT: Duration = Duration::from_secs(20);

/// A browser with a profile of its own; closed when dropped.
pub struct Chromium {
    /// The only tab.
    pub tab: Client,
    driver: Child,
    _profile: TempDir,
}

impl Chromium {
    /// Starts a browser; `None` if Chromium is not installed.
    pub async fn start() -> Option<Self> {
        Self::start_with(json!({})).await
    }

    /// Starts a browser with JavaScript disabled.
    pub async fn without_scripts() -> Option<Self> {
        const BLOCKED: u32 = 2;
        let setting = "profile.managed_default_content_settings.javascript";
        let browser = Self::start_with(json!({ setting: BLOCKED })).await?;
        let page = "data:text/html,<title>off</title><script>document.title = 'on'</script>";
        browser.open(page).await;
        let title = browser.tab.title().await.expect("a title");
        assert_eq!(title, "off", "scripts run");
        Some(browser)
    }

    async fn start_with(preferences: Value) -> Option<Self> {
        let (Some(browser), Some(driver)) = (
            installed::in_path("chromium"),
            installed::in_path("chromedriver"),
        ) else {
            installed::missing("chromium", "Chromium with its driver");
            return None;
        };
        let profile = tempfile::tempdir().expect("a folder");
        watchdog::folder(profile.path());
        // The driver picks a port that is free for IPv4 and fails if the port is used for
        // IPv6; it picks another one at the next attempt.
        let (driver, port) = (0..5)
            .find_map(|_| start_driver(&driver))
            .expect("the driver starts and prints its port");
        let options = json!({
            "binary": browser,
            "args": [
                "--headless=new",
                // Chromium's own sandbox does not work for root.
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--no-first-run",
                "--window-size=1280,900",
                // A host whose pages are no secure context.
                "--host-resolver-rules=MAP plain.test 127.0.0.1",
                format!("--user-data-dir={}", profile.path().display()),
            ],
            "prefs": preferences,
        });
        let capabilities = [
            ("goog:chromeOptions".to_owned(), options),
            ("goog:loggingPrefs".to_owned(), json!({ "browser": "INFO" })),
        ];
        let tab = ClientBuilder::new(hyper_util::client::legacy::connect::HttpConnector::new())
            .capabilities(capabilities.into_iter().collect())
            .connect(&format!("http://127.0.0.1:{port}"))
            .await
            .expect("the browser starts");
        Some(Self {
            tab,
            driver,
            _profile: profile,
        })
    }

    /// Opens a URL.
    pub async fn open(&self, url: &str) {
        let gone = self.tab.goto(url).await;
        gone.unwrap_or_else(|error| panic!("{url}: {error}"));
    }

    /// Waits until the page has an element.
    pub async fn wait_for(&self, css: &str) {
        self.wait_for_element(Locator::Css(css)).await;
    }

    /// Waits until an element of the page has exactly this text.
    pub async fn wait_for_text(&self, text: &str) {
        self.wait_for_element(Locator::XPath(&format!("//*[{}]", has_text(text))))
            .await;
    }

    /// Waits until the page has this URL.
    pub async fn wait_for_url(&self, url: &str) {
        let wanted = Url::parse(url).expect("an address");
        let wait = self.tab.wait().at_most(PAGE_TIMEOUT);
        if let Err(error) = wait.for_url(&wanted).await {
            panic!("expected {url}, {error}, got {}", self.address().await);
        }
    }

    async fn wait_for_element(&self, locator: Locator<'_>) -> Element {
        let wait = self.tab.wait().at_most(PAGE_TIMEOUT);
        match wait.for_element(locator).await {
            Ok(element) => element,
            Err(error) => {
                let (address, text) = (self.address().await, self.text().await);
                panic!("{locator:?} does not appear, {error}, on {address}: {text}")
            }
        }
    }

    /// Waits for an element and returns it.
    pub async fn find(&self, css: &str) -> Element {
        self.wait_for_element(Locator::Css(css)).await
    }

    /// Returns whether the page has an element.
    pub async fn has(&self, css: &str) -> bool {
        !self.all(css).await.is_empty()
    }

    /// Returns all elements of the page that match.
    pub async fn all(&self, css: &str) -> Vec<Element> {
        let found = self.tab.find_all(Locator::Css(css)).await;
        found.expect("a page")
    }

    /// Waits for an element and clicks it.
    pub async fn click(&self, css: &str) {
        let clicked = self.find(css).await.click().await;
        clicked.unwrap_or_else(|error| panic!("{css} cannot be clicked: {error}"));
    }

    /// Clicks the button or link of this name. If that submits a form, waits until the
    /// old page is gone, because the new page may look the same.
    pub async fn press(&self, name: &str) {
        let has_name = has_text(name);
        let path = format!("//main//*[(self::button or self::a or self::summary) and {has_name}]");
        let element = self.wait_for_element(Locator::XPath(&path)).await;
        let kind = element.prop("type").await.expect("an element");
        let clicked = element.click().await;
        clicked.unwrap_or_else(|error| panic!("{name} cannot be pressed: {error}"));
        let pressed = Instant::now();
        // An element of the old page has no tag name any more.
        while kind.as_deref() == Some("submit") && element.tag_name().await.is_ok() {
            assert!(pressed.elapsed() < PAGE_TIMEOUT, "{name} loads no page");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Fills fields of a form by typing.
    pub async fn fill(&self, form: &str, fields: &[(&str, &str)]) {
        for (name, value) in fields {
            let field = self.find(&format!("{form} [name='{name}']")).await;
            let tag = field.tag_name().await.expect("a tag");
            let kind = field.attr("type").await.expect("an element");
            let filled = match (tag.as_str(), kind.as_deref()) {
                ("select", _) => field.select_by_value(value).await,
                // The typed format depends on the language of the machine.
                (_, Some("datetime-local")) => {
                    let script = "arguments[0].value = arguments[1]";
                    let element = serde_json::to_value(field).expect("JSON");
                    let set = self.tab.execute(script, vec![element, json!(value)]);
                    set.await.map(|_| ())
                }
                _ => match field.clear().await {
                    Ok(()) => field.send_keys(value).await,
                    Err(error) => Err(error),
                },
            };
            filled.unwrap_or_else(|error| panic!("{name} cannot be filled: {error}"));
        }
    }

    /// Returns the value of a field.
    pub async fn value(&self, css: &str) -> String {
        let value = self.find(css).await.prop("value").await;
        value.expect("an element").unwrap_or_default()
    }

    /// Returns the visible text of an element.
    pub async fn text_of(&self, css: &str) -> String {
        self.find(css).await.text().await.expect("its text")
    }

    /// Returns the visible texts of all elements that match, in order.
    pub async fn texts(&self, css: &str) -> Vec<String> {
        let mut texts = Vec::new();
        for element in self.all(css).await {
            texts.push(element.text().await.expect("its text"));
        }
        texts
    }

    /// Runs a script in the page.
    pub async fn script(&self, script: &str) -> Value {
        let result = self.tab.execute(script, vec![]).await;
        result.unwrap_or_else(|error| panic!("{error}: {script}"))
    }

    /// Types keys into the focused element.
    pub async fn keys(&self, keys: &str) {
        let focused = self.tab.active_element().await.expect("a page");
        focused.send_keys(keys).await.expect("keys");
    }

    /// Sets the preferred color scheme, and turns off animations: a color in transition
    /// has neither value.
    pub async fn set_color_scheme(&self, scheme: &str) {
        let features = json!([
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ]);
        let body = json!({
            "cmd": "Emulation.setEmulatedMedia",
            "params": { "features": features },
        });
        self.chrome("goog/cdp/execute", body).await;
    }

    /// Sets the medium, such as `print`.
    pub async fn set_media(&self, media: &str) {
        let body = json!({
            "cmd": "Emulation.setEmulatedMedia",
            "params": { "media": media },
        });
        self.chrome("goog/cdp/execute", body).await;
    }

    /// Sets the time zone of pages that are opened from now on.
    pub async fn set_time_zone(&self, zone: &str) {
        let body = json!({
            "cmd": "Emulation.setTimezoneOverride",
            "params": { "timezoneId": zone },
        });
        self.chrome("goog/cdp/execute", body).await;
    }

    /// Sets the width of the window.
    pub async fn set_width(&self, width: u32) {
        let body = json!({
            "cmd": "Emulation.setDeviceMetricsOverride",
            "params": { "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false },
        });
        self.chrome("goog/cdp/execute", body).await;
    }

    /// Returns the console messages since the last call.
    pub async fn console(&self) -> Vec<String> {
        let messages = self.chrome("se/log", json!({ "type": "browser" })).await;
        let entries = messages.as_array().expect("a list").iter();
        entries
            .map(|entry| format!("{}: {}", entry["level"], entry["message"]))
            .collect()
    }

    /// Sends a command of the Chromium driver.
    async fn chrome(&self, command: &'static str, body: Value) -> Value {
        let done = self.tab.issue_cmd(Chrome { command, body }).await;
        done.unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    /// Returns the visible text of the page.
    pub async fn text(&self) -> String {
        let body = self.tab.find(Locator::Css("body")).await.expect("a page");
        body.text().await.expect("its text")
    }

    /// Returns the path of the page.
    pub async fn path(&self) -> String {
        self.url().await.path().to_owned()
    }

    /// Returns the path of the page with its query string.
    pub async fn address(&self) -> String {
        self.url().await[url::Position::BeforePath..].to_owned()
    }

    async fn url(&self) -> Url {
        self.tab.current_url().await.expect("an address")
    }

    /// Returns the session cookie as a browser sends it.
    pub async fn cookie(&self) -> String {
        let cookie = self.tab.get_named_cookie("changelog_session").await;
        let cookie = cookie.expect("a session");
        format!("{}={}", cookie.name(), cookie.value())
    }
}

/// Returns the `XPath` condition that an element has exactly this text.
fn has_text(text: &str) -> String {
    assert!(!text.contains('"'), "XPath cannot quote {text}");
    format!("normalize-space() = \"{text}\"")
}

/// A command of the Chromium driver that is not in the standard.
#[derive(Debug)]
struct Chrome {
    command: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Chrome {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, url::ParseError> {
        let session = session.unwrap_or_default();
        base.join(&format!("session/{session}/{}", self.command))
    }

    fn method_and_body(&self, _: &Url) -> (hyper::Method, Option<String>) {
        (hyper::Method::POST, Some(self.body.to_string()))
    }
}

/// Starts the driver, and returns it with its port.
fn start_driver(program: &Path) -> Option<(Child, String)> {
    let mut driver = Command::new(program)
        .arg("--port=0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // The driver leaves its browser running when it ends; both are killed as a group.
        .process_group(0)
        .spawn()
        .expect("the driver starts");
    watchdog::server(driver.id());
    let stdout = BufReader::new(driver.stdout.take().expect("a pipe"));
    let port = stdout.lines().map_while(Result::ok).find_map(|line| {
        let (_, port) = line.split_once("started successfully on port ")?;
        Some(port.trim_end_matches('.').to_owned())
    });
    if port.is_none() {
        // It has closed its output and is about to exit.
        let _ = driver.wait();
    }
    port.map(|port| (driver, port))
}

impl Drop for Chromium {
    fn drop(&mut self) {
        crate::signal(format!("-{}", self.driver.id()), "KILL");
        let _ = self.driver.wait();
    }
}
