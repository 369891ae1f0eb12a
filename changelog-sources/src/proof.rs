//! Proofs that a request comes from the sender: signatures over the bytes, or a secret in a
//! header. The secret is what an admin has entered at the sender and in the source.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use changelog_core::Timestamp;
use ring::hmac;

use crate::received::Received;

/// How far the time in a signature may be from now, against requests that are sent again by
/// somebody else.
const MAX_AGE_MILLIS: i64 = 5 * 60 * 1_000;

/// Why the origin of a request is not proven, for the admin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unproven(pub String);

/// A way in which senders prove the origin of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Proof {
    /// An HMAC of the body as hexadecimal digits behind a prefix; several, separated by
    /// commas, are accepted.
    Hmac {
        header: &'static str,
        prefix: &'static str,
        hash: Hash,
    },
    /// An HMAC with SHA-256 as hexadecimal digits: of the body, or of the seconds since 1970
    /// in another header, a colon and the body.
    TimedHmac {
        header: &'static str,
        time: &'static str,
    },
    /// The secret itself, alone or behind `Bearer `.
    Secret { header: &'static str },
    /// Standard Webhooks: <https://www.standardwebhooks.com>.
    StandardWebhooks,
    /// Slack, version 0: an HMAC with SHA-256 of the version, the seconds since 1970 in
    /// `X-Slack-Request-Timestamp` and the body.
    Slack,
}

/// A hash function of an HMAC.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hash {
    Sha256,
    Sha512,
}

/// Why a header does not prove the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Misfit {
    /// It was not made with the secret.
    Secret,
    /// It was made with the secret, but at another time.
    Time,
}

impl Proof {
    /// Returns the header that has the proof.
    fn header(self) -> &'static str {
        match self {
            Self::Hmac { header, .. }
            | Self::TimedHmac { header, .. }
            | Self::Secret { header } => header,
            Self::StandardWebhooks => "webhook-signature",
            Self::Slack => "x-slack-signature",
        }
    }

    /// Requires that a value of the header proves the origin.
    fn check(self, value: &str, secret: &str, received: &Received<'_>) -> Result<(), Misfit> {
        if !self.fits(value, secret, received) {
            return Err(Misfit::Secret);
        }
        let time = self
            .time_header()
            .and_then(|name| received.headers.get(name));
        if time.is_some_and(|time| !is_recent(time, received.at)) {
            return Err(Misfit::Time);
        }
        Ok(())
    }

    /// Returns the header with the seconds since 1970 that are signed, too.
    fn time_header(self) -> Option<&'static str> {
        match self {
            Self::Hmac { .. } | Self::Secret { .. } => None,
            Self::TimedHmac { time, .. } => Some(time),
            Self::StandardWebhooks => Some("webhook-timestamp"),
            Self::Slack => Some("x-slack-request-timestamp"),
        }
    }

    /// Returns whether a value of the header was made with the secret, at whatever time.
    fn fits(self, value: &str, secret: &str, received: &Received<'_>) -> bool {
        let time = self
            .time_header()
            .and_then(|name| received.headers.get(name));
        match self {
            Self::Hmac { prefix, hash, .. } => {
                let signatures = value.split(',').map(str::trim);
                let mut digits = signatures.filter_map(|one| one.strip_prefix(prefix));
                digits.any(|digits| is_hmac(hash, secret.as_bytes(), received.body, digits))
            }
            Self::TimedHmac { .. } => {
                let mut signed = Vec::new();
                if let Some(time) = time {
                    signed.extend_from_slice(format!("{time}:").as_bytes());
                }
                signed.extend_from_slice(received.body);
                is_hmac(Hash::Sha256, secret.as_bytes(), &signed, value.trim())
            }
            Self::Secret { .. } => {
                let value = value.strip_prefix("Bearer ").unwrap_or(value);
                is_equal(value.as_bytes(), secret.as_bytes())
            }
            Self::Slack => time.is_some_and(|time| is_of_slack(value, time, secret, received)),
            Self::StandardWebhooks => {
                time.is_some_and(|time| is_standard_webhook(value, time, secret, received))
            }
        }
    }
}

/// Requires that one of the proofs holds.
pub(crate) fn require(
    proofs: &[Proof],
    secret: &str,
    received: &Received<'_>,
) -> Result<(), Unproven> {
    let mut misfit = None;
    for proof in proofs {
        if let Some(value) = received.headers.get(proof.header()) {
            match proof.check(value, secret, received) {
                Ok(()) => return Ok(()),
                Err(Misfit::Secret) if misfit.is_some() => {}
                Err(why) => misfit = Some(why),
            }
        }
    }
    let header = proofs.first().map_or("the header", |proof| proof.header());
    Err(Unproven(match misfit {
        Some(Misfit::Time) => "the request was signed more than five minutes ago, or with a time \
             more than five minutes ahead: compare the clocks of the sender and of this service"
            .to_owned(),
        Some(Misfit::Secret) => format!(
            "the {header} header does not fit the secret of the source: enter the same secret on both sides"
        ),
        None => format!(
            "the {header} header is missing: enter the secret of the source at the sender, too"
        ),
    }))
}

fn is_hmac(hash: Hash, secret: &[u8], signed: &[u8], digits: &str) -> bool {
    let algorithm = match hash {
        Hash::Sha256 => hmac::HMAC_SHA256,
        Hash::Sha512 => hmac::HMAC_SHA512,
    };
    let Ok(tag) = hex::decode(digits) else {
        return false;
    };
    hmac::verify(&hmac::Key::new(algorithm, secret), signed, &tag).is_ok()
}

/// Compares in a time that does not depend on where they differ.
fn is_equal(left: &[u8], right: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"equal");
    hmac::verify(&key, left, hmac::sign(&key, right).as_ref()).is_ok()
}

fn is_recent(seconds: &str, now: Timestamp) -> bool {
    let sent = seconds
        .parse::<i64>()
        .ok()
        .and_then(|at| at.checked_mul(1_000));
    sent.is_some_and(|sent| (now.millis() - sent).abs() <= MAX_AGE_MILLIS)
}

fn is_of_slack(value: &str, time: &str, secret: &str, received: &Received<'_>) -> bool {
    let Some(digits) = value.trim().strip_prefix("v0=") else {
        return false;
    };
    let mut signed = format!("v0:{time}:").into_bytes();
    signed.extend_from_slice(received.body);
    is_hmac(Hash::Sha256, secret.as_bytes(), &signed, digits)
}

fn is_standard_webhook(value: &str, time: &str, secret: &str, received: &Received<'_>) -> bool {
    let Some(id) = received.headers.get("webhook-id") else {
        return false;
    };
    let key = secret
        .strip_prefix("whsec_")
        .and_then(|key| BASE64_STANDARD.decode(key).ok());
    let key = key.unwrap_or_else(|| secret.as_bytes().to_vec());
    let mut signed = format!("{id}.{time}.").into_bytes();
    signed.extend_from_slice(received.body);
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    value
        .split([' ', ','])
        .filter_map(|signature| BASE64_STANDARD.decode(signature).ok())
        .any(|tag| hmac::verify(&key, &signed, &tag).is_ok())
}
