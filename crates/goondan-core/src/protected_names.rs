//! Names of protected files: files that define permissions, that run automatically later, or that
//! contain keys.

use goondan_spec::secret_files::is_secret_name;

/// Reason why a path is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtectionReason {
    /// A directory or file of git, such as `.git`. Git runs files in it, such as hooks.
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
    /// A file or directory from which programs load code or settings, although no command names it.
    Loaded,
    /// A file with several hard links, one of which can have a protected name.
    HardLinks,
}

/// Names of files and directories from which programs load code or settings, although no command
/// names them. In lower case.
const LOADED_NAMES: [&str; 84] = [
    // Code of interpreters and package managers, and files that name such code.
    "__pycache__",
    ".bundle",
    ".bunfig.toml",
    ".cargo",
    ".mvn",
    ".npmrc",
    ".pnp.cjs",
    ".pnp.loader.mjs",
    ".pnpmfile.cjs",
    ".venv",
    ".yarn",
    ".yarnrc",
    ".yarnrc.yml",
    "bunfig.toml",
    "conftest.py",
    "node_modules",
    "pyvenv.cfg",
    "sitecustomize.py",
    "usercustomize.py",
    "venv",
    // Version control other than git, and its hooks.
    ".bzr",
    ".hg",
    ".hgrc",
    ".husky",
    ".huskyrc",
    ".jj",
    ".lefthook-local.yml",
    ".lefthook.yml",
    ".lintstagedrc",
    ".overcommit.yml",
    ".pijul",
    ".pre-commit-config.yaml",
    ".svn",
    "_darcs",
    "lefthook-local.yml",
    "lefthook.yml",
    // Agents and editors.
    ".amazonq",
    ".claude",
    ".clinerules",
    ".codex",
    ".continue",
    ".crush.json",
    ".cursor",
    ".cursorrules",
    ".devcontainer",
    ".devcontainer.json",
    ".dir-locals.el",
    ".exrc",
    ".gemini",
    ".goosehints",
    ".helix",
    ".idea",
    ".kiro",
    ".lvimrc",
    ".mcp.json",
    ".nvim.lua",
    ".nvimrc",
    ".opencode",
    ".qwen",
    ".roo",
    ".trae",
    ".vimrc",
    ".vscode",
    ".windsurf",
    ".windsurfrules",
    ".zed",
    "crush.json",
    "opencode.json",
    "opencode.jsonc",
    // Debuggers, consoles, and tools that run at the start of a program or a shell.
    ".bazelrc",
    ".gdbinit",
    ".irbrc",
    ".lldbinit",
    ".mise",
    ".mise.local.toml",
    ".mise.toml",
    ".pdbrc",
    ".pryrc",
    ".renviron",
    ".rprofile",
    ".tool-versions",
    "mise",
    "mise.local.toml",
    "mise.toml",
];

/// Files and directories with code that git runs, or with the names of that code.
const GIT_NAMES: [&str; 4] = [".git", ".gitattributes", ".gitconfig", ".gitmodules"];

/// Suffixes of compiled modules, and of lists of them, that Python loads in place of a source file, and
/// of settings of editors.
const LOADED_SUFFIXES: [&str; 5] = [".code-workspace", ".pth", ".pyc", ".pyd", ".pyo"];

impl ProtectionReason {
    /// Returns the reason why a file or directory with this name is protected in every project.
    /// `name` is in lower case.
    pub fn of_name(name: &str) -> Option<ProtectionReason> {
        match name {
            name if GIT_NAMES.contains(&name) => Some(ProtectionReason::Git),
            ".goondan" => Some(ProtectionReason::Own),
            name if is_secret_name(name) => Some(ProtectionReason::Secrets),
            name if LOADED_NAMES.contains(&name) => Some(ProtectionReason::Loaded),
            name if LOADED_SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) => {
                Some(ProtectionReason::Loaded)
            }
            name if name.starts_with(".lintstagedrc.") => Some(ProtectionReason::Loaded),
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
            ProtectionReason::HardLinks => {
                "it has several hard links, and another one may be a protected place"
            }
            ProtectionReason::Loaded => "programs load code or settings from it",
        }
    }
}
