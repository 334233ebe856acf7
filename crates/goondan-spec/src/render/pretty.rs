//! For people: the source with carets under the mistake, and what to type next.

use annotate_snippets::{AnnotationKind, Element, Level, Origin, Renderer, Snippet};

use super::{one_line, subject, summary};
use crate::diagnostic::{Diagnostic, Position, Severity};
use crate::source::Sources;
use crate::text::excerpt;

/// How many characters of a line are shown on either side of a mistake.
const MARGIN: usize = 60;
/// How many characters of a message are shown; a message that quotes a file may be of any length.
const LONGEST_MESSAGE: usize = 2_000;
/// How many diagnostics are shown; what follows is counted.
const MOST_SHOWN: usize = 200;

/// Every diagnostic with its source, then a closing line. Ends with a newline.
pub fn pretty(diagnostics: &[Diagnostic], sources: &Sources, color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let mut text = String::new();
    for diagnostic in diagnostics.iter().take(MOST_SHOWN) {
        text.push_str(&one(diagnostic, sources, &renderer));
        text.push_str("\n\n");
    }
    if let Some(hidden) = diagnostics.len().checked_sub(MOST_SHOWN).filter(|hidden| *hidden > 0) {
        text.push_str(&format!("… and {hidden} more.\n\n"));
    }
    text.push_str(&summary(diagnostics));
    text.push('\n');
    text
}

fn one(diagnostic: &Diagnostic, sources: &Sources, renderer: &Renderer) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(shown(&diagnostic.message)).id(diagnostic.code.0);
    let mut elements: Vec<Element<'_>> = Vec::new();
    if let Some(file) = &diagnostic.file {
        elements.push(origin(file, diagnostic.position));
    }
    let source = diagnostic.file.as_deref().and_then(|file| sources.get(file));
    if let Some((source, at)) = source.zip(diagnostic.position)
        && let Some(window) = Window::around(source, at)
    {
        let caret = AnnotationKind::Primary.span(window.mark.0..window.mark.1);
        elements.push(Snippet::source(window.text).line_start(at.line).annotation(caret).into());
    }
    if let Some(subject) = subject(diagnostic) {
        elements.push(Level::NOTE.with_name("in").message(shown(&subject)).into());
    }
    if let Some(suggestion) = &diagnostic.suggestion {
        elements.push(Level::HELP.message(shown(suggestion)).into());
    }
    if let Some(url) = &diagnostic.help_url {
        elements.push(Level::NOTE.with_name("see").message(url.clone()).into());
    }
    renderer.render(&[title.elements(elements)])
}

fn origin(file: &str, at: Option<Position>) -> Element<'static> {
    let origin = Origin::path(one_line(file));
    match at {
        Some(at) => origin.line(at.line).char_column(at.column).into(),
        None => origin.into(),
    }
}

fn shown(text: &str) -> String {
    one_line(&excerpt(text, LONGEST_MESSAGE))
}

/// The part of a line that is shown, however long the line is.
struct Window {
    text: String,
    /// Byte range of the mistake in `text`.
    mark: (usize, usize),
}

impl Window {
    /// `None` where the position lies in no line of `source`.
    fn around(source: &str, at: Position) -> Option<Window> {
        let start = source.floor_char_boundary(at.start.min(source.len()));
        let line_start = source[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line = source[line_start..].split('\n').next()?.trim_end_matches('\r');
        let from = start - line_start;
        let to = source.ceil_char_boundary(at.end.clamp(start, source.len())) - line_start;
        let (from, to) = (from.min(line.len()), to.min(line.len()));
        let begin = line[..from].char_indices().rev().nth(MARGIN - 1).map_or(0, |(index, _)| index);
        let end = line[from..].char_indices().nth(2 * MARGIN).map_or(line.len(), |(index, _)| from + index);
        let before = if begin > 0 { "…" } else { "" };
        let after = if end < line.len() { "…" } else { "" };
        let text = format!("{before}{}{after}", &line[begin..end]);
        let offset = |index: usize| index.min(end) - begin + before.len();
        Some(Window { mark: (offset(from), offset(to)), text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Code;
    use crate::source::position_of_bytes;

    #[test]
    fn a_long_line_is_cut_on_both_sides() {
        let source = format!("{}: wrong{}", "é".repeat(5_000), "x".repeat(500_000));
        let start = source.find("wrong").unwrap();
        let window = Window::around(&source, position_of_bytes(&source, start, start + 5)).unwrap();
        assert_eq!(&window.text[window.mark.0..window.mark.1], "wrong");
        assert!(window.text.chars().count() < 200);
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let diagnostic = Diagnostic::new(Code::CYCLE, "a\u{1b}[2Jb\nc").in_file("f\u{7}");
        let text = pretty(&[diagnostic], &Sources::default(), false);
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
    }
}
