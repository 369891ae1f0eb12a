//! A person whom the provider knows confirms, with the password of the member who has the
//! address, that they are that member.

use askama::Template;
use http::{HeaderValue, header};

use super::callback::{explain, sign_in};
use super::{organization_of, refused};
use crate::app::App;
use crate::dashboard::auth::{PasswordCheck, check_password};
use crate::dashboard::parts::{assets, page};
use crate::sso::flow::{Flow, Step};
use crate::store::SsoOrganization;
use crate::web::session::SSO_FLOW;
use crate::web::{ApiResult, Request, cross_site};

#[derive(Template)]
#[template(path = "auth/sso_confirm.html")]
struct ConfirmPage<'a> {
    organization: &'a str,
    email: &'a str,
    error: &'a str,
}

/// `POST /sso/confirm`: a person whom the provider knows enters the password of the member who
/// has the address.
pub(in crate::dashboard) async fn confirm(app: App, request: Request) -> ApiResult {
    cross_site::refuse(&app, &request)?;
    app.rate_limits.sign_in(request.context.address)?;
    let form = request.form().await?;
    let now = app.clock.for_expiry();
    let cookie = SSO_FLOW.read(&app, &request);
    let flow = cookie.and_then(|cookie| Flow::open(app.integrations.secrets(), cookie, now));
    let Some(flow) = flow else {
        let reason = "This sign-in was begun in another browser, or too long ago.";
        return refused(400, reason, "Open the sign-in page and begin again.", None);
    };
    let id = flow.organization;
    let organization = organization_of(&app, id).await?;
    let (Step::Confirm(confirmation), Some(provider)) = (&flow.step, &organization.provider) else {
        return refused(
            400,
            "There is nothing to confirm.",
            "Begin again.",
            Some(id),
        );
    };
    if !flow.is_of(provider) {
        let reason = "The identity provider of the organization has been changed meanwhile.";
        return refused(400, reason, "Begin again.", Some(id));
    }
    let ticket = app.passwords.enter()?;
    let email = confirmation.email.as_str();
    let checked = check_password(&app, &request, &ticket, email, form.value("password")).await?;
    let login = match checked {
        // The address may have accounts in other organizations, with other passwords.
        PasswordCheck::Correct(login) if login.user.id == confirmation.member => login,
        PasswordCheck::Throttled(seconds) => {
            let error = format!("Too many attempts. Try again in {seconds} s.");
            let mut response = ask(429, &organization, email, &error)?;
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            return Ok(response);
        }
        PasswordCheck::Correct(_) | PasswordCheck::Wrong => {
            return ask(401, &organization, email, "Incorrect password.");
        }
    };
    let (person, sid) = (confirmation.person(), confirmation.sid.as_deref());
    let outcome = sign_in(&app, &request, provider, &flow, &person, sid, Some(&login)).await?;
    let mut response = match outcome {
        Ok(response) => response,
        Err(outcome) => explain(&outcome, &organization)?,
    };
    SSO_FLOW.clear(&app, &mut response);
    Ok(response)
}

/// Returns the page that asks for the password, with what was wrong with the last one.
pub(super) fn ask(
    status: u16,
    organization: &SsoOrganization,
    email: &str,
    error: &str,
) -> ApiResult {
    let page = ConfirmPage {
        organization: &organization.name,
        email,
        error,
    };
    page::render(status, &page)
}
