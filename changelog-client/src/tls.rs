//! The TLS configuration.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::base_url::BaseUrl;
use crate::error::Error;

/// Returns a configuration of rustls with the `ring` provider. The provider is
/// set here and not for the process, because the application may use another one.
pub(crate) fn config(base_url: &BaseUrl) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Builder(error.to_string()))?;
    if base_url.is_plain_http() {
        // No TLS is used, because redirects are not followed; and reading the
        // system's certificates takes longer than a request.
        return Ok(builder
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth());
    }
    let builder = builder.with_platform_verifier().map_err(|error| {
        Error::Builder(format!("the system's certificates cannot be used: {error}"))
    })?;
    Ok(builder.with_no_client_auth())
}
