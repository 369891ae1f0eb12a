//! Making and changing sources, for the dashboard and for commands.

use changelog_core::{NewSource, SourceId, SourceKind, Timestamp};

use crate::secrets::{Secrets, SecretsError};
use crate::store::{Source, Tenant, token_of};

/// Returns the token of a new address.
pub(crate) fn new_token(tenant: Tenant) -> String {
    token_of(tenant, &crate::web::session::new_token())
}

/// Returns a secret for a sender.
pub(crate) fn new_secret() -> String {
    crate::web::session::new_token()
}

/// Returns the path that requests are sent to.
pub(crate) fn path(kind: &SourceKind, token: &str) -> String {
    format!("/api/ingest/{kind}/{token}")
}

/// Makes a source from input that was checked.
pub(crate) fn prepare(
    secrets: &Secrets,
    tenant: Tenant,
    id: SourceId,
    new: NewSource,
    created_by: &str,
    now: Timestamp,
) -> Result<Source, SecretsError> {
    let secret = new
        .secret
        .map(|secret| seal_secret(secrets, tenant, id, &secret));
    Ok(Source {
        tenant,
        id,
        kind: new.kind,
        name: new.name,
        secret: secret.transpose()?,
        settings: new.settings,
        created_at: now,
        created_by: created_by.to_owned(),
        disabled_at: None,
        last_event_at: None,
        refused: None,
        confirm_url: None,
    })
}

/// Encrypts the secret of a source.
pub(crate) fn seal_secret(
    secrets: &Secrets,
    tenant: Tenant,
    id: SourceId,
    secret: &str,
) -> Result<Vec<u8>, SecretsError> {
    secrets.encrypt(&context(tenant, id), secret.as_bytes())
}

/// Decrypts the secret of a source.
pub(crate) fn open_secret(
    secrets: &Secrets,
    source: &Source,
) -> Result<Option<String>, SecretsError> {
    let Some(secret) = &source.secret else {
        return Ok(None);
    };
    let secret = secrets.decrypt(&context(source.tenant, source.id), secret)?;
    let secret = String::from_utf8(secret).map_err(|_| SecretsError::Damaged)?;
    Ok(Some(secret))
}

/// A secret belongs to its source, and cannot be moved to another one.
fn context(tenant: Tenant, id: SourceId) -> String {
    format!("source {} {id}", tenant.id())
}
