//! `gdn logs`: shows the turns, steps and tool calls of past runs.

mod event_line;
mod otlp;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use chrono::{Local, SecondsFormat};
use clap::Args;
use goondan::StateRoot;
use goondan::event::RuntimeEvent;
use goondan::ids::InstanceId;
use goondan::internal::untrusted_text;
use goondan::workspace::database::SharedDatabase;
use serde_json::Value;

use crate::complete;
use crate::exit::CliError;
use crate::instances::{self, ConversationScope, ScopeArgs};
use crate::output::{self, CommandOutput, style};
use crate::store::{self, StoreArgs};

/// Interval at which `--follow` looks for new events.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Default number of events shown.
const DEFAULT_LINE_LIMIT: usize = 200;

/// Fields that the end of a line does not repeat.
const UNREPEATED_FIELDS: [&str; 7] = [
    "type",
    "timestamp",
    "agentName",
    "instanceKey",
    "traceId",
    "spanId",
    "parentSpanId",
];

const EXAMPLES: &str = "\
Examples:
  gdn logs                                   Show the latest events of this project
  gdn logs --agent writer --lines 20         Show the last 20 events of an agent
  gdn logs --trace 4bf92f3577b34da6a3ce929d0e0e4736
  gdn logs -v                                Show all fields of each event
  gdn logs --follow --json | jq .            Show new events as JSON while they happen
  gdn logs --otlp                            Send past turns to an OpenTelemetry collector";

/// Arguments of `gdn logs`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("store", store::help("Read from")))]
pub(crate) struct LogsArgs {
    /// Show only events of this agent
    #[arg(short, long, value_name = "NAME", add = complete::agents())]
    agent: Option<String>,
    /// Show only events of conversations with this key
    #[arg(short = 'k', long, value_name = "KEY")]
    instance_key: Option<String>,
    /// Show only events of this trace: one input through all agents, or the trace of an external
    /// caller
    #[arg(long, value_name = "ID")]
    trace: Option<String>,
    #[command(flatten)]
    scope: ScopeArgs,
    /// Show events of all projects
    #[arg(long, conflicts_with_all = ["workspace", "project"])]
    all: bool,
    #[command(flatten)]
    store: StoreArgs,
    /// Keep showing new events until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    /// Show at most this many past events [default: 200; with --otlp, all]
    #[arg(short = 'n', long, value_name = "N")]
    lines: Option<usize>,
    /// Send past turns as spans to OTEL_EXPORTER_OTLP_ENDPOINT; with --json, print them instead
    #[arg(long, conflicts_with = "follow")]
    otlp: bool,
}

/// Shows runtime events, oldest first.
pub(crate) async fn run(
    args: &LogsArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let scope = args.scope.scope(args.all, state_root, output)?;
    let mut read_positions = SeenEvents::default();
    let mut events = read(args, state_root, &scope, &mut read_positions).await?;
    let max_events = args.lines.unwrap_or(if args.otlp {
        usize::MAX
    } else {
        DEFAULT_LINE_LIMIT
    });
    events.drain(..events.len().saturating_sub(max_events));
    if events.is_empty() && !args.follow {
        return output.note(&format!(
            "No events found{}.",
            instances::scope_of_search(&scope)
        ));
    }
    if args.otlp {
        return otlp::send(&events, output).await;
    }
    events.iter().try_for_each(|event| show(event, output))?;
    if args.follow {
        follow(args, state_root, &scope, &mut read_positions, output).await
    } else {
        Ok(())
    }
}

/// Shows new events until Ctrl-C, or until the reader of the output closes it.
async fn follow(
    args: &LogsArgs,
    state_root: &StateRoot,
    scope: &ConversationScope,
    read_positions: &mut SeenEvents,
    output: &CommandOutput,
) -> Result<(), CliError> {
    loop {
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
        if output::stdout_is_closed() {
            return Ok(());
        }
        read(args, state_root, scope, read_positions)
            .await?
            .iter()
            .try_for_each(|event| show(event, output))?;
    }
}

/// Events already read, per conversation directory.
#[derive(Debug, Default)]
struct SeenEvents {
    files: HashMap<PathBuf, ReadPosition>,
    /// Sequence number of the last event read from a database.
    last: HashMap<PathBuf, u64>,
}

/// Read position in the two event files of a conversation.
/// The files are read again only if a length has changed.
#[derive(Debug, Default, Clone, Copy)]
struct ReadPosition {
    /// Number of events in both files.
    events: usize,
    /// Number of events in the rotated file.
    older: usize,
    /// Lengths of the rotated and the current file, in bytes.
    bytes: [u64; 2],
}

impl ReadPosition {
    /// Returns how many events were read before, for files of these lengths.
    fn read_event_count(&self, bytes: [u64; 2]) -> usize {
        match (bytes[0] == self.bytes[0], bytes[1] < self.bytes[1]) {
            // The current file was rotated, and the rotated file before it was deleted.
            (false, _) if bytes[0] > 0 => self.events - self.older,
            // The conversation was deleted and started again.
            (false, _) | (true, true) => 0,
            (true, false) => self.events,
        }
    }
}

/// Returns the new events that match the arguments, oldest first.
async fn read(
    args: &LogsArgs,
    state_root: &StateRoot,
    scope: &ConversationScope,
    read_positions: &mut SeenEvents,
) -> Result<Vec<RuntimeEvent>, CliError> {
    let mut new_events = match args.store.database()? {
        Some(database) => read_database(&database, args, state_root, scope, read_positions).await?,
        None => read_files(args, state_root, scope, read_positions)?,
    };
    if let Some(trace) = &args.trace {
        new_events.retain(|event| {
            event.trace.trace_id == *trace || event.trace.external_context().0.trace_id() == trace
        });
    }
    new_events.sort_by_key(|event| event.timestamp);
    Ok(new_events)
}

/// Returns true if the arguments select events of this conversation.
fn is_wanted(args: &LogsArgs, id: &InstanceId) -> bool {
    let matches_filter =
        |filter: &Option<String>, name: &str| filter.as_deref().is_none_or(|filter| filter == name);
    matches_filter(&args.agent, &id.agent) && matches_filter(&args.instance_key, &id.instance_key)
}

/// Reads the events that were added to the database since the last call.
async fn read_database(
    database: &SharedDatabase,
    args: &LogsArgs,
    state_root: &StateRoot,
    scope: &ConversationScope,
    read_positions: &mut SeenEvents,
) -> Result<Vec<RuntimeEvent>, CliError> {
    let mut new_events = Vec::new();
    for found in instances::in_database(database, state_root, scope).await? {
        let id = &found.summary.id;
        if !is_wanted(args, id) {
            continue;
        }
        let reader = database
            .look(&found.workspace)
            .await
            .map_err(|error| store::unusable_error(&error))?;
        let last = read_positions
            .last
            .entry(found.workspace.instance_dir(id))
            .or_default();
        let events = reader
            .events(id, *last)
            .await
            .map_err(|error| store::read_error(&error))?;
        *last = events
            .iter()
            .map(|event| event.sequence)
            .fold(*last, u64::max);
        new_events.extend(events);
    }
    Ok(new_events)
}

/// Reads the events that were added to the event files since the last call.
fn read_files(
    args: &LogsArgs,
    state_root: &StateRoot,
    scope: &ConversationScope,
    read_positions: &mut SeenEvents,
) -> Result<Vec<RuntimeEvent>, CliError> {
    let mut new_events = Vec::new();
    for (workspace, id) in instances::with_events(state_root, scope)? {
        if !is_wanted(args, &id) {
            continue;
        }
        let paths = workspace.runtime_events_paths(&id);
        let bytes = paths
            .each_ref()
            .map(|path| std::fs::metadata(path).map_or(0, |metadata| metadata.len()));
        let position = read_positions
            .files
            .entry(workspace.instance_dir(&id))
            .or_default();
        if bytes == position.bytes {
            continue;
        }
        let [older, newer] = workspace.runtime_events(&id)?;
        let already_read = position.read_event_count(bytes);
        *position = ReadPosition {
            events: older.len() + newer.len(),
            older: older.len(),
            bytes,
        };
        new_events.extend(older.into_iter().chain(newer).skip(already_read));
    }
    Ok(new_events)
}

/// Prints an event as one line, with `-v` with all fields, or as JSON.
pub(crate) fn show(event: &RuntimeEvent, output: &CommandOutput) -> Result<(), CliError> {
    if output.json {
        return output.json_line(event);
    }
    let value = serde_json::to_value(event)
        .expect("a runtime event holds strings, numbers and JSON values");
    let kind = value["type"].as_str().unwrap_or_default();
    if output.verbose == 0 {
        return output.line(&event_line::event_line(event, kind));
    }
    let colour = if kind.ends_with(".failed") {
        style::ERROR
    } else {
        style::NAME
    };
    let faint = style::FAINT;
    let time = event
        .timestamp
        .with_timezone(&Local)
        .to_rfc3339_opts(SecondsFormat::Millis, false);
    let fields = fields(&value);
    output.line(&format!(
        "{faint}{time}{faint:#} {} {colour}{kind}{colour:#}{fields} {faint}trace={}{faint:#}",
        untrusted_text::line(event.instance()),
        untrusted_text::line(&event.trace.trace_id),
    ))
}

/// Formats the remaining fields, each as ` name=value`.
fn fields(event: &Value) -> String {
    let Value::Object(fields) = event else {
        return String::new();
    };
    let rest = fields
        .iter()
        .filter(|(name, _)| !UNREPEATED_FIELDS.contains(&name.as_str()));
    let parts = rest.map(|(name, value)| match value {
        Value::String(text) => format!(" {name}={}", untrusted_text::line(text)),
        other => format!(" {name}={}", untrusted_text::line(other)),
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_shown_once_when_their_file_is_rotated() {
        let position = ReadPosition {
            events: 7,
            older: 3,
            bytes: [300, 400],
        };
        assert_eq!(position.read_event_count([300, 500]), 7);
        assert_eq!(
            position.read_event_count([450, 50]),
            4,
            "four events of the rotated file were read"
        );
        assert_eq!(position.read_event_count([0, 50]), 0);
        assert_eq!(ReadPosition::default().read_event_count([300, 400]), 0);
        assert_eq!(
            ReadPosition {
                events: 4,
                older: 0,
                bytes: [0, 400]
            }
            .read_event_count([0, 100]),
            0
        );
    }

    #[test]
    fn a_log_line_lists_the_specific_fields_of_its_event() {
        let event = json!({"type": "tool.failed", "agentName": "a", "toolName": "bash__exec", "duration": 3, "errorMessage": "no\nway"});
        assert_eq!(
            fields(&event),
            " toolName=bash__exec duration=3 errorMessage=no\\nway"
        );
    }
}
