//! YAML forms of the TypeScript version of Goondan: `docs/compatibility.md` states which forms are
//! valid.

use std::fs;

use goondan::spec::{Code, Diagnostic};

/// Expected result of a document or bundle.
enum ExpectedForm {
    /// Loads without errors.
    Valid,
    /// Has only references to missing resources.
    Fragment,
    /// Is intentionally invalid; the errors contain these words.
    Different(&'static [&'static str]),
}

const MODEL: &str = "\
apiVersion: goondan.ai/v1
kind: Model
metadata:
  name: test-model
spec:
  provider: anthropic
  model: claude-haiku-4-5
  apiKey:
    valueFrom:
      env: ANTHROPIC_API_KEY
";

const AGENT: &str = "\
apiVersion: goondan.ai/v1
kind: Agent
metadata:
  name: alpha
spec:
  modelConfig:
    modelRef: \"Model/test-model\"
  prompt:
    system: \"Answer.\"
";

const SWARM: &str = "\
apiVersion: goondan.ai/v1
kind: Swarm
metadata:
  name: small
spec:
  entryAgent: \"Agent/alpha\"
  agents:
    - ref: \"Agent/alpha\"
  policy:
    maxStepsPerTurn: 4
";

/// Joins documents of a bundle with a dependency on the base package.
fn bundle(documents: &[&str]) -> String {
    let package = "apiVersion: goondan.ai/v1\nkind: Package\nmetadata:\n  name: \"@sample/small\"\nspec:\n  \
                   version: \"0.1.0\"\n  dependencies:\n    - name: \"@goondan/base\"\n      version: \"^0.0.3-alpha17\"\n";
    let mut all = vec![package];
    all.extend(documents);
    all.join("---\n")
}

/// Adds lines to the spec of the agent.
fn agent(lines: &str) -> String {
    format!("{AGENT}{lines}")
}

/// Forms of bundles and of single documents.
fn forms() -> Vec<(&'static str, String, ExpectedForm)> {
    let base_tools = agent(
        "  tools:\n    - ref:\n        kind: Tool\n        name: agents\n        package: \"@goondan/base\"\n    \
         - ref: {kind: Tool, name: file-system, package: \"@goondan/base\"}\n",
    );
    let extensions = agent(
        "  extensions:\n    - ref:\n        kind: Extension\n        name: context-message\n        \
         package: \"@goondan/base\"\n      config:\n        includeAgentPrompt: true\n",
    );
    let typed = "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata:\n  name: typed\nspec:\n  connectorRef:\n    \
                 kind: Connector\n    name: cli\n    package: \"@goondan/base\"\n  swarmRef: \"Swarm/small\"\n  \
                 ingress:\n    rules:\n      - match:\n          event: stdin_message\n        route:\n          \
                 instanceKey: \"typed\"\n";
    let polling = typed
        .replace("name: typed", "name: bot")
        .replace("name: cli", "name: telegram-polling")
        .replace("stdin_message", "telegram_message")
        .replace(
            "  ingress:",
            "  secrets:\n    TELEGRAM_BOT_TOKEN:\n      valueFrom:\n        env: TELEGRAM_BOT_TOKEN\n  ingress:",
        );
    let tool = |fields: &str| {
        format!(
            "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata:\n  name: echo\nspec:\n  entry: \"./echo.mjs\"\n{fields}"
        )
    };
    let exports = tool(
        "  exports:\n    - name: say\n      description: \"Says it.\"\n      parameters:\n        type: object\n",
    );
    let uses_tool = agent("  tools:\n    - ref: \"Tool/echo\"\n");
    let whole = |agent: &str, more: &str| bundle(&[MODEL, agent, SWARM, more]);
    vec![
        (
            "bundle with typed lines",
            whole(AGENT, typed),
            ExpectedForm::Valid,
        ),
        (
            "bundle with base tools",
            whole(&base_tools, typed),
            ExpectedForm::Valid,
        ),
        (
            "bundle with base extensions",
            whole(&extensions, &polling),
            ExpectedForm::Valid,
        ),
        (
            "bundle with its own tool",
            whole(&uses_tool, &exports),
            ExpectedForm::Valid,
        ),
        (
            "entry agent as a map",
            whole(AGENT, typed).replace(
                "entryAgent: \"Agent/alpha\"",
                "entryAgent:\n    ref: \"Agent/alpha\"",
            ),
            ExpectedForm::Valid,
        ),
        ("a model alone", MODEL.to_owned(), ExpectedForm::Valid),
        ("an agent alone", AGENT.to_owned(), ExpectedForm::Fragment),
        ("a swarm alone", SWARM.to_owned(), ExpectedForm::Fragment),
        ("a tool alone", exports.clone(), ExpectedForm::Valid),
        (
            "a connection alone",
            typed.to_owned(),
            ExpectedForm::Fragment,
        ),
        (
            "parameters of a tool without exports",
            whole(&uses_tool, &tool("  parameters:\n    type: object\n")),
            ExpectedForm::Different(&["exports"]),
        ),
        (
            "a model in the agent",
            whole(
                &AGENT.replace("modelConfig:\n    modelRef: ", "model:\n    ref: "),
                typed,
            ),
            ExpectedForm::Different(&["modelConfig"]),
        ),
        (
            "a system prompt in the spec",
            whole(&AGENT.replace("prompt:\n    system", "system"), typed),
            ExpectedForm::Different(&["prompt: {system: …}"]),
        ),
        (
            "a package beside the reference",
            whole(
                &agent("  tools:\n    - ref: \"Tool/bash\"\n      package: \"@goondan/base\"\n"),
                typed,
            ),
            ExpectedForm::Different(&["package"]),
        ),
    ]
}

/// Loads the text and returns its errors.
fn errors(text: &str) -> Vec<Diagnostic> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("goondan.yaml"), text).unwrap();
    fs::write(
        folder.path().join("echo.mjs"),
        "export const handlers = {say: () => 1};\n",
    )
    .unwrap();
    let found = goondan::load(folder.path()).diagnostics;
    found.into_iter().filter(Diagnostic::is_error).collect()
}

#[test]
fn forms_of_typescript_goondan_have_the_documented_result() {
    let mut wrong = Vec::new();
    for (name, text, form) in forms() {
        let found = errors(&text);
        let messages: Vec<String> = found
            .iter()
            .map(|diagnostic| {
                let suggestion = diagnostic.suggestion.as_deref().unwrap_or_default();
                format!("{} {} {suggestion}", diagnostic.code, diagnostic.message)
            })
            .collect();
        let has_expected_result = match form {
            ExpectedForm::Valid => found.is_empty(),
            ExpectedForm::Fragment => {
                !found.is_empty()
                    && found
                        .iter()
                        .all(|diagnostic| diagnostic.code == Code::REF_NOT_FOUND)
            }
            ExpectedForm::Different(words) => {
                let messages = messages.join("\n");
                !found.is_empty() && words.iter().all(|words| messages.contains(words))
            }
        };
        if !has_expected_result {
            wrong.push(format!("{name}:\n{}", messages.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
