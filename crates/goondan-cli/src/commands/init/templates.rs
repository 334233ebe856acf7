//! What `gdn init` writes. The files lie in `templates/`, so that they can be read and checked as what they are.

use clap::ValueEnum;

/// Stands in the template files where the project's name goes.
const NAME: &str = "__NAME__";

/// A project to start from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Template {
    /// One agent with two tools and a prompt in a file of its own
    #[default]
    Default,
    /// A coordinator that asks a worker
    MultiAgent,
    /// A coordinator, a coder and a reviewer that work in the git repository around the project
    Repository,
    /// One agent that changes and tests the code of the git repository around the project
    Coding,
    /// A lead that answers with sources, and a researcher that looks things up
    Research,
    /// An agent that answers other programs over HTTP, as data
    Service,
    /// One agent without tools, in one file
    Minimal,
}

/// The file that is never overwritten: what it lacks is added.
pub(super) const GITIGNORE: &str = ".gitignore";

/// A file of a template.
#[derive(Debug)]
pub(super) struct File {
    /// Relative to the project's folder.
    pub(super) path: &'static str,
    /// With the project's name filled in.
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

const DEFAULT: &[(&str, &str)] =
    files!("default": "goondan.yaml", "agents.yaml", "prompts/assistant.md", "script.yaml");
const MULTI_AGENT: &[(&str, &str)] =
    files!("multi-agent": "goondan.yaml", "agents.yaml", "script.yaml");
const REPOSITORY: &[(&str, &str)] = files!(
    "repository":
    "goondan.yaml",
    "agents.yaml",
    "prompts/coordinator.md",
    "prompts/coder.md",
    "prompts/reviewer.md",
    "script.yaml",
);
const CODING: &[(&str, &str)] = files!(
    "coding":
    "goondan.yaml",
    "agents.yaml",
    "prompts/coder.md",
    "script.yaml",
    "coding.case.yaml",
    "README.md",
);
const RESEARCH: &[(&str, &str)] = files!(
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
const SERVICE: &[(&str, &str)] = files!(
    "service":
    "goondan.yaml",
    "agents.yaml",
    "prompts/desk.md",
    "knowledge.md",
    "script.yaml",
    "service.case.yaml",
    "README.md",
);
const MINIMAL: &[(&str, &str)] = files!("minimal": "goondan.yaml", "script.yaml");

impl File {
    /// Whether it keeps what is in it.
    pub(super) fn is_added_to(&self) -> bool {
        self.path == GITIGNORE
    }
}

impl Template {
    /// As it is typed.
    pub(super) fn name(self) -> &'static str {
        match self {
            Template::Default => "default",
            Template::MultiAgent => "multi-agent",
            Template::Repository => "repository",
            Template::Coding => "coding",
            Template::Research => "research",
            Template::Service => "service",
            Template::Minimal => "minimal",
        }
    }

    /// Whether its agents work in the git repository around the project.
    pub(super) fn works_in_repository(self) -> bool {
        matches!(self, Template::Repository | Template::Coding)
    }

    /// The files of a project called `name`.
    pub(super) fn files(self, name: &str) -> Vec<File> {
        let files = match self {
            Template::Default => DEFAULT,
            Template::MultiAgent => MULTI_AGENT,
            Template::Repository => REPOSITORY,
            Template::Coding => CODING,
            Template::Research => RESEARCH,
            Template::Service => SERVICE,
            Template::Minimal => MINIMAL,
        };
        files
            .iter()
            .map(|&(path, text)| File {
                path,
                text: text.replace(NAME, name),
            })
            .collect()
    }
}
