//! `GET /settings/integrations`

use std::collections::HashMap;

use askama::Template;
use changelog_core::{ConnectionId, Service, ServiceId};

use super::kinds::{KINDS, OfferedKind, kind_of};
use super::state::{NOTHING, State, counted};
use super::summary::summary;
use crate::app::App;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page};
use crate::store::{Connection, DeliveryTotals, StoreError, Tenant};
use crate::web::{ApiResult, Request};

#[derive(Template)]
#[template(path = "settings/integrations.html")]
struct ListPage<'a> {
    viewer: &'a Viewer,
    connections: Vec<Listed>,
    kinds: &'static [OfferedKind],
    message: &'static str,
}

/// A connection in the list.
struct Listed {
    connection: Connection,
    state: State,
    sends: Vec<String>,
    pending: String,
    dead: String,
}

/// `GET /settings/integrations`
pub(in crate::dashboard) async fn list(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Settings).await?;
    let tenant = viewer.tenant();
    let connections = app.store.connections(tenant).await?;
    let services = services(&app, tenant, &connections).await?;
    let totals = app.store.delivery_totals(tenant).await?;
    let mut totals: HashMap<ConnectionId, DeliveryTotals> = totals.into_iter().collect();
    let listed = connections.into_iter().map(|connection| {
        let totals = totals.remove(&connection.id).unwrap_or(NOTHING);
        let kind = kind_of(&connection.kind);
        Listed {
            state: State::of(&connection, &totals),
            sends: summary(&connection.filter, kind, &services),
            pending: counted(totals.pending),
            dead: counted(totals.dead),
            connection,
        }
    });
    let page = ListPage {
        viewer: &viewer,
        connections: listed.collect(),
        kinds: &KINDS,
        message: match request.query_form().value("done") {
            "deleted" => "The connection was deleted.",
            _ => "",
        },
    };
    page::render(200, &page)
}

/// Returns the names of the services, if a filter has some.
pub(super) async fn services(
    app: &App,
    tenant: Tenant,
    connections: &[Connection],
) -> Result<Vec<(ServiceId, String)>, StoreError> {
    let has_services = |one: &Connection| !one.filter.service_ids.is_empty();
    if !connections.iter().any(has_services) {
        return Ok(Vec::new());
    }
    app.store.item_names::<Service>(tenant).await
}
