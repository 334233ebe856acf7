//! Commands in the text of a shell script, read approximately: control structures are not
//! interpreted, and only simple expansions are resolved.

use std::collections::BTreeSet;
use std::path::Path;

use super::script_variables::ScriptVariables;
use super::statement_reader::StatementReader;
use crate::shell;

/// Maximum number of variables of which each is the value of another one.
const MAX_VARIABLE_DEPTH: usize = 2;

/// Words before a command that do not change which file it runs.
const PREFIXES: [&str; 14] = [
    "!", "{", "builtin", "command", "coproc", "do", "elif", "else", "exec", "if", "then", "time",
    "until", "while",
];

/// A word of a script without quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScriptWord {
    /// The text, with `*` for each unknown part.
    pub(super) text: String,
    /// No part is unknown.
    pub(super) is_known: bool,
    /// A part is only known when the script runs: [`Self::comes_from_data`], or a pattern.
    pub(super) is_computed: bool,
    /// A part is only known when the script runs: the output of a command, or a variable that holds
    /// such output.
    pub(super) comes_from_data: bool,
    /// Parameters of the script, and variables that it does not set.
    pub(super) outer_variables: BTreeSet<String>,
}

impl ScriptWord {
    /// Creates a word with a text that is known so far.
    pub(super) fn new(text: &str) -> Self {
        ScriptWord {
            text: text.to_owned(),
            is_known: true,
            is_computed: false,
            comes_from_data: false,
            outer_variables: BTreeSet::new(),
        }
    }

    /// Returns true if data determines the beginning of the word, so the word can name any program
    /// or file.
    pub(super) fn begins_with_output(&self) -> bool {
        self.comes_from_data && self.text.starts_with('*')
    }
}

/// A command of a script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ScriptStatement {
    pub(super) words: Vec<ScriptWord>,
    /// A redirection writes a file.
    pub(super) writes_file: bool,
    /// The input of the command is a here-document.
    pub(super) has_document: bool,
    /// The command reads the output of another command, which is not just text of the script.
    pub(super) is_fed: bool,
}

impl ScriptStatement {
    /// Returns the words from the name of the program on: without assignments and keywords.
    pub(super) fn command_words(&self) -> &[ScriptWord] {
        let mut words = self.words.as_slice();
        while let Some((first, rest)) = words.split_first() {
            let text = first.text.as_str();
            if text == "function" {
                words = rest.get(1..).unwrap_or_default();
            } else if PREFIXES.contains(&text) || shell::is_assignment(text) {
                words = rest;
            } else {
                break;
            }
        }
        words
    }
}

/// Commands of a script, and the names that it defines.
#[derive(Debug, Default)]
pub(super) struct ScriptText {
    pub(super) statements: Vec<ScriptStatement>,
    /// Variables whose values come from data that the script reads.
    pub(super) data_variables: BTreeSet<String>,
    pub(super) functions: BTreeSet<String>,
    /// Shells can read the text in another way: a quote or bracket stays open, for example.
    pub(super) is_unclear: bool,
}

impl ScriptText {
    /// Reads the text of a script in the directory `folder`.
    pub(super) fn read(text: &str, folder: &Path) -> ScriptText {
        let folder = folder.display().to_string();
        let mut variables = ScriptVariables::default();
        // A value can contain another variable.
        for _ in 0..MAX_VARIABLE_DEPTH {
            let script = Self::read_with(text, &folder, &variables);
            variables = ScriptVariables::of(&script.statements, &script.functions);
        }
        let mut script = Self::read_with(text, &folder, &variables);
        script.data_variables = variables.data_variables();
        script
    }

    /// Reads a text with these values of its variables.
    fn read_with(text: &str, folder: &str, variables: &ScriptVariables) -> ScriptText {
        let mut script = StatementReader::read_script(text, folder, variables, 0);
        for statement in &script.statements {
            if let [first, name, ..] = statement.words.as_slice()
                && first.text == "function"
            {
                script.functions.insert(name.text.clone());
            }
        }
        script
    }
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
