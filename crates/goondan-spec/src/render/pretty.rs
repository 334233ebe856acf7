//! Output for people: the source with carets under the error, and the suggestion.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Element, Level, Origin, Renderer, Snippet};

use super::{subject, summary};
use crate::diagnostic::{Diagnostic, Severity, SourcePosition};
use crate::source::SourceTexts;
use crate::text::excerpt;
use crate::untrusted_text;

/// Maximum length of a message, in characters. A message that quotes a file may have any length.
const MAX_MESSAGE_CHARS: usize = 2_000;
/// Maximum number of diagnostics in the output. The rest is only counted.
const MAX_SHOWN_DIAGNOSTICS: usize = 50;

/// Formats every diagnostic with its source, then a summary line. Ends with a newline.
pub fn pretty(diagnostics: &[Diagnostic], sources: &SourceTexts, color: bool) -> String {
    let mut text = shown_each(diagnostics, sources, color);
    text.push_str(&summary(diagnostics));
    text.push('\n');
    text
}

/// Formats every diagnostic with its source and an empty line after it. Empty without diagnostics.
pub fn shown_each(diagnostics: &[Diagnostic], sources: &SourceTexts, color: bool) -> String {
    let renderer = if color {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    let mut text = String::new();
    for diagnostic in diagnostics.iter().take(MAX_SHOWN_DIAGNOSTICS) {
        text.push_str(&render_one(diagnostic, sources, &renderer));
        text.push_str("\n\n");
    }
    if let Some(hidden) = diagnostics
        .len()
        .checked_sub(MAX_SHOWN_DIAGNOSTICS)
        .filter(|hidden| *hidden > 0)
    {
        text.push_str(&format!("… and {hidden} more.\n\n"));
    }
    text
}

/// Renders a diagnostic with its source lines.
fn render_one(diagnostic: &Diagnostic, sources: &SourceTexts, renderer: &Renderer) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level
        .primary_title(terminal_excerpt(&diagnostic.message))
        .id(diagnostic.code.as_str());
    let mut elements: Vec<Element<'_>> = Vec::new();
    if let Some(file) = &diagnostic.file {
        elements.push(source_element(file, diagnostic.position, sources));
    }
    if let Some(subject) = subject(diagnostic) {
        elements.push(
            Level::NOTE
                .with_name("in")
                .message(terminal_excerpt(&subject))
                .into(),
        );
    }
    if let Some(suggestion) = &diagnostic.suggestion {
        elements.push(Level::HELP.message(terminal_excerpt(suggestion)).into());
    }
    if let Some(url) = &diagnostic.help_url {
        elements.push(Level::NOTE.with_name("see").message(url.clone()).into());
    }
    renderer.render(&[title.elements(elements)])
}

/// Returns the source line, or only the file name if there is no line to show.
fn source_element(
    file: &str,
    at: Option<SourcePosition>,
    sources: &SourceTexts,
) -> Element<'static> {
    let name = untrusted_text::line(file).to_string();
    let Some((source, at)) = sources.get(file).zip(at) else {
        return Origin::path(name).into();
    };
    let (line, mark) = line_of(source, at);
    let caret = AnnotationKind::Primary.span(mark);
    Snippet::source(line)
        .path(name)
        .line_start(at.line)
        .annotation(caret)
        .into()
}

/// Makes the text safe for a terminal and shortens it.
fn terminal_excerpt(text: &str) -> String {
    untrusted_text::line(excerpt(text, MAX_MESSAGE_CHARS)).to_string()
}

/// Returns the first line of a range and the part of it that is in the range. The renderer cuts
/// long lines to the terminal width.
fn line_of(source: &str, at: SourcePosition) -> (String, Range<usize>) {
    let (line, mark) = raw_line_of(source, at);
    let [before, marked, after] = [&line[..mark.start], &line[mark.clone()], &line[mark.end..]]
        .map(|part| {
            part.split('\t')
                .map(|cell| untrusted_text::line(cell).to_string())
                .collect::<Vec<_>>()
                .join("\t")
        });
    let mark = before.len()..before.len() + marked.len();
    (before + &marked + &after, mark)
}

/// Returns the source line of a position, and the range of the position in that line.
fn raw_line_of(source: &str, at: SourcePosition) -> (&str, Range<usize>) {
    let start = source.floor_char_boundary(at.start.min(source.len()));
    let end = source.ceil_char_boundary(at.end.clamp(start, source.len()));
    let line_start = source[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let rest = &source[line_start..];
    let line = rest[..rest.find('\n').unwrap_or(rest.len())].trim_end_matches('\r');
    (
        line,
        (start - line_start).min(line.len())..(end - line_start).min(line.len()),
    )
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
        let at = position_of_bytes(&source, start, start + 5);
        let mut sources = SourceTexts::default();
        sources.insert("f", source);
        let text = pretty(
            &[Diagnostic::new(Code::CYCLE, "a").in_file("f").at(at)],
            &sources,
            false,
        );
        assert!(
            text.contains("f:1:5003") && text.contains("wrong") && text.len() < 2_000,
            "{text}"
        );
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let source = "x: \u{9b}2J\u{202e}wrong\u{200b} # \u{1b}]0;t\u{7}\ty: 1";
        let start = source.find("wrong").unwrap();
        let mut sources = SourceTexts::default();
        sources.insert("f\u{7}", source.to_owned());
        let at = position_of_bytes(source, start, start + 5);
        let diagnostic = Diagnostic::new(Code::CYCLE, "a\u{1b}[2Jb\nc\u{2066}")
            .in_file("f\u{7}")
            .at(at);
        let text = pretty(&[diagnostic], &sources, false);
        assert!(
            text.chars()
                .all(|c| untrusted_text::is_visible(c) || c == '\n'),
            "{text:?}"
        );
        assert!(
            text.contains("x: \\u{9b}2J\\u{202e}wrong\\u{200b}"),
            "{text}"
        );
        let (line, mark) = line_of(source, at);
        assert_eq!(&line[mark], "wrong");
    }
}
