//! Habits of other programs: each is understood, or the suggestion contains the line to write.

use std::path::Path;

use goondan_spec::{LoadInput, MemoryFiles, load, repair};

use crate::support::base;

const REST: &str = "\
---
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: scripted, model: any}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/lead, agents: [{ref: Agent/lead}]}
";

/// Loads a project with this agent and returns its errors with their suggestions.
fn told(agent: &str) -> Vec<String> {
    errors(&format!(
        "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {{name: lead}}\nspec:\n{agent}\n{REST}"
    ))
}

fn errors(text: &str) -> Vec<String> {
    let files = MemoryFiles::new().file("/p/goondan.yaml", text);
    let base = base();
    let input = LoadInput {
        root: Path::new("/p"),
        files: &files,
        base: &base,
    };
    let diagnostics = load(input).diagnostics.into_iter();
    diagnostics
        .filter(|problem| problem.is_error())
        .map(|problem| {
            format!(
                "{} {}",
                problem.message,
                problem.suggestion.unwrap_or_default()
            )
        })
        .collect()
}

/// Returns the project after `--fix`.
fn fixed(text: &str) -> String {
    let files = MemoryFiles::new().file("/p/goondan.yaml", text);
    let base = base();
    let repairs = repair::repair(LoadInput {
        root: Path::new("/p"),
        files: &files,
        base: &base,
    });
    repairs
        .first()
        .map_or_else(|| text.to_owned(), |file| file.after.clone())
}

#[test]
fn fields_of_other_programs_are_answered_with_the_line_to_write() {
    let model = "  modelConfig: {modelRef: Model/main}";
    let cases = [
        (
            "  model: Model/main".to_owned(),
            "write `modelConfig: {modelRef: Model/main}`",
        ),
        (
            "  model: anthropic/claude-x".to_owned(),
            "define a Model with this `provider`",
        ),
        (
            format!("{model}\n  instruction: You lead."),
            "write `prompt: {system: …}`",
        ),
        (
            format!("{model}\n  system_prompt: You lead."),
            "write `prompt: {system: …}`",
        ),
        (
            format!("{model}\n  systemPrompt: You lead."),
            "write `prompt: {system: …}`",
        ),
        (
            format!("{model}\n  temperature: 0.2"),
            "write `modelConfig: {params: {temperature: 0.2}}`",
        ),
        (
            "  modelConfig: {modelRef: Model/main, temperature: 0.2}".to_owned(),
            "write `params: {temperature: 0.2}`",
        ),
        (
            "  modelConfig: {modelRef: Model/main, max_tokens: 9}".to_owned(),
            "write `params: {maxTokens: 9}`",
        ),
        (
            format!("{model}\n  permissions: allow"),
            "write `permissions: {default: allow}`",
        ),
        (
            format!("{model}\n  prompt: You lead."),
            "write `prompt: {system: …}`",
        ),
        (
            format!("{model}\n  prompt:\n    system: You lead.\n    tools: [fs]"),
            "move it to `spec`: `tools` belongs directly below `spec:`",
        ),
        (format!("{model}\n  mcp_servers: [x]"), "write `tools: …`"),
        (
            format!("{model}\n  prompt: {{sytem: hi}}"),
            "did you mean `system`?",
        ),
    ];
    for (agent, line) in cases {
        let told = told(&agent);
        assert_eq!(told.len(), 1, "{agent}: {told:#?}");
        assert!(told[0].contains(line), "{agent}: {told:#?}");
        assert!(!told[0].contains("remove it"), "{told:#?}");
    }
}

#[test]
fn fields_in_the_wrong_map_are_answered_with_their_place() {
    let document = "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {name: lead, description: Leads.}\n\
                    spec: {modelConfig: {modelRef: Model/main}}\n";
    let told = errors(&format!("{document}{REST}"));
    assert!(
        told[0].contains("`description: …` in `spec`") || told[0].contains("spec: {description"),
        "{told:#?}"
    );
    let swarm = REST.replace(
        "spec: {entryAgent: Agent/lead, agents: [{ref: Agent/lead}]}",
        "spec:\n  entryAgent: Agent/lead\nagents:\n  - Agent/lead",
    );
    let told = errors(&format!(
        "{}{swarm}",
        document.replace(", description: Leads.", "")
    ));
    assert!(
        told.iter().any(|one| one.contains("spec: {agents: …}")),
        "{told:#?}"
    );
}

#[test]
fn mistakes_of_syntax_are_answered_with_the_correction() {
    let braces =
        told("  modelConfig: {modelRef: Model/main}\n  prompt:\n    system: {{ user }} is here");
    assert!(braces[0].contains("in quotes"), "{braces:#?}");
    let colon = told(
        "  modelConfig: {modelRef: Model/main}\n  prompt:\n    system: Remember this: be kind",
    );
    assert!(
        colon[0].contains("put text that contains `: ` in quotes"),
        "{colon:#?}"
    );
    let joined = errors(&REST.replacen(
        "---\napiVersion: goondan.ai/v1\nkind: Swarm",
        "apiVersion: goondan.ai/v1\nkind: Swarm",
        1,
    ));
    assert!(joined[0].contains("put a line `---` before"), "{joined:#?}");
    let variable = errors(&REST.replace("model: any}", "model: any, apiKey: \"${MY_KEY}\"}"));
    assert!(
        variable
            .iter()
            .any(|one| one.contains("write `{valueFrom: {env: MY_KEY}}`")),
        "{variable:#?}"
    );
}

#[test]
fn short_references_are_understood() {
    let agent = "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {name: lead}\n\
                 spec: {modelConfig: {modelRef: main, fallbacks: [spare]}}\n";
    let rest = REST.replace(
        "{entryAgent: Agent/lead, agents: [{ref: Agent/lead}]}",
        "{entryAgent: {ref: Agent/lead}, agents: [Agent/lead]}",
    );
    let spare = "---\napiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: spare}\nspec: {provider: scripted, model: any}\n";
    assert_eq!(errors(&format!("{agent}{rest}{spare}")), [""; 0]);
    let unknown = errors(&format!(
        "{}{rest}",
        agent.replace(", fallbacks: [spare]", ", fallbacks: [mian]")
    ));
    assert!(
        unknown[0].contains("There is no `Model/mian`"),
        "{unknown:#?}"
    );
}

#[test]
fn safe_fixes_write_the_line() {
    let agent = |spec: &str| {
        format!(
            "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {{name: lead}}\nspec:\n{spec}\n{REST}"
        )
    };
    for (before, after) in [
        (
            "  model: Model/main",
            "  modelConfig: {modelRef: Model/main}",
        ),
        (
            "  modelConfig: {modelRef: main}\n  instruction: You lead.",
            "  modelConfig: {modelRef: main}\n  prompt: {system: \"You lead.\"}",
        ),
        (
            "  modelConfig: {modelRef: main}\n  prompt: You lead.",
            "  modelConfig: {modelRef: main}\n  prompt: {system: \"You lead.\"}",
        ),
        (
            "  modelConfig: {modelRef: main, temperature: 0.5}",
            "  modelConfig: {modelRef: main, params: {temperature: 0.5}}",
        ),
    ] {
        assert_eq!(fixed(&agent(before)), agent(after));
    }
    // A person decides about permissions.
    let permissive = agent("  modelConfig: {modelRef: main}\n  permissions: allow");
    assert_eq!(fixed(&permissive), permissive);
}
