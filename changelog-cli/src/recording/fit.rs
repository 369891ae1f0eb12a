//! Values that do not fit into a change: a program that is running, or is about to run,
//! must not be stopped because the branch in a tag has 101 characters. Such values are
//! cut or dropped, each with a warning.

use changelog_core::limits::{MAX_LINKS, MAX_LONG_TEXT_CHARS, MAX_NAME_CHARS, MAX_TAGS};
use changelog_core::limits::{MAX_SERVICES, MAX_TITLE_CHARS};
use changelog_core::{Input, NewChange};

use crate::base::text::{controls_to_spaces, one_line, shorten};
use crate::base::time;
use crate::input::flags::ChangeFields;

/// The longest value that a warning shows, in characters.
const MAX_SHOWN_CHARS: usize = 40;

/// A title and fields that fit, and what was cut or dropped.
pub(crate) struct Fitted {
    pub(crate) title: Option<String>,
    pub(crate) fields: ChangeFields,
    pub(crate) warnings: Vec<String>,
}

/// Cuts and drops what does not fit into a change.
pub(crate) fn fit(title: Option<String>, mut fields: ChangeFields) -> Fitted {
    let mut fitting = Fitting::default();
    let title = title.and_then(|title| {
        fitting.text("--title", title, MAX_TITLE_CHARS, |title| NewChange {
            title,
            ..NewChange::default()
        })
    });
    fields.description = fields.description.and_then(|text| {
        fitting.text("--description", text, MAX_LONG_TEXT_CHARS, |text| {
            NewChange {
                description: Some(text),
                ..NewChange::default()
            }
        })
    });
    fields.tags = fields.tags.map(|tags| {
        let fits = |tag| NewChange {
            tags: vec![tag],
            ..NewChange::default()
        };
        let tags = tags.into_iter();
        let tags = tags.filter_map(|tag| fitting.text("--tag", tag, MAX_NAME_CHARS, fits));
        let tags = tags.collect();
        fitting.limit("--tag", tags, MAX_TAGS)
    });
    fields.links = fields.links.map(|links| {
        let links = links.into_iter().filter(|link| {
            let change = NewChange {
                links: vec![link.clone()],
                ..NewChange::default()
            };
            fitting.keeps("--link", &link.label, change)
        });
        let links = links.collect();
        fitting.limit("--link", links, MAX_LINKS)
    });
    fields.services = fields
        .services
        .map(|services| fitting.limit("--service", services, MAX_SERVICES));
    fields.agent = fields.agent.filter(|agent| {
        let change = NewChange {
            agent: Some(agent.clone()),
            ..NewChange::default()
        };
        fitting.keeps("--agent", &agent.name, change)
    });
    fields.texts = fields
        .texts
        .filter_map(|flag, text, change| fitting.text(flag, text, MAX_LONG_TEXT_CHARS, change));
    Fitted {
        title,
        fields,
        warnings: fitting.warnings,
    }
}

#[derive(Default)]
struct Fitting {
    warnings: Vec<String>,
}

impl Fitting {
    /// Returns a string that fits: unchanged, cut, or none.
    fn text(
        &mut self,
        flag: &str,
        text: String,
        max_chars: usize,
        change: impl Fn(String) -> NewChange,
    ) -> Option<String> {
        let Err(reason) = check(change(text.clone())) else {
            return Some(text);
        };
        let long = text.chars().count() > max_chars;
        let cut = shorten(&controls_to_spaces(&text), max_chars);
        if check(change(cut.clone())).is_ok() {
            let what = if long { "cut to" } else { "changed to" };
            self.warn(flag, &text, &reason, &format!("{what} {:?}", shown(&cut)));
            return Some(cut);
        }
        self.warn(flag, &text, &reason, "ignored");
        None
    }

    /// Returns whether a value fits.
    fn keeps(&mut self, flag: &str, value: &str, change: NewChange) -> bool {
        match check(change) {
            Ok(()) => true,
            Err(reason) => {
                self.warn(flag, value, &reason, "ignored");
                false
            }
        }
    }

    /// Returns the first values of a list that is too long.
    fn limit<T>(&mut self, flag: &str, mut values: Vec<T>, max: usize) -> Vec<T> {
        if values.len() > max {
            let count = values.len();
            let warning = format!("{flag}: got {count} values; only the first {max} are recorded");
            self.warnings.push(warning);
            values.truncate(max);
        }
        values
    }

    fn warn(&mut self, flag: &str, value: &str, reason: &str, done: &str) {
        let value = shown(value);
        self.warnings
            .push(format!("{flag} {value:?}: {reason}; {done}"));
    }
}

fn shown(value: &str) -> String {
    shorten(&one_line(value), MAX_SHOWN_CHARS)
}

/// Returns the first rule that a change with a single value breaks.
fn check(mut change: NewChange) -> Result<(), String> {
    if change.title.is_empty() && change != NewChange::default() {
        "A valid title".clone_into(&mut change.title);
    }
    change.checked(time::now()).map(drop).map_err(|invalid| {
        let broken = invalid.violations.first();
        broken.map(|one| one.message.clone()).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use changelog_core::Link;

    #[test]
    fn values_are_cut_or_dropped_with_a_warning() {
        let link = |url: &str| Link {
            label: "run".to_owned(),
            url: url.to_owned(),
        };
        let fields = ChangeFields {
            tags: Some(vec![
                String::new(),
                "a".repeat(101),
                "b\nc".to_owned(),
                "ok".to_owned(),
            ]),
            links: Some(vec![link("ftp://x"), link("https://x.example")]),
            description: Some("d".repeat(MAX_LONG_TEXT_CHARS + 1)),
            ..ChangeFields::default()
        };
        let fitted = fit(Some("t".repeat(301)), fields);
        assert_eq!(fitted.title.map(|title| title.chars().count()), Some(300));
        let tags = fitted.fields.tags.unwrap();
        assert_eq!(tags.len(), 3, "{tags:?}");
        assert_eq!(tags[0].chars().count(), 100);
        assert_eq!(tags[1..], ["b c", "ok"]);
        assert_eq!(fitted.fields.links.unwrap(), [link("https://x.example")]);
        let description = fitted.fields.description.unwrap();
        assert_eq!(description.chars().count(), MAX_LONG_TEXT_CHARS);
        assert_eq!(fitted.warnings.len(), 6, "{:#?}", fitted.warnings);

        let fitted = fit(Some("x".to_owned()), ChangeFields::default());
        assert_eq!(fitted.title, None);
        assert_eq!(fitted.warnings.len(), 1);
        let tags = (0..25).map(|tag| tag.to_string()).collect();
        let many = ChangeFields {
            tags: Some(tags),
            ..ChangeFields::default()
        };
        let fitted = fit(None, many);
        assert_eq!(fitted.fields.tags.unwrap().len(), MAX_TAGS);
        assert_eq!(fitted.warnings.len(), 1);
    }
}
