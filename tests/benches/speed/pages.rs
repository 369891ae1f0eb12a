//! The pages of the dashboard, as the browser of a signed-in reader requests them.

use changelog_tests::{TestClient, sign_in};

use crate::Failure;
use crate::history;
use crate::http_connection::HttpConnection;
use crate::seed::{self, Seeded};
use crate::testbed::{OWNER, PASSWORD, Testbed};
use crate::work::Work;

/// A page with the size of its compressed response in bytes.
pub(crate) struct Page {
    pub(crate) name: &'static str,
    pub(crate) bytes: usize,
    pub(crate) work: Work,
}

/// Signs in as the owner of the large organization, and returns the pages to measure.
pub(crate) async fn pages(testbed: &Testbed, seeded: &Seeded) -> Result<Vec<Page>, Failure> {
    let address = &testbed.service.address;
    let cookie = sign_in(&TestClient::new(address), OWNER, PASSWORD).await;
    let service = &seeded.services[seeded.services.len() / 2];
    let busy_day = history::timestamp(seed::add_busy_day(testbed, seeded).await?);
    // As the service writes it: another form is redirected to it.
    let busy_day = busy_day.replace(':', "%3A");
    let mut pages = Vec::new();
    for (name, path, zone) in [
        ("the overview", "/".to_owned(), "UTC"),
        (
            "the overview, in Los Angeles",
            "/".to_owned(),
            "America/Los_Angeles",
        ),
        ("the changes", "/changes".to_owned(), "UTC"),
        ("around now", "/around".to_owned(), "UTC"),
        (
            "around a day of 20,000 changes of 200 services",
            format!("/around?at={busy_day}&window=24h"),
            "UTC",
        ),
        (
            "one of 5,000 services",
            format!("/services/{service}"),
            "UTC",
        ),
        ("the services", "/services".to_owned(), "UTC"),
        ("the activity", "/activity".to_owned(), "UTC"),
    ] {
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\naccept-encoding: gzip\r\n\
             cookie: {cookie}; changelog_zone={zone}\r\n\r\n"
        );
        let request = request.into_bytes();
        let mut http = HttpConnection::connect(address).await?;
        let answer = http.exchange(&request).await?;
        answer.is(200, &request)?;
        pages.push(Page {
            name,
            bytes: answer.body.len(),
            work: Work::of(200, request),
        });
    }
    Ok(pages)
}
