//! Links of a change.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::input::ObjectReader;
use crate::limits::{MAX_LINKS, MAX_NAME_CHARS};
use crate::problem::{BadValue, Violations};
use crate::rules::{self, TextKind};

/// A labelled URL that belongs to a change: the pipeline run, the commit, the
/// ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Link {
    /// The label.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Name))]
    pub label: String,
    /// The URL; its scheme is `http` or `https`.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::LinkUrl))]
    pub url: String,
}

impl Link {
    /// The label of a link that was given as a URL alone.
    pub const DEFAULT_LABEL: &'static str = "link";
}

impl fmt::Display for Link {
    /// Writes `label=url`, as [`Link::from_str`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.label, self.url)
    }
}

impl FromStr for Link {
    type Err = BadValue;

    /// Reads `label=url`, or a URL alone. Whether the URL is valid is checked
    /// with the change.
    fn from_str(text: &str) -> Result<Self, BadValue> {
        let (label, url) = match text.split_once('=') {
            // The sign may be part of a URL.
            Some((label, url)) if !label.contains("://") => (label.trim(), url.trim()),
            _ if text.contains("://") => (Self::DEFAULT_LABEL, text.trim()),
            _ => ("", ""),
        };
        if label.is_empty() || url.is_empty() {
            return Err(BadValue::format(format!(
                "must be LABEL=URL such as pipeline=https://ci.example.com/runs/42, got {}",
                rules::quoted(text)
            )));
        }
        Ok(Self {
            label: label.to_owned(),
            url: url.to_owned(),
        })
    }
}

pub(super) fn read(object: &mut ObjectReader<'_>, name: &str) -> Option<Vec<Link>> {
    object.objects(name, MAX_LINKS, &["label", "url"], |link| Link {
        label: link.required_string("label"),
        url: link.required_string("url"),
    })
}

pub(super) fn check(problems: &mut Violations, links: &mut [Link]) {
    if !rules::at_most(problems, "/links", links, MAX_LINKS) {
        return;
    }
    for (index, link) in links.iter_mut().enumerate() {
        let pointer = format!("/links/{index}/label");
        let chars = 1..=MAX_NAME_CHARS;
        rules::text(problems, &pointer, &mut link.label, chars, TextKind::Line);
        let pointer = format!("/links/{index}/url");
        rules::web_url(problems, &pointer, &mut link.url);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_a_label_and_a_url_or_a_url_alone() {
        for (text, label, url) in [
            ("run=https://e.com/?a=b", "run", "https://e.com/?a=b"),
            (" run = https://e.com ", "run", "https://e.com"),
            ("https://e.com/?a=b", "link", "https://e.com/?a=b"),
            ("https://e.com", "link", "https://e.com"),
            ("run=later", "run", "later"),
        ] {
            let link: Link = text.parse().unwrap();
            assert_eq!((&*link.label, &*link.url), (label, url), "{text}");
        }
        for bad in ["", "run", "=https://e.com", "run=", " = "] {
            assert!(bad.parse::<Link>().is_err(), "{bad}");
        }
    }
}
