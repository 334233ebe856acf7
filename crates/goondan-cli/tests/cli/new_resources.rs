//! `gdn new agent`, `model`, `connection` and `mcp`, and `gdn init --provider`.

use crate::projects::{ECHO, scripted};
use crate::sandbox::Sandbox;

#[test]
fn new_resources_are_valid_parts_of_the_project() {
    let sandbox = scripted(ECHO);
    for (words, file, text) in [
        (
            ["agent", "reviewer", "--tool", "bash"].as_slice(),
            "agents/reviewer.yaml",
            "spec:\n  model: m\n",
        ),
        (
            &["agent", "other", "--model", "openai/gpt-5"],
            "agents/other.yaml",
            "model: openai/gpt-5\n",
        ),
        (
            &["model", "local", "--provider", "ollama", "--model", "qwen3"],
            "models/local.yaml",
            "provider: ollama\n  model: qwen3\n",
        ),
        (
            &[
                "connection",
                "nightly",
                "--connector",
                "cron",
                "--set",
                "schedule=0 2 * * *",
                "--set",
                "text=Report.",
            ],
            "connections/nightly.yaml",
            "schedule: \"0 2 * * *\"\n",
        ),
        (
            &["mcp", "files", "--", "npx", "-y", "server", "."],
            "tools/files.yaml",
            "mcp:\n    command: npx\n    args:\n      - \"-y\"\n",
        ),
        (
            &["mcp", "tickets", "--url", "https://tickets.example.com/mcp"],
            "tools/tickets.yaml",
            "url: \"https://tickets.example.com/mcp\"\n",
        ),
    ] {
        let created = sandbox.gdn_in("p", &[&["new"], words].concat());
        assert!(
            created.ok().starts_with(&format!("Created {file}.\n")),
            "{}",
            created.report()
        );
        let written = std::fs::read_to_string(sandbox.dir().join("p").join(file)).unwrap();
        assert!(written.contains(text), "{written}");
    }
    let checked = sandbox.gdn(&["validate", "p", "-o", "short"]);
    assert!(!checked.stdout.contains("error"), "{}", checked.report());
    let again = sandbox.gdn_in("p", &["new", "agent", "reviewer", "--model", "m"]);
    assert!(
        again.stderr.contains("already exists"),
        "{}",
        again.report()
    );
}

#[test]
fn a_resource_with_errors_is_not_kept() {
    let sandbox = scripted(ECHO);
    for words in [
        ["agent", "helper", "--tool", "no-such-tool"].as_slice(),
        &["connection", "nightly", "--connector", "cron"],
    ] {
        let refused = sandbox.gdn_in("p", &[&["new"], words].concat());
        assert_ne!(refused.code, 0, "{}", refused.report());
        assert!(refused.stdout.contains("error["), "{}", refused.report());
    }
    for file in ["agents/helper.yaml", "connections/nightly.yaml"] {
        assert!(!sandbox.dir().join("p").join(file).exists(), "{file}");
    }
    let outside = sandbox.gdn(&[
        "new",
        "model",
        "m",
        "--provider",
        "openai",
        "--model",
        "gpt-5",
    ]);
    assert!(
        outside.stderr.contains("There is no goondan.yaml"),
        "{}",
        outside.report()
    );
}

#[test]
fn init_with_a_provider_configures_its_model_and_key() {
    for (provider, variable) in [("anthropic", Some("ANTHROPIC_API_KEY")), ("ollama", None)] {
        let sandbox = Sandbox::new();
        let created = sandbox.gdn(&["init", "swarm", "--provider", provider]);
        let text = std::fs::read_to_string(sandbox.dir().join("swarm/goondan.yaml")).unwrap();
        assert!(
            text.contains(&format!("  provider: {provider}\n")),
            "{text}"
        );
        assert!(!text.contains("scripted"), "{text}");
        match variable {
            Some(variable) => {
                assert!(text.contains(&format!("apiKey: {{valueFrom: {{env: {variable}}}}}")));
                assert!(
                    created.ok().contains(&format!("Set {variable}")),
                    "{}",
                    created.stdout
                );
            }
            None => assert!(!text.contains("apiKey"), "{text}"),
        }
        let checked = sandbox.gdn(&["validate", "swarm", "-o", "short"]);
        assert!(!checked.stdout.contains("error"), "{}", checked.report());
    }
    let sandbox = Sandbox::new();
    sandbox
        .gdn(&[
            "init",
            "swarm",
            "--provider",
            "openai",
            "--model",
            "gpt-5-mini",
        ])
        .ok();
    let text = std::fs::read_to_string(sandbox.dir().join("swarm/goondan.yaml")).unwrap();
    assert!(text.contains("model: gpt-5-mini\n"), "{text}");
}

/// One file with one agent runs, and its short forms can be printed in full.
#[test]
fn a_single_agent_is_a_project_that_can_be_expanded() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "p/goondan.yaml",
        "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: echo}
spec: {provider: scripted, model: any, options: {default: {text: 'heard {{ input }}'}}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: helper}
spec: {model: echo}
",
    );
    assert_eq!(sandbox.gdn(&["run", "p", "hi"]).ok(), "heard hi\n");
    let written = sandbox.gdn(&["validate", "p", "--expand"]).ok().to_owned();
    assert!(written.contains("kind: Swarm\n"), "{written}");
    sandbox.write("q/goondan.yaml", &written);
    assert_eq!(sandbox.gdn(&["run", "q", "hi"]).ok(), "heard hi\n");
    assert_eq!(sandbox.gdn(&["validate", "q", "--expand"]).ok(), written);
}
