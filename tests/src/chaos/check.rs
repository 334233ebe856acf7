//! Checks of the final state.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use goondan::ids::InstanceId;
use goondan::internal::INTER_AGENT_RESPONSE_KEY;
use goondan::message::{Message, MessageRole, ToolResultPart};
use goondan::ports::tool::ToolCallStatus;
use goondan::{StateRoot, Workspace};

use super::driver::JobLedger;
use super::project;

/// Kind of a failed check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckViolation {
    Lost,
    Repeated,
    Reordered,
    /// A call was denied or cancelled, although no user did so.
    Denied,
    Other,
}

impl CheckViolation {
    pub(super) const ALL: [(CheckViolation, &'static str); 5] = [
        (CheckViolation::Lost, "lost"),
        (CheckViolation::Repeated, "repeated"),
        (CheckViolation::Reordered, "reordered"),
        (CheckViolation::Denied, "denied without a user"),
        (CheckViolation::Other, "other"),
    ];

    /// Returns the kind for something that exists `count` times instead of once.
    fn of_count(count: usize) -> Self {
        match count {
            0 => CheckViolation::Lost,
            _ => CheckViolation::Repeated,
        }
    }
}

/// Result of the checks.
#[derive(Default)]
pub(super) struct CheckReport {
    pub(super) checks: usize,
    pub(super) violations: Vec<(CheckViolation, String)>,
    pub(super) figures: String,
    interrupted_calls: usize,
    approved_calls: usize,
    /// Requests between agents that the store refused.
    refused_requests: usize,
}

impl CheckReport {
    fn expect(&mut self, kind: CheckViolation, holds: bool, message: impl FnOnce() -> String) {
        self.checks += 1;
        if !holds {
            self.violations.push((kind, message()));
        }
    }
}

/// Code of a request between agents that could not be stored.
const STORE_ERROR: &str = "E_STORE";

/// Code of a call whose outcome is unknown.
const INTERRUPTED: &str = "E_TOOL_INTERRUPTED";

type Conversations = BTreeMap<String, Vec<Arc<Message>>>;

/// Compares the reports in `ledger` with the state below `root`.
pub(super) fn run(
    root: &Path,
    store: Option<&str>,
    store_may_fail: bool,
    ledger: &JobLedger,
) -> CheckReport {
    let mut report = CheckReport::default();
    let conversations = read(root, store, &mut report);
    let lines = std::fs::read_to_string(root.join(project::EFFECTS)).unwrap_or_default();
    let mut effects: HashMap<&str, usize> = HashMap::new();
    for line in lines.lines() {
        *effects.entry(line).or_default() += 1;
    }
    for conversation in conversations.values() {
        check_messages(conversation, &mut report);
    }
    for job in ledger.jobs.values() {
        let conversation = conversations
            .get(&format!("coordinator:{}", job.key))
            .map_or(&[][..], Vec::as_slice);
        check_turn(&job.id, conversation, ledger, &mut report);
        check_effects(&job.id, conversation, &effects, store_may_fail, &mut report);
    }
    for key in project::KEYS {
        let conversation = conversations
            .get(&format!("coordinator:{key}"))
            .map_or(&[][..], Vec::as_slice);
        check_order(conversation, ledger, &mut report);
    }
    check_answers(&conversations, &mut report);
    check_processes(root, &mut report);
    let messages: usize = conversations.values().map(Vec::len).sum();
    report.figures = format!(
        "{messages} messages, {} effects, {} calls after an approval, {} interrupted calls, {} refused requests",
        lines.lines().count(),
        report.approved_calls,
        report.interrupted_calls,
        report.refused_requests
    );
    report
}

/// Returns whether every asynchronous request has its answer.
pub(super) fn are_requests_answered(root: &Path, store: Option<&str>) -> bool {
    let mut report = CheckReport::default();
    let conversations = read(root, store, &mut report);
    check_answers(&conversations, &mut report);
    report.violations.is_empty()
}

fn read(root: &Path, store: Option<&str>, report: &mut CheckReport) -> Conversations {
    let workspace = StateRoot(root.join(project::STATE)).workspace("chaos");
    if let Some(store) = store {
        return read_database(store, root, &workspace).unwrap_or_else(|error| {
            report.expect(CheckViolation::Other, false, || {
                format!("the database can't be read: {error:#}")
            });
            Conversations::new()
        });
    }
    let mut conversations = BTreeMap::new();
    for agent in ["coordinator", "worker"] {
        for key in project::KEYS {
            let id = InstanceId::new(agent, key);
            match workspace.conversation(&id) {
                Ok((messages, warnings)) => {
                    report.expect(CheckViolation::Other, warnings.is_empty(), || {
                        format!("{id}: {warnings:?}")
                    });
                    conversations.insert(id.to_string(), messages);
                }
                Err(error) => report.expect(CheckViolation::Other, false, || {
                    format!("{id} can't be read: {error}")
                }),
            }
        }
    }
    conversations
}

fn read_database(store: &str, root: &Path, workspace: &Workspace) -> anyhow::Result<Conversations> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let reader = project::database(store, root)?.look(workspace).await?;
        let mut conversations = BTreeMap::new();
        for agent in ["coordinator", "worker"] {
            for key in project::KEYS {
                let id = InstanceId::new(agent, key);
                conversations.insert(id.to_string(), reader.conversation(&id).await?);
            }
        }
        Ok(conversations)
    })
}

/// Checks that a job has its turn after the jobs that were accepted before its submission.
fn check_order(conversation: &[Arc<Message>], ledger: &JobLedger, report: &mut CheckReport) {
    let jobs = conversation
        .iter()
        .filter_map(|message| message.id.strip_prefix("turn-")?.strip_suffix("-m0"));
    let positions: HashMap<&str, usize> = jobs
        .enumerate()
        .map(|(position, job)| (job, position))
        .collect();
    for (job, position) in &positions {
        for earlier in ledger.before.get(*job).into_iter().flatten() {
            let before = positions.get(earlier.as_str());
            report.expect(
                CheckViolation::Reordered,
                before.is_none_or(|before| before < position),
                || format!("{job} ran before {earlier}"),
            );
        }
    }
}

/// Checks that message ids are unique, and that each call is followed by one result.
fn check_messages(conversation: &[Arc<Message>], report: &mut CheckReport) {
    let mut seen = BTreeSet::new();
    for (index, message) in conversation.iter().enumerate() {
        report.expect(CheckViolation::Repeated, seen.insert(&message.id), || {
            format!("two messages have the id {}", message.id)
        });
        let calls: Vec<&str> = message
            .tool_calls()
            .map(|call| call.tool_call_id.as_str())
            .collect();
        if calls.is_empty() {
            continue;
        }
        let next = conversation
            .get(index + 1)
            .filter(|next| next.data.role == MessageRole::Tool);
        let results: Vec<&str> = next
            .map(|next| {
                next.tool_results()
                    .map(|result| result.tool_call_id.as_str())
                    .collect()
            })
            .unwrap_or_default();
        report.expect(CheckViolation::Other, calls == results, || {
            format!("{}: calls {calls:?}, results {results:?}", message.id)
        });
    }
}

/// Checks that a job has exactly one turn, which ended with a text.
fn check_turn(
    job: &str,
    conversation: &[Arc<Message>],
    ledger: &JobLedger,
    report: &mut CheckReport,
) {
    let first = format!("turn-{job}-m0");
    let turns = conversation
        .iter()
        .filter(|message| message.id == first)
        .count();
    report.expect(CheckViolation::of_count(turns), turns == 1, || {
        format!("{job} has {turns} turns")
    });
    let done = ledger.done.get(job).map(String::as_str);
    let kind = match done {
        None => CheckViolation::Lost,
        Some(_) => CheckViolation::Denied,
    };
    report.expect(kind, done == Some("text_response"), || {
        format!("{job} ended with {done:?}")
    });
}

/// Compares the results of a job's calls with their effects.
fn check_effects(
    job: &str,
    conversation: &[Arc<Message>],
    effects: &HashMap<&str, usize>,
    store_may_fail: bool,
    report: &mut CheckReport,
) {
    let count = |effect: &str| effects.get(effect).copied().unwrap_or_default();
    let turn = format!("turn-{job}-m");
    let results = conversation
        .iter()
        .filter(|message| message.id.starts_with(&turn))
        .flat_map(|message| message.tool_results());
    let mut synchronous_requests = 0;
    for result in results {
        let code = result.error.as_ref().map(|error| error.code.as_str());
        let is_refused = store_may_fail && code == Some(STORE_ERROR);
        report.refused_requests += usize::from(is_refused);
        // An id starts with the name of the call. The scripted model appends `-NUMBER` if the
        // conversation contains the id already.
        match result.tool_call_id.split('-').next().unwrap_or_default() {
            call @ ("once" | "approved") => {
                let is_approved = call == "approved" && result.status == ToolCallStatus::Ok;
                report.approved_calls += usize::from(is_approved);
                check_single_effect(job, result, count(&format!("{job} {call}")), report);
            }
            "again" => {
                let lines = count(&format!("{job} repeatable"));
                let is_done = result.status == ToolCallStatus::Ok && lines >= 1;
                report.expect(CheckViolation::Lost, is_done, || {
                    format!("{job}: a repeatable call has {lines} effects")
                });
            }
            call => {
                synchronous_requests += usize::from(call == "now");
                let is_valid = result.status == ToolCallStatus::Ok || is_refused;
                report.expect(CheckViolation::Other, is_valid, || {
                    format!("{job}: {} failed: {:?}", result.tool_call_id, result.error)
                });
            }
        }
    }
    // The agent repeats a refused request, so each result permits one effect. One effect without a
    // result is also valid.
    for (request, max) in [("sync", synchronous_requests.max(1)), ("async", 1)] {
        let lines = count(&format!("{job} {request}"));
        report.expect(CheckViolation::Repeated, lines <= max, || {
            format!("{job}: the worker handled the {request} request {lines} times")
        });
    }
}

/// Checks a call that must not run twice: a success has one effect, and an interrupted call at most one.
fn check_single_effect(job: &str, result: &ToolResultPart, lines: usize, report: &mut CheckReport) {
    let id = &result.tool_call_id;
    if result.status == ToolCallStatus::Ok {
        report.expect(CheckViolation::of_count(lines), lines == 1, || {
            format!("{job}: {id} succeeded with {lines} effects")
        });
        return;
    }
    let code = result.error.as_ref().map(|error| error.code.as_str());
    report.interrupted_calls += usize::from(code == Some(INTERRUPTED));
    report.expect(CheckViolation::Denied, code == Some(INTERRUPTED), || {
        format!("{job}: {id} failed: {:?}", result.error)
    });
    report.expect(CheckViolation::Repeated, lines <= 1, || {
        format!("{job}: {id} has {lines} effects")
    });
}

/// Checks that each accepted asynchronous request has one answer in its caller's conversation.
fn check_answers(conversations: &Conversations, report: &mut CheckReport) {
    for (id, conversation) in conversations
        .iter()
        .filter(|(id, _)| id.starts_with("coordinator:"))
    {
        let mut answers: HashMap<String, usize> = HashMap::new();
        for message in conversation {
            if let Some(request) = message
                .metadata
                .get(INTER_AGENT_RESPONSE_KEY)
                .and_then(|response| response["requestId"].as_str())
            {
                *answers.entry(request.to_owned()).or_default() += 1;
            }
        }
        let requests = conversation
            .iter()
            .flat_map(|message| message.tool_results())
            .filter_map(|result| result.output.as_ref())
            .filter(|output| output["async"] == true);
        for request in requests.filter_map(|output| output["correlationId"].as_str()) {
            let count = answers.remove(request).unwrap_or_default();
            report.expect(CheckViolation::of_count(count), count == 1, || {
                format!("{id}: request {request} has {count} answers")
            });
        }
        report.expect(CheckViolation::Repeated, answers.is_empty(), || {
            format!("{id}: answers without a request: {answers:?}")
        });
    }
}

/// Checks that no process of a tool is left.
fn check_processes(root: &Path, report: &mut CheckReport) {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return;
    };
    let own_id = std::process::id().to_string();
    for process in processes
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy() != own_id.as_str())
    {
        let Ok(folder) = std::fs::read_link(process.path().join("cwd")) else {
            continue;
        };
        report.expect(CheckViolation::Other, !folder.starts_with(root), || {
            format!("process {:?} is left", process.file_name())
        });
    }
}
