//! Commands in the text of a shell script, read approximately: control structures are not
//! interpreted, and only simple expansions are resolved.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::path::Path;
use std::str::Chars;

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

/// Maximum number of variables of which each is the value of another one.
const MAX_VARIABLE_DEPTH: usize = 2;

/// Maximum number of nested substitutions that are read.
const MAX_NESTING_DEPTH: usize = 8;

/// Commands whose arguments are names of variables that they change.
const SETTERS: [&str; 4] = ["for", "getopts", "read", "select"];

/// A word of a script without quotes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ScriptWord {
    /// The text, with `*` for each unknown part.
    pub(super) text: String,
    /// No part is unknown.
    pub(super) is_known: bool,
    /// A part comes from data that the script reads: a substitution, a variable that it sets, or a
    /// pattern.
    pub(super) is_computed: bool,
}

/// A command of a script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ScriptStatement {
    pub(super) words: Vec<ScriptWord>,
    /// A redirection writes a file.
    pub(super) writes_file: bool,
}

/// Value of a variable that a script sets.
#[derive(Debug, Clone, Default)]
struct VariableValue {
    /// The text; `None` if it is unknown, or there are several.
    text: Option<String>,
    /// True if the script computes the value at run time.
    is_computed: bool,
}

/// Values of the variables that a script sets.
type Variables = BTreeMap<String, VariableValue>;

/// Returns the commands in the text of a script in the directory `folder`.
pub(super) fn statements(text: &str, folder: &Path) -> Vec<ScriptStatement> {
    let folder_text = folder.display().to_string();
    let mut variables = Variables::new();
    // A value can contain another variable.
    for _ in 0..MAX_VARIABLE_DEPTH {
        let mut resolved = Variables::new();
        for statement in read_statements(text, &folder_text, &variables, 0) {
            add_assignments(&statement.words, &mut resolved);
        }
        variables = resolved;
    }
    read_statements(text, &folder_text, &variables, 0)
}

/// Adds the variables that a command sets.
fn add_assignments(statement: &[ScriptWord], variables: &mut Variables) {
    let is_setter = statement
        .first()
        .is_some_and(|word| SETTERS.contains(&word.text.as_str()));
    for word in statement {
        if let Some((name, value)) = word.text.split_once('=').filter(|(name, _)| is_name(name)) {
            let text = word.is_known.then(|| value.to_owned());
            let first_value = || VariableValue {
                text: text.clone(),
                is_computed: word.is_computed,
            };
            let values = variables.entry(name.to_owned()).or_insert_with(first_value);
            values.text = values
                .text
                .take()
                .filter(|known| Some(known) == text.as_ref());
            values.is_computed |= word.is_computed;
        } else if is_setter && is_name(&word.text) {
            let read = VariableValue {
                text: None,
                is_computed: true,
            };
            variables.insert(word.text.clone(), read);
        }
    }
}

fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty() && text.chars().all(is_part) && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// Returns the lines of a text. A backslash at the end joins a line with the next one.
pub(super) fn logical_lines(text: &str) -> Vec<String> {
    text.replace("\\\r\n", " ")
        .replace("\\\n", " ")
        .lines()
        .map(str::to_owned)
        .collect()
}

/// Returns the shell text of a recipe line in a Makefile. Variables of `make` become unknown.
pub(super) fn cleaned_recipe(recipe: &str) -> String {
    const SHELL_DOLLAR: &str = "\u{1}";
    let recipe = recipe.trim_start().trim_start_matches(['@', '-', '+']);
    let mut text = recipe.replace("$$", SHELL_DOLLAR);
    for (name, value) in [("MAKE", "make"), ("SHELL", "sh"), ("CURDIR", ".")] {
        text = text.replace(&format!("$({name})"), value);
        text = text.replace(&format!("${{{name}}}"), value);
    }
    // No variable of a shell has such a name.
    text.replace("$(", "$(?")
        .replace("${", "${?")
        .replace(SHELL_DOLLAR, "$")
}

/// Parses the text of a script, including the commands in its substitutions.
fn read_statements(
    text: &str,
    around: &str,
    variables: &Variables,
    nesting: usize,
) -> Vec<ScriptStatement> {
    let mut reader = StatementReader {
        rest: text.chars().peekable(),
        around,
        variables,
        nesting,
        statements: Vec::new(),
        statement: ScriptStatement::default(),
        word: None,
        depth: 0,
        is_output: false,
    };
    while let Some(next) = reader.rest.next() {
        reader.take(next);
    }
    reader.end_statement();
    reader.statements
}

struct StatementReader<'a> {
    rest: Peekable<Chars<'a>>,
    around: &'a str,
    variables: &'a Variables,
    /// Number of substitutions around the text.
    nesting: usize,
    statements: Vec<ScriptStatement>,
    statement: ScriptStatement,
    word: Option<ScriptWord>,
    /// Number of open brackets.
    depth: usize,
    /// The next word is the target of an output redirection.
    is_output: bool,
}

impl StatementReader<'_> {
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
        let statement = std::mem::take(&mut self.statement);
        self.statements
            .extend(Some(statement).filter(|statement| !statement.words.is_empty()));
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

    /// Returns the current word; begins one if there is none.
    fn current(&mut self) -> &mut ScriptWord {
        self.word.get_or_insert_with(|| ScriptWord {
            text: String::new(),
            is_known: true,
            is_computed: false,
        })
    }

    /// Reads one character outside of quotes.
    fn take(&mut self, next: char) {
        match next {
            '\\' => match self.rest.next() {
                Some('\n') | None => {}
                Some(c) => self.push(c),
            },
            '\'' => {
                self.current();
                while let Some(c) = self.rest.next().filter(|c| *c != '\'') {
                    self.push(c);
                }
            }
            '"' => self.take_quoted(),
            '$' | '`' => self.take_expansion(next),
            '#' if self.word.is_none() => while self.rest.next_if(|c| *c != '\n').is_some() {},
            '>' => {
                self.end_word();
                self.is_output = true;
            }
            '&' if self.is_output => {}
            '(' => {
                self.depth += 1;
                self.end_statement();
            }
            ')' => {
                self.end_statement();
                // Before such a bracket is the pattern of a `case`.
                match self.depth.checked_sub(1) {
                    Some(depth) => self.depth = depth,
                    None => drop(self.statements.pop()),
                }
            }
            '\n' | ';' | '&' | '|' => self.end_statement(),
            '<' => self.end_word(),
            '{' if self.rest.peek().is_some_and(|c| !c.is_whitespace()) => self.push_pattern(next),
            '*' | '?' | '[' => self.push_pattern(next),
            c if c.is_whitespace() => self.end_word(),
            c => self.push(c),
        }
    }

    /// Reads up to the closing double quote.
    fn take_quoted(&mut self) {
        self.current();
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
    }

    /// Reads an expansion after its sign, and adds its value.
    fn take_expansion(&mut self, sign: char) {
        let (name, is_command) = match (sign, self.rest.peek()) {
            ('`', _) => {
                let mut text = String::new();
                while let Some(c) = self.rest.next().filter(|c| *c != '`') {
                    text.push(c);
                }
                (text, true)
            }
            (_, Some('(')) => (self.take_bracketed('(', ')'), true),
            (_, Some('{')) => (self.take_bracketed('{', '}'), false),
            _ => (self.variable_name(), false),
        };
        let value = self.value(&name, is_command);
        let variable = self.variables.get(&name);
        let is_computed = is_command || variable.is_some_and(|variable| variable.is_computed);
        let word = self.current();
        word.is_known &= value.is_some();
        word.is_computed |= is_computed && value.is_none();
        word.text.push_str(&value.unwrap_or_else(|| "*".to_owned()));
        // The output comes from commands that also run.
        if is_command && self.nesting < MAX_NESTING_DEPTH {
            let inner = read_statements(&name, self.around, self.variables, self.nesting + 1);
            self.statements.extend(inner);
        }
    }

    /// Reads the text between two brackets.
    fn take_bracketed(&mut self, open: char, close: char) -> String {
        let mut text = String::new();
        let mut depth = 0;
        for c in self.rest.by_ref() {
            depth += usize::from(c == open);
            if c == close {
                depth -= 1;
            }
            if depth == 0 {
                break;
            }
            text.push(c);
        }
        text.strip_prefix(open).unwrap_or(&text).to_owned()
    }

    /// Reads the name of a variable, or the sign of a parameter such as `$@`.
    fn variable_name(&mut self) -> String {
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

    /// Returns the value of an expansion; `None` if it is unknown.
    fn value(&self, name: &str, is_command: bool) -> Option<String> {
        let spelled: String = name
            .replace("--", "")
            .replace(">/dev/null", "")
            .replace("2>&1", "")
            .chars()
            .filter(|c| !c.is_whitespace() && !"\"'".contains(*c))
            .collect();
        if SCRIPT_DIRECTORY.contains(&spelled.as_str()) {
            return Some(self.around.to_owned());
        }
        match (spelled.as_str(), is_command) {
            ("pwd", true) | ("PWD", false) => Some(".".to_owned()),
            (_, true) => None,
            (name, false) => match self.variables.get(name) {
                Some(value) => value.text.clone(),
                None if name == "HOME" => Some("~".to_owned()),
                None => None,
            },
        }
    }
}
