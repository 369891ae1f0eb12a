//! The TLS configuration.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

use crate::base_url::BaseUrl;
use crate::error::Error;

/// Returns a configuration of rustls with the `ring` provider. The provider is
/// set here and not for the process, because the application may use another one.
///
/// `root_certificates` are certificates as PEM that are trusted next to the system's.
pub(crate) fn config(base_url: &BaseUrl, root_certificates: &[u8]) -> Result<ClientConfig, Error> {
    let extra: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(root_certificates).collect();
    let extra = extra.map_err(|error| {
        Error::Builder(format!("the root certificates are not valid PEM: {error}"))
    })?;
    if extra.is_empty() && !root_certificates.is_empty() {
        let message = "the root certificates contain no certificate as PEM";
        return Err(Error::Builder(message.to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Builder(error.to_string()))?;
    if base_url.is_plain_http() {
        // No TLS is used, because redirects are not followed; and reading the
        // system's certificates takes longer than a request.
        return Ok(builder
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth());
    }
    let verifier = Verifier::new_with_extra_roots(extra, provider).map_err(|error| {
        Error::Builder(format!("the system's certificates cannot be used: {error}"))
    })?;
    // Not less strict than rustls: the platform's verifier is made for this.
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth())
}
