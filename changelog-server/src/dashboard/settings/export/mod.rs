//! `/settings/organization/export`: everything that an organization has, as one archive.

mod zip_stream;

use bytes::Bytes;
use changelog_core::limits::MAX_PER_PAGE;
use changelog_core::{ChangeFilter, Host, Service};
use futures_util::stream::{BoxStream, iter, once, try_unfold};
use futures_util::{Stream, StreamExt, TryStreamExt};
use serde::Serialize;
use serde_json::{Value, json};

use self::zip_stream::{Piece, archive};
use crate::app::App;
use crate::dashboard::parts::download::{attachment, json_line};
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::{activity, changes};
use crate::store::{ActivitySearch, Connection, Source, SsoProvider, StoreError, Tenant};
use crate::web::{ApiResult, Request};

/// What the archive says of itself.
const ABOUT: &str = "\
Everything that an organization has in the change log.

organization.json       the organization, how long it keeps its records, its identity provider
changes.ndjson          changes, as the API returns them, the newest first
activity.ndjson         the activity log, the newest first
incidents.ndjson        incidents with their suspects, the latest recorded first
services.ndjson         services, with those that they depend on
hosts.ndjson            hosts
members.ndjson          members, with their subscriptions and saved views
invitations.ndjson      open invitations
api_keys.ndjson         API keys, without the keys
workloads.ndjson        workload identities
sources.ndjson          sources, without their addresses and secrets
connections.ndjson      connections to receivers, without what is secret of their addresses
manifest.json           the files before it, with their lines and their SHA-256

A file .ndjson has one JSON object in each line. `chlog import changes.ndjson` records the changes
in another organization.

What was recorded or changed while the archive was made may be in it or not. What expires by itself is
not in it: sessions, requests that sources have received (kept for 14 days), and what is on its way
to receivers. An archive that has no manifest.json is not complete.
";

/// `POST /settings/organization/export`: sends the archive to an owner, which is recorded.
pub(crate) async fn export(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::own(&app, &request, Section::Settings).await?;
    let (tenant, now) = (viewer.tenant(), app.now());
    let name = app.store.organization(tenant).await?.name;
    let mut tx = app.store.begin_for(tenant).await?;
    tx.record_export(tenant, &viewer.actor(), &name, now)
        .await?;
    tx.commit().await?;
    let archive = archive(contents(&app, tenant), now);
    Ok(attachment(&viewer, "change-log", "zip", archive))
}

/// Reads the files, each when it is needed.
fn contents(app: &App, tenant: Tenant) -> BoxStream<'static, Result<Piece, StoreError>> {
    let about = once(async { Ok(Bytes::from_static(ABOUT.as_bytes())) });
    let changes = changes::download::lines(app.clone(), tenant, ChangeFilter::default());
    let activity = activity::download::lines(app.clone(), tenant, ActivitySearch::default());
    let files: [(_, BoxStream<'static, Result<Bytes, StoreError>>); 13] = [
        ("README.txt", about.boxed()),
        (
            "organization.json",
            read(app, move |app| organization(app, tenant)),
        ),
        ("changes.ndjson", changes.boxed()),
        ("activity.ndjson", activity.boxed()),
        ("incidents.ndjson", incidents(app.clone(), tenant).boxed()),
        (
            "services.ndjson",
            read(app, move |app| async move {
                Ok(lines(app.store.items::<Service>(tenant).await?))
            }),
        ),
        (
            "hosts.ndjson",
            read(app, move |app| async move {
                Ok(lines(app.store.items::<Host>(tenant).await?))
            }),
        ),
        ("members.ndjson", read(app, move |app| members(app, tenant))),
        (
            "invitations.ndjson",
            read(app, move |app| async move {
                Ok(lines(app.store.invitations(tenant).await?))
            }),
        ),
        (
            "api_keys.ndjson",
            read(app, move |app| async move {
                Ok(lines(app.store.api_keys(tenant).await?))
            }),
        ),
        (
            "workloads.ndjson",
            read(app, move |app| async move {
                Ok(lines(app.store.workloads(tenant).await?))
            }),
        ),
        (
            "sources.ndjson",
            read(app, move |app| async move {
                let sources = app.store.sources(tenant).await?;
                Ok(lines(sources.iter().map(Source::to_json)))
            }),
        ),
        (
            "connections.ndjson",
            read(app, move |app| async move {
                let connections = app.store.connections(tenant).await?;
                Ok(lines(connections.iter().map(Connection::to_json)))
            }),
        ),
    ];
    let pieces = files.map(|(name, bytes)| {
        let name = once(async move { Ok(Piece::File(name)) });
        name.chain(bytes.map_ok(Piece::Bytes))
    });
    iter(pieces).flatten().boxed()
}

/// Returns a file that is read at once.
fn read<F>(app: &App, read: impl FnOnce(App) -> F) -> BoxStream<'static, Result<Bytes, StoreError>>
where
    F: Future<Output = Result<Bytes, StoreError>> + Send + 'static,
{
    once(read(app.clone())).boxed()
}

/// Formats records, one in each line.
fn lines(records: impl IntoIterator<Item = impl Serialize>) -> Bytes {
    let lines = records.into_iter().flat_map(|record| json_line(&record));
    lines.collect()
}

async fn organization(app: App, tenant: Tenant) -> Result<Bytes, StoreError> {
    let retention = app.store.retention(tenant).await?;
    let provider = app.store.sso_provider(tenant).await?;
    let organization = json!({
        "organization": app.store.organization(tenant).await?,
        "retention_months": retention.map(|kept| kept.months.get()),
        "identity_provider": provider.as_ref().map(SsoProvider::to_json),
    });
    Ok(format!("{organization:#}\n").into())
}

/// Reads the members with what they have chosen for themselves.
async fn members(app: App, tenant: Tenant) -> Result<Bytes, StoreError> {
    let mut members = Vec::new();
    for member in app.store.members(tenant).await? {
        let person = member.user.id;
        let subscriptions = app.store.subscriptions(tenant, person).await?;
        let subscriptions = subscriptions.iter().map(|(service, chosen)| {
            json!({
                "service": service,
                "min_risk": chosen.options.min_risk,
                "mail": chosen.options.mail.as_str(),
                "created_at": chosen.created_at,
            })
        });
        let views = app.store.saved_views(tenant, person).await?;
        let views = views.iter().map(
            |view| json!({ "name": view.name, "query": view.query, "is_shared": view.is_shared }),
        );
        members.push(json!({
            "user": member.user,
            "role": member.role,
            "joined_at": member.joined_at,
            "subscriptions": subscriptions.collect::<Vec<Value>>(),
            "saved_views": views.collect::<Vec<Value>>(),
        }));
    }
    Ok(lines(members))
}

/// Reads the incidents page by page, with all of their suspects.
fn incidents(app: App, tenant: Tenant) -> impl Stream<Item = Result<Bytes, StoreError>> + Send {
    try_unfold(Some((app, None)), move |state| async move {
        let Some((app, before)) = state else {
            return Ok(None);
        };
        let page = app.store.whole_incidents(tenant, before, MAX_PER_PAGE);
        let page = page.await?;
        let last = page.last().map(|incident| incident.id);
        let is_last = (page.len() as u64) < MAX_PER_PAGE;
        Ok(Some((lines(page), (!is_last).then_some((app, last)))))
    })
}
