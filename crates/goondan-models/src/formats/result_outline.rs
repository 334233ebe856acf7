//! Plain text for results whose JSON form is hard to read for a model: command output with escapes,
//! and answers of agents among ids. Scripts, events and the store keep the JSON values.

use goondan_core::JsonObject;
use serde_json::Value;

/// Fields of a command result that are part of the header or the body, or repeat the arguments.
const COMMAND_FIELDS: [&str; 14] = [
    "args",
    "command",
    "cwd",
    "durationMs",
    "exitCode",
    "path",
    "process_id",
    "shell",
    "signal",
    "status",
    "stderr",
    "stdout",
    "timedOut",
    "workdir",
];

/// Fields of an answered request to another agent.
const ANSWER_FIELDS: [&str; 6] = [
    "accepted",
    "async",
    "correlationId",
    "eventId",
    "response",
    "target",
];

/// Returns the text of a command result or of an agent's answer; `None` for any other output.
pub(super) fn plain_text(output: &Value) -> Option<String> {
    let fields = output.as_object()?;
    command_text(fields).or_else(|| answer_text(fields))
}

/// Returns the output of a command below a header such as `exit 1 · 120 ms`.
fn command_text(fields: &JsonObject) -> Option<String> {
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let (stdout, stderr) = (text("stdout")?, text("stderr")?);
    let mut header = vec![exit_description(fields)?];
    header.extend(
        fields
            .get("timedOut")
            .filter(|timed_out| **timed_out == Value::Bool(true))
            .map(|_| "timed out".to_owned()),
    );
    header.extend(
        fields
            .get("durationMs")
            .map(|duration| format!("{duration} ms")),
    );
    header.extend(text("process_id").map(str::to_owned));
    let mut lines = vec![header.join(" · ")];
    let other_fields = fields
        .iter()
        .filter(|(name, value)| !COMMAND_FIELDS.contains(&name.as_str()) && !value.is_null());
    lines.extend(other_fields.map(|(name, value)| match value {
        Value::String(text) => format!("{name}: {text}"),
        value => format!("{name}: {value}"),
    }));
    lines.extend(
        [stdout]
            .into_iter()
            .filter(|text| !text.is_empty())
            .map(trim_line_break),
    );
    if !stderr.is_empty() {
        lines.extend(["[stderr]".to_owned(), trim_line_break(stderr)]);
    }
    Some(lines.join("\n"))
}

/// Returns how the program ended, or that it still runs.
fn exit_description(fields: &JsonObject) -> Option<String> {
    if let Some(signal) = fields.get("signal").and_then(Value::as_str) {
        return Some(format!("ended by {signal}"));
    }
    match fields.get("exitCode")? {
        Value::Null => fields.get("status")?.as_str().map(str::to_owned),
        code => Some(format!("exit {code}")),
    }
}

/// Returns the text without the line break at its end.
fn trim_line_break(text: &str) -> String {
    text.strip_suffix('\n').unwrap_or(text).to_owned()
}

/// Returns the answer to a request. An asynchronous request has no answer yet, so the model needs
/// its ids.
fn answer_text(fields: &JsonObject) -> Option<String> {
    let is_answer = fields.len() == ANSWER_FIELDS.len()
        && ANSWER_FIELDS.iter().all(|name| fields.contains_key(*name))
        && fields["async"] == Value::Bool(false);
    let answer = fields.get("response").filter(|_| is_answer)?.as_str()?;
    Some(answer.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(output: Value) -> String {
        plain_text(&output).unwrap_or_else(|| output.to_string())
    }

    #[test]
    fn a_command_result_has_a_status_line_and_the_output() {
        let output = json!({"command": "cargo test", "cwd": "/p", "durationMs": 120, "stdout": "ok 1\n\tat \"x\"\n",
            "stderr": "error: no\n", "exitCode": 1, "signal": null, "timedOut": false, "note": "It ran in a sandbox."});
        assert_eq!(
            text(output),
            "exit 1 · 120 ms\nnote: It ran in a sandbox.\nok 1\n\tat \"x\"\n[stderr]\nerror: no"
        );
    }

    #[test]
    fn a_command_without_output_is_one_line() {
        let output = |code: Value, signal: Value, timed_out: bool| json!({"durationMs": 3, "stdout": "", "stderr": "", "exitCode": code, "signal": signal, "timedOut": timed_out});
        assert_eq!(text(output(json!(0), Value::Null, false)), "exit 0 · 3 ms");
        assert_eq!(
            text(output(json!(-1), json!("SIGKILL"), true)),
            "ended by SIGKILL · timed out · 3 ms"
        );
    }

    #[test]
    fn a_poll_names_the_process() {
        let output = json!({"process_id": "p1", "command": "x", "status": "running", "exitCode": null, "signal": null,
            "durationMs": 9, "stdout": "a\n", "stderr": ""});
        assert_eq!(text(output), "running · 9 ms · p1\na");
    }

    #[test]
    fn an_agent_response_is_shown_without_ids() {
        let output = |is_async: bool| {
            json!({"target": "coder", "eventId": "e", "correlationId": "c", "accepted": true, "async": is_async,
                "response": "Done:\n- a"})
        };
        assert_eq!(text(output(false)), "Done:\n- a");
        assert!(text(output(true)).contains("correlationId"));
    }

    #[test]
    fn other_outputs_stay_json() {
        for output in [
            json!({"stdout": "x"}),
            json!({"response": "x"}),
            json!([1]),
            json!("x"),
        ] {
            assert_eq!(plain_text(&output), None, "{output}");
        }
    }
}
