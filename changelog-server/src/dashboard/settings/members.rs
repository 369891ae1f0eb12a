//! `/settings/members`

use std::time::Duration;

use askama::Template;
use changelog_core::{
    FurtherNames, Invitation, InvitationId, Member, NewInvitation, ProblemCode, Role, UserId,
};
use uuid::Uuid;

use crate::app::App;
use crate::dashboard::parts::form::{Field, Form};
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, one_time, page};
use crate::dashboard::settings::integrations::troubles;
use crate::mail::message;
use crate::store::{StoreError, TroubledConnection};
use crate::web::{ApiError, ApiResult, Request, session};

/// How long the mail server may take for an invitation: the viewer waits.
const INVITATION_TIMEOUT: Duration = Duration::from_secs(8);

const FIELDS: &[Field] = &[Field::required("email"), Field::required("role")];

#[derive(Template)]
#[template(path = "settings/members.html")]
struct MembersPage<'a> {
    viewer: &'a Viewer,
    members: Vec<ListedMember>,
    invitations: Vec<Invitation>,
    /// The roles that the viewer may invite with.
    roles: Vec<&'static str>,
    /// The id of the next invitation.
    new_id: Uuid,
    invited: Option<Invited>,
    /// Why the last request was refused.
    problem: Option<String>,
    form: Form,
    message: &'static str,
    troubles: Vec<TroubledConnection>,
}

/// An invitation that was just created.
struct Invited {
    email: String,
    link: String,
    /// Whether the link was mailed, or why not; `None` if no mail server is configured.
    mailed: Option<Result<(), String>>,
}

/// A member, and what the viewer may do with them.
struct ListedMember {
    member: Member,
    /// The roles that the viewer may give; empty if they may not change the role.
    roles: Vec<&'static str>,
    may_remove: bool,
    may_end_sessions: bool,
}

/// Returns the roles that a role may give to others.
fn grantable(by: &Role) -> Vec<&'static str> {
    let roles = Role::WORDS.iter().copied();
    roles
        .filter(|word| word.parse().is_ok_and(|role| by.can_grant(&role)))
        .collect()
}

/// Lists members with what a role may do with them. The last owner stays an owner.
fn listed(members: Vec<Member>, by: &Role) -> Vec<ListedMember> {
    let owners = members.iter().filter(|one| one.role == Role::Owner).count();
    let list = members.into_iter().map(|member| {
        let is_last_owner = member.role == Role::Owner && owners == 1;
        let may_change = by.can_grant(&member.role) && !is_last_owner;
        ListedMember {
            roles: if may_change {
                grantable(by)
            } else {
                Vec::new()
            },
            may_remove: may_change,
            may_end_sessions: *by == Role::Owner,
            member,
        }
    });
    list.collect()
}

/// The outcome of a request, which the page shows.
struct Outcome {
    invited: Option<Invited>,
    problem: Option<String>,
    form: Form,
    message: &'static str,
}

impl Default for Outcome {
    fn default() -> Self {
        Self {
            invited: None,
            problem: None,
            message: "",
            // Else the form would preselect the most powerful role.
            form: Form::with_values([("role", Role::Member.to_string())]),
        }
    }
}

/// `GET /settings/members`
pub(crate) async fn list(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Settings).await?;
    let message = match request.query_form().value("done") {
        "sessions" => "All sessions of the member in this organization were ended.",
        "erased" => "The member was removed, and their name is being replaced in all records.",
        _ => "",
    };
    let outcome = Outcome {
        message,
        ..Outcome::default()
    };
    show_members(&app, &viewer, 200, outcome).await
}

async fn show_members(app: &App, viewer: &Viewer, status: u16, outcome: Outcome) -> ApiResult {
    let invitations = if viewer.may_manage() {
        app.store.invitations(viewer.tenant()).await?
    } else {
        Vec::new()
    };
    let role = &viewer.session.person.role;
    let page = MembersPage {
        viewer,
        members: listed(app.store.members(viewer.tenant()).await?, role),
        invitations,
        roles: grantable(role),
        new_id: one_time::id_in(&Form::default(), app.now()),
        invited: outcome.invited,
        problem: outcome.problem,
        form: outcome.form,
        message: outcome.message,
        troubles: troubles(app, viewer).await?,
    };
    page::render(status, &page)
}

/// `POST /settings/members/invite`
pub(crate) async fn invite(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::manage(&app, &request, Section::Settings).await?;
    app.rate_limits.invitation(viewer.session.person.id)?;
    let form = request.form().await?;
    let now = app.now();
    let with_form = |form: Form| Outcome {
        form,
        ..Outcome::default()
    };
    let new: NewInvitation = match form.create(FIELDS, now.into()).await {
        Ok(new) => new,
        Err(invalid) => {
            let outcome = with_form(form.refuse(&invalid));
            return show_members(&app, &viewer, 422, outcome).await;
        }
    };
    let role = &viewer.session.person.role;
    if !role.can_change(&Role::Viewer, &new.role) {
        let form = form.refuse_field("role", "Only owners can invite owners");
        return show_members(&app, &viewer, 403, with_form(form)).await;
    }
    let provider = app.store.sso_provider(viewer.tenant()).await?;
    if provider.is_some_and(|provider| provider.is_required) {
        let message = "Nobody can join with a password: this organization requires sign-in by its \
                       identity provider. Add the person there";
        let form = form.refuse_field("email", message);
        return show_members(&app, &viewer, 409, with_form(form)).await;
    }
    let id = InvitationId(one_time::id_for(viewer.tenant().id(), &form, now));
    let sent = app.store.invitations(viewer.tenant()).await?;
    if sent.iter().any(|invitation| invitation.id == id) {
        let problem = "this form was already sent: the invitation exists, and its link was shown \
                       once. To get another link, invite the address again";
        let outcome = Outcome {
            problem: Some(problem.to_owned()),
            ..Outcome::default()
        };
        return show_members(&app, &viewer, 409, outcome).await;
    }
    let token = session::new_token();
    let mut tx = app.store.begin().await?;
    let invited = tx
        .invite_with_id(viewer.tenant(), &viewer.actor(), id, &new, &token, now)
        .await;
    match invited {
        Ok(invitation) => {
            tx.commit().await?;
            let link = format!("{}/invitations/{token}", app.url());
            let mailed = mail(&app, &viewer, &invitation, &link).await;
            let invited = Invited {
                email: invitation.email,
                link,
                mailed,
            };
            let outcome = Outcome {
                invited: Some(invited),
                ..Outcome::default()
            };
            show_members(&app, &viewer, 200, outcome).await
        }
        Err(StoreError::Conflict) => {
            let form = form.refuse_field("email", "Already a member");
            show_members(&app, &viewer, 409, with_form(form)).await
        }
        Err(error) => Err(error.into()),
    }
}

/// Mails the link of an invitation; `None` if no mail server is configured. This is done
/// while the viewer waits and not by the queue of mails, because the database has only the
/// hash of the link's token. If it fails, the viewer has the link and can send it.
async fn mail(
    app: &App,
    viewer: &Viewer,
    invitation: &Invitation,
    link: &str,
) -> Option<Result<(), String>> {
    let mailer = app.mailer.as_ref()?;
    let invited = message::Invited {
        email: &invitation.email,
        organization: &viewer.session.organization_name,
        by: &invitation.invited_by,
        role: invitation.role.as_str(),
        link,
    };
    let sent = match message::invitation(mailer, &invited, &app.host()) {
        Ok(message) => mailer.send_within(message, INVITATION_TIMEOUT).await,
        Err(error) => Err(error),
    };
    if let Err(error) = &sent {
        tracing::warn!(id = %invitation.id, reason = error.reason, "an invitation was not mailed");
    }
    Some(sent.map_err(|error| error.reason))
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
pub(crate) async fn set_role(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::manage(&app, &request, Section::Settings).await?;
    let user: UserId = request.id()?;
    let form = request.form().await?;
    let role: Role = form
        .value("role")
        .parse()
        .map_err(|bad| ApiError::new(ProblemCode::ValidationFailed, format!("the role {bad}")))?;
    let own_role = &viewer.session.person.role;
    let (tenant, actor) = (viewer.tenant(), viewer.actor());
    let mut tx = app.store.begin().await?;
    let changed = tx
        .set_role(tenant, &actor, own_role, user, &role, app.now())
        .await;
    match changed {
        Ok(()) => tx.commit().await?,
        Err(error) => return show_problem(&app, &viewer, error).await,
    }
    Ok(page::see_other("/settings/members"))
}

/// `POST /settings/members/ID/remove`
pub(crate) async fn remove(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::manage(&app, &request, Section::Settings).await?;
    let own_role = &viewer.session.person.role;
    let (tenant, actor) = (viewer.tenant(), viewer.actor());
    let mut tx = app.store.begin().await?;
    let removed = tx
        .remove_member(tenant, &actor, own_role, request.id()?, app.now())
        .await;
    match removed {
        Ok(()) => tx.commit().await?,
        Err(error) => return show_problem(&app, &viewer, error).await,
    }
    Ok(page::see_other("/settings/members"))
}

/// `POST /settings/members/ID/erase`: removes a member, and lets a pseudonym take the place of
/// their name in all records.
pub(crate) async fn erase(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::own(&app, &request, Section::Settings).await?;
    let user: UserId = request.id()?;
    let form = request.form().await?;
    let also: FurtherNames = match form.value("also").parse() {
        Ok(also) => also,
        Err(bad) => {
            let outcome = Outcome {
                problem: Some(format!("the other names {bad}")),
                ..Outcome::default()
            };
            return show_members(&app, &viewer, 422, outcome).await;
        }
    };
    let role = &viewer.session.person.role;
    let (tenant, actor) = (viewer.tenant(), viewer.actor());
    let begun = app
        .store
        .erase_person(tenant, &actor, (role, user), also, app.now())
        .await;
    match begun {
        Ok(_) => Ok(page::see_other("/settings/members?done=erased")),
        Err(error) => show_problem(&app, &viewer, error).await,
    }
}

/// `POST /settings/members/ID/end-sessions`
pub(crate) async fn end_sessions(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::own(&app, &request, Section::Settings).await?;
    let mut tx = app.store.begin().await?;
    tx.end_sessions_of_member(viewer.tenant(), &viewer.actor(), request.id()?, app.now())
        .await?;
    tx.commit().await?;
    Ok(page::see_other("/settings/members?done=sessions"))
}

/// Responds with the page and the reason why a member was not changed.
async fn show_problem(app: &App, viewer: &Viewer, error: StoreError) -> ApiResult {
    let error = ApiError::from(error);
    if !matches!(error.status(), 403 | 409) {
        return Err(error);
    }
    let outcome = Outcome {
        problem: Some(error.problem("").detail),
        ..Outcome::default()
    };
    show_members(app, viewer, error.status(), outcome).await
}
