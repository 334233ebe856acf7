//! One turn with any number of readers. Readers do not affect the turn.

use std::sync::Arc;

use goondan::event::{TurnResult, turn_id};
use goondan::gateway::TurnUpdate;
use goondan::ids::InstanceId;
use goondan::message::{Message, MessageSource};
use goondan::ports::model::TokenUsage;
use tokio::sync::watch;

use super::error::OpenAiError;
use super::outcome::{AnswerOutcome, refusal_message};

pub(super) struct AnswerBroadcast {
    pub(super) event_id: String,
    pub(super) turn_id: String,
    state: watch::Sender<AnswerState>,
}

/// Progress of the turn.
#[derive(Default)]
struct AnswerState {
    /// Conversation of the turn, after its event is accepted.
    instance: Option<InstanceId>,
    /// Texts so far, one for each step.
    parts: Vec<StepText>,
    /// Reasoning so far, one entry a step.
    reasoning: Vec<StepReasoning>,
    /// Further reasoning continues the last entry.
    is_reasoning_open: bool,
    /// Text of a repeated model call so far. It must repeat the sent text before new text counts.
    repeated_text: Option<String>,
    /// The repeated text differs from sent text, which cannot be revoked.
    is_void: bool,
    end: Option<Arc<TrackEnd>>,
}

/// Text of one step.
struct StepText {
    text: String,
    is_over: bool,
}

/// Reasoning of one step.
struct StepReasoning {
    text: String,
    /// Index of the text that it precedes.
    before: usize,
}

/// An item of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StreamedItem {
    /// Reasoning of one step.
    Reasoning(String),
    /// Text of one step.
    Text(String),
    /// Message of a model or a content filter that declined to answer.
    Refusal(String),
}

/// End of a turn.
#[derive(Debug)]
pub(super) enum TrackEnd {
    Over(FinishedAnswer),
    /// The turn did not begin, failed, or is left to the next start.
    Failed(OpenAiError),
}

/// Answer of a turn that is over.
#[derive(Debug)]
pub(super) struct FinishedAnswer {
    /// Reasoning and texts, at most one of each a step; then a refusal if there is one.
    pub(super) items: Vec<StreamedItem>,
    pub(super) outcome: AnswerOutcome,
    pub(super) usage: TokenUsage,
}

impl FinishedAnswer {
    /// Returns the texts of all steps.
    pub(super) fn text(&self) -> String {
        self.texts().join(STEP_TEXT_SEPARATOR)
    }

    /// Returns the reasoning of all steps.
    pub(super) fn reasoning(&self) -> String {
        let reasoning = self.items.iter().filter_map(|item| match item {
            StreamedItem::Reasoning(text) => Some(text.as_str()),
            _ => None,
        });
        reasoning.collect::<Vec<_>>().join(STEP_TEXT_SEPARATOR)
    }

    /// Returns the message of a declined answer.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.items.iter().find_map(|item| match item {
            StreamedItem::Refusal(words) => Some(words.as_str()),
            _ => None,
        })
    }

    /// Returns the text of each step.
    fn texts(&self) -> Vec<&str> {
        let texts = self.items.iter().filter_map(|item| match item {
            StreamedItem::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }
}

/// Separator between the texts of two steps.
pub(super) const STEP_TEXT_SEPARATOR: &str = "\n\n";

impl AnswerBroadcast {
    /// Creates the broadcast of a turn that has not begun.
    pub(super) fn new(event_id: &str) -> Self {
        AnswerBroadcast {
            event_id: event_id.to_owned(),
            turn_id: turn_id(event_id),
            state: watch::Sender::default(),
        }
    }

    /// Returns a reader that starts at the beginning.
    pub(super) fn read(self: &Arc<Self>) -> AnswerSubscriber {
        AnswerSubscriber {
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

    /// Publishes the conversation of the turn.
    pub(super) fn publish_instance(&self, instance: &InstanceId) {
        self.state
            .send_modify(|state| state.instance = Some(instance.clone()));
    }

    /// Applies an update of this turn.
    pub(super) fn take(&self, update: &TurnUpdate) {
        match update {
            TurnUpdate::Text(delta) => self.state.send_modify(|state| state.add_text(delta)),
            TurnUpdate::Reasoning(delta) => {
                self.state.send_modify(|state| state.add_reasoning(delta))
            }
            TurnUpdate::Restarted => {
                self.state.send_if_modified(AnswerState::restart_text);
            }
            TurnUpdate::Event(published) if published.begins_step_of(&self.turn_id) => {
                self.state.send_if_modified(AnswerState::step);
            }
            _ => {}
        }
    }

    /// Returns the texts so far. They are complete if no event was missed.
    pub(super) fn step_texts(&self) -> Vec<String> {
        self.state
            .borrow()
            .parts
            .iter()
            .map(|part| part.text.clone())
            .collect()
    }

    /// Returns the reasoning and the texts so far. They are complete if no event was missed.
    pub(super) fn items(&self) -> Vec<StreamedItem> {
        let state = self.state.borrow();
        let mut items = Vec::new();
        for index in 0..=state.parts.len() {
            let reasoning = state.reasoning.iter().filter(|entry| entry.before == index);
            items.extend(reasoning.map(|entry| StreamedItem::Reasoning(entry.text.clone())));
            let part = state.parts.get(index);
            items.extend(part.map(|part| StreamedItem::Text(part.text.clone())));
        }
        items
    }

    /// Ends a turn that has no end although the task that followed it has ended.
    pub(super) fn end_unless_over(&self) {
        self.state.send_if_modified(|state| {
            let is_open = state.end.is_none();
            state
                .end
                .get_or_insert_with(|| Arc::new(TrackEnd::Failed(OpenAiError::swarm_stopped())));
            is_open
        });
    }

    /// Ends the turn. With `is_exact`, no text event was missed, so readers have received all text.
    pub(super) fn end(&self, end: TrackEnd, is_exact: bool) {
        self.state.send_modify(|state| {
            if let TrackEnd::Over(answer) = &end
                && answer.outcome != AnswerOutcome::Declined
            {
                state.add_missed_text(&answer.texts(), is_exact);
            }
            state.end = Some(Arc::new(end));
        });
    }
}

impl AnswerState {
    /// Adds text to the current step.
    fn add_text(&mut self, delta: &str) {
        let is_new = self.parts.last().is_none_or(|part| part.is_over);
        match (&mut self.repeated_text, self.parts.last_mut()) {
            (Some(repeated), Some(part)) => {
                repeated.push_str(delta);
                if repeated.starts_with(&part.text) {
                    part.text.clone_from(repeated);
                } else if !part.text.starts_with(&**repeated) {
                    self.is_void = true;
                }
            }
            (_, Some(part)) if !is_new => part.text.push_str(delta),
            _ => self.parts.push(StepText {
                text: delta.to_owned(),
                is_over: false,
            }),
        }
    }

    /// Adds reasoning to the current step.
    fn add_reasoning(&mut self, delta: &str) {
        let is_open = std::mem::replace(&mut self.is_reasoning_open, true);
        match self.reasoning.last_mut() {
            Some(entry) if is_open => entry.text.push_str(delta),
            _ => {
                // Reasoning precedes the text of its step, even if a retry sends it after the text.
                let has_text = self.parts.last().is_some_and(|part| !part.is_over);
                self.reasoning.push(StepReasoning {
                    text: delta.to_owned(),
                    before: self.parts.len() - usize::from(has_text),
                });
            }
        }
    }

    /// Begins a repeated model call in the same step. Returns false, because readers need no
    /// notice.
    fn restart_text(&mut self) -> bool {
        // Reasoning that was sent stays, and the reasoning of the next attempt is a second entry.
        self.is_reasoning_open = false;
        if self.parts.last().is_some_and(|part| !part.is_over) {
            self.repeated_text = Some(String::new());
        }
        false
    }

    /// Ends the current step. Returns true if readers must be notified.
    fn step(&mut self) -> bool {
        self.is_void |= self.is_repeat_incomplete();
        self.repeated_text = None;
        self.is_reasoning_open = false;
        let Some(last) = self.parts.last_mut() else {
            return false;
        };
        last.is_over = true;
        true
    }

    /// Returns true if a repeated model call has not repeated all of the sent text.
    fn is_repeat_incomplete(&self) -> bool {
        match (&self.repeated_text, self.parts.last()) {
            (Some(repeated), Some(part)) => repeated.len() < part.text.len(),
            _ => false,
        }
    }

    /// Adds missed text.
    fn add_missed_text(&mut self, parts: &[&str], is_exact: bool) {
        self.is_void |= self.is_repeat_incomplete();
        let known_parts = self.parts.len();
        let fits = known_parts <= parts.len()
            && self
                .parts
                .iter()
                .zip(parts)
                .enumerate()
                .all(|(index, (known, part))| {
                    known.text == *part
                        || (index + 1 == known_parts && part.starts_with(&known.text))
                });
        match fits {
            true => {
                self.parts = parts
                    .iter()
                    .map(|&part| StepText {
                        text: part.to_owned(),
                        is_over: true,
                    })
                    .collect()
            }
            false => self.is_void |= !is_exact,
        }
    }
}

/// Update for a reader.
#[derive(Debug)]
pub(super) enum AnswerUpdate {
    /// More text of a part.
    Text {
        /// Index of the part.
        part: usize,
        delta: String,
    },
    /// More reasoning of an entry.
    Reasoning {
        /// Index of the entry.
        entry: usize,
        delta: String,
    },
    /// The part is complete.
    PartOver,
    /// The rest of the answer does not match the text that was read.
    Void,
    /// The turn is over.
    End(Arc<TrackEnd>),
}

/// Reader of a turn's text.
pub(super) struct AnswerSubscriber {
    pub(super) track: Arc<AnswerBroadcast>,
    state: watch::Receiver<AnswerState>,
    part: usize,
    /// Bytes of the part that were read.
    offset: usize,
    /// Position in the reasoning.
    entry: usize,
    entry_offset: usize,
    is_begun: bool,
    has_reasoning: bool,
}

impl AnswerSubscriber {
    /// Returns true if text was read.
    pub(super) fn has_begun(&self) -> bool {
        self.is_begun
    }

    /// Returns true if reasoning was read.
    pub(super) fn has_reasoning(&self) -> bool {
        self.has_reasoning
    }

    /// Waits until the event is accepted or rejected.
    pub(super) async fn wait_until_accepted(&mut self) -> Result<InstanceId, OpenAiError> {
        let decided = self
            .state
            .wait_for(|state| state.instance.is_some() || state.end.is_some())
            .await;
        let Ok(state) = decided else {
            return Err(OpenAiError::swarm_stopped());
        };
        match (&state.instance, state.end.as_deref()) {
            (Some(instance), _) => Ok(instance.clone()),
            (None, Some(TrackEnd::Failed(error))) => Err(error.clone()),
            (None, _) => Err(OpenAiError::swarm_stopped()),
        }
    }

    /// Waits for the end of the turn.
    pub(super) async fn end(&mut self) -> Arc<TrackEnd> {
        let ended = self.state.wait_for(|state| state.end.is_some()).await;
        let end = ended.ok().and_then(|state| state.end.clone());
        end.unwrap_or_else(|| Arc::new(TrackEnd::Failed(OpenAiError::swarm_stopped())))
    }

    /// Waits for the next update.
    pub(super) async fn next(&mut self) -> AnswerUpdate {
        loop {
            if let Some(update) = self.available_update() {
                return update;
            }
            if self.state.changed().await.is_err() {
                return AnswerUpdate::End(Arc::new(TrackEnd::Failed(OpenAiError::swarm_stopped())));
            }
        }
    }

    /// Returns the next update that is already available, if any.
    fn available_update(&mut self) -> Option<AnswerUpdate> {
        let state = self.state.borrow_and_update();
        if state.is_void && self.is_begun {
            return Some(AnswerUpdate::Void);
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
                return Some(AnswerUpdate::Reasoning { entry, delta });
            }
            if entry + 1 == state.reasoning.len() {
                break;
            }
            (self.entry, self.entry_offset) = (entry + 1, 0);
        }
        if let (Some(step), false) = (state.parts.get(self.part), state.is_void) {
            let part = self.part;
            let delta = step.text.get(self.offset..).unwrap_or_default();
            if !delta.is_empty() {
                self.offset = step.text.len();
                self.is_begun = true;
                return Some(AnswerUpdate::Text {
                    part,
                    delta: delta.to_owned(),
                });
            }
            if step.is_over {
                (self.part, self.offset) = (part + 1, 0);
                return Some(AnswerUpdate::PartOver);
            }
        }
        state.end.clone().map(AnswerUpdate::End)
    }
}

/// Returns the reasoning and the texts of a turn, as its conversation contains them.
pub(super) fn items_of_turn<'a>(
    messages: impl IntoIterator<Item = &'a Message>,
    turn_id: &str,
) -> Vec<StreamedItem> {
    let turn_messages = messages
        .into_iter()
        .filter(|message| is_said_in(message, turn_id));
    turn_messages.flat_map(items_of).collect()
}

/// Returns the reasoning and the text of a message, without those that are empty.
pub(super) fn items_of(message: &Message) -> Vec<StreamedItem> {
    let mut items = Vec::new();
    let reasoning = message.reasoning();
    if !reasoning.is_empty() {
        items.push(StreamedItem::Reasoning(reasoning));
    }
    let text = message.text();
    if !text.is_empty() {
        items.push(StreamedItem::Text(text));
    }
    items
}

/// Returns true if the message is an answer of this turn.
fn is_said_in(message: &Message, turn_id: &str) -> bool {
    match &message.source {
        // Skips messages of the history that opened the conversation.
        MessageSource::Assistant { step_id } => {
            goondan::ids::is_message_of(&message.id, turn_id)
                && *step_id != format!("{turn_id}-history")
        }
        _ => false,
    }
}

impl TrackEnd {
    /// Converts a turn result to its end.
    pub(super) fn from_result(result: &TurnResult, mut items: Vec<StreamedItem>) -> TrackEnd {
        items.extend(refusal_message(result).map(|words| StreamedItem::Refusal(words.to_owned())));
        match AnswerOutcome::from_result(result) {
            Ok(outcome) => TrackEnd::Over(FinishedAnswer {
                items,
                outcome,
                usage: result.usage,
            }),
            Err(error) => TrackEnd::Failed(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt as _;
    use goondan::event::{RuntimeEvent, SwarmEvent};
    use serde_json::json;

    use super::*;

    fn broadcast() -> Arc<AnswerBroadcast> {
        Arc::new(AnswerBroadcast::new("evt-1"))
    }

    fn text(delta: &str) -> TurnUpdate {
        TurnUpdate::Text(delta.to_owned())
    }

    fn step(turn_id: &str) -> TurnUpdate {
        let event: RuntimeEvent = serde_json::from_value(json!({
            "type": "step.started", "stepId": "s", "stepIndex": 0, "turnId": turn_id, "timestamp": "2026-01-01T00:00:00Z",
            "agentName": "a", "instanceKey": "main", "traceId": "t", "spanId": "s",
        }))
        .unwrap();
        TurnUpdate::Event(Arc::new(SwarmEvent::Runtime(Arc::new(event)).into()))
    }

    fn ended_with(parts: &[&str]) -> TrackEnd {
        let text = |&part: &&str| StreamedItem::Text(part.to_owned());
        TrackEnd::Over(FinishedAnswer {
            items: parts.iter().map(text).collect(),
            outcome: AnswerOutcome::Complete,
            usage: TokenUsage::default(),
        })
    }

    /// Reads all available updates without waiting, and returns them in a short notation: reasoning
    /// in angle brackets, `/` for the end of a step, `!` for a voided answer, `.` for the end.
    fn read(subscriber: &mut AnswerSubscriber) -> String {
        let mut seen = String::new();
        loop {
            match subscriber.next().now_or_never() {
                None => return seen,
                Some(AnswerUpdate::Text { delta, .. }) => seen.push_str(&delta),
                Some(AnswerUpdate::Reasoning { entry, delta }) => {
                    seen.push_str(&format!("<{entry}:{delta}>"));
                }
                Some(AnswerUpdate::PartOver) => seen.push('/'),
                Some(AnswerUpdate::Void) => return format!("{seen}!"),
                Some(AnswerUpdate::End(_)) => return format!("{seen}."),
            }
        }
    }

    #[test]
    fn subscribers_receive_only_the_text_of_their_turn() {
        let broadcast = broadcast();
        let mut early = broadcast.read();
        for event in [step("turn-1"), text("a"), text("b"), step("turn-2")] {
            broadcast.take(&event);
        }
        assert_eq!(read(&mut early), "ab");
        broadcast.take(&step("turn-1"));
        broadcast.take(&text("c"));
        broadcast.end(ended_with(&["ab", "c"]), true);
        assert_eq!(
            (read(&mut early), read(&mut broadcast.read())),
            ("/c/.".to_owned(), "ab/c/.".to_owned())
        );
    }

    fn reasoning(delta: &str) -> TurnUpdate {
        TurnUpdate::Reasoning(delta.to_owned())
    }

    #[test]
    fn reasoning_precedes_the_text_of_its_step() {
        let broadcast = broadcast();
        let (mut early, mut late) = (broadcast.read(), broadcast.read());
        let events = [
            step("turn-1"),
            reasoning("r"),
            reasoning("0"),
            step("turn-1"),
            reasoning("r1"),
            text("a"),
            step("turn-1"),
            reasoning("r2"),
            text("b"),
        ];
        let mut seen = String::new();
        for event in &events {
            broadcast.take(event);
            seen += &read(&mut early);
        }
        broadcast.end(ended_with(&["a", "b"]), true);
        seen += &read(&mut early);
        assert_eq!(seen, "<0:r><0:0><1:r1>a/<2:r2>b/.");
        assert_eq!(read(&mut late), "<0:r0><1:r1>a/<2:r2>b/.");
        let reasoning_item = |text: &str| StreamedItem::Reasoning(text.to_owned());
        let text_item = |text: &str| StreamedItem::Text(text.to_owned());
        assert_eq!(
            broadcast.items(),
            [
                reasoning_item("r0"),
                reasoning_item("r1"),
                text_item("a"),
                reasoning_item("r2"),
                text_item("b")
            ]
        );
    }

    #[test]
    fn reasoning_of_a_failed_attempt_is_kept() {
        let broadcast = broadcast();
        let mut subscriber = broadcast.read();
        for event in [
            reasoning("one"),
            TurnUpdate::Restarted,
            reasoning("two"),
            text("a"),
        ] {
            broadcast.take(&event);
        }
        broadcast.end(ended_with(&["a"]), true);
        assert_eq!(read(&mut subscriber), "<0:one><1:two>a/.");
    }

    #[test]
    fn missed_text_is_sent_at_the_end() {
        for received in [&[][..], &["on"], &["one"]] {
            let broadcast = broadcast();
            let mut subscriber = broadcast.read();
            received
                .iter()
                .for_each(|received| broadcast.take(&text(received)));
            let before = read(&mut subscriber);
            broadcast.end(ended_with(&["one", "two"]), false);
            assert_eq!(before + &read(&mut subscriber), "one/two/.");
        }
    }

    #[test]
    fn an_answer_that_contradicts_sent_text_is_voided() {
        let broadcast = broadcast();
        let (mut subscriber, mut late) = (broadcast.read(), broadcast.read());
        broadcast.take(&text("two"));
        assert_eq!(read(&mut subscriber), "two");
        broadcast.end(ended_with(&["one", "two"]), false);
        // A subscriber that has read nothing takes the answer from the end update.
        assert_eq!(
            (read(&mut subscriber), read(&mut late)),
            ("!".to_owned(), ".".to_owned())
        );
    }

    #[test]
    fn a_restarted_answer_with_equal_text_continues() {
        let broadcast = broadcast();
        let mut subscriber = broadcast.read();
        broadcast.take(&text("one t"));
        let mut seen = read(&mut subscriber);
        broadcast.take(&TurnUpdate::Restarted);
        for delta in ["one", " two", " three"] {
            broadcast.take(&text(delta));
            seen += &read(&mut subscriber);
        }
        broadcast.end(ended_with(&["one two three"]), true);
        assert_eq!(seen + &read(&mut subscriber), "one two three/.");
    }

    #[test]
    fn a_restarted_answer_with_different_text_is_voided() {
        for (restarted_text, final_text) in
            [(Some("other"), "other"), (Some("on"), "on"), (None, "")]
        {
            let broadcast = broadcast();
            let mut subscriber = broadcast.read();
            broadcast.take(&text("one"));
            assert_eq!(read(&mut subscriber), "one");
            broadcast.take(&TurnUpdate::Restarted);
            restarted_text
                .iter()
                .for_each(|restarted_text| broadcast.take(&text(restarted_text)));
            broadcast.end(ended_with(&[final_text]), true);
            assert_eq!(read(&mut subscriber), "!", "{restarted_text:?}");
        }
    }

    #[test]
    fn an_abandoned_broadcast_ends_for_its_subscribers() {
        let broadcast = broadcast();
        let mut subscriber = broadcast.read();
        broadcast.end_unless_over();
        assert!(
            subscriber
                .wait_until_accepted()
                .now_or_never()
                .unwrap()
                .is_err()
        );
        assert_eq!(read(&mut subscriber), ".");
    }
}
