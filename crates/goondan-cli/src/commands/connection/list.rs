//! `gdn connection list`: shows the state, pending senders and undelivered replies of connections.

use std::io;

use goondan::StateRoot;
use goondan::internal::untrusted_text;
use goondan::spec::codes::page_url;
use goondan_connect::{
    ConnectionSnapshot, ConnectionState, ConnectionStatus, OutboxReply, PendingSender,
};
use serde::Serialize;

use super::{ConnectionTargetArgs, SwarmConnections};
use crate::commands::quoted;
use crate::exit::CliError;
use crate::output::{CommandOutput, TextTable};

/// Maximum number of failed replies shown per connection; the latest are shown.
const MAX_FAILED_REPLIES: usize = 5;

/// Connection in JSON output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConnectionRow {
    name: String,
    connector: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    owed: usize,
    pending: Vec<PendingSender>,
    approved: Vec<String>,
    failed: Vec<OutboxReply>,
}

/// Shows the connections with their state, failed replies and senders waiting for approval.
pub(super) fn run(
    target: &ConnectionTargetArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let connections = target.find(state_root, output)?;
    let rows = connection_rows(&connections)?;
    if output.json {
        return output.json_pretty(&rows);
    }
    if rows.is_empty() {
        return output.note(&format!(
            "The swarm has no connections. To add one, see {}.",
            page_url("connections.md")
        ));
    }
    let mut table = TextTable::new(&[
        "CONNECTION",
        "CONNECTOR",
        "STATE",
        "OWED",
        "FAILED",
        "PENDING",
    ]);
    for row in &rows {
        let counts = [row.owed, row.failed.len(), row.pending.len()].map(|count| count.to_string());
        let texts = [
            row.name.clone(),
            row.connector.clone(),
            row.state.to_owned(),
        ];
        table.row(texts.into_iter().chain(counts));
    }
    for line in table.lines() {
        output.line(&line)?;
    }
    rows.iter()
        .try_for_each(|row| print_details(row, target, output))
}

/// Reads the state of each connection of the swarm.
fn connection_rows(connections: &SwarmConnections) -> Result<Vec<ConnectionRow>, CliError> {
    let is_running = connections
        .workspace
        .running_process()
        .unwrap_or(None)
        .is_some();
    let row =
        |connection: &std::sync::Arc<goondan::spec::Resource<goondan::spec::kinds::Connection>>| {
            let name = connection.id.name.clone();
            let ConnectionSnapshot {
                status,
                pending,
                approved,
                owed,
                failed,
            } = connections.state_dir(&name).look()?;
            let connector = connection.spec.connector.name.clone();
            let (state, why) = shown_state(status, is_running);
            io::Result::Ok(ConnectionRow {
                name,
                connector,
                state,
                why,
                owed,
                pending,
                approved,
                failed,
            })
        };
    Ok(connections.all().map(row).collect::<io::Result<_>>()?)
}

/// Returns the state to show, and the reason for it. A recorded state other than `unusable` is only
/// current while the swarm runs; without a run, the connection is stopped.
fn shown_state(
    status: Option<ConnectionStatus>,
    is_running: bool,
) -> (&'static str, Option<String>) {
    let Some(status) = status else {
        return ("never ran", None);
    };
    match status.state {
        ConnectionState::Unusable => ("unusable", status.why),
        _ if !is_running => ("stopped", None),
        ConnectionState::Running => ("running", None),
        ConnectionState::Failing => ("failing", status.why),
        ConnectionState::Stopped => ("stopped", None),
    }
}

/// Prints the error of a connection, its senders waiting for approval, and its failed replies.
fn print_details(
    row: &ConnectionRow,
    target: &ConnectionTargetArgs,
    output: &CommandOutput,
) -> Result<(), CliError> {
    if let Some(reason) = &row.why {
        output.note(&format!("\n{}: {}", row.name, untrusted_text::line(reason)))?;
    }
    if !row.pending.is_empty() {
        output.note(&format!("\n{}: senders waiting for approval", row.name))?;
        for PendingSender { id, name, .. } in &row.pending {
            let command = format!(
                "gdn connection approve {} {}{}",
                row.name,
                quoted(id),
                target.options()
            );
            output.note(&format!(
                "  {}  {}  ({})",
                untrusted_text::line(id),
                untrusted_text::line(name),
                untrusted_text::line(command)
            ))?;
        }
    }
    if !row.failed.is_empty() {
        output.note(&format!(
            "\n{}: replies that failed or may have failed",
            row.name
        ))?;
        for reply in row.failed.iter().rev().take(MAX_FAILED_REPLIES) {
            let reason = reply.why.as_deref().unwrap_or_default();
            output.note(&format!(
                "  {}  {}",
                untrusted_text::line(&reply.instance),
                untrusted_text::line(reason)
            ))?;
        }
    }
    Ok(())
}
