//! Renders Markdown as safe HTML: without scripts, styles, forms and remote content.
//!
//! Every holder of a key can write texts, and an open page requests its text again
//! and again. So the work is bounded by the length of the text, runs on the blocking
//! pool for a few texts at a time, and is cached.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use ammonia::Builder;
use linkify::{LinkFinder, LinkKind};
use pulldown_cmark::{
    CodeBlockKind, CowStr, Event, LinkType, Options, Parser, Tag, TagEnd, TextMergeStream, html,
};
use quick_cache::sync::Cache;
use quick_cache::{OptionsBuilder, Weighter};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::blocking_pool;

/// The deepest nesting of quotations, lists and emphasis. The HTML cleaner takes
/// quadratic time in the depth.
const MAX_DEPTH: usize = 30;
/// The maximum number of parser events per byte of text. Rows of a table are filled up with
/// empty cells to the length of its head, so that a short text could become millions
/// of cells; no other text comes near this limit.
const MAX_EVENTS_PER_BYTE: usize = 4;
/// The maximum number of texts that are rendered at once.
const MAX_CONCURRENT: usize = 2;
/// The size of the cache in bytes, and the expected number of its texts.
const CACHE_BYTES: u64 = 32 * 1024 * 1024;
const CACHE_TEXTS: usize = 4_096;
/// What caching a text costs in addition to the text itself, in bytes.
const CACHE_ENTRY_OVERHEAD: u64 = 128;
/// The number of parts of the cache; each can hold the largest text many times.
const CACHE_SHARDS: usize = 4;

/// The allowed HTML tags. Images are not allowed: a remote image would tell its host
/// who reads the page, and the content security policy refuses it anyway.
const TAGS: [&str; 25] = [
    "a",
    "blockquote",
    "br",
    "code",
    "del",
    "em",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "li",
    "ol",
    "p",
    "pre",
    "strong",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "ul",
];

static CLEANER: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let mut builder = Builder::default();
    let attributes = [
        ("a", HashSet::from(["href"])),
        ("ol", HashSet::from(["start"])),
    ];
    builder
        .tags(HashSet::from(TAGS))
        .generic_attributes(HashSet::new())
        .tag_attributes(HashMap::from(attributes))
        .url_schemes(HashSet::from(["http", "https", "mailto"]))
        .link_rel(Some("noreferrer noopener nofollow"))
        .strip_comments(true);
    builder
});

/// The SHA-256 of a text.
type Key = [u8; 32];

#[derive(Clone, Debug)]
struct Bytes;

impl Weighter<Key, Arc<str>> for Bytes {
    fn weight(&self, _: &Key, html: &Arc<str>) -> u64 {
        html.len() as u64 + CACHE_ENTRY_OVERHEAD
    }
}

/// Renders texts and caches the latest.
#[derive(Debug)]
pub(crate) struct Markdown {
    running: Semaphore,
    rendered: Cache<Key, Arc<str>, Bytes>,
}

impl Markdown {
    pub(crate) fn new() -> Self {
        let options = OptionsBuilder::new()
            .shards(CACHE_SHARDS)
            .estimated_items_capacity(CACHE_TEXTS)
            .weight_capacity(CACHE_BYTES)
            .build()
            .expect("all capacities are set");
        let rendered = Cache::with_options(
            options,
            Bytes,
            quick_cache::DefaultHashBuilder::default(),
            quick_cache::sync::DefaultLifecycle::default(),
        );
        Self {
            running: Semaphore::new(MAX_CONCURRENT),
            rendered,
        }
    }

    /// Returns a text as HTML. Concurrent requests for one text share the work.
    pub(crate) async fn render(&self, text: &str) -> Arc<str> {
        let key: Key = Sha256::digest(text).into();
        let work = async {
            // Never closed; without a permit the text is only rendered sooner.
            let _running = self.running.acquire().await.ok();
            let text = text.to_owned();
            Ok::<_, std::convert::Infallible>(blocking_pool::run(move || render(&text)).await)
        };
        match self.rendered.get_or_insert_async(&key, work).await {
            Ok(html) => html,
            Err(never) => match never {},
        }
    }
}

fn render(text: &str) -> Arc<str> {
    let events = events(text).unwrap_or_else(|| plain(text));
    let mut rendered = String::with_capacity(text.len() * 2);
    html::push_html(&mut rendered, events.into_iter());
    let cleaned = CLEANER.clean(&rendered).to_string();
    // Wide tables scroll within their box. Text and addresses have no `<`, so that these
    // are the tags of Markdown's own tables.
    cleaned
        .replace("<table>", TABLE_START)
        .replace("</table>", "</table></div>")
        .into()
}

/// What tables begin with. The keyboard scrolls what has the focus.
const TABLE_START: &str =
    "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table>";

/// Parses a text; `None` if it is nested too deeply or has too many events for its
/// length.
fn events(text: &str) -> Option<Vec<Event<'_>>> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let max_events = text.len() * MAX_EVENTS_PER_BYTE + 64;
    let mut events = Vec::new();
    let mut depth = 0;
    // How many links and code blocks are open, in which addresses stay text.
    let mut literals = 0;
    for event in TextMergeStream::new(Parser::new_ext(text, options)) {
        match &event {
            Event::Start(tag) => {
                depth += 1;
                literals += usize::from(is_literal(tag.to_end()));
            }
            Event::End(tag) => {
                depth -= 1;
                literals -= usize::from(is_literal(*tag));
            }
            _ => {}
        }
        if depth > MAX_DEPTH || events.len() > max_events {
            return None;
        }
        match event {
            // HTML is shown as text: the cleaner would close open tags and open
            // them again in each paragraph.
            Event::Start(Tag::HtmlBlock) => events.push(Event::Start(Tag::Paragraph)),
            Event::End(TagEnd::HtmlBlock) => events.push(Event::End(TagEnd::Paragraph)),
            Event::InlineHtml(tag) if is_line_break(&tag) => events.push(Event::HardBreak),
            Event::Html(html) | Event::InlineHtml(html) => events.push(Event::Text(html)),
            Event::Text(text) if literals == 0 => push_linked(&mut events, text),
            Event::TaskListMarker(is_done) => {
                events.push(Event::Text(if is_done { "☑ " } else { "☐ " }.into()));
            }
            other => events.push(other),
        }
    }
    Some(events)
}

/// Returns whether addresses within a tag are not made links.
fn is_literal(tag: TagEnd) -> bool {
    matches!(tag, TagEnd::Link | TagEnd::Image | TagEnd::CodeBlock)
}

/// Appends text, with its web and mail addresses as links.
fn push_linked<'t>(events: &mut Vec<Event<'t>>, text: CowStr<'t>) {
    let mut end = 0;
    for link in LinkFinder::new().links(&text) {
        let found = link.as_str();
        let address = match link.kind() {
            LinkKind::Email => format!("mailto:{found}"),
            _ if is_web_address(found) => found.to_owned(),
            _ => continue,
        };
        let tag = Tag::Link {
            link_type: LinkType::Autolink,
            dest_url: address.into(),
            title: CowStr::Borrowed(""),
            id: CowStr::Borrowed(""),
        };
        let before = text[end..link.start()].to_owned();
        events.extend([
            Event::Text(before.into()),
            Event::Start(tag),
            Event::Text(found.to_owned().into()),
            Event::End(TagEnd::Link),
        ]);
        end = link.end();
    }
    events.push(Event::Text(if end == 0 {
        text
    } else {
        text[end..].to_owned().into()
    }));
}

fn is_web_address(address: &str) -> bool {
    let scheme = address.split("://").next().unwrap_or_default();
    ["http", "https"]
        .iter()
        .any(|allowed| scheme.eq_ignore_ascii_case(allowed))
}

/// Returns whether a tag is a line break, which cells of tables need.
fn is_line_break(tag: &str) -> bool {
    let name = tag
        .trim_start_matches('<')
        .trim_end_matches(['>', '/', ' ']);
    name.eq_ignore_ascii_case("br")
}

/// Returns a text as a code block.
fn plain(text: &str) -> Vec<Event<'_>> {
    vec![
        Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)),
        Event::Text(text.into()),
        Event::End(TagEnd::CodeBlock),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{MAX_DEPTH, render};

    #[test]
    fn markdown_is_rendered() {
        let html = render(
            "**Bold** and [a link](https://example.com \"x\")\n\n- one\n- two\n\n3. c\n\n\
             | a | b |\n|---|:-:|\n| 1<br>2 | 3 |",
        );
        for expected in [
            "<strong>Bold</strong>",
            "href=\"https://example.com\"",
            "<li>one</li>",
            "<ol start=\"3\">",
            "<td>1<br>",
        ] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
    }

    #[test]
    fn addresses_are_links() {
        for (text, expected) in [
            (
                "see https://example.com/a_b_c?x=1&y=2.",
                "<p>see <a href=\"https://example.com/a_b_c?x=1&amp;y=2\" \
                 rel=\"noreferrer noopener nofollow\">https://example.com/a_b_c?x=1&amp;y=2</a>.</p>",
            ),
            (
                "mail ada@example.com",
                "<p>mail <a href=\"mailto:ada@example.com\" \
                 rel=\"noreferrer noopener nofollow\">ada@example.com</a></p>",
            ),
            (
                "`https://example.com`",
                "<p><code>https://example.com</code></p>",
            ),
            (
                "    https://example.com",
                "<pre><code>https://example.com</code></pre>",
            ),
            ("ftp://example.com", "<p>ftp://example.com</p>"),
        ] {
            assert_eq!(render(text).trim_end(), expected);
        }
        // A link is not made twice.
        let html = render("[https://example.com](https://example.org) <https://example.net>");
        assert_eq!(html.matches("<a ").count(), 2, "{html}");
    }

    #[test]
    fn tasks_have_boxes() {
        let html = render("- [ ] drain\n- [x] restart\n- plain");
        for expected in ["<li>☐ drain</li>", "<li>☑ restart</li>", "<li>plain</li>"] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
        assert!(render("~~gone~~").contains("<del>gone</del>"));
    }

    #[test]
    fn tables_scroll() {
        let html = render("| a |\n|---|\n| <table> |\n\n[a](https://e.com/<table>)");
        assert_eq!(
            html.matches("<div class=\"scroll\" tabindex=\"0\"").count(),
            1,
            "{html}"
        );
        assert_eq!(html.matches("</table></div>").count(), 1, "{html}");
    }

    #[test]
    fn nothing_that_runs_or_loads_is_left() {
        for text in [
            "<script>alert(1)</script>",
            "<img src=x onerror=alert(1)>",
            "![](https://example.com/pixel.png)",
            "<a href=\"javascript:alert(1)\">x</a>",
            "[x](javascript:alert(1))",
            "[x](data:text/html,<script>alert(1)</script>)",
            "<p style=\"position:fixed\" onclick=\"alert(1)\">x</p>",
            "<iframe src=https://example.com></iframe>",
            "<svg><script>alert(1)</script></svg>",
            "<form action=https://example.com><input name=password></form>",
            "<style>*{display:none}</style>",
            "a <b onclick=alert(1)>b</b> <!-- c --> <blockquote cite=javascript:alert(1)>",
        ] {
            let html = render(text);
            // Every tag that is left is one of Markdown's own.
            let mut rest = &*html;
            while let Some((_, tag)) = rest.split_once('<') {
                let (tag, after) = tag.split_once('>').expect("tags are closed");
                let name = tag.trim_start_matches('/').split(' ').next();
                assert!(matches!(name, Some("p" | "a")), "{text}: {html}");
                for forbidden in ["javascript:", "data:", "on", "style", "cite"] {
                    let attributes = tag.replace("noopener", "").replace("nofollow", "");
                    assert!(!attributes.contains(forbidden), "{text}: {html}");
                }
                rest = after;
            }
        }
    }

    #[test]
    fn deep_nesting_is_shown_as_it_was_written() {
        let nested = |depth: usize| format!("{}deep *text*", "> ".repeat(depth));
        // The paragraph and the emphasis are two more.
        assert!(render(&nested(MAX_DEPTH - 2)).contains("<em>text</em>"));
        let html = render(&nested(MAX_DEPTH - 1));
        assert!(html.starts_with("<pre><code>&gt; &gt;"), "{html}");
        assert!(html.contains("*text*"), "{html}");
    }

    /// Each of these took seconds, or made megabytes of HTML.
    #[test]
    fn the_work_is_bounded_by_the_length() {
        let lines = |line: &str, count: usize| format!("{line}\n").repeat(count);
        let reopened: Vec<String> = (0..1_000).map(|n| format!("<b x{n}>")).collect();
        let head = format!("{}\n{}\n", "|a".repeat(2_500), "|-".repeat(2_500));
        for text in [
            ">".repeat(20_000),
            "> ".repeat(10_000),
            "1. ".repeat(6_666),
            "- ".repeat(10_000),
            format!("{}\n{}", ">".repeat(10_000), lines("a", 5_000)),
            lines(&"> ".repeat(100), 99),
            "*a ".repeat(6_666),
            "*_".repeat(10_000),
            "[".repeat(20_000),
            "![".repeat(10_000),
            "[a](".repeat(5_000),
            "`".repeat(20_000),
            (1..190).map(|n| "`".repeat(n) + "a").collect(),
            "<b>".repeat(6_666),
            "<b>\n\n".repeat(4_000),
            reopened.join("\n\n"),
            format!("{head}{}", lines("|", 5_000)),
            format!(
                "[a]: https://e.com/{}\n\n{}",
                "x".repeat(10_000),
                "[a] ".repeat(2_400)
            ),
            "&".repeat(20_000),
            "\u{1f680}".repeat(20_000),
            "a\n".repeat(10_000),
            "~~a".repeat(6_666),
            "<!--".repeat(5_000),
            "\\".repeat(20_000),
            "@".repeat(20_000),
            "a@".repeat(10_000),
            "a.".repeat(10_000),
            ":".repeat(20_000),
            "a:".repeat(10_000),
            "a://".repeat(5_000),
            "http://".repeat(2_857),
            "http://a ".repeat(2_222),
            format!("http://{}", "(".repeat(19_000)),
            "- [ ] \n".repeat(2_857),
        ] {
            let start: String = text.chars().take(20).collect();
            let begun = Instant::now();
            let html = render(&text);
            let took = begun.elapsed();
            // Milliseconds, with optimization; what is quadratic takes minutes here.
            assert!(took.as_millis() < 3_000, "{start:?}: {took:?}");
            assert!(html.len() < 1_000_000, "{start:?}: {}", html.len());
        }
    }
}
