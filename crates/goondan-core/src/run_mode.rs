//! How the command lines of a call are run: by a shell, or without one and contained.

use std::collections::BTreeMap;

use goondan_spec::kinds::Sandbox;

/// What contains a command that a rule allows by a pattern. A pattern says which program runs; what that may touch
/// follows from what the agent may do otherwise, and from the rule's own `sandbox`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Containment {
    /// What is open beside the usual.
    pub sandbox: Sandbox,
    /// It writes in the working folder.
    pub writes: bool,
}

/// How the command lines of a call are run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RunMode {
    /// By a shell: somebody has allowed the whole line, whatever it does.
    #[default]
    Shell,
    /// Without a shell, so that nothing runs but the commands that were judged.
    Direct(Direct),
}

/// What is known of a line that runs without a shell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Direct {
    /// What contains each command, by its number.
    pub commands: Vec<Vec<Containment>>,
    /// What contains the opening of each file that a redirection names, by [`crate::shell::file`].
    pub files: BTreeMap<String, Vec<Containment>>,
    /// It was allowed to run outside of the working folder.
    pub is_outside: bool,
}

impl RunMode {
    /// Runs the line without a shell from now on.
    pub fn make_direct(&mut self) -> &mut Direct {
        if *self == RunMode::Shell {
            *self = RunMode::Direct(Direct::default());
        }
        match self {
            RunMode::Direct(direct) => direct,
            RunMode::Shell => unreachable!("it was made direct"),
        }
    }

    /// Contains a command of the line, which then runs without a shell.
    pub fn contain(&mut self, command: usize, containment: Containment) {
        let commands = &mut self.make_direct().commands;
        commands.resize(commands.len().max(command + 1), Vec::new());
        commands[command].push(containment);
    }

    /// Contains the opening of a file that redirections of the line name; the line then runs without a shell.
    pub fn contain_file(&mut self, file: &str, containment: Containment) {
        self.make_direct()
            .files
            .entry(file.to_owned())
            .or_default()
            .push(containment);
    }

    /// The mode that satisfies both: what either of them contains is contained.
    pub fn and(mut self, other: RunMode) -> RunMode {
        if let RunMode::Direct(other) = other {
            self.make_direct().is_outside |= other.is_outside;
            for (number, containments) in other.commands.into_iter().enumerate() {
                containments
                    .into_iter()
                    .for_each(|one| self.contain(number, one));
            }
            for (file, containments) in other.files {
                containments
                    .into_iter()
                    .for_each(|one| self.contain_file(&file, one));
            }
        }
        self
    }
}
