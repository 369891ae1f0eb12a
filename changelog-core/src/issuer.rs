//! Issuers of tokens: identity providers by their URL.

use url::Url;

use crate::limits::MAX_ISSUER_CHARS;
use crate::problem::{ViolationCode, Violations};
use crate::rules::{self, TextKind};

/// Checks the URL of an issuer. It is kept exactly as it is written, because tokens must name it
/// in the same way: with or without a slash at its end.
pub fn check_issuer(problems: &mut Violations, pointer: &str, issuer: &mut String) {
    rules::text(
        problems,
        pointer,
        issuer,
        1..=MAX_ISSUER_CHARS,
        TextKind::Key,
    );
    let mut invalid = |message: &str| {
        problems.add(pointer, ViolationCode::InvalidFormat, message);
    };
    // The parser would leave out spaces.
    let url = Url::parse(issuer)
        .ok()
        .filter(|_| !issuer.contains(char::is_whitespace));
    // Which networks are reached by plain http is checked when the provider is asked.
    let url = url.filter(|url| matches!(url.scheme(), "https" | "http") && url.has_host());
    let Some(url) = url else {
        return invalid(
            "must be an https URL, such as https://token.actions.githubusercontent.com",
        );
    };
    if !url.username().is_empty() || url.password().is_some() {
        invalid("must be a URL without a user name and password");
    } else if url.query().is_some() || url.fragment().is_some() {
        invalid("must be a URL without ? and #");
    } else if url.path().ends_with("/.well-known/openid-configuration") {
        invalid("must be the issuer, not its discovery document: leave out /.well-known/…");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_is_a_url_that_stays_as_it_is() {
        for (given, refusal) in [
            ("https://gitlab.com", None),
            ("https://login.example.com/realms/acme/", None),
            ("http://127.0.0.1:4000", None),
            ("", Some("1 to 512")),
            ("gitlab.com", Some("https URL")),
            ("ftp://gitlab.com", Some("https URL")),
            ("https://a b.example", Some("https URL")),
            ("https://me:pw@example.com", Some("user name")),
            ("https://example.com?x=1", Some("without ?")),
            ("https://example.com#x", Some("without ?")),
            (
                "https://example.com/.well-known/openid-configuration",
                Some("leave out"),
            ),
        ] {
            let mut problems = Violations::default();
            let mut issuer = given.to_owned();
            check_issuer(&mut problems, "/issuer", &mut issuer);
            assert_eq!(issuer, given);
            let found = problems.into_result(()).err();
            let message = found.map(|invalid| invalid.violations[0].message.clone());
            match (message, refusal) {
                (None, None) => {}
                (Some(message), Some(part)) => assert!(message.contains(part), "{message}"),
                (message, _) => panic!("{given}: {message:?}"),
            }
        }
    }
}
