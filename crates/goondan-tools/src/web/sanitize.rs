//! Converts any HTML to safe HTML: text elements, correctly nested to a limited depth, with
//! absolute links.
//!
//! A page may be nested a million levels deep, which is very slow for a tree builder and overflows
//! the stack of a recursive converter. So a tokenizer works in one pass, and its tokens are written
//! with every end tag in its place.

use std::cell::RefCell;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::{RawKind, Rawtext, Rcdata, ScriptData};
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer,
};
use url::Url;

/// Maximum nesting depth of the result.
const MAX_ELEMENT_DEPTH: usize = 64;

/// Elements whose contents are not readable text.
const SKIPPED_ELEMENTS: [&str; 19] = [
    "audio", "button", "canvas", "dialog", "iframe", "math", "noembed", "noframes", "noscript",
    "object", "script", "select", "style", "svg", "template", "textarea", "title", "video", "xmp",
];

/// Elements that are kept. Of all others only the contents are kept.
const KEPT_ELEMENTS: [&str; 40] = [
    "a",
    "article",
    "b",
    "blockquote",
    "br",
    "caption",
    "code",
    "dd",
    "del",
    "div",
    "dl",
    "dt",
    "em",
    "figure",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "i",
    "img",
    "kbd",
    "li",
    "main",
    "ol",
    "p",
    "pre",
    "s",
    "section",
    "strong",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "tr",
    "ul",
];

/// Elements without contents.
const VOID_ELEMENTS: [&str; 3] = ["br", "hr", "img"];

/// Returns the text and structure of `html`, with links relative to `base` made absolute.
pub(super) fn sanitize(html: &str, base: &Url) -> SanitizedPage {
    let tokenizer = Tokenizer::new(
        SanitizerSink {
            base,
            page: RefCell::default(),
        },
        Default::default(),
    );
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(html));
    // The tokenizer stops at each script, as if to run it.
    while !input.is_empty() {
        let _ = tokenizer.feed(&input);
    }
    tokenizer.end();
    let mut writer = tokenizer.sink.page.into_inner();
    writer.close_down_to(0);
    SanitizedPage {
        html: writer.html,
        title: writer
            .title
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" "),
    }
}

pub(super) struct SanitizedPage {
    /// Correctly nested HTML.
    pub(super) html: String,
    /// The text of the `title` element.
    pub(super) title: String,
}

struct SanitizerSink<'a> {
    base: &'a Url,
    page: RefCell<HtmlWriter>,
}

impl TokenSink for SanitizerSink<'_> {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut writer = self.page.borrow_mut();
        match token {
            Token::CharacterTokens(text) => writer.text(&text),
            Token::TagToken(tag) if tag.kind == TagKind::EndTag => writer.end(&tag.name),
            Token::TagToken(tag) => {
                writer.start(&tag, self.base);
                return raw_kind(&tag.name)
                    .map_or(TokenSinkResult::Continue, TokenSinkResult::RawData);
            }
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

/// Returns the tokenizer state for the contents of an element, if they are not HTML.
fn raw_kind(name: &str) -> Option<RawKind> {
    match name {
        "script" => Some(ScriptData),
        "title" | "textarea" => Some(Rcdata),
        "style" | "iframe" | "noembed" | "noframes" | "noscript" | "xmp" => Some(Rawtext),
        _ => None,
    }
}

/// Writes correctly nested HTML.
#[derive(Default)]
struct HtmlWriter {
    html: String,
    title: String,
    /// The open elements, outermost first.
    open: Vec<String>,
    /// The element that is being skipped, and the number of open elements with its name.
    left_out: Option<(String, usize)>,
}

impl HtmlWriter {
    fn text(&mut self, text: &str) {
        match &self.left_out {
            Some((name, _)) if name == "title" => self.title.push_str(text),
            Some(_) => {}
            None => escape(text, &mut self.html),
        }
    }

    /// Handles a start tag: writes it, or skips the element with its content.
    fn start(&mut self, tag: &Tag, base: &Url) {
        let name = &*tag.name;
        if let Some((left_out, count)) = &mut self.left_out {
            if left_out == name && !tag.self_closing {
                *count += 1;
            }
            return;
        }
        if SKIPPED_ELEMENTS.contains(&name) {
            // Only foreign elements can be self-closing.
            let closed = tag.self_closing && matches!(name, "svg" | "math");
            self.left_out = (!closed).then(|| (name.to_owned(), 1));
            return;
        }
        if !KEPT_ELEMENTS.contains(&name) {
            return;
        }
        while self
            .open
            .last()
            .is_some_and(|open| implicitly_closed_elements(name).contains(&open.as_str()))
        {
            self.close_down_to(self.open.len() - 1);
        }
        let void = VOID_ELEMENTS.contains(&name);
        if !void && self.open.len() >= MAX_ELEMENT_DEPTH {
            return;
        }
        self.html.push('<');
        self.html.push_str(name);
        self.attributes(tag, base);
        self.html.push('>');
        if !void {
            self.open.push(name.to_owned());
        }
    }

    /// Handles an end tag: closes the element, or ends the skipped part.
    fn end(&mut self, name: &str) {
        if let Some((left_out, count)) = &mut self.left_out {
            if left_out == name {
                *count -= 1;
                if *count == 0 {
                    self.left_out = None;
                }
            }
            return;
        }
        if let Some(depth) = self.open.iter().rposition(|open| open == name) {
            self.close_down_to(depth);
        }
    }

    /// Closes elements until `depth` are open.
    fn close_down_to(&mut self, depth: usize) {
        for name in self.open.drain(depth..).rev() {
            self.html.push_str("</");
            self.html.push_str(&name);
            self.html.push('>');
        }
    }

    /// Writes the relevant attributes: link targets, image sources, and the language of code.
    fn attributes(&mut self, tag: &Tag, base: &Url) {
        for attribute in &tag.attrs {
            let (name, value) = (&*attribute.name.local, &*attribute.value);
            let value = match (&*tag.name, name) {
                ("a", "href") | ("img", "src") => absolute_link(base, value),
                ("img", "alt") | ("ol", "start") => Some(value.to_owned()),
                ("code", "class") if value.starts_with("language-") => Some(value.to_owned()),
                _ => None,
            };
            if let Some(value) = value {
                self.html.push(' ');
                self.html.push_str(name);
                self.html.push_str("=\"");
                escape(&value, &mut self.html);
                self.html.push('"');
            }
        }
    }
}

/// Returns the open elements that a start tag closes implicitly.
fn implicitly_closed_elements(start: &str) -> &'static [&'static str] {
    match start {
        "li" => &["li", "p"],
        "dt" | "dd" => &["dt", "dd", "p"],
        "td" | "th" => &["td", "th", "p"],
        "tr" => &["td", "th", "tr", "p"],
        "thead" | "tbody" | "tfoot" => {
            &["td", "th", "tr", "p", "thead", "tbody", "tfoot", "caption"]
        }
        "a" => &["a"],
        "article" | "blockquote" | "div" | "dl" | "figure" | "h1" | "h2" | "h3" | "h4" | "h5"
        | "h6" | "hr" | "main" | "ol" | "p" | "pre" | "section" | "table" | "ul" => &["p"],
        _ => &[],
    }
}

/// Makes a link absolute; `None` for other schemes than web and mail.
fn absolute_link(base: &Url, link: &str) -> Option<String> {
    let url = base.join(link.trim()).ok()?;
    matches!(url.scheme(), "http" | "https" | "mailto").then(|| url.to_string())
}

/// Appends `text` with special characters escaped.
fn escape(text: &str, html: &mut String) {
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            other => html.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn html(html: &str) -> String {
        sanitize(html, &Url::parse("https://example.com/a/b").unwrap()).html
    }

    #[test]
    fn sanitize_keeps_only_text_and_structure() {
        assert_eq!(
            html("<script>x<b></script><p onclick=x>Hi <span>you</span><!-- c --></p>"),
            "<p>Hi you</p>"
        );
        assert_eq!(
            html("<style>p{}</style>a<svg><svg/><g>b</g></svg>c<noscript><p>d</noscript>"),
            "ac"
        );
        assert_eq!(html("1 &lt; 2 &amp; <b>3"), "1 &lt; 2 &amp; <b>3</b>");
        assert_eq!(
            html("<br/><hr><img src=i.png alt='a\"b' width=1>"),
            "<br><hr><img src=\"https://example.com/a/i.png\" alt=\"a&quot;b\">"
        );
        assert_eq!(
            sanitize("<title> A\n B </title>", &Url::parse("http://h").unwrap()).title,
            "A B"
        );
    }

    #[test]
    fn links_become_absolute_and_other_schemes_are_dropped() {
        assert_eq!(
            html("<a href='../c?d#e'>x</a>"),
            "<a href=\"https://example.com/c?d#e\">x</a>"
        );
        assert_eq!(
            html("<a href='javascript:alert(1)'>x</a><a href='data:,x'>y</a>"),
            "<a>x</a><a>y</a>"
        );
    }

    #[test]
    fn missing_end_tags_are_added() {
        assert_eq!(
            html("<ul><li>a<li>b</ul><p>c<p>d"),
            "<ul><li>a</li><li>b</li></ul><p>c</p><p>d</p>"
        );
        assert_eq!(
            html("<table><tr><td>a<td>b<tr><td>c</table>"),
            "<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>"
        );
        assert_eq!(html("<b><i>x</b>y</i>"), "<b><i>x</i></b>y");
    }

    /// Returns the nesting depth of HTML; `None` if it is not correctly nested.
    fn depth(html: &str) -> Option<usize> {
        let mut open = Vec::new();
        let mut deepest = 0;
        for tag in html
            .split('<')
            .skip(1)
            .map(|rest| rest.split(['>', ' ']).next().unwrap())
        {
            match tag.strip_prefix('/') {
                Some(name) if open.pop() == Some(name) => {}
                Some(_) => return None,
                None if VOID_ELEMENTS.contains(&tag) => {}
                None => open.push(tag),
            }
            deepest = deepest.max(open.len());
        }
        open.is_empty().then_some(deepest)
    }

    #[test]
    fn element_depth_is_limited() {
        let deep = html(&("<div>".repeat(100_000) + "bottom"));
        assert_eq!(depth(&deep), Some(MAX_ELEMENT_DEPTH));
        assert!(deep.contains("bottom"));
        let crossed = html(&"<b><div></b></div><a><table>".repeat(20_000));
        assert!(depth(&crossed).is_some_and(|depth| depth <= MAX_ELEMENT_DEPTH));
    }

    proptest! {
        #[test]
        fn sanitized_html_is_always_well_nested(
            soup in "(</?(div|p|b|li|ul|table|tr|td|a|script|svg|title|xmp|x)( \
                href=\"?x)?/?>|[a-z<>&\"'é]{0,3}){0,30}",
        ) {
            prop_assert!(depth(&html(&soup)).is_some_and(|depth| depth <= MAX_ELEMENT_DEPTH), "{}", html(&soup));
        }
    }
}
