//! Execution of the command lines of a call: with a shell, or without one and contained.

use std::collections::BTreeMap;

use goondan_spec::kinds::SandboxSettings;

/// Sandbox of a command that a rule allows with a pattern. The pattern determines the program. Its
/// access follows from the other permissions of the agent and from the rule's own `sandbox`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandContainment {
    /// Access in addition to the default.
    pub sandbox: SandboxSettings,
    /// Allows writing in the working directory.
    pub writes: bool,
}

/// Execution of the command lines of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RunMode {
    /// With a shell: the complete line is approved, with all its effects.
    #[default]
    Shell,
    /// Without a shell, so that only the checked commands run.
    Direct(DirectExecution),
}

/// Data of a line that runs without a shell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DirectExecution {
    /// Containment of each command, by its number.
    pub commands: Vec<Vec<CommandContainment>>,
    /// Containment for opening each file of a redirection, by [`crate::shell::file`].
    pub files: BTreeMap<String, Vec<CommandContainment>>,
    /// Allowed to run outside the working directory.
    pub is_outside: bool,
}

impl RunMode {
    /// Changes the mode to run without a shell.
    pub fn make_direct(&mut self) -> &mut DirectExecution {
        if *self == RunMode::Shell {
            *self = RunMode::Direct(DirectExecution::default());
        }
        match self {
            RunMode::Direct(direct) => direct,
            RunMode::Shell => unreachable!("it was made direct"),
        }
    }

    /// Adds a containment to a command of the line. Changes the mode to run without a shell.
    pub fn contain(&mut self, command: usize, containment: CommandContainment) {
        let commands = &mut self.make_direct().commands;
        commands.resize(commands.len().max(command + 1), Vec::new());
        commands[command].push(containment);
    }

    /// Adds a containment to a file of a redirection. Changes the mode to run without a shell.
    pub fn contain_file(&mut self, file: &str, containment: CommandContainment) {
        self.make_direct()
            .files
            .entry(file.to_owned())
            .or_default()
            .push(containment);
    }

    /// Returns the mode that satisfies both modes, with the containments of both.
    pub fn and(mut self, other: RunMode) -> RunMode {
        if let RunMode::Direct(other) = other {
            self.make_direct().is_outside |= other.is_outside;
            for (number, containments) in other.commands.into_iter().enumerate() {
                for containment in containments {
                    self.contain(number, containment);
                }
            }
            for (file, containments) in other.files {
                for containment in containments {
                    self.contain_file(&file, containment);
                }
            }
        }
        self
    }
}
