//! Word splitting for command lines that the parser does not understand. Only quotes are
//! interpreted.

use std::iter::Peekable;
use std::str::Chars;

/// Limit of nested substitutions.
const MAX_SUBSTITUTION_DEPTH: usize = 16;

/// Returns the words of `text` without quotes. `None` if quotes are ambiguous: in a here-document,
/// in a substitution with quotes, or without a closing quote.
pub(super) fn words(text: &str) -> Option<Vec<String>> {
    let mut reader = ShellWordReader {
        rest: text.chars().peekable(),
        words: Vec::new(),
        word: None,
        is_rest_plain: false,
    };
    while let Some(next) = reader.rest.next() {
        reader.take(next)?;
    }
    reader.end();
    Some(reader.words)
}

/// Characters that quote or escape others.
const QUOTES: [char; 3] = ['\'', '"', '\\'];

/// Returns true if the text contains quotes or escapes.
fn is_quoted(text: &str) -> bool {
    text.contains(QUOTES)
}

struct ShellWordReader<'a> {
    rest: Peekable<Chars<'a>>,
    words: Vec<String>,
    word: Option<String>,
    /// The rest of the text is known to contain no quotes. Remembered, so that a text with many
    /// here-documents is searched once.
    is_rest_plain: bool,
}

impl ShellWordReader<'_> {
    /// Ends the current word, if there is one.
    fn end(&mut self) {
        self.words.extend(self.word.take());
    }

    /// Appends text to the current word; begins a word if there is none.
    fn push(&mut self, text: &str) {
        self.word.get_or_insert_default().push_str(text);
    }

    /// Handles one character outside quotes; `None` if quotes are ambiguous.
    fn take(&mut self, next: char) -> Option<()> {
        match next {
            '\\' => match self.rest.next()? {
                '\n' => {}
                other => self.push(other.encode_utf8(&mut [0; 4])),
            },
            '\'' => {
                let quoted = self.read_until('\'')?;
                self.push(&quoted);
            }
            '"' => {
                let quoted = read_double_quoted(&mut self.rest)?;
                self.push(&quoted);
            }
            '$' if self.rest.next_if_eq(&'\'').is_some() => {
                let quoted = self.read_until('\'')?;
                // Escapes are not decoded.
                (!quoted.contains('\\')).then(|| self.push(&quoted))?;
            }
            '$' if self.rest.peek() == Some(&'{') => {
                let variable = self.read_until('}')?;
                (!is_quoted(&variable) && !variable.contains(['`', '(']))
                    .then(|| self.push(&format!("${variable}}}")))?;
            }
            '$' if self.rest.peek() == Some(&'"') => {}
            '#' if self.word.is_none() => while self.rest.next_if(|c| *c != '\n').is_some() {},
            '<' if self.rest.next_if_eq(&'<').is_some() => {
                self.end();
                let is_text = self.rest.next_if_eq(&'<').is_some();
                (is_text || self.has_plain_rest()).then_some(())?;
            }
            c if c.is_whitespace() || ";&|<>()`".contains(c) => self.end(),
            c => self.push(c.encode_utf8(&mut [0; 4])),
        }
        Some(())
    }

    /// Returns true if no quote follows. Cached, because this only changes from `false` to
    /// `true`.
    fn has_plain_rest(&mut self) -> bool {
        self.is_rest_plain = self.is_rest_plain || !self.rest.clone().any(|c| QUOTES.contains(&c));
        self.is_rest_plain
    }

    /// Reads the text up to `end`, without it; `None` if `end` is missing.
    fn read_until(&mut self, end: char) -> Option<String> {
        let mut text = String::new();
        loop {
            match self.rest.next()? {
                c if c == end => return Some(text),
                c => text.push(c),
            }
        }
    }
}

/// Reads up to the closing double quote. Substitutions are copied unchanged.
fn read_double_quoted(rest: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut text = String::new();
    loop {
        match rest.next()? {
            '"' => return Some(text),
            '\\' => match rest.next()? {
                '\n' => {}
                c if "$`\"\\".contains(c) => text.push(c),
                c => text.extend(['\\', c]),
            },
            '`' => {
                text.push('`');
                while let Some(c) = rest.next_if(|c| *c != '`') {
                    (c != '\\' && c != '"').then(|| text.push(c))?;
                }
                text.push(rest.next()?);
            }
            '$' if rest.next_if_eq(&'(').is_some() => {
                text.push_str("$(");
                copy_substitution(rest, &mut text, 0)?;
            }
            '$' if rest.peek() == Some(&'{') => {
                let mut variable = String::from("$");
                while let Some(c) = rest.next_if(|c| *c != '}') {
                    variable.push(c);
                }
                variable.push(rest.next()?);
                (!is_quoted(&variable) && !variable.contains(['`', '(']))
                    .then(|| text.push_str(&variable))?;
            }
            c => text.push(c),
        }
    }
}

/// Copies the rest of `$(…)`.
fn copy_substitution(
    rest: &mut Peekable<Chars<'_>>,
    text: &mut String,
    depth: usize,
) -> Option<()> {
    if depth > MAX_SUBSTITUTION_DEPTH {
        return None;
    }
    loop {
        let next = rest.next()?;
        text.push(next);
        match next {
            ')' => return Some(()),
            '(' => copy_substitution(rest, text, depth + 1)?,
            '\\' => text.push(rest.next()?),
            // The end of a comment or here-document is unknown here.
            '#' | '<' => return None,
            '\'' | '"' => loop {
                let within = rest.next()?;
                text.push(within);
                match within {
                    '\\' if next == '"' => text.push(rest.next()?),
                    '$' | '`' if next == '"' => return None,
                    within if within == next => break,
                    _ => {}
                }
            },
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_into_words_like_in_a_shell() {
        for (text, expected) in [
            ("sh 'ru'n.sh; X=1", vec!["sh", "run.sh", "X=1"]),
            ("sh r\\un.sh", vec!["sh", "run.sh"]),
            (". './my run.sh' # it's\nls", vec![".", "./my run.sh", "ls"]),
            ("sh my\\ run.sh&", vec!["sh", "my run.sh"]),
            ("sh \"a\\\"b\".sh", vec!["sh", "a\"b.sh"]),
            (
                "echo \"$(sh \"my run.sh\")\"",
                vec!["echo", "$(sh \"my run.sh\")"],
            ),
            ("sh $'a b' <<< c", vec!["sh", "a b", "c"]),
            ("sh \\\nrun.sh ''", vec!["sh", "run.sh", ""]),
            ("sh $\"a b\" ${x:-c}", vec!["sh", "a b", "${x:-c}"]),
            ("cat <<E\nrun.sh\nE", vec!["cat", "E", "run.sh", "E"]),
        ] {
            let expected = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(words(text), Some(expected), "{text}");
        }
        for text in [
            "sh 'a",
            "sh \"a",
            "sh a\\",
            "sh $'\\x61'",
            "cat <<E\nit's\nE",
            "sh \"${x:-\"a b\"}\"",
            "a \"$(b\"",
        ] {
            assert_eq!(words(text), None, "{text}");
        }
    }
}
