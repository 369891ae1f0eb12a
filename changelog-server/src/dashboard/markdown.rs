//! Markdown of descriptions as HTML that is safe to show: whatever was written,
//! no script, no style, no form, and nothing that is loaded from elsewhere.

use std::collections::HashSet;
use std::sync::LazyLock;

use ammonia::Builder;
use pulldown_cmark::{Options, Parser, html};

/// What may stay. Images are left out: a picture from elsewhere would tell its
/// host who reads the page, and the content security policy refuses it anyway.
const TAGS: [&str; 26] = [
    "a",
    "b",
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
    "i",
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
];

static CLEANER: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let mut builder = Builder::default();
    let tags: HashSet<&str> = TAGS.into_iter().chain(["ul"]).collect();
    builder
        .tags(tags)
        .url_schemes(HashSet::from(["http", "https", "mailto"]))
        .link_rel(Some("noreferrer noopener nofollow"))
        .strip_comments(true);
    builder
});

/// Renders a text.
pub(super) fn render(text: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let mut rendered = String::with_capacity(text.len() * 2);
    html::push_html(&mut rendered, Parser::new_ext(text, options));
    CLEANER.clean(&rendered).to_string()
}

#[cfg(test)]
mod tests {
    use super::render;

    #[test]
    fn markdown_is_rendered() {
        let html = render("**Bold** and [a link](https://example.com)\n\n- one\n- two");
        assert!(html.contains("<strong>Bold</strong>"), "{html}");
        assert!(html.contains("href=\"https://example.com\""), "{html}");
        assert!(html.contains("<li>one</li>"), "{html}");
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
        ] {
            let html = render(text).to_lowercase();
            for forbidden in [
                "<script",
                "<img",
                "<iframe",
                "<svg",
                "<form",
                "<input",
                "<style",
                "javascript:",
                "data:",
                "onerror",
                "onclick",
                "style=",
            ] {
                assert!(!html.contains(forbidden), "{text}: {html}");
            }
        }
    }
}
