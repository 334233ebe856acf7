//! Help of `gdn` itself, with its commands in groups.

use clap::Command;
use clap::builder::StyledStr;

/// All commands, in the order in which a user needs them.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Start", &["init", "new", "trust", "package"]),
    (
        "Check",
        &["validate", "test", "policy", "explain", "doctor"],
    ),
    (
        "Run",
        &[
            "run", "serve", "studio", "send", "attach", "ps", "stop", "cancel", "reload", "build",
        ],
    ),
    ("Inspect", &["conversation", "logs", "tool", "models"]),
    ("Connect", &["mcp", "connection", "acp", "lsp"]),
    ("Operate", &["backup", "restore", "nodes", "self"]),
    ("Generate", &["schema", "completions", "man"]),
];

/// Returns the help of `gdn` without a command, with its commands in groups.
pub(crate) fn help(mut command: Command) -> StyledStr {
    let style = *command.get_styles().get_header();
    let mut groups = String::new();
    for (heading, names) in GROUPS {
        groups += &format!("{style}{heading}:{style:#}\n");
        for name in names {
            let about = command
                .find_subcommand(name)
                .and_then(Command::get_about)
                .map(ToString::to_string)
                .unwrap_or_default();
            groups += &format!("  {name:<13}{about}\n");
        }
        groups.push('\n');
    }
    let hidden: Vec<String> = command
        .get_subcommands()
        .map(|known| known.get_name().to_owned())
        .collect();
    for name in hidden {
        command = command.mut_subcommand(name, |known| known.hide(true));
    }
    command
        .help_template(format!(
            "{{about-with-newline}}\n{{usage-heading}} gdn [OPTIONS] <COMMAND>\n\n{groups}{{all-args}}{{after-help}}"
        ))
        .render_help()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::CommandLine;

    #[test]
    fn each_command_is_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        grouped.sort_unstable();
        let command = CommandLine::command();
        let mut all: Vec<&str> = command
            .get_subcommands()
            .filter(|known| !known.is_hide_set())
            .map(Command::get_name)
            .collect();
        all.sort_unstable();
        assert_eq!(grouped, all);
    }
}
