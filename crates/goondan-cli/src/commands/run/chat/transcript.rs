//! Output of a chat: finished lines, and rows about running work.

use std::collections::BTreeMap;

use chrono::Utc;
use goondan::event::{
    ContextUsage, FinishReason, RuntimeEvent, RuntimeEventKind, SwarmEvent, TurnResult,
};
use goondan::ids::InstanceId;
use goondan::internal::untrusted_text::{self, KeptCharacters, TextEscaper};
use goondan::ports::model::TokenUsage;
use goondan::ports::tool::ToolCallStatus;

use super::markdown::StreamedAnswer;
use super::reasoning::ReasoningView;
use super::wrapped_text::wrap_line;
use crate::commands::run::UnpromptedAnswer;
use crate::commands::run::unprompted_answers::resumed_turn_notice;
use crate::commands::run::view::calls;
use crate::commands::run::view::text::{
    BROKEN_OFF_NOTICE, cut_warning, failed_call, goes_on, is_background_answer, remembered,
    retry_line,
};
use crate::commands::run::view::work_tracker::WorkTracker;
use crate::exit::CliError;
use crate::output::screen::{self, TerminalStream, TextOrigin};
use crate::output::width::{fit, rows};
use crate::output::{CommandOutput, shorten, style};

/// Begin of the prompt, before the name of the agent that receives the input.
pub(super) const SENDER: &str = "you → ";
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
    /// True if nothing is redrawn. Calls are then also shown when they begin.
    is_plain: bool,
    /// Conversation whose answers are shown; other agents are helpers.
    mine: InstanceId,
    answer: StreamedAnswer,
    /// Text of the current step, as the model wrote it.
    said: String,
    reasoning: ReasoningView,
    running: WorkTracker,
    used: ChatUsage,
    /// Parts of the last model request of the conversation.
    context: Option<(InstanceId, ContextUsage)>,
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

/// Sum of the tokens and costs of model calls.
#[derive(Debug, Default)]
struct UsageTotal {
    tokens: TokenUsage,
    /// Amount per currency.
    costs: BTreeMap<String, f64>,
}

impl ChatTranscript {
    /// Creates an empty transcript that shows the answers of conversation `mine`.
    pub(super) fn new(mine: InstanceId, is_plain: bool, output: &CommandOutput) -> Self {
        let has_styles = CommandOutput::stdout_has_colour() && !is_plain;
        ChatTranscript {
            output: *output,
            is_plain,
            mine,
            answer: StreamedAnswer::new(has_styles, super::size().columns),
            said: String::new(),
            reasoning: ReasoningView::default(),
            running: WorkTracker::default(),
            used: ChatUsage::default(),
            context: None,
            lines: String::new(),
            turns: 0,
        }
    }

    /// Returns the model usage of this chat.
    pub(super) fn used(&self) -> &ChatUsage {
        &self.used
    }

    /// Returns the parts of the last model request, if the request belonged to the current
    /// conversation.
    pub(super) fn context(&self) -> Option<ContextUsage> {
        let (instance, context) = self.context.as_ref()?;
        (*instance == self.mine).then_some(*context)
    }

    /// Returns the last reasoning in full.
    pub(super) fn last_reasoning(&self) -> Option<String> {
        self.reasoning.last()
    }

    /// Returns true if a step or a tool call is running.
    pub(super) fn is_busy(&self) -> bool {
        !self.running.is_empty()
    }

    /// Prepares for a turn of conversation `mine`.
    pub(super) fn begin(&mut self, mine: &InstanceId) {
        self.end_answer();
        self.mine = mine.clone();
    }

    /// Repeats the user's input as a permanent line.
    pub(super) fn add_input(&mut self, agent: &str, text: &str) {
        let (bold, faint) = (style::HEADING, style::FAINT);
        let lines: Vec<&str> = text.lines().collect();
        self.add_notice("");
        for (index, line) in lines.iter().take(MAX_INPUT_LINES).enumerate() {
            let line = TextEscaper::new(KeptCharacters::Writing)
                .escape(line)
                .replace('\t', "    ");
            match index {
                0 => self.add_notice(&format!(
                    "{bold}{SENDER}{}>{bold:#} {line}",
                    untrusted_text::line(agent)
                )),
                _ => self.add_notice(&format!("  {line}")),
            }
        }
        if let more @ 1.. = lines.len().saturating_sub(MAX_INPUT_LINES) {
            self.add_notice(&format!("  {faint}⋮ {more} more lines{faint:#}"));
        }
    }

    /// Adds lines of gdn, unless `--quiet` suppresses them. A line that is too wide is divided
    /// between words.
    pub(super) fn add_notice(&mut self, text: &str) {
        if self.output.quiet {
            return;
        }
        let columns = super::size().columns;
        for line in text.split('\n') {
            self.lines.push_str(&wrap_line(line, columns));
            self.lines.push('\n');
        }
    }

    /// Handles an event. `is_mine` recognizes inputs of this chat.
    pub(super) fn show(&mut self, event: &SwarmEvent, is_mine: impl Fn(&str) -> bool) {
        match event {
            SwarmEvent::Text {
                instance, delta, ..
            } if *instance == self.mine => {
                self.fold_reasoning();
                self.said.push_str(delta);
                self.answer.resize(super::size().columns);
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
                    self.add_notice(BROKEN_OFF_NOTICE);
                }
            }
            SwarmEvent::Runtime(event) => self.runtime_event(event),
            _ => {}
        }
        if let Some(notice) = resumed_turn_notice(event, &is_mine) {
            self.add_notice(&notice);
        }
        if let Some(answer) = UnpromptedAnswer::of(event, is_mine) {
            self.show_unprompted_answer(&answer);
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
            self.add_notice(&warning);
        }
    }

    /// Shows the answer of a turn that no input of this chat started. In the shown conversation,
    /// the answer is shown like any other; background answers are shown only with `-v`.
    fn show_unprompted_answer(&mut self, answer: &UnpromptedAnswer<'_>) {
        if *answer.instance == self.mine
            && answer.result.finish_reason == FinishReason::TextResponse
        {
            return self.end(answer.result);
        }
        if is_background_answer(&self.mine, answer) && self.output.verbose == 0 {
            return;
        }
        if let Some(text) = answer.words() {
            self.add_notice(&text);
        }
    }

    /// Updates the running work and the usage, and adds lines about calls, retries and approvals.
    fn runtime_event(&mut self, event: &RuntimeEvent) {
        self.running.note(event);
        let is_mine = event.instance() == self.mine;
        match &event.kind {
            RuntimeEventKind::TurnStarted { event_type, .. } if is_mine => {
                let faint = style::FAINT;
                if let Some(reason) = goes_on(event_type) {
                    self.add_notice(&format!("{faint}{reason}{faint:#}"));
                }
            }
            // Text that the model wrote before its calls comes before everything that they cause.
            RuntimeEventKind::StepStarted { .. } | RuntimeEventKind::ToolCalled { .. }
                if is_mine =>
            {
                self.end_answer();
                self.show_begin(event);
            }
            RuntimeEventKind::ToolCalled { .. } => self.show_begin(event),
            RuntimeEventKind::ModelRetrying { .. } => {
                if let Some(line) = retry_line(event, is_mine) {
                    self.add_notice(&line);
                }
            }
            RuntimeEventKind::ModelCompleted { call, .. }
            | RuntimeEventKind::ModelFailed { call, .. } => {
                if let Some(context) = call.context.filter(|_| is_mine) {
                    self.context = Some((event.instance(), context));
                }
                let agent = self
                    .used
                    .by_agent
                    .entry(event.agent_name.clone())
                    .or_default();
                for usage in [&mut self.used.total, agent] {
                    usage.tokens += call.token_usage.unwrap_or_default();
                    if let Some(cost) = &call.cost {
                        *usage.costs.entry(cost.currency.clone()).or_default() += cost.amount;
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
                self.add_call(event, tool_name, (*status, *duration), shown);
            }
            RuntimeEventKind::ToolFailed {
                tool_name,
                duration,
                error_message,
                ..
            } => {
                self.add_call(
                    event,
                    tool_name,
                    (ToolCallStatus::Error, *duration),
                    &failed_call(error_message),
                );
            }
            RuntimeEventKind::ApprovalRemembered { scope, grants, .. } => {
                remembered(*scope, grants).for_each(|line| self.add_notice(&line));
            }
            _ => {}
        }
    }

    /// Adds the begin of a call in plain lines. Helpers are named.
    fn show_begin(&mut self, event: &RuntimeEvent) {
        if let RuntimeEventKind::ToolCalled {
            tool_name,
            arguments,
            ..
        } = &event.kind
            && self.is_plain
        {
            let prefix = self.agent_prefix(event);
            self.add_notice(&format!(
                "{prefix}{}",
                calls::call_line(tool_name, arguments)
            ));
        }
    }

    /// Returns the name of a helper before its calls; empty for the agent of the conversation.
    fn agent_prefix(&self, event: &RuntimeEvent) -> String {
        let faint = style::FAINT;
        if event.instance() == self.mine {
            String::new()
        } else {
            format!("  {faint}{}{faint:#} ", shorten(&event.agent_name))
        }
    }

    /// Adds a finished call. Helpers are named.
    fn add_call(
        &mut self,
        event: &RuntimeEvent,
        tool: &str,
        (status, millis): (ToolCallStatus, u64),
        result: &goondan::event::ShownResult,
    ) {
        let agent_prefix = self.agent_prefix(event);
        // Text that the model wrote before a call must come before it.
        if agent_prefix.is_empty() {
            self.end_answer();
        }
        let columns = CommandOutput::columns();
        let lines = match self.output.verbose {
            0 if !self.is_plain => vec![calls::folded_call_row(
                tool,
                status,
                millis,
                result,
                columns.saturating_sub(shorten(&event.agent_name).len() + 4),
            )],
            _ => calls::completed_call_lines(tool, status, millis, result, columns),
        };
        self.add_notice(&format!("{agent_prefix}{}", lines.join("\n")));
    }

    /// Replaces the streamed reasoning by its final lines.
    fn fold_reasoning(&mut self) {
        if let Some(lines) = self.reasoning.fold(self.output.verbose > 0) {
            self.add_notice(&lines);
        }
    }

    /// Adds the incomplete last line, and prepares for the next step.
    fn end_answer(&mut self) {
        self.fold_reasoning();
        let last = self.answer.end();
        self.lines.push_str(&last);
        self.said.clear();
    }

    /// Returns true if lines are pending.
    pub(super) fn has_lines(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Writes the pending lines.
    pub(super) fn flush(&mut self) -> Result<(), CliError> {
        if !self.lines.is_empty() {
            screen::write(TerminalStream::Out, TextOrigin::Ours, &self.lines)?;
            self.lines.clear();
        }
        Ok(())
    }

    /// Returns the rows above the prompt: the incomplete line and running work.
    /// `is_turn`: the turn of an input is running. At most `max_rows` rows.
    pub(super) fn rows(&mut self, columns: usize, max_rows: usize, is_turn: bool) -> Vec<String> {
        self.turns += 1;
        let faint = style::FAINT;
        // Only the visible end of a long line is processed.
        let partial = self.answer.partial();
        let begin = partial
            .len()
            .saturating_sub(columns.saturating_mul(4 * MAX_PARTIAL_ROWS));
        let partial = partial[partial.ceil_char_boundary(begin)..].replace('\t', "    ");
        let partial = if partial.is_empty() {
            Vec::new()
        } else {
            rows(&partial, columns)
        };
        let row_limit = MAX_PARTIAL_ROWS.min(max_rows / 2);
        let mut rows = self.reasoning.rows(columns, row_limit);
        rows.extend(
            partial[partial.len().saturating_sub(row_limit)..]
                .iter()
                .map(|row| (*row).to_owned()),
        );
        let tree = self.running.tree(Utc::now());
        let spinner = SPINNER_FRAMES[self.turns % SPINNER_FRAMES.len()];
        let row_limit = MAX_WORK_ROWS.min(max_rows.saturating_sub(rows.len()));
        for work in tree.iter().take(row_limit) {
            let mark = if work.depth == 0 { spinner } else { '└' };
            let time = elapsed_text(work.elapsed.as_secs());
            let indent = "  ".repeat(work.depth.min(8));
            let text = format!("{indent}{mark} {}", shorten(work.words));
            let text = fit(&text, columns.saturating_sub(time.len() + 1));
            rows.push(format!("{text} {faint}{time}{faint:#}"));
        }
        if tree.is_empty() && is_turn {
            rows.push(format!("{spinner} working"));
        }
        if let more @ 1.. = tree.len().saturating_sub(row_limit) {
            rows.push(format!("{faint}⋮ {more} more{faint:#}"));
        }
        rows
    }
}

/// Formats a time in seconds, or in minutes and seconds.
fn elapsed_text(seconds: u64) -> String {
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
        let line = |(agent, usage): (&String, &UsageTotal)| {
            format!("{}: {}", shorten(agent), usage.words())
        };
        let total = format!("in all: {}", self.total.words());
        self.by_agent.iter().map(line).chain([total]).collect()
    }
}

impl UsageTotal {
    /// Formats the token usage and the cost per currency.
    fn words(&self) -> String {
        let TokenUsage {
            total_tokens,
            prompt_tokens,
            completion_tokens,
            ..
        } = self.tokens;
        let mut text =
            format!("{total_tokens} tokens ({prompt_tokens} read, {completion_tokens} written)");
        for (currency, amount) in &self.costs {
            text.push_str(&format!(", {amount:.4} {}", shorten(currency)));
        }
        text
    }
}
