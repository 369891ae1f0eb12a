//! The environment of a change, from the sender's own words.

use changelog_core::Environment;

use crate::settings::Settings;

/// The words that stand for an environment, in names that are split at everything that is
/// neither a letter nor a digit.
const WORDS: [(Environment, &[&str]); 4] = [
    (Environment::Prod, &["production", "prod", "prd", "live"]),
    (
        Environment::Staging,
        &[
            "staging",
            "stage",
            "stg",
            "preprod",
            "preproduction",
            "uat",
            "acceptance",
            "canary",
        ],
    ),
    (
        Environment::Dev,
        &[
            "development",
            "dev",
            "develop",
            "preview",
            "review",
            "sandbox",
            "local",
        ],
    ),
    (
        Environment::Test,
        &["test", "testing", "tst", "qa", "ci", "integration"],
    ),
];

/// Returns the environment of the first place that tells one: by the rules of the source,
/// then by the words in its name; else the default of the source.
pub fn environment_of(places: &[String], settings: &Settings) -> Option<Environment> {
    let by_rule = |place: &String| {
        let rules = settings.environments.iter();
        let mut matching = rules.filter(|(name, _)| name.eq_ignore_ascii_case(place));
        matching.next().map(|(_, environment)| environment.clone())
    };
    let rule = places.iter().find_map(by_rule);
    let word = || places.iter().find_map(|place| environment_in(place));
    rule.or_else(word).or_else(|| settings.environment.clone())
}

/// Returns the environment that a name tells: `payments-prod-eu`, `PaymentsProdStack` and
/// `prod2` are in production. In `pre-prod` and `non-prod` the word before decides.
fn environment_in(name: &str) -> Option<Environment> {
    let parts = words(name);
    let of_word = |part: &str| {
        let part = part.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let found = WORDS.iter().find(|(_, words)| words.contains(&part));
        found.map(|(environment, _)| environment.clone())
    };
    for (index, part) in parts.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| parts.get(before));
        match (before.map(String::as_str), of_word(part)) {
            (Some("pre"), Some(Environment::Prod)) => return Some(Environment::Staging),
            (Some("non" | "no" | "not"), Some(Environment::Prod)) | (_, None) => {}
            (_, Some(environment)) => return Some(environment),
        }
    }
    None
}

/// Returns the words of a name in lower case: those between what is neither a letter nor a
/// digit, and those that begin with a capital after a small letter.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for letter in name.chars() {
        if !letter.is_alphanumeric() || was_small && letter.is_uppercase() {
            words.push(String::new());
        }
        if letter.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
        was_small = letter.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_environments() {
        for (name, expected) in [
            ("Production", Some(Environment::Prod)),
            ("prd", Some(Environment::Prod)),
            ("payments-prod-eu", Some(Environment::Prod)),
            (
                "arn:aws:eks:eu-west-1:1:cluster/live",
                Some(Environment::Prod),
            ),
            ("pre-prod", Some(Environment::Staging)),
            ("preprod", Some(Environment::Staging)),
            ("testEnv", Some(Environment::Test)),
            ("PaymentsProdStack", Some(Environment::Prod)),
            ("prod2-eu", Some(Environment::Prod)),
            ("PRE-PROD", Some(Environment::Staging)),
            ("nonProd", None),
            ("nonprod", None),
            ("non-prod", None),
            ("review/my-branch", Some(Environment::Dev)),
            ("qa2_test", Some(Environment::Test)),
            ("product-catalog", None),
            ("", None),
        ] {
            assert_eq!(environment_in(name), expected, "{name}");
        }
    }

    #[test]
    fn rules_come_before_words() {
        let settings = Settings {
            environment: Some(Environment::Dev),
            environments: [("Main".to_owned(), Environment::Prod)].into(),
            ..Settings::default()
        };
        let of = |places: &[&str]| {
            let places: Vec<String> = places.iter().map(ToString::to_string).collect();
            environment_of(&places, &settings)
        };
        assert_eq!(of(&["staging", "main"]), Some(Environment::Prod));
        assert_eq!(of(&["eu", "staging"]), Some(Environment::Staging));
        assert_eq!(of(&["eu"]), Some(Environment::Dev));
    }
}
