//! `gdn test record`, and `gdn test --live`.

use serde_json::Value;

use crate::projects::{SHOUT, manifest, scripted};
use crate::sandbox::{Outcome, Sandbox};

const MODEL: &str = "{provider: scripted, model: any, options: {script: script.yaml}}";

fn record(sandbox: &Sandbox, more: &[&str]) -> Outcome {
    sandbox.gdn(&[&["test", "record", "p", "-o", "cases/it.case.yaml"], more].concat())
}

fn run_input(sandbox: &Sandbox, input: &str) {
    std::fs::create_dir_all(sandbox.dir().join("cases")).unwrap();
    sandbox.gdn(&["run", "p", "--yes", "--input", input]).ok();
}

fn text(sandbox: &Sandbox) -> String {
    std::fs::read_to_string(sandbox.dir().join("cases/it.case.yaml")).unwrap()
}

#[track_caller]
fn assert_refused(outcome: &Outcome, words: &str) {
    assert_eq!(outcome.code, 1, "{outcome:#?}");
    assert!(
        outcome.stderr.contains("CASE_NOT_RECORDED") && outcome.stderr.contains(words),
        "{outcome:#?}"
    );
}

#[test]
fn a_recorded_conversation_is_a_reproducible_passing_test_case() {
    let sandbox = scripted(SHOUT);
    run_input(&sandbox, "hi {{ input }}: 'there'\n  you");
    run_input(&sandbox, "again");
    record(&sandbox, &[]).ok();
    let first = text(&sandbox);
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("recorded case", first));
    assert!(record(&sandbox, &[]).stderr.contains("already exists"));
    record(&sandbox, &["--force"]).ok();
    assert_eq!(text(&sandbox), first);
    // The test does not call the model of the project, whose answer has changed.
    sandbox.write("p/script.yaml", "default: {text: changed}\n");
    assert!(
        sandbox
            .gdn(&["test", "cases"])
            .ok()
            .ends_with("1 passed, 0 failed\n")
    );
    record(&sandbox, &["--force", "--turn", "2"]).ok();
    assert!(
        !text(&sandbox).contains("there") && text(&sandbox).contains("AGAIN"),
        "{}",
        text(&sandbox)
    );
    assert_refused(
        &record(&sandbox, &["--force", "--turn", "3"]),
        "has no turn 3: its turns are 1 to 2",
    );
}

#[test]
fn a_recorded_case_replays_tool_results_without_side_effects() {
    let script = "rules:\n  - when: {role: user}\n    reply: {calls: [{id: c, tool: bash__exec, args: {command: 'echo x >> ../mark; echo done'}}]}\n  \
                  - when: {role: tool}\n    reply: {text: ok}\n";
    let sandbox = scripted(script);
    sandbox.write(
        "p/goondan.yaml",
        &manifest(MODEL, "workdir: .\n  permissions: {default: ask}"),
    );
    run_input(&sandbox, "go");
    let marks = || std::fs::read_to_string(sandbox.dir().join("mark")).unwrap();
    let before = marks();
    record(&sandbox, &[]).ok();
    sandbox.gdn(&["test", "cases"]).ok();
    assert_eq!(marks(), before);
    assert!(
        text(&sandbox).contains("answer: allow"),
        "{}",
        text(&sandbox)
    );
    record(&sandbox, &["--force", "--run-tools"]).ok();
    assert!(
        !text(&sandbox).contains("\ntools:") && marks() == before,
        "{}",
        text(&sandbox)
    );
}

#[test]
fn conversations_that_cannot_be_replayed_are_refused_with_a_reason() {
    let sandbox = scripted(
        "rules: [{when: {contains: bad}, reply: {error: {status: 400, message: no}}}]\ndefault: {text: fine}\n",
    );
    run_input(&sandbox, "good");
    let failed = sandbox.gdn(&["run", "p", "--input", "bad"]);
    assert_ne!(failed.code, 0);
    assert_refused(&record(&sandbox, &[]), "Turn 2 of a:main failed");
    assert!(!sandbox.dir().join("cases/it.case.yaml").exists());
    record(&sandbox, &["--turn", "1"]).ok();
    // The project gives another result than at the time of the conversation.
    let sandbox = scripted(SHOUT);
    run_input(&sandbox, "hi");
    sandbox.write(
        "p/goondan.yaml",
        &manifest(MODEL, "").replace("{ref: Tool/text-transform}, ", ""),
    );
    let outcome = record(&sandbox, &[]);
    assert_refused(&outcome, "gives a different result");
    assert!(
        outcome
            .stderr
            .contains("[0].status: expected \"ok\", got \"error\""),
        "{outcome:#?}"
    );
    let unknown = record(&sandbox, &["--agent", "nobody"]);
    assert!(
        unknown.stderr.contains("INSTANCE_NOT_FOUND"),
        "{unknown:#?}"
    );
    let name = sandbox.gdn(&["test", "record", "p", "-o", "cases/It.yaml"]);
    assert_eq!(name.code, 2, "{name:#?}");
}

#[test]
fn a_recorded_case_masks_secrets() {
    let sandbox = scripted("default: {text: 'heard {{ input }}'}\n");
    sandbox.write("p/.env", "MY_TOKEN=hunter2-hunter2\n");
    run_input(&sandbox, "my token is hunter2-hunter2, keep it");
    record(&sandbox, &[]).ok();
    let text = text(&sandbox);
    assert!(
        text.contains("my token is") && !text.contains("hunter2"),
        "{text}"
    );
}

#[test]
fn live_runs_require_trust_and_report_exact_pass_rates() {
    let sandbox =
        scripted("agents: {a: [{text: 'yes'}, {text: 'no'}, {text: 'yes'}, {text: 'yes'}]}\n");
    sandbox.write(
        "p/goondan.yaml",
        &manifest(
            "{provider: scripted, model: any, apiKey: {valueFrom: {env: MY_KEY}}, options: {script: script.yaml}}",
            "",
        ),
    );
    sandbox.write("p/.env", "MY_KEY=hunter2-hunter2\n");
    sandbox.write("cases/live.case.yaml", "case: live\nproject: ../p\nlive: {runs: 4, passRate: 0.75}\nsteps: [{send: {input: go}, expect: {response: 'yes'}}]\n");
    let arguments = ["test", "cases", "--live", "--json"];
    let untrusted = sandbox.run_command(sandbox.command_without_trust(&arguments));
    assert_eq!(untrusted.code, 7, "{untrusted:#?}");
    let report: Value = serde_json::from_str(sandbox.gdn(&arguments).ok()).unwrap();
    let live = &report["cases"][0]["live"];
    assert_eq!((&live["passed"], &live["required"]), (&3.into(), &3.into()));
    assert_eq!(
        live["checks"][0],
        serde_json::json!({"check": "step 1 (send)", "passed": 3, "runs": 4})
    );
    let strict = sandbox.gdn(&["test", "cases", "--live", "--pass-rate", "1", "--runs", "8"]);
    assert_eq!(strict.code, 1);
    assert!(
        strict.stdout.contains("3 of 8 runs passed, 8 must"),
        "{strict:#?}"
    );
    for wrong in [
        ["--runs", "0"],
        ["--pass-rate", "1.5"],
        ["--pass-rate", "x"],
    ] {
        assert_eq!(
            sandbox
                .gdn(&[&["test", "cases", "--live"][..], &wrong[..]].concat())
                .code,
            2
        );
    }
    assert!(
        sandbox
            .gdn(&["test", "cases"])
            .ok()
            .contains("skip  live: it only runs with `--live`")
    );
}

#[test]
fn the_evaluations_example_passes_three_of_four_live_runs() {
    let sandbox = Sandbox::new();
    let example =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/evaluations");
    let outcome = sandbox.gdn(&["test", "--live", "--jobs", "1", &example.to_string_lossy()]);
    assert!(
        outcome.ok().contains("3 of 4 runs passed, 3 must")
            && outcome.stdout.contains("all took 1066 tokens, 0.00447 USD"),
        "{outcome:#?}"
    );
}
