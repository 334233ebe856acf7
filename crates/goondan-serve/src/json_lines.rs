//! JSON-RPC messages on lines, as MCP and ACP clients send them over a pipe.
//!
//! The protocol libraries ignore a line that they cannot read, so its sender would wait forever. This
//! module repairs what can be repaired, and answers every other request with an error.

use std::pin::Pin;

use goondan::json_rpc::{PARSE_ERROR, refusal, request_id};
use goondan::{json_text, received_text};
use serde::de::IgnoredAny;
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, duplex,
};
use tokio::sync::mpsc::{self, Receiver, Sender};

/// Bytes that wait between the pipe and the protocol library.
const PIPE_BYTES: usize = 64 * 1024;

/// Runs `serve` with an input whose lines are JSON, and with an output for its answers.
pub(crate) async fn serve_json_lines<F: Future>(
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
                    break;
                }
                output.write_all(&line).await?;
                line.clear();
            }
            Some(refusal) = refusals.recv() => output.write_all(&refusal).await?,
        }
        output.flush().await?;
    }
    // The refusal of the last line waits here, because the library ends with the input.
    while let Ok(refusal) = refusals.try_recv() {
        output.write_all(&refusal).await?;
    }
    output.shutdown().await
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::io::AsyncReadExt;

    use super::*;

    /// Returns the output for an input whose lines are echoed.
    async fn echoed(input: &'static [u8]) -> String {
        let (mut client, output) = duplex(PIPE_BYTES);
        let echo = async |mut input: DuplexStream, mut output: DuplexStream| {
            tokio::io::copy(&mut input, &mut output).await.unwrap();
        };
        serve_json_lines(input, output, echo).await;
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn an_invalid_last_line_gets_an_error_response() {
        // The task order varies between runs.
        for _ in 0..20 {
            let text = echoed(b"{\"id\": 2, x").await;
            assert!(text.contains("\"id\":2"), "{text}");
        }
    }

    #[tokio::test]
    async fn every_line_is_passed_on_or_gets_an_error_response() {
        let input =
            b"\xEF\xBB\xBF{\"id\": 1, \"a\": \"cut \\ud83d\"}\n{\"id\": 2, x\n\n{\"id\": 3}";
        let text = echoed(input).await;
        let mut lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        lines.sort_unstable();
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!(lines[0], "{\"id\": 1, \"a\": \"cut \\ufffd\"}");
        assert_eq!(lines[1], "{\"id\": 3}");
        let error: Value = serde_json::from_str(lines[2]).unwrap();
        assert_eq!(
            (&error["id"], &error["error"]["code"]),
            (&json!(2), &json!(-32_700))
        );
    }
}
