//! The setup token: the service prints it at its first start. A person who can read
//! it may create the first organization, once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

/// The token, until it is used.
#[derive(Debug, Default)]
pub struct SetupToken(Mutex<Option<[u8; 32]>>);

/// The right to create the organization. If it is dropped without
/// [`Claim::use_up`], the token is valid again.
pub(crate) struct Claim<'s> {
    setup_token: &'s SetupToken,
    token: Option<[u8; 32]>,
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

impl SetupToken {
    /// Allows creating the first organization with this token.
    pub fn new(token: &str) -> Self {
        Self(Mutex::new(Some(hash(token))))
    }

    fn lock(&self) -> MutexGuard<'_, Option<[u8; 32]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether this is the token and it is unused.
    pub(crate) fn matches(&self, token: &str) -> bool {
        // Comparing hashes keeps the timing from revealing the token.
        *self.lock() == Some(hash(token))
    }

    /// Claims the token, so that no other request can use it.
    pub(crate) fn claim(&self, token: &str) -> Option<Claim<'_>> {
        let mut known = self.lock();
        (*known == Some(hash(token))).then(|| Claim {
            setup_token: self,
            token: known.take(),
        })
    }
}

impl Claim<'_> {
    /// Invalidates the token, because the organization was created.
    pub(crate) fn use_up(mut self) {
        self.token = None;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            *self.setup_token.lock() = Some(token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SetupToken;

    #[test]
    fn a_token_is_good_once() {
        let setup = SetupToken::new("token");
        assert!(setup.matches("token") && !setup.matches("other"));
        assert!(setup.claim("other").is_none());
        let claim = setup.claim("token").unwrap();
        assert!(setup.claim("token").is_none(), "two at once");
        drop(claim);
        assert!(setup.matches("token"), "nothing was created");
        setup.claim("token").unwrap().use_up();
        assert!(!setup.matches("token") && setup.claim("token").is_none());
        assert!(!SetupToken::default().matches(""));
    }
}
