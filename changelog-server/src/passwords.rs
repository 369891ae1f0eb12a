//! Passwords: Argon2id, on the blocking pool, behind a small gate.

use std::sync::Arc;

use argon2::password_hash::{PasswordHasher, PasswordVerifier, phc::PasswordHash};
use argon2::{Algorithm, Argon2, Params, Version};
use changelog_core::{Code, Invalid};
use tokio::sync::Semaphore;

/// Memory in KiB, passes and lanes of one hash.
const COST: (u32, u32, u32) = (19_456, 2, 1);
/// How many hashes are computed at once: each holds a core and 19 MiB.
const AT_ONCE: usize = 2;
/// How many callers may wait for a place; beyond that the service says so at
/// once instead of keeping everybody waiting.
const WAITING: usize = 64;
/// A password that takes fewer guesses than this is among the most common.
const LEAST_GUESSES: u64 = 1_000_000;

/// Too many sign-ins wait already.
#[derive(Debug, thiserror::Error)]
#[error("too many passwords are being checked")]
pub struct Busy;

/// Hashes and checks passwords; cheap to clone.
#[derive(Clone, Debug)]
pub struct Passwords {
    running: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    /// What an unknown person's password is checked against, so that the
    /// answer takes as long as for a known one.
    dummy: Arc<str>,
}

impl Passwords {
    /// Computes the dummy hash.
    pub fn new() -> Self {
        Self {
            running: Arc::new(Semaphore::new(AT_ONCE)),
            waiting: Arc::new(Semaphore::new(AT_ONCE + WAITING)),
            dummy: hash_now("nobody has this password").into(),
        }
    }

    /// Checks a password against a hash; without one (an unknown person) it
    /// takes as long and fails.
    pub async fn verify(&self, password: String, hash: Option<String>) -> Result<bool, Busy> {
        let known = hash.is_some();
        let hash = hash.unwrap_or_else(|| self.dummy.to_string());
        let matches = self
            .run(move || {
                PasswordHash::new(&hash)
                    .is_ok_and(|hash| argon2().verify_password(password.as_bytes(), &hash).is_ok())
            })
            .await?;
        Ok(matches && known)
    }

    /// Hashes a password.
    pub async fn hash(&self, password: String) -> Result<String, Busy> {
        self.run(move || hash_now(&password)).await
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        let _waiting = self.waiting.try_acquire().map_err(|_| Busy)?;
        let _running = self.running.acquire().await.map_err(|_| Busy)?;
        tokio::task::spawn_blocking(work).await.map_err(|_| Busy)
    }
}

impl Default for Passwords {
    fn default() -> Self {
        Self::new()
    }
}

/// Hashes a password on the spot, for the admin commands.
///
/// # Panics
/// When the system has no randomness to give for the salt.
pub fn hash_now(password: &str) -> String {
    argon2()
        .hash_password(password.as_bytes())
        .map(|hash| hash.to_string())
        .expect("the parameters are constants and the salt comes from the system")
}

/// Refuses the passwords that everybody tries first.
pub fn refuse_common(password: &str, about: &[&str]) -> Result<(), Invalid> {
    let guesses = zxcvbn::zxcvbn(password, about).guesses();
    if guesses < LEAST_GUESSES {
        let message = "is too easily guessed; use several unrelated words, or a password manager";
        return Err(Invalid::one("/password", Code::TooWeak, message));
    }
    Ok(())
}

fn argon2() -> Argon2<'static> {
    let (memory, passes, lanes) = COST;
    let params = Params::new(memory, passes, lanes, None).expect("the parameters are constants");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_hash_fits_its_password_only() {
        let passwords = Passwords::new();
        let hash = hash_now("correct horse battery");
        assert!(
            hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
            "{hash}"
        );
        assert!(
            passwords
                .verify("correct horse battery".into(), Some(hash.clone()))
                .await
                .unwrap()
        );
        assert!(
            !passwords
                .verify("correct horse batterx".into(), Some(hash))
                .await
                .unwrap()
        );
        assert!(
            !passwords
                .verify("nobody has this password".into(), None)
                .await
                .unwrap()
        );
    }

    #[test]
    fn common_passwords_are_refused() {
        for bad in [
            "123456789012",
            "passwordpassword",
            "qwertyuiopas",
            "aaaaaaaaaaaaaaaa",
        ] {
            assert!(refuse_common(bad, &[]).is_err(), "{bad}");
        }
        for good in [
            "correct horse battery",
            "k3J!vvQ9xLw2",
            "change log owner pass",
        ] {
            assert!(refuse_common(good, &[]).is_ok(), "{good}");
        }
    }
}
