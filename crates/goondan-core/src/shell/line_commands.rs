//! Commands of a line in the full syntax of shells, read approximately. Nothing is expanded.

use std::iter::Peekable;
use std::str::Chars;

/// Limit of nested substitutions.
const MAX_NESTING_DEPTH: usize = 8;

/// Words in place of a command that begin a group of commands.
const OPENING_WORDS: [&str; 4] = ["if", "until", "while", "{"];

/// Words in place of a command that end a group of commands.
const CLOSING_WORDS: [&str; 3] = ["done", "fi", "}"];

/// Words before a command that do not change it.
const INNER_WORDS: [&str; 5] = ["!", "do", "elif", "else", "then"];

/// A word without quotes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LineWord {
    pub(super) text: String,
    /// A shell can expand a part of the word.
    pub(super) is_expanded: bool,
    /// A part is the output of commands.
    pub(super) is_substituted: bool,
    is_quoted: bool,
}

impl LineWord {
    /// Returns a word of a script.
    pub(crate) fn of_script(text: &str, is_expanded: bool) -> Self {
        LineWord {
            text: text.to_owned(),
            is_expanded,
            is_substituted: false,
            is_quoted: false,
        }
    }
}

/// A command with its place in the line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LineCommand {
    pub(super) words: Vec<LineWord>,
    /// Files that redirections read.
    pub(super) inputs: Vec<LineWord>,
    /// A redirection writes a file.
    pub(super) writes_file: bool,
    /// Number of the pipeline. All commands of a group have the same one.
    pub(super) pipeline: usize,
    /// The command can read the output of the commands before it in the pipeline.
    pub(super) is_fed: bool,
}

/// Commands of a line, in the order of the text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LineCommands {
    pub(super) commands: Vec<LineCommand>,
    /// Commands can run several times.
    pub(super) has_loop: bool,
}

/// Returns the commands of a line; `None` if they are unclear, as with a here-document.
pub(super) fn line_commands(line: &str) -> Option<LineCommands> {
    let mut reader = CommandReader::new(line);
    reader.read()?;
    Some(LineCommands {
        commands: reader.commands,
        has_loop: reader.has_loop,
    })
}

/// Returns the commands of a text that `outer` runs. They belong to the pipeline of `outer`.
pub(super) fn inner_commands(text: &str, outer: &LineCommand) -> Option<Vec<LineCommand>> {
    let mut reader = CommandReader {
        pipeline: outer.pipeline,
        is_fed: outer.is_fed,
        depth: 1,
        ..CommandReader::new(text)
    };
    reader.read()?;
    Some(reader.commands)
}

/// Returns the words as a command line.
pub(crate) fn quoted_line<'w>(words: impl Iterator<Item = &'w str>) -> String {
    let quoted = words.map(|word| format!("'{}'", word.replace('\'', r"'\''")));
    quoted.collect::<Vec<_>>().join(" ")
}

/// Kind of the word that comes next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum WordUse {
    #[default]
    Word,
    Input,
    Output,
}

struct CommandReader<'a> {
    rest: Peekable<Chars<'a>>,
    commands: Vec<LineCommand>,
    command: LineCommand,
    word: Option<LineWord>,
    word_use: WordUse,
    pipeline: usize,
    is_fed: bool,
    /// Number of open groups.
    depth: usize,
    /// Number of substitutions around the text.
    nesting: usize,
    has_loop: bool,
}

impl<'a> CommandReader<'a> {
    fn new(text: &'a str) -> CommandReader<'a> {
        CommandReader {
            rest: text.chars().peekable(),
            commands: Vec::new(),
            command: LineCommand::default(),
            word: None,
            word_use: WordUse::Word,
            pipeline: 0,
            is_fed: false,
            depth: 0,
            nesting: 0,
            has_loop: false,
        }
    }

    fn read(&mut self) -> Option<()> {
        while let Some(next) = self.rest.next() {
            self.take(next)?;
        }
        self.end_command()
    }

    fn current(&mut self) -> &mut LineWord {
        self.word.get_or_insert_default()
    }

    /// Ends the current word and adds it to the command. Returns `None` for shell syntax that is
    /// not parsed.
    fn end_word(&mut self) -> Option<()> {
        let Some(mut word) = self.word.take() else {
            return Some(());
        };
        word.is_expanded &= word.text != "[" && word.text != "[[";
        match std::mem::take(&mut self.word_use) {
            WordUse::Input => self.command.inputs.push(word),
            WordUse::Output => self.command.writes_file |= word.text != "/dev/null",
            WordUse::Word if self.command.words.is_empty() && !word.is_quoted => {
                let text = word.text.as_str();
                self.has_loop |= ["for", "select", "until", "while"].contains(&text);
                match text {
                    "case" | "coproc" | "function" => return None,
                    "for" | "select" => {
                        self.depth += 1;
                        self.command.words.push(word);
                    }
                    _ if OPENING_WORDS.contains(&text) => self.depth += 1,
                    _ if CLOSING_WORDS.contains(&text) => self.depth = self.depth.saturating_sub(1),
                    _ if INNER_WORDS.contains(&text) => {}
                    _ => self.command.words.push(word),
                }
            }
            WordUse::Word => self.command.words.push(word),
        }
        Some(())
    }

    fn end_command(&mut self) -> Option<()> {
        self.end_word()?;
        let command = std::mem::take(&mut self.command);
        if command != LineCommand::default() {
            self.commands.push(LineCommand {
                pipeline: self.pipeline,
                is_fed: self.is_fed,
                ..command
            });
        }
        Some(())
    }

    /// Ends a pipeline, except in a group.
    fn end_pipeline(&mut self) -> Option<()> {
        self.end_command()?;
        if self.depth == 0 {
            self.pipeline += 1;
            self.is_fed = false;
        }
        Some(())
    }

    /// Reads one character outside of quotes; `None` if the line is unclear.
    fn take(&mut self, next: char) -> Option<()> {
        match next {
            '\\' => match self.rest.next()? {
                '\n' => {}
                c => {
                    self.current().is_quoted = true;
                    self.current().text.push(c);
                }
            },
            '\'' => {
                self.current().is_quoted = true;
                loop {
                    match self.rest.next()? {
                        '\'' => break,
                        c => self.current().text.push(c),
                    }
                }
            }
            '"' => self.take_quoted()?,
            '$' | '`' => self.take_expansion(next)?,
            '#' if self.word.is_none() => while self.rest.next_if(|c| *c != '\n').is_some() {},
            '>' | '<' => self.take_redirection(next)?,
            '(' => {
                self.end_command()?;
                self.depth += 1;
            }
            ')' => {
                self.end_command()?;
                self.depth = self.depth.saturating_sub(1);
            }
            '|' if self.rest.next_if_eq(&'|').is_some() => self.end_pipeline()?,
            '|' => {
                self.rest.next_if_eq(&'&');
                self.end_command()?;
                self.is_fed = true;
            }
            '&' if self.rest.peek() == Some(&'>') => self.end_word()?,
            '&' => {
                self.rest.next_if_eq(&'&');
                self.end_pipeline()?;
            }
            ';' | '\n' => self.end_pipeline()?,
            '*' | '?' | '[' | '{' | '~' => {
                let is_group = next == '{'
                    && self.word.is_none()
                    && self.rest.peek().is_none_or(|c| c.is_whitespace());
                self.current().is_expanded |= !is_group;
                self.current().text.push(next);
            }
            c if c.is_whitespace() => self.end_word()?,
            c => self.current().text.push(c),
        }
        Some(())
    }

    /// Reads up to the closing double quote.
    fn take_quoted(&mut self) -> Option<()> {
        self.current().is_quoted = true;
        loop {
            match self.rest.next()? {
                '"' => return Some(()),
                '\\' => match self.rest.next()? {
                    '\n' => {}
                    c if "$`\"\\".contains(c) => self.current().text.push(c),
                    c => self.current().text.extend(['\\', c]),
                },
                c @ ('$' | '`') => self.take_expansion(c)?,
                c => self.current().text.push(c),
            }
        }
    }

    /// Reads an expansion after its sign. Commands in it belong to the same pipeline.
    fn take_expansion(&mut self, sign: char) -> Option<()> {
        self.current().is_expanded = true;
        self.current().text.push(sign);
        let inner = match (sign, self.rest.peek()) {
            ('`', _) => {
                let mut text = String::new();
                loop {
                    match self.rest.next()? {
                        '`' => break text,
                        c => text.push(c),
                    }
                }
            }
            (_, Some('(')) => {
                self.rest.next();
                self.take_bracketed()?
            }
            _ => return Some(()),
        };
        self.current().is_substituted = true;
        self.add_inner(&inner)
    }

    /// Adds the commands of a substitution.
    fn add_inner(&mut self, text: &str) -> Option<()> {
        if self.nesting >= MAX_NESTING_DEPTH {
            return None;
        }
        let mut inner = CommandReader {
            pipeline: self.pipeline,
            is_fed: self.is_fed,
            depth: 1,
            nesting: self.nesting + 1,
            ..CommandReader::new(text)
        };
        inner.read()?;
        self.has_loop |= inner.has_loop;
        self.commands.append(&mut inner.commands);
        Some(())
    }

    /// Returns the text up to the closing bracket.
    fn take_bracketed(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut depth = 1;
        loop {
            let c = self.rest.next()?;
            depth += usize::from(c == '(');
            depth -= usize::from(c == ')');
            if depth == 0 {
                return Some(text);
            }
            text.push(c);
        }
    }

    /// Reads a redirection after its first sign.
    fn take_redirection(&mut self, sign: char) -> Option<()> {
        let is_stream = |word: &LineWord| word.text.bytes().all(|byte| byte.is_ascii_digit());
        if self.word.as_ref().is_some_and(is_stream) {
            self.word = None;
        }
        self.end_word()?;
        if self.rest.next_if_eq(&'(').is_some() {
            self.current().is_expanded = true;
            let inner = self.take_bracketed()?;
            return self.add_inner(&inner);
        }
        if sign == '<' && self.rest.next_if_eq(&'<').is_some() {
            // The next word of a here-string is its text.
            return self.rest.next_if_eq(&'<').map(|_| ());
        }
        while self.rest.next_if(|c| matches!(c, '>' | '|')).is_some() {}
        if self.rest.next_if_eq(&'&').is_some() {
            let mut is_stream = false;
            while self
                .rest
                .next_if(|c| c.is_ascii_digit() || *c == '-')
                .is_some()
            {
                is_stream = true;
            }
            if is_stream {
                return Some(());
            }
        }
        self.word_use = match sign {
            '<' => WordUse::Input,
            _ => WordUse::Output,
        };
        Some(())
    }
}
