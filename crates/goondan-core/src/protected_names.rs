//! Names of protected files: files that define permissions, that run automatically later, or that
//! contain keys.

/// Reason why a path is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtectionReason {
    /// The directory `.git`. Git runs files in it, such as hooks.
    Git,
    /// Directory of gdn itself.
    Own,
    /// A resource file.
    Bundle,
    /// A program of a tool.
    Program,
    /// Instructions for agents, such as `AGENTS.md`.
    Instructions,
    /// A file that can contain keys, such as `.env`.
    Secrets,
}

impl ProtectionReason {
    /// Returns the reason why a file or directory with this name is protected in every project.
    /// `name` is in lower case.
    pub fn of_name(name: &str) -> Option<ProtectionReason> {
        match name {
            ".git" => Some(ProtectionReason::Git),
            ".goondan" => Some(ProtectionReason::Own),
            name if name.starts_with(".env") => Some(ProtectionReason::Secrets),
            _ => None,
        }
    }

    /// Returns the reason as a clause.
    pub fn text(self) -> &'static str {
        match self {
            ProtectionReason::Git => "git runs code from it",
            ProtectionReason::Own => "it is gdn's own directory",
            ProtectionReason::Bundle => "it defines the permissions of agents",
            ProtectionReason::Instructions => "agents follow its instructions",
            ProtectionReason::Program => "it is a program of a tool",
            ProtectionReason::Secrets => "it may contain keys of the project",
        }
    }
}
