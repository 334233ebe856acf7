//! Parser for lines of standard input.

use std::io::{self, BufRead, Read};

use goondan::spec::reason;
use serde_json::{Map, Value};
use tokio::sync::mpsc::{self, Receiver};

/// Maximum length of a line, in bytes. Longer lines are refused and never held in memory as a
/// whole.
const MAX_LINE_BYTES: u64 = 16 * 1024 * 1024;

/// Maximum number of lines read ahead of the swarm.
const MAX_LINES_AHEAD: usize = 64;

/// Input in a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct InputLine {
    pub(crate) input: String,
    pub(crate) agent: Option<String>,
    pub(crate) instance_key: Option<String>,
    /// Id of the event. The same id again starts no second turn.
    pub(crate) id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
/// Parsed line of standard input.
pub(crate) enum StdinLine {
    /// An input for an agent.
    Input(InputLine),
    /// An answer to an approval request.
    Answer {
        /// Id of the request.
        approval: String,
        /// `once`, `conversation`, `always` or `deny`, optionally followed by what it covers.
        answer: String,
    },
}

/// Error of an unusable line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LineError {
    /// Id of the line, if readable.
    pub(crate) id: Option<String>,
    /// Description of the error, as a complete sentence.
    pub(crate) message: String,
    /// Correct form to write instead.
    pub(crate) suggestion: String,
}

/// Reads standard input on its own thread. Blank lines are skipped, and the channel closes at the
/// end.
pub(crate) fn read_lines() -> Receiver<(u64, Result<StdinLine, LineError>)> {
    let (sender, receiver) = mpsc::channel(MAX_LINES_AHEAD);
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        for number in 1.. {
            let line = match next_line(&mut stdin, MAX_LINE_BYTES) {
                Ok(Some(line)) => line,
                Ok(None) => return,
                Err(error) => Err(line_error(format!(
                    "Standard input can't be read: {error}.",
                    error = reason(&error)
                ))),
            };
            let blank = matches!(&line, Ok(line) if line.trim_ascii().is_empty());
            if !blank
                && sender
                    .blocking_send((number, line.and_then(|line| parse(&line))))
                    .is_err()
            {
                return;
            }
        }
    });
    receiver
}

/// Returns the next line without its end; `None` at the end of input.
/// A line longer than `limit` bytes is skipped and refused.
fn next_line(
    input: &mut impl BufRead,
    limit: u64,
) -> io::Result<Option<Result<Vec<u8>, LineError>>> {
    let mut line = Vec::new();
    let read_bytes = input
        .by_ref()
        .take(limit + 1)
        .read_until(b'\n', &mut line)?;
    if read_bytes == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(Some(Ok(line)));
    }
    if read_bytes as u64 <= limit {
        return Ok(Some(Ok(line)));
    }
    input.skip_until(b'\n')?;
    Ok(Some(Err(line_error(format!(
        "The line is longer than {limit} bytes."
    )))))
}

/// Parses a line: an answer if it has the field `approval`, otherwise an input.
fn parse(line: &[u8]) -> Result<StdinLine, LineError> {
    let value = serde_json::from_slice(line)
        .map_err(|error| line_error(format!("The line is not JSON: {error}.")))?;
    let Value::Object(mut fields) = value else {
        return Err(line_error(
            "The line is JSON, but not an object.".to_owned(),
        ));
    };
    let id = take_id(&mut fields)?;
    let parsed = if fields.contains_key("approval") {
        read_answer(fields)
    } else {
        read_fields(fields, id.clone()).map(StdinLine::Input)
    };
    parsed.map_err(|error| LineError { id, ..error })
}

/// Parses an answer. An invalid answer is refused, and the request stays open.
fn read_answer(mut fields: Map<String, Value>) -> Result<StdinLine, LineError> {
    const ANSWERS: [&str; 4] = ["once", "conversation", "always", "deny"];
    const COVERS: [&str; 3] = ["call", "program", "tool"];
    let suggestion = r#"Write {"approval": "ID", "answer": "once"}; other answers: `conversation`, `always`, `deny`. To cover more calls, add one of the request's `offers`, such as "covers": "program"."#;
    let answer_error = |message: &str| LineError {
        id: None,
        message: message.to_owned(),
        suggestion: suggestion.to_owned(),
    };
    let approval = take_text(&mut fields, "approval")?
        .ok_or_else(|| answer_error("The field `approval` is null."))?;
    let answer = take_text(&mut fields, "answer")?
        .ok_or_else(|| answer_error("The field `answer` is missing."))?;
    if !ANSWERS.contains(&answer.as_str()) {
        return Err(answer_error(
            "The field `answer` is not `once`, `conversation`, `always` or `deny`.",
        ));
    }
    let answer = match take_text(&mut fields, "covers")? {
        Some(covers) if !COVERS.contains(&covers.as_str()) => {
            return Err(answer_error(
                "The field `covers` is not `call`, `program` or `tool`.",
            ));
        }
        Some(covers) => format!("{answer} {covers}"),
        None => answer,
    };
    match fields.keys().next() {
        None => Ok(StdinLine::Answer { approval, answer }),
        Some(name) => Err(answer_error(&format!("The field `{name}` is unknown."))),
    }
}

/// Parses the rest of an input line whose id is known.
fn read_fields(mut fields: Map<String, Value>, id: Option<String>) -> Result<InputLine, LineError> {
    let input = take_text(&mut fields, "input")?
        .ok_or_else(|| line_error("The field `input` is missing.".to_owned()))?;
    let agent = take_text(&mut fields, "agent")?;
    let instance_key = take_text(&mut fields, "instanceKey")?;
    match fields.keys().next() {
        None => Ok(InputLine {
            input,
            agent,
            instance_key,
            id,
        }),
        Some(name) => Err(line_error(format!("The field `{name}` is unknown."))),
    }
}

/// Takes the id, which may also be a number, because many clients count.
fn take_id(fields: &mut Map<String, Value>) -> Result<Option<String>, LineError> {
    match fields.remove("id") {
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(Value::String(text)) if text.is_empty() => {
            Err(line_error("The field `id` is empty.".to_owned()))
        }
        Some(Value::String(text)) => Ok(Some(text)),
        None | Some(Value::Null) => Ok(None),
        Some(_) => Err(line_error(
            "The field `id` is not a string or a number.".to_owned(),
        )),
    }
}

/// Removes a field and returns its text; `None` if it is missing or null. Fails for other types.
fn take_text(fields: &mut Map<String, Value>, name: &str) -> Result<Option<String>, LineError> {
    match fields.remove(name) {
        Some(Value::String(text)) => Ok(Some(text)),
        None | Some(Value::Null) => Ok(None),
        Some(_) => Err(line_error(format!("The field `{name}` is not a string."))),
    }
}

/// Returns the error of an unusable line, with the correct form as the suggestion.
fn line_error(message: String) -> LineError {
    let suggestion = r#"Write one object per line: {"input": "…", "agent": "…", "instanceKey": "…", "id": "…"}; only `input` is required."#;
    LineError {
        id: None,
        message,
        suggestion: suggestion.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_line_can_set_agent_conversation_and_id() {
        let line = parse(br#"{"input": "hi", "agent": "a", "instanceKey": "k", "id": 7}"#).unwrap();
        let expected = InputLine {
            input: "hi".to_owned(),
            agent: Some("a".to_owned()),
            instance_key: Some("k".to_owned()),
            id: Some("7".to_owned()),
        };
        assert_eq!(line, StdinLine::Input(expected));
        let plain = InputLine {
            input: "hi".to_owned(),
            ..InputLine::default()
        };
        assert_eq!(
            parse(br#"{"input": "hi"}"#).unwrap(),
            StdinLine::Input(plain)
        );
    }

    #[test]
    fn an_input_line_can_answer_an_approval_request() {
        let line = parse(br#"{"approval": "x", "answer": "always"}"#).unwrap();
        assert_eq!(
            line,
            StdinLine::Answer {
                approval: "x".to_owned(),
                answer: "always".to_owned()
            }
        );
        for broken in [
            br#"{"approval": "x"}"#.as_slice(),
            br#"{"approval": "x", "answer": "yes"}"#,
            br#"{"approval": 1, "answer": "once"}"#,
            br#"{"approval": "x", "answer": "once", "input": "hi"}"#,
        ] {
            assert!(parse(broken).is_err());
        }
    }

    #[test]
    fn an_invalid_line_is_reported_with_its_error_and_id() {
        let line_error = |line: &[u8]| parse(line).unwrap_err();
        assert!(line_error(b"{").message.starts_with("The line is not JSON"));
        assert!(
            line_error(b"\xff")
                .message
                .starts_with("The line is not JSON")
        );
        assert_eq!(
            line_error(b"[]").message,
            "The line is JSON, but not an object."
        );
        assert_eq!(
            line_error(br#"{"input": 1}"#).message,
            "The field `input` is not a string."
        );
        let unknown = line_error(br#"{"id": "x", "input": "a", "instance_key": "k"}"#);
        assert_eq!(
            (unknown.id.as_deref(), unknown.message.as_str()),
            (Some("x"), "The field `instance_key` is unknown.")
        );
    }

    #[test]
    fn an_oversized_line_is_skipped_and_the_next_line_is_read() {
        let mut input = io::Cursor::new(b"0123456789\nabc\nend".to_vec());
        assert!(next_line(&mut input, 5).unwrap().unwrap().is_err());
        assert_eq!(next_line(&mut input, 5).unwrap().unwrap().unwrap(), b"abc");
        assert_eq!(next_line(&mut input, 5).unwrap().unwrap().unwrap(), b"end");
        assert!(next_line(&mut input, 5).unwrap().is_none());
    }
}
