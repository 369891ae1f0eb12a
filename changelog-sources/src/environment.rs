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

/// Returns the environment that a name tells: `payments-prod-eu` is in production. In
/// `pre-prod` and `non-prod` the word before decides.
fn environment_in(name: &str) -> Option<Environment> {
    let name = name.to_lowercase();
    let parts: Vec<&str> = name
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|part| !part.is_empty())
        .collect();
    let of_word = |part: &str| {
        let found = WORDS.iter().find(|(_, words)| words.contains(&part));
        found.map(|(environment, _)| environment.clone())
    };
    for (index, part) in parts.iter().enumerate() {
        match (
            index.checked_sub(1).and_then(|before| parts.get(before)),
            of_word(part),
        ) {
            (Some(&"pre"), Some(Environment::Prod)) => return Some(Environment::Staging),
            (Some(&("non" | "no" | "not")), Some(Environment::Prod)) | (_, None) => {}
            (_, Some(environment)) => return Some(environment),
        }
    }
    None
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
