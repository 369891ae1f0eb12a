//! `/api/docs` and `/problems/CODE`: the API for people, signed in or not, from the OpenAPI
//! document. Both the document and the pages are static: each page is rendered and
//! compressed once, on the blocking pool.

mod document;
mod examples;
mod text;

use std::sync::Arc;

use askama::Template;
use changelog_core::ProblemCode;
use tokio::sync::OnceCell;

use self::document::Reference;
use self::text::Part;
use crate::app::App;
use crate::blocking_pool;
use crate::dashboard::parts::viewer::{self, SECTIONS, THEMES};
use crate::dashboard::parts::{assets, page};
use crate::web::compression::Compressed;
use crate::web::{ApiError, ApiResult, Request, reply, session};

/// Who reads a page: all that it depends on.
#[derive(Clone, Copy, Debug)]
struct Visitor {
    is_signed_in: bool,
    theme: Option<&'static str>,
}

impl Visitor {
    /// The number of different visitors.
    const KINDS: usize = 2 * (THEMES.len() + 1);

    async fn of(app: &App, request: &Request) -> Result<Self, ApiError> {
        Ok(Self {
            is_signed_in: session::find(app, request).await?.is_some(),
            theme: viewer::theme(request),
        })
    }

    /// Returns a number below [`Self::KINDS`].
    fn kind(self) -> usize {
        let theme = THEMES.iter().position(|theme| Some(*theme) == self.theme);
        usize::from(self.is_signed_in) * (THEMES.len() + 1) + theme.map_or(0, |index| index + 1)
    }
}

/// What the pages of one service are made from, and the pages that were requested.
pub(super) struct Pages {
    document: fn() -> &'static str,
    reference: OnceCell<Arc<Reference>>,
    rendered: [OnceCell<Compressed>; Visitor::KINDS],
}

#[derive(Template)]
#[template(path = "reference/docs.html")]
struct DocsPage<'r> {
    visitor: Visitor,
    reference: &'r Reference,
    /// The URL of the service for the examples, if it is known.
    address: Option<&'r str>,
    codes: &'static [ProblemCode],
}

#[derive(Template)]
#[template(path = "reference/problem.html")]
struct ProblemPage<'r> {
    visitor: Visitor,
    reference: &'r Reference,
    code: ProblemCode,
}

impl Pages {
    /// Prepares the pages of a document, which is requested when a page is.
    pub(super) fn new(document: fn() -> &'static str) -> Arc<Self> {
        Arc::new(Self {
            document,
            reference: OnceCell::new(),
            rendered: Default::default(),
        })
    }

    async fn reference(&self) -> Result<Arc<Reference>, ApiError> {
        let document = self.document;
        let read = || async move {
            let read = blocking_pool::run(move || Reference::read(document())).await;
            read.map(Arc::new)
                .map_err(|error| ApiError::internal(&error))
        };
        self.reference.get_or_try_init(read).await.cloned()
    }

    async fn render(
        &self,
        visitor: Visitor,
        address: Option<String>,
    ) -> Result<Compressed, ApiError> {
        let reference = self.reference().await?;
        let render = move || {
            let page = DocsPage {
                visitor,
                reference: &reference,
                address: address.as_deref(),
                codes: ProblemCode::ALL,
            };
            page.render().map(Compressed::new)
        };
        let rendered = blocking_pool::run(render).await;
        rendered.map_err(|error| ApiError::internal(&error))
    }

    /// `GET /api/docs`
    pub(super) async fn docs(self: Arc<Self>, app: App, request: Request) -> ApiResult {
        let visitor = Visitor::of(&app, &request).await?;
        // Everyone may know the public URL; the address of the listener helps members only.
        let is_known = visitor.is_signed_in || app.settings.public_url.is_some();
        let address = is_known.then(|| app.url());
        let render = || self.render(visitor, address);
        let page = self.rendered[visitor.kind()]
            .get_or_try_init(render)
            .await?;
        let response = page.response(&request.headers).await;
        Ok(reply::with_media_type(response, page::HTML))
    }

    /// `GET /problems/CODE`
    pub(super) async fn problem(self: Arc<Self>, app: App, request: Request) -> ApiResult {
        let Ok(code) = request.parameter.parse() else {
            let detail = "there is no such problem code; /api/docs#errors lists all";
            return Err(ApiError::new(ProblemCode::NotFound, detail));
        };
        let visitor = Visitor::of(&app, &request).await?;
        let reference = self.reference().await?;
        let page = ProblemPage {
            visitor,
            reference: &reference,
            code,
        };
        page::render_live(&request, &page)
    }
}
