//! `/account`: one's own name, password and sessions.

use askama::Template;
use changelog_core::member::check_name;
use changelog_core::{Invalid, NewPerson, Violations};
use http::header;

use super::form::{Form, Kind};
use super::visit::{Section, Visit};
use super::{assets, page, show};
use crate::app::App;
use crate::passwords;
use crate::store::SessionInfo;
use crate::web::{ApiError, ApiResult, Request, session};

#[derive(Template)]
#[template(path = "account.html")]
struct Account<'a> {
    visit: &'a Visit,
    name: Form,
    password: Form,
    sessions: Vec<SessionInfo>,
    said: &'static str,
}

/// `GET /account`
pub(super) async fn get(app: App, request: Request) -> ApiResult {
    let visit = Visit::read(&app, &request, Section::Account).await?;
    let said = match request.query_form().value("done") {
        "name" => "Your name was changed.",
        "password" => "Your password was changed, and your other sessions have ended.",
        "sessions" => "Your other sessions have ended.",
        _ => "",
    };
    show_account(&app, &request, &visit, None, None, said).await
}

async fn show_account(
    app: &App,
    request: &Request,
    visit: &Visit,
    name: Option<Form>,
    password: Option<Form>,
    said: &'static str,
) -> ApiResult {
    let refused = name.is_some() || password.is_some();
    let token = session::token(app, request).unwrap_or_default();
    let person = &visit.session.person;
    let page = Account {
        visit,
        name: name.unwrap_or_else(|| Form::showing([("name", person.name.clone())])),
        password: password.unwrap_or_default(),
        sessions: app
            .store
            .sessions(person.id, token, app.clock.for_expiry())
            .await?,
        said,
    };
    page::render(if refused { 422 } else { 200 }, &page)
}

/// `POST /account`
pub(super) async fn rename(app: App, mut request: Request) -> ApiResult {
    let visit = Visit::own(&app, &request, Section::Account).await?;
    let form = request.form().await?;
    let mut name = form.value("name").to_owned();
    let mut problems = Violations::default();
    check_name(&mut problems, &mut name);
    match problems.into_result(name) {
        Ok(name) => {
            let mut tx = app.store.begin().await?;
            tx.rename_user(visit.session.person.id, &name).await?;
            tx.commit().await?;
            Ok(page::see_other("/account?done=name"))
        }
        Err(invalid) => {
            let form = form.refuse(&invalid);
            show_account(&app, &request, &visit, Some(form), None, "").await
        }
    }
}

/// `POST /account/password`
pub(super) async fn change_password(app: App, mut request: Request) -> ApiResult {
    let visit = Visit::own(&app, &request, Section::Account).await?;
    app.limits.sign_in(request.incoming.address)?;
    let form = request.form().await?;
    let person = &visit.session.person;
    let new = match new_password(&form, &person.name, &person.email, &app) {
        Ok(new) => new,
        Err(invalid) => {
            let form = form.refuse(&invalid);
            return show_account(&app, &request, &visit, None, Some(form), "").await;
        }
    };
    let known = app.store.user_by_email(&person.email).await?;
    let hash = known.map(|(_, hash)| hash);
    let current = form.value("current_password").to_owned();
    if !app.passwords.verify(current, hash).await? {
        let form = form.refuse_field("current_password", "is not your password");
        return show_account(&app, &request, &visit, None, Some(form), "").await;
    }
    let hash = app.passwords.hash(new).await?;
    let token = session::new_token();
    let mut tx = app.store.begin().await?;
    // Ends every session, this one included; a new one takes its place.
    tx.set_password(person.id, &hash).await?;
    let agent = request.header(header::USER_AGENT.as_str());
    tx.insert_session(
        &token,
        person.id,
        visit.tenant(),
        agent,
        app.clock.for_expiry(),
    )
    .await?;
    tx.commit().await?;
    let mut response = page::see_other("/account?done=password");
    session::set_cookie(&app, &mut response, &token);
    Ok(response)
}

/// Checks a new password by the rules that the first one had.
fn new_password(form: &Form, name: &str, email: &str, app: &App) -> Result<String, Invalid> {
    const FIELDS: [(&str, Kind); 2] = [("name", Kind::Required), ("password", Kind::Required)];
    let with_name = Form::showing([
        ("name", name.to_owned()),
        ("password", form.value("password").to_owned()),
    ]);
    let person: NewPerson = with_name.create(&FIELDS, app.now().into())?;
    passwords::refuse_common(&person.password, &[email, name])?;
    Ok(person.password)
}

/// `POST /account/end-other-sessions`
pub(super) async fn end_other_sessions(app: App, request: Request) -> ApiResult {
    let visit = Visit::own(&app, &request, Section::Account).await?;
    let Some(token) = session::token(&app, &request) else {
        return Err(ApiError::unknown_path());
    };
    let mut tx = app.store.begin().await?;
    tx.end_other_sessions(visit.session.person.id, token)
        .await?;
    tx.commit().await?;
    Ok(page::see_other("/account?done=sessions"))
}
