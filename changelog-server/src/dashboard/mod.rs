//! What people see in a browser: for now the way in and out. The pages are
//! separate work; sessions, passwords and the cross-site check are here.

mod page;

use changelog_core::Timestamp;
use http::{HeaderValue, header};
use warp::path;
use warp::reply::Response;

use crate::app::App;
use crate::web::route::{Routes, at};
use crate::web::{ApiError, ApiResult, Request, session};
use page::{Home, SignIn};

/// Every page.
pub(crate) fn routes(app: &App) -> Routes {
    vec![
        at(path::end()).get(home).filter(app),
        at(path!("sign-in"))
            .get(sign_in_form)
            .post(sign_in)
            .filter(app),
        at(path!("sign-out")).post(sign_out).filter(app),
    ]
}

async fn home(app: App, request: Request) -> ApiResult {
    let Some(session) = session::find(&app, &request).await? else {
        return Ok(see_other("/sign-in"));
    };
    let changes = app
        .store
        .changes(session.tenant, &changelog_core::ChangeFilter::default())
        .await?;
    page::render(
        200,
        &Home {
            session: &session,
            changes: &changes.parse()?,
            count: changes.count,
        },
    )
}

async fn sign_in_form(_app: App, _request: Request) -> ApiResult {
    page::render(
        200,
        &SignIn {
            email: "",
            error: "",
        },
    )
}

async fn sign_in(app: App, mut request: Request) -> ApiResult {
    session::refuse_cross_site(&app, &request)?;
    app.limits.sign_in(request.incoming.address)?;
    let form = request.form().await?;
    let (email, password) = (form.get("email"), form.get("password"));
    let now = app.clock.for_expiry();
    let mut tx = app.store.begin().await?;
    if let Some(until) = tx.count_attempt(email, now).await? {
        return wait(email, until, now);
    }
    tx.commit().await?;
    let known = app.store.user_by_email(email).await?;
    let hash = known.as_ref().map(|(_, hash)| hash.clone());
    let matches = app.passwords.verify(password.to_owned(), hash).await?;
    let tenant = match &known {
        Some((user, _)) if matches => app.store.first_membership(user.id).await?,
        _ => None,
    };
    let (Some((user, _)), Some(tenant)) = (known, tenant) else {
        let error = "The address or the password is wrong.";
        return page::render(401, &SignIn { email, error });
    };
    let mut tx = app.store.begin().await?;
    let token = session::new_token();
    tx.forget_failures(email).await?;
    let user_agent = request.header(header::USER_AGENT.as_str());
    tx.insert_session(&token, user.id, tenant, user_agent, now)
        .await?;
    tx.record_sign_in(tenant, &user, app.now()).await?;
    tx.commit().await?;
    let mut response = see_other("/");
    session::set_cookie(&app, &mut response, &token);
    Ok(response)
}

async fn sign_out(app: App, request: Request) -> ApiResult {
    session::refuse_cross_site(&app, &request)?;
    if let Some(token) = session::token(&app, &request) {
        let mut tx = app.store.begin().await?;
        tx.end_session(token).await?;
        tx.commit().await?;
    }
    let mut response = see_other("/sign-in");
    session::clear_cookie(&app, &mut response);
    Ok(response)
}

/// Answers that too many sign-ins have failed, with the form again.
fn wait(email: &str, until: Timestamp, now: Timestamp) -> ApiResult {
    let millis = u64::try_from(until.millis() - now.millis()).unwrap_or(0);
    let seconds = millis.div_ceil(1_000).max(1);
    let error = format!("Too many failed attempts. Try again in {seconds} s.");
    let mut response = page::render(
        429,
        &SignIn {
            email,
            error: &error,
        },
    )?;
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    Ok(response)
}

fn see_other(location: &'static str) -> Response {
    let mut response = Response::new(String::new().into());
    *response.status_mut() = http::StatusCode::SEE_OTHER;
    response
        .headers_mut()
        .insert(header::LOCATION, HeaderValue::from_static(location));
    response
}

/// The fields of an HTML form.
struct Form(Vec<(String, String)>);

impl Form {
    /// Returns the first value of a field; empty when it was not sent.
    fn get(&self, name: &str) -> &str {
        self.0
            .iter()
            .find(|(found, _)| found == name)
            .map_or("", |(_, value)| value)
    }
}

impl Request {
    async fn form(&mut self) -> Result<Form, ApiError> {
        let body = self
            .body_of_type("application/x-www-form-urlencoded")
            .await?;
        Ok(Form(form_urlencoded::parse(&body).into_owned().collect()))
    }
}
