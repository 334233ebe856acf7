//! Output of a chat: finished lines, and rows about running work.

use std::collections::BTreeMap;

use chrono::Utc;
use goondan::event::{FinishReason, RuntimeEvent, RuntimeEventKind, SwarmEvent, TurnResult};
use goondan::ids::InstanceId;
use goondan::internal::untrusted_text::{self, KeptCharacters, TextEscaper};
use goondan::ports::model::TokenUsage;
use goondan::ports::tool::ToolCallStatus;

use super::markdown::StreamedAnswer;
use super::reasoning::ReasoningView;
use crate::commands::run::UnpromptedAnswer;
use crate::commands::run::unprompted_answers::resumed_turn_notice;
use crate::commands::run::view::calls;
use crate::commands::run::view::text::{
    BROKEN_OFF_NOTICE, cut_warning, failed_call, goes_on, is_background_answer, remembered,
    retry_line,
};
use crate::commands::run::view::work_tracker::WorkTracker;
use crate::exit::CliError;
use crate::output::screen::{self, OutputStream, TextOrigin};
use crate::output::width::{fit, rows};
use crate::output::{CommandOutput, shorten, style};

/// Maximum rows of the incomplete line.
const MAX_PARTIAL_ROWS: usize = 6;
/// Maximum rows about running work.
const MAX_WORK_ROWS: usize = 8;

/// Maximum number of lines of an input that are repeated.
const MAX_INPUT_LINES: usize = 12;

/// Frames of the spinner, one per redraw.
const SPINNER_FRAMES: [char; 8] = ['⣾', '⣽', '⣻', '⢿', '⡿', '⣟', '⣯', '⣷'];

/// Output above the prompt.
pub(super) struct ChatTranscript {
    output: CommandOutput,
    /// Conversation whose answers are shown; other agents are helpers.
    mine: InstanceId,
    answer: StreamedAnswer,
    /// Text of the current step, as the model wrote it.
    said: String,
    reasoning: ReasoningView,
    running: WorkTracker,
    used: ChatUsage,
    /// Lines that are not written yet.
    lines: String,
    turns: usize,
}

/// Token usage and cost in this chat.
#[derive(Debug, Default)]
pub(super) struct ChatUsage {
    total: UsageTotal,
    by_agent: BTreeMap<String, UsageTotal>,
}

#[derive(Debug, Default)]
struct UsageTotal {
    tokens: TokenUsage,
    /// Amount per currency.
    costs: BTreeMap<String, f64>,
}

impl ChatTranscript {
    pub(super) fn new(mine: InstanceId, output: &CommandOutput) -> Self {
        ChatTranscript {
            output: *output,
            mine,
            answer: StreamedAnswer::new(CommandOutput::stdout_has_colour()),
            said: String::new(),
            reasoning: ReasoningView::default(),
            running: WorkTracker::default(),
            used: ChatUsage::default(),
            lines: String::new(),
            turns: 0,
        }
    }

    pub(super) fn used(&self) -> &ChatUsage {
        &self.used
    }

    /// Returns the last reasoning in full.
    pub(super) fn last_reasoning(&self) -> Option<String> {
        self.reasoning.last()
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.running.is_empty()
    }

    /// Prepares for a turn of conversation `mine`.
    pub(super) fn begin(&mut self, mine: &InstanceId) {
        self.end_answer();
        self.mine = mine.clone();
    }

    /// Repeats the user's input as a permanent line.
    pub(super) fn add_input(&mut self, who: &str, text: &str) {
        let (bold, faint) = (style::HEADING, style::FAINT);
        let lines: Vec<&str> = text.lines().collect();
        self.tell("");
        for (index, line) in lines.iter().take(MAX_INPUT_LINES).enumerate() {
            let line = TextEscaper::new(KeptCharacters::Writing)
                .escape(line)
                .replace('\t', "    ");
            match index {
                0 => self.tell(&format!(
                    "{bold}{}>{bold:#} {line}",
                    untrusted_text::line(who)
                )),
                _ => self.tell(&format!("  {line}")),
            }
        }
        if let more @ 1.. = lines.len().saturating_sub(MAX_INPUT_LINES) {
            self.tell(&format!("  {faint}⋮ {more} more lines{faint:#}"));
        }
    }

    /// Adds lines of gdn.
    pub(super) fn tell(&mut self, words: &str) {
        self.lines.push_str(words);
        self.lines.push('\n');
    }

    /// Handles an event. `is_mine` recognizes inputs of this chat.
    pub(super) fn show(&mut self, event: &SwarmEvent, is_mine: impl Fn(&str) -> bool) {
        match event {
            SwarmEvent::Text {
                instance, delta, ..
            } if *instance == self.mine => {
                self.fold_reasoning();
                self.said.push_str(delta);
                let lines = self.answer.push(delta);
                self.lines.push_str(&lines);
            }
            SwarmEvent::Reasoning {
                instance, delta, ..
            } if *instance == self.mine => self.reasoning.push(delta),
            SwarmEvent::TextReset { instance, .. } if *instance == self.mine => {
                self.reasoning.clear();
                let was_shown = !self.said.is_empty();
                self.end_answer();
                if was_shown {
                    self.tell(BROKEN_OFF_NOTICE);
                }
            }
            SwarmEvent::Runtime(event) => self.runtime_event(event),
            _ => {}
        }
        if let Some(words) = resumed_turn_notice(event, &is_mine) {
            self.tell(&words);
        }
        if let Some(unasked) = UnpromptedAnswer::of(event, is_mine) {
            self.unasked(&unasked);
        }
    }

    /// Ends the turn of an input.
    pub(super) fn end(&mut self, result: &TurnResult) {
        let answer = result.response_text();
        if !answer.is_empty() && answer != self.said {
            self.end_answer();
            let lines = self.answer.push(&answer);
            self.lines.push_str(&lines);
        }
        self.end_answer();
        if let Some(warning) = cut_warning(result) {
            self.tell(&warning);
        }
    }

    fn unasked(&mut self, unasked: &UnpromptedAnswer<'_>) {
        if *unasked.instance == self.mine
            && unasked.result.finish_reason == FinishReason::TextResponse
        {
            return self.end(unasked.result);
        }
        if is_background_answer(&self.mine, unasked) && self.output.verbose == 0 {
            return;
        }
        if let Some(words) = unasked.words() {
            self.tell(&words);
        }
    }

    fn runtime_event(&mut self, event: &RuntimeEvent) {
        self.running.note(event);
        let is_mine = event.instance() == self.mine;
        match &event.kind {
            RuntimeEventKind::TurnStarted { event_type, .. } if is_mine => {
                let faint = style::FAINT;
                goes_on(event_type)
                    .into_iter()
                    .for_each(|what| self.tell(&format!("{faint}{what}{faint:#}")));
            }
            RuntimeEventKind::StepStarted { .. } if is_mine => self.end_answer(),
            RuntimeEventKind::ModelRetrying { .. } => {
                retry_line(event, is_mine)
                    .into_iter()
                    .for_each(|line| self.tell(&line));
            }
            RuntimeEventKind::ModelCompleted { call, .. }
            | RuntimeEventKind::ModelFailed { call, .. } => {
                let agent = self
                    .used
                    .by_agent
                    .entry(event.agent_name.clone())
                    .or_default();
                for share in [&mut self.used.total, agent] {
                    share.tokens += call.token_usage.unwrap_or_default();
                    if let Some(cost) = &call.cost {
                        *share.costs.entry(cost.currency.clone()).or_default() += cost.amount;
                    }
                }
            }
            RuntimeEventKind::ToolCompleted {
                tool_name,
                status,
                duration,
                shown,
                ..
            } => {
                self.call(event, tool_name, (*status, *duration), shown);
            }
            RuntimeEventKind::ToolFailed {
                tool_name,
                duration,
                error_message,
                ..
            } => {
                self.call(
                    event,
                    tool_name,
                    (ToolCallStatus::Error, *duration),
                    &failed_call(error_message),
                );
            }
            RuntimeEventKind::ApprovalRemembered { scope, grants, .. } => {
                remembered(*scope, grants).for_each(|line| self.tell(&line));
            }
            _ => {}
        }
    }

    /// Adds a finished call. Helpers are named.
    fn call(
        &mut self,
        event: &RuntimeEvent,
        tool: &str,
        (status, millis): (ToolCallStatus, u64),
        result: &goondan::event::ShownResult,
    ) {
        let faint = style::FAINT;
        let who = match event.instance() == self.mine {
            true => String::new(),
            false => format!("  {faint}{}{faint:#} ", shorten(&event.agent_name)),
        };
        // Text that the model wrote before a call must come before it.
        if who.is_empty() {
            self.end_answer();
        }
        let columns = CommandOutput::columns();
        let lines = match self.output.verbose {
            0 => vec![calls::folded(
                tool,
                status,
                millis,
                result,
                columns.saturating_sub(shorten(&event.agent_name).len() + 4),
            )],
            _ => calls::completed(tool, status, millis, result, columns),
        };
        self.tell(&format!("{who}{}", lines.join("\n")));
    }

    fn fold_reasoning(&mut self) {
        let lines = self.reasoning.fold(self.output.verbose > 0);
        lines.into_iter().for_each(|lines| self.tell(&lines));
    }

    fn end_answer(&mut self) {
        self.fold_reasoning();
        let last = self.answer.end();
        self.lines.push_str(&last);
        self.said.clear();
    }

    /// Writes the pending lines.
    pub(super) fn flush(&mut self) -> Result<(), CliError> {
        if !self.lines.is_empty() {
            screen::write(OutputStream::Out, TextOrigin::Ours, &self.lines)?;
            self.lines.clear();
        }
        Ok(())
    }

    /// Returns the rows above the prompt: the incomplete line and running work.
    /// With `is_turn`, a turn of an input runs.
    pub(super) fn rows(&mut self, columns: usize, most: usize, is_turn: bool) -> Vec<String> {
        self.turns += 1;
        let faint = style::FAINT;
        // Only the visible end of a long line is processed.
        let coming = self.answer.partial();
        let begin = coming
            .len()
            .saturating_sub(columns.saturating_mul(4 * MAX_PARTIAL_ROWS));
        let coming = coming[coming.ceil_char_boundary(begin)..].replace('\t', "    ");
        let coming = if coming.is_empty() {
            Vec::new()
        } else {
            rows(&coming, columns)
        };
        let room = MAX_PARTIAL_ROWS.min(most / 2);
        let mut shown = self.reasoning.rows(columns, room);
        shown.extend(
            coming[coming.len().saturating_sub(room)..]
                .iter()
                .map(|row| (*row).to_owned()),
        );
        let tree = self.running.tree(Utc::now());
        let spinner = SPINNER_FRAMES[self.turns % SPINNER_FRAMES.len()];
        let room = MAX_WORK_ROWS.min(most.saturating_sub(shown.len()));
        for doing in tree.iter().take(room) {
            let mark = if doing.depth == 0 { spinner } else { '└' };
            let time = seconds(doing.elapsed.as_secs());
            let indent = "  ".repeat(doing.depth.min(8));
            let words = format!("{indent}{mark} {}", shorten(doing.words));
            let words = fit(&words, columns.saturating_sub(time.len() + 1));
            shown.push(format!("{words} {faint}{time}{faint:#}"));
        }
        if tree.is_empty() && is_turn {
            shown.push(format!("{spinner} working"));
        }
        if let more @ 1.. = tree.len().saturating_sub(room) {
            shown.push(format!("{faint}⋮ {more} more{faint:#}"));
        }
        shown
    }
}

fn seconds(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

impl ChatUsage {
    /// Returns tokens and cost so far; `None` without usage.
    pub(super) fn words(&self) -> Option<String> {
        (self.total.tokens.total_tokens > 0).then(|| self.total.words())
    }

    /// Returns one line per agent and one for the total.
    pub(super) fn lines(&self) -> Vec<String> {
        let line = |(agent, share): (&String, &UsageTotal)| {
            format!("{}: {}", shorten(agent), share.words())
        };
        let all = format!("in all: {}", self.total.words());
        self.by_agent.iter().map(line).chain([all]).collect()
    }
}

impl UsageTotal {
    fn words(&self) -> String {
        let TokenUsage {
            total_tokens,
            prompt_tokens,
            completion_tokens,
            ..
        } = self.tokens;
        let mut words =
            format!("{total_tokens} tokens ({prompt_tokens} read, {completion_tokens} written)");
        for (currency, amount) in &self.costs {
            words.push_str(&format!(", {amount:.4} {}", shorten(currency)));
        }
        words
    }
}
