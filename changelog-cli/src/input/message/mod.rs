//! The title and description of a change: from a file, a pipe, an editor, or
//! prompts.

pub(crate) mod editor;
pub(crate) mod file;
pub(crate) mod prompts;
pub(crate) mod saved;

use changelog_core::{RiskLevel, Status};

/// A title, and the other fields that came with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) title: String,
    pub(crate) description: Option<String>,
    /// From a prompt only.
    pub(crate) risk: Option<RiskLevel>,
    pub(crate) status: Option<Status>,
}

impl Message {
    /// Splits text into its first line, the title, and the rest, the
    /// description.
    pub(crate) fn parse(text: &str) -> Self {
        let text = text.trim();
        let (title, rest) = text.split_once('\n').unwrap_or((text, ""));
        let rest = rest.trim();
        Self {
            title: title.trim_end().to_owned(),
            description: (!rest.is_empty()).then(|| rest.to_owned()),
            ..Self::default()
        }
    }

    /// Returns the text that [`Self::parse`] splits.
    pub(crate) fn text(&self) -> String {
        let description = self.description.as_deref().unwrap_or_default();
        format!("{}\n\n{description}\n", self.title)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_title_and_the_rest_the_description() {
        for (text, title, description) in [
            ("Deploy", "Deploy", None),
            ("\n\n Deploy  \n\n\n", "Deploy", None),
            ("Deploy\n\nAll\n of it\n", "Deploy", Some("All\n of it")),
            ("Deploy\r\n\r\nAll\r\n", "Deploy", Some("All")),
            ("", "", None),
        ] {
            let words = Message::parse(text);
            assert_eq!(words.title, title, "{text:?}");
            assert_eq!(words.description.as_deref(), description, "{text:?}");
        }
    }
}
