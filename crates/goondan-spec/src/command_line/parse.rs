//! Reads a command line.

use std::iter::Peekable;
use std::str::Chars;

use super::script::{CD, Command, Group, Piece, Redirect, Script, Stage, Step, Target, When, Word};
use super::shells::{SHELL_VARIABLES, SHELL_WORDS, SHELLS};

/// Why a line takes a shell, as the end of a sentence that begins with "it".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beyond(pub String);

fn beyond<T>(why: impl Into<String>) -> Result<T, Beyond> {
    Err(Beyond(why.into()))
}

/// The longest command line that is read, in bytes.
const LONGEST: usize = 32 * 1024;

/// How deep groups and substitutions may nest.
const DEEPEST: usize = 16;

/// The script that `line` is.
///
/// # Errors
/// Where only a shell can run it.
pub fn parse(line: &str) -> Result<Script, Beyond> {
    let odd = |c: char| {
        (c.is_control() && c != '\n' && c != '\t') || (!c.is_ascii() && c.is_whitespace())
    };
    if line.len() > LONGEST {
        return beyond("is too long to be judged");
    }
    if line.contains(odd) {
        return beyond("holds characters that shells read differently");
    }
    let mut numbers = 0;
    let script = Reader {
        rest: line.chars().peekable(),
        depth: 0,
        numbers: &mut numbers,
    }
    .list(false)?;
    if script.has_glob() && !script.stays() {
        return beyond("matches files outside of the working folder");
    }
    if script.steps.is_empty() {
        beyond("runs nothing")
    } else {
        Ok(script)
    }
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    depth: usize,
    /// How many commands were read.
    numbers: &'a mut usize,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest.peek().copied()
    }

    /// What comes behind the next character.
    fn peek_second(&self) -> Option<char> {
        self.rest.clone().nth(1)
    }

    fn take(&mut self, expected: char) -> bool {
        self.rest.next_if_eq(&expected).is_some()
    }

    /// Passes over blanks, and with `lines` over line breaks; over comments, too.
    fn skip(&mut self, lines: bool) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => {}
                Some('\n') if lines => {}
                Some('#') => {
                    while self.rest.next_if(|c| *c != '\n').is_some() {}
                    continue;
                }
                _ => return,
            }
            self.rest.next();
        }
    }

    /// Steps up to the end of the line, or of a group.
    fn list(&mut self, in_group: bool) -> Result<Script, Beyond> {
        if self.depth > DEEPEST {
            return beyond("is nested too deep");
        }
        let mut script = Script::default();
        let mut when = When::Always;
        loop {
            self.skip(true);
            let is_over = match self.peek() {
                None if in_group => return beyond("has a group that does not end"),
                None => true,
                Some(')') => in_group,
                Some(_) => false,
            };
            if is_over {
                return if when == When::Always {
                    Ok(script)
                } else {
                    beyond("ends in the middle")
                };
            }
            script.steps.push(Step {
                when,
                stages: self.pipeline()?,
            });
            when = match self.connector(in_group)? {
                Some(when) => when,
                None => return Ok(script),
            };
        }
    }

    /// What stands behind a pipeline; nothing at the end.
    fn connector(&mut self, in_group: bool) -> Result<Option<When>, Beyond> {
        match self.peek() {
            None if in_group => beyond("has a group that does not end"),
            None => Ok(None),
            Some(')') if in_group => Ok(None),
            Some(';' | '\n') => {
                self.rest.next();
                Ok(Some(When::Always))
            }
            Some('&') if self.peek_second() == Some('&') => self.two(When::IfOk),
            Some('&') => beyond("leaves a command in the background"),
            Some('|') => self.two(When::IfFailed),
            Some(_) => beyond("can't be read"),
        }
    }

    fn two(&mut self, when: When) -> Result<Option<When>, Beyond> {
        self.rest.next();
        self.rest.next();
        Ok(Some(when))
    }

    fn pipeline(&mut self) -> Result<Vec<Stage>, Beyond> {
        let mut stages = vec![self.stage()?];
        while self.peek() == Some('|') && self.peek_second() != Some('|') {
            self.rest.next();
            if self.peek() == Some('&') {
                return beyond("uses `|&`, which not every shell knows");
            }
            self.skip(true);
            stages.push(self.stage()?);
        }
        Ok(stages)
    }

    fn stage(&mut self) -> Result<Stage, Beyond> {
        if self.peek() != Some('(') {
            return self.command();
        }
        if self.peek_second() == Some('(') {
            return beyond("uses `((`, which not every shell knows");
        }
        let script = self.group()?;
        let mut redirects = Vec::new();
        loop {
            self.skip(false);
            match self.peek() {
                Some('<' | '>') => redirects.push(self.redirect(None)?),
                Some(c) if c.is_ascii_digit() => {
                    let digit = self.rest.next();
                    redirects.push(self.redirect(digit)?);
                }
                _ => {
                    return Ok(Stage::Group(Group {
                        script,
                        redirects,
                        shell: None,
                    }));
                }
            }
        }
    }

    /// `(…)`, from its opening bracket on.
    fn group(&mut self) -> Result<Script, Beyond> {
        self.rest.next();
        self.depth += 1;
        let script = self.list(true)?;
        self.depth -= 1;
        if !self.take(')') || script.steps.is_empty() {
            return beyond("has a group that can't be read");
        }
        Ok(script)
    }

    fn command(&mut self) -> Result<Stage, Beyond> {
        let number = *self.numbers;
        *self.numbers += 1;
        let mut command = Command {
            number,
            assignments: Vec::new(),
            words: Vec::new(),
            redirects: Vec::new(),
        };
        loop {
            self.skip(false);
            match self.peek() {
                None | Some('\n' | ';' | '&' | '|' | ')') => break,
                Some('(') => {
                    return beyond(
                        "defines a function, or has a bracket that only some shells understand",
                    );
                }
                Some('<' | '>') => command.redirects.push(self.redirect(None)?),
                Some(c) if c.is_ascii_digit() && matches!(self.peek_second(), Some('<' | '>')) => {
                    let digit = self.rest.next();
                    command.redirects.push(self.redirect(digit)?);
                }
                Some(_) => self.argument(&mut command)?,
            }
        }
        checked(command, self)
    }

    /// The next word of a command: an assignment, its name or an argument.
    fn argument(&mut self, command: &mut Command) -> Result<(), Beyond> {
        if command.words.is_empty()
            && let Some(name) = self.assigned()
        {
            if SHELL_VARIABLES.contains(&name.as_str()) {
                return beyond(format!("sets `{name}`, which decides what a shell runs"));
            }
            let value = if self.is_at_end_of_word() {
                Word::default()
            } else {
                self.word()?
            };
            let Some(value) = value.text() else {
                return beyond(format!("sets `{name}` to what is not known"));
            };
            command.assignments.push((name, value));
            return Ok(());
        }
        let word = self.word()?;
        self.refuse_number(&word)?;
        command.words.push(word);
        Ok(())
    }

    /// Refuses a word that a redirection behind it takes for a stream: `12>x` redirects the stream 12.
    fn refuse_number(&mut self, word: &Word) -> Result<(), Beyond> {
        let is_number = || {
            word.text()
                .is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        };
        if matches!(self.peek(), Some('<' | '>')) && is_number() {
            return beyond("redirects a stream other than 0, 1 and 2");
        }
        Ok(())
    }

    /// The name of an assignment that stands here, which is passed over with its `=`.
    fn assigned(&mut self) -> Option<String> {
        let mut ahead = self.rest.clone();
        let mut name = String::new();
        while let Some(c) = ahead.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
            name.push(c);
        }
        let is_name = name.starts_with(|c: char| !c.is_ascii_digit());
        if !is_name || ahead.next() != Some('=') {
            return None;
        }
        self.rest = ahead;
        Some(name)
    }

    fn is_at_end_of_word(&mut self) -> bool {
        matches!(
            self.peek(),
            None | Some(' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')')
        )
    }

    fn word(&mut self) -> Result<Word, Beyond> {
        let mut word = Unfinished::default();
        while !self.is_at_end_of_word() {
            let Some(c) = self.rest.next() else { break };
            match c {
                '\'' => word.text(&self.single_quoted()?),
                '"' => self.double_quoted(&mut word)?,
                '\\' => match self.rest.next() {
                    Some('\n') | None => return beyond("breaks a line with a backslash"),
                    Some(c) => word.char(c),
                },
                '*' => word.piece(Piece::Star),
                '?' => word.piece(Piece::Question),
                c => {
                    self.plain(c, &word)?;
                    word.char(c);
                }
            }
        }
        word.finish()
    }

    /// Refuses a character that means something where it is not quoted.
    fn plain(&mut self, c: char, before: &Unfinished) -> Result<(), Beyond> {
        let ends = self.is_at_end_of_word();
        match c {
            '$' => beyond("uses `$`, which only a shell can expand"),
            '`' => beyond("uses backquotes, which only a shell can expand"),
            '[' | ']' if !before.is_empty() || !ends => {
                beyond("uses brackets, which only a shell can expand")
            }
            '{' if before.is_empty() && self.peek() == Some('}') => Ok(()),
            '}' if before.is_text("{") && ends => Ok(()),
            '{' | '}' => beyond("uses braces, which not every shell expands"),
            '~' if before.is_empty() || before.ends_with(['=', ':']) => {
                beyond("uses `~`, which only a shell can expand")
            }
            _ => Ok(()),
        }
    }

    fn single_quoted(&mut self) -> Result<String, Beyond> {
        let mut text = String::new();
        loop {
            match self.rest.next() {
                Some('\'') => return Ok(text),
                Some(c) => text.push(c),
                None => return beyond("has a quote that does not end"),
            }
        }
    }

    fn double_quoted(&mut self, word: &mut Unfinished) -> Result<(), Beyond> {
        word.text("");
        loop {
            match self.rest.next() {
                None => return beyond("has a quote that does not end"),
                Some('"') => return Ok(()),
                Some('`') => return beyond("uses backquotes, which only a shell can expand"),
                Some('$') if self.peek() == Some('(') && self.peek_second() != Some('(') => {
                    word.piece(Piece::Output(self.group()?));
                }
                Some('$') => return beyond("uses `$`, which only a shell can expand"),
                Some('\\') => match self.rest.next() {
                    Some(c @ ('$' | '`' | '"' | '\\')) => word.char(c),
                    Some('\n') | None => return beyond("breaks a line with a backslash"),
                    Some(c) => {
                        word.char('\\');
                        word.char(c);
                    }
                },
                Some(c) => word.char(c),
            }
        }
    }

    /// A redirection of the stream that `digit` names, from its `<` or `>` on.
    fn redirect(&mut self, digit: Option<char>) -> Result<Redirect, Beyond> {
        let is_read = self.peek() == Some('<');
        if !is_read && self.peek() != Some('>') {
            return beyond("can't be read");
        }
        self.rest.next();
        let stream =
            match digit.map_or(usize::from(!is_read), |digit| digit as usize - '0' as usize) {
                stream @ 0..=2 if is_read == (stream == 0) => stream,
                _ => return beyond("redirects a stream other than 0, 1 and 2"),
            };
        let append = !is_read && self.take('>');
        if matches!(self.peek(), Some('<' | '>' | '|')) || (is_read && self.peek() == Some('&')) {
            return beyond("uses a redirection that only a shell understands");
        }
        if self.take('&') {
            return self.duplicate(stream, append);
        }
        self.skip_blanks();
        if self.is_at_end_of_word() || self.peek() == Some('#') {
            return beyond("has a redirection to nowhere");
        }
        let word = self.word()?;
        self.refuse_number(&word)?;
        let Some(path) = word.text() else {
            return beyond("redirects to what is not known");
        };
        Ok(Redirect {
            stream,
            target: target(path, is_read, append)?,
        })
    }

    fn duplicate(&mut self, stream: usize, append: bool) -> Result<Redirect, Beyond> {
        let other = match self.rest.next() {
            Some('1') => 1,
            Some('2') => 2,
            _ => return beyond("uses a redirection that only a shell understands"),
        };
        if append || !self.is_at_end_of_word() || matches!(self.peek(), Some('<' | '>')) {
            return beyond("uses a redirection that only a shell understands");
        }
        Ok(Redirect {
            stream,
            target: Target::Stream(other),
        })
    }

    fn skip_blanks(&mut self) {
        while self.rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
    }
}

fn target(path: String, is_read: bool, append: bool) -> Result<Target, Beyond> {
    let folded = path
        .split('/')
        .filter(|part| !matches!(*part, "" | "."))
        .collect::<Vec<_>>();
    match folded.as_slice() {
        ["dev", "null"] if path.starts_with('/') => Ok(Target::Null),
        // Such files lead to streams of whoever opens them, or to the network.
        ["dev" | "proc", ..] if path.starts_with('/') => beyond(format!("opens `{path}`")),
        [] => beyond("redirects to no file"),
        _ if path.ends_with('/') => beyond("redirects to a folder"),
        _ if is_read => Ok(Target::Read(path)),
        _ => Ok(Target::Write { path, append }),
    }
}

/// A command as it is run: what only a shell can do is refused, and what a shell is given is read here.
fn checked(command: Command, reader: &mut Reader<'_>) -> Result<Stage, Beyond> {
    let Some(name) = command.words.first() else {
        return beyond("has a place where no command stands");
    };
    let Some(name) = name.text() else {
        return beyond("runs a command whose name is not known");
    };
    let belongs = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '+');
    if name != "[" && (name.is_empty() || !name.chars().all(belongs)) {
        return beyond("runs a command with an unusual name");
    }
    if name.split('/').any(|part| part == "..") {
        return beyond("runs a program by a path with `..`");
    }
    if SHELL_WORDS.contains(&name.as_str()) {
        return beyond(format!("uses `{name}`, which only a shell can do"));
    }
    if name == CD {
        return folder_change(command);
    }
    let prints = |piece: &Piece| matches!(piece, Piece::Output(_));
    let substitutes = command
        .words
        .iter()
        .any(|word| word.pieces.iter().any(prints));
    if substitutes && command.words.iter().any(Word::is_glob) {
        return beyond(
            "matches files beside what a command prints, and shells differ in which comes first",
        );
    }
    match given_to_shell(&command, &name) {
        Some(line) => shell(command, &line, reader),
        None => Ok(Stage::Command(command)),
    }
}

fn folder_change(command: Command) -> Result<Stage, Beyond> {
    let is_plain =
        command.words.len() == 2 && command.assignments.is_empty() && command.redirects.is_empty();
    match command.folder() {
        Some(folder) if is_plain && !folder.is_empty() && !folder.starts_with('-') => {
            Ok(Stage::Command(command))
        }
        _ => beyond("uses `cd` with something other than the name of a folder"),
    }
}

/// The line of `sh -c LINE`.
fn given_to_shell(command: &Command, name: &str) -> Option<String> {
    let is_shell =
        SHELLS.contains(&name) && command.assignments.is_empty() && command.words.len() == 3;
    let is_given = is_shell && command.words[1].text().as_deref() == Some("-c");
    is_given.then(|| command.words[2].text()).flatten()
}

fn shell(command: Command, line: &str, reader: &mut Reader<'_>) -> Result<Stage, Beyond> {
    let mut inner = Reader {
        rest: line.chars().peekable(),
        depth: reader.depth + 1,
        numbers: reader.numbers,
    };
    let script = inner.list(false)?;
    if script.steps.is_empty() {
        return beyond("runs nothing");
    }
    let shell = Some(format!("{} -c", command.name()));
    Ok(Stage::Group(Group {
        script,
        redirects: command.redirects,
        shell,
    }))
}

/// A word that is being read.
#[derive(Default)]
struct Unfinished {
    pieces: Vec<Piece>,
}

impl Unfinished {
    fn text(&mut self, more: &str) {
        match self.pieces.last_mut() {
            Some(Piece::Text(text)) => text.push_str(more),
            _ => self.pieces.push(Piece::Text(more.to_owned())),
        }
    }

    fn char(&mut self, c: char) {
        self.text(c.encode_utf8(&mut [0; 4]));
    }

    fn piece(&mut self, piece: Piece) {
        self.pieces.push(piece);
    }

    fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The word, unless it matches files in a way in which shells differ.
    fn finish(self) -> Result<Word, Beyond> {
        let word = Word {
            pieces: self.pieces,
        };
        if !word.is_glob() {
            return Ok(word);
        }
        let mut shape = String::new();
        for piece in &word.pieces {
            match piece {
                Piece::Text(text) => shape.push_str(text),
                Piece::Star | Piece::Question => shape.push('*'),
                Piece::Output(_) => return beyond("matches files by what a command prints"),
            }
        }
        if shape.starts_with('/') || shape.split('/').any(|part| part == "..") {
            return beyond("matches files outside of the working folder");
        }
        let is_hidden = |part: &str| part.starts_with('.') && part.contains('*');
        if shape.split('/').any(is_hidden) {
            beyond("matches hidden files, where shells differ")
        } else {
            Ok(word)
        }
    }

    fn is_text(&self, expected: &str) -> bool {
        matches!(self.pieces.as_slice(), [Piece::Text(text)] if text == expected)
    }

    fn ends_with(&self, ends: [char; 2]) -> bool {
        matches!(self.pieces.last(), Some(Piece::Text(text)) if text.ends_with(ends))
    }
}
