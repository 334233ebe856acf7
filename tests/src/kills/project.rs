//! The project: an agent whose extension and tool count their operations, and one that they ask.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

use serde_json::json;

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
#[derive(Debug, Clone, Copy)]
pub(super) struct Language {
    pub(super) program: &'static str,
    file: &'static str,
    module: &'static str,
}

pub(super) const LANGUAGES: [Language; 2] = [
    Language { program: "node", file: "module.mjs", module: include_str!("module.mjs") },
    Language { program: "python3", file: "module.py", module: include_str!("module.py") },
];

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
pub(super) fn write(folder: &Path, language: Language, who: Who, number: u32) -> anyhow::Result<PathBuf> {
    let project = folder.join("project");
    std::fs::create_dir_all(&project)?;
    std::fs::write(project.join("goondan.yaml"), BUNDLE.replace("FILE", language.file))?;
    std::fs::write(project.join(language.file), language.module)?;
    std::fs::write(project.join("plan"), json!({"number": number, "who": who.to_string()}).to_string())?;
    Ok(project)
}
