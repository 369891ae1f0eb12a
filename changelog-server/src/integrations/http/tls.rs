//! The TLS configuration.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

use super::{Scheme, SendError};

/// Returns a configuration of rustls with the `ring` provider, which trusts the
/// certificates that the system trusts.
pub(super) fn config(scheme: Scheme) -> Result<ClientConfig, SendError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|_| SendError::Certificates)?;
    if scheme == Scheme::Http {
        // Not used, because redirects are not followed.
        return Ok(builder
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth());
    }
    let verifier = Verifier::new(provider).map_err(|_| SendError::Certificates)?;
    // Not less strict than rustls: the platform's verifier is made for this.
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth())
}
