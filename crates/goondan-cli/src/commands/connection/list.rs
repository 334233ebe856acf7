//! `gdn connection list`.

use std::io;

use goondan::StateRoot;
use goondan::inside::shown;
use goondan::spec::codes::page_url;
use goondan_connect::{Look, Pending, Reply, State, Status};
use serde::Serialize;

use super::{Found, Place};
use crate::commands::quoted;
use crate::exit::CliError;
use crate::output::{Output, Table};

/// Of so many failed answers a person is told, the last ones.
const TOLD: usize = 5;

/// One connection, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    connector: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    owed: usize,
    pending: Vec<Pending>,
    approved: Vec<String>,
    failed: Vec<Reply>,
}

/// Lists connections.
pub(super) fn run(place: &Place, state_root: &StateRoot, output: &Output) -> Result<(), CliError> {
    let found = place.find(state_root, output)?;
    let rows = rows(&found)?;
    if output.json {
        return output.json_pretty(&rows);
    }
    if rows.is_empty() {
        return output.note(&format!(
            "The swarm has no connections. To add one, see {}.",
            page_url("connections.md")
        ));
    }
    let mut table = Table::new(&[
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
    rows.iter().try_for_each(|row| details(row, place, output))
}

fn rows(found: &Found) -> Result<Vec<Row>, CliError> {
    let is_running = found.workspace.running_process().unwrap_or(None).is_some();
    let row =
        |connection: &std::sync::Arc<goondan::spec::Resource<goondan::spec::kinds::Connection>>| {
            let name = connection.id.name.clone();
            let Look {
                status,
                pending,
                approved,
                owed,
                failed,
            } = found.shelf(&name).look()?;
            let connector = connection.spec.connector.name.clone();
            let (state, why) = state(status, is_running);
            io::Result::Ok(Row {
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
    Ok(found.all().map(row).collect::<io::Result<_>>()?)
}

/// What was written down last counts only while a process runs that wrote it.
fn state(status: Option<Status>, is_running: bool) -> (&'static str, Option<String>) {
    let Some(status) = status else {
        return ("never ran", None);
    };
    match status.state {
        State::Unusable => ("unusable", status.why),
        _ if !is_running => ("stopped", None),
        State::Running => ("running", None),
        State::Failing => ("failing", status.why),
        State::Stopped => ("stopped", None),
    }
}

fn details(row: &Row, place: &Place, output: &Output) -> Result<(), CliError> {
    if let Some(why) = &row.why {
        output.note(&format!("\n{}: {}", row.name, shown::line(why)))?;
    }
    if !row.pending.is_empty() {
        output.note(&format!("\n{}: these would like to write", row.name))?;
        for Pending { id, name, .. } in &row.pending {
            let command = format!(
                "gdn connection approve {} {}{}",
                row.name,
                quoted(id),
                place.options()
            );
            output.note(&format!(
                "  {}  {}  ({})",
                shown::line(id),
                shown::line(name),
                shown::line(command)
            ))?;
        }
    }
    if !row.failed.is_empty() {
        output.note(&format!(
            "\n{}: these answers did not arrive, or may not have",
            row.name
        ))?;
        for reply in row.failed.iter().rev().take(TOLD) {
            let why = reply.why.as_deref().unwrap_or_default();
            output.note(&format!(
                "  {}  {}",
                shown::line(&reply.instance),
                shown::line(why)
            ))?;
        }
    }
    Ok(())
}
