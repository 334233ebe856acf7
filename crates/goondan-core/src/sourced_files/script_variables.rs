//! Values of the variables that a shell script sets.

use std::collections::{BTreeMap, BTreeSet};

use super::script_text::{ScriptStatement, ScriptWord};
use crate::shell::is_variable_name;

/// Name under which all parameters of a script or function are known.
pub(super) const PARAMETERS: &str = "@";

/// Commands whose arguments are names of variables that they change.
const SETTERS: [&str; 6] = ["for", "getopts", "mapfile", "read", "readarray", "select"];

/// Commands that declare variables. With an option `-n`, the variable is another name of one that
/// its value names.
const DECLARATIONS: [&str; 5] = ["declare", "export", "local", "readonly", "typeset"];

/// Value of a variable that a script sets.
#[derive(Debug, Clone)]
pub(super) struct VariableValue {
    /// The text, with `*` for each unknown part.
    pub(super) text: String,
    pub(super) is_known: bool,
    /// The value is only known when the script runs, such as the output of a command.
    pub(super) comes_from_data: bool,
    /// Parameters of the script, and variables that it does not set.
    pub(super) outer_variables: BTreeSet<String>,
}

impl VariableValue {
    /// Returns the value of a variable that the script sets from data it reads, such as `read NAME`.
    fn unknown_from_data() -> Self {
        VariableValue {
            text: "*".to_owned(),
            is_known: false,
            comes_from_data: true,
            outer_variables: BTreeSet::new(),
        }
    }

    /// Adds another value of the same variable.
    fn add(&mut self, other: VariableValue) {
        if self.text != other.text {
            "*".clone_into(&mut self.text);
            self.is_known = false;
        }
        self.is_known &= other.is_known;
        self.comes_from_data |= other.comes_from_data;
        self.outer_variables.extend(other.outer_variables);
    }
}

/// Values of the variables that a script sets, by name.
#[derive(Debug, Default)]
pub(super) struct ScriptVariables(BTreeMap<String, VariableValue>);

impl ScriptVariables {
    /// Collects the values that statements set. `functions` are the functions of the script.
    pub(super) fn of(statements: &[ScriptStatement], functions: &BTreeSet<String>) -> Self {
        let mut variables = ScriptVariables::default();
        for statement in statements {
            variables.add_statement(statement, functions);
        }
        variables
    }

    pub(super) fn get(&self, name: &str) -> Option<&VariableValue> {
        self.0.get(name)
    }

    /// Returns the names of variables whose values come from data.
    pub(super) fn data_variables(&self) -> BTreeSet<String> {
        let with_data = self.0.iter().filter(|(_, value)| value.comes_from_data);
        with_data.map(|(name, _)| name.clone()).collect()
    }

    fn add(&mut self, name: &str, value: VariableValue) {
        match self.0.get_mut(name) {
            Some(known) => known.add(value),
            None => drop(self.0.insert(name.to_owned(), value)),
        }
    }

    fn add_statement(&mut self, statement: &ScriptStatement, functions: &BTreeSet<String>) {
        for word in &statement.words {
            self.add_assignment(word);
        }
        let Some((command, arguments)) = statement.command_words().split_first() else {
            return;
        };
        let has_option = |letter: char| {
            let is_option = |word: &ScriptWord| word.text.starts_with('-');
            arguments
                .iter()
                .any(|word| is_option(word) && word.text.contains(letter))
        };
        let command = command.text.as_str();
        let comes_from_data = arguments.iter().any(|word| word.comes_from_data);
        if SETTERS.contains(&command)
            || DECLARATIONS.contains(&command) && has_option('n')
            || command == "printf" && has_option('v')
        {
            for word in arguments {
                let name = word.text.split('=').next().unwrap_or_default();
                if is_variable_name(name) {
                    self.add(name, VariableValue::unknown_from_data());
                }
            }
        } else if comes_from_data && (command == "set" || functions.contains(command)) {
            self.add(PARAMETERS, VariableValue::unknown_from_data());
        }
    }

    /// Adds the variable of a word such as `NAME=value` or `NAME+=value`.
    fn add_assignment(&mut self, word: &ScriptWord) {
        let Some((name, text)) = word.text.split_once('=') else {
            return;
        };
        if is_variable_name(name) {
            let value = VariableValue {
                text: text.to_owned(),
                is_known: word.is_known,
                comes_from_data: word.comes_from_data,
                outer_variables: word.outer_variables.clone(),
            };
            self.add(name, value);
        } else if let Some(name) = name.strip_suffix('+').filter(|name| is_variable_name(name)) {
            self.add(name, VariableValue::unknown_from_data());
        }
    }
}
