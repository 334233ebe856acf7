//! The tasks of an agent, those first that changed last.

use std::collections::BTreeMap;

use goondan::event::RuntimeEventKind;
use goondan::ids::InstanceId;
use serde_json::{Value, json};

use super::dialect::Dialect;
use super::rpc::{Params, RpcError};
use super::task::{Status, Task, TaskId};
use crate::service::Service;

/// The most that one page has, and what it has by default.
const LARGEST: usize = 100;
const USUAL: usize = 50;

/// So many conversations are looked through, those that changed last.
const CONVERSATIONS: usize = 1_000;

/// A task that is listed, under the number of its last event.
type Row = (u64, (TaskId, chrono::DateTime<chrono::Utc>));

/// A page of tasks.
pub(super) async fn page(
    service: &Service,
    agent: &str,
    params: &Params,
    dialect: Dialect,
) -> Result<Value, RpcError> {
    let size = params.number("pageSize")?.unwrap_or(USUAL);
    if size == 0 || size > LARGEST {
        return Err(RpcError::field(
            "pageSize",
            format!("`pageSize` must be from 1 to {LARGEST}."),
        ));
    }
    let before = match params.text("pageToken")? {
        Some(token) => token
            .parse()
            .map_err(|_| RpcError::field("pageToken", "`pageToken` is of no page."))?,
        None => u64::MAX,
    };
    let wanted = match params
        .text("status")?
        .filter(|status| *status != "TASK_STATE_UNSPECIFIED")
    {
        Some(name) if STATES_NOT_HERE.contains(&name) => return Ok(nothing()),
        Some(name) => {
            let unknown = || RpcError::field("status", format!("There is no state `{name}`."));
            Some(dialect.state_named(name).ok_or_else(unknown)?)
        }
        None => None,
    };
    let since = match params.text("statusTimestampAfter")? {
        Some(text) => {
            let wrong = |_| {
                RpcError::field(
                    "statusTimestampAfter",
                    "`statusTimestampAfter` must be a time.",
                )
            };
            Some(
                chrono::DateTime::parse_from_rfc3339(text)
                    .map_err(wrong)?
                    .to_utc(),
            )
        }
        None => None,
    };
    let history = params.number("historyLength")?;
    let artifacts = params.0.get("includeArtifacts") == Some(&Value::Bool(true));
    let mut rows = all(service, agent, params.text("contextId")?).await;
    rows.retain(|(_, (_, changed))| since.is_none_or(|since| *changed >= since));
    let mut known = Vec::new();
    for (number, (id, _)) in rows {
        if let Some(found) = service.swarm().find(&id.id).await
            && wanted.is_none_or(|wanted| wanted == Status::of_found(service, &id, &found).state)
        {
            known.push((number, id));
        }
    }
    let total = known.len();
    known.retain(|(number, _)| *number < before);
    let next = if known.len() > size {
        known[size - 1].0.to_string()
    } else {
        String::new()
    };
    let mut tasks = Vec::new();
    for (_, id) in known.iter().take(size) {
        if let Some(task) = Task::find(service, id).await {
            tasks.push(dialect.given(task.write(dialect, history, artifacts)));
        }
    }
    Ok(json!({"tasks": tasks, "nextPageToken": next, "pageSize": tasks.len(), "totalSize": total}))
}

/// States that tasks have elsewhere.
const STATES_NOT_HERE: [&str; 2] = ["TASK_STATE_REJECTED", "TASK_STATE_AUTH_REQUIRED"];

fn nothing() -> Value {
    json!({"tasks": [], "nextPageToken": "", "pageSize": 0, "totalSize": 0})
}

/// All tasks whose turns have begun, those first that changed last.
async fn all(service: &Service, agent: &str, context: Option<&str>) -> Vec<Row> {
    let mut metas = service.swarm().instances().await;
    metas.retain(|meta| {
        let InstanceId {
            agent: of,
            instance_key,
        } = meta.id();
        of == agent && context.is_none_or(|context| context == instance_key)
    });
    metas.sort_by_key(|meta| std::cmp::Reverse(meta.updated_at));
    let mut rows: Vec<Row> = Vec::new();
    for meta in metas.iter().take(CONVERSATIONS) {
        let events = service
            .swarm()
            .events(&meta.id(), 0)
            .await
            .unwrap_or_default();
        let mut turns: BTreeMap<String, Row> = BTreeMap::new();
        for event in events {
            match &event.kind {
                RuntimeEventKind::TurnStarted {
                    turn_id, event_id, ..
                } => {
                    if let Some(id) = TaskId::read(event_id, agent) {
                        turns.insert(turn_id.clone(), (event.sequence, (id, event.timestamp)));
                    }
                }
                RuntimeEventKind::TurnCompleted { turn_id, .. }
                | RuntimeEventKind::TurnFailed { turn_id, .. } => {
                    if let Some((number, (_, changed))) = turns.get_mut(turn_id) {
                        (*number, *changed) = (event.sequence, event.timestamp);
                    }
                }
                _ => {}
            }
        }
        rows.extend(turns.into_values());
    }
    rows.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    rows
}
