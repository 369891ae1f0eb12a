//! The kinds of sources, one file each: how their requests are verified and read.

mod azure;
mod calls;
mod cloudtrail;
mod gcp;
mod github;
mod kubernetes;
#[cfg(test)]
mod testing;

use changelog_core::SourceKind;

use crate::handshake::Handshake;
use crate::observation::{Reading, Unreadable};
use crate::proof::{self, Proof, Unproven};
use crate::received::Received;
use crate::settings::Settings;

/// What one kind does.
struct Kind {
    /// The ways to prove the origin; none if the token in the address is the proof.
    proofs: &'static [Proof],
    /// Whether a source of this kind must have a secret.
    is_signed: bool,
    /// Answers a request that only checks the address.
    handshake: fn(&Received<'_>) -> Option<Handshake>,
    /// Returns what the sender calls the request, the same if it is sent again.
    request_id: fn(&Received<'_>) -> Option<String>,
    /// Reads a request.
    read: fn(&Received<'_>, &Settings) -> Result<Reading, Unreadable>,
}

impl Kind {
    /// A kind whose token in the address is the proof, without handshake and without ids
    /// of requests.
    const fn new(read: fn(&Received<'_>, &Settings) -> Result<Reading, Unreadable>) -> Self {
        Self {
            proofs: &[],
            is_signed: false,
            handshake: |_| None,
            request_id: |_| None,
            read,
        }
    }
}

/// Returns what a kind does; `None` for one that this version does not know.
fn kind(kind: &SourceKind) -> Option<&'static Kind> {
    match kind {
        SourceKind::Azure => Some(&azure::KIND),
        SourceKind::Cloudtrail => Some(&cloudtrail::KIND),
        SourceKind::Gcp => Some(&gcp::KIND),
        SourceKind::Github => Some(&github::KIND),
        SourceKind::Kubernetes => Some(&kubernetes::KIND),
        _ => None,
    }
}

/// Returns whether a source of this kind can have a secret by which requests are verified.
pub fn takes_secret(of: &SourceKind) -> bool {
    kind(of).is_some_and(|kind| !kind.proofs.is_empty())
}

/// Returns whether a source of this kind must have such a secret.
pub fn is_signed(of: &SourceKind) -> bool {
    kind(of).is_some_and(|kind| kind.is_signed)
}

/// Requires that a request proves its origin, if the source has a secret.
///
/// # Errors
/// [`Unproven`] says which header is missing or does not fit.
pub fn verify(
    of: &SourceKind,
    secret: Option<&str>,
    received: &Received<'_>,
) -> Result<(), Unproven> {
    match (kind(of), secret) {
        (Some(kind), Some(secret)) if !kind.proofs.is_empty() => {
            proof::require(kind.proofs, secret, received)
        }
        _ => Ok(()),
    }
}

/// Answers a request that only checks the address; `None` for an event.
pub fn handshake(of: &SourceKind, received: &Received<'_>) -> Option<Handshake> {
    (kind(of)?.handshake)(received)
}

/// Returns what the sender calls a request, the same if it is sent again.
pub fn request_id(of: &SourceKind, received: &Received<'_>) -> Option<String> {
    (kind(of)?.request_id)(received)
}

/// Reads a request.
///
/// # Errors
/// [`Unreadable`] says why the body is set aside.
pub fn read(
    of: &SourceKind,
    received: &Received<'_>,
    settings: &Settings,
) -> Result<Reading, Unreadable> {
    match kind(of) {
        Some(kind) => (kind.read)(received, settings),
        None => Err(Unreadable(format!("this version does not read {of}"))),
    }
}
