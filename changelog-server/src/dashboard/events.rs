//! `/events`: server-sent events for an open page. `changed` says that a change or an incident was
//! created or updated; `alive` comes at intervals, so that the page notices when the
//! service does not answer any more.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::try_unfold;
use http::Method;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::app::App;
use crate::change_streams::Subscription;
use crate::store::{StoreError, Tenant};
use crate::web::{ApiResult, Request, reply, session};

const ALIVE: Bytes = Bytes::from_static(b"event: alive\ndata: {}\n\n");
const CHANGED: Bytes = Bytes::from_static(b"event: changed\ndata: {}\n\n");

/// How often a stream checks its session and sends `alive`. The script expects an event
/// at least every three intervals.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// The shortest time between two events `changed`: a page loads at most this often.
const CHANGED_INTERVAL: Duration = Duration::from_secs(1);

/// `GET /events`
pub(super) async fn get(app: App, request: Request) -> ApiResult {
    let session = session::require(&app, &request).await?;
    request.no_parameters()?;
    if request.method == Method::HEAD {
        return Ok(reply::text(200, reply::EVENT_STREAM, String::new()));
    }
    let address = request.context.address;
    let subscription = app
        .change_streams
        .subscribe_page(session.tenant, address)
        .await?;
    let now = Instant::now();
    let stream = PageStream {
        token: session::token(&app, &request)
            .unwrap_or_default()
            .to_owned(),
        app,
        tenant: session.tenant,
        subscription,
        // The first event is sent at once.
        next_check: now,
        next_changed: now,
        is_changed: false,
    };
    let chunks = try_unfold(stream, |mut stream| async move {
        Ok(stream.next().await?.map(|chunk| (chunk, stream)))
    });
    Ok(reply::event_stream(chunks))
}

/// The stream of one open page.
struct PageStream {
    app: App,
    token: String,
    tenant: Tenant,
    subscription: Subscription,
    next_check: Instant,
    next_changed: Instant,
    /// Whether something was recorded since the last event `changed`.
    is_changed: bool,
}

impl PageStream {
    /// Waits for the next event; `None` when the session or the service ends.
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        loop {
            if self.subscription.is_shutting_down() {
                return Ok(None);
            }
            if self.next_check <= Instant::now() {
                if !self.has_session().await? {
                    return Ok(None);
                }
                self.next_check = Instant::now() + CHECK_INTERVAL;
                return Ok(Some(ALIVE));
            }
            if self.is_changed {
                if self.next_changed <= Instant::now() {
                    self.is_changed = false;
                    self.next_changed = Instant::now() + CHANGED_INTERVAL;
                    return Ok(Some(CHANGED));
                }
                sleep_until(self.next_changed.min(self.next_check)).await;
            } else if let Ok(event) = timeout_at(self.next_check, self.subscription.recv()).await {
                // A stream that is behind has missed events: something was recorded.
                if event.is_none() {
                    return Ok(None);
                }
                self.is_changed = true;
                self.subscription.skip();
            }
        }
    }

    /// Returns whether the session still exists, in the same organization. This does not
    /// count as a use of the session.
    async fn has_session(&self) -> Result<bool, StoreError> {
        let now = self.app.clock.for_expiry();
        let session = self.app.store.session(&self.token, now).await?;
        Ok(session.is_some_and(|session| session.tenant == self.tenant))
    }
}
