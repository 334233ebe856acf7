//! The project, whose turns run until their release.

use std::collections::BTreeMap;
use std::path::Path;

use crate::chaos::project::MODEL_AND_TOOL;

/// Directory of the project.
pub(super) const FOLDER: &str = "project";

/// File to which each tool call appends its job and its process.
const RUNNING_FILE: &str = "running.txt";

const BUNDLE: &str = "---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec:
  modelConfig: {modelRef: Model/m}
  workdir: .
  permissions: {default: allow}
  tools: [{ref: Tool/repeatable}]
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: failover}
spec:
  instanceKey: failover
  entryAgent: Agent/a
  agents: [{ref: Agent/a}]
";

const SCRIPT: &str = r#"
rules:
  - when: {role: user}
    reply:
      calls:
        - id: stay
          tool: repeatable__exec
          args: {command: "echo '{{ input }}' $PPID >> ../running.txt; until [ -e '../go-{{ input }}' ]; do sleep 0.05; done"}
  - when: {role: tool}
    reply: {text: "done"}
"#;

/// Writes the project below `root`.
pub(super) fn write(root: &Path) -> std::io::Result<()> {
    let folder = root.join(FOLDER);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(root.join(RUNNING_FILE), "")?;
    std::fs::write(
        folder.join("goondan.yaml"),
        format!("{MODEL_AND_TOOL}{BUNDLE}"),
    )?;
    std::fs::write(folder.join("script.yaml"), SCRIPT)
}

/// Returns the process that started each job last.
pub(super) fn running_on(root: &Path) -> std::io::Result<BTreeMap<String, u32>> {
    let text = std::fs::read_to_string(root.join(RUNNING_FILE))?;
    // The last line can be incomplete.
    let lines = text.rfind('\n').map_or("", |end| &text[..end]);
    Ok(lines
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(job, process)| Some((job.to_owned(), process.parse().ok()?)))
        .collect())
}

/// Lets the turn of a job end.
pub(super) fn release(root: &Path, job: &str) -> std::io::Result<()> {
    std::fs::write(root.join(format!("go-{job}")), "")
}
