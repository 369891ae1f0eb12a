//! Who did it: a person, or an automation that has an account as well.

use crate::observation::Facts;

/// Returns facts of which is known only who did it, by the name of an account.
pub(super) fn by(name: Option<String>) -> Facts {
    if name.as_deref().is_some_and(is_bot) {
        return by_agent(name);
    }
    Facts {
        person: name,
        ..Facts::default()
    }
}

/// Returns facts of which is known only that an automation did it.
pub(super) fn by_agent(name: Option<String>) -> Facts {
    Facts {
        agent: name,
        ..Facts::default()
    }
}

/// Returns whether an account is not that of a person: `dependabot[bot]`,
/// `project_7_bot_1f`.
fn is_bot(name: &str) -> bool {
    name.split(|letter: char| !letter.is_alphanumeric())
        .any(|word| word.eq_ignore_ascii_case("bot"))
}
