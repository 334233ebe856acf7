//! The project that is killed: a coordinator that writes to a ledger, asks a worker twice (once for an answer now, once for
//! one later), and a worker that writes to the ledger, too.

use std::path::Path;

use goondan::SharedDatabase;

/// The instance keys that inputs go to.
pub(super) const KEYS: [&str; 4] = ["k0", "k1", "k2", "k3"];

/// The folder of the first node's state.
pub(super) const STATE: &str = "state";

/// The folders of the project's generations, which differ in what the worker is told.
pub(super) const GENERATIONS: [&str; 2] = ["project", "project-next"];

/// What the tools of all generations write to.
pub(super) const LEDGER: &str = "ledger.txt";

/// Which process has begun each turn of the coordinator.
pub(super) const TURNS: &str = "nodes.txt";

/// A scripted model, and a tool whose commands may run again. What the agents are follows.
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
kind: Agent
metadata: {name: coordinator}
spec:
  modelConfig: {modelRef: Model/m}
  workdir: .
  permissions:
    default: allow
    rules: [{tool: bash__exec, action: ask}]
  tools: [{ref: Tool/bash}, {ref: Tool/repeatable}, {ref: Tool/agents}]
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
"#;

/// An input is `job-N`; each tool call appends one line that names the job and the place.
const SCRIPT: &str = r#"
rules:
  - when: {agent: coordinator, role: user, contains: inter_agent_response}
    reply: {text: "noted", delayMs: 2}
  - when: {agent: coordinator, role: user}
    reply:
      delayMs: 2
      calls:
        - {id: once, tool: bash__exec, args: {command: "echo '{{ input }} once' >> ../ledger.txt; echo $PPID >> ../nodes.txt"}}
        - {id: again, tool: repeatable__exec, args: {command: "echo '{{ input }} repeatable' >> ../ledger.txt"}}
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
      calls: [{id: work, tool: bash__exec, args: {command: "echo '{{ input }}' >> ../ledger.txt"}}]
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

/// The database of a run, in which it has a workspace of its own.
pub(crate) fn database(store: &str, root: &Path) -> anyhow::Result<SharedDatabase> {
    let name = root
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    Ok(store
        .parse::<SharedDatabase>()?
        .prefixed(&format!("{name}-")))
}
