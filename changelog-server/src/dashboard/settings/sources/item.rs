//! `/settings/sources/ID`: a source, how its sender is set up, and what it has sent.

use askama::Template;
use http::Method;

use super::PATH;
use super::events::{self, Events};
use super::form::{self, Fields, SHOWN};
use super::guide::{self, Step};
use super::kinds::{self, OfferedKind};
use super::preview::Previewed;
use super::state::State;
use crate::app::App;
use crate::coverage::coverage;
use crate::dashboard::parts::form::Form;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page, shown_values};
use crate::ingest::setup;
use crate::store::Source;
use crate::web::{ApiResult, Request};

#[derive(Template)]
#[template(path = "settings/sources/item.html")]
struct ItemPage<'a> {
    viewer: &'a Viewer,
    /// The path of the page.
    address: String,
    source: Source,
    kind: Option<&'static OfferedKind>,
    state: State,
    /// How the sender is set up.
    guide: Vec<Step>,
    shown: Shown,
    message: &'static str,
    form: Form,
    fields: &'static Fields,
    events: Events,
}

/// What the page shows of a request that has just been made.
#[derive(Default)]
pub(super) struct Shown {
    /// The status, if it is not 200.
    pub(super) status: u16,
    /// The address that the sender posts to, for the only time.
    pub(super) new_address: Option<String>,
    /// The secret, if it was generated, for the only time.
    pub(super) new_secret: Option<String>,
    /// Why nothing was done.
    pub(super) problem: Option<String>,
    /// The form, if it was not saved.
    pub(super) form: Option<Form>,
    /// What the templates of the form make of the last requests.
    pub(super) preview: Option<Vec<Previewed>>,
}

impl Shown {
    /// Returns why nothing was done.
    pub(super) fn refused(problem: &str) -> Self {
        Self {
            status: 409,
            problem: Some(problem.to_owned()),
            ..Self::default()
        }
    }
}

/// `GET /settings/sources/ID`
pub(in crate::dashboard) async fn get(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Settings).await?;
    let source = app.store.source_of(viewer.tenant(), request.id()?).await?;
    show(&app, &request, &viewer, source, Shown::default()).await
}

/// Shows the page of a source.
pub(super) async fn show(
    app: &App,
    request: &Request,
    viewer: &Viewer,
    source: Source,
    mut shown: Shown,
) -> ApiResult {
    let status = if shown.status == 0 { 200 } else { shown.status };
    let address = format!("{PATH}/{}", source.id);
    let events = if viewer.may_manage() {
        events::read(app, request, &source, &address).await?
    } else {
        Events::default()
    };
    let now = app.now().into();
    let coverage = coverage(app, viewer.tenant(), now).await?;
    let posted_to = shown.new_address.clone();
    let posted_to = posted_to.unwrap_or_else(|| full_address(app, &source, guide::TOKEN));
    let secret = shown.new_secret.as_deref().unwrap_or(guide::SECRET);
    let page = ItemPage {
        viewer,
        address,
        kind: kinds::kind_of(source.kind.as_str()),
        state: State::of(&source, &coverage, now),
        guide: guide::steps(&source.kind, &posted_to, secret),
        message: message(&request.query_form()),
        form: shown.form.take().unwrap_or_else(|| form::of(&source)),
        shown,
        fields: &SHOWN,
        events,
        source,
    };
    // Answers to forms may have a secret.
    if request.method == Method::GET {
        return page::render_live(request, &page);
    }
    page::render(status, &page)
}

/// Returns the URL that the sender posts to.
pub(super) fn full_address(app: &App, source: &Source, token: &str) -> String {
    format!("{}{}", app.url(), setup::path(&source.kind, token))
}

/// Returns what was just done.
fn message(form: &Form) -> &'static str {
    match form.value("done") {
        "saved" => "The source was saved. What it sends from now on is read by these settings.",
        "enabled" => "On. What is sent from now on is read.",
        "disabled" => "Off. What is sent to its address is refused.",
        "replayed" => "It is read again.",
        _ => "",
    }
}

/// Says that the name in a form belongs to another source.
pub(super) fn taken(form: &Form) -> String {
    let name = format::visible(form.value("name").trim());
    format!("A source named \"{name}\" already exists")
}
