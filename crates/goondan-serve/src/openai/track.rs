//! One turn, as any number of clients read it. Whether somebody reads makes no difference to the turn.

use std::sync::Arc;

use goondan::event::{RuntimeEventKind, SwarmEvent, TurnResult, turn_id};
use goondan::ids::InstanceId;
use goondan::message::{Message, MessageSource};
use goondan::ports::model::TokenUsage;
use tokio::sync::watch;

use super::error::ApiError;
use super::outcome::{Outcome, refusal};

/// A turn.
pub(super) struct Track {
    pub(super) event_id: String,
    pub(super) turn_id: String,
    state: watch::Sender<State>,
}

/// How far it is.
#[derive(Default)]
struct State {
    /// Whose turn it is, once its event is accepted.
    instance: Option<InstanceId>,
    /// What the agent has said so far.
    parts: Vec<Saying>,
    /// Reasoning so far, one entry a step.
    reasoning: Vec<Reasoned>,
    /// The step of the last entry still runs.
    is_reasoning: bool,
    /// The text of the step is being said again; so much of it is known.
    again: Option<String>,
    /// What was said can't be taken back, and something else is said now.
    is_void: bool,
    end: Option<Arc<End>>,
}

/// What the agent says in one step.
struct Saying {
    text: String,
    is_over: bool,
}

/// Reasoning of one step.
struct Reasoned {
    text: String,
    /// Index of the text that it precedes.
    before: usize,
}

/// An item of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// Reasoning of one step.
    Reasoning(String),
    /// Text of one step.
    Text(String),
    /// Words of a model or a content filter that declined to answer.
    Refusal(String),
}

/// How a turn has ended.
#[derive(Debug)]
pub(super) enum End {
    /// It is over.
    Over(Answer),
    /// It was never begun, has failed, or was left to the next start.
    Failed(ApiError),
}

/// What came of a turn.
#[derive(Debug)]
pub(super) struct Answer {
    /// Reasoning and texts, at most one of each a step; then a refusal if there is one.
    pub(super) items: Vec<Item>,
    pub(super) outcome: Outcome,
    pub(super) usage: TokenUsage,
}

impl Answer {
    /// Returns all texts as one.
    pub(super) fn text(&self) -> String {
        self.texts().join(BETWEEN)
    }

    /// Returns all reasoning as one text.
    pub(super) fn reasoning(&self) -> String {
        let reasoning = self.items.iter().filter_map(|item| match item {
            Item::Reasoning(text) => Some(text.as_str()),
            _ => None,
        });
        reasoning.collect::<Vec<_>>().join(BETWEEN)
    }

    /// Returns the words of a declined answer.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.items.iter().find_map(|item| match item {
            Item::Refusal(words) => Some(words.as_str()),
            _ => None,
        })
    }

    fn texts(&self) -> Vec<&str> {
        let texts = self.items.iter().filter_map(|item| match item {
            Item::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }
}

/// What stands between the texts of two steps, where they are one text.
pub(super) const BETWEEN: &str = "\n\n";

impl Track {
    /// Of an event that is on its way.
    pub(super) fn new(event_id: &str) -> Self {
        Track {
            event_id: event_id.to_owned(),
            turn_id: turn_id(event_id),
            state: watch::Sender::default(),
        }
    }

    /// A reader from the beginning.
    pub(super) fn read(self: &Arc<Self>) -> Reader {
        Reader {
            state: self.state.subscribe(),
            track: Arc::clone(self),
            part: 0,
            offset: 0,
            entry: 0,
            entry_offset: 0,
            is_begun: false,
            has_reasoning: false,
        }
    }

    /// Its event is accepted.
    pub(super) fn accepted(&self, instance: &InstanceId) {
        self.state
            .send_modify(|state| state.instance = Some(instance.clone()));
    }

    /// Something happened; maybe in this turn.
    pub(super) fn take(&self, event: &SwarmEvent) {
        match event {
            SwarmEvent::Text { turn_id, delta, .. } if *turn_id == self.turn_id => {
                self.state.send_modify(|state| state.say(delta));
            }
            SwarmEvent::Reasoning { turn_id, delta, .. } if *turn_id == self.turn_id => {
                self.state.send_modify(|state| state.reason(delta));
            }
            SwarmEvent::TextReset { turn_id, .. } if *turn_id == self.turn_id => {
                self.state.send_if_modified(State::say_again);
            }
            SwarmEvent::Runtime(event) => match &event.kind {
                RuntimeEventKind::StepStarted { turn_id, .. } if *turn_id == self.turn_id => {
                    self.state.send_if_modified(State::step);
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// What was said so far: all of it where nothing was missed.
    pub(super) fn said(&self) -> Vec<String> {
        self.state
            .borrow()
            .parts
            .iter()
            .map(|saying| saying.text.clone())
            .collect()
    }

    /// Returns the reasoning and the texts so far: all of them where nothing was missed.
    pub(super) fn items(&self) -> Vec<Item> {
        let state = self.state.borrow();
        let mut items = Vec::new();
        for index in 0..=state.parts.len() {
            let reasoning = state.reasoning.iter().filter(|entry| entry.before == index);
            items.extend(reasoning.map(|entry| Item::Reasoning(entry.text.clone())));
            let part = state.parts.get(index);
            items.extend(part.map(|saying| Item::Text(saying.text.clone())));
        }
        items
    }

    /// Whoever has followed it is gone, and it has no end.
    pub(super) fn end_unless_over(&self) {
        self.state.send_if_modified(|state| {
            let is_open = state.end.is_none();
            state
                .end
                .get_or_insert_with(|| Arc::new(End::Failed(ApiError::stopped())));
            is_open
        });
    }

    /// It has ended. Where `is_exact`, nothing of what was said was missed, and who has read it has read all of it.
    pub(super) fn end(&self, end: End, is_exact: bool) {
        self.state.send_modify(|state| {
            if let End::Over(answer) = &end
                && answer.outcome != Outcome::Declined
            {
                state.complete(&answer.texts(), is_exact);
            }
            state.end = Some(Arc::new(end));
        });
    }
}

impl State {
    fn say(&mut self, delta: &str) {
        let is_new = self.parts.last().is_none_or(|saying| saying.is_over);
        match (&mut self.again, self.parts.last_mut()) {
            (Some(again), Some(saying)) => {
                again.push_str(delta);
                if again.starts_with(&saying.text) {
                    saying.text.clone_from(again);
                } else if !saying.text.starts_with(&**again) {
                    self.is_void = true;
                }
            }
            (_, Some(saying)) if !is_new => saying.text.push_str(delta),
            _ => self.parts.push(Saying {
                text: delta.to_owned(),
                is_over: false,
            }),
        }
    }

    fn reason(&mut self, delta: &str) {
        let is_open = std::mem::replace(&mut self.is_reasoning, true);
        match self.reasoning.last_mut() {
            Some(entry) if is_open => entry.text.push_str(delta),
            _ => {
                let has_text = self.parts.last().is_some_and(|saying| !saying.is_over);
                self.reasoning.push(Reasoned {
                    text: delta.to_owned(),
                    before: self.parts.len() - usize::from(has_text),
                });
            }
        }
    }

    /// The model is asked again in the same step.
    fn say_again(&mut self) -> bool {
        // Reasoning that was sent stays, and the reasoning of the next attempt is a second entry.
        self.is_reasoning = false;
        if self.parts.last().is_some_and(|saying| !saying.is_over) {
            self.again = Some(String::new());
        }
        false
    }

    fn step(&mut self) -> bool {
        self.is_void |= self.is_cut();
        self.again = None;
        self.is_reasoning = false;
        let Some(last) = self.parts.last_mut() else {
            return false;
        };
        last.is_over = true;
        true
    }

    /// What was said again is shorter than what was said before.
    fn is_cut(&self) -> bool {
        match (&self.again, self.parts.last()) {
            (Some(again), Some(saying)) => again.len() < saying.text.len(),
            _ => false,
        }
    }

    /// Adds what was missed.
    fn complete(&mut self, parts: &[&str], is_exact: bool) {
        self.is_void |= self.is_cut();
        let known = self.parts.len();
        let fits = known <= parts.len()
            && self
                .parts
                .iter()
                .zip(parts)
                .enumerate()
                .all(|(index, (saying, part))| {
                    saying.text == *part || (index + 1 == known && part.starts_with(&saying.text))
                });
        match fits {
            true => {
                self.parts = parts
                    .iter()
                    .map(|&part| Saying {
                        text: part.to_owned(),
                        is_over: true,
                    })
                    .collect()
            }
            false => self.is_void |= !is_exact,
        }
    }
}

/// What a reader gets.
#[derive(Debug)]
pub(super) enum News {
    /// More text of that part.
    Text {
        /// Which one: they are counted from 0.
        part: usize,
        /// The new piece.
        delta: String,
    },
    /// More reasoning, of the entry with that index.
    Reasoning {
        /// Index of the entry.
        entry: usize,
        /// The new piece.
        delta: String,
    },
    /// That part is complete.
    PartOver,
    /// The rest of the answer does not fit to what was read.
    Void,
    /// It is over.
    End(Arc<End>),
}

/// Somebody who reads what a turn says.
pub(super) struct Reader {
    pub(super) track: Arc<Track>,
    state: watch::Receiver<State>,
    part: usize,
    offset: usize,
    /// Position in the reasoning.
    entry: usize,
    entry_offset: usize,
    is_begun: bool,
    has_reasoning: bool,
}

impl Reader {
    /// Returns whether any text was read.
    pub(super) fn has_begun(&self) -> bool {
        self.is_begun
    }

    /// Returns whether any reasoning was read.
    pub(super) fn has_reasoning(&self) -> bool {
        self.has_reasoning
    }

    /// Waits until the event is accepted, or never will be.
    pub(super) async fn accepted(&mut self) -> Result<InstanceId, ApiError> {
        let decided = self
            .state
            .wait_for(|state| state.instance.is_some() || state.end.is_some())
            .await;
        let Ok(state) = decided else {
            return Err(ApiError::stopped());
        };
        match (&state.instance, state.end.as_deref()) {
            (Some(instance), _) => Ok(instance.clone()),
            (None, Some(End::Failed(error))) => Err(error.clone()),
            (None, _) => Err(ApiError::stopped()),
        }
    }

    /// Waits for the end alone.
    pub(super) async fn end(&mut self) -> Arc<End> {
        let ended = self.state.wait_for(|state| state.end.is_some()).await;
        let end = ended.ok().and_then(|state| state.end.clone());
        end.unwrap_or_else(|| Arc::new(End::Failed(ApiError::stopped())))
    }

    /// Waits for what comes next.
    pub(super) async fn next(&mut self) -> News {
        loop {
            if let Some(news) = self.news() {
                return news;
            }
            if self.state.changed().await.is_err() {
                return News::End(Arc::new(End::Failed(ApiError::stopped())));
            }
        }
    }

    fn news(&mut self) -> Option<News> {
        let state = self.state.borrow_and_update();
        if state.is_void && self.is_begun {
            return Some(News::Void);
        }
        while let Some(reasoned) = state.reasoning.get(self.entry)
            && reasoned.before <= self.part
        {
            let (entry, offset) = (self.entry, self.entry_offset);
            self.entry_offset = reasoned.text.len();
            if let Some(delta) = reasoned
                .text
                .get(offset..)
                .filter(|delta| !delta.is_empty())
            {
                self.has_reasoning = true;
                let delta = delta.to_owned();
                return Some(News::Reasoning { entry, delta });
            }
            if entry + 1 == state.reasoning.len() {
                break;
            }
            (self.entry, self.entry_offset) = (entry + 1, 0);
        }
        if let (Some(saying), false) = (state.parts.get(self.part), state.is_void) {
            let part = self.part;
            let delta = saying.text.get(self.offset..).unwrap_or_default();
            if !delta.is_empty() {
                self.offset = saying.text.len();
                self.is_begun = true;
                return Some(News::Text {
                    part,
                    delta: delta.to_owned(),
                });
            }
            if saying.is_over {
                (self.part, self.offset) = (part + 1, 0);
                return Some(News::PartOver);
            }
        }
        state.end.clone().map(News::End)
    }
}

/// Returns the reasoning and the texts of a turn, as its conversation contains them.
pub(super) fn said_in<'a>(
    messages: impl IntoIterator<Item = &'a Message>,
    turn_id: &str,
) -> Vec<Item> {
    let own = messages
        .into_iter()
        .filter(|message| is_said_in(message, turn_id));
    own.flat_map(items_of).collect()
}

/// Returns the reasoning and the text of a message, without those that are empty.
pub(super) fn items_of(message: &Message) -> Vec<Item> {
    let mut items = Vec::new();
    let reasoning = message.reasoning();
    if !reasoning.is_empty() {
        items.push(Item::Reasoning(reasoning));
    }
    let text = message.text();
    if !text.is_empty() {
        items.push(Item::Text(text));
    }
    items
}

fn is_said_in(message: &Message, turn_id: &str) -> bool {
    match &message.source {
        // What opened the conversation was said elsewhere.
        MessageSource::Assistant { step_id } => {
            goondan::ids::is_message_of(&message.id, turn_id)
                && *step_id != format!("{turn_id}-history")
        }
        _ => false,
    }
}

impl End {
    /// The end of a turn that says so itself.
    pub(super) fn of(result: &TurnResult, mut items: Vec<Item>) -> End {
        items.extend(refusal(result).map(|words| Item::Refusal(words.to_owned())));
        match Outcome::of(result) {
            Ok(outcome) => End::Over(Answer {
                items,
                outcome,
                usage: result.usage,
            }),
            Err(error) => End::Failed(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt as _;
    use goondan::event::RuntimeEvent;
    use serde_json::json;

    use super::*;

    fn track() -> Arc<Track> {
        Arc::new(Track::new("evt-1"))
    }

    fn text(turn_id: &str, delta: &str) -> SwarmEvent {
        let instance = InstanceId::new("a", "main");
        SwarmEvent::Text {
            instance,
            turn_id: turn_id.to_owned(),
            delta: delta.to_owned(),
        }
    }

    fn reset() -> SwarmEvent {
        SwarmEvent::TextReset {
            instance: InstanceId::new("a", "main"),
            turn_id: "turn-1".to_owned(),
        }
    }

    fn step(turn_id: &str) -> SwarmEvent {
        let event: RuntimeEvent = serde_json::from_value(json!({
            "type": "step.started", "stepId": "s", "stepIndex": 0, "turnId": turn_id, "timestamp": "2026-01-01T00:00:00Z",
            "agentName": "a", "instanceKey": "main", "traceId": "t", "spanId": "s",
        }))
        .unwrap();
        SwarmEvent::Runtime(Arc::new(event))
    }

    fn over(parts: &[&str]) -> End {
        let text = |&part: &&str| Item::Text(part.to_owned());
        End::Over(Answer {
            items: parts.iter().map(text).collect(),
            outcome: Outcome::Complete,
            usage: TokenUsage::default(),
        })
    }

    /// Reads without waiting. Reasoning is in angle brackets, `/` ends a step, `!` is an answer that does not fit, `.` is the end.
    fn read(reader: &mut Reader) -> String {
        let mut seen = String::new();
        loop {
            match reader.next().now_or_never() {
                None => return seen,
                Some(News::Text { delta, .. }) => seen.push_str(&delta),
                Some(News::Reasoning { entry, delta }) => {
                    seen.push_str(&format!("<{entry}:{delta}>"));
                }
                Some(News::PartOver) => seen.push('/'),
                Some(News::Void) => return format!("{seen}!"),
                Some(News::End(_)) => return format!("{seen}."),
            }
        }
    }

    #[test]
    fn readers_get_what_the_turn_says_and_nothing_else() {
        let track = track();
        let mut early = track.read();
        for event in [
            step("turn-1"),
            text("turn-1", "a"),
            text("turn-2", "x"),
            text("turn-1", "b"),
            step("turn-2"),
        ] {
            track.take(&event);
        }
        assert_eq!(read(&mut early), "ab");
        track.take(&step("turn-1"));
        track.take(&text("turn-1", "c"));
        track.end(over(&["ab", "c"]), true);
        assert_eq!(
            (read(&mut early), read(&mut track.read())),
            ("/c/.".to_owned(), "ab/c/.".to_owned())
        );
    }

    fn reasoning(delta: &str) -> SwarmEvent {
        SwarmEvent::Reasoning {
            instance: InstanceId::new("a", "main"),
            turn_id: "turn-1".to_owned(),
            delta: delta.to_owned(),
        }
    }

    #[test]
    fn reasoning_precedes_the_text_of_its_step() {
        let track = track();
        let (mut early, mut late) = (track.read(), track.read());
        let events = [
            step("turn-1"),
            reasoning("r"),
            reasoning("0"),
            step("turn-1"),
            reasoning("r1"),
            text("turn-1", "a"),
            step("turn-1"),
            reasoning("r2"),
            text("turn-1", "b"),
        ];
        let mut seen = String::new();
        for event in &events {
            track.take(event);
            seen += &read(&mut early);
        }
        track.end(over(&["a", "b"]), true);
        seen += &read(&mut early);
        assert_eq!(seen, "<0:r><0:0><1:r1>a/<2:r2>b/.");
        assert_eq!(read(&mut late), "<0:r0><1:r1>a/<2:r2>b/.");
        let reasoned = |text: &str| Item::Reasoning(text.to_owned());
        let said = |text: &str| Item::Text(text.to_owned());
        assert_eq!(
            track.items(),
            [
                reasoned("r0"),
                reasoned("r1"),
                said("a"),
                reasoned("r2"),
                said("b")
            ]
        );
    }

    #[test]
    fn reasoning_of_an_attempt_that_broke_off_stays() {
        let track = track();
        let mut reader = track.read();
        for event in [
            reasoning("one"),
            reset(),
            reasoning("two"),
            text("turn-1", "a"),
        ] {
            track.take(&event);
        }
        track.end(over(&["a"]), true);
        assert_eq!(read(&mut reader), "<0:one><1:two>a/.");
    }

    #[test]
    fn what_was_missed_is_added_at_the_end() {
        for heard in [&[][..], &["on"], &["one"]] {
            let track = track();
            let mut reader = track.read();
            heard
                .iter()
                .for_each(|heard| track.take(&text("turn-1", heard)));
            let before = read(&mut reader);
            track.end(over(&["one", "two"]), false);
            assert_eq!(before + &read(&mut reader), "one/two/.");
        }
    }

    #[test]
    fn what_does_not_fit_to_what_was_read_is_told() {
        let track = track();
        let (mut reader, mut late) = (track.read(), track.read());
        track.take(&text("turn-1", "two"));
        assert_eq!(read(&mut reader), "two");
        track.end(over(&["one", "two"]), false);
        // Who has read nothing gets the answer from the end itself.
        assert_eq!(
            (read(&mut reader), read(&mut late)),
            ("!".to_owned(), ".".to_owned())
        );
    }

    #[test]
    fn an_answer_that_begins_again_goes_on_where_it_was() {
        let track = track();
        let mut reader = track.read();
        track.take(&text("turn-1", "one t"));
        let mut seen = read(&mut reader);
        track.take(&reset());
        for delta in ["one", " two", " three"] {
            track.take(&text("turn-1", delta));
            seen += &read(&mut reader);
        }
        track.end(over(&["one two three"]), true);
        assert_eq!(seen + &read(&mut reader), "one two three/.");
    }

    #[test]
    fn an_answer_that_begins_again_in_other_words_can_not_go_on() {
        for (again, end) in [(Some("other"), "other"), (Some("on"), "on"), (None, "")] {
            let track = track();
            let mut reader = track.read();
            track.take(&text("turn-1", "one"));
            assert_eq!(read(&mut reader), "one");
            track.take(&reset());
            again
                .iter()
                .for_each(|again| track.take(&text("turn-1", again)));
            track.end(over(&[end]), true);
            assert_eq!(read(&mut reader), "!", "{again:?}");
        }
    }

    #[test]
    fn a_track_that_nobody_follows_any_more_ends() {
        let track = track();
        let mut reader = track.read();
        track.end_unless_over();
        assert!(reader.accepted().now_or_never().unwrap().is_err());
        assert_eq!(read(&mut reader), ".");
    }
}
