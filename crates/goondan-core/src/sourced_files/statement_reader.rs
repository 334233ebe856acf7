//! Reader of the statements in the text of a shell script.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::str::Chars;

use super::script_text::{ScriptStatement, ScriptText, ScriptWord};
use super::script_variables::{PARAMETERS, ScriptVariables, VariableValue};

/// Spellings of the directory of a script, without blanks, quotes and redirections.
const SCRIPT_DIRECTORY: [&str; 13] = [
    "dirname$0",
    "dirname${0}",
    "dirname$BASH_SOURCE",
    "dirname${BASH_SOURCE}",
    "dirname${BASH_SOURCE[0]}",
    "0%/*",
    "BASH_SOURCE%/*",
    "BASH_SOURCE[0]%/*",
    "cd$(dirname$0)&&pwd",
    "cd$(dirname${0})&&pwd",
    "cd$(dirname$BASH_SOURCE)&&pwd",
    "cd$(dirname${BASH_SOURCE[0]})&&pwd",
    "cd${0%/*}&&pwd",
];

/// Programs whose output files cannot influence, except with options. Their output in `$(…)` is
/// unknown text, but does not count as data.
const FILE_INDEPENDENT_PROGRAMS: [&str; 8] = [
    "arch", "date", "hostname", "id", "nproc", "tty", "uname", "whoami",
];

/// Programs whose output is empty, their arguments, or the content of the files that these name. If
/// the arguments are known, the output is known.
const KNOWN_OUTPUT_PROGRAMS: [&str; 5] = ["cat", "echo", "printf", "true", "yes"];

/// Maximum number of nested substitutions that are read.
const MAX_NESTING_DEPTH: usize = 8;

/// A here-document whose text follows after the line.
struct HereDocument {
    delimiter: String,
    /// The delimiter is quoted, so a shell leaves `$NAME` and `$(…)` in the text as they are.
    is_quoted: bool,
    /// Tabs at the start of each line do not count.
    is_indented: bool,
}

pub(super) struct StatementReader<'a> {
    rest: Peekable<Chars<'a>>,
    folder: &'a str,
    variables: &'a ScriptVariables,
    /// Number of substitutions around the text.
    nesting: usize,
    script: ScriptText,
    statement: ScriptStatement,
    word: Option<ScriptWord>,
    /// Number of open brackets.
    depth: usize,
    /// The next word is the target of an output redirection.
    is_output: bool,
    /// A group such as `while` or `{` reads piped data. All following commands count as fed, because
    /// the end of the group is not tracked.
    is_group_fed: bool,
    documents: VecDeque<HereDocument>,
}

impl<'a> StatementReader<'a> {
    /// Reads the text of a script in the directory `folder`, including the commands in its
    /// substitutions. `nesting` is the number of substitutions around the text.
    pub(super) fn read_script(
        text: &'a str,
        folder: &'a str,
        variables: &'a ScriptVariables,
        nesting: usize,
    ) -> ScriptText {
        let mut reader = StatementReader {
            rest: text.chars().peekable(),
            folder,
            variables,
            nesting,
            script: ScriptText::default(),
            statement: ScriptStatement::default(),
            word: None,
            depth: 0,
            is_output: false,
            is_group_fed: false,
            documents: VecDeque::new(),
        };
        while let Some(next) = reader.rest.next() {
            reader.take(next);
        }
        reader.end_statement();
        reader.script.is_unclear |= !reader.documents.is_empty();
        reader.script
    }

    /// Ends the current word and adds it to the statement.
    fn end_word(&mut self) {
        let Some(mut word) = self.word.take() else {
            return;
        };
        // The command `[` is no pattern.
        if matches!(word.text.as_str(), "[" | "[[") {
            (word.is_known, word.is_computed) = (true, false);
        }
        if std::mem::take(&mut self.is_output) {
            // A stream such as `2` in `>&2` is not a file.
            let is_stream = word.text.bytes().all(|byte| byte.is_ascii_digit());
            self.statement.writes_file |= !is_stream && word.text != "/dev/null";
        } else {
            self.statement.words.push(word);
        }
    }

    fn end_statement(&mut self) {
        self.end_word();
        self.is_output = false;
        let mut statement = std::mem::take(&mut self.statement);
        if statement.words.is_empty() {
            return;
        }
        statement.is_fed |= self.is_group_fed;
        let first = statement.words[0].text.as_str();
        // All commands of a group can read its input.
        self.is_group_fed |=
            statement.is_fed && ["for", "if", "until", "while", "{"].contains(&first);
        self.script.statements.push(statement);
    }

    /// Ends a statement whose output is piped into the next one. The next one counts as fed, unless
    /// this one only prints known text or files with known names.
    fn end_pipe_part(&mut self) {
        let count = self.script.statements.len();
        self.end_statement();
        let last = self.script.statements.last();
        let prints_known_text = last.is_some_and(|last| {
            let words = last.command_words();
            let is_printing =
                |word: &ScriptWord| KNOWN_OUTPUT_PROGRAMS.contains(&word.text.as_str());
            !last.is_fed
                && words.first().is_some_and(is_printing)
                && words.iter().all(|word| word.is_known)
        });
        let added_statement = self.script.statements.len() > count;
        self.statement.is_fed = !(prints_known_text && added_statement);
    }

    fn push(&mut self, c: char) {
        self.current().text.push(c);
    }

    /// Adds a character of a pattern, which a shell replaces with names of existing files.
    fn push_pattern(&mut self, c: char) {
        let word = self.current();
        word.is_known = false;
        word.is_computed = true;
        word.text.push(c);
    }

    /// Adds a part that comes from data.
    fn push_output(&mut self) {
        let word = self.current();
        word.is_known = false;
        word.is_computed = true;
        word.comes_from_data = true;
        word.text.push('*');
    }

    /// Begins a word if there is none. The quotes `''` are an empty word.
    fn begin_word(&mut self) {
        self.current();
    }

    /// Returns the current word; begins one if there is none.
    fn current(&mut self) -> &mut ScriptWord {
        self.word.get_or_insert_with(|| ScriptWord::new(""))
    }

    /// Reads one character outside of quotes.
    fn take(&mut self, next: char) {
        match next {
            '\\' => match self.rest.next() {
                Some('\n') | None => {}
                Some(c) => self.push(c),
            },
            '\'' => self.take_single_quoted(),
            '"' => self.take_double_quoted(),
            '$' if self.rest.next_if_eq(&'\'').is_some() => self.take_escaped(),
            '$' | '`' => self.take_expansion(next),
            '#' if self.word.is_none() => while self.rest.next_if(|c| *c != '\n').is_some() {},
            '>' | '<' => self.take_redirection(next),
            '&' if self.is_output => {}
            '&' if self.rest.peek() == Some(&'>') => self.end_word(),
            '(' => self.take_opening_bracket(),
            ')' => {
                self.end_statement();
                // Before such a bracket is the pattern of a `case`.
                match self.depth.checked_sub(1) {
                    Some(depth) => self.depth = depth,
                    None => drop(self.script.statements.pop()),
                }
            }
            '|' if self.rest.next_if_eq(&'|').is_some() => self.end_statement(),
            '|' => {
                self.rest.next_if_eq(&'&');
                self.end_pipe_part();
            }
            '\n' => {
                self.end_statement();
                self.take_documents();
            }
            ';' | '&' => self.end_statement(),
            '{' if self.rest.next_if_eq(&'}').is_some() => self.current().text.push_str("{}"),
            '{' if self.rest.peek().is_some_and(|c| !c.is_whitespace()) => self.push_pattern(next),
            '*' | '?' | '[' => self.push_pattern(next),
            c if c.is_whitespace() => self.end_word(),
            c => self.push(c),
        }
    }

    /// Reads up to the closing single quote.
    fn take_single_quoted(&mut self) {
        self.begin_word();
        loop {
            match self.rest.next() {
                Some('\'') => return,
                Some(c) => self.push(c),
                None => {
                    self.script.is_unclear = true;
                    return;
                }
            }
        }
    }

    /// Reads up to the closing double quote.
    fn take_double_quoted(&mut self) {
        self.begin_word();
        while let Some(next) = self.rest.next() {
            match next {
                '"' => return,
                '\\' => match self.rest.next() {
                    Some('\n') | None => {}
                    Some(c) if "$`\"\\".contains(c) => self.push(c),
                    Some(c) => {
                        self.push('\\');
                        self.push(c);
                    }
                },
                '$' | '`' => self.take_expansion(next),
                c => self.push(c),
            }
        }
        self.script.is_unclear = true;
    }

    /// Reads a text such as `$'a\n'` after its first quote. Not all shells know it.
    fn take_escaped(&mut self) {
        self.begin_word();
        while let Some(next) = self.rest.next() {
            match next {
                '\'' => return,
                '\\' => match self.rest.next() {
                    Some('n') => self.push('\n'),
                    Some('r') => self.push('\r'),
                    Some('t') => self.push('\t'),
                    Some('\'') | None => self.script.is_unclear = true,
                    Some('\\') => self.push('\\'),
                    Some(_) => self.push_output(),
                },
                c => self.push(c),
            }
        }
        self.script.is_unclear = true;
    }

    /// Reads the start of a group or of a function after its bracket.
    fn take_opening_bracket(&mut self) {
        let name = match (&self.word, self.statement.words.as_slice()) {
            (Some(word), []) => Some(word.text.clone()),
            (Some(name), [first]) if first.text == "function" => Some(name.text.clone()),
            (None, [name]) => Some(name.text.clone()),
            (None, [first, name]) if first.text == "function" => Some(name.text.clone()),
            _ => None,
        };
        if let Some(name) = name
            && self.rest.next_if_eq(&')').is_some()
        {
            self.script.functions.insert(name);
            self.word = None;
            self.statement = ScriptStatement::default();
            return;
        }
        self.depth += 1;
        self.end_statement();
    }

    /// Reads a redirection after its first sign.
    fn take_redirection(&mut self, sign: char) {
        if self.rest.next_if_eq(&'(').is_some() {
            let text = self.take_bracketed('(', ')');
            self.add_substitution(&text);
            self.push_output();
            return;
        }
        self.end_word();
        if sign == '>' {
            self.is_output = true;
            return;
        }
        if self.rest.next_if_eq(&'<').is_some() {
            if self.rest.next_if_eq(&'<').is_none() {
                self.take_document_name();
            }
            return;
        }
        self.rest.next_if(|c| matches!(c, '>' | '&'));
    }

    /// Reads the delimiter of a here-document.
    fn take_document_name(&mut self) {
        let is_indented = self.rest.next_if_eq(&'-').is_some();
        while self.rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        let is_part = |c: &char| !c.is_whitespace() && !";|&<>()".contains(*c);
        let mut text = String::new();
        while let Some(c) = self.rest.next_if(is_part) {
            text.push(c);
        }
        let delimiter = text.replace(['\'', '"', '\\'], "");
        self.statement.has_document = true;
        self.documents.push_back(HereDocument {
            is_quoted: delimiter != text,
            delimiter,
            is_indented,
        });
    }

    /// Reads the here-documents of the line that has just ended. Adds the commands in their
    /// substitutions. Parts that come from data become words of the last command of the line.
    fn take_documents(&mut self) {
        let line_end = self.script.statements.len();
        while let Some(document) = self.documents.pop_front() {
            let Some(text) = self.document_text(&document) else {
                self.script.is_unclear = true;
                return;
            };
            if document.is_quoted || !text.contains(['$', '`']) {
                continue;
            }
            // `:` ignores its arguments, so a shell only evaluates the expansions in this text.
            let quoted = format!(": \"{}\"", text.replace('"', " "));
            let inner = self.read_inner(&quoted);
            let (placeholders, commands): (Vec<_>, Vec<_>) = inner
                .into_iter()
                .partition(|statement| statement.words[0].text == ":");
            let words = placeholders
                .into_iter()
                .flat_map(|statement| statement.words.into_iter().skip(1));
            // The text is data of the command, like an argument.
            if let Some(command) = self.script.statements[..line_end].last_mut() {
                let words = words.filter(|word| word.comes_from_data);
                command.words.extend(words);
            }
            self.script.statements.extend(commands);
        }
    }

    /// Reads up to the delimiter of a here-document; `None` without a delimiter.
    fn document_text(&mut self, document: &HereDocument) -> Option<String> {
        let mut text = String::new();
        loop {
            self.rest.peek()?;
            let mut line = String::new();
            while let Some(c) = self.rest.next().filter(|c| *c != '\n') {
                line.push(c);
            }
            let content = if document.is_indented {
                line.trim_start_matches('\t')
            } else {
                line.as_str()
            };
            if content.trim_end_matches('\r') == document.delimiter {
                return Some(text);
            }
            text.push_str(content);
            text.push('\n');
        }
    }

    /// Reads an expansion after its sign, and adds its value.
    fn take_expansion(&mut self, sign: char) {
        match (sign, self.rest.peek()) {
            ('`', _) => {
                let mut text = String::new();
                loop {
                    match self.rest.next() {
                        Some('`') => break,
                        Some(c) => text.push(c),
                        None => {
                            self.script.is_unclear = true;
                            break;
                        }
                    }
                }
                self.add_command_output(&text);
            }
            (_, Some('(')) => {
                self.rest.next();
                let text = self.take_bracketed('(', ')');
                self.add_command_output(&text);
            }
            (_, Some('{')) => {
                self.rest.next();
                let text = self.take_bracketed('{', '}');
                self.add_variable(&text);
            }
            _ => {
                let name = self.take_variable_name();
                if name.is_empty() {
                    self.push('$');
                } else {
                    self.add_variable(&name);
                }
            }
        }
    }

    /// Reads the text up to the bracket that closes an open one.
    fn take_bracketed(&mut self, open: char, close: char) -> String {
        let mut text = String::new();
        let mut depth = 1;
        let mut quote = None;
        while let Some(c) = self.rest.next() {
            match c {
                '\\' if quote != Some('\'') => {
                    text.push(c);
                    text.extend(self.rest.next());
                    continue;
                }
                '\'' | '"' if open == '(' && quote.is_none() => quote = Some(c),
                _ if quote == Some(c) => quote = None,
                _ if quote.is_some() => {}
                _ if c == open => depth += 1,
                _ if c == close => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return text;
            }
            text.push(c);
        }
        self.script.is_unclear = true;
        text
    }

    /// Reads the name of a variable, or the sign of a parameter such as `$@`.
    fn take_variable_name(&mut self) -> String {
        let mut name = String::new();
        while let Some(c) = self
            .rest
            .next_if(|c| c.is_ascii_alphanumeric() || *c == '_')
        {
            name.push(c);
        }
        // A parameter such as `$@` has one sign.
        if name.is_empty() {
            name.extend(self.rest.next_if(|c| "@*#?$!-<^+|%".contains(*c)));
        }
        name
    }

    /// Adds the output of the commands in a substitution.
    fn add_command_output(&mut self, text: &str) {
        match spelling(text).as_str() {
            spelled if SCRIPT_DIRECTORY.contains(&spelled) => {
                let folder = self.folder;
                self.current().text.push_str(folder);
                return;
            }
            "pwd" => return self.push('.'),
            _ => {}
        }
        if text.starts_with('(') && text.ends_with(')') {
            // The result of a calculation is a number.
            if text.contains(['$', '`']) {
                self.add_substitution(&format!(": \"{}\"", text.replace('"', " ")));
            }
            let word = self.current();
            word.is_known = false;
            word.text.push('*');
            return;
        }
        if self.add_substitution(text) {
            let word = self.current();
            word.is_known = false;
            word.text.push('*');
        } else {
            self.push_output();
        }
    }

    /// Adds the commands of a substitution. Returns true if their output does not depend on files.
    fn add_substitution(&mut self, text: &str) -> bool {
        let inner = self.read_inner(text);
        let is_fixed = |statement: &ScriptStatement| {
            let first = statement.words.first();
            first.is_some_and(|word| FILE_INDEPENDENT_PROGRAMS.contains(&word.text.as_str()))
                && statement.words.iter().all(|word| word.is_known)
                && !statement.words.iter().any(names_file)
        };
        let are_fixed = inner.len() == 1 && inner.iter().all(is_fixed);
        self.script.statements.extend(inner);
        are_fixed
    }

    /// Returns the commands of a text inside of the script.
    fn read_inner(&mut self, text: &str) -> Vec<ScriptStatement> {
        if self.nesting >= MAX_NESTING_DEPTH {
            self.script.is_unclear = true;
            return Vec::new();
        }
        let inner =
            StatementReader::read_script(text, self.folder, self.variables, self.nesting + 1);
        self.script.is_unclear |= inner.is_unclear;
        self.script.functions.extend(inner.functions);
        inner.statements
    }

    /// Adds the value of a variable. `text` is its name, in braces also with operators.
    fn add_variable(&mut self, text: &str) {
        let spelled = spelling(text);
        if SCRIPT_DIRECTORY.contains(&spelled.as_str()) {
            let folder = self.folder;
            self.current().text.push_str(folder);
            return;
        }
        if spelled == "PWD" {
            return self.push('.');
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
        let (name, operators) = match text.split_at(end) {
            ("", signs) if signs.starts_with(['@', '*']) => (PARAMETERS, &signs[1..]),
            // Another variable names the variable.
            ("", signs) if signs.starts_with('!') && signs.len() > 1 => return self.push_output(),
            // A number, such as the length of a value, or a name that `make` sets.
            ("", _) => {
                let word = self.current();
                word.is_known = false;
                word.text.push('*');
                return;
            }
            (name, operators) => (name, operators),
        };
        if operators.contains(['$', '`']) {
            self.add_substitution(operators);
            return self.push_output();
        }
        let is_parameter = name.bytes().all(|byte| byte.is_ascii_digit());
        let name = if is_parameter { PARAMETERS } else { name };
        match self.variables.get(name).cloned() {
            Some(value) if operators.is_empty() => self.push_value(value),
            Some(_) => self.push_output(),
            None if name == "HOME" && operators.is_empty() => self.push('~'),
            None => {
                let word = self.current();
                word.is_known = false;
                word.text.push('*');
                word.outer_variables.insert(name.to_owned());
            }
        }
    }

    fn push_value(&mut self, value: VariableValue) {
        let word = self.current();
        word.is_known &= value.is_known;
        word.is_computed |= value.comes_from_data;
        word.comes_from_data |= value.comes_from_data;
        word.text.push_str(&value.text);
        word.outer_variables.extend(value.outer_variables);
    }
}

/// Returns true for an option such as `date -f FILE`, whose value names a file.
fn names_file(word: &ScriptWord) -> bool {
    word.text.starts_with("-f") || word.text.starts_with("-F") || word.text.starts_with("--fi")
}

/// Returns an expansion without blanks, quotes and redirections.
fn spelling(text: &str) -> String {
    text.replace("--", "")
        .replace(">/dev/null", "")
        .replace("2>&1", "")
        .chars()
        .filter(|c| !c.is_whitespace() && !"\"'".contains(*c))
        .collect()
}
