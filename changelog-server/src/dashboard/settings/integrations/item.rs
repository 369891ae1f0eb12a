//! `/settings/integrations/ID`: a connection and what it has sent.

use askama::Template;
use changelog_core::{ConnectionKind, Environment, RiskLevel, Status};
use http::Method;

use super::deliveries::{self, Deliveries};
use super::kinds::{OfferedKind, kind_of};
use super::state::{NOTHING, State, counted};
use super::summary::summary;
use super::{PATH, form, list};
use crate::app::App;
use crate::dashboard::parts::form::Form;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page, shown_values};
use crate::integrations::message::Attempt;
use crate::integrations::senders::webhook;
use crate::integrations::target::Target;
use crate::store::Connection;
use crate::web::{ApiResult, Request};

/// What is shown instead of the reason, which names a file of the server.
const UNREADABLE: &str = "The server lacks the key by which its address and secrets are \
                          encrypted, so nothing is sent to it, and what is queued stays queued. \
                          The operator can restore the key file; the log of the server names it. \
                          Otherwise, delete the connection and set it up again.";

#[derive(Template)]
#[template(path = "settings/integrations/item.html")]
struct ItemPage<'a> {
    viewer: &'a Viewer,
    /// The path of the page.
    address: String,
    connection: Connection,
    kind: Option<&'static OfferedKind>,
    /// What the kind is called.
    kind_label: String,
    state: State,
    sends: Vec<String>,
    pending: String,
    dead: String,
    has_dead: bool,
    /// The public key of a webhook, and where it is published.
    public_key: Option<(String, String)>,
    shown: Shown,
    message: &'static str,
    form: Form,
    deliveries: Deliveries,
}

/// What the page shows of a request that has just been made.
#[derive(Default)]
pub(super) struct Shown {
    /// The status, if it is not 200.
    pub(super) status: u16,
    /// The signing secret, for the only time.
    pub(super) new_secret: Option<String>,
    /// Why nothing was done.
    pub(super) problem: Option<String>,
    /// What the receiver answered to a test.
    pub(super) attempt: Option<Attempt>,
    /// The form, if it was refused.
    pub(super) form: Option<Form>,
}

impl Shown {
    /// Returns the class and the first sentence of the result of a test.
    fn result(attempt: &Attempt, kind: Option<&OfferedKind>) -> (&'static str, String) {
        match attempt.verdict.reason() {
            None => {
                let delivered = kind.map_or("Delivered", OfferedKind::delivered);
                ("good", format!("{delivered}."))
            }
            Some(reason) => ("bad", reason.to_owned()),
        }
    }
}

/// `GET /settings/integrations/ID`
pub(in crate::dashboard) async fn get(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Settings).await?;
    let connection = app.store.connection(viewer.tenant(), request.id()?).await?;
    show(&app, &request, &viewer, connection, Shown::default()).await
}

/// Shows the page of a connection.
pub(super) async fn show(
    app: &App,
    request: &Request,
    viewer: &Viewer,
    connection: Connection,
    mut shown: Shown,
) -> ApiResult {
    let tenant = viewer.tenant();
    let status = if shown.status == 0 { 200 } else { shown.status };
    let kind = kind_of(&connection.kind);
    let totals = app.store.delivery_totals(tenant).await?;
    let totals = totals.into_iter().find(|(id, _)| *id == connection.id);
    let totals = totals.map_or(NOTHING, |(_, totals)| totals);
    let services = list::services(app, tenant, std::slice::from_ref(&connection)).await?;
    let mut target = Target::default();
    let mut deliveries = Deliveries::default();
    if viewer.may_manage() {
        match app.integrations.target(tenant, &connection) {
            Ok(opened) => target = opened,
            Err(error) => {
                tracing::error!(connection = %connection.id, %error, "it cannot be shown");
                shown.problem.get_or_insert(UNREADABLE.to_owned());
            }
        }
        deliveries = deliveries::read(app, viewer, request, &connection).await?;
    }
    let public_key = target.ed25519_seed.as_deref().and_then(webhook::public_key);
    let form = shown.form.take().unwrap_or_else(|| match kind {
        Some(kind) => form::of(&connection, kind, &target, &services),
        None => Form::default(),
    });
    let page = ItemPage {
        viewer,
        address: format!("{PATH}/{}", connection.id),
        kind,
        kind_label: connection.kind.label().to_owned(),
        state: State::of(&connection, &totals),
        sends: summary(&connection.filter, kind, &services),
        pending: counted(totals.pending),
        dead: counted(totals.dead),
        has_dead: totals.dead > 0,
        public_key: public_key.map(|key| {
            let path = "/.well-known/changelog-webhook-keys";
            (key, format!("{}{path}/{}", app.url(), connection.id))
        }),
        message: message(&request.query_form()),
        shown,
        form,
        deliveries,
        connection,
    };
    // Answers to forms may have a secret.
    if request.method == Method::GET {
        return page::render_live(request, &page);
    }
    page::render(status, &page)
}

/// Returns what was just done.
fn message(form: &Form) -> &'static str {
    match form.value("done") {
        "connected" => "Connected. Send a test to see that it works.",
        "saved" => "The connection was saved.",
        "enabled" => "Enabled. What was queued is sent now.",
        "disabled" => "Disabled. Events from now on are not sent to it, not even later.",
        "replayed" => "Queued again.",
        _ => "",
    }
}

/// Says that the name in a form belongs to another connection.
pub(super) fn taken(form: &Form) -> String {
    let name = format::visible(form.value("name").trim());
    format!("A connection named \"{name}\" already exists")
}
