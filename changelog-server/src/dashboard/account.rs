//! `/account`: the user's name, password and sessions.

use askama::Template;
use changelog_core::user::check_name;
use changelog_core::{Invalid, ProblemCode, ServiceRef, Timestamp, UserInput, Violations};

use crate::app::App;
use crate::dashboard::parts::form::{Field, Form};
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page};
use crate::dashboard::{auth, feed, subscriptions};
use crate::passwords::Ticket;
use crate::rate_limits::RateLimited;
use crate::store::{Account, Bucket, SessionInfo, SignInMethod, Tenant};
use crate::web::{ApiError, ApiResult, Request, session};

#[derive(Template)]
#[template(path = "account.html")]
struct AccountPage<'a> {
    viewer: &'a Viewer,
    name: Form,
    password: Form,
    sessions: Vec<SessionInfo>,
    /// The subscriptions of the viewer, by the name of the service.
    subscriptions: Vec<(ServiceRef, subscriptions::SubscriptionForm)>,
    /// Why the last mail to the viewer was not sent.
    mail_problem: Option<String>,
    /// When the address of the feed was created, if there is one.
    feed_created_at: Option<Timestamp>,
    /// The address, if it has just been created.
    new_feed: Option<String>,
    message: &'static str,
}

/// `GET /account`
pub(super) async fn get(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Account).await?;
    let message = match request.query_form().value("done") {
        "name" => "Your name was saved.",
        "password" => "Your password was changed. You were signed out everywhere else.",
        "sessions" => "You were signed out everywhere else.",
        "subscription" => "Your subscriptions were saved.",
        "feed" => "The feed URL was revoked.",
        _ => "",
    };
    show_account(
        &app,
        &request,
        &viewer,
        Shown {
            message,
            ..Shown::default()
        },
    )
    .await
}

/// What the page shows in addition to the account.
#[derive(Default)]
struct Shown {
    /// The form for the name, if it was refused.
    name: Option<Form>,
    /// The form for the password, if it was refused.
    password: Option<Form>,
    new_feed: Option<String>,
    message: &'static str,
}

impl Shown {
    fn refused_name(form: Form) -> Self {
        Self {
            name: Some(form),
            ..Self::default()
        }
    }

    fn refused_password(form: Form) -> Self {
        Self {
            password: Some(form),
            ..Self::default()
        }
    }
}

/// Returns where the viewer's session may see and end other sessions: a session that an identity
/// provider has begun, in its organization; others everywhere.
fn within(viewer: &Viewer) -> Option<Tenant> {
    (viewer.session.method == SignInMethod::Sso).then(|| viewer.tenant())
}

/// Refuses changes of the account itself, which may belong to several organizations, in a session
/// that the identity provider of one of them has begun.
fn refuse_by_provider(viewer: &Viewer) -> Result<(), ApiError> {
    if viewer.session.method == SignInMethod::Sso {
        let detail = "you have signed in by the identity provider of your organization; sign in with \
                      your password to change your account";
        return Err(ApiError::new(ProblemCode::Forbidden, detail));
    }
    Ok(())
}

async fn show_account(app: &App, request: &Request, viewer: &Viewer, shown: Shown) -> ApiResult {
    let within = within(viewer);
    let refused = shown.name.is_some() || shown.password.is_some();
    let token = session::token(app, request).unwrap_or_default();
    let person = &viewer.session.person;
    let page = AccountPage {
        viewer,
        name: shown
            .name
            .unwrap_or_else(|| Form::with_values([("name", person.name.clone())])),
        password: shown.password.unwrap_or_default(),
        sessions: app
            .store
            .sessions(person.id, within, token, app.clock.for_expiry())
            .await?,
        subscriptions: subscriptions::forms_of(app, viewer).await?,
        mail_problem: app.store.mail_problem(viewer.tenant(), person.id).await?,
        feed_created_at: app
            .store
            .feed_created_at(viewer.tenant(), person.id)
            .await?,
        new_feed: shown.new_feed,
        message: shown.message,
    };
    page::render(if refused { 422 } else { 200 }, &page)
}

/// `POST /account`
pub(super) async fn rename(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write_own(&app, &request, Section::Account).await?;
    refuse_by_provider(&viewer)?;
    let form = request.form().await?;
    let mut name = form.value("name").to_owned();
    let mut problems = Violations::default();
    check_name(&mut problems, &mut name);
    match problems.into_result(name) {
        Ok(name) => {
            let mut tx = app.store.begin().await?;
            let person = viewer.session.person.id;
            tx.rename_user(person, &name).await?;
            tx.commit().await?;
            app.store.rename_author(person, &name).await?;
            Ok(page::see_other("/account?done=name"))
        }
        Err(invalid) => {
            let form = form.refuse(&invalid);
            show_account(&app, &request, &viewer, Shown::refused_name(form)).await
        }
    }
}

/// `POST /account/feed`
pub(super) async fn create_feed(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write_own(&app, &request, Section::Account).await?;
    let new_feed = Some(feed::create(&app, &viewer).await?);
    show_account(
        &app,
        &request,
        &viewer,
        Shown {
            new_feed,
            ..Shown::default()
        },
    )
    .await
}

/// `POST /account/password`
pub(super) async fn change_password(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write_own(&app, &request, Section::Account).await?;
    refuse_by_provider(&viewer)?;
    app.rate_limits.sign_in(request.context.address)?;
    let form = request.form().await?;
    let person = &viewer.session.person;
    let ticket = app.passwords.enter()?;
    let new = match new_password(&form, &person.name, &person.email, &app, &ticket).await? {
        Ok(new) => new,
        Err(invalid) => {
            let form = form.refuse(&invalid);
            return show_account(&app, &request, &viewer, Shown::refused_password(form)).await;
        }
    };
    // A stolen session must not allow guessing the password.
    let bucket = [Bucket::of_person(person.id)];
    let now = app.clock.for_expiry();
    let mut tx = app.store.begin().await?;
    if let Some(until) = tx.count_attempt(&bucket, now).await? {
        let retry_after = auth::seconds_until(until, now);
        return Err(RateLimited { retry_after }.into());
    }
    tx.commit().await?;
    let accounts = app.store.accounts(&person.email).await?;
    let (own, others): (Vec<Account>, Vec<Account>) = accounts
        .into_iter()
        .partition(|account| account.user.id == person.id);
    let Some(own) = own.into_iter().next() else {
        return Err(ApiError::internal(&"the signed-in user has no account"));
    };
    let current = form.value("current_password").to_owned();
    let matches = ticket
        .verify(current, vec![own.password_hash.clone()])
        .await?;
    if matches.is_none() {
        let form = form.refuse_field("current_password", "Incorrect password");
        return show_account(&app, &request, &viewer, Shown::refused_password(form)).await;
    }
    let like = others.into_iter().find(Account::has_password);
    let like = like.map(|other| other.password_hash);
    let hash = ticket.hash(new, like).await?;
    let mut tx = app.store.begin().await?;
    auth::keep_password(&mut tx, person.id, &own.password_hash).await?;
    tx.record_success(&bucket).await?;
    // Ends every session, including this one, which a new one replaces.
    tx.set_password(person.id, &hash).await?;
    let (tenant, method) = (viewer.tenant(), viewer.session.method);
    let tokens =
        auth::renew_session(&app, &mut tx, &request, &own.user, tenant, method, None).await?;
    tx.commit().await?;
    let mut response = page::see_other("/account?done=password");
    tokens.set_cookies(&app, &mut response);
    Ok(response)
}

/// Checks a new password by the rules for the password of a new user.
async fn new_password(
    form: &Form,
    name: &str,
    email: &str,
    app: &App,
    ticket: &Ticket,
) -> Result<Result<String, Invalid>, ApiError> {
    const FIELDS: &[Field] = &[Field::required("name"), Field::required("password")];
    let user_form = Form::with_values([
        ("name", name.to_owned()),
        ("password", form.value("password").to_owned()),
    ]);
    let person: UserInput = match user_form.create(FIELDS, app.now().into()).await {
        Ok(person) => person,
        Err(invalid) => return Ok(Err(invalid)),
    };
    let about = vec![email.to_owned(), name.to_owned()];
    let checked = ticket.refuse_common(person.password.clone(), about).await?;
    Ok(checked.map(|()| person.password))
}

/// `POST /account/end-other-sessions`
pub(super) async fn end_other_sessions(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write_own(&app, &request, Section::Account).await?;
    let Some(token) = session::token(&app, &request) else {
        return Err(ApiError::unknown_path());
    };
    let mut tx = app.store.begin().await?;
    tx.end_other_sessions(viewer.session.person.id, within(&viewer), token)
        .await?;
    tx.commit().await?;
    Ok(page::see_other("/account?done=sessions"))
}
