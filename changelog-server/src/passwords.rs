//! Passwords: Argon2id, on the blocking pool, behind a small gate.

use std::sync::Arc;

use argon2::password_hash::{self, CustomizedPasswordHasher, PasswordHasher, phc::PasswordHash};
use argon2::{Algorithm, Argon2, Params, Version};
use changelog_core::{Code, Invalid};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::blocking_pool;

/// Memory in KiB, passes and lanes of one hash.
const COST: (u32, u32, u32) = (19_456, 2, 1);
/// How many hashes are computed at once: each holds a core and 19 MiB.
const AT_ONCE: usize = 2;
/// How many callers may wait for a place; beyond that the service says so at
/// once instead of keeping everybody waiting.
const WAITING: usize = 64;
/// How many characters of a password are judged.
const JUDGED_CHARS: usize = 64;
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
    /// What a password is checked against where nobody has the address, so that
    /// the answer takes as long as for somebody.
    dummy: Arc<str>,
}

/// A request that may have passwords hashed. It is taken before anything is
/// counted against anybody, so that a request that is refused because too many
/// wait costs nobody an attempt.
#[derive(Debug)]
pub struct Ticket {
    running: Arc<Semaphore>,
    dummy: Arc<str>,
    _waiting: OwnedSemaphorePermit,
}

impl Passwords {
    /// Computes the dummy hash.
    pub fn new() -> Self {
        Self {
            running: Arc::new(Semaphore::new(AT_ONCE)),
            waiting: Arc::new(Semaphore::new(AT_ONCE + WAITING)),
            dummy: hash_now("nobody has this password", None).into(),
        }
    }

    /// Lets a request in.
    ///
    /// # Errors
    /// [`Busy`] when too many are in already.
    pub fn enter(&self) -> Result<Ticket, Busy> {
        let waiting = Arc::clone(&self.waiting);
        Ok(Ticket {
            running: Arc::clone(&self.running),
            dummy: Arc::clone(&self.dummy),
            _waiting: waiting.try_acquire_owned().map_err(|_| Busy)?,
        })
    }
}

impl Ticket {
    /// Checks a password against hashes and returns the number of the first that
    /// it fits. It takes as long without any hash as with one, and with several
    /// that were made alike (see [`hash_now`]).
    pub async fn verify(
        &self,
        password: String,
        hashes: Vec<String>,
    ) -> Result<Option<usize>, Busy> {
        let dummy = Arc::clone(&self.dummy);
        self.run(move || first_match(&password, &hashes, &dummy))
            .await
    }

    /// Hashes a password, as [`hash_now`] does.
    pub async fn hash(&self, password: String, like: Option<String>) -> Result<String, Busy> {
        self.run(move || hash_now(&password, like.as_deref())).await
    }

    /// Refuses a common password, as [`refuse_common`] does.
    pub async fn refuse_common(
        &self,
        password: String,
        about: Vec<String>,
    ) -> Result<Result<(), Invalid>, Busy> {
        self.run(move || {
            let about: Vec<&str> = about.iter().map(String::as_str).collect();
            refuse_common(&password, &about)
        })
        .await
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        let _running = self.running.acquire().await.map_err(|_| Busy)?;
        Ok(blocking_pool::run(work).await)
    }
}

impl Default for Passwords {
    fn default() -> Self {
        Self::new()
    }
}

/// Hashes a password on the spot: for the admin commands, and on the blocking
/// pool.
///
/// The accounts of one mail address have one salt: that of `like`, the hash of
/// another of them, or a random one where there is none. A sign-in is then one
/// computation however many accounts the address has, which keeps its time from
/// telling. All that equal salts show is whether two accounts of one address have
/// the same password, to who can read the database.
///
/// # Panics
/// When the system has no randomness to give for the salt.
pub fn hash_now(password: &str, like: Option<&str>) -> String {
    let salt = like
        .and_then(|like| PasswordHash::new(like).ok())
        .and_then(|like| like.salt);
    let hash = match salt {
        Some(salt) => argon2().hash_password_with_salt(password.as_bytes(), salt.as_ref()),
        None => argon2().hash_password(password.as_bytes()),
    };
    hash.map(|hash| hash.to_string())
        .expect("the parameters are constants and the salt comes from the system")
}

/// Returns the number of the first hash that a password fits. Each combination of
/// salt and parameters is computed once, and at least one is.
fn first_match(password: &str, hashes: &[String], dummy: &str) -> Option<usize> {
    let mut computed: Vec<PasswordHash> = Vec::new();
    let mut first = None;
    let hashes = hashes.iter().map(|hash| PasswordHash::new(hash).ok());
    for (number, hash) in hashes.enumerate() {
        let Some(hash) = hash else { continue };
        let alike = |other: &&PasswordHash| {
            let way = |hash: &PasswordHash| (hash.algorithm, hash.version, hash.salt);
            way(other) == way(&hash) && other.params == hash.params
        };
        let output = match computed.iter().find(alike) {
            Some(known) => known.hash,
            None => match compute(password, &hash) {
                Ok(new) => {
                    let output = new.hash;
                    computed.push(new);
                    output
                }
                Err(_) => continue,
            },
        };
        // Outputs are compared in constant time.
        if output.is_some() && output == hash.hash && first.is_none() {
            first = Some(number);
        }
    }
    if computed.is_empty()
        && let Ok(dummy) = PasswordHash::new(dummy)
    {
        let _ = compute(password, &dummy);
    }
    first
}

/// Hashes a password in the way that a hash was made.
fn compute(password: &str, like: &PasswordHash) -> Result<PasswordHash, password_hash::Error> {
    let salt = like.salt.ok_or(password_hash::Error::SaltInvalid)?;
    argon2().hash_password_customized(
        password.as_bytes(),
        salt.as_ref(),
        Some(like.algorithm.as_str()),
        like.version,
        Params::try_from(like)?,
    )
}

/// Refuses the passwords that everybody tries first. The beginning of a long one
/// is judged, since judging takes more than the square of the length.
pub fn refuse_common(password: &str, about: &[&str]) -> Result<(), Invalid> {
    let end = password.char_indices().nth(JUDGED_CHARS);
    let start = &password[..end.map_or(password.len(), |(end, _)| end)];
    let guesses = zxcvbn::zxcvbn(start, about).guesses();
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
        let hash = hash_now("correct horse battery", None);
        assert!(
            hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
            "{hash}"
        );
        let ticket = passwords.enter().unwrap();
        let verify = async |password: &str, hashes: &[&String]| {
            let hashes = hashes.iter().map(ToString::to_string).collect();
            ticket.verify(password.to_owned(), hashes).await.unwrap()
        };
        assert_eq!(verify("correct horse battery", &[&hash]).await, Some(0));
        assert_eq!(verify("correct horse batterx", &[&hash]).await, None);
        assert_eq!(verify("nobody has this password", &[]).await, None);
        // Several accounts of one address, one of them made in another way.
        let like = hash_now("another battery", Some(&hash));
        let unlike = hash_now("third battery", None);
        let none = "no hash".to_owned();
        let all = [&none, &hash, &like, &unlike];
        for (password, expected) in [
            ("correct horse battery", Some(1)),
            ("another battery", Some(2)),
            ("third battery", Some(3)),
            ("fourth battery", None),
            ("no hash", None),
        ] {
            assert_eq!(verify(password, &all).await, expected, "{password}");
        }
        let salt = |hash: &str| PasswordHash::new(hash).unwrap().salt.unwrap();
        assert_eq!(salt(&like), salt(&hash));
        assert_ne!(salt(&unlike), salt(&hash));
    }

    #[tokio::test]
    async fn so_many_are_let_in_and_no_more() {
        let passwords = Passwords::new();
        let tickets: Vec<_> = (0..AT_ONCE + WAITING).map(|_| passwords.enter()).collect();
        assert!(tickets.iter().all(Result::is_ok));
        assert!(passwords.enter().is_err());
        drop(tickets);
        assert!(passwords.enter().is_ok());
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
        // As long as a password may be, of the characters that take longest.
        let long = "4@8({[<369!1|0$5+7%2".repeat(13);
        let begun = std::time::Instant::now();
        let _ = refuse_common(&long[..256], &[]);
        assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    }
}
