//! Names of files that occur anywhere in the text of a script.
//!
//! A program can get the name of a file in many ways: in a variable, an option, its standard input or
//! code of another language. So each string counts that can be a path, whatever the program does with
//! it.

use std::collections::BTreeSet;

use super::never_loads_files;
use crate::started_files::pieces;

/// Maximum number of names in a script. The files of a script with more names are unknown.
const MAX_NAMES: usize = 4000;

/// Maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// Characters that end a command.
const COMMAND_ENDS: [char; 7] = [';', '|', '&', '\n', '(', ')', '`'];

/// Returns the strings in the text of a script that can be paths; `None` if there are too many.
/// Leaves out targets of output redirections, and arguments of programs that read no files.
pub(super) fn names_in_script(text: &str) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for command in text.split(COMMAND_ENDS) {
        let is_sign = |c: char| c.is_whitespace() || "@-+".contains(c);
        let command = command.trim_start_matches(is_sign);
        let program = command.split_whitespace().next().unwrap_or_default();
        if !never_loads_files(program) {
            add_names(command, &mut names);
        }
        if names.len() > MAX_NAMES {
            return None;
        }
    }
    Some(names)
}

/// Adds the names in a command, except for the targets of output redirections.
fn add_names(command: &str, names: &mut BTreeSet<String>) {
    let mut rest = command;
    while let Some((before, after)) = rest.split_once('>') {
        add_path_strings(before, names);
        // `<>` also reads the file.
        rest = if before.ends_with('<') {
            after
        } else {
            without_first_word(after.trim_start_matches(['>', ' ', '\t']))
        };
    }
    add_path_strings(rest, names);
}

/// Removes the first word, with its quotes if it is quoted, and returns the rest.
fn without_first_word(text: &str) -> &str {
    let is_quote = |c: &char| ['"', '\''].contains(c);
    match text.chars().next().filter(is_quote) {
        Some(quote) => text[1..].split_once(quote).map_or("", |(_, rest)| rest),
        None => text.find(is_separator).map_or("", |end| &text[end..]),
    }
}

/// Returns the parts of a text that could be paths. The text can be code of any programming language.
pub fn path_strings(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    add_path_strings(text, &mut names);
    names
}

/// Returns true for a character that ends a path in the text of a script.
fn is_separator(c: char) -> bool {
    c.is_whitespace() || "\"'=:,;()[]{}<>|&$`!*?\\#%^".contains(c)
}

/// Adds the strings between separators. A path can also be the beginning or end of such a string, as
/// in `s/x/run.sh/e`.
fn add_path_strings(text: &str, names: &mut BTreeSet<String>) {
    for string in text.split(is_separator) {
        let is_name = string.len() <= MAX_NAME_BYTES && string.contains(char::is_alphanumeric);
        if !is_name {
            continue;
        }
        names.insert(string.to_owned());
        for (at, _) in string.match_indices('/') {
            names.insert(string[..at].to_owned());
            names.insert(string[at + 1..].to_owned());
        }
        if string.starts_with(['-', '@', '+']) {
            names.extend(pieces(string));
        }
    }
    names.remove("");
}
