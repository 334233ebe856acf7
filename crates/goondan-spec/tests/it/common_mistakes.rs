//! Syntax of other frameworks: gdn accepts it, or the suggestion contains the correct line.

use std::path::Path;

use goondan_spec::{Code, Diagnostic, LoadInput, MemoryFiles, load, repair};

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

/// Returns the errors of a project with the given agent, with their suggestions.
fn agent_errors(agent: &str) -> Vec<String> {
    errors(&format!(
        "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {{name: lead}}\nspec:\n{agent}\n{REST}"
    ))
}

/// Returns the errors of a project with their suggestions.
fn errors(text: &str) -> Vec<String> {
    let with_suggestion = |problem: Diagnostic| {
        format!(
            "{} {}",
            problem.message,
            problem.suggestion.unwrap_or_default()
        )
    };
    problems(text).into_iter().map(with_suggestion).collect()
}

/// Returns the errors of a project.
fn problems(text: &str) -> Vec<Diagnostic> {
    let files = MemoryFiles::new().file("/p/goondan.yaml", text);
    let base = base();
    let input = LoadInput {
        root: Path::new("/p"),
        files: &files,
        base: &base,
    };
    let diagnostics = load(input).diagnostics.into_iter();
    diagnostics.filter(Diagnostic::is_error).collect()
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
fn fields_of_other_frameworks_get_a_suggestion_with_the_right_line() {
    let model = "  modelConfig: {modelRef: Model/main}";
    let cases = [
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
        (
            format!("{model}\n  mcp_servers: [x]"),
            "define each MCP server as a resource `kind: Tool` with `spec: {mcp:",
        ),
        (
            format!("{model}\n  sub_agents: [a, b]"),
            "write `tools: [{ref: Tool/agents}]`",
        ),
        (
            format!("{model}\n  max_iter: 5"),
            "write `policy: {maxStepsPerTurn: …}` in the `spec` of the Swarm",
        ),
        (
            format!("{model}\n  backstory: You know bees."),
            "append the text to `prompt: {system: …}`",
        ),
        (
            format!("{model}\n  permissions: {{allow: [fs__read]}}"),
            "write `rules: [{tool: RESOURCE__EXPORT, action: ACTION}]`",
        ),
        (
            format!("{model}\n  prompt: {{sytem: hi}}"),
            "did you mean `system`?",
        ),
    ];
    for (agent, line) in cases {
        let found = agent_errors(&agent);
        assert_eq!(found.len(), 1, "{agent}: {found:#?}");
        assert!(found[0].contains(line), "{agent}: {found:#?}");
        assert!(!found[0].contains("remove it"), "{found:#?}");
    }
}

#[test]
fn fields_in_the_wrong_map_get_a_suggestion_with_the_right_map() {
    let document = "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {name: lead, description: Leads.}\n\
                    spec: {modelConfig: {modelRef: Model/main}}\n";
    let found = errors(&format!("{document}{REST}"));
    assert!(
        found[0].contains("`description: …` in `spec`") || found[0].contains("spec: {description"),
        "{found:#?}"
    );
    let swarm = REST.replace(
        "spec: {entryAgent: Agent/lead, agents: [{ref: Agent/lead}]}",
        "spec:\n  entryAgent: Agent/lead\nagents:\n  - Agent/lead",
    );
    let found = errors(&format!(
        "{}{swarm}",
        document.replace(", description: Leads.", "")
    ));
    assert!(
        found.iter().any(|one| one.contains("spec: {agents: …}")),
        "{found:#?}"
    );
}

#[test]
fn kinds_of_other_frameworks_get_a_suggestion_with_the_right_line() {
    for (kind, line) in [
        ("Schedule", "`connectorRef: Connector/cron`"),
        ("Crew", "write `kind: Swarm`"),
        ("MCPServer", "write `kind: Tool` with `spec: {mcp:"),
    ] {
        let found = errors(&REST.replace("kind: Model", &format!("kind: {kind}")));
        assert!(
            found[0].contains("There is no kind") && found[0].contains(line),
            "{kind}: {found:#?}"
        );
    }
}

#[test]
fn syntax_errors_get_a_suggestion_with_the_correction() {
    let braces = agent_errors(
        "  modelConfig: {modelRef: Model/main}\n  prompt:\n    system: {{ user }} is here",
    );
    assert!(braces[0].contains("in quotes"), "{braces:#?}");
    let colon = agent_errors(
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
fn a_model_directly_in_an_agent_spec_is_accepted() {
    for model in ["main", "Model/main", "anthropic/claude-x"] {
        let agent = format!(
            "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {{name: lead}}\nspec: {{model: {model}}}\n{REST}"
        );
        assert_eq!(errors(&agent), [""; 0], "{model}");
    }
}

#[test]
fn short_references_are_accepted() {
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
fn safe_fixes_write_the_suggested_line() {
    let agent = |spec: &str| {
        format!(
            "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {{name: lead}}\nspec:\n{spec}\n{REST}"
        )
    };
    for (before, after) in [
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
    // Permissions are not fixed automatically.
    let permissive = agent("  modelConfig: {modelRef: main}\n  permissions: allow");
    assert_eq!(fixed(&permissive), permissive);
}

const AGENT: &str = "  modelConfig: {modelRef: Model/main}";

/// A common mistake: the project, the error code, and words of the message or suggestion.
struct YamlMistake {
    name: &'static str,
    text: String,
    code: Code,
    words: &'static [&'static str],
}

/// Returns the project with the given agent spec.
fn project(spec: &str) -> String {
    format!(
        "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {{name: lead}}\nspec:\n{spec}\n{REST}"
    )
}

/// Returns YAML mistakes of users who come from other frameworks.
fn mistakes() -> Vec<YamlMistake> {
    let mistake = |name, code, text: String, words| YamlMistake {
        name,
        text,
        code,
        words,
    };
    let spec = |line: &str| project(&format!("{AGENT}\n{line}"));
    let whole = |from: &str, to: &str| {
        let text = project(AGENT);
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    };
    vec![
        mistake(
            "tab",
            Code::PARSE_ERROR,
            spec("\tdescription: x"),
            &["tab", "spaces"],
        ),
        mistake(
            "tools one level too deep",
            Code::SCHEMA_INVALID,
            spec("  prompt:\n    system: x\n    tools: [fs]"),
            &["move it to `spec`"],
        ),
        mistake(
            "agents in column 1",
            Code::SCHEMA_INVALID,
            whole(
                "spec: {entryAgent: Agent/lead, agents: [{ref: Agent/lead}]}",
                "spec: {entryAgent: Agent/lead}\nagents: [Agent/lead]",
            ),
            &["spec: {agents: …}"],
        ),
        mistake(
            "plural kind",
            Code::UNKNOWN_KIND,
            whole("kind: Agent\n", "kind: Agents\n"),
            &["`Agent`"],
        ),
        mistake(
            "kind in lower case",
            Code::UNKNOWN_KIND,
            whole("kind: Swarm", "kind: swarm"),
            &["`Swarm`"],
        ),
        mistake(
            "systemPrompt",
            Code::SCHEMA_INVALID,
            spec("  prompt: {systemPrompt: x}"),
            &["system"],
        ),
        mistake(
            "entryagent",
            Code::SCHEMA_INVALID,
            whole("entryAgent:", "entryagent:"),
            &["`entryAgent`"],
        ),
        mistake(
            "misspelled reference",
            Code::REF_NOT_FOUND,
            project("  modelConfig: {modelRef: Model/mian}"),
            &["Model/main"],
        ),
        mistake(
            "unknown model",
            Code::REF_NOT_FOUND,
            project("  modelConfig: {modelRef: Model/gpt}"),
            &["main"],
        ),
        mistake(
            "duplicate name",
            Code::DUPLICATE_NAME,
            project(AGENT) + "---\n" + &project(AGENT),
            &["name"],
        ),
        mistake(
            "colon in text",
            Code::PARSE_ERROR,
            spec("  prompt:\n    system: Remember this: be helpful"),
            &["in quotes"],
        ),
        mistake(
            "braces in text",
            Code::PARSE_ERROR,
            spec("  prompt:\n    system: {{ user }} is here"),
            &["in quotes"],
        ),
        mistake(
            "variable in a string",
            Code::INVALID_VALUE_SOURCE,
            whole("model: any}", "model: any, apiKey: \"${OPENAI_API_KEY}\"}"),
            &["{valueFrom: {env: OPENAI_API_KEY}}"],
        ),
        mistake(
            "missing prompt file",
            Code::ENTRY_NOT_FOUND,
            spec("  prompt: {systemRef: prompts/led.md}"),
            &["prompts/led.md"],
        ),
        mistake(
            "backslashes in quotes",
            Code::PARSE_ERROR,
            spec("  prompt: {systemRef: \"C:\\prompts\\lead.md\"}"),
            &["single quotes"],
        ),
        mistake(
            "anchor in another document",
            Code::PARSE_ERROR,
            project("  modelConfig: &model {modelRef: Model/main}")
                .replace("agents: [{ref: Agent/lead}]", "agents: *model"),
            &["---"],
        ),
        mistake(
            "instruction",
            Code::SCHEMA_INVALID,
            spec("  instruction: You lead."),
            &["prompt: {system: …}"],
        ),
        mistake(
            "prompt as text",
            Code::SCHEMA_INVALID,
            spec("  prompt: You lead."),
            &["prompt: {system: …}"],
        ),
        mistake(
            "permissions as text",
            Code::SCHEMA_INVALID,
            spec("  permissions: allow"),
            &["permissions: {default: allow}"],
        ),
        mistake(
            "description in metadata",
            Code::SCHEMA_INVALID,
            whole("{name: lead}", "{name: lead, description: Leads.}"),
            &["description", "spec"],
        ),
        mistake(
            "forgotten separator",
            Code::PARSE_ERROR,
            whole(
                "---\napiVersion: goondan.ai/v1\nkind: Swarm",
                "apiVersion: goondan.ai/v1\nkind: Swarm",
            ),
            &["put a line `---` before"],
        ),
        mistake(
            "name with capitals",
            Code::INVALID_NAME,
            whole("{name: lead}", "{name: My_Helper}"),
            &["my-helper"],
        ),
        mistake(
            "temperature in modelConfig",
            Code::SCHEMA_INVALID,
            project("  modelConfig: {modelRef: Model/main, temperature: 0.2}"),
            &["params: {temperature: 0.2}"],
        ),
        mistake(
            "temperature in spec",
            Code::SCHEMA_INVALID,
            spec("  temperature: 0.2"),
            &["modelConfig: {params: {temperature: 0.2}}"],
        ),
        mistake(
            "other apiVersion",
            Code::UNSUPPORTED_API_VERSION,
            whole("apiVersion: goondan.ai/v1", "apiVersion: v1"),
            &["goondan.ai/v1"],
        ),
    ]
}

#[test]
fn common_mistakes_get_a_suggestion_with_the_right_line() {
    let mut wrong = Vec::new();
    for mistake in mistakes() {
        let found = problems(&mistake.text);
        let has_suggestion = found.iter().any(|problem| {
            let answer = format!(
                "{} {}",
                problem.message,
                problem.suggestion.clone().unwrap_or_default()
            );
            problem.code == mistake.code
                && problem.suggestion.is_some()
                && mistake.words.iter().all(|words| answer.contains(words))
                && !answer.contains("remove it")
        });
        if !has_suggestion {
            let messages: Vec<String> = found
                .iter()
                .map(|one| format!("  {} {} | {:?}", one.code, one.message, one.suggestion))
                .collect();
            wrong.push(format!("{}:\n{}", mistake.name, messages.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn short_forms_are_accepted() {
    let connection = "---\napiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {name: night}\nspec:\n  \
                      connectorRef: pager\n  config: {volume: 5}\n  \
                      secrets: {signingSecret: {value: sixteen-letters-}, botToken: {value: sixteen-letters-}}\n";
    let text = project("  modelConfig: {modelRef: main}\n  tools: [Tool/fs, bash]")
        .replace("agents: [{ref: Agent/lead}]", "agents: [lead]")
        .replace("entryAgent: Agent/lead", "entryAgent: {ref: Agent/lead}");
    assert_eq!(errors(&format!("{text}{connection}")), [""; 0]);
}
