//! `gdn logs`.

mod otlp;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use chrono::{Local, SecondsFormat};
use clap::Args;
use goondan::StateRoot;
use goondan::database::Database;
use goondan::event::RuntimeEvent;
use goondan::ids::InstanceId;
use goondan::inside::shown;
use serde_json::Value;

use crate::complete;
use crate::exit::CliError;
use crate::instances::{self, Scope, ScopeArgs};
use crate::output::{Output, style};
use crate::store::{self, StoreArgs};

/// How often `--follow` looks for new lines.
const POLL: Duration = Duration::from_millis(250);

/// How many past events are shown.
const LINES: usize = 200;

/// What every line says in front, so it is not repeated among the fields.
const IN_FRONT: [&str; 7] = [
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
  gdn logs --follow --json | jq .            Show new events as JSON while they happen
  gdn logs --otlp                            Send past turns to a receiver of OpenTelemetry";

/// Arguments of `gdn logs`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LogsArgs {
    /// Show only events of this agent
    #[arg(short, long, value_name = "NAME", add = complete::agents())]
    agent: Option<String>,
    /// Show only events of conversations with this key
    #[arg(short = 'k', long, value_name = "KEY")]
    instance_key: Option<String>,
    /// Show only events of this trace: one input, through all agents, or that of a caller outside
    #[arg(long, value_name = "ID")]
    trace: Option<String>,
    #[command(flatten)]
    scope: ScopeArgs,
    /// Look at all projects
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
    /// Send the past to the receiver of OTEL_EXPORTER_OTLP_ENDPOINT as OpenTelemetry spans; with --json, print them instead
    #[arg(long, conflicts_with = "follow")]
    otlp: bool,
}

/// Shows runtime events, oldest first.
pub(crate) async fn run(
    args: &LogsArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let scope = args.scope.scope(args.all, state_root, output)?;
    let mut seen = Seen::default();
    let mut events = read(args, state_root, &scope, &mut seen).await?;
    let most = args
        .lines
        .unwrap_or(if args.otlp { usize::MAX } else { LINES });
    events.drain(..events.len().saturating_sub(most));
    if events.is_empty() && !args.follow {
        return output.note(&format!("No events found{}.", instances::whose(&scope)));
    }
    if args.otlp {
        return otlp::send(&events, output).await;
    }
    events.iter().try_for_each(|event| show(event, output))?;
    match args.follow {
        true => follow(args, state_root, &scope, &mut seen, output).await,
        false => Ok(()),
    }
}

/// Shows what comes, until Ctrl-C.
async fn follow(
    args: &LogsArgs,
    state_root: &StateRoot,
    scope: &Scope,
    seen: &mut Seen,
    output: &Output,
) -> Result<(), CliError> {
    loop {
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
        read(args, state_root, scope, seen)
            .await?
            .iter()
            .try_for_each(|event| show(event, output))?;
    }
}

/// How far the events of each conversation were read.
#[derive(Debug, Default)]
struct Seen {
    files: HashMap<PathBuf, Mark>,
    /// In a database: the number of the last one.
    last: HashMap<PathBuf, u64>,
}

/// Files are read again only where a length has changed.
#[derive(Debug, Default, Clone, Copy)]
struct Mark {
    /// Events in both files.
    events: usize,
    /// Those of them that lie in the file that was put aside.
    older: usize,
    /// The lengths of the file that was put aside, and of the one that grows.
    bytes: [u64; 2],
}

impl Mark {
    /// How many events were seen already, now that the files are `bytes` long.
    fn known(&self, bytes: [u64; 2]) -> usize {
        match (bytes[0] == self.bytes[0], bytes[1] < self.bytes[1]) {
            // The one that grew was put aside; what had been put aside before is gone.
            (false, _) if bytes[0] > 0 => self.events - self.older,
            // They belong to a conversation that was deleted and begun anew.
            (false, _) | (true, true) => 0,
            (true, false) => self.events,
        }
    }
}

/// The events that `seen` does not know yet and that the arguments ask for, oldest first.
async fn read(
    args: &LogsArgs,
    state_root: &StateRoot,
    scope: &Scope,
    seen: &mut Seen,
) -> Result<Vec<RuntimeEvent>, CliError> {
    let mut fresh = match args.store.database()? {
        Some(database) => read_database(&database, args, state_root, scope, seen).await?,
        None => read_files(args, state_root, scope, seen)?,
    };
    if let Some(trace) = &args.trace {
        fresh.retain(|event| {
            event.trace.trace_id == *trace || event.trace.seen_outside().0.trace_id() == trace
        });
    }
    fresh.sort_by_key(|event| event.timestamp);
    Ok(fresh)
}

/// Whether the arguments ask for that conversation.
fn is_wanted(args: &LogsArgs, id: &InstanceId) -> bool {
    let wanted =
        |want: &Option<String>, name: &str| want.as_deref().is_none_or(|want| want == name);
    wanted(&args.agent, &id.agent) && wanted(&args.instance_key, &id.instance_key)
}

async fn read_database(
    database: &Database,
    args: &LogsArgs,
    state_root: &StateRoot,
    scope: &Scope,
    seen: &mut Seen,
) -> Result<Vec<RuntimeEvent>, CliError> {
    let mut fresh = Vec::new();
    for found in instances::in_database(database, state_root, scope).await? {
        let id = &found.summary.id;
        if !is_wanted(args, id) {
            continue;
        }
        let looking = database
            .look(&found.workspace)
            .await
            .map_err(|error| store::unusable(&error))?;
        let last = seen
            .last
            .entry(found.workspace.instance_dir(id))
            .or_default();
        let events = looking
            .events(id, *last)
            .await
            .map_err(|error| store::failed(&error))?;
        *last = events
            .iter()
            .map(|event| event.sequence)
            .fold(*last, u64::max);
        fresh.extend(events);
    }
    Ok(fresh)
}

fn read_files(
    args: &LogsArgs,
    state_root: &StateRoot,
    scope: &Scope,
    seen: &mut Seen,
) -> Result<Vec<RuntimeEvent>, CliError> {
    let mut fresh = Vec::new();
    for (workspace, id) in instances::with_events(state_root, scope)? {
        if !is_wanted(args, &id) {
            continue;
        }
        let paths = workspace.runtime_events_paths(&id);
        let bytes = paths
            .each_ref()
            .map(|path| std::fs::metadata(path).map_or(0, |metadata| metadata.len()));
        let mark = seen.files.entry(workspace.instance_dir(&id)).or_default();
        if bytes == mark.bytes {
            continue;
        }
        let [older, newer] = workspace.runtime_events(&id)?;
        let known = mark.known(bytes);
        *mark = Mark {
            events: older.len() + newer.len(),
            older: older.len(),
            bytes,
        };
        fresh.extend(older.into_iter().chain(newer).skip(known));
    }
    Ok(fresh)
}

/// One event, as a line.
pub(crate) fn show(event: &RuntimeEvent, output: &Output) -> Result<(), CliError> {
    if output.json {
        return output.json_line(event);
    }
    let value = serde_json::to_value(event)
        .expect("a runtime event holds strings, numbers and JSON values");
    let kind = value["type"].as_str().unwrap_or_default();
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
        shown::line(event.instance()),
        shown::line(&event.trace.trace_id),
    ))
}

/// What is left of an event, as ` name=value` each.
fn fields(event: &Value) -> String {
    let Value::Object(fields) = event else {
        return String::new();
    };
    let rest = fields
        .iter()
        .filter(|(name, _)| !IN_FRONT.contains(&name.as_str()));
    let words = rest.map(|(name, value)| match value {
        Value::String(text) => format!(" {name}={}", shown::line(text)),
        other => format!(" {name}={}", shown::line(other)),
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_shown_once_when_their_file_is_put_aside() {
        let mark = Mark {
            events: 7,
            older: 3,
            bytes: [300, 400],
        };
        assert_eq!(mark.known([300, 500]), 7);
        assert_eq!(
            mark.known([450, 50]),
            4,
            "of those put aside now, four were seen"
        );
        assert_eq!(mark.known([0, 50]), 0);
        assert_eq!(Mark::default().known([300, 400]), 0);
        assert_eq!(
            Mark {
                events: 4,
                older: 0,
                bytes: [0, 400]
            }
            .known([0, 100]),
            0
        );
    }

    #[test]
    fn a_line_holds_the_fields_that_are_its_own() {
        let event = json!({"type": "tool.failed", "agentName": "a", "toolName": "bash__exec", "duration": 3, "errorMessage": "no\nway"});
        assert_eq!(
            fields(&event),
            " toolName=bash__exec duration=3 errorMessage=no\\nway"
        );
    }
}
