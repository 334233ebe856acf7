//! List of an agent's tasks, the most recently changed first.

use std::collections::BTreeMap;

use goondan::event::RuntimeEventKind;
use goondan::ids::InstanceId;
use serde_json::{Value, json};

use super::encoding::ProtocolVersion;
use super::rpc::{RpcError, RpcParams};
use super::task::{Task, TaskId, TaskStatus};
use crate::service::Service;

/// Maximum and default page sizes.
const MAX_PAGE_SIZE: usize = 100;
const DEFAULT_PAGE_SIZE: usize = 50;

/// Number of conversations searched, the most recently changed first.
const MAX_LISTED_CONVERSATIONS: usize = 1_000;

/// The number of a task's last event, then the task's id and the time of that event.
type Row = (u64, (TaskId, chrono::DateTime<chrono::Utc>));

/// Handles `ListTasks`: returns one page of the agent's tasks.
pub(super) async fn task_page(
    service: &Service,
    agent: &str,
    params: &RpcParams,
    dialect: ProtocolVersion,
) -> Result<Value, RpcError> {
    let size = params.number("pageSize")?.unwrap_or(DEFAULT_PAGE_SIZE);
    if size == 0 || size > MAX_PAGE_SIZE {
        return Err(RpcError::invalid_param(
            "pageSize",
            format!("`pageSize` must be from 1 to {MAX_PAGE_SIZE}."),
        ));
    }
    let before = match params.text("pageToken")? {
        Some(token) => token
            .parse()
            .map_err(|_| RpcError::invalid_param("pageToken", "`pageToken` is invalid."))?,
        None => u64::MAX,
    };
    let requested_state = match params
        .text("status")?
        .filter(|status| *status != "TASK_STATE_UNSPECIFIED")
    {
        Some(name) if UNUSED_TASK_STATES.contains(&name) => return Ok(empty_page()),
        Some(name) => {
            let unknown =
                || RpcError::invalid_param("status", format!("There is no task state `{name}`."));
            Some(dialect.state_named(name).ok_or_else(unknown)?)
        }
        None => None,
    };
    let since = match params.text("statusTimestampAfter")? {
        Some(text) => {
            let wrong = |_| {
                RpcError::invalid_param(
                    "statusTimestampAfter",
                    "`statusTimestampAfter` must be an ISO 8601 time.",
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
    let mut rows = all_tasks(service, agent, params.text("contextId")?).await;
    rows.retain(|(_, (_, changed))| since.is_none_or(|since| *changed >= since));
    let mut matching = Vec::new();
    for (number, (id, _)) in rows {
        if let Some(found) = service.swarm().find(&id.id).await
            && requested_state
                .is_none_or(|state| state == TaskStatus::of_found(service, &id, &found).state)
        {
            matching.push((number, id));
        }
    }
    let total = matching.len();
    matching.retain(|(number, _)| *number < before);
    let next = if matching.len() > size {
        matching[size - 1].0.to_string()
    } else {
        String::new()
    };
    let mut tasks = Vec::new();
    for (_, id) in matching.iter().take(size) {
        if let Some(task) = Task::find(service, id).await {
            tasks.push(dialect.encode_task(task.write(dialect, history, artifacts)));
        }
    }
    Ok(json!({"tasks": tasks, "nextPageToken": next, "pageSize": tasks.len(), "totalSize": total}))
}

/// Protocol states that tasks of this server never have.
const UNUSED_TASK_STATES: [&str; 2] = ["TASK_STATE_REJECTED", "TASK_STATE_AUTH_REQUIRED"];

/// Returns an empty page.
fn empty_page() -> Value {
    json!({"tasks": [], "nextPageToken": "", "pageSize": 0, "totalSize": 0})
}

/// Returns all tasks whose turns have begun, the most recently changed first.
async fn all_tasks(service: &Service, agent: &str, context: Option<&str>) -> Vec<Row> {
    let mut metas = service.swarm().instances().await;
    metas.retain(|meta| {
        let InstanceId {
            agent: owner,
            instance_key,
        } = meta.id();
        owner == agent && context.is_none_or(|context| context == instance_key)
    });
    metas.sort_by_key(|meta| std::cmp::Reverse(meta.updated_at));
    let mut rows: Vec<Row> = Vec::new();
    for meta in metas.iter().take(MAX_LISTED_CONVERSATIONS) {
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
