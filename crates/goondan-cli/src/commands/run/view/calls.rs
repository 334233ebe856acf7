//! Tool calls in a few lines. Foreign content is escaped and cut, so it can't affect the terminal.

use goondan::event::ShownResult;
use goondan::internal::untrusted_text;
use goondan::ports::tool::ToolCallStatus;
use serde_json::Value;

use crate::output::width::{fit, width};
use crate::output::{duration, gutter, shorten, style};

/// Output fields that describe a result best, most important first.
const OUTPUT_FIELDS: [&str; 8] = [
    "response", "content", "diff", "text", "result", "output", "message", "body",
];

/// Formats the start of a call.
pub(in crate::commands::run) fn call_line(tool_name: &str, arguments: &Value) -> String {
    let (name, faint) = (style::NAME, style::FAINT);
    let tool = untrusted_text::line(tool_name);
    let arguments = if arguments.is_null() {
        String::new()
    } else {
        shorten(&arguments.to_string())
    };
    format!("{name}→ {tool}{name:#} {faint}{arguments}{faint:#}")
}

/// Formats a finished call: its outcome, then an excerpt of its output.
pub(in crate::commands::run) fn completed_call_lines(
    tool_name: &str,
    status: ToolCallStatus,
    millis: u64,
    result: &ShownResult,
    width: usize,
) -> Vec<String> {
    let (name, faint) = (style::NAME, style::FAINT);
    let outcome = CallOutcome::of(status, result);
    let mut line = format!(
        "{name}← {}{name:#} {}",
        untrusted_text::line(tool_name),
        outcome.words(result)
    );
    line.push_str(&format!(" {faint}{}{faint:#}", duration(millis)));
    line.push_str(&stat(result));
    let title = match &result.error {
        Some(error) => error.message.lines().next(),
        None => result.title.as_deref().filter(|title| !title.is_empty()),
    };
    if let Some(title) = title {
        let mark = if result.error.is_some() { ":" } else { "" };
        line.push_str(&format!("{mark} {faint}{}{faint:#}", shorten(title)));
    }
    let output = output_text(&result.output);
    std::iter::once(line)
        .chain(rows(
            &output,
            RowSelection::of(&outcome, &result.output),
            width,
        ))
        .collect()
}

/// Formats a finished call in one row: outcome, title and first output line.
/// For programs and failed calls it shows the last output line, which usually is the summary or
/// reason.
pub(in crate::commands::run) fn folded_call_row(
    tool_name: &str,
    status: ToolCallStatus,
    millis: u64,
    result: &ShownResult,
    max_columns: usize,
) -> String {
    let (name, faint, good, red) = (style::NAME, style::FAINT, style::GOOD, style::ERROR);
    let outcome = CallOutcome::of(status, result);
    let is_good = outcome == CallOutcome::Well;
    let mark = if is_good {
        format!("{good}✓{good:#}")
    } else {
        format!("{red}✗{red:#}")
    };
    let outcome_text = if is_good {
        String::new()
    } else {
        format!(" {}", outcome.words(result))
    };
    let tool = shorten(tool_name);
    let head = format!(
        "{mark} {name}{tool}{name:#}{outcome_text} {faint}{}{faint:#}{}",
        duration(millis),
        stat(result)
    );
    let output_excerpt = output_text(&result.output);
    let mut lines = output_excerpt
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let title = match &result.error {
        Some(error) => error.message.lines().next(),
        None => result.title.as_deref().filter(|title| !title.is_empty()),
    };
    let line = if RowSelection::of(&outcome, &result.output) == RowSelection::START {
        lines.next()
    } else {
        lines.next_back()
    };
    let tail: Vec<String> = title.into_iter().chain(line).map(shorten).collect();
    if tail.is_empty() {
        return head;
    }
    let used_columns = width(&anstream::adapter::strip_str(&head).to_string());
    format!(
        "{head} {faint}{}{faint:#}",
        fit(
            &tail.join(" · "),
            max_columns
                .saturating_sub(used_columns + 2)
                .max(MIN_OUTPUT_COLUMNS)
        )
    )
}

/// Minimum width for the output of a call, in columns.
const MIN_OUTPUT_COLUMNS: usize = 16;

/// Outcome of a tool call.
#[derive(Debug, PartialEq, Eq)]
enum CallOutcome {
    Well,
    Failed,
    /// The call ran a program that failed, with this description.
    Ran(String),
}

impl CallOutcome {
    /// Returns the outcome of a call: a call that ran a program fails if the program failed.
    fn of(status: ToolCallStatus, result: &ShownResult) -> Self {
        if status != ToolCallStatus::Ok {
            return CallOutcome::Failed;
        }
        let field = |name| result.output.get(name);
        if field("timedOut") == Some(&Value::Bool(true)) {
            return CallOutcome::Ran("timed out".to_owned());
        }
        if let Some(signal) = field("signal").and_then(Value::as_str) {
            return CallOutcome::Ran(format!("ended by {}", shorten(signal)));
        }
        match field("exitCode").and_then(Value::as_i64) {
            None | Some(0) => CallOutcome::Well,
            Some(code) => CallOutcome::Ran(format!("exit {code}")),
        }
    }

    /// Describes the outcome for the user.
    fn words(&self, result: &ShownResult) -> String {
        let red = style::ERROR;
        match (self, &result.error) {
            (CallOutcome::Well, _) => "ok".to_owned(),
            (CallOutcome::Failed, Some(error)) => {
                format!("{red}error {}{red:#}", shorten(&error.code))
            }
            (CallOutcome::Failed, None) => format!("{red}error{red:#}"),
            (CallOutcome::Ran(words), _) => format!("{red}{words}{red:#}"),
        }
    }
}

/// Formats the numbers of added and removed lines.
fn stat(result: &ShownResult) -> String {
    let count = |name| result.metadata.get(name).and_then(Value::as_u64);
    let (Some(added), Some(removed)) = (count("added"), count("removed")) else {
        return String::new();
    };
    let (green, red) = (style::GOOD, style::ERROR);
    format!(" {green}+{added}{green:#} {red}-{removed}{red:#}")
}

/// Returns the text of an output: program output, its main field, or its JSON.
fn output_text(output: &Value) -> String {
    let Value::Object(fields) = output else {
        return match output {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
    };
    let text = |name: &&str| {
        fields
            .get(*name)
            .and_then(Value::as_str)
            .filter(|text| !text.trim().is_empty())
    };
    if has_program_output(output) {
        let written: Vec<&str> = ["stdout", "stderr"]
            .iter()
            .filter_map(text)
            .map(str::trim_end)
            .collect();
        return written.join("\n");
    }
    OUTPUT_FIELDS
        .iter()
        .find_map(text)
        .map_or_else(|| output.to_string(), str::to_owned)
}

/// Returns true if the output has the fields `stdout` or `stderr`.
fn has_program_output(output: &Value) -> bool {
    output.get("stdout").is_some() || output.get("stderr").is_some()
}

/// Number of rows shown at the start and at the end of an output.
#[derive(Clone, Copy, PartialEq, Eq)]
struct RowSelection {
    first: usize,
    last: usize,
}

impl RowSelection {
    const START: RowSelection = RowSelection { first: 3, last: 0 };
    /// The last lines of a program usually sum it up.
    const SUM: RowSelection = RowSelection { first: 1, last: 2 };
    const REASON: RowSelection = RowSelection { first: 2, last: 5 };

    /// Selects the rows to show: more of them, and the last ones, if the call failed.
    fn of(outcome: &CallOutcome, output: &Value) -> RowSelection {
        match outcome {
            CallOutcome::Well if has_program_output(output) => RowSelection::SUM,
            CallOutcome::Well => RowSelection::START,
            CallOutcome::Failed | CallOutcome::Ran(_) => RowSelection::REASON,
        }
    }
}

/// Returns the selected rows of a text.
fn rows(text: &str, part: RowSelection, width: usize) -> Vec<String> {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let row = |line: &&str| first_output_row(line, width);
    let RowSelection { first, last } = part;
    // A notice about omitted lines also takes a row.
    if lines.len() <= first + last + 1 {
        return lines.iter().map(row).collect();
    }
    let left_out = lines.len() - first - last;
    let faint = style::FAINT;
    let notice = format!("{faint}  ⋮ {left_out} more lines{faint:#}");
    let end = lines[lines.len() - last..].iter().map(row);
    lines[..first]
        .iter()
        .map(row)
        .chain([notice])
        .chain(end)
        .collect()
}

/// Returns a line after a gutter, cut to one row.
fn first_output_row(line: &str, width: usize) -> String {
    let mut rows = gutter(line, width.saturating_sub(1)).into_iter();
    let first = rows.next().unwrap_or_default();
    let ellipsis = if rows.next().is_some() { "…" } else { "" };
    let faint = style::FAINT;
    format!("{faint}{first}{ellipsis}{faint:#}")
}

#[cfg(test)]
mod tests {
    use goondan::event::ShownError;
    use serde_json::json;

    use super::*;

    fn plain(rows: Vec<String>) -> String {
        anstream::adapter::strip_str(&rows.join("\n")).to_string()
    }

    fn ended(millis: u64, output: Value) -> String {
        plain(completed_call_lines(
            "bash__exec",
            ToolCallStatus::Ok,
            millis,
            &ShownResult {
                output,
                ..Default::default()
            },
            40,
        ))
    }

    #[test]
    fn program_output_is_shown_in_part() {
        let output = json!({"exitCode": 0, "signal": null, "stdout": "\none\ntwo\n", "stderr": "three\n", "cwd": "/"});
        assert_eq!(
            ended(12, output),
            "← bash__exec ok 12 ms\n  │ one\n  │ two\n  │ three"
        );
        let lines = (1..=20)
            .map(|number| format!("line {number}\n"))
            .collect::<String>();
        let ok = ended(2_345, json!({"exitCode": 0, "stdout": lines}));
        assert_eq!(
            ok,
            "← bash__exec ok 2.3 s\n  │ line 1\n  ⋮ 17 more lines\n  │ line 19\n  │ line 20"
        );
        let failed = ended(65_000, json!({"exitCode": 101, "stdout": lines}));
        assert_eq!(
            failed,
            "← bash__exec exit 101 1 min 5 s\n  │ line 1\n  │ line 2\n  ⋮ 13 more lines\n  │ line \
            16\n  │ line 17\n  │ line 18\n  │ line 19\n  │ line 20"
        );
        assert_eq!(
            ended(1, json!({"signal": "SIGKILL", "stdout": ""})),
            "← bash__exec ended by SIGKILL 1 ms"
        );
        assert_eq!(
            ended(1, json!({"signal": "SIGKILL", "timedOut": true}))
                .lines()
                .next(),
            Some("← bash__exec timed out 1 ms")
        );
    }

    #[test]
    fn an_exit_code_is_red() {
        let result = ShownResult {
            output: json!({"exitCode": 3, "stdout": ""}),
            ..Default::default()
        };
        let line = completed_call_lines("bash__exec", ToolCallStatus::Ok, 1, &result, 80).remove(0);
        let red = style::ERROR;
        assert!(line.contains(&format!("{red}exit 3{red:#}")), "{line:?}");
    }

    #[test]
    fn a_call_shows_its_changed_line_counts_or_its_error() {
        let metadata = json!({"added": 3, "removed": 1})
            .as_object()
            .unwrap()
            .clone();
        let result = ShownResult {
            metadata,
            title: Some("Edited a.rs".to_owned()),
            output: json!({"path": "a.rs", "diff": "@@ -1 +1 @@\n-a\n+b\n"}),
            ..Default::default()
        };
        let rows = plain(completed_call_lines(
            "fs__edit",
            ToolCallStatus::Ok,
            4,
            &result,
            80,
        ));
        assert_eq!(
            rows,
            "← fs__edit ok 4 ms +3 -1 Edited a.rs\n  │ @@ -1 +1 @@\n  │ -a\n  │ +b"
        );
        let error = Some(ShownError {
            code: "E_TOOL_DENIED".to_owned(),
            message: "no\nreally".to_owned(),
        });
        let result = ShownResult {
            error,
            ..Default::default()
        };
        let rows = plain(completed_call_lines(
            "fs__edit",
            ToolCallStatus::Error,
            4,
            &result,
            80,
        ));
        assert_eq!(rows, "← fs__edit error E_TOOL_DENIED 4 ms: no");
    }

    #[test]
    fn a_call_folds_into_one_row() {
        let fold = |status, result: &ShownResult| {
            anstream::adapter::strip_str(&folded_call_row("bash__exec", status, 2_345, result, 60))
                .to_string()
        };
        let output = json!({"exitCode": 0, "stdout": "\none\ntwo\n"});
        let result = ShownResult {
            output,
            title: Some("ls".to_owned()),
            ..Default::default()
        };
        assert_eq!(
            fold(ToolCallStatus::Ok, &result),
            "✓ bash__exec 2.3 s ls · two"
        );
        let output = json!({"exitCode": 7, "stdout": "\none\ntwo\n"});
        let result = ShownResult {
            output,
            ..Default::default()
        };
        assert_eq!(
            fold(ToolCallStatus::Ok, &result),
            "✗ bash__exec exit 7 2.3 s two"
        );
        let result = ShownResult {
            output: json!("日".repeat(200)),
            ..Default::default()
        };
        assert!(width(&fold(ToolCallStatus::Ok, &result)) <= 60);
        let result = ShownResult {
            output: json!("\u{1b}[2J\u{202e}"),
            ..Default::default()
        };
        assert_eq!(
            fold(ToolCallStatus::Ok, &result),
            "✓ bash__exec 2.3 s \\u{1b}[2J\\u{202e}"
        );
    }

    #[test]
    fn untrusted_output_stays_behind_the_gutter() {
        let hostile = format!(
            "{}\nerror[E]: x\u{1b}[2J\r{}",
            "a".repeat(100),
            "b".repeat(100)
        );
        let rows = ended(
            1,
            json!({"exitCode": 0, "stdout": hostile, "stderr": "\u{202e}"}),
        );
        for row in rows.lines().skip(1) {
            assert!(
                row.starts_with("  │ ")
                    && row.chars().count() <= 40
                    && row.chars().all(untrusted_text::is_visible),
                "{row}"
            );
        }
    }
}
