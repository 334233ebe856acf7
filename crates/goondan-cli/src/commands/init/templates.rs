//! Templates of `gdn init`. The files are in `templates/`, so that they can be read and checked.

use clap::ValueEnum;

/// Placeholder for the project name in template files.
const NAME_PLACEHOLDER: &str = "__NAME__";

/// Template of a new project.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ProjectTemplate {
    /// One agent with two tools and a prompt file
    #[default]
    Default,
    /// A coordinator that delegates to a worker
    MultiAgent,
    /// A coordinator, a coder and a reviewer that work in the git repository around the project
    Repository,
    /// One agent that changes and tests the code of the git repository around the project
    Coding,
    /// A lead that answers with sources, and a researcher that searches
    Research,
    /// An agent that answers other programs over HTTP with JSON
    Service,
    /// One agent without tools, in one file
    Minimal,
}

/// File that is never overwritten: missing lines are appended.
pub(super) const GITIGNORE: &str = ".gitignore";

/// File of a template.
#[derive(Debug)]
pub(super) struct TemplateFile {
    /// Path relative to the project directory.
    pub(super) path: &'static str,
    /// Content with the project name filled in.
    pub(super) text: String,
}

macro_rules! files {
    ($folder:literal: $($path:literal),* $(,)?) => {
        &[
            $(($path, include_str!(concat!("../../../templates/", $folder, "/", $path)))),*,
            (GITIGNORE, include_str!("../../../templates/gitignore")),
        ]
    };
}

const DEFAULT_FILES: &[(&str, &str)] =
    files!("default": "goondan.yaml", "agents.yaml", "prompts/assistant.md", "script.yaml");
const MULTI_AGENT_FILES: &[(&str, &str)] =
    files!("multi-agent": "goondan.yaml", "agents.yaml", "script.yaml");
const REPOSITORY_FILES: &[(&str, &str)] = files!(
    "repository":
    "goondan.yaml",
    "agents.yaml",
    "prompts/coordinator.md",
    "prompts/coder.md",
    "prompts/reviewer.md",
    "script.yaml",
);
const CODING_FILES: &[(&str, &str)] = files!(
    "coding":
    "goondan.yaml",
    "agents.yaml",
    "prompts/coder.md",
    "script.yaml",
    "coding.case.yaml",
    "README.md",
);
const RESEARCH_FILES: &[(&str, &str)] = files!(
    "research":
    "goondan.yaml",
    "agents.yaml",
    "prompts/lead.md",
    "prompts/researcher.md",
    "memory/tides.md",
    "script.yaml",
    "research.case.yaml",
    "README.md",
);
const SERVICE_FILES: &[(&str, &str)] = files!(
    "service":
    "goondan.yaml",
    "agents.yaml",
    "prompts/desk.md",
    "knowledge.md",
    "script.yaml",
    "service.case.yaml",
    "README.md",
);
const MINIMAL_FILES: &[(&str, &str)] = files!("minimal": "goondan.yaml", "script.yaml");

impl TemplateFile {
    /// Returns true if an existing file is extended instead of overwritten.
    pub(super) fn is_added_to(&self) -> bool {
        self.path == GITIGNORE
    }
}

impl ProjectTemplate {
    /// Name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            ProjectTemplate::Default => "default",
            ProjectTemplate::MultiAgent => "multi-agent",
            ProjectTemplate::Repository => "repository",
            ProjectTemplate::Coding => "coding",
            ProjectTemplate::Research => "research",
            ProjectTemplate::Service => "service",
            ProjectTemplate::Minimal => "minimal",
        }
    }

    /// Returns true if the agents of this template work in a git repository around the project.
    pub(super) fn works_in_repository(self) -> bool {
        matches!(self, ProjectTemplate::Repository | ProjectTemplate::Coding)
    }

    /// Returns the files of the template, with the project name filled in.
    pub(super) fn files(self, name: &str) -> Vec<TemplateFile> {
        let files = match self {
            ProjectTemplate::Default => DEFAULT_FILES,
            ProjectTemplate::MultiAgent => MULTI_AGENT_FILES,
            ProjectTemplate::Repository => REPOSITORY_FILES,
            ProjectTemplate::Coding => CODING_FILES,
            ProjectTemplate::Research => RESEARCH_FILES,
            ProjectTemplate::Service => SERVICE_FILES,
            ProjectTemplate::Minimal => MINIMAL_FILES,
        };
        files
            .iter()
            .map(|&(path, text)| TemplateFile {
                path,
                text: text.replace(NAME_PLACEHOLDER, name),
            })
            .collect()
    }
}
