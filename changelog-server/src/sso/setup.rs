//! Making, changing and testing the connection to an identity provider, for the dashboard and
//! for commands.

use changelog_core::{Invalid, OrganizationId, SsoInput, SsoRedirect, Timestamp, ViolationCode};

use super::CALLBACK_PATH;
use crate::identity::{Discovery, Identity, Issuer};
use crate::secrets::{Secrets, SecretsError};
use crate::store::{SsoProvider, Tenant};

/// Makes a provider of input that was checked. `before` is the present one. Its owner of the
/// emergency door is chosen by
/// [`set_sso_provider`](crate::store::Tx::set_sso_provider).
pub(crate) fn prepare(
    secrets: &Secrets,
    tenant: Tenant,
    input: SsoInput,
    before: Option<&SsoProvider>,
    allows_insecure: bool,
    now: Timestamp,
) -> Result<Result<SsoProvider, Invalid>, SecretsError> {
    let client_secret = match (&input.client_secret, before) {
        (Some(secret), _) => seal_secret(secrets, tenant, secret)?,
        // Another issuer must not be sent the secret of this one.
        (None, Some(before))
            if before.issuer == input.issuer && before.client_id == input.client_id =>
        {
            before.client_secret.clone()
        }
        (None, _) => {
            let message = "is required for this issuer and client";
            let code = ViolationCode::Required;
            return Ok(Err(Invalid::one("/client_secret", code, message)));
        }
    };
    Ok(Ok(SsoProvider {
        tenant,
        issuer: input.issuer,
        client_id: input.client_id,
        client_secret,
        roles: input.roles,
        is_required: input.required,
        emergency_owner: before.and_then(|before| before.emergency_owner),
        redirect: input.redirect,
        allows_insecure,
        created_at: before.map_or(now, |before| before.created_at),
        updated_at: now,
    }))
}

/// Encrypts the secret of a provider.
pub(crate) fn seal_secret(
    secrets: &Secrets,
    tenant: Tenant,
    secret: &str,
) -> Result<Vec<u8>, SecretsError> {
    secrets.encrypt(&context(tenant), secret.as_bytes())
}

/// Decrypts the secret of a provider.
pub(crate) fn open_secret(
    secrets: &Secrets,
    provider: &SsoProvider,
) -> Result<String, SecretsError> {
    let secret = secrets.decrypt(&context(provider.tenant), &provider.client_secret)?;
    String::from_utf8(secret).map_err(|_| SecretsError::Damaged)
}

/// A secret belongs to its organization, and cannot be moved to another one.
fn context(tenant: Tenant) -> String {
    format!("sso {}", tenant.id())
}

/// Returns the issuer of a provider.
pub(crate) fn issuer(provider: &SsoProvider) -> Issuer {
    Issuer::new(&provider.issuer, provider.allows_insecure)
}

/// Returns the path to which a provider returns people.
pub(crate) fn callback_path(organization: OrganizationId, redirect: SsoRedirect) -> String {
    match redirect {
        SsoRedirect::Shared => CALLBACK_PATH.to_owned(),
        SsoRedirect::Own => format!("{CALLBACK_PATH}/{organization}"),
    }
}

/// What is to be known of a provider before it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tested {
    /// Whether the provider names itself when it returns people (RFC 9207).
    pub(crate) names_itself: bool,
    /// Whether it tells when people sign out (back-channel logout).
    pub(crate) tells_sign_outs: bool,
}

/// Fetches what a provider publishes, and returns why people could not sign in by it.
pub(crate) async fn test(identity: &Identity, provider: &SsoProvider) -> Result<Tested, String> {
    let found = identity.fetch_provider(&issuer(provider)).await;
    let found = found.map_err(|error| error.to_string())?;
    let discovery = &found.discovery;
    endpoints(discovery)?;
    SecretMethod::of(discovery)?;
    if let Some(methods) = &discovery.code_challenge_methods_supported
        && !methods.iter().any(|method| method == "S256")
    {
        return Err("the identity provider does not support PKCE with S256".to_owned());
    }
    Ok(Tested {
        names_itself: discovery.authorization_response_iss_parameter_supported,
        tells_sign_outs: discovery.backchannel_logout_supported,
    })
}

/// Returns where people sign in, and where a code is exchanged.
pub(crate) fn endpoints(discovery: &Discovery) -> Result<(&str, &str), String> {
    match (&discovery.authorization_endpoint, &discovery.token_endpoint) {
        (Some(authorization), Some(token)) => Ok((authorization, token)),
        _ => Err(
            "the discovery document of the identity provider has no authorization_endpoint and \
             token_endpoint: nobody can sign in by it"
                .to_owned(),
        ),
    }
}

/// How the secret is sent to the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecretMethod {
    /// `client_secret_basic`
    Basic,
    /// `client_secret_post`
    Post,
}

impl SecretMethod {
    /// Chooses the method by what a provider takes.
    pub(crate) fn of(discovery: &Discovery) -> Result<Self, String> {
        let Some(methods) = &discovery.token_endpoint_auth_methods_supported else {
            return Ok(Self::Basic);
        };
        let takes = |method: &str| methods.iter().any(|one| one == method);
        if takes("client_secret_basic") {
            Ok(Self::Basic)
        } else if takes("client_secret_post") {
            Ok(Self::Post)
        } else {
            Err(
                "the token endpoint of the identity provider takes neither client_secret_basic \
                 nor client_secret_post"
                    .to_owned(),
            )
        }
    }
}
