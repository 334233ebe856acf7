//! Projects of the tests.

use crate::sandbox::Sandbox;

/// Creates a project `p` with the swarm `s` of the agent `a`. `script` is the script of its model.
pub(crate) fn scripted(script: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write(
        "p/goondan.yaml",
        &manifest(
            "{provider: scripted, model: any, options: {script: script.yaml}}",
            "",
        ),
    );
    sandbox.write("p/script.yaml", script);
    sandbox
}

/// Returns the manifest of the swarm `s` with the agent `a`. `model` is the spec of the Model, and
/// `more` is appended to the spec of the Agent.
pub(crate) fn manifest(model: &str, more: &str) -> String {
    format!(
        "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {{name: m}}
spec: {model}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {{name: a}}
spec:
  modelConfig: {{modelRef: Model/m}}
  tools: [{{ref: Tool/text-transform}}, {{ref: Tool/bash}}]
  {more}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {{name: s}}
spec: {{entryAgent: Agent/a, agents: [{{ref: Agent/a}}], policy: {{maxStepsPerTurn: 3}}}}
"
    )
}

/// The model repeats its input.
pub(crate) const ECHO: &str = "default: {text: 'heard {{ input }}'}\n";

/// The model calls a tool that writes the input in capitals, and answers with the result.
pub(crate) const SHOUT: &str = "\
rules:
  - when: {role: user}
    reply:
      text: One moment.
      calls: [{id: c, tool: text-transform__case, args: {text: '{{ input }}', to: upper}}]
  - when: {role: tool}
    reply: {text: '{{ results.c.output.result }}'}
";
