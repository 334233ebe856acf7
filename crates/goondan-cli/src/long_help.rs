//! Help of each command: the short one of `-h`, and the long one of `--help` and `gdn help`.

use clap::builder::StyledStr;
use clap::{Command, CommandFactory};

use crate::args::CommandLine;
use crate::command_groups;
use crate::help_texts::{COMMAND_TEXTS, CommandText};

/// Amount of help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HelpLength {
    /// Arguments only, for `-h`.
    Short,
    /// Explanation, arguments and examples, for `--help`.
    Long,
}

/// Renders the help of the command at `path`, such as `gdn package list`.
pub(crate) fn help(path: &str, length: HelpLength) -> StyledStr {
    let mut root = match length {
        HelpLength::Long => with_command_texts(CommandLine::command(), &mut Vec::new()),
        HelpLength::Short => CommandLine::command(),
    };
    root.build();
    let subcommand_names: Vec<&str> = path.split(' ').skip(1).collect();
    let mut selected = &root;
    for name in &subcommand_names {
        selected = selected.find_subcommand(name).unwrap_or(selected);
    }
    let mut command = match length {
        HelpLength::Long => with_long_about(selected.clone()),
        HelpLength::Short => selected.clone().after_help(format!(
            "`{path} --help` explains the command, with examples."
        )),
    };
    if subcommand_names.is_empty() {
        command_groups::help(command)
    } else {
        command.render_help()
    }
}

/// Adds the texts in [`COMMAND_TEXTS`] to a command and its subcommands: the explanation as the
/// long description, and examples where a command has none. `path` contains the names of the
/// subcommands that lead to `command`.
pub(crate) fn with_command_texts(command: Command, path: &mut Vec<String>) -> Command {
    let joined_path = path.join(" ");
    let text = COMMAND_TEXTS
        .iter()
        .find(|text| text.command == joined_path);
    let mut command = match text {
        Some(text) => with_command_text(command, text),
        None => command,
    };
    let subcommand_names: Vec<String> = command
        .get_subcommands()
        .map(|subcommand| subcommand.get_name().to_owned())
        .collect();
    for name in subcommand_names {
        path.push(name.clone());
        command = command.mut_subcommand(name, |subcommand| with_command_texts(subcommand, path));
        path.pop();
    }
    command
}

/// Adds an explanation to a command, and examples if the command has none.
fn with_command_text(command: Command, text: &CommandText) -> Command {
    let about = command.get_about().map(ToString::to_string);
    let about = about.unwrap_or_default();
    let has_examples = command.get_after_help().is_some();
    let command = command.long_about(format!("{about}\n\n{}", text.text));
    if has_examples || text.examples.is_empty() {
        return command;
    }
    command.after_help(format!("Examples:\n{}", text.examples))
}

/// Makes the long description the one that the short layout prints.
fn with_long_about(command: Command) -> Command {
    match command.get_long_about().cloned() {
        Some(about) => command.about(about),
        None => command,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    /// Calls `visit` with a command and its path, then with each public subcommand.
    fn visit_commands(command: &Command, path: &str, visit: &mut dyn FnMut(&Command, &str)) {
        visit(command, path);
        for subcommand in command
            .get_subcommands()
            .filter(|subcommand| !subcommand.is_hide_set())
        {
            // The path of the root command is empty.
            let path = format!("{path} {}", subcommand.get_name());
            visit_commands(subcommand, path.trim_start(), visit);
        }
    }

    /// Splits the first command of an example into words. Two spaces begin its description.
    fn words(example: &str) -> Option<Vec<String>> {
        let mut words = Vec::new();
        let mut word = String::new();
        let mut quote = None;
        let mut characters = example.trim().chars().peekable();
        while let Some(character) = characters.next() {
            match (quote, character) {
                (Some(open), _) if character == open => quote = None,
                (Some(_), _) => word.push(character),
                (None, '\'' | '"') => quote = Some(character),
                (None, ' ') => {
                    words.push(std::mem::take(&mut word));
                    if characters.peek() == Some(&' ') {
                        break;
                    }
                }
                (None, _) => word.push(character),
            }
        }
        words.push(word);
        words.retain(|word| !word.is_empty());
        let start = words.iter().position(|word| word == "gdn")?;
        let rest = words.split_off(start);
        let end = |word: &String| ["|", ">", "<"].contains(&word.as_str());
        Some(rest.into_iter().take_while(|word| !end(word)).collect())
    }

    #[test]
    fn each_command_has_an_explanation_and_examples() {
        let command = with_command_texts(CommandLine::command(), &mut Vec::new());
        let mut known = Vec::new();
        visit_commands(&command, "", &mut |command, path| {
            known.push(path.to_owned());
            let is_group = command.has_subcommands() && command.is_subcommand_required_set();
            assert!(command.get_long_about().is_some(), "gdn {path}");
            assert!(is_group || command.get_after_help().is_some(), "gdn {path}");
        });
        for text in COMMAND_TEXTS {
            assert!(
                known.iter().any(|path| path == text.command),
                "{}",
                text.command
            );
        }
    }

    #[test]
    fn each_example_is_a_valid_command_line() {
        let command = with_command_texts(CommandLine::command(), &mut Vec::new());
        let mut parsed = 0;
        let mut invalid = Vec::new();
        visit_commands(&command, "", &mut |command, path| {
            let help = command.get_after_help().map(ToString::to_string);
            let mut of_command = 0;
            for line in help.iter().flat_map(|help| help.lines()) {
                let Some(words) = words(line).filter(|_| line.starts_with("  ")) else {
                    continue;
                };
                if let Err(error) = CommandLine::try_parse_from(&words) {
                    invalid.push(format!("gdn {path}: {line}\n{error}"));
                }
                of_command += 1;
            }
            assert!(
                of_command > 0 || help.is_none(),
                "gdn {path} has no examples"
            );
            parsed += of_command;
        });
        assert!(invalid.is_empty(), "{}", invalid.join("\n"));
        assert!(parsed > 120, "{parsed}");
    }
}
