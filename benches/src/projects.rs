//! The projects that are measured.

use std::fmt::Write as _;
use std::path::Path;

/// An agent `a` whose model behaves as `behaviour` says, with `tools` (`Tool/x` references).
pub fn one_agent(
    folder: &Path,
    endpoint: &str,
    behaviour: &str,
    tools: &[&str],
) -> anyhow::Result<()> {
    let text = [
        model("m", endpoint, behaviour),
        agent("a", "m", tools),
        swarm(&["a"]),
    ]
    .join("---\n");
    write(folder, &text)
}

/// An agent `a` that asks an agent `b` `count` times.
pub fn two_agents(folder: &Path, endpoint: &str, count: usize) -> anyhow::Result<()> {
    let ask = format!(
        "calls:{count}:agents__request:{}",
        r#"{"target":"b","input":"hi","instanceKey":"b"}"#
    );
    let parts = [
        model("asks", endpoint, &ask),
        model("answers", endpoint, "text"),
        agent("a", "asks", &["Tool/agents"]),
        agent("b", "answers", &[]),
        swarm(&["a", "b"]),
    ];
    write(folder, &parts.join("---\n"))
}

/// An agent whose scripted model answers with text, and whose conversation stays short.
pub fn scripted(folder: &Path) -> anyhow::Result<()> {
    let model = "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: m}\n\
                 spec: {provider: scripted, model: script, options: {default: {text: fine}}}\n";
    let window = "apiVersion: goondan.ai/v1\nkind: Extension\nmetadata: {name: window}\n\
                  spec: {entry: \"builtin:message-window\", config: {maxMessages: 20}}\n";
    let agent = "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {name: a}\n\
                 spec: {modelConfig: {modelRef: Model/m}, extensions: [{ref: Extension/window}]}\n";
    write(
        folder,
        &[model, window, agent, &swarm(&["a"])].join("---\n"),
    )
}

/// An agent that calls one export through each form of a tool: `text-transform__slice`, a library here and one in a process of
/// its own (a copy of `library`), a program through `custom-tools__run`, and command lines through `bash__exec`: a pattern allows
/// `uname -r`, and the default any other. Which one is called, `behaviour` says.
pub fn every_form(
    folder: &Path,
    endpoint: &str,
    behaviour: &str,
    library: &Path,
) -> anyhow::Result<()> {
    let native = |name: &str, isolation: &str| {
        format!(
            "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: {name}}}\n\
             spec: {{entry: ./counter, isolation: {isolation}}}\n"
        )
    };
    let tools = [
        "Tool/text-transform",
        "Tool/here",
        "Tool/hosted",
        "Tool/custom-tools",
        "Tool/bash",
    ];
    let rule = "{tool: bash__exec, args: {command: uname -r*}, action: allow}";
    let agent =
        agent("a", "m", &tools) + &format!("  permissions: {{default: allow, rules: [{rule}]}}\n");
    let parts = [
        model("m", endpoint, behaviour),
        native("here", "none"),
        native("hosted", "process"),
        agent,
        swarm(&["a"]),
    ];
    write(folder, &parts.join("---\n"))?;
    std::fs::copy(library, folder.join("libcounter.so"))?;
    executable(&folder.join("tools/hello"))
}

/// A custom tool that is a script.
fn executable(folder: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::create_dir_all(folder)?;
    std::fs::write(
        folder.join("tool.yaml"),
        "name: hello\ndescription: Says hello\nversion: 1.0.0\nentrypoint: hello\n",
    )?;
    std::fs::write(folder.join("hello"), "#!/bin/sh\necho hello\n")?;
    std::fs::set_permissions(folder.join("hello"), std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// `count` Tools in a hundred files, with an Agent for each fifty of them.
pub fn many_resources(folder: &Path, count: usize) -> anyhow::Result<()> {
    let a_file = count.div_ceil(100).max(1);
    let mut names = (0..count).map(|number| format!("tool-{number}"));
    let mut file = 0;
    loop {
        let text: Vec<String> = names
            .by_ref()
            .take(a_file)
            .map(|name| tool(&name))
            .collect();
        if text.is_empty() {
            break;
        }
        std::fs::create_dir_all(folder.join("tools"))?;
        std::fs::write(
            folder.join(format!("tools/{file}.yaml")),
            text.join("---\n"),
        )?;
        file += 1;
    }
    let agents: Vec<String> = (0..(count / 50).max(1))
        .map(|number| format!("agent-{number}"))
        .collect();
    let mut parts = vec![
        "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: m}\n\
         spec: {provider: scripted, model: script, options: {default: {text: fine}}}\n"
            .to_owned(),
    ];
    for (number, name) in agents.iter().enumerate() {
        let tools: Vec<String> = (0..10)
            .map(|offset| format!("Tool/tool-{}", (number * 50 + offset) % count))
            .collect();
        parts.push(agent(
            name,
            "m",
            &tools.iter().map(String::as_str).collect::<Vec<_>>(),
        ));
    }
    parts.push(swarm(
        &agents.iter().map(String::as_str).collect::<Vec<_>>(),
    ));
    write(folder, &parts.join("---\n"))
}

fn write(folder: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("goondan.yaml"), text)?;
    Ok(())
}

fn model(name: &str, endpoint: &str, behaviour: &str) -> String {
    let behaviour = serde_json::Value::from(behaviour);
    format!(
        "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {{name: {name}}}\n\
         spec:\n  provider: openai-compatible\n  endpoint: {endpoint}\n  model: {behaviour}\n"
    )
}

fn agent(name: &str, model: &str, tools: &[&str]) -> String {
    let mut text = format!(
        "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {{name: {name}}}\n\
         spec:\n  modelConfig: {{modelRef: Model/{model}}}\n  prompt: {{system: Be brief.}}\n"
    );
    if !tools.is_empty() {
        text.push_str("  tools:\n");
    }
    for tool in tools {
        let _ = writeln!(text, "    - ref: {tool}");
    }
    text
}

fn tool(name: &str) -> String {
    format!(
        "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: {name}}}\nspec:\n  entry: \"builtin:wait\"\n  exports:\n\
         \x20   - name: seconds\n      description: Waits for {name}.\n      parameters:\n        type: object\n        properties:\n\
         \x20         seconds: {{type: number, description: How long.}}\n        required: [seconds]\n"
    )
}

fn swarm(agents: &[&str]) -> String {
    let mut text = format!(
        "apiVersion: goondan.ai/v1\nkind: Swarm\nmetadata: {{name: default}}\nspec:\n  entryAgent: Agent/{}\n\
         \x20 policy: {{maxStepsPerTurn: 1000000, repetition: {{limit: 0}}, maxInstances: 1000000, maxConcurrentTurns: 1024}}\n  agents:\n",
        agents[0]
    );
    for agent in agents {
        let _ = writeln!(text, "    - ref: Agent/{agent}");
    }
    text
}
