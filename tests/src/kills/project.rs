//! The project: an agent whose extension and tool count their operations, and one that they ask.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde_json::json;

use crate::library;

const BUNDLE: &str = r#"
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec:
  provider: scripted
  model: script
  options:
    rules:
      - when: {role: user, contains: begun}
        reply: {calls: [{id: c, tool: t__act, args: {}}]}
      - when: {role: tool}
        reply: {text: done}
    default: {text: heard}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: t}
spec:
  entry: ./FILE
  exports: [{name: act, description: Acts., parameters: {type: object}}]
---
apiVersion: goondan.ai/v1
kind: Extension
metadata: {name: e}
spec: {entry: ./FILE}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec:
  modelConfig: {modelRef: Model/m}
  permissions: {default: allow}
  tools: [{ref: Tool/t}]
  extensions: [{ref: Extension/e}]
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: other}
spec: {modelConfig: {modelRef: Model/m}}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: kills}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}, {ref: Agent/other}]}
"#;

/// In what the module is written.
#[derive(Debug, Clone)]
pub(super) struct Language {
    pub(super) name: &'static str,
    /// Who may be killed. A library runs in `gdn`.
    pub(super) victims: &'static [Who],
    file: String,
    module: Vec<u8>,
}

/// Every language that can be had here, and those that can't.
pub(super) fn languages() -> anyhow::Result<(Vec<Language>, Vec<&'static str>)> {
    let module = |name, file: &str, text: &str| Language {
        name,
        victims: &[Who::Host, Who::Gdn],
        file: file.to_owned(),
        module: text.into(),
    };
    let modules = [
        module("node", "module.mjs", include_str!("module.mjs")),
        module("python3", "module.py", include_str!("module.py")),
    ];
    let is_there = |one: &Language| Command::new(one.name).arg("--version").output().is_ok();
    let (mut there, missing): (Vec<_>, Vec<_>) = modules.into_iter().partition(is_there);
    let library = library::build("kills")?;
    let file = library
        .file_name()
        .and_then(|name| name.to_str())
        .context("the library has a name")?
        .to_owned();
    there.push(Language {
        name: "a library",
        victims: &[Who::Gdn],
        file,
        module: std::fs::read(&library)?,
    });
    Ok((there, missing.into_iter().map(|one| one.name).collect()))
}

/// Who is killed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Who {
    Host,
    Gdn,
}

impl Display for Who {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Who::Host => "host",
            Who::Gdn => "gdn",
        })
    }
}

/// Writes the project in which `who` is killed at operation `number`.
pub(super) fn write(
    folder: &Path,
    language: &Language,
    who: Who,
    number: u32,
) -> anyhow::Result<PathBuf> {
    let project = folder.join("project");
    std::fs::create_dir_all(&project)?;
    std::fs::write(
        project.join("goondan.yaml"),
        BUNDLE.replace("FILE", &language.file),
    )?;
    std::fs::write(project.join(&language.file), &language.module)?;
    std::fs::write(
        project.join("plan"),
        json!({"number": number, "who": who.to_string()}).to_string(),
    )?;
    Ok(project)
}
