//! Password hashing with Argon2id, on the blocking pool, a few at a time.

use std::sync::Arc;

use argon2::password_hash::{self, CustomizedPasswordHasher, PasswordHasher, phc::PasswordHash};
use argon2::{Algorithm, Argon2, Params, Version};
use changelog_core::{Invalid, ViolationCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::blocking_pool;

/// The cost of one hash: memory in KiB, passes and lanes.
const HASH_COST: (u32, u32, u32) = (19_456, 2, 1);
/// The limit on hashes computed at once: each takes a core and 19 MiB.
const MAX_RUNNING: usize = 2;
/// The limit on requests that wait for a hash; more are refused at once.
const MAX_WAITING: usize = 64;
/// How many characters of a password are checked for its strength.
const CHECKED_CHARS: usize = 64;
/// The fewest guesses that a password must take.
const MIN_GUESSES: u64 = 1_000_000;

/// Too many requests wait for a hash.
#[derive(Debug, thiserror::Error)]
#[error("too many passwords are being checked")]
pub struct Busy;

/// Hashes and checks passwords; cheap to clone.
#[derive(Clone, Debug)]
pub struct Passwords {
    running: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    /// The hash to check a password against when no account has the address, so that
    /// the response takes as long as with an account.
    dummy: Arc<str>,
}

/// The permission of a request to hash passwords. It is acquired before the attempt
/// is counted, so that a request refused as [`Busy`] does not count as one.
#[derive(Debug)]
pub struct Ticket {
    running: Arc<Semaphore>,
    dummy: Arc<str>,
    _waiting: OwnedSemaphorePermit,
}

impl Passwords {
    /// Creates the hasher and computes its dummy hash.
    pub fn new() -> Self {
        Self {
            running: Arc::new(Semaphore::new(MAX_RUNNING)),
            waiting: Arc::new(Semaphore::new(MAX_RUNNING + MAX_WAITING)),
            dummy: hash_now("nobody has this password", None).into(),
        }
    }

    /// Admits a request.
    ///
    /// # Errors
    /// [`Busy`] when too many requests wait.
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
    /// Checks a password against hashes and returns the index of the first match.
    /// This takes the same time for no hash, for one, and for several with the same
    /// salt (see [`hash_now`]).
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

/// Hashes a password on the current thread: for admin commands and on the blocking
/// pool.
///
/// The accounts of one email address share a salt: that of `like`, the hash of
/// another of them, or without one a random salt. A sign-in then computes one hash
/// for all of them, so that its time does not reveal their number. Equal salts show
/// a reader of the database only whether two of these accounts have the same
/// password.
///
/// # Panics
/// When the system cannot provide random bytes for the salt.
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

/// Returns the index of the first hash that a password matches. Computes one hash for
/// each combination of salt and parameters, and at least one.
fn first_match(password: &str, hashes: &[String], dummy: &str) -> Option<usize> {
    let mut computed: Vec<PasswordHash> = Vec::new();
    let mut first = None;
    let hashes = hashes.iter().map(|hash| PasswordHash::new(hash).ok());
    for (index, hash) in hashes.enumerate() {
        let Some(hash) = hash else { continue };
        let is_alike = |other: &&PasswordHash| {
            let method = |hash: &PasswordHash| (hash.algorithm, hash.version, hash.salt);
            method(other) == method(&hash) && other.params == hash.params
        };
        let output = match computed.iter().find(is_alike) {
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
            first = Some(index);
        }
    }
    if computed.is_empty()
        && let Ok(dummy) = PasswordHash::new(dummy)
    {
        let _ = compute(password, &dummy);
    }
    first
}

/// Hashes a password with the salt and parameters of another hash.
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

/// Refuses a password that is easy to guess, also from the words in `about`, such as
/// the user's name. Only the start is checked: the time grows faster than the square
/// of the length.
pub fn refuse_common(password: &str, about: &[&str]) -> Result<(), Invalid> {
    let end = password.char_indices().nth(CHECKED_CHARS);
    let start = &password[..end.map_or(password.len(), |(end, _)| end)];
    let guesses = zxcvbn::zxcvbn(start, about).guesses();
    if guesses < MIN_GUESSES {
        let message = "is too easily guessed; use several unrelated words, or a password manager";
        return Err(Invalid::one("/password", ViolationCode::TooWeak, message));
    }
    Ok(())
}

fn argon2() -> Argon2<'static> {
    let (memory, passes, lanes) = HASH_COST;
    let params = Params::new(memory, passes, lanes, None).expect("the parameters are constants");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_hash_matches_only_its_password() {
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
        // Several accounts of one address, one with another salt.
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
    async fn requests_beyond_the_limit_are_refused() {
        let passwords = Passwords::new();
        let tickets: Vec<_> = (0..MAX_RUNNING + MAX_WAITING)
            .map(|_| passwords.enter())
            .collect();
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
        // The longest password, of the characters that take longest.
        let long = "4@8({[<369!1|0$5+7%2".repeat(13);
        let begun = std::time::Instant::now();
        let _ = refuse_common(&long[..256], &[]);
        assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    }
}
