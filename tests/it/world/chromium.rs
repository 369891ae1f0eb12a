//! A real browser: headless Chromium, driven through its driver.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fantoccini::{Client, ClientBuilder, Locator};
use serde_json::json;
use tempfile::TempDir;

use super::{requirement, watchdog};

/// How long a page may take to come, on a machine that is busy.
const ARRIVAL: Duration = Duration::from_secs(20);

/// A browser with a profile of its own; gone when dropped.
pub(crate) struct Chromium {
    /// The only tab.
    pub(crate) tab: Client,
    driver: Child,
    _profile: TempDir,
}

impl Chromium {
    /// Starts a browser, where there is one.
    pub(crate) async fn start() -> Option<Self> {
        let (Some(browser), Some(driver)) = (
            requirement::in_path("chromium"),
            requirement::in_path("chromedriver"),
        ) else {
            requirement::missing("chromium", "Chromium with its driver");
            return None;
        };
        let profile = tempfile::tempdir().expect("a folder");
        // It takes a port that is free for IPv4 and gives up where another has
        // it for IPv6: the next try takes another.
        let (driver, port) = (0..5)
            .find_map(|_| start_driver(&driver))
            .expect("the driver starts and says its port");
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
                format!("--user-data-dir={}", profile.path().display()),
            ],
        });
        let capabilities = [("goog:chromeOptions".to_owned(), options)];
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

    /// Waits until the page has an element: what a click leads to takes time.
    pub(crate) async fn arrives_at(&self, css: &str) {
        let arrived = self
            .tab
            .wait()
            .at_most(ARRIVAL)
            .for_element(Locator::Css(css))
            .await;
        if let Err(error) = arrived {
            panic!("{css} does not appear, {error}: {}", self.text().await);
        }
    }

    /// Returns what a person sees of the page.
    pub(crate) async fn text(&self) -> String {
        let body = self.tab.find(Locator::Css("body")).await.expect("a page");
        body.text().await.expect("its text")
    }

    /// Returns the path of the page.
    pub(crate) async fn path(&self) -> String {
        self.tab
            .current_url()
            .await
            .expect("an address")
            .path()
            .to_owned()
    }
}

/// Starts the driver, and returns it with the port that it says.
fn start_driver(program: &Path) -> Option<(Child, String)> {
    let mut driver = Command::new(program)
        .arg("--port=0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the driver starts");
    watchdog::server(driver.id());
    let said = BufReader::new(driver.stdout.take().expect("a pipe"));
    let port = said.lines().map_while(Result::ok).find_map(|line| {
        let (_, port) = line.split_once("started successfully on port ")?;
        Some(port.trim_end_matches('.').to_owned())
    });
    if port.is_none() {
        // It has closed its output, and ends by itself.
        let _ = driver.wait();
    }
    port.map(|port| (driver, port))
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // Ends the browser as well, which is the driver's child.
        super::signal(self.driver.id(), "TERM");
        let _ = self.driver.wait();
    }
}
