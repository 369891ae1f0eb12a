//! `/settings/members`

use askama::Template;
use changelog_core::{Invitation, Member, NewInvitation, ProblemCode, Role, UserId};

use super::super::form::{Form, Kind};
use super::super::visit::{Section, Visit};
use super::super::{assets, page, show};
use crate::app::App;
use crate::store::StoreError;
use crate::web::{ApiError, ApiResult, Request, session};

const FIELDS: [(&str, Kind); 2] = [("email", Kind::Required), ("role", Kind::Required)];

#[derive(Template)]
#[template(path = "settings/members.html")]
struct Page<'a> {
    visit: &'a Visit,
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
            form: Form::showing([("role", Role::Member.to_string())]),
        }
    }
}

/// `GET /settings/members`
pub(in super::super) async fn list(app: App, request: Request) -> ApiResult {
    let visit = Visit::read(&app, &request, Section::Settings).await?;
    show_members(&app, &visit, 200, Besides::default()).await
}

async fn show_members(app: &App, visit: &Visit, status: u16, besides: Besides) -> ApiResult {
    let invitations = if visit.may_manage() {
        app.store.invitations(visit.tenant()).await?
    } else {
        Vec::new()
    };
    let page = Page {
        visit,
        members: app.store.members(visit.tenant()).await?,
        invitations,
        roles: Role::WORDS,
        invited: besides.invited,
        problem: besides.problem,
        form: besides.form,
    };
    page::render(status, &page)
}

/// `POST /settings/members/invite`
pub(in super::super) async fn invite(app: App, mut request: Request) -> ApiResult {
    let visit = Visit::manage(&app, &request, Section::Settings).await?;
    app.limits.invitation(visit.session.person.id)?;
    let form = request.form().await?;
    let now = app.now();
    let refused = |form: Form| Besides {
        form,
        ..Besides::default()
    };
    let new: NewInvitation = match form.create(&FIELDS, now.into()).await {
        Ok(new) => new,
        Err(invalid) => {
            let besides = refused(form.refuse(&invalid));
            return show_members(&app, &visit, 422, besides).await;
        }
    };
    let role = &visit.session.person.role;
    if !role.may_change(&Role::Viewer, &new.role) {
        let form = form.refuse_field("role", "only an owner invites owners");
        return show_members(&app, &visit, 403, refused(form)).await;
    }
    let token = session::new_token();
    let mut tx = app.store.begin().await?;
    let invited = tx
        .invite(visit.tenant(), &visit.actor(), &new, &token, now)
        .await;
    match invited {
        Ok(invitation) => {
            tx.commit().await?;
            let link = format!("{}/invitations/{token}", app.url());
            let besides = Besides {
                invited: Some((invitation.email, link)),
                ..Besides::default()
            };
            show_members(&app, &visit, 200, besides).await
        }
        Err(StoreError::Conflict) => {
            let form = form.refuse_field("email", "is the address of a member already");
            show_members(&app, &visit, 409, refused(form)).await
        }
        Err(error) => Err(error.into()),
    }
}

/// `POST /settings/members/invitations/ID/withdraw`
pub(in super::super) async fn withdraw(app: App, request: Request) -> ApiResult {
    let visit = Visit::manage(&app, &request, Section::Settings).await?;
    let mut tx = app.store.begin().await?;
    tx.withdraw_invitation(visit.tenant(), &visit.actor(), request.id()?, app.now())
        .await?;
    tx.commit().await?;
    Ok(page::see_other("/settings/members"))
}

/// `POST /settings/members/ID/role`
pub(in super::super) async fn set_role(app: App, mut request: Request) -> ApiResult {
    let visit = Visit::manage(&app, &request, Section::Settings).await?;
    let user: UserId = request.id()?;
    let form = request.form().await?;
    let role: Role = form
        .value("role")
        .parse()
        .map_err(|bad| ApiError::new(ProblemCode::ValidationFailed, format!("the role {bad}")))?;
    let by = &visit.session.person.role;
    let mut tx = app.store.begin().await?;
    let done = tx
        .set_role(visit.tenant(), &visit.actor(), by, user, &role, app.now())
        .await;
    match done {
        Ok(()) => tx.commit().await?,
        Err(error) => return refused(&app, &visit, error).await,
    }
    Ok(page::see_other("/settings/members"))
}

/// `POST /settings/members/ID/remove`
pub(in super::super) async fn remove(app: App, request: Request) -> ApiResult {
    let visit = Visit::manage(&app, &request, Section::Settings).await?;
    let by = &visit.session.person.role;
    let mut tx = app.store.begin().await?;
    let done = tx
        .remove_member(visit.tenant(), &visit.actor(), by, request.id()?, app.now())
        .await;
    match done {
        Ok(()) => tx.commit().await?,
        Err(error) => return refused(&app, &visit, error).await,
    }
    Ok(page::see_other("/settings/members"))
}

/// Says beside the members why something was not done to one of them.
async fn refused(app: &App, visit: &Visit, error: StoreError) -> ApiResult {
    let error = ApiError::from(error);
    if !matches!(error.status(), 403 | 409) {
        return Err(error);
    }
    let besides = Besides {
        problem: Some(error.problem("").detail),
        ..Besides::default()
    };
    show_members(app, visit, error.status(), besides).await
}
