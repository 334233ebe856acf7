//! Questions of policies that are put where the event came from, and the answers of those who may give them.
//!
//! A question has a mark that only this connection can make: whoever writes a button of his own can't know it, and it stands for
//! this question alone. The same question has the same mark after a restart, so buttons that were sent before still count.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use goondan::inside::private;
use goondan::ports::approval::{ApprovalAnswer, ApprovalRequest};
use goondan::{Broker, Question, QuestionEnd};
use ring::hmac;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::desk::Desk;
use crate::event::{Event, Sender, random_id};
use crate::http::Failure;
use crate::lanes::pieces;
use crate::platforms::Platform;
use crate::signature::hex;
use crate::supervise::Abort;

/// What only this connection knows.
const KEY: &str = "question.key";
/// Where questions stand.
const FILE: &str = "questions.json";
/// So many questions are known by where they stand.
const REMEMBERED: usize = 100;
/// So much of a question stands in one message, in characters: every platform takes that much.
const LONGEST: usize = 1_500;
/// A question that would take more messages can't be allowed in a channel.
const MOST_MESSAGES: usize = 6;
/// How often it is tried to put a question.
const TRIES: u32 = 6;
/// How long a mark is, in hexadecimal digits.
const MARK: usize = 16;

/// Somebody has pressed a button, or written its words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Press {
    /// The mark of the question.
    pub(crate) mark: String,
    /// What was pressed.
    pub(crate) allows: bool,
    /// Who has.
    pub(crate) sender: Sender,
    /// Where.
    pub(crate) channel: String,
    /// What the platform needs to answer him.
    pub(crate) back: Value,
}

/// What a press has come to.
#[derive(Debug, PartialEq)]
pub(crate) struct Verdict {
    /// For who has pressed.
    pub(crate) words: &'static str,
    /// What the question says from now on, where it was answered.
    pub(crate) text: Option<String>,
}

/// Where the questions of a chain go.
struct Place {
    desk: Arc<Desk>,
    origin: Value,
    channel: String,
}

/// The chains that connections have begun, and whom their questions are put to.
#[derive(Clone, Default)]
pub(crate) struct Asking(Arc<Inner>);

#[derive(Default)]
struct Inner {
    broker: Option<Broker>,
    chains: Mutex<HashMap<String, Arc<Place>>>,
    end: CancellationToken,
}

impl Asking {
    /// Without a broker nobody is asked.
    pub(crate) fn new(broker: Option<Broker>) -> Asking {
        Asking(Arc::new(Inner {
            broker,
            ..Inner::default()
        }))
    }

    /// Puts questions until it is dropped.
    pub(crate) fn begin(&self) -> Option<Abort<()>> {
        let broker = self.0.broker.as_ref()?;
        let own = self.clone();
        let mut listener = broker.listen_for(move |request| own.place(&request.trace_id).is_some());
        let own = self.clone();
        Some(Abort(tokio::spawn(async move {
            while let Some(question) = listener.next().await {
                own.put(question);
            }
        })))
    }

    /// Puts no more questions.
    pub(crate) fn end(&self) {
        self.0.end.cancel();
    }

    /// The questions of that chain go to `origin` as long as what comes back lives.
    pub(crate) fn follow(
        &self,
        desk: &Arc<Desk>,
        trace_id: &str,
        origin: &Value,
        channel: &str,
    ) -> Option<Follow> {
        let broker = self
            .0
            .broker
            .as_ref()
            .filter(|_| !desk.approvers().is_empty())?;
        let place = Place {
            desk: Arc::clone(desk),
            origin: origin.clone(),
            channel: channel.to_owned(),
        };
        self.chains().insert(trace_id.to_owned(), Arc::new(place));
        // Those that were asked before anybody knew where they go.
        broker
            .open()
            .into_iter()
            .filter(|open| open.request.trace_id == trace_id)
            .for_each(|open| self.put(open));
        Some(Follow {
            asking: self.clone(),
            trace_id: trace_id.to_owned(),
        })
    }

    fn chains(&self) -> MutexGuard<'_, HashMap<String, Arc<Place>>> {
        self.0.chains.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, trace_id: &str) -> Option<Arc<Place>> {
        self.chains().get(trace_id).cloned()
    }

    fn put(&self, question: Question) {
        let Some(place) = self.place(&question.request.trace_id) else {
            return;
        };
        tokio::spawn(self.0.end.clone().run_until_cancelled_owned(async move {
            let connection = place.desk.bound.name.clone();
            if let Err(error) = put(&place, question).await {
                tracing::warn!(connection, "a question was not put in the channel: {error}");
            }
        }));
    }
}

/// A chain whose questions are put. Dropping it is the end of that.
pub(crate) struct Follow {
    asking: Asking,
    trace_id: String,
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.asking.chains().remove(&self.trace_id);
    }
}

/// Puts a question, and says there how it ended.
async fn put(place: &Place, question: Question) -> Result<(), Failure> {
    let (platform, book) = (&place.desk.platform, &place.desk.questions);
    let mark = book.mark(&question.request);
    let poster = Poster::of(&**platform, &question.request, &mark);
    let Some(_open) = book.open(&mark, &question, &place.channel, &poster) else {
        return Ok(());
    };
    let (known, text) = (book.handle(&mark), &poster.last);
    let handle = {
        let standing = stand(place, known.as_ref(), &poster, &mark);
        tokio::select! {
            handle = standing => handle?,
            () = question.ended() => return Ok(()),
        }
    };
    if let Err(error) = book.note(&mark, &handle) {
        tracing::warn!(%error, "it was not written down where a question stands");
    }
    question.ended().await;
    let end = match (question.end(), book.said(&mark)) {
        (_, Some(said)) => said,
        (Some(QuestionEnd::Answered), None) => format!("{text}\n\nThis was answered elsewhere."),
        _ => format!("{text}\n\nThis question is over."),
    };
    for tries in 1..=TRIES {
        match platform.edit(&place.origin, &handle, &end, None).await {
            Err(Failure::Later(wait)) if tries < TRIES => tokio::time::sleep(wait).await,
            outcome => return outcome,
        }
    }
    Ok(())
}

/// Where the question stands: where it stood before a restart, or in new messages.
async fn stand(
    place: &Place,
    known: Option<&Value>,
    poster: &Poster,
    mark: &str,
) -> Result<Value, Failure> {
    for text in poster.before.iter().filter(|_| known.is_none()) {
        post(place, None, text, None).await?;
    }
    post(place, known, &poster.last, Some(mark)).await
}

/// Puts a message where that one stands, or as a new one, and says where it is.
async fn post(
    place: &Place,
    known: Option<&Value>,
    text: &str,
    mark: Option<&str>,
) -> Result<Value, Failure> {
    let (platform, origin) = (&place.desk.platform, &place.origin);
    let mut tries = 0;
    loop {
        let put = match known {
            Some(handle) => match platform.edit(origin, handle, text, mark).await {
                Ok(()) => Ok(handle.clone()),
                // It was taken away.
                Err(Failure::Refused(_)) => platform.post(origin, text, mark).await,
                Err(failure) => Err(failure),
            },
            None => platform.post(origin, text, mark).await,
        };
        tries += 1;
        let wait = match put {
            Err(Failure::Later(wait)) if tries < TRIES => wait,
            Err(Failure::Unreached(_)) if tries < TRIES => Duration::from_secs(1 << tries),
            put => return put,
        };
        tokio::time::sleep(wait).await;
    }
}

/// A question as a channel shows it: all of it, or it can't be allowed there.
struct Poster {
    /// The messages before the last one.
    before: Vec<String>,
    /// The one with the buttons.
    last: String,
    is_whole: bool,
}

impl Poster {
    fn of(platform: &dyn Platform, request: &ApprovalRequest, mark: &str) -> Poster {
        let mut texts = pieces(&request.words(), LONGEST, |_| 1);
        let is_whole = texts.len() <= MOST_MESSAGES;
        if !is_whole {
            texts.truncate(1);
        }
        let mut before: Vec<String> = texts.iter().map(|text| platform.literal(text)).collect();
        let mut last = before.pop().unwrap_or_default();
        if !is_whole {
            last = format!("{last}\n\n{TOO_LONG}");
        }
        if !platform.has_buttons() {
            last = format!("{last}\n\nAnswer with `/approve {mark}` or `/deny {mark}`.");
        }
        Poster {
            before,
            last,
            is_whole,
        }
    }
}

/// What a connection knows of its questions.
pub(crate) struct Questions {
    path: PathBuf,
    key: hmac::Key,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By their marks.
    open: HashMap<String, Open>,
    /// Where questions stand, oldest first.
    known: Vec<Known>,
    /// How questions were answered that are about to end.
    said: HashMap<String, String>,
}

struct Open {
    question: Question,
    channel: String,
    text: String,
    is_whole: bool,
}

#[derive(Clone, Serialize, Deserialize)]
struct Known {
    mark: String,
    handle: Value,
}

/// A question that stands. Dropping it closes it.
struct Standing<'b> {
    book: &'b Questions,
    mark: String,
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        let mut state = self.book.state();
        state.open.remove(&self.mark);
        state.said.remove(&self.mark);
    }
}

impl Questions {
    pub(crate) fn open_in(folder: &Path) -> io::Result<Questions> {
        let path = folder.join(FILE);
        let known = match std::fs::read(&path) {
            // What can't be read was about messages that are put anew.
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let key = hmac::Key::new(hmac::HMAC_SHA256, key(&folder.join(KEY))?.as_bytes());
        Ok(Questions {
            path,
            key,
            state: Mutex::new(State {
                known,
                ..State::default()
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What stands for this question and no other.
    fn mark(&self, request: &ApprovalRequest) -> String {
        let arguments = serde_json::to_vec(&request.arguments).unwrap_or_default();
        let parts: [&[u8]; 5] = [
            request.id.as_bytes(),
            b"\0",
            request.tool_name.as_bytes(),
            b"\0",
            &arguments,
        ];
        hex(hmac::sign(&self.key, &parts.concat()).as_ref())[..MARK].to_owned()
    }

    /// `None` where it stands already.
    fn open(
        &self,
        mark: &str,
        question: &Question,
        channel: &str,
        poster: &Poster,
    ) -> Option<Standing<'_>> {
        let mut state = self.state();
        if state.open.contains_key(mark) {
            return None;
        }
        let (text, is_whole) = (poster.last.clone(), poster.is_whole);
        let open = Open {
            question: question.clone(),
            channel: channel.to_owned(),
            text,
            is_whole,
        };
        state.open.insert(mark.to_owned(), open);
        Some(Standing {
            book: self,
            mark: mark.to_owned(),
        })
    }

    fn handle(&self, mark: &str) -> Option<Value> {
        self.state()
            .known
            .iter()
            .find(|known| known.mark == mark)
            .map(|known| known.handle.clone())
    }

    fn said(&self, mark: &str) -> Option<String> {
        self.state().said.get(mark).cloned()
    }

    fn note(&self, mark: &str, handle: &Value) -> io::Result<()> {
        let mut state = self.state();
        state.known.retain(|known| known.mark != mark);
        state.known.push(Known {
            mark: mark.to_owned(),
            handle: handle.clone(),
        });
        let surplus = state.known.len().saturating_sub(REMEMBERED);
        state.known.drain(..surplus);
        private::replace_durably(&self.path, &serde_json::to_vec(&state.known)?).map(drop)
    }

    /// Answers a question, if it is one that stands there.
    fn answer(&self, press: &Press) -> Verdict {
        let mut state = self.state();
        let open = state
            .open
            .get(&press.mark)
            .filter(|open| open.channel == press.channel);
        let Some(Open {
            question,
            text,
            is_whole,
            ..
        }) = open
        else {
            return Verdict {
                words: OVER,
                text: None,
            };
        };
        if press.allows && !is_whole {
            return Verdict {
                words: TOO_LONG,
                text: None,
            };
        }
        let who = if press.sender.name.is_empty() {
            &press.sender.id
        } else {
            &press.sender.name
        };
        let (answer, words, done) = match press.allows {
            true => (ApprovalAnswer::ONCE, "Allowed.", "Allowed"),
            false => (ApprovalAnswer::Deny, "Denied.", "Denied"),
        };
        let (question, said) = (question.clone(), format!("{text}\n\n{done} by {who}."));
        // Before it is answered: whoever waits for its end says so.
        state.said.insert(press.mark.clone(), said.clone());
        if question.answer(answer) {
            return Verdict {
                words,
                text: Some(said),
            };
        }
        state.said.remove(&press.mark);
        Verdict {
            words: OVER,
            text: None,
        }
    }
}

const TOO_LONG: &str =
    "It is too long to be shown here, so here you can only deny it. `gdn attach` shows all of it.";
const OVER: &str = "There is no such question any more.";
const NOT_YOURS: &str = "You can't answer this. Those who may are named in the connection.";

fn key(path: &Path) -> io::Result<String> {
    match std::fs::read_to_string(path) {
        Ok(key) if key.len() >= 32 => Ok(key),
        Ok(_) => make_key(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => make_key(path),
        Err(error) => Err(error),
    }
}

fn make_key(path: &Path) -> io::Result<String> {
    let key = format!("{}{}", random_id(), random_id());
    private::write(path, key.as_bytes())?;
    Ok(key)
}

/// What somebody has pressed, on this connection.
pub(crate) fn press(desk: &Desk, press: &Press) -> Verdict {
    let connection = &desk.bound.name;
    if !desk.approvers().contains(&press.sender.id) {
        tracing::warn!(
            connection,
            sender = press.sender.id,
            "somebody has answered a question who may not"
        );
        return Verdict {
            words: NOT_YOURS,
            text: None,
        };
    }
    let verdict = desk.questions.answer(press);
    if verdict.text.is_some() {
        let allowed = press.allows;
        tracing::info!(
            connection,
            sender = press.sender.id,
            allowed,
            "a question was answered in the channel"
        );
    }
    verdict
}

/// The words of an answer: `/approve MARK` or `/deny MARK` in the last line of what somebody has written.
pub(crate) fn written(event: &Event) -> Option<Press> {
    let (sender, channel) = (
        event.sender.clone().filter(|_| !event.quotes)?,
        event.channel.clone()?,
    );
    let line = event
        .text
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())?;
    let mut words = line
        .split_whitespace()
        .filter(|word| !word.starts_with("<@"));
    let (verb, mark, None) = (words.next()?, words.next()?, words.next()) else {
        return None;
    };
    let allows = match verb.trim_start_matches('/') {
        "approve" => true,
        "deny" => false,
        _ => return None,
    };
    let is_mark = mark.len() == MARK && mark.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_mark.then(|| Press {
        mark: mark.to_ascii_lowercase(),
        allows,
        sender,
        channel,
        back: Value::Null,
    })
}

/// What a button carries: at most 64 bytes, as Telegram wants.
pub(crate) fn button(allows: bool, mark: &str) -> String {
    format!("gdn:{}:{mark}", if allows { "allow" } else { "deny" })
}

/// The mark of a button, and what it stands for; `None` where it is none of ours.
pub(crate) fn of_button(carried: &str) -> Option<(bool, String)> {
    let (verb, mark) = carried.strip_prefix("gdn:")?.split_once(':')?;
    match verb {
        "allow" => Some((true, mark.to_owned())),
        "deny" => Some((false, mark.to_owned())),
        _ => None,
    }
}
