//! The project that is reloaded: an agent whose prompt and whose only tool say which version they are of.

use std::path::{Path, PathBuf};

use anyhow::ensure;

use crate::library;

/// Stands in the library's answer and description.
const MARKER: &[u8] = b"GENERATION-00000";

const BUNDLE: &str = r#"
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec:
  provider: scripted
  model: script
  options:
    rules:
      - when: {role: user}
        reply: {calls: [{id: c1, tool: subject__generation, args: {}}], delayMs: 3}
      - when: {role: tool}
        reply: {text: "{{ results.c1.output.marker }}", delayMs: 2}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: subject}
spec: {entry: ./subject}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec:
  modelConfig: {modelRef: Model/m}
  prompt: {systemRef: prompt.md}
  permissions: {default: allow}
  tools: [{ref: Tool/subject, exports: [generation]}]
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: reloads}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}], policy: {maxInstances: 100000}}
"#;

/// Begins the prompt; the number of its edit follows.
pub(super) const EDIT: &str = "This prompt was edited so many times: ";

/// The project on disk.
pub(super) struct Project {
    pub(super) folder: PathBuf,
    library: Library,
}

/// The library with the places where its version stands.
pub(crate) struct Library {
    content: Vec<u8>,
    marks: Vec<usize>,
}

impl Library {
    /// Builds it.
    pub(crate) fn build() -> anyhow::Result<Self> {
        let content = std::fs::read(library::build("hostile")?)?;
        let marks: Vec<usize> = content
            .windows(MARKER.len())
            .enumerate()
            .filter(|(_, text)| *text == MARKER)
            .map(|(at, _)| at)
            .collect();
        ensure!(
            marks.len() >= 2,
            "the library names its version in its answer and in its description"
        );
        Ok(Library { content, marks })
    }

    /// Puts a version of it into `folder`, as `subject`.
    pub(crate) fn put(&mut self, folder: &Path, version: u32) -> anyhow::Result<()> {
        let name = name(version);
        for at in &self.marks {
            self.content[*at..*at + MARKER.len()].copy_from_slice(name.as_bytes());
        }
        let file = format!(
            "{}subject{}",
            std::env::consts::DLL_PREFIX,
            std::env::consts::DLL_SUFFIX
        );
        replace(&folder.join(file), &self.content)
    }
}

/// What version `number` calls itself.
pub(crate) fn name(number: u32) -> String {
    format!("GENERATION-{number:05}")
}

/// The version's name in a text that holds one.
pub(super) fn named_in(text: &str) -> Option<&str> {
    let start = text.find("GENERATION-")?;
    text.get(start..start + MARKER.len())
}

impl Project {
    /// Builds the library and writes version 0 into `folder`.
    pub(super) fn write(folder: PathBuf) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("goondan.yaml"), BUNDLE)?;
        let mut project = Project {
            folder,
            library: Library::build()?,
        };
        project.turn_into(0, 0)?;
        Ok(project)
    }

    /// Puts a version of the library and an edit of the prompt in the place of what is there, each file as a whole, as builds
    /// and editors do.
    pub(super) fn turn_into(&mut self, version: u32, edit: u32) -> anyhow::Result<()> {
        self.library.put(&self.folder, version)?;
        replace(
            &self.folder.join("prompt.md"),
            format!("{EDIT}{edit}").as_bytes(),
        )
    }
}

/// Puts `content` in the place of what is there, as a whole.
pub(crate) fn replace(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, content)?;
    Ok(std::fs::rename(&fresh, path)?)
}
