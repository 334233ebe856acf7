//! The project of the chaos run.
//!
//! A coordinator appends to a file, with and without approval, and sends a worker two requests: one synchronous and one
//! asynchronous. The worker appends to the same file.

use std::path::Path;

use goondan::SharedDatabase;

/// Conversation keys of the jobs.
pub(super) const KEYS: [&str; 4] = ["k0", "k1", "k2", "k3"];

/// State directory of the first node.
pub(super) const STATE: &str = "state";

/// Directories of the project's generations, which differ in the worker's prompt.
pub(super) const GENERATIONS: [&str; 2] = ["project", "project-next"];

/// File to which the tools append.
pub(super) const EFFECTS: &str = "effects.txt";

/// File with the process id of each started turn of the coordinator.
pub(super) const TURNS: &str = "nodes.txt";

/// A scripted model, and a tool with repeatable commands. Agents follow.
pub(crate) const MODEL_AND_TOOL: &str = r#"
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: script, options: {script: script.yaml}}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: repeatable}
spec:
  entry: builtin:bash
  exports: [{name: exec, idempotent: true}]
"#;

const BUNDLE: &str = r#"---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: approved}
spec: {entry: "builtin:bash"}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: coordinator}
spec:
  modelConfig: {modelRef: Model/m}
  workdir: .
  permissions:
    default: allow
    rules: [{tool: approved__exec, action: ask}]
  tools: [{ref: Tool/bash}, {ref: Tool/repeatable}, {ref: Tool/approved}, {ref: Tool/agents}]
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: worker}
spec:
  prompt: {system: You work in generation GENERATION.}
  modelConfig: {modelRef: Model/m}
  workdir: .
  permissions: {default: allow}
  tools: [{ref: Tool/bash}]
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: chaos}
spec:
  instanceKey: chaos
  entryAgent: Agent/coordinator
  agents: [{ref: Agent/coordinator}, {ref: Agent/worker}]
  policy: {shutdown: {gracePeriodSeconds: 1}}
"#;

/// An input is `job-N`. Each tool call appends one line with the job and the name of the effect.
const SCRIPT: &str = r#"
rules:
  - when: {agent: coordinator, role: user, contains: inter_agent_response}
    reply: {text: "noted", delayMs: 2}
  - when: {agent: coordinator, role: user}
    reply:
      delayMs: 2
      calls:
        - {id: once, tool: bash__exec, args: {command: "echo '{{ input }} once' >> ../effects.txt; echo $PPID >> ../nodes.txt"}}
        - {id: again, tool: repeatable__exec, args: {command: "echo '{{ input }} repeatable' >> ../effects.txt"}}
        - {id: approved, tool: approved__exec, args: {command: "echo '{{ input }} approved' >> ../effects.txt"}}
        - {id: later, tool: agents__request, args: {target: worker, input: "{{ input }} async", async: true}}
  - when: {agent: coordinator, role: tool, contains: '"response":"did'}
    reply: {text: "done {{ input }}", delayMs: 2}
  - when: {agent: coordinator, role: tool}
    reply:
      calls:
        - {id: now, tool: agents__request, args: {target: worker, input: "{{ input }} sync"}}
  - when: {agent: worker, role: user}
    reply:
      delayMs: 2
      calls: [{id: work, tool: bash__exec, args: {command: "echo '{{ input }}' >> ../effects.txt"}}]
  - when: {agent: worker, role: tool}
    reply: {text: "did {{ input }}", delayMs: 3}
"#;

/// Writes a generation of the project below `root`.
pub(super) fn write(root: &Path, generation: usize) -> std::io::Result<()> {
    let folder = root.join(GENERATIONS[generation]);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(
        folder.join("goondan.yaml"),
        format!(
            "{MODEL_AND_TOOL}{}",
            BUNDLE.replace("GENERATION", &generation.to_string())
        ),
    )?;
    std::fs::write(folder.join("script.yaml"), SCRIPT)
}

/// Returns the database of a run, with a separate workspace.
pub(crate) fn database(store: &str, root: &Path) -> anyhow::Result<SharedDatabase> {
    let name = root
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    Ok(store
        .parse::<SharedDatabase>()?
        .prefixed(&format!("{name}-")))
}
