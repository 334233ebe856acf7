//! A line-based connection, as over the standard input and output of a program: one message per
//! line.
//!
//! Other lines are counted and skipped, because programs print unrelated output. A program that
//! only prints such lines is not a server. A line that is too long ends the connection, because it
//! may have contained an awaited answer.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goondan_core::utf8_cut::{without_cut_end, without_cut_start};
use rmcp::RoleClient;
use rmcp::model::{ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::codes;

/// Maximum length of a line in bytes.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Maximum number of objects and lists in a message. Each takes far more memory than its text.
const MAX_MESSAGE_NODES: usize = 50_000;
/// Maximum number of values in a message, including objects, lists and their parts. The conversion,
/// masking and truncation of a result visit every value.
pub(crate) const MAX_MESSAGE_VALUES: usize = 200_000;
/// Maximum number of messages that wait until the server reads them.
const MAX_UNREAD_MESSAGES: usize = 256;
/// Maximum size in bytes of skipped lines between two messages.
const MAX_SKIPPED_BYTES: usize = 1 << 20;
/// Maximum size in bytes of the retained error output.
const MAX_STDERR_BYTES: usize = 4 << 10;
/// Time to read remaining messages after the server stopped reading.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Errors of writing to a server that has ended.
const ENDED_ERRORS: [io::ErrorKind; 2] =
    [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
/// Time for an answer to `server/discover`. Servers of older revisions may ignore the request.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(1);
/// Message of the error that replaces an unreadable answer.
pub(crate) const UNREADABLE_ANSWER: &str = "an unreadable answer";
/// Message of the error that replaces an answer with too many parts.
pub(crate) const OVERSIZED_ANSWER: &str = "an answer with too many objects, lists or values";

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
    /// The server sends requests and does not read the answers.
    Unread,
}

impl StreamObservations {
    /// Locks the observations.
    fn lock(&self) -> std::sync::MutexGuard<'_, StreamNotes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the reason if the client ended the connection.
    pub(crate) fn fatal_fault(&self) -> Option<ConnectionFault> {
        self.lock().fatal
    }

    /// Returns the server's own output about an error, as a part of a sentence.
    pub(crate) fn program_output(&self) -> String {
        let notes = self.lock();
        let complaints = String::from_utf8_lossy(without_cut_start(&notes.complaints));
        let complaints = codes::escaped_error_text(&complaints);
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
            let kept = &mut self.lock().complaints;
            kept.extend_from_slice(&piece[..count]);
            let over = kept.len().saturating_sub(MAX_STDERR_BYTES);
            kept.drain(..over);
        }
    }
}

pub(crate) struct StdioLineTransport {
    input: BufReader<Box<dyn AsyncRead + Send + Sync + Unpin>>,
    output: Arc<tokio::sync::Mutex<Option<Box<dyn AsyncWrite + Send + Sync + Unpin>>>>,
    /// The received part of the next line. A cancelled read does not discard the part.
    line: Vec<u8>,
    noise: usize,
    observations: Arc<StreamObservations>,
    /// Fires when the server no longer reads its input, which usually precedes its end.
    deaf: CancellationToken,
    /// Ends the writes that wait for a server that does not read.
    closing: CancellationToken,
    discovery: DiscoveryProbe,
    /// Messages that the server has not read yet.
    unread: Arc<()>,
}

/// A `server/discover` request that a server may not understand.
#[derive(Default)]
struct DiscoveryProbe {
    /// The transport answers the request itself if the server is silent.
    is_optional: bool,
    /// The request without an answer, and the end of the wait.
    pending: Option<(RequestId, Instant)>,
    /// Requests that the transport has answered. Late answers of the server are dropped.
    abandoned: Vec<RequestId>,
}

impl DiscoveryProbe {
    /// Starts the wait for an answer if `item` is an optional `server/discover` request.
    fn record_request(&mut self, item: &TxJsonRpcMessage<RoleClient>) {
        if let JsonRpcMessage::Request(request) = item
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
            && self.is_optional
        {
            self.pending = Some((request.id.clone(), Instant::now() + DISCOVERY_TIMEOUT));
        }
    }

    /// Returns the refusal that takes the place of the server's answer.
    fn give_up(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let (id, _) = self.pending.take()?;
        self.abandoned.push(id.clone());
        let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "the server is silent", None);
        Some(RxJsonRpcMessage::<RoleClient>::error(error, Some(id)))
    }

    /// Returns false for a late answer.
    fn accepts(&mut self, message: &RxJsonRpcMessage<RoleClient>) -> bool {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(refusal) => refusal.id.as_ref(),
            _ => None,
        };
        let Some(id) = id else {
            return true;
        };
        self.pending.take_if(|(pending, _)| pending == id);
        !self.abandoned.contains(id)
    }
}

impl StdioLineTransport {
    pub(crate) fn new(
        input: Box<dyn AsyncRead + Send + Sync + Unpin>,
        output: Box<dyn AsyncWrite + Send + Sync + Unpin>,
        observations: Arc<StreamObservations>,
    ) -> Self {
        let output = Arc::new(tokio::sync::Mutex::new(Some(output)));
        StdioLineTransport {
            input: BufReader::new(input),
            output,
            line: Vec::new(),
            noise: 0,
            observations,
            deaf: CancellationToken::new(),
            closing: CancellationToken::new(),
            discovery: DiscoveryProbe::default(),
            unread: Arc::new(()),
        }
    }

    /// Answers `server/discover` in place of a server that is silent for a second.
    pub(crate) fn with_optional_discovery(mut self, is_optional: bool) -> Self {
        self.discovery.is_optional = is_optional;
        self
    }

    /// Reads a line like [`StdioLineTransport::read_line`]. Returns `None` if the time for
    /// `server/discover` is over first.
    async fn read_line_in_time(&mut self) -> Option<bool> {
        match self.discovery.pending {
            None => Some(self.read_line().await),
            Some((_, deadline)) => tokio::time::timeout_at(deadline, self.read_line())
                .await
                .ok(),
        }
    }

    /// Reads until a complete line is available; returns false at the end.
    async fn read_line(&mut self) -> bool {
        loop {
            // Each waiting message has a clone.
            if Arc::strong_count(&self.unread) > MAX_UNREAD_MESSAGES {
                self.observations.lock().fatal = Some(ConnectionFault::Unread);
                return false;
            }
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
                self.observations.lock().fatal = Some(ConnectionFault::LongLine);
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
        let mut notes = self.observations.lock();
        notes.noise.get_or_insert_with(|| {
            let start = without_cut_end(&line[..line.len().min(400)]);
            String::from_utf8_lossy(start).into_owned()
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
        self.discovery.record_request(&item);
        let (output, deaf) = (Arc::clone(&self.output), self.deaf.clone());
        let (unread, closing) = (Arc::clone(&self.unread), self.closing.clone());
        async move {
            let _unread = unread;
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let write = async {
                let mut output = output.lock().await;
                let output = output.as_mut().ok_or(io::ErrorKind::NotConnected)?;
                output.write_all(&line).await?;
                output.flush().await
            };
            let written = closing.run_until_cancelled(write).await;
            match written.unwrap_or_else(|| Err(io::ErrorKind::NotConnected.into())) {
                // Messages sent before the end can still be read, and may contain the cause.
                Err(error) if ENDED_ERRORS.contains(&error.kind()) => deaf.cancel(),
                written => return written,
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            match self.read_line_in_time().await {
                Some(true) => {}
                Some(false) => return None,
                None => return self.discovery.give_up(),
            }
            let line = std::mem::take(&mut self.line);
            match read(&line) {
                Some(message) => {
                    self.noise = 0;
                    if self.discovery.accepts(&message) {
                        return Some(message);
                    }
                }
                None if line.trim_ascii().is_empty() => {}
                None if self.pass_over(&line) => {}
                None => return None,
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.closing.cancel();
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
    if has_too_many_parts(line) {
        return refused_answer(line, OVERSIZED_ANSWER);
    }
    if let Ok(message) = serde_json::from_slice(line) {
        return Some(message);
    }
    let repaired = without_lone_surrogates(line);
    if let Some(message) = repaired.and_then(|line| serde_json::from_slice(&line).ok()) {
        return Some(message);
    }
    refused_answer(line, UNREADABLE_ANSWER)
}

/// Returns true if a message has too many objects, lists or values. Brackets and commas inside
/// strings are text.
pub(crate) fn has_too_many_parts(line: &[u8]) -> bool {
    let (mut nodes, mut separators) = (0, 0);
    let (mut is_in_string, mut is_escaped) = (false, false);
    for byte in line {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_in_string,
            b'"' => is_in_string = !is_in_string,
            b'{' | b'[' if !is_in_string => nodes += 1,
            b',' if !is_in_string => separators += 1,
            _ => {}
        }
    }
    nodes > MAX_MESSAGE_NODES || nodes + separators > MAX_MESSAGE_VALUES
}

/// Returns the error that takes the place of an answer; `None` if the line is not an answer.
pub(crate) fn refused_answer(
    line: &[u8],
    message: &'static str,
) -> Option<RxJsonRpcMessage<RoleClient>> {
    let envelope: ResponseEnvelope = serde_json::from_slice(line).ok()?;
    let is_answer = envelope.result.is_some() || envelope.error.is_some();
    let error = ErrorData::invalid_request(message, None);
    is_answer.then(|| RxJsonRpcMessage::<RoleClient>::error(error, Some(envelope.id)))
}

/// Replaces escapes of half a character, such as `\\ud83d`, by the replacement character. Servers that
/// cut strings by UTF-16 units send them. Returns `None` if there is none.
fn without_lone_surrogates(line: &[u8]) -> Option<Vec<u8>> {
    let mut repaired = line.to_vec();
    let (mut at, mut has_changed) = (0, false);
    while at < repaired.len() {
        if repaired[at] != b'\\' {
            at += 1;
            continue;
        }
        match unit_at(&repaired, at) {
            Some(0xd800..=0xdbff)
                if matches!(
                    unit_at(&repaired, at + UNIT_ESCAPE_BYTES),
                    Some(0xdc00..=0xdfff)
                ) =>
            {
                at += 2 * UNIT_ESCAPE_BYTES;
            }
            Some(0xd800..=0xdfff) => {
                repaired[at..at + UNIT_ESCAPE_BYTES].copy_from_slice(b"\\ufffd");
                has_changed = true;
                at += UNIT_ESCAPE_BYTES;
            }
            // Another escape, such as `\\\\`, has two bytes.
            _ => at += 2,
        }
    }
    has_changed.then_some(repaired)
}

/// Length of `\\uXXXX`.
const UNIT_ESCAPE_BYTES: usize = 6;

/// Returns the UTF-16 unit of the escape at `at`, if there is one.
fn unit_at(line: &[u8], at: usize) -> Option<u16> {
    let digits = line.get(at..at + UNIT_ESCAPE_BYTES)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(
        input: impl AsyncRead + Send + Sync + Unpin + 'static,
    ) -> (StdioLineTransport, Arc<StreamObservations>) {
        let observations = Arc::<StreamObservations>::default();
        (
            StdioLineTransport::new(
                Box::new(input),
                Box::new(tokio::io::sink()),
                Arc::clone(&observations),
            ),
            observations,
        )
    }

    /// A server that does not read its input must not delay `close`.
    #[tokio::test]
    async fn a_pending_write_does_not_delay_close() {
        let (input, output) = (tokio::io::empty(), tokio::io::duplex(1));
        let observations = Arc::<StreamObservations>::default();
        let mut transport =
            StdioLineTransport::new(Box::new(input), Box::new(output.0), observations);
        let request = serde_json::from_str(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).unwrap();
        let mut sending = Box::pin(transport.send(request));
        assert!(futures::poll!(&mut sending).is_pending());
        let (closed, sent) = tokio::join!(transport.close(), sending);
        assert!(closed.is_ok() && sent.is_err());
    }

    #[test]
    fn only_lone_surrogates_are_replaced() {
        let repaired = |line: &str| {
            without_lone_surrogates(line.as_bytes()).map(|line| String::from_utf8(line).unwrap())
        };
        for whole in [
            r#""a""#,
            r#""\ud83d\ude00""#,
            r#""\\ud83d""#,
            r#""\u00e9""#,
            "\\",
            "\\u12",
        ] {
            assert_eq!(repaired(whole), None, "{whole}");
        }
        for (cut, expected) in [
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\ud83d\n\ude00x""#, r#""\ufffd\n\ufffdx""#),
            (r#""\\\ud83d\ud83d\ude00""#, r#""\\\ufffd\ud83d\ude00""#),
        ] {
            assert_eq!(repaired(cut).as_deref(), Some(expected), "{cut}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_unanswered_discovery_fails_and_its_late_answer_is_dropped() {
        let (near, far) = tokio::io::duplex(1_024);
        let mut server = BufReader::new(far);
        let (input, output) = tokio::io::split(near);
        let mut lines = StdioLineTransport::new(Box::new(input), Box::new(output), Arc::default())
            .with_optional_discovery(true);
        let discover = serde_json::from_str(
            r#"{"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {}}"#,
        );
        lines.send(discover.unwrap()).await.unwrap();
        let refused = lines.receive().await;
        assert!(matches!(
            refused,
            Some(JsonRpcMessage::Error(refusal)) if refusal.error.code == ErrorCode::METHOD_NOT_FOUND
        ));
        let answers = b"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n";
        server.get_mut().write_all(answers).await.unwrap();
        assert!(matches!(
            lines.receive().await,
            Some(JsonRpcMessage::Response(response)) if response.id == RequestId::Number(1)
        ));
    }

    #[tokio::test]
    async fn lines_that_are_not_messages_are_skipped() {
        let text = "starting…\n\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\r\n[1]\n{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":7}\n";
        let (mut lines, observations) = lines(text.as_bytes());
        assert!(matches!(
            lines.receive().await,
            Some(RxJsonRpcMessage::<RoleClient>::Response(_))
        ));
        assert!(lines.receive().await.is_some());
        assert!(lines.receive().await.is_none());
        assert_eq!(
            (
                observations.fatal_fault(),
                observations.program_output().as_str()
            ),
            (None, "; its output: starting…")
        );
    }

    #[tokio::test]
    async fn output_is_read_to_the_end_after_the_server_closes_its_input() {
        let (near, far) = tokio::io::duplex(1_024);
        drop(far);
        let observations = Arc::<StreamObservations>::default();
        let mut lines = StdioLineTransport::new(
            Box::new("no such option\n".as_bytes()),
            Box::new(near),
            Arc::clone(&observations),
        );
        let ping =
            serde_json::from_str(r#"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#).unwrap();
        lines.send(ping).await.unwrap();
        assert!(lines.receive().await.is_none());
        assert_eq!(
            observations.program_output(),
            "; its output: no such option"
        );
        let (silent, _kept) = tokio::io::duplex(1);
        let mut lines = StdioLineTransport {
            input: BufReader::new(Box::new(silent)),
            ..lines
        };
        assert!(
            lines.receive().await.is_none(),
            "a silent server that closed its input is not waited for"
        );
    }

    #[tokio::test]
    async fn too_much_output_without_a_message_is_a_fault() {
        let (mut transport, observations) =
            lines(std::io::Cursor::new("word\n".repeat(MAX_SKIPPED_BYTES / 4)));
        assert!(transport.receive().await.is_none());
        assert_eq!(observations.fatal_fault(), Some(ConnectionFault::Noise));
    }

    #[tokio::test]
    async fn a_message_with_too_many_parts_becomes_an_error() {
        let parts = vec!["{}"; MAX_MESSAGE_NODES].join(",");
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[{parts}]}}\n");
        let (mut lines, _) = lines(std::io::Cursor::new(text));
        let answer = lines.receive().await;
        assert!(matches!(
            answer,
            Some(JsonRpcMessage::Error(refusal)) if refusal.error.message == OVERSIZED_ANSWER
        ));
    }

    #[test]
    fn messages_exceeding_the_value_limit_have_too_many_parts() {
        let with = |count: usize| {
            let fields: Vec<String> = (0..count).map(|number| format!("\"{number}\":0")).collect();
            format!("{{{}}}", fields.join(","))
        };
        assert!(!has_too_many_parts(with(MAX_MESSAGE_VALUES).as_bytes()));
        assert!(has_too_many_parts(with(MAX_MESSAGE_VALUES + 1).as_bytes()));
    }

    #[tokio::test]
    async fn brackets_in_strings_do_not_count_as_parts() {
        let text = serde_json::to_string(&vec!["\\\"{"; MAX_MESSAGE_NODES]).unwrap();
        let answer = serde_json::json!({"jsonrpc": "2.0", "id": 1, "result": {"text": text}});
        let (mut lines, _) = lines(std::io::Cursor::new(format!("{answer}\n")));
        let answer = lines.receive().await;
        assert!(matches!(answer, Some(JsonRpcMessage::Response(_))));
    }

    #[tokio::test]
    async fn a_server_that_does_not_read_its_input_is_disconnected() {
        let ping = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
        let (mut lines, observations) = lines(std::io::Cursor::new(ping.repeat(3)));
        assert!(lines.receive().await.is_some());
        // Each message that waits to be written holds a clone.
        let unread = vec![Arc::clone(&lines.unread); MAX_UNREAD_MESSAGES];
        assert!(lines.receive().await.is_none());
        assert_eq!(observations.fatal_fault(), Some(ConnectionFault::Unread));
        drop(unread);
    }

    #[tokio::test]
    async fn an_endless_line_closes_the_connection() {
        let (mut lines, observations) = lines(tokio::io::repeat(b'x'));
        assert!(lines.receive().await.is_none());
        assert_eq!(observations.fatal_fault(), Some(ConnectionFault::LongLine));
    }
}
