//! Events for people.

use goondan::Swarm;
use goondan::runtime::event::{FinishReason, RuntimeEvent, RuntimeEventKind, SwarmEvent, TurnResult};
use goondan::runtime::ids::InstanceId;
use goondan::runtime::inbound::RESPONSE;
use goondan::runtime::ports::tool::ToolCallStatus;
use goondan::runtime::reserved::INPUT;
use goondan::runtime::schedule::FIRED;
use goondan::spec::shown;

use crate::commands::run::Unasked;
use crate::exit::CliError;
use crate::output::{Activity, Output, shorten, style};

/// Shows a turn to a person.
///
/// On a terminal, text streams as it arrives. Elsewhere standard output gets the answer alone, whole and once: a script must
/// never read half an answer, or what a model said before it called a tool.
pub(crate) struct TextView {
    output: Output,
    activity: Activity,
    streams: bool,
    shows_tools: bool,
    /// The instance whose answer this is; the others are its helpers.
    instance: Option<InstanceId>,
    /// What was written of the current step.
    written: String,
    /// Whether the cursor stands at the beginning of a line.
    fresh_line: bool,
}

impl TextView {
    pub(crate) fn new(output: &Output) -> Self {
        TextView {
            output: *output,
            activity: Activity::new(output),
            streams: Output::stdout_is_terminal(),
            shows_tools: output.verbose > 0 || (Output::stderr_is_terminal() && !output.quiet),
            instance: None,
            written: String::new(),
            fresh_line: true,
        }
    }

    /// A turn of `instance` is about to run.
    pub(crate) fn begin(&mut self, instance: &InstanceId) {
        self.activity.show(format!("{} is thinking", instance.agent));
        self.instance = Some(instance.clone());
        self.written.clear();
        self.fresh_line = true;
    }

    /// Something happened.
    pub(crate) async fn show(&mut self, swarm: &Swarm, event: &SwarmEvent) -> Result<(), CliError> {
        match event {
            SwarmEvent::Text { instance, delta, .. } if self.streams && self.is_mine(instance) => self.write(delta),
            SwarmEvent::TextReset { instance, .. } if self.streams && self.is_mine(instance) => self.reset(),
            SwarmEvent::Runtime(event) => self.runtime_event(swarm, event).await,
            SwarmEvent::Text { .. } | SwarmEvent::TextReset { .. } | SwarmEvent::TurnEnded { .. } => Ok(()),
        }
    }

    /// Somebody else is about to write: the line that says what is going on makes room.
    pub(crate) fn pause(&mut self) {
        self.activity.hide();
    }

    /// The turn is over: what has not been seen of the answer is written now.
    pub(crate) fn end(&mut self, result: &TurnResult) -> Result<(), CliError> {
        self.activity.hide();
        let answer = result.response_text();
        if !answer.is_empty() && answer != self.written {
            self.end_line()?;
            self.write(&answer)?;
        }
        self.end_line()
    }

    /// The answer of a turn that no input of this run began. In the conversation that is followed it is part of the result
    /// where it belongs to what was asked (`is_later`), and was seen where text streams.
    pub(crate) fn answer(&mut self, unasked: &Unasked<'_>, is_later: bool) -> Result<(), CliError> {
        let is_shown = self.is_mine(unasked.instance) && (is_later || self.streams);
        if is_shown && unasked.result.finish_reason == FinishReason::TextResponse {
            return self.end(unasked.result);
        }
        self.pause();
        self.end_line()?;
        unasked.words().map_or(Ok(()), |words| self.output.note(&words))
    }

    fn is_mine(&self, instance: &InstanceId) -> bool {
        self.instance.as_ref() == Some(instance)
    }

    async fn runtime_event(&mut self, swarm: &Swarm, event: &RuntimeEvent) -> Result<(), CliError> {
        match &event.kind {
            RuntimeEventKind::TurnStarted { event_type, .. } if self.shows_tools && self.is_mine(&event.instance()) => {
                self.goes_on(event_type)
            }
            RuntimeEventKind::StepStarted { .. } if self.is_mine(&event.instance()) => {
                self.end_line()?;
                self.written.clear();
                self.activity.show(format!("{} is thinking", event.agent_name));
                Ok(())
            }
            RuntimeEventKind::ToolCalled { tool_call_id, tool_name, .. } => {
                self.activity.show(format!("{} calls {tool_name}", event.agent_name));
                if !self.shows_tools {
                    return Ok(());
                }
                let arguments = arguments(swarm, &event.instance(), tool_call_id).await.unwrap_or_default();
                self.tool_line(event, &format!("→ {tool_name}"), &arguments)
            }
            RuntimeEventKind::ToolCompleted { tool_name, status, duration, .. } if self.shows_tools => {
                let status = if *status == ToolCallStatus::Ok { "ok" } else { "error" };
                self.tool_line(event, &format!("← {tool_name}"), &format!("{status} {duration} ms"))
            }
            RuntimeEventKind::ToolFailed { tool_name, duration, error_message, .. } if self.shows_tools => {
                let message = shorten(error_message);
                self.tool_line(event, &format!("← {tool_name}"), &format!("failed {duration} ms: {message}"))
            }
            RuntimeEventKind::ToolProgress { title, .. } => {
                self.activity.show(format!("{}: {title}", event.agent_name));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The conversation goes on without an input.
    fn goes_on(&mut self, event_type: &str) -> Result<(), CliError> {
        let what = match event_type {
            INPUT => return Ok(()),
            RESPONSE => "An answer has come.",
            FIRED => "A job is due.",
            _ => "A message of another agent has come.",
        };
        self.pause();
        self.end_line()?;
        let faint = style::FAINT;
        self.output.trace(&format!("{faint}{what}{faint:#}"))
    }

    /// A line about a tool call; helpers say who they are.
    fn tool_line(&mut self, event: &RuntimeEvent, what: &str, detail: &str) -> Result<(), CliError> {
        self.activity.hide();
        self.end_line()?;
        let who = if self.is_mine(&event.instance()) { String::new() } else { format!("{} ", event.agent_name) };
        let (name, faint) = (style::NAME, style::FAINT);
        let (who, what, detail) = (shown::line(who), shown::line(what), shown::line(detail));
        self.output.trace(&format!("{faint}{who}{faint:#}{name}{what}{name:#} {faint}{detail}{faint:#}"))
    }

    fn write(&mut self, text: &str) -> Result<(), CliError> {
        if text.is_empty() {
            return Ok(());
        }
        self.activity.hide();
        self.output.foreign(text)?;
        self.written.push_str(text);
        self.fresh_line = text.ends_with('\n');
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), CliError> {
        if !std::mem::replace(&mut self.fresh_line, true) {
            self.activity.hide();
            self.output.piece("\n")?;
        }
        Ok(())
    }

    fn reset(&mut self) -> Result<(), CliError> {
        self.end_line()?;
        self.written.clear();
        self.output.note("The answer broke off; the model is asked again.")
    }
}

/// The arguments of a call, from the conversation that holds it: events carry no unbounded text (rule E2).
async fn arguments(swarm: &Swarm, instance: &InstanceId, tool_call_id: &str) -> Option<String> {
    let conversation = swarm.conversation(instance).await.ok()?;
    let call = conversation
        .iter()
        .rev()
        .flat_map(|message| message.tool_calls())
        .find(|call| call.tool_call_id == tool_call_id)?;
    Some(shorten(&call.input.to_string()))
}
