//! What a chat has shown and shows: lines that stay, and rows about what goes on.

use std::collections::BTreeMap;

use chrono::Utc;
use goondan::event::{FinishReason, RuntimeEvent, RuntimeEventKind, SwarmEvent, TurnResult};
use goondan::ids::InstanceId;
use goondan::inside::shown::{self, Escaper, Kept};
use goondan::ports::model::TokenUsage;
use goondan::ports::tool::ToolCallStatus;

use super::markdown::Answer;
use super::reasoning::Reasoning;
use crate::commands::run::Unasked;
use crate::commands::run::answers::resumed;
use crate::commands::run::view::calls;
use crate::commands::run::view::running::Running;
use crate::commands::run::view::text::{
    BROKEN_OFF, cut_warning, failed_call, goes_on, is_work, remembered, retry_line,
};
use crate::exit::CliError;
use crate::output::screen::{self, Stream, Words};
use crate::output::width::{fit, rows};
use crate::output::{Output, shorten, style};

/// So many rows of the line that is coming are shown, and so many of what goes on.
const MOST_COMING: usize = 6;
const MOST_DOINGS: usize = 8;

/// Of an input so many lines are repeated.
const MOST_SAID: usize = 12;

/// What turns so, a position each time that it is drawn.
const SPINNER: [char; 8] = ['⣾', '⣽', '⣻', '⢿', '⡿', '⣟', '⣯', '⣷'];

/// What stands above the prompt.
pub(super) struct Pane {
    output: Output,
    /// The conversation whose answers these are; the others are its helpers.
    mine: InstanceId,
    answer: Answer,
    /// What came of the current step, as the model wrote it.
    said: String,
    reasoning: Reasoning,
    running: Running,
    used: Used,
    /// Lines that wait to be written.
    lines: String,
    turns: usize,
}

/// What models have taken in this chat.
#[derive(Debug, Default)]
pub(super) struct Used {
    total: Share,
    by_agent: BTreeMap<String, Share>,
}

#[derive(Debug, Default)]
struct Share {
    tokens: TokenUsage,
    /// By currency.
    costs: BTreeMap<String, f64>,
}

impl Pane {
    pub(super) fn new(mine: InstanceId, output: &Output) -> Self {
        Pane {
            output: *output,
            mine,
            answer: Answer::new(Output::stdout_has_colour()),
            said: String::new(),
            reasoning: Reasoning::default(),
            running: Running::default(),
            used: Used::default(),
            lines: String::new(),
            turns: 0,
        }
    }

    pub(super) fn used(&self) -> &Used {
        &self.used
    }

    /// Returns the last reasoning in full.
    pub(super) fn last_reasoning(&self) -> Option<String> {
        self.reasoning.last()
    }

    /// Whether anything goes on.
    pub(super) fn is_busy(&self) -> bool {
        !self.running.is_empty()
    }

    /// A turn of the conversation `mine` begins.
    pub(super) fn begin(&mut self, mine: &InstanceId) {
        self.end_answer();
        self.mine = mine.clone();
    }

    /// What the person has said, as it stays.
    pub(super) fn said(&mut self, who: &str, text: &str) {
        let (bold, faint) = (style::HEADING, style::FAINT);
        let lines: Vec<&str> = text.lines().collect();
        self.tell("");
        for (index, line) in lines.iter().take(MOST_SAID).enumerate() {
            let line = Escaper::new(Kept::Writing)
                .escape(line)
                .replace('\t', "    ");
            match index {
                0 => self.tell(&format!("{bold}{}>{bold:#} {line}", shown::line(who))),
                _ => self.tell(&format!("  {line}")),
            }
        }
        if let more @ 1.. = lines.len().saturating_sub(MOST_SAID) {
            self.tell(&format!("  {faint}⋮ {more} more lines{faint:#}"));
        }
    }

    /// Lines of ours.
    pub(super) fn tell(&mut self, words: &str) {
        self.lines.push_str(words);
        self.lines.push('\n');
    }

    /// Something happened. `is_mine` knows the inputs of this chat.
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
                    self.tell(BROKEN_OFF);
                }
            }
            SwarmEvent::Runtime(event) => self.runtime_event(event),
            _ => {}
        }
        if let Some(words) = resumed(event, &is_mine) {
            self.tell(&words);
        }
        if let Some(unasked) = Unasked::of(event, is_mine) {
            self.unasked(&unasked);
        }
    }

    /// The turn of an input is over.
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

    fn unasked(&mut self, unasked: &Unasked<'_>) {
        if *unasked.instance == self.mine
            && unasked.result.finish_reason == FinishReason::TextResponse
        {
            return self.end(unasked.result);
        }
        if is_work(&self.mine, unasked) && self.output.verbose == 0 {
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

    /// A call that is over; helpers say who they are.
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
        // What the answer says before a call stands before it.
        if who.is_empty() {
            self.end_answer();
        }
        let columns = Output::columns();
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

    /// Writes the lines that wait.
    pub(super) fn flush(&mut self) -> Result<(), CliError> {
        if !self.lines.is_empty() {
            screen::write(Stream::Out, Words::Ours, &self.lines)?;
            self.lines.clear();
        }
        Ok(())
    }

    /// The rows above the prompt: the line that is coming, and what goes on. `is_turn`: an input is worked on.
    pub(super) fn rows(&mut self, columns: usize, most: usize, is_turn: bool) -> Vec<String> {
        self.turns += 1;
        let faint = style::FAINT;
        // No more of a long line is looked at than could be seen.
        let coming = self.answer.partial();
        let begin = coming
            .len()
            .saturating_sub(columns.saturating_mul(4 * MOST_COMING));
        let coming = coming[coming.ceil_char_boundary(begin)..].replace('\t', "    ");
        let coming = if coming.is_empty() {
            Vec::new()
        } else {
            rows(&coming, columns)
        };
        let room = MOST_COMING.min(most / 2);
        let mut shown = self.reasoning.rows(columns, room);
        shown.extend(
            coming[coming.len().saturating_sub(room)..]
                .iter()
                .map(|row| (*row).to_owned()),
        );
        let tree = self.running.tree(Utc::now());
        let spinner = SPINNER[self.turns % SPINNER.len()];
        let room = MOST_DOINGS.min(most.saturating_sub(shown.len()));
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

impl Used {
    /// The tokens and the money so far; `None` where nothing was used.
    pub(super) fn words(&self) -> Option<String> {
        (self.total.tokens.total_tokens > 0).then(|| self.total.words())
    }

    /// A line for each agent, and one for all.
    pub(super) fn lines(&self) -> Vec<String> {
        let line =
            |(agent, share): (&String, &Share)| format!("{}: {}", shorten(agent), share.words());
        let all = format!("in all: {}", self.total.words());
        self.by_agent.iter().map(line).chain([all]).collect()
    }
}

impl Share {
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
