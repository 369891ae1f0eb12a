//! `/feeds/changes.atom`: the newest changes for feed readers.
//!
//! A feed reader has no session; the token in the address stands for a member, who can
//! revoke it on the account page.

use askama::Template;
use changelog_core::{Change, ChangeFilter, Timestamp};

use crate::app::App;
use crate::blocking_pool;
use crate::dashboard::parts::query_string::without;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{format, page};
use crate::store::Feed;
use crate::web::{ApiError, ApiResult, Request, reply, session};

/// The number of changes in a feed.
const FEED_CHANGES: u64 = 50;
/// The parameter with the token.
const TOKEN: &str = "token";
const MEDIA_TYPE: &str = "application/atom+xml; charset=utf-8";

/// `GET /feeds/changes.atom`
pub(super) async fn get(app: App, request: Request) -> ApiResult {
    let form = request.query_form();
    let Some(feed) = app.store.feed(form.value(TOKEN)).await? else {
        let detail = "This feed's address is no longer valid. Create another one on your account \
                      page.";
        return Ok(reply::text(
            404,
            "text/plain; charset=utf-8",
            detail.to_owned(),
        ));
    };
    // Responses that are not read yet count for this organization.
    let _ = request.context.state.tenant.set(feed.tenant);
    let read = |query: &str| {
        let query = without(query, &[TOKEN]);
        Ok(ChangeFilter::from_query(&query)?.without_planned(&query))
    };
    let mut filter = request.filter(read)?;
    filter.per_page = FEED_CHANGES;
    let list = app.store.changes(feed.tenant, &filter).await?;
    let (url, size) = (app.url(), list.json.0.len());
    let xml = blocking_pool::run_sized(size, move || {
        let changes: Vec<Change> = list.json.parse()?;
        atom(&feed, &changes, &url)
    });
    Ok(page::cacheable(&request, MEDIA_TYPE, xml.await?))
}

/// Creates the address of the viewer's feed, and returns it.
pub(super) async fn create(app: &App, viewer: &Viewer) -> Result<String, ApiError> {
    let token = session::new_token();
    let mut tx = app.store.begin().await?;
    let person = viewer.session.person.id;
    tx.create_feed(viewer.tenant(), person, &token, app.now().into())
        .await?;
    tx.commit().await?;
    Ok(format!("{}/feeds/changes.atom?{TOKEN}={token}", app.url()))
}

/// `POST /account/feed/revoke`
pub(super) async fn revoke(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write_own(&app, &request, Section::Account).await?;
    let mut tx = app.store.begin().await?;
    tx.revoke_feed(viewer.tenant(), viewer.session.person.id)
        .await?;
    tx.commit().await?;
    Ok(page::see_other("/account?done=feed"))
}

/// The changes as a feed of RFC 4287.
#[derive(Template)]
#[template(path = "feed.xml")]
struct Atom<'c> {
    feed: &'c Feed,
    url: &'c str,
    newest: Timestamp,
    entries: Vec<Entry<'c>>,
}

struct Entry<'c> {
    change: &'c Change,
    summary: String,
    categories: Vec<String>,
}

fn atom(feed: &Feed, changes: &[Change], url: &str) -> Result<String, ApiError> {
    let newest = changes.iter().map(|change| change.updated_at).max();
    let feed = Atom {
        feed,
        url,
        newest: newest.unwrap_or(Timestamp::EPOCH),
        entries: changes.iter().map(Entry::of).collect(),
    };
    feed.render().map_err(|error| ApiError::internal(&error))
}

impl<'c> Entry<'c> {
    fn of(change: &'c Change) -> Self {
        let services = change.all_services().iter();
        let services: Vec<String> = services
            .map(|service| format::visible(&service.name))
            .collect();
        let environment = change.environment.as_ref().map(ToString::to_string);
        let status = change.status_label().to_owned();
        let mut summary = format!("{} risk, {status}", change.risk_level);
        for fact in services.iter().chain(&environment) {
            summary.push_str(", ");
            summary.push_str(fact);
        }
        if let Some(text) = &change.description {
            summary.push_str(". ");
            summary.push_str(&format::visible(&format::excerpt(text)));
        }
        let categories = [change.risk_level.to_string(), status].into_iter();
        Self {
            change,
            summary,
            categories: categories.chain(environment).chain(services).collect(),
        }
    }
}
