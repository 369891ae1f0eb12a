//! The setup token: a person who can read what the service prints at its first
//! start may create the first organization, once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

/// The token, until it is used.
#[derive(Debug, Default)]
pub struct Setup(Mutex<Option<[u8; 32]>>);

/// The right to create the organization; without [`Claim::done`] the token is
/// valid again.
pub(crate) struct Claim<'s> {
    setup: &'s Setup,
    token: Option<[u8; 32]>,
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

impl Setup {
    /// Allows creating the first organization with this token.
    pub fn with(token: &str) -> Self {
        Self(Mutex::new(Some(hash(token))))
    }

    fn lock(&self) -> MutexGuard<'_, Option<[u8; 32]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether this is the token and it is unused.
    pub(crate) fn matches(&self, token: &str) -> bool {
        // Hashes: the time that comparing takes reveals nothing about the token.
        *self.lock() == Some(hash(token))
    }

    /// Claims the token, so that no other request can.
    pub(crate) fn take(&self, token: &str) -> Option<Claim<'_>> {
        let mut known = self.lock();
        (*known == Some(hash(token))).then(|| Claim {
            setup: self,
            token: known.take(),
        })
    }
}

impl Claim<'_> {
    /// Uses the token up: the organization was created.
    pub(crate) fn done(mut self) {
        self.token = None;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            *self.setup.lock() = Some(token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Setup;

    #[test]
    fn a_token_is_good_once() {
        let setup = Setup::with("token");
        assert!(setup.matches("token") && !setup.matches("other"));
        assert!(setup.take("other").is_none());
        let claim = setup.take("token").unwrap();
        assert!(setup.take("token").is_none(), "two at once");
        drop(claim);
        assert!(setup.matches("token"), "nothing was made");
        setup.take("token").unwrap().done();
        assert!(!setup.matches("token") && setup.take("token").is_none());
        assert!(!Setup::default().matches(""));
    }
}
