//! Names of files that say what may be done, that run later on their own, or that hold keys.

/// Why a place is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Git runs what is in it.
    Git,
    /// The folder of this program itself.
    Own,
    /// A resource file.
    Bundle,
    /// A program of a tool.
    Program,
    /// A file such as `AGENTS.md`.
    Instructions,
    /// It may hold keys.
    Secrets,
}

impl Why {
    /// Why a file or folder of that name, in lower case, is protected in every project.
    pub fn of_name(name: &str) -> Option<Why> {
        match name {
            ".git" => Some(Why::Git),
            ".goondan" => Some(Why::Own),
            name if name.starts_with(".env") => Some(Why::Secrets),
            _ => None,
        }
    }

    /// The reason, as part of a sentence.
    pub fn text(self) -> &'static str {
        match self {
            Why::Git => "git runs what is in it",
            Why::Own => "it is the folder of gdn itself",
            Why::Bundle => "it says what agents may do",
            Why::Instructions => "agents do what it says",
            Why::Program => "it is a program of a tool",
            Why::Secrets => "it may hold keys of the project",
        }
    }
}
