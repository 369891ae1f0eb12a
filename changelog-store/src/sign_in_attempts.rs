//! Failed sign-ins, the buckets that they are counted in, and known browsers.
//!
//! An attempt is counted before the password is checked, so that concurrent attempts
//! cannot exceed the limit, and is subtracted again when it succeeds. A bucket is
//! kept as a hash: rows have one size and contain no personal data.

use std::net::{IpAddr, Ipv6Addr};

use changelog_core::user::fold_email;
use changelog_core::{Timestamp, UserId};
use chrono::TimeDelta;
use sha2::{Digest, Sha256};
use sqlx::types::Uuid;

use super::engine::{execute, on, read};
use super::sessions::{MAX_CLOCK_SKEW, hash};
use super::{Database, StoreError, Tx};

/// Failed sign-ins are deleted after this time without another.
pub(super) const FAILURES_TTL: TimeDelta = TimeDelta::days(1);
/// A known browser is deleted after this time without a sign-in.
pub(super) const BROWSER_TTL: TimeDelta = TimeDelta::days(180);
/// The limit on known browsers of one account; those used last are kept.
const MAX_KNOWN_BROWSERS: i64 = 20;
/// The failures of one client, browser or person that cause no wait.
const FREE_FAILURES: i64 = 5;
/// The failures for one address in one day, from all unknown browsers, that cause no
/// wait. One client can make at most 111 attempts a day (5 without a wait, 10 until
/// the longest wait, then 4 an hour), so a single client cannot block others.
const FREE_FAILURES_OF_ADDRESS: i64 = 128;
/// The longest wait between two attempts, in seconds.
const MAX_WAIT_SECONDS: i64 = 15 * 60;

/// The bits of an IPv6 address that name its network: one host commonly has all
/// 2^64 addresses of a /64 network.
const IPV6_NETWORK: u128 = !0 << 64;

/// Inserts the row if it is missing, and locks it on PostgreSQL between reading and
/// counting.
const LOCK: &str = "
INSERT INTO sign_in_failures (bucket, failures, last_failed_at) VALUES ($1, 0, 0)
ON CONFLICT (bucket) DO UPDATE SET failures = sign_in_failures.failures
RETURNING failures, last_failed_at";

const COUNT: &str = "
UPDATE sign_in_failures SET failures = failures + 1, last_failed_at = $2 WHERE bucket = $1";

const SUBTRACT: &str = "
UPDATE sign_in_failures SET failures = failures - 1 WHERE bucket = $1 AND failures > 0";

const RESET: &str = "DELETE FROM sign_in_failures WHERE bucket = $1";

pub(super) const PURGE_FAILURES: &str = "
DELETE FROM sign_in_failures WHERE bucket IN
    (SELECT bucket FROM sign_in_failures WHERE last_failed_at < $1
     ORDER BY last_failed_at LIMIT 1000)";

const SELECT_ACCOUNTS: &str = "
SELECT user_id FROM known_browsers WHERE token_hash = $1 AND used_at > $2";

/// A browser gets a new token at each sign-in, which replaces the old one.
const REPLACE_TOKEN: &str = "UPDATE known_browsers SET token_hash = $2 WHERE token_hash = $1";

const REMEMBER: &str = "
INSERT INTO known_browsers (user_id, token_hash, used_at) VALUES ($1, $2, $3)
ON CONFLICT (user_id, token_hash) DO UPDATE SET used_at = excluded.used_at";

const FORGET_OLDEST: &str = "
DELETE FROM known_browsers WHERE user_id = $1 AND token_hash NOT IN
    (SELECT token_hash FROM known_browsers WHERE user_id = $1
     ORDER BY used_at DESC, token_hash LIMIT $2)";

const FORGET: &str = "DELETE FROM known_browsers WHERE user_id = $1";

pub(super) const PURGE_BROWSERS: &str = "
DELETE FROM known_browsers WHERE (user_id, token_hash) IN
    (SELECT user_id, token_hash FROM known_browsers WHERE used_at < $1
     ORDER BY used_at LIMIT 1000)";

/// Returns the client that limits by address count: an IPv4 address itself, also
/// when it is mapped into IPv6; for an IPv6 address the first address of its /64
/// network.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & IPV6_NETWORK).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// A counter of failed sign-ins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    key: [u8; 32],
    /// How many failures cause no wait.
    free: i64,
    /// Whether several people share it; a success then subtracts only its own attempt.
    is_shared: bool,
}

impl Bucket {
    fn new(kind: &str, of: &[&[u8]]) -> Self {
        let mut key = Sha256::new();
        for part in [kind.as_bytes()].iter().chain(of) {
            // The length makes different lists of parts differ.
            key.update(part.len().to_le_bytes());
            key.update(part);
        }
        Self {
            key: key.finalize().into(),
            free: FREE_FAILURES,
            is_shared: false,
        }
    }

    /// Returns the bucket of one client (see [`network_of`]) and one email address.
    pub fn of_client(email: &str, client: IpAddr) -> Self {
        let client = network_of(client).to_string();
        Self::new("client", &[fold_email(email).as_bytes(), client.as_bytes()])
    }

    /// Returns the bucket of all unknown browsers for one email address on one day,
    /// in UTC. A success subtracts only its own attempt: the owner of one account of
    /// the address must not get more guesses at another account.
    pub fn of_address(email: &str, now: Timestamp) -> Self {
        let day = now.millis().div_euclid(24 * 60 * 60 * 1_000);
        let of = [fold_email(email).into_bytes(), day.to_le_bytes().to_vec()];
        Self {
            free: FREE_FAILURES_OF_ADDRESS,
            is_shared: true,
            ..Self::new("address", &[&of[0], &of[1]])
        }
    }

    /// Returns the bucket as that of an address which several accounts have: a success subtracts
    /// only its own attempt, so that the owner of one account does not get more guesses at
    /// another one.
    #[must_use]
    pub fn of_several_accounts(self) -> Self {
        Self {
            is_shared: true,
            ..self
        }
    }

    /// Returns the bucket of a known browser and one email address.
    pub fn of_browser(token: &str, email: &str) -> Self {
        Self::new("browser", &[token.as_bytes(), fold_email(email).as_bytes()])
    }

    /// Returns the bucket of a signed-in person who enters their password again.
    pub fn of_person(user: UserId) -> Self {
        Self::new("person", &[user.0.as_bytes()])
    }

    /// Returns until when attempts are refused; `None` for the first failures. The
    /// wait doubles from 1 second to 15 minutes.
    fn blocked_until(&self, failures: i64, last_failed_at: i64) -> Option<Timestamp> {
        if failures < self.free {
            return None;
        }
        let doublings = u32::try_from(failures - self.free).unwrap_or(u32::MAX);
        let wait = 1_i64
            .checked_shl(doublings)
            .filter(|wait| *wait > 0)
            .unwrap_or(MAX_WAIT_SECONDS);
        let wait = TimeDelta::seconds(wait.min(MAX_WAIT_SECONDS));
        Some(Timestamp::from_millis(last_failed_at).plus(wait))
    }
}

impl Database {
    /// Returns the accounts that a browser has signed in to.
    pub async fn accounts_of_browser(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Result<Vec<UserId>, StoreError> {
        let rows: Vec<(Uuid,)> = read!(self.system().await?, |db| sqlx::query_as(SELECT_ACCOUNTS)
            .bind(hash(token))
            .bind(now.plus(-BROWSER_TTL).millis())
            .fetch_all(&mut **db))?;
        Ok(rows.into_iter().map(|(id,)| id.into()).collect())
    }
}

impl Tx {
    /// Counts an attempt in all buckets. If one of them is blocked, counts it in none
    /// and returns until when. Callers give buckets in the same order, which avoids
    /// deadlocks.
    pub async fn count_attempt(
        &mut self,
        buckets: &[Bucket],
        now: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        let mut wait = None;
        for bucket in buckets {
            let (failures, last_failed_at): (i64, i64) = on!(&mut self.connection, |db| {
                sqlx::query_as(LOCK)
                    .bind(&bucket.key[..])
                    .fetch_one(&mut **db)
            })?;
            // A failure in the future was recorded while a clock was wrong; counting
            // this attempt corrects the time.
            let is_plausible = last_failed_at <= now.plus(MAX_CLOCK_SKEW).millis();
            let until = bucket.blocked_until(failures, last_failed_at);
            wait = wait.max(until.filter(|until| is_plausible && *until > now));
        }
        if wait.is_none() {
            for bucket in buckets {
                execute!(
                    self,
                    sqlx::query(COUNT).bind(&bucket.key[..]).bind(now.millis())
                )?;
            }
        }
        Ok(wait)
    }

    /// Subtracts a successful attempt from shared buckets and resets the others.
    pub async fn record_success(&mut self, buckets: &[Bucket]) -> Result<(), StoreError> {
        for bucket in buckets {
            let statement = if bucket.is_shared { SUBTRACT } else { RESET };
            execute!(self, sqlx::query(statement).bind(&bucket.key[..]))?;
        }
        Ok(())
    }

    /// Records that a browser has signed in to an account. Its new token replaces the
    /// old one, which becomes invalid.
    pub async fn remember_browser(
        &mut self,
        old: Option<&str>,
        new: &str,
        user: UserId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        if let Some(old) = old {
            execute!(
                self,
                sqlx::query(REPLACE_TOKEN).bind(hash(old)).bind(hash(new))
            )?;
        }
        execute!(
            self,
            sqlx::query(REMEMBER)
                .bind(user.0)
                .bind(hash(new))
                .bind(now.millis())
        )?;
        execute!(
            self,
            sqlx::query(FORGET_OLDEST)
                .bind(user.0)
                .bind(MAX_KNOWN_BROWSERS)
        )?;
        Ok(())
    }

    /// Deletes the known browsers of an account.
    pub(super) async fn forget_browsers(&mut self, user: UserId) -> Result<(), StoreError> {
        execute!(self, sqlx::query(FORGET).bind(user.0))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_end() {
        let client = Bucket::of_client("a@b.c", [192, 0, 2, 1].into());
        let seconds = |failures| {
            let until = client.blocked_until(failures, 0)?;
            Some(until.millis() / 1_000)
        };
        for (failures, expected) in [
            (0, None),
            (4, None),
            (5, Some(1)),
            (6, Some(2)),
            (14, Some(512)),
            (15, Some(900)),
            (1_000_000, Some(900)),
            (i64::MAX, Some(900)),
        ] {
            assert_eq!(seconds(failures), expected, "{failures}");
        }
    }

    #[test]
    fn buckets_differ() {
        let now = Timestamp::EPOCH;
        let client = |text: &str| Bucket::of_client("a@b.c", text.parse().unwrap());
        assert_eq!(
            client("2001:db8::1"),
            Bucket::of_client(" A@B.C ", "2001:db8::2".parse().unwrap())
        );
        let tomorrow = now.plus(TimeDelta::days(1));
        let all = [
            client("2001:db8::1"),
            client("2001:db8:1::1"),
            client("192.0.2.1"),
            Bucket::of_address("a@b.c", now),
            Bucket::of_address("a@b.c", tomorrow),
            Bucket::of_browser("a@b.c", ""),
            Bucket::of_browser("", "a@b.c"),
            Bucket::of_person(UserId(Uuid::nil())),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(!all[..index].iter().any(|other| other.key == one.key));
        }
    }
}
