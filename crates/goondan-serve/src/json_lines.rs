//! JSON-RPC messages on lines, as MCP and ACP clients send them over a pipe.
//!
//! The protocol libraries ignore a line that they cannot read, so its sender would wait forever. This
//! module repairs what can be repaired, and answers every other request with an error.

use std::pin::Pin;

use goondan::{json_text, received_text};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, duplex,
};
use tokio::sync::mpsc::{self, Receiver, Sender};

/// Bytes that wait between the pipe and the protocol library.
const PIPE_BYTES: usize = 64 * 1024;
/// JSON-RPC error code for a message that is not JSON.
pub(crate) const PARSE_ERROR: i32 = -32_700;

/// Runs `serve` with an input whose lines are JSON, and with an output for its answers.
pub(crate) async fn readable<F: Future>(
    input: impl AsyncRead + Send + 'static,
    output: impl AsyncWrite + Send + 'static,
    serve: impl FnOnce(DuplexStream, DuplexStream) -> F,
) -> F::Output {
    let (served_input, lines) = duplex(PIPE_BYTES);
    let (served_output, answers) = duplex(PIPE_BYTES);
    let (refusals, waiting) = mpsc::channel(1);
    let reading = tokio::spawn(read(Box::pin(input), lines, refusals));
    let writing = tokio::spawn(write(Box::pin(output), answers, waiting));
    let outcome = serve(served_input, served_output).await;
    reading.abort();
    // Fails only if the client has disconnected.
    let _ = writing.await;
    outcome
}

/// Passes on the lines that are JSON, and refuses the others.
async fn read(
    input: Pin<Box<dyn AsyncRead + Send>>,
    mut lines: DuplexStream,
    refusals: Sender<Vec<u8>>,
) -> std::io::Result<()> {
    let mut input = BufReader::new(input);
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line).await? > 0 {
        match checked_json_line(&line) {
            Ok(text) => {
                lines.write_all(text.as_bytes()).await?;
                lines.write_all(b"\n").await?;
            }
            Err(refusal) => {
                // Fails only if the client has disconnected.
                let _ = refusals.send(refusal).await;
            }
        }
        line.clear();
    }
    Ok(())
}

/// Decodes a line and repairs its surrogates. Fails with the line to answer if it is not JSON.
fn checked_json_line(line: &[u8]) -> Result<String, Vec<u8>> {
    let content_type = "";
    let text = match received_text::decode(line, content_type) {
        Ok(text) => text.into_owned(),
        Err(_) => String::from_utf8_lossy(line).into_owned(),
    };
    let text = json_text::repair_surrogates(text.trim());
    match serde_json::from_str::<IgnoredAny>(&text) {
        Ok(IgnoredAny) => Ok(text.into_owned()),
        Err(_) if text.is_empty() => Ok(String::new()),
        Err(error) => {
            let message = format!("The message is not JSON: {error}.");
            let refusal = refusal(&request_id(&text), PARSE_ERROR, &message);
            Err(format!("{refusal}\n").into_bytes())
        }
    }
}

/// Returns a JSON-RPC error.
pub(crate) fn refusal(id: &Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// Writes answers and refusals, each as a whole line.
async fn write(
    mut output: Pin<Box<dyn AsyncWrite + Send>>,
    answers: DuplexStream,
    mut refusals: Receiver<Vec<u8>>,
) -> std::io::Result<()> {
    let mut answers = BufReader::new(answers);
    let mut line = Vec::new();
    loop {
        tokio::select! {
            // Cancellation loses nothing: `line` keeps the part that was read.
            read = answers.read_until(b'\n', &mut line) => {
                if read? == 0 && line.is_empty() {
                    return output.shutdown().await;
                }
                output.write_all(&line).await?;
                line.clear();
            }
            Some(refusal) = refusals.recv() => output.write_all(&refusal).await?,
        }
        output.flush().await?;
    }
}

/// Returns the `id` of a JSON-RPC request that is not valid JSON; null if it is not found.
pub(crate) fn request_id(text: &str) -> Value {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while at < bytes.len() {
        match bytes[at] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let end = string_end(bytes, at);
                let value = text.get(end..).unwrap_or_default().trim_start();
                if depth == 1
                    && text.get(at..end) == Some("\"id\"")
                    && let Some(value) = value.strip_prefix(':')
                {
                    return id_at(value.trim_start());
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    Value::Null
}

/// Returns the position after the string that begins at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the string or number at the beginning of `text`.
fn id_at(text: &str) -> Value {
    let end = match text.starts_with('"') {
        true => string_end(text.as_bytes(), 0),
        false => text
            .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '+' | '.'))
            .unwrap_or(text.len()),
    };
    let id: Value = text
        .get(..end)
        .and_then(|id| serde_json::from_str(id).ok())
        .unwrap_or_default();
    match id {
        Value::String(_) | Value::Number(_) => id,
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[test]
    fn the_id_of_a_broken_request_is_found() {
        for (text, expected) in [
            (
                r#"{"jsonrpc": "2.0", "id": 7, "method": "x", "params": {"a": "\x"}}"#,
                json!(7),
            ),
            (
                r#"{"params": {"id": 1, "a": "\"id\": 2"}, "id" : "a-b", x"#,
                json!("a-b"),
            ),
            (r#"{"id": 12"#, json!(12)),
            (r#"{"params": {"id": 1}"#, Value::Null),
            (r#"{"id": null, x"#, Value::Null),
            (r#"{"id": {"a": 1}, x"#, Value::Null),
            (r#"{"id"#, Value::Null),
            (r#""id": 1"#, Value::Null),
            ("{\"a\": \"\\", Value::Null),
            ("", Value::Null),
        ] {
            assert_eq!(request_id(text), expected, "{text}");
        }
    }

    #[tokio::test]
    async fn every_request_is_answered() {
        let input =
            b"\xEF\xBB\xBF{\"id\": 1, \"a\": \"cut \\ud83d\"}\n{\"id\": 2, x\n\n{\"id\": 3}";
        let (mut client, output) = duplex(PIPE_BYTES);
        // Echoes each line.
        let echo = async |mut input: DuplexStream, mut output: DuplexStream| {
            tokio::io::copy(&mut input, &mut output).await.unwrap();
        };
        readable(&input[..], output, echo).await;
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        let mut lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        lines.sort_unstable();
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!(lines[0], "{\"id\": 1, \"a\": \"cut \\ufffd\"}");
        assert_eq!(lines[1], "{\"id\": 3}");
        let refusal: Value = serde_json::from_str(lines[2]).unwrap();
        assert_eq!(
            (&refusal["id"], &refusal["error"]["code"]),
            (&json!(2), &json!(-32_700))
        );
    }
}
