//! `/sso`: sign-in by the identity provider of an organization.
//!
//! The browser is sent to the provider (`GET /sso/ORGANIZATION`) and comes back with a code
//! (`GET /sso/callback`). What it has begun is in an encrypted cookie, so that a code that was
//! begun elsewhere is of no use here. A session that is begun here acts in the organization of
//! the provider only.

mod callback;
mod confirm;
mod logout;
mod start;

use askama::Template;
use changelog_core::{OrganizationId, ProblemCode};

pub(super) use self::callback::callback;
pub(super) use self::confirm::confirm;
pub(super) use self::logout::backchannel_logout;
pub(super) use self::start::{Offer, offers, start};
use crate::app::App;
use crate::dashboard::parts::{assets, format, page};
use crate::sso::exchange::ExchangeError;
use crate::sso::setup;
use crate::store::{SsoOrganization, SsoProvider};
use crate::web::{ApiError, ApiResult};

#[derive(Template)]
#[template(path = "auth/sso_refused.html")]
struct RefusedPage<'a> {
    title: &'a str,
    /// Why, in a sentence.
    reason: &'a str,
    /// What to do about it.
    remedy: &'a str,
    /// The address that begins again; empty if that is of no use.
    again: String,
}

/// Returns the page that says why nobody was signed in.
fn refused(status: u16, reason: &str, remedy: &str, again: Option<OrganizationId>) -> ApiResult {
    let page = RefusedPage {
        title: if status == 503 {
            "The identity provider does not work"
        } else {
            "You were not signed in"
        },
        reason,
        remedy,
        again: again.map(|id| format!("/sso/{id}")).unwrap_or_default(),
    };
    page::render(status, &page)
}

/// Returns the page after a failure of the provider, or of what it says.
fn failed(error: &ExchangeError, organization: OrganizationId) -> ApiResult {
    let (status, remedy) = match error {
        ExchangeError::Provider(_) => (
            503,
            "Nothing is wrong with your account. Try again; if it goes on, tell your administrator.",
        ),
        ExchangeError::Person(_) => (403, "Ask your administrator."),
        ExchangeError::Unsuitable(_) => (
            502,
            "Ask an owner of the organization to correct the settings.",
        ),
        ExchangeError::Token(_) | ExchangeError::Refused(_) => {
            (403, "Try again. If it goes on, tell your administrator.")
        }
    };
    let reason = sentence(&error.to_string());
    tracing::warn!(%organization, %reason, "a sign-in by an identity provider failed");
    refused(status, &reason, remedy, Some(organization))
}

/// Returns a message as a sentence.
fn sentence(message: &str) -> String {
    let mut chars = message.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string());
    let end = if message.ends_with('.') { "" } else { "." };
    format!("{}{}{end}", first.unwrap_or_default(), chars.as_str())
}

/// Finds the organization that a browser wants to sign in to, whose plan includes it.
async fn organization_of(app: &App, id: OrganizationId) -> Result<SsoOrganization, ApiError> {
    let found = app.store.sso_organization(id).await?;
    let found = found.ok_or_else(not_connected)?;
    if !found.plan.includes_sso() {
        let remedy = match found.provider {
            Some(provider) if provider.is_required => {
                "passwords do not work either, because the provider is required: ask your \
                 administrator, who has the emergency access, to disconnect it or change the plan"
            }
            _ => "sign in with your password, or change the plan",
        };
        let detail = format!(
            "the {} plan does not include sign-in by an identity provider; {remedy}",
            found.plan
        );
        return Err(ApiError::new(ProblemCode::PlanRequired, detail));
    }
    Ok(found)
}

fn not_connected() -> ApiError {
    let detail = "this organization has not connected an identity provider; sign in with your \
                  password";
    ApiError::new(ProblemCode::NotFound, detail)
}

/// The address to which a provider returns people.
fn redirect_uri(app: &App, provider: &SsoProvider) -> String {
    let path = setup::callback_path(provider.tenant.id(), provider.redirect);
    format!("{}{path}", app.url())
}

/// Returns the address that begins a sign-in.
pub(super) fn address(id: OrganizationId, next: &str) -> String {
    if next.is_empty() {
        return format!("/sso/{id}");
    }
    format!("/sso/{id}?{}", format::query("next", next))
}
