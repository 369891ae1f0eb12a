//! `/settings/members`

use askama::Template;
use changelog_core::{Invitation, Member, NewInvitation, ProblemCode, Role, UserId};

use crate::app::App;
use crate::dashboard::parts::form::{Field, Form};
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page};
use crate::store::StoreError;
use crate::web::{ApiError, ApiResult, Request, session};

const FIELDS: &[Field] = &[Field::required("email"), Field::required("role")];

#[derive(Template)]
#[template(path = "settings/members.html")]
struct Page<'a> {
    viewer: &'a Viewer,
    members: Vec<Member>,
    invitations: Vec<Invitation>,
    roles: &'static [&'static str],
    /// Who was invited just now, and the link.
    invited: Option<(String, String)>,
    /// Why something was not done.
    problem: Option<String>,
    form: Form,
}

/// What a page about members shows besides them.
struct Besides {
    invited: Option<(String, String)>,
    problem: Option<String>,
    form: Form,
}

impl Default for Besides {
    fn default() -> Self {
        Self {
            invited: None,
            problem: None,
            // Not the most powerful role by accident.
            form: Form::with_values([("role", Role::Member.to_string())]),
        }
    }
}

/// `GET /settings/members`
pub(crate) async fn list(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Settings).await?;
    show_members(&app, &viewer, 200, Besides::default()).await
}

async fn show_members(app: &App, viewer: &Viewer, status: u16, besides: Besides) -> ApiResult {
    let invitations = if viewer.may_manage() {
        app.store.invitations(viewer.tenant()).await?
    } else {
        Vec::new()
    };
    let page = Page {
        viewer,
        members: app.store.members(viewer.tenant()).await?,
        invitations,
        roles: Role::WORDS,
        invited: besides.invited,
        problem: besides.problem,
        form: besides.form,
    };
    page::render(status, &page)
}

/// `POST /settings/members/invite`
pub(crate) async fn invite(app: App, mut request: Request) -> ApiResult {
    let viewer = Viewer::manage(&app, &request, Section::Settings).await?;
    app.limits.invitation(viewer.session.person.id)?;
    let form = request.form().await?;
    let now = app.now();
    let refused = |form: Form| Besides {
        form,
        ..Besides::default()
    };
    let new: NewInvitation = match form.create(FIELDS, now.into()).await {
        Ok(new) => new,
        Err(invalid) => {
            let besides = refused(form.refuse(&invalid));
            return show_members(&app, &viewer, 422, besides).await;
        }
    };
    let role = &viewer.session.person.role;
    if !role.may_change(&Role::Viewer, &new.role) {
        let form = form.refuse_field("role", "only an owner invites owners");
        return show_members(&app, &viewer, 403, refused(form)).await;
    }
    let token = session::new_token();
    let mut tx = app.store.begin().await?;
    let invited = tx
        .invite(viewer.tenant(), &viewer.actor(), &new, &token, now)
        .await;
    match invited {
        Ok(invitation) => {
            tx.commit().await?;
            let link = format!("{}/invitations/{token}", app.url());
            let besides = Besides {
                invited: Some((invitation.email, link)),
                ..Besides::default()
            };
            show_members(&app, &viewer, 200, besides).await
        }
        Err(StoreError::Conflict) => {
            let form = form.refuse_field("email", "is the address of a member already");
            show_members(&app, &viewer, 409, refused(form)).await
        }
        Err(error) => Err(error.into()),
    }
}

/// `POST /settings/members/invitations/ID/withdraw`
pub(crate) async fn withdraw(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::manage(&app, &request, Section::Settings).await?;
    let mut tx = app.store.begin().await?;
    tx.withdraw_invitation(viewer.tenant(), &viewer.actor(), request.id()?, app.now())
        .await?;
    tx.commit().await?;
    Ok(page::see_other("/settings/members"))
}

/// `POST /settings/members/ID/role`
pub(crate) async fn set_role(app: App, mut request: Request) -> ApiResult {
    let viewer = Viewer::manage(&app, &request, Section::Settings).await?;
    let user: UserId = request.id()?;
    let form = request.form().await?;
    let role: Role = form
        .value("role")
        .parse()
        .map_err(|bad| ApiError::new(ProblemCode::ValidationFailed, format!("the role {bad}")))?;
    let by = &viewer.session.person.role;
    let mut tx = app.store.begin().await?;
    let done = tx
        .set_role(viewer.tenant(), &viewer.actor(), by, user, &role, app.now())
        .await;
    match done {
        Ok(()) => tx.commit().await?,
        Err(error) => return refused(&app, &viewer, error).await,
    }
    Ok(page::see_other("/settings/members"))
}

/// `POST /settings/members/ID/remove`
pub(crate) async fn remove(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::manage(&app, &request, Section::Settings).await?;
    let by = &viewer.session.person.role;
    let mut tx = app.store.begin().await?;
    let done = tx
        .remove_member(
            viewer.tenant(),
            &viewer.actor(),
            by,
            request.id()?,
            app.now(),
        )
        .await;
    match done {
        Ok(()) => tx.commit().await?,
        Err(error) => return refused(&app, &viewer, error).await,
    }
    Ok(page::see_other("/settings/members"))
}

/// Says beside the members why something was not done to one of them.
async fn refused(app: &App, viewer: &Viewer, error: StoreError) -> ApiResult {
    let error = ApiError::from(error);
    if !matches!(error.status(), 403 | 409) {
        return Err(error);
    }
    let besides = Besides {
        problem: Some(error.problem("").detail),
        ..Besides::default()
    };
    show_members(app, viewer, error.status(), besides).await
}
