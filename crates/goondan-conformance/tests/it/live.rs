//! Live runs: pass rates, token usage, costs and judge verdicts, with exact numbers.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use goondan_conformance::live::{LiveOptions, LiveReport};
use goondan_conformance::report::{CaseOutcome, RunSummary, case_line, junit};
use goondan_conformance::{RunOptions, run};

/// Returns a case with a one-agent swarm and the Models in `models`.
fn case(models: &str, rest: &str) -> String {
    let models: String = models.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        r#"case: x
files:
  goondan.yaml: |
{models}    ---
    apiVersion: goondan.ai/v1
    kind: Agent
    metadata: {{name: assistant}}
    spec: {{modelConfig: {{modelRef: Model/m}}, tools: [{{ref: Tool/text-transform}}], permissions: {{default: allow}}}}
    ---
    apiVersion: goondan.ai/v1
    kind: Swarm
    metadata: {{name: default}}
    spec: {{entryAgent: Agent/assistant, agents: [{{ref: Agent/assistant}}]}}
{rest}
"#
    )
}

fn model(name: &str, spec: &str) -> String {
    format!("apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {{name: {name}}}\nspec: {spec}\n")
}

/// Returns a Model that plays `replies` in order, across all runs.
fn scripted(name: &str, replies: &[&str]) -> String {
    model(
        name,
        &format!(
            "{{provider: scripted, model: s, pricing: {{input: 2, output: 4}}, options: {{agents: {{assistant: [{}]}}}}}}",
            replies.join(", ")
        ),
    )
}

fn run_with(text: &str, live: Option<LiveOptions>) -> RunSummary {
    let dir = tempfile::tempdir().expect("a directory");
    run_in(dir.path(), text, live)
}

fn run_in(dir: &Path, text: &str, live: Option<LiveOptions>) -> RunSummary {
    let file = dir.join("x.case.yaml");
    std::fs::write(&file, text).expect("a file");
    run(
        &RunOptions {
            live,
            ..RunOptions::new([file])
        },
        &mut |_| {},
    )
}

fn report(summary: &RunSummary) -> &LiveReport {
    assert_eq!(summary.errors, []);
    summary.cases[0]
        .live
        .as_ref()
        .unwrap_or_else(|| panic!("{}", case_line(&summary.cases[0])))
}

fn rates(report: &LiveReport) -> Vec<(&str, usize, usize)> {
    report
        .checks
        .iter()
        .map(|check| (&*check.check, check.passed, check.runs))
        .collect()
}

const CAPITAL_STEPS: &str = "steps:\n  - send: {input: What is the capital of France?}\n    expect: {response: {$contains: Paris}}\n";
const PARIS_REPLY: &str =
    "{text: It is Paris., usage: {promptTokens: 1000000, completionTokens: 500000}}";
const ROME_REPLY: &str =
    "{text: It is Rome., usage: {promptTokens: 1000000, completionTokens: 500000}}";

#[test]
fn a_live_case_passes_at_its_pass_rate() {
    let models = scripted("m", &[PARIS_REPLY, ROME_REPLY, PARIS_REPLY, PARIS_REPLY]);
    let summary = run_with(
        &case(
            &models,
            &format!("live: {{runs: 4, passRate: 0.75}}\n{CAPITAL_STEPS}"),
        ),
        Some(LiveOptions::default()),
    );
    assert_eq!(
        summary.cases[0].outcome,
        CaseOutcome::Passed,
        "{}",
        case_line(&summary.cases[0])
    );
    let report = report(&summary);
    assert_eq!(
        (report.passed, report.required, report.runs.len()),
        (3, 3, 4)
    );
    assert_eq!(rates(report), [("step 1 (send)", 3, 4)]);
    assert_eq!(report.total.tokens.total_tokens, 6_000_000);
    assert_eq!(
        (report.total.model_calls, report.total.cost.clone()),
        (4, BTreeMap::from([("USD".to_owned(), 16.0)]))
    );
}

#[test]
fn flags_override_the_case_and_failed_runs_are_reported() {
    let models = scripted("m", &[PARIS_REPLY, ROME_REPLY, PARIS_REPLY, PARIS_REPLY]);
    let text = case(
        &models,
        &format!("live: {{runs: 1, passRate: 0}}\n{CAPITAL_STEPS}"),
    );
    let options = LiveOptions {
        runs: Some(4),
        pass_rate: Some(0.8),
        ..LiveOptions::default()
    };
    let summary = run_with(&text, Some(options));
    let line = case_line(&summary.cases[0]);
    assert!(
        !summary.is_good() && line.starts_with("FAIL  x: 3 of 4 runs passed, 4 must at "),
        "{line}"
    );
    assert!(
        line.contains("3/4  step 1 (send)")
            && line.contains("the runs: 3 of 4 runs passed, and 4 must"),
        "{line}"
    );
    assert_eq!(
        line.matches(": step 1 (send): not as expected").count(),
        1,
        "{line}"
    );
    let xml = junit(&summary);
    assert!(
        xml.contains(r#"<property name="check.step 1 (send)" value="3/4"/>"#)
            && xml.contains("failures=\"1\""),
        "{xml}"
    );
}

#[test]
fn a_judge_returns_verdicts_and_an_invalid_verdict_fails() {
    let critic = "{provider: scripted, model: s, options: {rules: [{when: {contains: Rome}, reply: {text: '{\"reason\": \"No.\", \"verdict\": \"fail\"}'}}, \
                  {when: {matches: \"Bern|not valid JSON\"}, reply: {text: I think so.}}], default: {text: '{\"reason\": \"Yes.\", \"verdict\": \"pass\"}'}}}";
    let models = format!(
        "{}---\n{}",
        scripted(
            "m",
            &[PARIS_REPLY, ROME_REPLY, "{text: It is Bern.}", PARIS_REPLY]
        ),
        model("critic", critic)
    );
    let steps = "steps:\n  - send: {input: go}\n    judge: It names the capital of France.\nexpect: {judge: [Nothing is rude.]}\n";
    let text = case(
        &models,
        &format!("live: {{runs: 4, judge: Model/critic}}\n{steps}"),
    );
    let summary = run_with(&text, Some(LiveOptions::default()));
    let report = report(&summary);
    assert_eq!(
        rates(report),
        [
            ("step 1 (send)", 4, 4),
            ("step 1 (send): judge", 2, 4),
            ("expect.judge[0]", 2, 4)
        ]
    );
    let verdicts: usize = report.runs.iter().map(|run| run.verdicts.len()).sum();
    assert_eq!((report.passed, verdicts), (2, 6));
    let line = case_line(&summary.cases[0]);
    assert!(
        line.contains("the judge's verdict is fail: No.")
            && line.contains("the judge gave no verdict: "),
        "{line}"
    );
    let without_judge = case(&models, &format!("live: {{}}\n{steps}"));
    let line = case_line(&run_with(&without_judge, Some(LiveOptions::default())).cases[0]);
    assert!(
        line.contains("the judge's Model is not set") && line.contains("are m, critic"),
        "{line}"
    );
    let flag = LiveOptions {
        judge: Some("critic".into()),
        ..LiveOptions::default()
    };
    assert!(run_with(&without_judge, Some(flag)).is_good());
}

#[test]
fn trajectory_checks_work_in_scripted_and_live_runs() {
    let calls = "{calls: [{id: a, tool: text-transform__case, args: {text: bees, to: upper}}, {id: b, tool: text-transform__case, args: {text: flies, to: upper}}]}";
    let trajectory_line = |checks: &str| {
        let models = scripted("m", &[calls, PARIS_REPLY]);
        let text = case(
            &models,
            &format!(
                "models: {{assistant: [{calls}, {PARIS_REPLY}]}}\nlive: {{}}\n{CAPITAL_STEPS}expect: {{trajectory: {checks}}}\n"
            ),
        );
        let scripted = run_with(&text, None);
        let live = run_with(&text, Some(LiveOptions::default()));
        assert_eq!(
            scripted.is_good(),
            live.is_good(),
            "{}{}",
            case_line(&scripted.cases[0]),
            case_line(&live.cases[0])
        );
        case_line(&live.cases[0])
    };
    let good = "[{called: text-transform__case, times: 2}, {called: {tool: text-transform__case, args: {text: bees}, status: ok}, times: 1}, \
                {inOrder: [{tool: text-transform__case, args: {text: bees}}, {tool: text-transform__case, args: {text: flies}}]}, \
                {only: [text-transform__case]}, {agent: assistant, called: text-transform__case}, {asked: assistant, times: 0}]";
    assert!(
        trajectory_line(good).starts_with("ok "),
        "{}",
        trajectory_line(good)
    );
    for (bad, message) in [
        (
            "[{called: text-transform__case, times: {$lt: 2}}]",
            "text-transform__case was called 2 times (expected {\"$lt\":2})",
        ),
        (
            "[{called: {tool: text-transform__case, args: {text: ants}}}]",
            "with {\"text\":\"ants\"} was never called",
        ),
        (
            "[{inOrder: [{tool: text-transform__case, args: {text: flies}}, {tool: text-transform__case, args: {text: bees}}]}]",
            "in this order",
        ),
        (
            "[{only: []}]",
            "text-transform__case was called, but is not one of",
        ),
        (
            "[{asked: writer}]",
            "writer was never asked; the requested agents were: none",
        ),
    ] {
        let line = trajectory_line(bad);
        assert!(line.starts_with("FAIL") && line.contains(message), "{line}");
    }
}

#[test]
fn mocked_tools_return_their_results() {
    let models = "models: {assistant: [{calls: [{id: a, tool: text-transform__case, args: {text: x, to: upper}}, {id: b, tool: text-transform__case, \
                  args: {text: y, to: upper}}, {id: c, tool: text-transform__case, args: {text: z, to: sideways}}]}, {text: done}]}\n";
    let tools = "tools: {text-transform__case: [{call: b, error: {message: no luck, code: E_LUCK}}, {args: {text: x}, output: played}]}\n";
    let expect = "expect: {toolResults: [{status: ok, output: played}, {status: error, error: {code: E_LUCK}}, {error: {code: E_TOOL_INVALID_ARGS}}]}\n";
    let steps = "steps: [{send: {input: go}, expect: {response: done}}]\n";
    let text = case(
        &model("m", "{provider: scripted, model: s}"),
        &format!("{models}{tools}{steps}{expect}"),
    );
    let summary = run_with(&text, None);
    assert!(summary.is_good(), "{}", case_line(&summary.cases[0]));
}

#[test]
fn a_case_runs_live_only_with_a_live_section() {
    let models = scripted("m", &[PARIS_REPLY]);
    let skipped = |text: &str, live: Option<LiveOptions>| {
        let summary = run_with(text, live);
        assert_eq!(
            (summary.skipped(), summary.failed()),
            (1, 0),
            "{}",
            case_line(&summary.cases[0])
        );
        case_line(&summary.cases[0])
    };
    assert!(
        skipped(&case(&models, CAPITAL_STEPS), Some(LiveOptions::default()))
            .contains("it has no `live`")
    );
    assert!(
        skipped(
            &case(&models, &format!("live: {{}}\n{CAPITAL_STEPS}")),
            None
        )
        .contains("only runs with `--live`")
    );
}

#[test]
fn fields_that_do_not_fit_live_runs_are_errors_before_the_run() {
    let text = case(
        &scripted("m", &[PARIS_REPLY]),
        "clock: 2026-01-15T08:59:00Z\nwatch: true\nlive: {runs: 0, passRate: 2}\nmodels: {assistant: [{error: {status: 500, message: no}}]}\n\
         steps: [{kill: {}}, {restart: {}}, {advance: {seconds: 1}}, {second: {}}, {awaitReload: {}}]\n",
    );
    let messages: Vec<String> = run_with(&text, None)
        .errors
        .into_iter()
        .map(|error| error.message)
        .collect();
    insta::assert_snapshot!(messages.join("\n"));
    let text = case(
        &scripted("m", &[PARIS_REPLY]),
        "steps: [{send: {input: a}, judge: b}]\nexpect: {judge: [c]}\ntools: {a: [{}]}\n",
    );
    let messages: Vec<String> = run_with(&text, None)
        .errors
        .into_iter()
        .map(|error| error.message)
        .collect();
    insta::assert_snapshot!("without live", messages.join("\n"));
}

/// Starts a server in OpenAI's format, which returns `answers` in order across all connections.
fn provider(answers: &'static [&'static str]) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let request_count = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let request_count = Arc::clone(&request_count);
            std::thread::spawn(move || answer(client, answers, &request_count));
        }
    });
    port
}

/// Answers all requests of a connection, which may belong to different runs.
fn answer(mut client: TcpStream, answers: &[&str], request_count: &AtomicUsize) {
    let mut reader = BufReader::new(client.try_clone().expect("a socket"));
    while let Some(length) = read_request_head(&mut reader) {
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("the whole request");
        let text = answers[request_count.fetch_add(1, Ordering::SeqCst) % answers.len()];
        let chunk = serde_json::json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]});
        let end = serde_json::json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}});
        let body = format!("data: {chunk}\n\ndata: {end}\n\ndata: [DONE]\n\n");
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        // The client may have disconnected.
        let _ = client.write_all(format!("{head}{body}").as_bytes());
    }
}

/// Reads a request head and returns the length of the body, or `None` at the end of the connection.
fn read_request_head(reader: &mut impl BufRead) -> Option<usize> {
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        let header = line.to_ascii_lowercase();
        length = header
            .strip_prefix("content-length:")
            .map_or(length, |value| value.trim().parse().unwrap_or(0));
        line.clear();
    }
    (!line.is_empty()).then_some(length)
}

#[test]
fn a_live_run_calls_the_provider_once_per_run() {
    let port = provider(&["It is Paris.", "It is Rome.", "Paris!", "Paris, of course."]);
    let spec = format!(
        "{{provider: openai-compatible, model: any, endpoint: \"http://127.0.0.1:{port}/v1\", pricing: {{input: 100000, output: 200000, currency: EUR}}}}"
    );
    let text = case(
        &model("m", &spec),
        &format!(
            "models: {{assistant: [{PARIS_REPLY}]}}\nlive: {{runs: 8, passRate: 0.7}}\n{CAPITAL_STEPS}"
        ),
    );
    let summary = run_with(&text, Some(LiveOptions::default()));
    assert!(summary.is_good(), "{}", case_line(&summary.cases[0]));
    let report = report(&summary);
    assert_eq!(
        (report.passed, report.required, report.total.model_calls),
        (6, 6, 8)
    );
    assert_eq!(report.total.tokens.total_tokens, 120);
    assert_eq!(report.total.words(), "120 tokens, 16 EUR");
    // Without `--live`, the script answers and the provider is not called.
    assert!(run_with(&text, None).is_good());
}

#[test]
fn a_model_error_fails_its_run() {
    let models = scripted("m", &["{error: {status: 400, message: no}}", PARIS_REPLY]);
    let text = case(&models, "live: {runs: 2}\nsteps: [{send: {input: go}}]\n");
    let summary = run_with(&text, Some(LiveOptions::default()));
    let report = report(&summary);
    assert_eq!(
        (report.passed, rates(report)),
        (1, vec![("step 1 (send)", 1, 2)])
    );
    assert!(
        case_line(&summary.cases[0]).contains("step 1 (send): it failed: "),
        "{}",
        case_line(&summary.cases[0])
    );
}
