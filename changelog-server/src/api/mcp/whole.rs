//! The answer with a whole change, over as many pages as its texts and lists need.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use changelog_core::{Change, limits};
use rmcp::model::CallToolResult;
use serde_json::{Value, json};

use super::answer::{
    MAX_BYTES, MAX_TITLE_CHARS, NOTICE, RESERVED_BYTES, claimed, excerpt, facts, json_bytes,
    line_with, result, without_empty,
};

/// What services, tags and links may take of a page before the texts, in bytes.
const MAX_LIST_BYTES: usize = MAX_BYTES * 3 / 5;
/// The limit on the URL of a link, in bytes: an answer has it twice.
const MAX_URL_BYTES: usize = 1_100;
/// The limit on the label of a link, in characters.
const MAX_LABEL_CHARS: usize = 60;

/// How far the parts of a change are in the answers before a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// The characters of each long text.
    chars: usize,
    services: usize,
    tags: usize,
    links: usize,
}

/// One number of a position.
type Part = fn(&mut Position) -> &mut usize;

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            chars,
            services,
            tags,
            links,
        } = self;
        write!(f, "{chars}.{services}.{tags}.{links}")
    }
}

impl FromStr for Position {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut numbers = text.splitn(4, '.');
        let mut next = || {
            let number: u32 = numbers.next().unwrap_or_default().parse()?;
            Ok(number as usize)
        };
        Ok(Self {
            chars: next()?,
            services: next()?,
            tags: next()?,
            links: next()?,
        })
    }
}

/// Returns the answer with a change: everything, or from the position of a cursor on what did
/// not fit before. Of its lists and long texts it has what fits; the cursor continues them.
pub(super) fn whole(change: &Change, url: &str, cursor: Option<Position>) -> CallToolResult {
    let from = cursor.unwrap_or_default();
    let mut page = Page {
        change,
        url,
        is_first: cursor.is_none(),
        from,
        max_title: limits::MAX_TITLE_CHARS,
    };
    if !page.fits(from, MAX_BYTES) {
        page.max_title = MAX_TITLE_CHARS;
    }
    let lists: [Part; 3] = [|at| &mut at.services, |at| &mut at.tags, |at| &mut at.links];
    let end = page.end();
    let mut to = from;
    for part in lists {
        page.extend(&mut to, part, end, MAX_LIST_BYTES);
    }
    page.extend(&mut to, |at| &mut at.chars, end, MAX_BYTES);
    for part in lists {
        page.extend(&mut to, part, end, MAX_BYTES);
    }
    let (mut structured, mut text) = page.render(to);
    let cursor = (to != end).then(|| to.to_string());
    if let Some(cursor) = &cursor {
        let _ = write!(text, "\nmore: call again with cursor {cursor:?}");
    }
    structured["next_cursor"] = json!(cursor);
    result(structured, text)
}

/// A page of a change, whose end is to be found.
struct Page<'c> {
    change: &'c Change,
    url: &'c str,
    /// Whether it has more than texts and lists.
    is_first: bool,
    from: Position,
    max_title: usize,
}

impl Page<'_> {
    /// Returns the position after the last page; the start of this one, where that is further.
    fn end(&self) -> Position {
        let (change, from) = (self.change, self.from);
        let texts = [change.description.as_ref(), change.impact.as_ref()];
        let chars = texts.into_iter().flatten().map(|text| text.chars().count());
        Position {
            chars: from.chars.max(chars.max().unwrap_or_default()),
            services: from.services.max(change.all_services().len()),
            tags: from.tags.max(change.tags.len()),
            links: from.links.max(change.links.len()),
        }
    }

    /// Moves one part of a position as far towards the end as the page still fits.
    fn extend(&self, to: &mut Position, part: Part, mut end: Position, max_bytes: usize) {
        let (mut low, mut high) = (*part(to), *part(&mut end));
        while low < high {
            let middle = (low + high).div_ceil(2);
            *part(to) = middle;
            if self.fits(*to, max_bytes) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        *part(to) = low;
    }

    fn fits(&self, to: Position, max_bytes: usize) -> bool {
        let (structured, text) = self.render(to);
        RESERVED_BYTES + json_bytes(&structured) + json_bytes(&json!(text)) <= max_bytes
    }

    /// Returns the page up to a position, as structured content and as text.
    fn render(&self, to: Position) -> (Value, String) {
        let (change, from) = (self.change, self.from);
        let part = |text: &String| {
            let rest: String = text.chars().skip(from.chars).collect();
            Some(excerpt(&rest, to.chars - from.chars)).filter(|_| !rest.is_empty())
        };
        let services = change
            .all_services()
            .iter()
            .take(to.services)
            .skip(from.services);
        let services: Vec<&str> = services.map(|service| &*service.name).collect();
        let tags: Vec<&String> = change.tags.iter().take(to.tags).skip(from.tags).collect();
        let links = change.links.iter().take(to.links).skip(from.links);
        let links: Vec<Value> = links
            .map(|link| {
                let label = excerpt(&link.label, MAX_LABEL_CHARS);
                json!({ "label": label, "url": shortened(&link.url) })
            })
            .collect();
        let mut untrusted = json!({
            "impact": change.impact.as_ref().and_then(part),
            "tags": tags,
            "links": links,
            "description": change.description.as_ref().and_then(part),
        });
        let mut members = if self.is_first {
            untrusted["title"] = excerpt(&change.title, self.max_title).into();
            untrusted["commit"] = json!(change.commit);
            untrusted["claimed"] = claimed(change);
            let mut members = facts(change);
            members.insert("url".to_owned(), self.url.into());
            members
        } else {
            [("id".to_owned(), json!(change.id))].into_iter().collect()
        };
        members.insert("services".to_owned(), json!(services));
        let head = if self.is_first {
            line_with(change, self.max_title)
        } else {
            format!("change {}, continued", change.id)
        };
        let mut text = format!("{head}\n{NOTICE}");
        let mut add = |name: &str, value: Option<&Value>| {
            if let Some(value) = value {
                let _ = write!(text, "\n{name} {value}");
            }
        };
        let untrusted = without_empty(untrusted);
        members.insert("untrusted".to_owned(), untrusted);
        let members = without_empty(Value::Object(members));
        for name in [
            "outcome",
            "ended_at",
            "scheduled_for",
            "host",
            "services",
            "recorded_by",
        ] {
            add(name, members.get(name));
        }
        for name in ["commit", "impact", "tags", "links", "description"] {
            add(&format!("untrusted {name}"), members["untrusted"].get(name));
        }
        if self.is_first {
            let _ = write!(text, "\n{}", self.url);
        }
        (json!({ "change": members, "notice": NOTICE }), text)
    }
}

/// Cuts a URL to what an answer can have twice.
fn shortened(url: &str) -> String {
    let end = url.floor_char_boundary(MAX_URL_BYTES);
    let dots = if end < url.len() { "…" } else { "" };
    format!("{}{dots}", &url[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn large_change() -> Change {
        let wide = |count: usize| "\u{1f600}\"".repeat(count / 2);
        let id = "01a21d45-db91-70e4-92f6-2fddb8f02653";
        let service = |number: usize| json!({ "id": id, "name": format!("{number}{}", wide(96)), "color": "#6366f1" });
        let tag = |number: usize| format!("{number}{}", wide(40));
        let link = |number: usize| {
            let url = format!("https://ci.example.com/{number}/{}", "x".repeat(2_000));
            json!({ "label": format!("{number}{}", wide(90)), "url": url })
        };
        let mut change: Value = json!({
            "id": id,
            "title": wide(300),
            "risk_level": "high",
            "status": "rolled_back",
            "outcome": "failed",
            "organization_id": id,
            "occurred_at": "2026-11-21T08:30:00.000Z",
            "created_at": "2026-11-21T08:30:00.000Z",
            "updated_at": "2026-11-21T08:30:00.000Z",
            "commit": "a".repeat(64),
            "on_behalf_of": wide(250),
            "agent": { "name": wide(100), "mode": "autonomous", "run": wide(200) },
            "description": wide(3_000),
            "impact": wide(1_500),
        });
        change["service"] = service(0);
        change["services"] = (0..20).map(service).collect();
        change["tags"] = (0..20).map(tag).collect();
        change["links"] = (0..10).map(link).collect();
        serde_json::from_value(change).expect("a change")
    }

    /// Returns the pages of a change, each of which must fit.
    fn pages(change: &Change) -> Vec<(Value, String)> {
        let mut pages = Vec::new();
        let mut cursor = None;
        loop {
            let answer = whole(change, "https://changes.example.com/changes/1", cursor);
            let bytes = serde_json::to_string(&answer).unwrap().len();
            assert!(bytes < 4_000, "{bytes}");
            let structured = answer.structured_content.unwrap();
            let text = answer.content[0].as_text().unwrap().text.clone();
            cursor = structured["next_cursor"]
                .as_str()
                .map(|cursor| cursor.parse().unwrap());
            pages.push((structured["change"].clone(), text));
            assert!(pages.len() < 100, "it makes no progress");
            if cursor.is_none() {
                return pages;
            }
        }
    }

    #[test]
    fn nothing_is_left_out_over_the_pages() {
        let change = large_change();
        let pages = pages(&change);
        let strings = |pointer: &str| -> Vec<Value> {
            let lists = pages.iter().filter_map(|(page, _)| page.pointer(pointer));
            lists
                .flat_map(|list| list.as_array().unwrap().clone())
                .collect()
        };
        let names = change
            .all_services()
            .iter()
            .map(|service| json!(service.name));
        assert_eq!(strings("/services"), names.collect::<Vec<_>>());
        assert_eq!(json!(strings("/untrusted/tags")), json!(change.tags));
        assert_eq!(strings("/untrusted/links").len(), change.links.len());
        for (name, expected) in [
            ("description", &change.description),
            ("impact", &change.impact),
        ] {
            let pointer = format!("/untrusted/{name}");
            let parts = pages.iter().filter_map(|(page, _)| page.pointer(&pointer));
            let parts = parts.map(|part| part.as_str().unwrap().trim_end_matches('…'));
            assert_eq!(Some(parts.collect::<String>()), *expected, "{name}");
        }
        // What comes once is on the first page.
        let (first, rest) = pages.split_first().unwrap();
        assert_eq!(first.0["outcome"], "failed");
        for (page, text) in rest {
            assert!(page.get("status").is_none(), "{page}");
            assert!(page["untrusted"].get("title").is_none(), "{page}");
            assert!(text.starts_with("change 01a21d45"), "{text}");
        }
    }

    #[test]
    fn the_text_has_what_the_structure_has() {
        let mut change = large_change();
        change.title = "Deploy".to_owned();
        change.description = None;
        change.impact = Some("None expected".to_owned());
        change.tags.truncate(1);
        change.links.clear();
        change.set_services(Vec::new());
        let pages = pages(&change);
        let [(page, text)] = pages.as_slice() else {
            panic!("{} pages", pages.len());
        };
        for name in ["outcome", "recorded_by"] {
            if let Some(value) = page.get(name) {
                assert!(text.contains(&format!("{name} {value}")), "{text}");
            }
        }
        assert!(text.contains("outcome \"failed\""), "{text}");
        assert!(
            text.contains("untrusted impact \"None expected\""),
            "{text}"
        );
        assert!(text.contains(&format!("untrusted tags {}", page["untrusted"]["tags"])));
        assert!(!text.contains("null"), "{text}");
    }

    #[test]
    fn a_position_is_read_as_it_is_written() {
        let position = Position {
            chars: 1_200,
            services: 3,
            tags: 0,
            links: 7,
        };
        assert_eq!(position.to_string().parse(), Ok(position));
        for bad in ["", "7", "1.2.3", "1.2.3.4.5", "a.b.c.d", "-1.0.0.0"] {
            assert!(bad.parse::<Position>().is_err(), "{bad}");
        }
    }
}
