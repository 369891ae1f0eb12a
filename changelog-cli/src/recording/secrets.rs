//! Command lines with probable secrets masked. In doubt, a value is masked.

use std::borrow::Cow;
use std::ffi::OsString;

const MASK: &str = "***";
/// Parts of names whose values are secret.
const SECRET_NAME_PARTS: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "api-key",
    "api_key",
    "credential",
    "private",
    "authorization",
    "cookie",
];
/// The prefixes of well-known tokens.
const TOKEN_PREFIXES: [&str; 16] = [
    "chlog_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "ASIA",
    "sk-",
    "sk_",
    "eyJ",
    "hvs.",
];
/// The length, in bytes, from which a mix of letters and digits is probably a
/// secret.
const MIN_RANDOM_LENGTH: usize = 32;
/// The length, in bytes, from which a word with a prefix of
/// [`TOKEN_PREFIXES`] is a token.
const MIN_TOKEN_LENGTH: usize = 12;

/// Returns a command line, quoted for a shell, with its secrets masked.
pub(crate) fn mask_command(command: &[OsString]) -> String {
    let mut words = Vec::with_capacity(command.len());
    let mut is_value = false;
    for word in command {
        let word = word.to_string_lossy();
        let shown = if is_value && !word.starts_with('-') {
            MASK.to_owned()
        } else {
            mask(&word)
        };
        is_value = word.starts_with('-') && !word.contains('=') && is_secret_name(&word)
            || word.trim_end().ends_with(':') && is_secret_name(&word)
            || matches!(&*word, "-p" | "-u" | "--user");
        words.push(quote(&shown));
    }
    words.join(" ")
}

/// Masks the secrets in a word: the value of `NAME=value` and of `Name: value`,
/// the password of a URL, a token.
fn mask(word: &str) -> String {
    for separator in ['=', ':'] {
        if let Some((name, value)) = word.split_once(separator)
            && !value.starts_with("//")
            && is_secret_name(name)
        {
            let space = if value.starts_with(' ') { " " } else { "" };
            return format!("{name}{separator}{space}{MASK}");
        }
    }
    if let Some((scheme, rest)) = word.split_once("://")
        && let Some((_, address)) = rest.split_once('@')
    {
        return format!("{scheme}://{MASK}@{address}");
    }
    let (name, value) = word.split_once('=').unwrap_or(("", word));
    let is_token = value
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '"' | '\''))
        .any(looks_secret);
    match (is_token, name) {
        (false, _) => word.to_owned(),
        (true, "") => MASK.to_owned(),
        (true, name) => format!("{name}={MASK}"),
    }
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_lowercase();
    let has = |part: &str| name.contains(part);
    SECRET_NAME_PARTS.iter().any(|known| has(known))
        || name
            .split(|c: char| !c.is_alphanumeric())
            .any(|word| matches!(word, "key" | "auth" | "pass" | "pwd" | "pw" | "bearer"))
}

fn looks_secret(text: &str) -> bool {
    let has_prefix = TOKEN_PREFIXES.iter().any(|prefix| text.starts_with(prefix));
    if has_prefix && text.len() >= MIN_TOKEN_LENGTH {
        return true;
    }
    let is_one_word = text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '_' | '-' | '='));
    let has = |what: fn(&char) -> bool| text.chars().any(|c| what(&c));
    // A commit and a digest have no capital letters.
    text.len() >= MIN_RANDOM_LENGTH
        && is_one_word
        && has(char::is_ascii_digit)
        && has(char::is_ascii_uppercase)
        && has(char::is_ascii_lowercase)
}

/// Quotes a word for a shell. A mask, whose `*` a shell would expand, stays
/// readable.
fn quote(word: &str) -> String {
    if word.contains(MASK) && !word.contains(char::is_whitespace) {
        return word.to_owned();
    }
    shlex::try_quote(word).map_or_else(|_| word.replace('\0', " "), Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(words: &[&str]) -> String {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        mask_command(&words)
    }

    #[test]
    fn secrets_are_masked() {
        for words in [
            &["deploy", "--password", "hunter2"][..],
            &["deploy", "--db-password=hunter2"],
            &["env", "API_TOKEN=hunter2", "deploy"],
            &["curl", "-H", "Authorization: Bearer hunter2"],
            &["curl", "-H", "X-Api-Key:hunter2"],
            &["curl", "-u", "me:hunter2"],
            &["git", "push", "https://me:hunter2@example.com/x.git"],
            &["mysql", "-p", "hunter2"],
            &["deploy", "--auth-token", "hunter2"],
            &["deploy", "AWS_SECRET_ACCESS_KEY=hunter2"],
        ] {
            let text = shown(words);
            assert!(!text.contains("hunter2") && text.contains(MASK), "{text}");
        }
        for token in [
            "chlog_0123456789abcdefghijABCDEFGHIJ0123456789",
            "ghp_0123456789abcdefghijABCDEFGHIJ012345",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
            "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY",
        ] {
            assert_eq!(
                shown(&["deploy", token]),
                format!("deploy '{MASK}'").replace('\'', "")
            );
            let named = format!("--with={token}");
            assert!(!shown(&[&named]).contains(token), "{named}");
        }
    }

    #[test]
    fn harmless_words_are_not_masked() {
        for words in [
            &["make", "-j4", "deploy"][..],
            &["kubectl", "apply", "-f", "k8s/api.yaml", "--namespace=prod"],
            &["deploy", "2ac4b7ef8a1c6d3e5f7a9b0c1d2e3f4a5b6c7d8e"],
            &["curl", "https://example.com/a?b=c"],
        ] {
            let text = shown(words);
            assert!(!text.contains(MASK), "{text}");
        }
        assert_eq!(shown(&["echo", "it's me", ""]), "echo \"it's me\" ''");
    }
}
