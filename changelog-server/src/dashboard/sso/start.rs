//! The browser is sent to the provider, by an address that the sign-in page offers.

use changelog_core::OrganizationId;
use url::Url;

use super::{address, failed, not_connected, organization_of, redirect_uri};
use crate::app::App;
use crate::dashboard::auth;
use crate::dashboard::parts::page;
use crate::sso::exchange::ExchangeError;
use crate::sso::flow::{Flow, SignIn, challenge};
use crate::sso::setup;
use crate::store::{SsoProvider, StoreError};
use crate::web::session::{SSO_FLOW, SSO_ORGANIZATION};
use crate::web::{ApiError, ApiResult, Request};

/// What the sign-in page offers of an organization.
pub(in crate::dashboard) struct Offer {
    pub(in crate::dashboard) address: String,
    pub(in crate::dashboard) organization: String,
}

/// Returns the organizations whose provider the sign-in page offers: the one that the operator
/// has named, and the one that the browser has used before.
pub(in crate::dashboard) async fn offers(
    app: &App,
    request: &Request,
    next: &str,
) -> Result<Vec<Offer>, StoreError> {
    let used = SSO_ORGANIZATION.read(app, request);
    let used = used.and_then(|id| id.parse::<OrganizationId>().ok());
    let named = app.settings.sso_organization;
    let mut offers = Vec::new();
    for id in used.into_iter().chain(named.filter(|id| Some(*id) != used)) {
        let Some(found) = app.store.sso_organization(id).await? else {
            continue;
        };
        if found.provider.is_some() && found.plan.includes_sso() {
            offers.push(Offer {
                address: address(id, next),
                organization: found.name,
            });
        }
    }
    Ok(offers)
}

/// `GET /sso/ORGANIZATION`: sends the browser to the provider.
pub(in crate::dashboard) async fn start(app: App, request: Request) -> ApiResult {
    app.rate_limits.sign_in(request.context.address)?;
    let id: OrganizationId = request.id()?;
    let provider = organization_of(&app, id).await?.provider;
    let provider = provider.ok_or_else(not_connected)?;
    let form = request.query_form();
    let next = auth::local_path(form.value("next"));
    let begun = SignIn::begin();
    let url = match authorization_url(&app, &provider, &begun).await {
        Ok(url) => url,
        Err(error) => return failed(&error, id),
    };
    let flow = Flow::begin(&provider, next, begun, app.clock.for_expiry());
    let cookie = flow
        .seal(app.integrations.secrets())
        .map_err(|error| ApiError::internal(&error))?;
    let mut response = page::see_other(url.as_str());
    SSO_FLOW.set(&app, &mut response, &cookie);
    Ok(response)
}

/// Returns the URL of the provider at which the person signs in.
async fn authorization_url(
    app: &App,
    provider: &SsoProvider,
    begun: &SignIn,
) -> Result<Url, ExchangeError> {
    let published = app.identity.provider(&setup::issuer(provider)).await?;
    let discovery = &published.discovery;
    let (endpoint, _) = setup::endpoints(discovery).map_err(ExchangeError::Unsuitable)?;
    let unsuitable = || {
        let message = "the authorization_endpoint of the identity provider is not an https URL";
        ExchangeError::Unsuitable(message.to_owned())
    };
    let mut url = Url::parse(endpoint).map_err(|_| unsuitable())?;
    // Plain http only where the issuer itself was allowed to be that.
    let is_http = url.scheme() == "http" && provider.issuer.starts_with("http://");
    if url.scheme() != "https" && !is_http {
        return Err(unsuitable());
    }
    let mut scopes = vec!["openid", "email", "profile"];
    if provider.roles.follow_groups() {
        // Others refuse a scope that they do not know.
        let supported = discovery.scopes_supported.iter().flatten();
        let groups = supported
            .map(String::as_str)
            .find(|scope| *scope == provider.roles.groups_claim || *scope == "groups");
        scopes.extend(groups);
    }
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", &provider.client_id)
        .append_pair("redirect_uri", &redirect_uri(app, provider))
        .append_pair("scope", &scopes.join(" "))
        .append_pair("state", &begun.state)
        .append_pair("nonce", &begun.nonce)
        .append_pair("code_challenge", &challenge(&begun.verifier))
        .append_pair("code_challenge_method", "S256");
    Ok(url)
}
