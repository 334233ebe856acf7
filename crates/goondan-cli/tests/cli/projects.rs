//! Projects that the tests run.

use crate::sandbox::Sandbox;

/// A swarm `s` of the agent `a` with text tools; `script` is what its model says.
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

/// A swarm `s` of the agent `a`, with `model` as the Model's spec and `more` at the end of the Agent's spec.
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

/// The model repeats what it is told.
pub(crate) const ECHO: &str = "default: {text: 'heard {{ input }}'}\n";

/// The model has the input written in capitals and answers with that.
pub(crate) const SHOUT: &str = "\
rules:
  - when: {role: user}
    reply:
      text: One moment.
      calls: [{id: c, tool: text-transform__case, args: {text: '{{ input }}', to: upper}}]
  - when: {role: tool}
    reply: {text: '{{ results.c.output.result }}'}
";
