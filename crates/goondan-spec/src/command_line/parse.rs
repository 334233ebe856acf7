//! Parser for command lines.

use std::iter::Peekable;
use std::str::Chars;

use super::shells::{SHELL_KEYWORDS, SHELL_VARIABLES, SHELLS};
use super::syntax_tree::{
    CD_COMMAND, CommandGroup, CommandScript, CommandWord, PipelineStage, RedirectTarget,
    ScriptStep, ShellCommand, StepCondition, StreamRedirect, WordPiece,
};

/// Reason why a line needs a shell, as the end of a sentence that begins with "it".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellRequired(pub String);

/// Returns the error for a command line that only a shell can run; `why` continues "the command …".
fn needs_shell<T>(why: impl Into<String>) -> Result<T, ShellRequired> {
    Err(ShellRequired(why.into()))
}

/// Longest accepted command line, in bytes.
const MAX_LINE_BYTES: usize = 32 * 1024;

/// Maximum nesting of groups and substitutions.
const MAX_NESTING_DEPTH: usize = 16;

/// Parses `line`.
///
/// # Errors
///
/// Fails if only a shell can run the line.
pub fn parse(line: &str) -> Result<CommandScript, ShellRequired> {
    let is_unusual = |c: char| {
        (c.is_control() && c != '\n' && c != '\t') || (!c.is_ascii() && c.is_whitespace())
    };
    if line.len() > MAX_LINE_BYTES {
        return needs_shell("is too long to check");
    }
    if line.contains(is_unusual) {
        return needs_shell("contains characters that shells interpret differently");
    }
    let mut numbers = 0;
    let script = CommandParser {
        rest: line.chars().peekable(),
        depth: 0,
        numbers: &mut numbers,
    }
    .parse_list(false)?;
    if script.has_glob() && !script.stays_below_start() {
        return needs_shell("matches files outside the working directory");
    }
    if script.steps.is_empty() {
        needs_shell("runs nothing")
    } else {
        Ok(script)
    }
}

struct CommandParser<'a> {
    rest: Peekable<Chars<'a>>,
    depth: usize,
    /// Number of commands read so far.
    numbers: &'a mut usize,
}

impl CommandParser<'_> {
    /// Returns the next character without consuming it.
    fn peek(&mut self) -> Option<char> {
        self.rest.peek().copied()
    }

    /// Returns the character after the next one without consuming anything.
    fn peek_second(&self) -> Option<char> {
        self.rest.clone().nth(1)
    }

    /// Consumes the next character if it is `expected`, and returns true if it was.
    fn take(&mut self, expected: char) -> bool {
        self.rest.next_if_eq(&expected).is_some()
    }

    /// Skips blanks and comments, and with `lines` also line breaks.
    fn skip_space(&mut self, lines: bool) {
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

    /// Parses steps up to the end of the line or of a group.
    fn parse_list(&mut self, in_group: bool) -> Result<CommandScript, ShellRequired> {
        if self.depth > MAX_NESTING_DEPTH {
            return needs_shell("is nested too deeply");
        }
        let mut script = CommandScript::default();
        let mut condition = StepCondition::Always;
        loop {
            self.skip_space(true);
            let is_over = match self.peek() {
                None if in_group => return needs_shell("has a group that is not closed"),
                None => true,
                Some(')') => in_group,
                Some(_) => false,
            };
            if is_over {
                return if condition == StepCondition::Always {
                    Ok(script)
                } else {
                    needs_shell("is incomplete")
                };
            }
            script.steps.push(ScriptStep {
                when: condition,
                stages: self.parse_pipeline()?,
            });
            condition = match self.parse_separator(in_group)? {
                Some(next) => next,
                None => return Ok(script),
            };
        }
    }

    /// Parses the operator after a pipeline. `None` at the end.
    fn parse_separator(&mut self, in_group: bool) -> Result<Option<StepCondition>, ShellRequired> {
        match self.peek() {
            None if in_group => needs_shell("has a group that is not closed"),
            None => Ok(None),
            Some(')') if in_group => Ok(None),
            Some(';' | '\n') => {
                self.rest.next();
                Ok(Some(StepCondition::Always))
            }
            Some('&') if self.peek_second() == Some('&') => self.take_operator(StepCondition::IfOk),
            Some('&') => needs_shell("leaves a command in the background"),
            Some('|') => self.take_operator(StepCondition::IfFailed),
            Some(_) => needs_shell("cannot be parsed"),
        }
    }

    /// Consumes the two characters of an operator and returns its condition.
    fn take_operator(
        &mut self,
        when: StepCondition,
    ) -> Result<Option<StepCondition>, ShellRequired> {
        self.rest.next();
        self.rest.next();
        Ok(Some(when))
    }

    /// Reads commands that are connected by `|`.
    fn parse_pipeline(&mut self) -> Result<Vec<PipelineStage>, ShellRequired> {
        let mut stages = vec![self.parse_stage()?];
        while self.peek() == Some('|') && self.peek_second() != Some('|') {
            self.rest.next();
            if self.peek() == Some('&') {
                return needs_shell("uses `|&`, which not every shell supports");
            }
            self.skip_space(true);
            stages.push(self.parse_stage()?);
        }
        Ok(stages)
    }

    /// Reads a command, or a group in parentheses with its redirections.
    fn parse_stage(&mut self) -> Result<PipelineStage, ShellRequired> {
        if self.peek() != Some('(') {
            return self.parse_command();
        }
        if self.peek_second() == Some('(') {
            return needs_shell("uses `((`, which not every shell supports");
        }
        let script = self.parse_group()?;
        let mut redirects = Vec::new();
        loop {
            self.skip_space(false);
            match self.peek() {
                Some('<' | '>') => redirects.push(self.parse_redirect(None)?),
                Some(c) if c.is_ascii_digit() => {
                    let digit = self.rest.next();
                    redirects.push(self.parse_redirect(digit)?);
                }
                _ => {
                    return Ok(PipelineStage::Group(CommandGroup {
                        script,
                        redirects,
                        shell: None,
                    }));
                }
            }
        }
    }

    /// Parses `(…)` from its opening bracket.
    fn parse_group(&mut self) -> Result<CommandScript, ShellRequired> {
        self.rest.next();
        self.depth += 1;
        let script = self.parse_list(true)?;
        self.depth -= 1;
        if !self.take(')') || script.steps.is_empty() {
            return needs_shell("has a group that cannot be parsed");
        }
        Ok(script)
    }

    /// Reads a command with its assignments, arguments and redirections.
    fn parse_command(&mut self) -> Result<PipelineStage, ShellRequired> {
        let number = *self.numbers;
        *self.numbers += 1;
        let mut command = ShellCommand {
            number,
            assignments: Vec::new(),
            words: Vec::new(),
            redirects: Vec::new(),
        };
        loop {
            self.skip_space(false);
            match self.peek() {
                None | Some('\n' | ';' | '&' | '|' | ')') => break,
                Some('(') => {
                    return needs_shell(
                        "defines a function, or has a bracket that only some shells support",
                    );
                }
                Some('<' | '>') => command.redirects.push(self.parse_redirect(None)?),
                Some(c) if c.is_ascii_digit() && matches!(self.peek_second(), Some('<' | '>')) => {
                    let digit = self.rest.next();
                    command.redirects.push(self.parse_redirect(digit)?);
                }
                Some(_) => self.parse_argument(&mut command)?,
            }
        }
        check_command(command, self)
    }

    /// Parses the next word of a command: an assignment, the name or an argument.
    fn parse_argument(&mut self, command: &mut ShellCommand) -> Result<(), ShellRequired> {
        if command.words.is_empty()
            && let Some(name) = self.assignment_name()
        {
            if SHELL_VARIABLES.contains(&name.as_str()) {
                return needs_shell(format!("sets `{name}`, which decides what a shell runs"));
            }
            let value = if self.is_at_end_of_word() {
                CommandWord::default()
            } else {
                self.parse_word()?
            };
            let Some(value) = value.text() else {
                return needs_shell(format!(
                    "sets `{name}` to a value that is not known in advance"
                ));
            };
            command.assignments.push((name, value));
            return Ok(());
        }
        let word = self.parse_word()?;
        self.refuse_number(&word)?;
        command.words.push(word);
        Ok(())
    }

    /// Refuses a number before a redirection, because shells read it as a stream: `12>x` redirects
    /// stream 12.
    fn refuse_number(&mut self, word: &CommandWord) -> Result<(), ShellRequired> {
        let is_number = || {
            word.text()
                .is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        };
        if matches!(self.peek(), Some('<' | '>')) && is_number() {
            return needs_shell("redirects a stream other than 0, 1 and 2");
        }
        Ok(())
    }

    /// Consumes the `NAME=` of an assignment and returns the name.
    fn assignment_name(&mut self) -> Option<String> {
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

    /// Returns true if the next character ends a word.
    fn is_at_end_of_word(&mut self) -> bool {
        matches!(
            self.peek(),
            None | Some(' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')')
        )
    }

    /// Reads a word, including its quoted parts.
    fn parse_word(&mut self) -> Result<CommandWord, ShellRequired> {
        let mut word = WordBuilder::default();
        while !self.is_at_end_of_word() {
            let Some(c) = self.rest.next() else { break };
            match c {
                '\'' => word.push_text(&self.parse_single_quoted()?),
                '"' => self.parse_double_quoted(&mut word)?,
                '\\' => match self.rest.next() {
                    Some('\n') | None => return needs_shell("breaks a line with a backslash"),
                    Some(c) => word.push_char(c),
                },
                '*' => word.push_piece(WordPiece::Star),
                '?' => word.push_piece(WordPiece::Question),
                c => {
                    self.check_unquoted(c, &word)?;
                    word.push_char(c);
                }
            }
        }
        word.finish()
    }

    /// Refuses an unquoted character with a special meaning.
    fn check_unquoted(&mut self, c: char, before: &WordBuilder) -> Result<(), ShellRequired> {
        let ends_word = self.is_at_end_of_word();
        match c {
            '$' => needs_shell("uses `$`, which only a shell can expand"),
            '`' => needs_shell("uses backquotes, which only a shell can expand"),
            '[' | ']' if !before.is_empty() || !ends_word => {
                needs_shell("uses brackets, which only a shell can expand")
            }
            '{' if before.is_empty() && self.peek() == Some('}') => Ok(()),
            '}' if before.is_text("{") && ends_word => Ok(()),
            '{' | '}' => needs_shell("uses braces, which not every shell expands"),
            '~' if before.is_empty() || before.ends_with(['=', ':']) => {
                needs_shell("uses `~`, which only a shell can expand")
            }
            _ => Ok(()),
        }
    }

    /// Reads up to the closing single quote.
    fn parse_single_quoted(&mut self) -> Result<String, ShellRequired> {
        let mut text = String::new();
        loop {
            match self.rest.next() {
                Some('\'') => return Ok(text),
                Some(c) => text.push(c),
                None => return needs_shell("has a quote that is not closed"),
            }
        }
    }

    /// Reads up to the closing double quote into `word`.
    fn parse_double_quoted(&mut self, word: &mut WordBuilder) -> Result<(), ShellRequired> {
        word.push_text("");
        loop {
            match self.rest.next() {
                None => return needs_shell("has a quote that is not closed"),
                Some('"') => return Ok(()),
                Some('`') => return needs_shell("uses backquotes, which only a shell can expand"),
                Some('$') if self.peek() == Some('(') && self.peek_second() != Some('(') => {
                    word.push_piece(WordPiece::Output(self.parse_group()?));
                }
                Some('$') => return needs_shell("uses `$`, which only a shell can expand"),
                Some('\\') => match self.rest.next() {
                    Some(c @ ('$' | '`' | '"' | '\\')) => word.push_char(c),
                    Some('\n') | None => return needs_shell("breaks a line with a backslash"),
                    Some(c) => {
                        word.push_char('\\');
                        word.push_char(c);
                    }
                },
                Some(c) => word.push_char(c),
            }
        }
    }

    /// Parses a redirection from its `<` or `>`. `digit` is the number of the stream.
    fn parse_redirect(&mut self, digit: Option<char>) -> Result<StreamRedirect, ShellRequired> {
        let is_read = self.peek() == Some('<');
        if !is_read && self.peek() != Some('>') {
            return needs_shell("cannot be parsed");
        }
        self.rest.next();
        let stream =
            match digit.map_or(usize::from(!is_read), |digit| digit as usize - '0' as usize) {
                stream @ 0..=2 if is_read == (stream == 0) => stream,
                _ => return needs_shell("redirects a stream other than 0, 1 and 2"),
            };
        let append = !is_read && self.take('>');
        if matches!(self.peek(), Some('<' | '>' | '|')) || (is_read && self.peek() == Some('&')) {
            return needs_shell("uses a redirection that only a shell supports");
        }
        if self.take('&') {
            return self.parse_stream_copy(stream, append);
        }
        self.skip_blanks();
        if self.is_at_end_of_word() || self.peek() == Some('#') {
            return needs_shell("has a redirection without a target");
        }
        let word = self.parse_word()?;
        self.refuse_number(&word)?;
        let Some(path) = word.text() else {
            return needs_shell("redirects to a file that is not known in advance");
        };
        Ok(StreamRedirect {
            stream,
            target: check_redirect_target(path, is_read, append)?,
        })
    }

    /// Reads the target of a redirection to another stream, such as `2>&1`.
    fn parse_stream_copy(
        &mut self,
        stream: usize,
        append: bool,
    ) -> Result<StreamRedirect, ShellRequired> {
        let source = match self.rest.next() {
            Some('1') => 1,
            Some('2') => 2,
            _ => return needs_shell("uses a redirection that only a shell supports"),
        };
        if append || !self.is_at_end_of_word() || matches!(self.peek(), Some('<' | '>')) {
            return needs_shell("uses a redirection that only a shell supports");
        }
        Ok(StreamRedirect {
            stream,
            target: RedirectTarget::Stream(source),
        })
    }

    /// Skips spaces and tabs.
    fn skip_blanks(&mut self) {
        while self.rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
    }
}

/// Checks the path of a redirection. Rejects devices, directories and paths without a name.
fn check_redirect_target(
    path: String,
    is_read: bool,
    append: bool,
) -> Result<RedirectTarget, ShellRequired> {
    let folded = path
        .split('/')
        .filter(|part| !matches!(*part, "" | "."))
        .collect::<Vec<_>>();
    match folded.as_slice() {
        ["dev", "null"] if path.starts_with('/') => Ok(RedirectTarget::Null),
        // These files lead to streams of the process that opens them, or to the network.
        ["dev" | "proc", ..] if path.starts_with('/') => needs_shell(format!("opens `{path}`")),
        [] => needs_shell("redirects to a path without a file name"),
        _ if path.ends_with('/') => needs_shell("redirects to a directory"),
        _ if is_read => Ok(RedirectTarget::Read(path)),
        _ => Ok(RedirectTarget::Write { path, append }),
    }
}

/// Checks a command. Refuses features of shells, and parses the line of `sh -c`.
fn check_command(
    command: ShellCommand,
    reader: &mut CommandParser<'_>,
) -> Result<PipelineStage, ShellRequired> {
    let Some(name) = command.words.first() else {
        return needs_shell("has a missing command");
    };
    let Some(name) = name.text() else {
        return needs_shell("runs a command whose name is not known in advance");
    };
    let is_name_char =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '+');
    if name != "[" && (name.is_empty() || !name.chars().all(is_name_char)) {
        return needs_shell("runs a command with an unusual name");
    }
    if name.split('/').any(|part| part == "..") {
        return needs_shell("runs a program through a path with `..`");
    }
    if SHELL_KEYWORDS.contains(&name.as_str()) {
        return needs_shell(format!("uses `{name}`, which only a shell can do"));
    }
    if name == CD_COMMAND {
        return check_cd(command);
    }
    let prints = |piece: &WordPiece| matches!(piece, WordPiece::Output(_));
    let substitutes = command
        .words
        .iter()
        .any(|word| word.pieces.iter().any(prints));
    if substitutes && command.words.iter().any(CommandWord::is_glob) {
        return needs_shell(
            "combines a glob with the output of a command, whose order differs between shells",
        );
    }
    match inner_command_line(&command, &name) {
        Some(line) => parse_inner_shell(command, &line, reader),
        None => Ok(PipelineStage::Command(command)),
    }
}

/// Accepts `cd` only with one literal directory name.
fn check_cd(command: ShellCommand) -> Result<PipelineStage, ShellRequired> {
    let is_plain =
        command.words.len() == 2 && command.assignments.is_empty() && command.redirects.is_empty();
    match command.cd_target() {
        Some(folder) if is_plain && !folder.is_empty() && !folder.starts_with('-') => {
            Ok(PipelineStage::Command(command))
        }
        _ => needs_shell("uses `cd` with something other than a directory name"),
    }
}

/// Returns the line of `sh -c LINE`.
fn inner_command_line(command: &ShellCommand, name: &str) -> Option<String> {
    let is_shell =
        SHELLS.contains(&name) && command.assignments.is_empty() && command.words.len() == 3;
    let is_given = is_shell && command.words[1].text().as_deref() == Some("-c");
    is_given.then(|| command.words[2].text()).flatten()
}

/// Parses the script of `sh -c SCRIPT` as a group.
fn parse_inner_shell(
    command: ShellCommand,
    line: &str,
    reader: &mut CommandParser<'_>,
) -> Result<PipelineStage, ShellRequired> {
    let mut inner = CommandParser {
        rest: line.chars().peekable(),
        depth: reader.depth + 1,
        numbers: reader.numbers,
    };
    let script = inner.parse_list(false)?;
    if script.steps.is_empty() {
        return needs_shell("runs nothing");
    }
    let shell = Some(format!("{} -c", command.name()));
    Ok(PipelineStage::Group(CommandGroup {
        script,
        redirects: command.redirects,
        shell,
    }))
}

/// Word under construction.
#[derive(Default)]
struct WordBuilder {
    pieces: Vec<WordPiece>,
}

impl WordBuilder {
    /// Appends text; joins it with preceding text.
    fn push_text(&mut self, more: &str) {
        match self.pieces.last_mut() {
            Some(WordPiece::Text(text)) => text.push_str(more),
            _ => self.pieces.push(WordPiece::Text(more.to_owned())),
        }
    }

    /// Appends a character.
    fn push_char(&mut self, c: char) {
        self.push_text(c.encode_utf8(&mut [0; 4]));
    }

    /// Appends a piece of the word, such as a pattern.
    fn push_piece(&mut self, piece: WordPiece) {
        self.pieces.push(piece);
    }

    fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the word. Refuses globs that shells expand differently.
    fn finish(self) -> Result<CommandWord, ShellRequired> {
        let word = CommandWord {
            pieces: self.pieces,
        };
        if !word.is_glob() {
            return Ok(word);
        }
        let mut shape = String::new();
        for piece in &word.pieces {
            match piece {
                WordPiece::Text(text) => shape.push_str(text),
                WordPiece::Star | WordPiece::Question => shape.push('*'),
                WordPiece::Output(_) => {
                    return needs_shell("uses the output of a command as a glob");
                }
            }
        }
        if shape.starts_with('/') || shape.split('/').any(|part| part == "..") {
            return needs_shell("matches files outside the working directory");
        }
        let is_hidden = |part: &str| part.starts_with('.') && part.contains('*');
        if shape.split('/').any(is_hidden) {
            needs_shell("matches hidden files, which shells handle differently")
        } else {
            Ok(word)
        }
    }

    /// Returns true if the word is exactly this text.
    fn is_text(&self, expected: &str) -> bool {
        matches!(self.pieces.as_slice(), [WordPiece::Text(text)] if text == expected)
    }

    /// Returns true if the word ends with these two characters.
    fn ends_with(&self, ends: [char; 2]) -> bool {
        matches!(self.pieces.last(), Some(WordPiece::Text(text)) if text.ends_with(ends))
    }
}
