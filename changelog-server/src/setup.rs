//! The token of the first start: whoever can read what the service prints may
//! found the first organization, once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

/// The token, while nobody has used it.
#[derive(Debug, Default)]
pub struct Setup(Mutex<Option<[u8; 32]>>);

/// The right to found the organization; without [`Turn::done`] it goes back.
pub(crate) struct Turn<'s> {
    setup: &'s Setup,
    token: Option<[u8; 32]>,
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

impl Setup {
    /// Allows whoever has this token to found the first organization.
    pub fn with(token: &str) -> Self {
        Self(Mutex::new(Some(hash(token))))
    }

    fn lock(&self) -> MutexGuard<'_, Option<[u8; 32]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether this is the token, and nobody has used it.
    pub(crate) fn matches(&self, token: &str) -> bool {
        // Hashes: how long comparing takes tells nothing of the token.
        *self.lock() == Some(hash(token))
    }

    /// Takes the token, so that nobody else does.
    pub(crate) fn take(&self, token: &str) -> Option<Turn<'_>> {
        let mut known = self.lock();
        (*known == Some(hash(token))).then(|| Turn {
            setup: self,
            token: known.take(),
        })
    }
}

impl Turn<'_> {
    /// Notes that the organization was founded.
    pub(crate) fn done(mut self) {
        self.token = None;
    }
}

impl Drop for Turn<'_> {
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
        let turn = setup.take("token").unwrap();
        assert!(setup.take("token").is_none(), "two at once");
        drop(turn);
        assert!(setup.matches("token"), "nothing was made");
        setup.take("token").unwrap().done();
        assert!(!setup.matches("token") && setup.take("token").is_none());
        assert!(!Setup::default().matches(""));
    }
}
