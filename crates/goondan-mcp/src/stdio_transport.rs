//! A line-based connection, as over the standard input and output of a program: one message per
//! line.
//!
//! Other lines are counted and skipped, because programs print unrelated output. A program that
//! only prints such lines is not a server. A line that is too long ends the connection, because it
//! may have contained an awaited answer.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ErrorData, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio_util::sync::CancellationToken;

use crate::codes;

/// Maximum length of a line in bytes.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Maximum size in bytes of skipped lines between two messages.
const MAX_SKIPPED_BYTES: usize = 1 << 20;
/// Maximum size in bytes of the retained error output.
const MAX_STDERR_BYTES: usize = 4 << 10;
/// Time to read remaining messages after the server stopped reading.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Errors of writing to a server that has ended.
const ENDED_ERRORS: [io::ErrorKind; 2] =
    [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
/// Message of the error that replaces an unreadable answer.
pub(crate) const UNREADABLE_ANSWER: &str = "an unreadable answer";

/// Observations about a connection, for messages about its end.
#[derive(Debug, Default)]
pub(crate) struct StreamObservations(Mutex<StreamNotes>);

#[derive(Debug, Default)]
struct StreamNotes {
    complaints: Vec<u8>,
    noise: Option<String>,
    fatal: Option<ConnectionFault>,
}

/// The reason why the client ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionFault {
    LongLine,
    Noise,
}

impl StreamObservations {
    fn notes(&self) -> std::sync::MutexGuard<'_, StreamNotes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the reason if the client ended the connection.
    pub(crate) fn fatal(&self) -> Option<ConnectionFault> {
        self.notes().fatal
    }

    /// Returns the server's own output about an error, as a part of a sentence.
    pub(crate) fn words(&self) -> String {
        let notes = self.notes();
        let complaints = codes::escaped_error_text(&String::from_utf8_lossy(&notes.complaints));
        match (&notes.noise, complaints.is_empty()) {
            (_, false) => format!("; its error output: {complaints}"),
            (Some(noise), true) => format!("; its output: {}", codes::escaped_error_text(noise)),
            (None, true) => String::new(),
        }
    }

    /// Reads the error output to its end, and keeps the last part.
    pub(crate) async fn read(
        self: Arc<Self>,
        mut errors: Box<dyn AsyncRead + Send + Sync + Unpin>,
    ) {
        let mut piece = [0; 1024];
        while let Ok(count @ 1..) = errors.read(&mut piece).await {
            let kept = &mut self.notes().complaints;
            kept.extend_from_slice(&piece[..count]);
            let over = kept.len().saturating_sub(MAX_STDERR_BYTES);
            kept.drain(..over);
        }
    }
}

pub(crate) struct StdioLineTransport {
    input: BufReader<Box<dyn AsyncRead + Send + Sync + Unpin>>,
    output: Arc<tokio::sync::Mutex<Option<Box<dyn AsyncWrite + Send + Sync + Unpin>>>>,
    /// The received part of the next line. It is kept if a read is cancelled.
    line: Vec<u8>,
    noise: usize,
    noticed: Arc<StreamObservations>,
    /// Fires when the server no longer reads its input, which usually precedes its end.
    deaf: CancellationToken,
}

impl StdioLineTransport {
    pub(crate) fn new(
        input: Box<dyn AsyncRead + Send + Sync + Unpin>,
        output: Box<dyn AsyncWrite + Send + Sync + Unpin>,
        noticed: Arc<StreamObservations>,
    ) -> Self {
        let output = Arc::new(tokio::sync::Mutex::new(Some(output)));
        StdioLineTransport {
            input: BufReader::new(input),
            output,
            line: Vec::new(),
            noise: 0,
            noticed,
            deaf: CancellationToken::new(),
        }
    }

    /// Reads until a complete line is available; returns false at the end.
    async fn read_line(&mut self) -> bool {
        loop {
            let nothing_more = async {
                self.deaf.cancelled().await;
                tokio::time::sleep(DRAIN_TIMEOUT).await;
            };
            let available = tokio::select! {
                biased;
                available = self.input.fill_buf() => available,
                () = nothing_more => return false,
            };
            let Ok(available) = available else {
                return false;
            };
            if available.is_empty() {
                return false;
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let count = end.map_or(available.len(), |end| end + 1);
            self.line.extend_from_slice(&available[..count]);
            self.input.consume(count);
            if self.line.len() > MAX_LINE_BYTES {
                self.noticed.notes().fatal = Some(ConnectionFault::LongLine);
                return false;
            }
            if end.is_some() {
                return true;
            }
        }
    }

    /// Records a skipped line; returns false if there were too many.
    fn pass_over(&mut self, line: &[u8]) -> bool {
        self.noise += line.len();
        let mut notes = self.noticed.notes();
        notes.noise.get_or_insert_with(|| {
            String::from_utf8_lossy(&line[..line.len().min(400)]).into_owned()
        });
        if self.noise > MAX_SKIPPED_BYTES {
            notes.fatal = Some(ConnectionFault::Noise);
        }
        self.noise <= MAX_SKIPPED_BYTES
    }
}

impl Transport<RoleClient> for StdioLineTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let (output, deaf) = (Arc::clone(&self.output), self.deaf.clone());
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let mut output = output.lock().await;
            let output = output.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            let written = async {
                output.write_all(&line).await?;
                output.flush().await
            };
            match written.await {
                // Messages sent before the end can still be read, and may contain the cause.
                Err(error) if ENDED_ERRORS.contains(&error.kind()) => deaf.cancel(),
                written => return written,
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        while self.read_line().await {
            let line = std::mem::take(&mut self.line);
            match read(&line) {
                Some(message) => {
                    self.noise = 0;
                    return Some(message);
                }
                None if line.trim_ascii().is_empty() => {}
                None if self.pass_over(&line) => {}
                None => return None,
            }
        }
        None
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        if let Some(mut output) = self.output.lock().await.take() {
            let _ = output.shutdown().await;
        }
        Ok(())
    }
}

/// The fields that assign a line to a request. Other contents are skipped without using memory.
#[derive(Deserialize)]
struct ResponseEnvelope {
    id: RequestId,
    result: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

/// Parses a line. An unreadable answer becomes an error of its request, so that the caller does not
/// wait forever.
fn read(line: &[u8]) -> Option<RxJsonRpcMessage<RoleClient>> {
    if let Ok(message) = serde_json::from_slice(line) {
        return Some(message);
    }
    let envelope: ResponseEnvelope = serde_json::from_slice(line).ok()?;
    let is_answer = envelope.result.is_some() || envelope.error.is_some();
    let error = ErrorData::invalid_request(UNREADABLE_ANSWER, None);
    is_answer.then(|| RxJsonRpcMessage::<RoleClient>::error(error, Some(envelope.id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(
        input: impl AsyncRead + Send + Sync + Unpin + 'static,
    ) -> (StdioLineTransport, Arc<StreamObservations>) {
        let noticed = Arc::<StreamObservations>::default();
        (
            StdioLineTransport::new(
                Box::new(input),
                Box::new(tokio::io::sink()),
                Arc::clone(&noticed),
            ),
            noticed,
        )
    }

    #[tokio::test]
    async fn what_is_no_message_is_passed_over() {
        let text = "starting…\n\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\r\n[1]\n{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":7}\n";
        let (mut lines, noticed) = lines(text.as_bytes());
        assert!(matches!(
            lines.receive().await,
            Some(RxJsonRpcMessage::<RoleClient>::Response(_))
        ));
        assert!(lines.receive().await.is_some());
        assert!(lines.receive().await.is_none());
        assert_eq!(
            (noticed.fatal(), noticed.words().as_str()),
            (None, "; its output: starting…")
        );
    }

    #[tokio::test]
    async fn who_reads_no_more_is_heard_to_its_end() {
        let (near, far) = tokio::io::duplex(1_024);
        drop(far);
        let noticed = Arc::<StreamObservations>::default();
        let mut lines = StdioLineTransport::new(
            Box::new("no such option\n".as_bytes()),
            Box::new(near),
            Arc::clone(&noticed),
        );
        let ping =
            serde_json::from_str(r#"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#).unwrap();
        lines.send(ping).await.unwrap();
        assert!(lines.receive().await.is_none());
        assert_eq!(noticed.words(), "; its output: no such option");
        let (silent, _kept) = tokio::io::duplex(1);
        let mut lines = StdioLineTransport {
            input: BufReader::new(Box::new(silent)),
            ..lines
        };
        assert!(
            lines.receive().await.is_none(),
            "who says nothing more is not waited for"
        );
    }

    #[tokio::test]
    async fn who_prints_nothing_else_is_no_server() {
        let (mut loud, heard) = lines(std::io::Cursor::new("word\n".repeat(MAX_SKIPPED_BYTES / 4)));
        assert!(loud.receive().await.is_none());
        assert_eq!(heard.fatal(), Some(ConnectionFault::Noise));
    }

    #[tokio::test]
    async fn a_line_without_end_ends_the_conversation() {
        let (mut lines, noticed) = lines(tokio::io::repeat(b'x'));
        assert!(lines.receive().await.is_none());
        assert_eq!(noticed.fatal(), Some(ConnectionFault::LongLine));
    }
}
