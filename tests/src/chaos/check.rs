//! What must be so in the end.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use goondan::ids::InstanceId;
use goondan::internal::INTER_AGENT_RESPONSE_KEY;
use goondan::message::{Message, MessageRole};
use goondan::ports::tool::ToolCallStatus;
use goondan::{StateRoot, Workspace};

use super::driver::Ledger;
use super::project;

/// What kind of promise was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Lost,
    Doubled,
    Disordered,
    Other,
}

impl Fault {
    /// Of something that is there so often, and should be there once.
    fn of_count(count: usize) -> Self {
        if count == 0 {
            Fault::Lost
        } else {
            Fault::Doubled
        }
    }
}

/// What was found.
#[derive(Default)]
pub(super) struct Report {
    pub(super) checks: usize,
    pub(super) faults: Vec<(Fault, String)>,
    pub(super) figures: String,
    /// Questions that the store kept from being answered.
    refused: usize,
}

impl Report {
    fn expect(&mut self, kind: Fault, holds: bool, fault: impl FnOnce() -> String) {
        self.checks += 1;
        if !holds {
            self.faults.push((kind, fault()));
        }
    }
}

/// What an agent is told whose question can't be put on disk. For an answer that can't, it waits.
const REFUSED: &str = "E_STORE";

type Conversations = BTreeMap<String, Vec<Arc<Message>>>;

/// Compares what was promised with what lies below `root`. Where the store may have failed, agents may be told so.
pub(super) fn everything(
    root: &Path,
    store: Option<&str>,
    may_be_refused: bool,
    ledger: &Ledger,
) -> Report {
    let mut report = Report::default();
    let conversations = read(root, store, &mut report);
    let lines = std::fs::read_to_string(root.join(project::LEDGER)).unwrap_or_default();
    let mut entries: HashMap<&str, usize> = HashMap::new();
    for line in lines.lines() {
        *entries.entry(line).or_default() += 1;
    }
    for conversation in conversations.values() {
        is_well_formed(conversation, &mut report);
    }
    let mut interrupted = 0;
    for job in ledger.jobs.values() {
        let conversation = conversations
            .get(&format!("coordinator:{}", job.key))
            .map_or(&[][..], Vec::as_slice);
        has_one_turn(&job.id, conversation, ledger, &mut report);
        interrupted +=
            has_its_entries(&job.id, conversation, &entries, may_be_refused, &mut report);
    }
    for key in project::KEYS {
        let conversation = conversations
            .get(&format!("coordinator:{key}"))
            .map_or(&[][..], Vec::as_slice);
        is_in_order(conversation, ledger, &mut report);
    }
    every_question_has_one_answer(&conversations, &mut report);
    leaves_no_process(root, &mut report);
    let messages: usize = conversations.values().map(Vec::len).sum();
    report.figures = format!(
        "{messages} messages, {} ledger entries, {interrupted} calls answered as interrupted, {} questions refused",
        lines.lines().count(),
        report.refused
    );
    report
}

/// Whether every question that was asked is answered by now.
pub(super) fn all_answers_are_in(root: &Path, store: Option<&str>) -> bool {
    let mut report = Report::default();
    let conversations = read(root, store, &mut report);
    every_question_has_one_answer(&conversations, &mut report);
    report.faults.is_empty()
}

fn read(root: &Path, store: Option<&str>, report: &mut Report) -> Conversations {
    let workspace = StateRoot(root.join(project::STATE)).workspace("chaos");
    if let Some(store) = store {
        return read_database(store, root, &workspace).unwrap_or_else(|error| {
            report.expect(Fault::Other, false, || {
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
                    report.expect(Fault::Other, warnings.is_empty(), || {
                        format!("{id}: {warnings:?}")
                    });
                    conversations.insert(id.to_string(), messages);
                }
                Err(error) => report.expect(Fault::Other, false, || {
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
        let looking = project::database(store, root)?.look(workspace).await?;
        let mut conversations = BTreeMap::new();
        for agent in ["coordinator", "worker"] {
            for key in project::KEYS {
                let id = InstanceId::new(agent, key);
                conversations.insert(id.to_string(), looking.conversation(&id).await?);
            }
        }
        Ok(conversations)
    })
}

/// What was accepted before a job was handed in at all has its turn before it.
fn is_in_order(conversation: &[Arc<Message>], ledger: &Ledger, report: &mut Report) {
    let jobs = conversation
        .iter()
        .filter_map(|message| message.id.strip_prefix("turn-")?.strip_suffix("-m0"));
    let places: HashMap<&str, usize> = jobs.enumerate().map(|(place, job)| (job, place)).collect();
    for (job, place) in &places {
        for earlier in ledger.before.get(*job).into_iter().flatten() {
            let before = places.get(earlier.as_str());
            report.expect(
                Fault::Disordered,
                before.is_none_or(|before| before < place),
                || format!("{job} came before {earlier}"),
            );
        }
    }
}

/// Ids are unique, and every call is followed by one result.
fn is_well_formed(conversation: &[Arc<Message>], report: &mut Report) {
    let mut seen = BTreeSet::new();
    for (index, message) in conversation.iter().enumerate() {
        report.expect(Fault::Doubled, seen.insert(&message.id), || {
            format!("message id {} stands twice", message.id)
        });
        let calls: Vec<&str> = message
            .tool_calls()
            .map(|call| call.tool_call_id.as_str())
            .collect();
        if !calls.is_empty() {
            let next = conversation
                .get(index + 1)
                .filter(|next| next.data.role == MessageRole::Tool);
            let results: Vec<&str> = next
                .map(|next| {
                    next.tool_results()
                        .map(|r| r.tool_call_id.as_str())
                        .collect()
                })
                .unwrap_or_default();
            report.expect(Fault::Other, calls == results, || {
                format!("{}: calls {calls:?}, results {results:?}", message.id)
            });
        }
    }
}

/// An accepted job has exactly one turn, and its result is the one that was told.
fn has_one_turn(job: &str, conversation: &[Arc<Message>], ledger: &Ledger, report: &mut Report) {
    let first = format!("turn-{job}-m0");
    let turns = conversation
        .iter()
        .filter(|message| message.id == first)
        .count();
    report.expect(Fault::of_count(turns), turns == 1, || {
        format!("{job} has {turns} turns")
    });
    let done = ledger.done.get(job).map(String::as_str);
    report.expect(Fault::Lost, done == Some("text_response"), || {
        format!("{job} ended with {done:?}")
    });
}

/// A call that succeeded left one line; one that was interrupted left one or none; a repeatable one at least one.
fn has_its_entries(
    job: &str,
    conversation: &[Arc<Message>],
    entries: &HashMap<&str, usize>,
    may_be_refused: bool,
    report: &mut Report,
) -> usize {
    let count = |entry: &str| entries.get(entry).copied().unwrap_or_default();
    let mine = format!("turn-{job}-m");
    let results = conversation
        .iter()
        .filter(|message| message.id.starts_with(&mine))
        .flat_map(|m| m.tool_results());
    let (mut interrupted, mut asked) = (0, 0);
    for result in results {
        let ok = result.status == ToolCallStatus::Ok;
        let code = result.error.as_ref().map(|error| error.code.as_str());
        let is_refused = may_be_refused && code == Some(REFUSED);
        report.refused += usize::from(is_refused);
        interrupted += usize::from(!ok && !is_refused);
        // The scripted model numbers ids that it has used in the conversation.
        let call = result.tool_call_id.split('-').next().unwrap_or_default();
        match call {
            "once" => {
                let lines = count(&format!("{job} once"));
                let right = if ok { lines == 1 } else { lines <= 1 };
                report.expect(Fault::of_count(lines), right, || {
                    format!(
                        "{job}: {lines} lines of a call with status {:?}",
                        result.status
                    )
                });
            }
            "again" => {
                let lines = count(&format!("{job} repeatable"));
                report.expect(Fault::Lost, ok && lines >= 1, || {
                    format!("{job}: {lines} lines of a repeatable call")
                });
            }
            _ => {
                asked += usize::from(call == "now");
                let right = ok || is_refused;
                report.expect(Fault::Other, right, || {
                    format!("{job}: {} failed: {:?}", result.tool_call_id, result.error)
                });
            }
        }
    }
    // Whoever was refused has asked again.
    for (question, most) in [("sync", asked.max(1)), ("async", 1)] {
        let lines = count(&format!("{job} {question}"));
        report.expect(Fault::Doubled, lines <= most, || {
            format!("{job}: the worker did the {question} question {lines} times")
        });
    }
    interrupted
}

/// Every accepted asynchronous request is answered in its caller's conversation, once.
fn every_question_has_one_answer(conversations: &Conversations, report: &mut Report) {
    for (id, conversation) in conversations
        .iter()
        .filter(|(id, _)| id.starts_with("coordinator:"))
    {
        let mut answers: HashMap<String, usize> = HashMap::new();
        for message in conversation {
            if let Some(request) = message
                .metadata
                .get(INTER_AGENT_RESPONSE_KEY)
                .and_then(|m| m["requestId"].as_str())
            {
                *answers.entry(request.to_owned()).or_default() += 1;
            }
        }
        let asked = conversation
            .iter()
            .flat_map(|message| message.tool_results());
        let asked = asked
            .filter_map(|result| result.output.as_ref())
            .filter(|output| output["async"] == true);
        for request in asked.filter_map(|output| output["correlationId"].as_str()) {
            let count = answers.remove(request).unwrap_or_default();
            report.expect(Fault::of_count(count), count == 1, || {
                format!("{id}: request {request} has {count} answers")
            });
        }
        report.expect(Fault::Doubled, answers.is_empty(), || {
            format!("{id}: answers to nothing: {answers:?}")
        });
    }
}

/// Nothing that a tool started runs on.
fn leaves_no_process(root: &Path, report: &mut Report) {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return;
    };
    let mine = std::process::id().to_string();
    for process in processes
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy() != mine.as_str())
    {
        let Ok(folder) = std::fs::read_link(process.path().join("cwd")) else {
            continue;
        };
        report.expect(Fault::Other, !folder.starts_with(root), || {
            format!("process {:?} runs on", process.file_name())
        });
    }
}
