//! Hides the secrets of a connection in what its receiver answered.

use changelog_core::text::printable;
use url::Url;

use crate::integrations::http::{MAX_RESPONSE_BYTES, ReceiverResponse};
use crate::integrations::message::MAX_ANSWER_BYTES;
use crate::integrations::target::Target;

/// What a secret is replaced by.
const MASK: &str = "***";
/// The lengths of the shortest segment of a path and the shortest value of a query that are
/// hidden by themselves, in bytes. A segment may also be a word of the answer, which is no
/// harm.
const MIN_SEGMENT_BYTES: usize = 8;
const MIN_VALUE_BYTES: usize = 4;

/// The secrets of a connection.
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    pub(super) fn of(target: &Target) -> Self {
        let mut secrets = vec![target.url.clone()];
        if let Ok(url) = Url::parse(&target.url) {
            // Addresses of Slack and Teams are secrets because of their last parts.
            secrets.push(url.to_string());
            secrets.push(url.path().to_owned());
            let segments = url.path_segments().into_iter().flatten();
            let segments = segments.filter(|segment| segment.len() >= MIN_SEGMENT_BYTES);
            secrets.extend(segments.map(str::to_owned));
            let query = url.query().unwrap_or_default();
            // As they were given, and decoded.
            let given = query.split('&').filter_map(|pair| pair.split_once('='));
            let mut values: Vec<String> = given.map(|(_, value)| value.to_owned()).collect();
            values.extend(url.query_pairs().map(|(_, value)| value.into_owned()));
            values.push(query.to_owned());
            values.retain(|value| value.len() >= MIN_VALUE_BYTES);
            secrets.extend(values);
            secrets.retain(|secret| secret != "/");
        }
        let keys = target.signing_secrets.iter().map(|key| &key.secret);
        let tokens = target.token.iter().chain(&target.api_token);
        for key in keys.chain(&target.ed25519_seed).chain(tokens) {
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
    fn short_parts_of_an_address_are_masked() {
        let url = "https://hooks.example.com/in/hunter2h?code=s3cr&v=1".to_owned();
        let secrets = Secrets::of(&Target {
            url,
            ..Target::default()
        });
        let echo = "/in/hunter2h?code=s3cr, hunter2h s3cr v 1";
        let masked = secrets.mask(&response(echo.as_bytes()));
        assert_eq!(masked, "***?code=***, *** *** v 1");
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
