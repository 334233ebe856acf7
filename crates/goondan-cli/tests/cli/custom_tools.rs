//! The example of `docs/custom-tools.md`: an agent creates a tool, writes its program and calls it.

use crate::sandbox::Sandbox;

/// Returns the first YAML block of the page that defines an Agent.
fn recipe() -> String {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/custom-tools.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut blocks = page
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    blocks
        .find(|block| block.contains("kind: Agent"))
        .unwrap()
        .to_owned()
}

const SCRIPT: &str = r##"
agents:
  assistant:
    - calls: [{id: c, tool: custom-tools__create, args: {name: greet, description: Greets, scope: user}}]
    - calls: [{id: r, tool: files__read, args: {path: "{{ results.c.output.folder }}/greet.sh"}}]
    - calls: [{id: w, tool: files__write, args: {path: "{{ results.c.output.folder }}/greet.sh", content: "#!/bin/sh\necho written by the agent\n"}}]
    - calls: [{id: x, tool: custom-tools__run, args: {tool_name: greet}}]
    - text: "{{ results.x.output.stdout }}"
"##;

#[test]
fn an_agent_writes_a_user_tool_with_its_file_tools_and_runs_it() {
    let sandbox = Sandbox::new();
    let project = format!(
        "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {{name: main}}\n\
         spec: {{provider: scripted, model: any, options: {{script: script.yaml}}}}\n---\n{}---\n\
         apiVersion: goondan.ai/v1\nkind: Swarm\nmetadata: {{name: default}}\n\
         spec: {{entryAgent: Agent/assistant, agents: [{{ref: Agent/assistant}}]}}\n",
        recipe()
    );
    sandbox.write("p/goondan.yaml", &project);
    sandbox.write("p/prompts/assistant.md", "Make tools.");
    sandbox.write("p/script.yaml", SCRIPT);
    let run = sandbox.gdn(&["run", "p", "--input", "go", "--yes"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.contains("written by the agent"), "{run:?}");
    let program = sandbox.dir().join("../.goondan/tools/greet/greet.sh");
    assert!(
        std::fs::read_to_string(program)
            .unwrap()
            .contains("written by the agent")
    );
}
