//! What an update changed, on one line for people.

use changelog_core::activity::value_text;
use changelog_core::change::fields::long_texts;
use changelog_core::{Difference, Differences};

use crate::base::text::{one_line, shorten};

/// The largest length of a value, in characters.
const MAX_VALUE_CHARS: usize = 40;

/// Formats what an update changed, such as `status planned → in_progress`, without the
/// values of long texts.
pub(crate) fn summary(changes: &Differences) -> String {
    let all: Vec<String> = changes
        .iter()
        // All services begin with this one.
        .filter(|(name, _)| *name != "service" || !changes.contains_key("services"))
        .map(|(name, Difference { from, to })| {
            let label = name.strip_suffix("_ref").unwrap_or(name);
            let label = one_line(&label.replace('_', " "));
            if long_texts().any(|(text, _)| text == name) {
                return format!("{label} changed");
            }
            let value = |value| shorten(&value_text(value, &one_line), MAX_VALUE_CHARS);
            format!("{label} {} → {}", value(from), value(to))
        })
        .collect();
    all.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_short_and_safe_for_a_terminal() {
        let changes = json!({
            "status": { "from": "planned", "to": "in_progress" },
            "description": { "from": null, "to": "long" },
            "host_ref": { "from": null, "to": { "id": "1", "hostname": "web-1" } },
            "service": { "from": null, "to": { "name": "payments" } },
            "services": { "from": [], "to": [{ "name": "payments" }, { "name": "search" }] },
            "tags": { "from": ["a", "b"], "to": [] },
            "title": { "from": "a\u{1b}[31m", "to": "x".repeat(50) },
        });
        let changes = serde_json::from_value(changes).unwrap();
        assert_eq!(
            summary(&changes),
            format!(
                "description changed; host nothing → web-1; services nothing → payments, search; \
                 status planned → in_progress; tags a, b → nothing; title a<U+001B>[31m → {}…",
                "x".repeat(39)
            )
        );
    }
}
