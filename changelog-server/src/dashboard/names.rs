//! `/names/KIND`: the names that begin with what was typed, as JSON for the script.

use changelog_core::limits::MAX_NAME_CHARS;
use changelog_core::text::composed;
use changelog_core::{Host, IncidentFilter, ProblemCode, Service};
use serde::Serialize;

use super::parts::viewer::{Section, Viewer};
use crate::app::App;
use crate::store::{Store, StoreError, Tenant};
use crate::web::{ApiError, ApiResult, Request, reply};

/// The most names in a response.
const MAX_NAMES: usize = 200;
/// The number of incidents that are searched: open ones, then the latest.
const INCIDENTS_SEARCHED: u64 = 25;
/// The most tags in a response; each is a lookup.
const MAX_TAGS: usize = 40;

#[derive(Serialize)]
struct Found {
    names: Vec<String>,
    /// The pages of what has these names, where names do not lead to them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    addresses: Vec<String>,
    /// Whether there may be more.
    has_more: bool,
}

/// `GET /names/services`, `/names/hosts`, `/names/tags`, `/names/people`, `/names/sources`,
/// `/names/incidents`
pub(super) async fn get(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Changes).await?;
    let form = request.query_form();
    let prefix = composed(form.value("prefix").trim_start());
    let is_name = prefix.chars().count() <= MAX_NAME_CHARS && !prefix.contains(char::is_control);
    let (store, tenant) = (&app.store, viewer.tenant());
    let mut addresses = Vec::new();
    let mut names = match request.parameter.as_str() {
        // Nothing has such a name.
        _ if !is_name => Vec::new(),
        "services" => {
            store
                .item_names_from::<Service>(tenant, &prefix, limit())
                .await?
        }
        "hosts" => {
            store
                .item_names_from::<Host>(tenant, &prefix, limit())
                .await?
        }
        "tags" => store.tag_names_from(tenant, &prefix, MAX_TAGS).await?,
        "people" => people(store, tenant, &prefix).await?,
        "sources" => sources(store, tenant, &prefix).await?,
        "incidents" => {
            let pages = incidents(store, tenant, &prefix).await?;
            let (titles, pages) = pages.into_iter().unzip();
            addresses = pages;
            titles
        }
        _ => {
            let detail = "there is no list of names at this address";
            return Err(ApiError::new(ProblemCode::NotFound, detail));
        }
    };
    let has_more = names.len()
        >= match request.parameter.as_str() {
            "tags" => MAX_TAGS,
            _ => MAX_NAMES,
        };
    names.truncate(MAX_NAMES);
    let found = Found {
        names,
        addresses,
        has_more,
    };
    Ok(reply::json(200, &found))
}

fn limit() -> u64 {
    MAX_NAMES as u64
}

/// Returns the names of the API keys, and of the people that have recorded something.
pub(super) async fn people(
    store: &Store,
    tenant: Tenant,
    prefix: &str,
) -> Result<Vec<String>, StoreError> {
    let prefix = prefix.to_lowercase();
    let actors = store.actors(tenant).await?.into_iter();
    // Those without an id are API keys, with a word before their names, and the operator.
    let people = actors.filter(|actor| actor.actor_id.is_some());
    let people = people.map(|actor| actor.actor_name);
    let keys = store.api_keys(tenant).await?;
    let names = keys.into_iter().map(|key| key.name).chain(people);
    let mut names: Vec<String> = names
        .filter(|name| name.to_lowercase().starts_with(&prefix))
        .collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// Returns the names of the sources.
pub(super) async fn sources(
    store: &Store,
    tenant: Tenant,
    prefix: &str,
) -> Result<Vec<String>, StoreError> {
    let prefix = prefix.to_lowercase();
    let sources = store.sources(tenant).await?.into_iter();
    let names = sources.map(|source| source.name);
    Ok(names
        .filter(|name| name.to_lowercase().starts_with(&prefix))
        .collect())
}

/// Searches the titles of the open and the latest incidents for a text; returns the titles with
/// the addresses of their pages.
async fn incidents(
    store: &Store,
    tenant: Tenant,
    text: &str,
) -> Result<Vec<(String, String)>, StoreError> {
    let text = text.to_lowercase();
    let filter = IncidentFilter {
        limit: INCIDENTS_SEARCHED,
        ..IncidentFilter::default()
    };
    let latest = store.incidents(tenant, &filter).await?.into_iter();
    let found = latest.filter(|incident| incident.title.to_lowercase().contains(&text));
    let pages = found.map(|one| (one.title, format!("/incidents/{}", one.id)));
    Ok(pages.collect())
}
