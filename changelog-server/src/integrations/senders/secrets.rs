//! Hides the secrets of a connection in what its receiver answered.

use changelog_core::text::printable;
use url::Url;

use crate::integrations::http::{MAX_RESPONSE_BYTES, ReceiverResponse};
use crate::integrations::message::MAX_ANSWER_BYTES;
use crate::integrations::target::Target;

/// What a secret is replaced by.
const MASK: &str = "***";
/// The length of the shortest part of a URL that is hidden by itself, in bytes. Tokens
/// are longer, and words of paths are shorter.
const MIN_PART_BYTES: usize = 16;

/// The secrets of a connection.
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    pub(super) fn of(target: &Target) -> Self {
        let mut secrets = vec![target.url.clone()];
        if let Ok(url) = Url::parse(&target.url) {
            // Addresses of Slack and Teams are secrets because of their last parts.
            secrets.push(url.to_string());
            secrets.push(url.path().to_owned());
            secrets.extend(url.path_segments().into_iter().flatten().map(str::to_owned));
            secrets.extend(url.query().map(str::to_owned));
            for (_, value) in url.query_pairs() {
                secrets.push(value.into_owned());
            }
            for part in url
                .query()
                .into_iter()
                .flat_map(|query| query.split(['&', '=']))
            {
                secrets.push(part.to_owned());
            }
            secrets.retain(|secret| secret.len() >= MIN_PART_BYTES);
        }
        let keys = target.signing_secrets.iter().map(|key| &key.secret);
        for key in keys.chain(&target.ed25519_seed).chain(&target.token) {
            secrets.push(key.clone());
            secrets.extend(key.strip_prefix("whsec_").map(str::to_owned));
        }
        // In JSON, a slash may be written as `\/`.
        let escaped: Vec<String> = secrets.iter().map(|one| one.replace('/', "\\/")).collect();
        secrets.extend(escaped);
        secrets.retain(|secret| !secret.is_empty());
        // A secret that is part of another one would leave the rest of it.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self(secrets)
    }

    /// Returns the beginning of an answer as text, at most [`MAX_ANSWER_BYTES`], without
    /// secrets.
    pub(super) fn mask(&self, response: &ReceiverResponse) -> String {
        let mut bytes = response.body.as_slice();
        if response.is_cut {
            // The part that was read may end in the middle of a secret.
            let longest = self.0.first().map_or(0, String::len);
            bytes = &bytes[..MAX_RESPONSE_BYTES.min(bytes.len()).saturating_sub(longest)];
        }
        let mut text = String::from_utf8_lossy(bytes).into_owned();
        for secret in &self.0 {
            if text.contains(secret) {
                text = text.replace(secret, MASK);
            }
        }
        let text = printable(text.trim());
        text[..text.floor_char_boundary(MAX_ANSWER_BYTES)].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, StatusCode};

    use super::*;
    use crate::integrations::target::SigningSecret;

    fn response(body: &[u8]) -> ReceiverResponse {
        ReceiverResponse {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: body[..body.len().min(MAX_RESPONSE_BYTES)].to_vec(),
            is_cut: body.len() > MAX_RESPONSE_BYTES,
        }
    }

    fn target() -> Target {
        Target {
            url: "https://hooks.slack.com/services/T0001/B0002/abcdefghijklmnop?sig=s%2Bigsigsigsigsigsig"
                .to_owned(),
            token: Some("xoxb-token".to_owned()),
            signing_secrets: vec![SigningSecret {
                secret: "whsec_c2VjcmV0".to_owned(),
                valid_until: None,
            }],
            ..Target::default()
        }
    }

    #[test]
    fn echoed_secrets_are_masked() {
        let secrets = Secrets::of(&target());
        for (echo, masked) in [
            ("ok", "ok"),
            ("got xoxb-token", "got ***"),
            (
                "https://hooks.slack.com/services/T0001/B0002/abcdefghijklmnop?sig=s%2Bigsigsigsigsigsig!",
                "***!",
            ),
            ("no /services/T0001/B0002/abcdefghijklmnop", "no ***"),
            (r"\/services\/T0001\/B0002\/abcdefghijklmnop", "***"),
            (
                "token abcdefghijklmnop of s+igsigsigsigsigsig",
                "token *** of ***",
            ),
            ("whsec_c2VjcmV0 c2VjcmV0", "*** ***"),
            ("nul \0", "nul <U+0000>"),
        ] {
            assert_eq!(secrets.mask(&response(echo.as_bytes())), masked, "{echo}");
        }
    }

    #[test]
    fn an_answer_is_cut_without_a_part_of_a_secret() {
        let secrets = Secrets::of(&target());
        for offset in 0..20 {
            let echo = format!("{}{}", " ".repeat(offset), "xoxb-token".repeat(3_000));
            let masked = secrets.mask(&response(echo.as_bytes()));
            assert!(masked.len() <= MAX_ANSWER_BYTES);
            assert!(!masked.contains('x'), "{masked}");
        }
        let long = "é".repeat(20_000);
        assert!(secrets.mask(&response(long.as_bytes())).len() <= MAX_ANSWER_BYTES);
    }
}
