//! Tests of the runner: passing cases, detected failures and time limits.

use std::path::Path;
use std::time::{Duration, Instant};

use goondan_conformance::report::{CaseOutcome, RunSummary, case_line};
use goondan_conformance::{RunOptions, run};

/// Returns a case with a one-agent swarm. `rest` contains the remaining fields.
fn case(name: &str, tools: &str, rest: &str) -> String {
    format!(
        r#"case: {name}
files:
  goondan.yaml: |
    apiVersion: goondan.ai/v1
    kind: Model
    metadata: {{name: m}}
    spec: {{provider: scripted, model: any, options: {{maxRetries: 0}}}}
    ---
    apiVersion: goondan.ai/v1
    kind: Agent
    metadata: {{name: assistant}}
    spec: {{modelConfig: {{modelRef: Model/m}}, tools: [{tools}], permissions: {{default: allow}}}}
    ---
    apiVersion: goondan.ai/v1
    kind: Swarm
    metadata: {{name: default}}
    spec: {{entryAgent: Agent/assistant, agents: [{{ref: Agent/assistant}}]}}
{rest}
---
"#
    )
}

fn run_in(dir: &Path, text: &str, time_limit: Duration) -> RunSummary {
    let file = dir.join("x.case.yaml");
    std::fs::write(&file, text).expect("a file");
    run(
        &RunOptions {
            time_limit,
            ..RunOptions::new([file])
        },
        &mut |_| {},
    )
}

fn run_text(text: &str) -> RunSummary {
    run_in(
        tempfile::tempdir().expect("a directory").path(),
        text,
        Duration::from_secs(30),
    )
}

/// Returns the report, with placeholders for values that differ between runs.
fn report(summary: &RunSummary) -> String {
    let text: String = summary.cases.iter().map(case_line).collect();
    let mut text = text;
    for (pattern, placeholder) in [
        (r"\(\d+ ms\)", "(N ms)"),
        (r"at \S*x\.case\.yaml", "at x.case.yaml"),
        (r"turn-[0-9a-f]+", "turn-ID"),
        (r"duration\W+\d+", "duration N"),
    ] {
        text = regex::Regex::new(pattern)
            .expect("an expression")
            .replace_all(&text, placeholder)
            .into_owned();
    }
    text
}

#[test]
fn every_part_of_expect_can_fail() {
    let models = "models: {assistant: [{calls: [{id: c1, tool: wait__seconds, args: {seconds: 0}}]}, {text: done}]}\n";
    let go = "steps: [{send: {input: go}}]\n";
    let wrong = |part: &str| {
        case(
            "x",
            "{ref: Tool/wait}",
            &format!("{models}{go}expect: {part}"),
        )
    };
    let parts = [
        "{diagnostics: [{code: E_CONFIG_CYCLE}]}",
        "{catalog: {assistant: [wait__minutes]}}",
        "{requests: {assistant: [{system: x}, {}]}}",
        "{conversation: {\"assistant:main\": [{role: user, text: stop}, {}, {}, {}]}}",
        "{conversation: {\"nobody:main\": []}}",
        "{toolResults: [{toolCallId: c1, status: error}]}",
        "{events: [{type: turn.completed}, {type: turn.started}]}",
        "{files: {\"project:goondan.yaml\": {$exists: false}}}",
        "{files: {\"state:instances/assistant:main/metadata.json\": {$contains: nonsense}}}",
    ];
    for part in parts {
        let summary = run_text(&wrong(part));
        assert_eq!(
            summary.failed(),
            1,
            "{part} should fail: {}",
            report(&summary)
        );
    }
}

#[test]
fn failures_are_reported_with_location_and_difference() {
    let text = [
        case(
            "a-wrong-answer",
            "{ref: Tool/wait}",
            "models: {assistant: [{text: done}]}\nsteps:\n  - send: {input: go}\n    expect: {response: finished, steps: 1}\n\
             expect: {conversation: {\"assistant:main\": [{role: user, text: go}]}}",
        ),
        case(
            "a-bundle-that-does-not-load",
            "{ref: Tool/wiat}",
            "steps:\n  - send: {input: go}",
        ),
        case(
            "an-event-that-does-not-come",
            "",
            "steps:\n  - await: {event: turn.completed, withinMs: 50}",
        ),
        case(
            "an-edit-that-does-not-fit",
            "",
            "steps:\n  - replace: {path: goondan.yaml, old: nowhere, new: x}",
        ),
    ];
    insta::assert_snapshot!(report(&run_text(&text.concat())));
}

#[test]
fn a_secret_is_found_in_requests_files_and_messages() {
    let text = case(
        "x",
        "{ref: Tool/file-system}",
        "env: {API_KEY: hunter2-hunter2}\nmodels: {assistant: [{calls: [{id: c1, tool: file-system__write, args: {path: \
         a.txt, content: hunter2-hunter2}}]}, {text: done}]}\nsteps: [{send: {input: go}}]",
    );
    let text = report(&run_text(&text));
    let instance = "state:workspaces/default/instances/assistant:main";
    for place in [
        "a model request of assistant:main",
        &format!("{instance}/workdir/a.txt"),
        &format!("{instance}/messages/base.jsonl"),
    ] {
        assert!(
            text.contains(&format!("the value of API_KEY occurs in {place}")),
            "{place}: {text}"
        );
    }
    assert!(
        !text.contains("hunter2"),
        "the report repeats the secret: {text}"
    );
}

#[cfg(unix)]
#[test]
fn a_file_that_a_tool_writes_into_the_project_is_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let text = case(
        "x",
        "{ref: Tool/bash}",
        "steps:\n  - call: {tool: bash__exec, args: {command: \"touch $(dirname $(dirname $PWD))/../../../../project/left.txt\"}}\n    \
         expect: {status: ok, output: {exitCode: 0}}",
    );
    let text = report(&run_in(dir.path(), &text, Duration::from_secs(30)));
    assert!(
        text.contains("nothing is written into the project directory: left.txt is new"),
        "{text}"
    );
}

#[test]
fn a_case_over_its_time_limit_fails() {
    let slow =
        "models: {assistant: [{text: never, delayMs: 600000}]}\nsteps: [{send: {input: go}}]";
    let start = Instant::now();
    let dir = tempfile::tempdir().unwrap();
    let summary = run_in(dir.path(), &case("x", "", slow), Duration::from_millis(500));
    let text = report(&summary);
    assert!(
        text.contains("step 1 (send): the turn did not end within the case's time limit"),
        "{text}"
    );
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_killed_swarm_resumes_its_turn_after_a_restart() {
    let text = case(
        "x",
        "",
        "models: {assistant: [{text: lost, delayMs: 600000}, {text: found}]}\nsteps:\n  - send: {input: go, wait: false}\n  \
         - await: {event: step.started}\n  - kill: {}\n  - restart: {}\n  - await: {event: turn.completed}\nexpect: \
         {requests: {assistant: {$length: 2}}, conversation: {\"assistant:main\": [{text: go}, {text: found}]}}",
    );
    let summary = run_text(&text);
    assert!(summary.is_good(), "{}", report(&summary));
}

#[test]
fn results_are_reported_in_file_order() {
    let slow = |delay: u32| {
        format!(
            "models: {{assistant: [{{text: done, delayMs: {delay}}}]}}\nsteps: [{{send: {{input: go}}}}]"
        )
    };
    let text: String = [("slow", 400), ("fast", 0), ("middle", 100)]
        .map(|(name, delay)| case(name, "", &slow(delay)))
        .concat();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.case.yaml");
    std::fs::write(&file, text).unwrap();
    let mut reported = Vec::new();
    let summary = run(&RunOptions::new([file]), &mut |report| {
        reported.push(report.case.clone())
    });
    assert_eq!(reported, ["slow", "fast", "middle"]);
    assert!(
        summary
            .cases
            .iter()
            .all(|case| case.outcome == CaseOutcome::Passed),
        "{}",
        report(&summary)
    );
}

#[test]
fn a_project_directory_is_copied_and_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let whole = case("x", "", "");
    let bundle: String = whole
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .map(|line| format!("{line}\n"))
        .collect();
    let project = dir.path().join("project");
    std::fs::create_dir(&project).unwrap();
    std::fs::write(project.join("goondan.yaml"), &bundle).unwrap();
    let text = "case: x\nproject: project\nmodels: {assistant: [{text: hi}]}\nsteps:\n  - replace: {path: goondan.yaml, old: \
                any, new: other}\n  - send: {input: go}\n    expect: {response: hi}\n";
    let summary = run_in(dir.path(), text, Duration::from_secs(30));
    assert!(summary.is_good(), "{}", report(&summary));
    assert_eq!(
        std::fs::read_to_string(project.join("goondan.yaml")).unwrap(),
        bundle
    );
}
