//! One word of a command: what is known of its text, and the commands that are substituted in it.

use brush_parser::word::{self, ParameterExpr, WordPiece, WordPieceWithSource};
use goondan_spec::pattern::{Atom, atoms};

use super::{Part, options, walk};

/// What is known of a word.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Known {
    pub(super) atoms: Vec<Atom>,
    /// The word is split or expanded, or may be empty, so that nobody knows how many words it makes.
    pub(super) is_open: bool,
}

impl Known {
    /// The text, where all of it is known.
    pub(super) fn text(&self) -> Option<String> {
        let text = self.atoms.iter().map(|atom| match atom {
            Atom::Char(c) => Some(*c),
            Atom::One | Atom::Any => None,
        });
        text.collect()
    }

    /// The atoms as they stand in a command line; a known word with blanks in it is quoted.
    pub(super) fn quoted(&self) -> Vec<Atom> {
        let needs_quotes =
            |atom: &Atom| matches!(atom, Atom::Char(c) if c.is_whitespace() || ";&|<>()`'\"".contains(*c));
        if !self.atoms.is_empty() && !self.atoms.iter().any(needs_quotes) {
            return self.atoms.clone();
        }
        let quote = [Atom::Char('\'')];
        [&quote, self.atoms.as_slice(), &quote].concat()
    }
}

/// What is known of the word `raw`. Commands in it become parts.
pub(super) fn read(raw: &str, parts: &mut Vec<Part>) -> Known {
    let mut reading = Reading { known: Known { atoms: Vec::new(), is_open: false }, parts, given_up: false };
    match word::parse(raw, &options()) {
        Ok(pieces) => reading.pieces(raw, &pieces, false),
        Err(_) => reading.hide(raw, "a word can't be parsed"),
    }
    reading.known
}

/// Commands in the text of a here-document that is expanded.
pub(super) fn here_document(text: &str, parts: &mut Vec<Part>) {
    if !text.contains(['$', '`']) {
        return;
    }
    // Quotes stand for themselves in such a text, and the parser of words would take them for quotes.
    if text.contains(['"', '\'']) && (text.contains('`') || text.contains("$(") || text.contains("${")) {
        parts.push(Part::hidden(text, "a here-document has commands or expansions beside quotes"));
        return;
    }
    let unquoted: String = text.chars().filter(|c| !matches!(c, '"' | '\'')).collect();
    read(&unquoted, parts);
}

struct Reading<'a> {
    known: Known,
    parts: &'a mut Vec<Part>,
    /// Braces or brackets were seen: what follows may become anything.
    given_up: bool,
}

impl Reading<'_> {
    fn pieces(&mut self, raw: &str, pieces: &[WordPieceWithSource], quoted: bool) {
        for piece in pieces {
            let source = raw.get(piece.start_index..piece.end_index).unwrap_or(raw);
            self.piece(raw, source, &piece.piece, quoted);
        }
    }

    fn piece(&mut self, raw: &str, source: &str, piece: &WordPiece, quoted: bool) {
        match piece {
            WordPiece::Text(text) if quoted => self.literal(text),
            WordPiece::Text(text) => self.unquoted(text),
            WordPiece::SingleQuotedText(text) => self.literal(text),
            WordPiece::DoubleQuotedSequence(inner) => self.pieces(raw, inner, true),
            WordPiece::EscapeSequence(text) => self.escaped(text, quoted),
            WordPiece::CommandSubstitution(command) => {
                walk::line(command, self.parts);
                self.unknown(quoted);
            }
            WordPiece::BackquotedCommandSubstitution(command) if !command.contains('\\') => {
                walk::line(command, self.parts);
                self.unknown(quoted);
            }
            WordPiece::BackquotedCommandSubstitution(_) => self.hide(raw, "backquotes hold backslashes"),
            WordPiece::ParameterExpansion(expr) => self.parameter(source, expr, quoted),
            WordPiece::ArithmeticExpression(expr) if !runs_something(&expr.value) => self.unknown(quoted),
            WordPiece::ArithmeticExpression(_) => self.hide(raw, "an arithmetic expression holds a command"),
            WordPiece::TildePrefix(_) => self.unknown(true),
            WordPiece::AnsiCQuotedText(_) | WordPiece::GettextDoubleQuotedSequence(_) => {
                self.hide(raw, "it has quotes that not every shell knows");
            }
        }
    }

    fn parameter(&mut self, source: &str, expr: &ParameterExpr, quoted: bool) {
        let is_name = matches!(expr, ParameterExpr::Parameter { indirect: false, .. });
        if !is_name && runs_something(source) {
            self.hide(source, "an expansion holds a command");
        } else {
            self.unknown(quoted);
        }
    }

    fn literal(&mut self, text: &str) {
        if !self.given_up {
            self.known.atoms.extend(atoms(text));
        }
    }

    /// Text in which `*`, `?`, brackets and braces mean something.
    fn unquoted(&mut self, text: &str) {
        // A lone bracket is a command, and empty braces are an argument of `find`.
        if matches!(text, "[" | "]" | "{}") {
            return self.literal(text);
        }
        for c in text.chars() {
            match c {
                '*' | '?' => self.unknown(false),
                '[' | '{' => {
                    self.unknown(false);
                    self.given_up = true;
                }
                c if !self.given_up => self.known.atoms.push(Atom::Char(c)),
                _ => {}
            }
        }
    }

    /// A backslash and what follows. In double quotes it stands for itself before most characters.
    fn escaped(&mut self, text: &str, quoted: bool) {
        match text.strip_prefix('\\') {
            Some("\n") => {}
            Some(c) if quoted && !matches!(c, "$" | "`" | "\"" | "\\") => self.literal(text),
            Some(c) => self.literal(c),
            None => self.literal(text),
        }
    }

    fn unknown(&mut self, quoted: bool) {
        self.known.is_open |= !quoted;
        if !self.given_up {
            self.known.atoms.push(Atom::Any);
        }
    }

    fn hide(&mut self, shown: &str, why: &str) {
        self.parts.push(Part::hidden(shown, why));
        self.unknown(false);
    }
}

fn runs_something(text: &str) -> bool {
    text.contains('`') || text.contains("$(") || text.contains("<(") || text.contains(">(") || text.contains("@P")
}
