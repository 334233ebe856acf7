//! Approval requests that are posted to the channel of the event, and the answers of the approvers.
//!
//! Each request has an approval code that only this connection can compute. Forged buttons
//! therefore have no valid code, and a code is valid for one request only. The code is the same
//! after a restart, so buttons that were sent before remain valid.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use goondan::internal::private_files;
use goondan::ports::approval::{ApprovalAnswer, ApprovalRequest};
use goondan::{ApprovalEnd, ApprovalHandle};
use ring::hmac;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::connection_runtime::ConnectionRuntime;
use crate::event::{EventSender, PlatformEvent, random_id};
use crate::http::PlatformFailure;
use crate::own_words::own_words;
use crate::platforms::PlatformConnector;
use crate::reply_queue::split_into_messages;
use crate::signature::encode_hex;

/// File with the secret key of the approval codes.
const KEY_FILE: &str = "question.key";
/// File with the messages of recent requests.
const MESSAGES_FILE: &str = "questions.json";
/// Maximum number of requests whose messages are remembered.
const MAX_REMEMBERED_MESSAGES: usize = 100;
/// Maximum characters of a request in one message; every platform accepts that many.
const MAX_MESSAGE_CHARS: usize = 1_500;
/// Maximum messages of a request. A longer request cannot be allowed in a channel.
const MAX_REQUEST_MESSAGES: usize = 6;
/// Maximum attempts to post a request.
const MAX_POST_ATTEMPTS: u32 = 6;
/// Length of an approval code in hexadecimal digits.
const CODE_DIGITS: usize = 16;

/// A pressed button or a written answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ButtonPress {
    /// Approval code of the request.
    pub(crate) mark: String,
    /// True for "allow".
    pub(crate) allows: bool,
    pub(crate) sender: EventSender,
    pub(crate) channel: String,
    /// Data that the platform needs to reply to the button press.
    pub(crate) back: Value,
}

/// Outcome of a button press.
#[derive(Debug, PartialEq)]
pub(crate) struct PressOutcome {
    /// Reply to the person who pressed the button.
    pub(crate) words: &'static str,
    /// New text of the request message, if the request was answered.
    pub(crate) text: Option<String>,
}

/// Channel for the approval requests of a turn.
pub(crate) struct ApprovalChannel {
    pub(crate) runtime: Arc<ConnectionRuntime>,
    pub(crate) origin: Value,
    pub(crate) channel: String,
}

impl ApprovalChannel {
    /// Posts a request in a separate task, until the connections stop.
    pub(crate) fn post(self: &Arc<Self>, question: ApprovalHandle) {
        let (target, stopping) = (Arc::clone(self), self.runtime.shared.stopping.clone());
        tokio::spawn(stopping.run_until_cancelled_owned(async move {
            if let Err(error) = run_request(&target, question).await {
                tracing::warn!(
                    connection = target.runtime.bound.name,
                    "could not post an approval request in the channel: {error}"
                );
            }
        }));
    }
}

/// Posts a request and updates its message when the request ends.
async fn run_request(
    target: &ApprovalChannel,
    question: ApprovalHandle,
) -> Result<(), PlatformFailure> {
    let (platform, approvals) = (&target.runtime.platform, &target.runtime.questions);
    let mark = approvals.mark(&question.request);
    let poster = ApprovalMessage::of(&**platform, &question.request, &mark);
    let Some(_open) = approvals.open(&mark, &question, &target.channel, &poster) else {
        return Ok(());
    };
    let (posted_handle, text) = (approvals.handle(&mark), &poster.last);
    let handle = {
        let standing = post_request(target, posted_handle.as_ref(), &poster, &mark);
        tokio::select! {
            handle = standing => handle?,
            () = question.ended() => return Ok(()),
        }
    };
    if let Err(error) = approvals.note(&mark, &handle) {
        tracing::warn!(
            %error,
            "could not store the message id of an approval request; the request is posted again \
                after a restart"
        );
    }
    question.ended().await;
    let end = match (question.end(), approvals.final_text(&mark)) {
        (_, Some(final_text)) => final_text,
        (Some(ApprovalEnd::Answered), None) => {
            format!("{text}\n\nThis request was answered elsewhere.")
        }
        _ => format!("{text}\n\nThis request is closed."),
    };
    for tries in 1..=MAX_POST_ATTEMPTS {
        match platform.edit(&target.origin, &handle, &end, None).await {
            Err(PlatformFailure::Later(wait)) if tries < MAX_POST_ATTEMPTS => {
                tokio::time::sleep(wait).await
            }
            outcome => return outcome,
        }
    }
    Ok(())
}

/// Reuses the message from before a restart, or posts new messages. Returns the handle of the last
/// message.
async fn post_request(
    target: &ApprovalChannel,
    posted_handle: Option<&Value>,
    poster: &ApprovalMessage,
    mark: &str,
) -> Result<Value, PlatformFailure> {
    // After a restart, the earlier messages of the request still exist.
    for text in poster.before.iter().filter(|_| posted_handle.is_none()) {
        post(target, None, text, None).await?;
    }
    post(target, posted_handle, &poster.last, Some(mark)).await
}

/// Edits the message with the handle `posted_handle`, or posts a new message. Returns the handle of
/// the message.
async fn post(
    target: &ApprovalChannel,
    posted_handle: Option<&Value>,
    text: &str,
    mark: Option<&str>,
) -> Result<Value, PlatformFailure> {
    let (platform, origin) = (&target.runtime.platform, &target.origin);
    let mut tries = 0;
    loop {
        let outcome = match posted_handle {
            Some(handle) => match platform.edit(origin, handle, text, mark).await {
                Ok(()) => Ok(handle.clone()),
                // The message was deleted.
                Err(PlatformFailure::Refused(_)) => platform.post(origin, text, mark).await,
                Err(failure) => Err(failure),
            },
            None => platform.post(origin, text, mark).await,
        };
        tries += 1;
        let wait = match outcome {
            Err(PlatformFailure::Later(wait)) if tries < MAX_POST_ATTEMPTS => wait,
            Err(PlatformFailure::Unreached(_)) if tries < MAX_POST_ATTEMPTS => {
                Duration::from_secs(1 << tries)
            }
            outcome => return outcome,
        };
        tokio::time::sleep(wait).await;
    }
}

/// Messages of a request. A request that does not fit completely cannot be allowed in the channel.
struct ApprovalMessage {
    /// Messages before the last one.
    before: Vec<String>,
    /// Message with the buttons.
    last: String,
    is_whole: bool,
}

impl ApprovalMessage {
    /// Splits the text of the request into messages.
    fn of(
        platform: &dyn PlatformConnector,
        request: &ApprovalRequest,
        mark: &str,
    ) -> ApprovalMessage {
        let mut texts = split_into_messages(&request.to_plain_text(), MAX_MESSAGE_CHARS, |_| 1);
        let is_whole = texts.len() <= MAX_REQUEST_MESSAGES;
        if !is_whole {
            texts.truncate(1);
        }
        let mut before: Vec<String> = texts.iter().map(|text| platform.literal(text)).collect();
        let mut last = before.pop().unwrap_or_default();
        if !is_whole {
            last = format!("{last}\n\n{TOO_LONG_REPLY}");
        }
        if !platform.has_buttons() {
            last = format!("{last}\n\nAnswer with `/approve {mark}` or `/deny {mark}`.");
        }
        ApprovalMessage {
            before,
            last,
            is_whole,
        }
    }
}

/// Open requests of a connection.
pub(crate) struct ConnectionApprovals {
    path: PathBuf,
    key: hmac::Key,
    state: Mutex<ConnectionApprovalsState>,
}

#[derive(Default)]
struct ConnectionApprovalsState {
    /// Open requests by approval code.
    open: HashMap<String, OpenChannelApproval>,
    /// Handles of posted messages, oldest first.
    known: Vec<PostedApproval>,
    /// Final texts of answered requests that are about to end.
    said: HashMap<String, String>,
}

struct OpenChannelApproval {
    question: ApprovalHandle,
    channel: String,
    text: String,
    is_whole: bool,
}

#[derive(Clone, Serialize, Deserialize)]
struct PostedApproval {
    mark: String,
    handle: Value,
}

/// Guard of an open request.
struct OpenApprovalGuard<'b> {
    book: &'b ConnectionApprovals,
    mark: String,
}

impl Drop for OpenApprovalGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.book.state();
        state.open.remove(&self.mark);
        state.said.remove(&self.mark);
    }
}

impl ConnectionApprovals {
    /// Opens the approvals of the connection in its state directory.
    pub(crate) fn open_in(folder: &Path) -> io::Result<ConnectionApprovals> {
        let path = folder.join(MESSAGES_FILE);
        let handles = match std::fs::read(&path) {
            // An unreadable file only means that the messages are posted again.
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let key = hmac::Key::new(hmac::HMAC_SHA256, key(&folder.join(KEY_FILE))?.as_bytes());
        Ok(ConnectionApprovals {
            path,
            key,
            state: Mutex::new(ConnectionApprovalsState {
                known: handles,
                ..ConnectionApprovalsState::default()
            }),
        })
    }

    /// Locks the state.
    fn state(&self) -> MutexGuard<'_, ConnectionApprovalsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Computes the approval code of a request.
    fn mark(&self, request: &ApprovalRequest) -> String {
        let arguments = serde_json::to_vec(&request.arguments).unwrap_or_default();
        let parts: [&[u8]; 5] = [
            request.id.as_bytes(),
            b"\0",
            request.tool_name.as_bytes(),
            b"\0",
            &arguments,
        ];
        encode_hex(hmac::sign(&self.key, &parts.concat()).as_ref())[..CODE_DIGITS].to_owned()
    }

    /// Registers a request. Returns `None` if it is already open.
    fn open(
        &self,
        mark: &str,
        question: &ApprovalHandle,
        channel: &str,
        poster: &ApprovalMessage,
    ) -> Option<OpenApprovalGuard<'_>> {
        let mut state = self.state();
        if state.open.contains_key(mark) {
            return None;
        }
        let (text, is_whole) = (poster.last.clone(), poster.is_whole);
        let approval = OpenChannelApproval {
            question: question.clone(),
            channel: channel.to_owned(),
            text,
            is_whole,
        };
        state.open.insert(mark.to_owned(), approval);
        Some(OpenApprovalGuard {
            book: self,
            mark: mark.to_owned(),
        })
    }

    /// Returns the platform's handle of the posted message, if any.
    fn handle(&self, mark: &str) -> Option<Value> {
        self.state()
            .known
            .iter()
            .find(|known| known.mark == mark)
            .map(|known| known.handle.clone())
    }

    /// Returns the final text of an answered request.
    fn final_text(&self, mark: &str) -> Option<String> {
        self.state().said.get(mark).cloned()
    }

    /// Stores the handle of a posted message. Forgets the oldest handles.
    fn note(&self, mark: &str, handle: &Value) -> io::Result<()> {
        let mut state = self.state();
        state.known.retain(|known| known.mark != mark);
        state.known.push(PostedApproval {
            mark: mark.to_owned(),
            handle: handle.clone(),
        });
        let surplus = state.known.len().saturating_sub(MAX_REMEMBERED_MESSAGES);
        state.known.drain(..surplus);
        private_files::replace_durably(&self.path, &serde_json::to_vec(&state.known)?).map(drop)
    }

    /// Answers the request with that code, if it is open in that channel.
    fn answer(&self, press: &ButtonPress) -> PressOutcome {
        let mut state = self.state();
        let open = state
            .open
            .get(&press.mark)
            .filter(|open| open.channel == press.channel);
        let Some(OpenChannelApproval {
            question,
            text,
            is_whole,
            ..
        }) = open
        else {
            return PressOutcome {
                words: REQUEST_CLOSED_REPLY,
                text: None,
            };
        };
        if press.allows && !is_whole {
            return PressOutcome {
                words: TOO_LONG_REPLY,
                text: None,
            };
        }
        let answerer = if press.sender.name.is_empty() {
            &press.sender.id
        } else {
            &press.sender.name
        };
        let (answer, words, done) = if press.allows {
            (ApprovalAnswer::ONCE, "Allowed.", "Allowed")
        } else {
            (ApprovalAnswer::Deny, "Denied.", "Denied")
        };
        let (question, final_text) = (question.clone(), format!("{text}\n\n{done} by {answerer}."));
        // Set before the answer, because the answer wakes the task that reads it.
        state.said.insert(press.mark.clone(), final_text.clone());
        if question.answer(answer) {
            return PressOutcome {
                words,
                text: Some(final_text),
            };
        }
        state.said.remove(&press.mark);
        PressOutcome {
            words: REQUEST_CLOSED_REPLY,
            text: None,
        }
    }
}

const TOO_LONG_REPLY: &str = "This request is too long for this channel, so you can only deny it \
    here. `gdn attach` shows the full request.";
const REQUEST_CLOSED_REPLY: &str = "This request is no longer open.";
const NOT_APPROVER_REPLY: &str =
    "You can't answer this request. Only the approvers of the connection can.";

/// Reads the secret for approval codes; creates a secret if it is missing or too short.
fn key(path: &Path) -> io::Result<String> {
    match std::fs::read_to_string(path) {
        Ok(key) if key.len() >= 32 => Ok(key),
        Ok(_) => make_key(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => make_key(path),
        Err(error) => Err(error),
    }
}

/// Creates the secret for approval codes.
fn make_key(path: &Path) -> io::Result<String> {
    let key = format!("{}{}", random_id(), random_id());
    private_files::write(path, key.as_bytes())?;
    Ok(key)
}

/// Answers the request with the approval code of `press`. Only approvers may answer.
pub(crate) fn press(runtime: &ConnectionRuntime, press: &ButtonPress) -> PressOutcome {
    let connection = &runtime.bound.name;
    if !runtime.approvers().contains(&press.sender.id) {
        tracing::warn!(
            connection,
            sender = press.sender.id,
            "ignored the answer of a sender who is not an approver"
        );
        return PressOutcome {
            words: NOT_APPROVER_REPLY,
            text: None,
        };
    }
    let verdict = runtime.questions.answer(press);
    if verdict.text.is_some() {
        let allowed = press.allows;
        tracing::info!(
            connection,
            sender = press.sender.id,
            allowed,
            "a sender answered an approval request in the channel"
        );
    }
    verdict
}

/// Parses a written answer: `/approve CODE` or `/deny CODE` in the last line of the sender's own
/// words. Returns `None` for any other message.
pub(crate) fn parse_written_answer(event: &PlatformEvent) -> Option<ButtonPress> {
    let (sender, channel) = (
        // Quoted text may come from another person.
        event.sender.clone().filter(|_| !event.quotes)?,
        event.channel.clone()?,
    );
    let own = own_words(event.own_text.as_ref().unwrap_or(&event.text));
    let line = own.lines().rev().find(|line| !line.trim().is_empty())?;
    let mut arguments = line
        .split_whitespace()
        .filter(|word| !word.starts_with('@'));
    let (verb, mark, None) = (arguments.next()?, arguments.next()?, arguments.next()) else {
        return None;
    };
    let allows = match verb.trim_start_matches('/') {
        "approve" => true,
        "deny" => false,
        _ => return None,
    };
    let is_mark = mark.len() == CODE_DIGITS && mark.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_mark.then(|| ButtonPress {
        mark: mark.to_ascii_lowercase(),
        allows,
        sender,
        channel,
        back: Value::Null,
    })
}

/// Returns the payload of a button: at most 64 bytes, the limit of Telegram.
pub(crate) fn button(allows: bool, mark: &str) -> String {
    format!("gdn:{}:{mark}", if allows { "allow" } else { "deny" })
}

/// Parses the payload of a button. Returns `None` for buttons of other programs.
pub(crate) fn parse_button(carried: &str) -> Option<(bool, String)> {
    let (verb, mark) = carried.strip_prefix("gdn:")?.split_once(':')?;
    match verb {
        "allow" => Some((true, mark.to_owned())),
        "deny" => Some((false, mark.to_owned())),
        _ => None,
    }
}
