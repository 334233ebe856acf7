//! Checks the files of a workspace without changing them.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;

use serde::de::{DeserializeOwned, IgnoredAny};

use super::file_format::NewerFormat;
use super::lines::LineWarning;
use super::{JournalRecord, checksum, instance_directories, layout, lines, lost_log};
use crate::fs::{FileSystem, RealFs};
use crate::record::InboxRecord;
use goondan_core::event::RuntimeEvent;
use goondan_core::ids::turn_of_message;
use goondan_core::message::{Message, MessageEvent, MessageRole};
use goondan_core::ports::store::InstanceMeta;

/// Result of an inspection.
#[derive(Debug, Default)]
pub struct WorkspaceInspection {
    /// Number of conversations.
    pub conversations: usize,
    /// Number of intact records in all files.
    pub records: usize,
    /// Damage, in the order of the files.
    pub problems: Vec<String>,
    /// Effects of an interruption, which the next start handles.
    pub notes: Vec<String>,
}

/// Checks every file of the workspace in `dir`. If `is_running` is true, a swarm is using the
/// workspace. Files may then change between two reads, so no file is compared with another.
///
/// # Errors
/// Fails if the directory cannot be listed, or if a newer program wrote a file.
pub fn inspect(dir: &Path, is_running: bool) -> io::Result<WorkspaceInspection> {
    inspect_on(&RealFs, dir, is_running)
}

/// Checks the files of a workspace like [`inspect`], on the file system `fs`. Tests use this with a
/// simulated disk.
///
/// # Errors
/// Fails like [`inspect`].
pub fn inspect_on(
    fs: &dyn FileSystem,
    dir: &Path,
    is_running: bool,
) -> io::Result<WorkspaceInspection> {
    let mut inspector = WorkspaceInspector {
        fs,
        is_running,
        found: WorkspaceInspection::default(),
    };
    let log = inspector.check_log(dir)?;
    if !is_running {
        inspector.check_checkpoint(dir)?;
    }
    let mut folders = inspector.fs.subdirectories(&dir.join(layout::INSTANCES))?;
    folders.sort();
    for folder in folders {
        if !instance_directories::is_deleted(&folder) {
            inspector.check_conversation(&folder, &log)?;
        }
    }
    if log.records == 0
        && let Err(error) = lost_log::check(inspector.fs, dir)
    {
        inspector.found.problems.push(error.to_string());
    }
    Ok(inspector.found)
}

/// Facts of the log that conversations are compared with.
#[derive(Default)]
struct LogFacts {
    records: usize,
    /// Turns whose events are pending or finished.
    turns: HashSet<String>,
}

struct WorkspaceInspector<'a> {
    fs: &'a dyn FileSystem,
    is_running: bool,
    found: WorkspaceInspection,
}

impl WorkspaceInspector<'_> {
    /// Checks the files of the last clean end. They can be rebuilt, so their records do not count.
    fn check_checkpoint(&mut self, dir: &Path) -> io::Result<()> {
        let before = self.found.records;
        for name in [layout::CHECKPOINT, layout::CONVERSATIONS] {
            self.read_records::<IgnoredAny>(&dir.join(name))?;
        }
        self.found.records = before;
        Ok(())
    }

    /// Reads the records of a file, and notes its problems.
    fn read_records<T: DeserializeOwned>(&mut self, path: &Path) -> io::Result<Vec<T>> {
        let read = match lines::read::<T>(self.fs, path) {
            Err(error) if NewerFormat::is_cause(&error) => return Err(error),
            Err(error) => {
                self.report_problem(path, &format!("can't be read: {error}"));
                return Ok(Vec::new());
            }
            Ok(read) => read,
        };
        for warning in read.warnings {
            match warning {
                LineWarning::CutOff(_) if self.is_running => {}
                LineWarning::CutOff(note) => self.found.notes.push(note),
                LineWarning::Damage(problem) => self.found.problems.push(problem),
            }
        }
        self.found.records += read.values.len();
        Ok(read.values.into_iter().map(|(value, _)| value).collect())
    }

    fn report_problem(&mut self, path: &Path, problem: &str) {
        self.found
            .problems
            .push(format!("{}: {problem}", path.display()));
    }

    /// Checks the log. Each event is accepted before it is done.
    fn check_log(&mut self, dir: &Path) -> io::Result<LogFacts> {
        let path = dir.join(layout::INBOX);
        let mut facts = LogFacts::default();
        for record in self.read_records::<InboxRecord>(&path)? {
            facts.records += 1;
            match record {
                InboxRecord::Accepted { event } => drop(facts.turns.insert(event.turn_id())),
                InboxRecord::Done {
                    turn_id, answer, ..
                } => {
                    facts.turns.insert(turn_id);
                    facts.turns.extend(answer.map(|answer| answer.turn_id()));
                }
                _ => {}
            }
        }
        Ok(facts)
    }

    /// Checks the files of a conversation.
    fn check_conversation(&mut self, folder: &Path, log: &LogFacts) -> io::Result<()> {
        self.found.conversations += 1;
        self.metadata(folder);
        self.json_files(folder);
        // Events first: a turn that is folded between the two reads is then seen twice, not never.
        let events: Vec<MessageEvent> = self.read_records(&folder.join(layout::EVENTS))?;
        let journal: Vec<JournalRecord> = self.read_records(&folder.join(layout::JOURNAL))?;
        let base: Vec<Message> = self.read_records(&folder.join(layout::BASE))?;
        for name in [layout::OLDER_RUNTIME_EVENTS, layout::RUNTIME_EVENTS] {
            self.read_records::<RuntimeEvent>(&folder.join(name))?;
        }
        self.check_messages(&folder.join(layout::BASE), &base, events.is_empty());
        if !self.is_running {
            self.check_current_turn(folder, &events, &journal, log);
        }
        Ok(())
    }

    /// Checks that the metadata is there and belongs to the directory.
    fn metadata(&mut self, folder: &Path) {
        let path = folder.join(layout::METADATA);
        let bytes = match self.fs.read_if_there(&path) {
            Err(error) => return self.report_problem(&path, &format!("can't be read: {error}")),
            Ok(None) if self.fs.exists(&folder.join(layout::BASE)) => {
                // A kill shortly after the first turn also leaves this state.
                let path = path.display();
                let note = format!("{path}: is missing; the next start rebuilds it");
                return self.found.notes.push(note);
            }
            Ok(None) => return,
            Ok(Some(bytes)) => bytes,
        };
        let mut parsed = serde_json::from_slice::<InstanceMeta>(&bytes);
        if parsed.is_err()
            && self.is_running
            && let Ok(Some(bytes)) = self.fs.read_if_there(&path)
        {
            // The swarm may have been writing the file.
            parsed = serde_json::from_slice(&bytes);
        }
        match parsed {
            Err(error) => self.report_problem(&path, &format!("is not valid: {error}")),
            Ok(_) if !self.is_running && !checksum::is_intact(&bytes) => {
                self.report_problem(&path, "its checksum does not match");
            }
            Ok(meta) => {
                let name = layout::file_name(&meta.id().to_string());
                if folder
                    .file_name()
                    .is_none_or(|folder| folder != name.as_str())
                {
                    let problem = format!("belongs to another conversation: {}", meta.id());
                    self.report_problem(&path, &problem);
                }
            }
        }
    }

    /// Checks that each JSON file of the conversation can be read.
    fn json_files(&mut self, folder: &Path) {
        for path in layout::json_files(folder) {
            match self.fs.read_if_there(&path) {
                Err(error) => self.report_problem(&path, &format!("can't be read: {error}")),
                Ok(Some(bytes)) => {
                    if let Err(error) = serde_json::from_slice::<IgnoredAny>(&bytes) {
                        self.report_problem(&path, &format!("is not valid JSON: {error}"));
                    }
                }
                Ok(None) => {}
            }
        }
    }

    /// Checks that no message is there twice, and that each tool call has exactly one result. In an idle
    /// conversation, the last calls may still lack results.
    fn check_messages(&mut self, path: &Path, base: &[Message], is_idle: bool) {
        let mut ids = HashSet::new();
        // Calls without a result so far, with the index of their message.
        let mut unanswered: HashMap<&str, usize> = HashMap::new();
        for (number, message) in base.iter().enumerate() {
            if !ids.insert(message.id.as_str()) {
                self.report_problem(path, &format!("message {} is there twice", message.id));
            }
            if message.data.role == MessageRole::Assistant {
                self.report_unanswered(path, &unanswered);
                unanswered = message
                    .tool_calls()
                    .map(|call| (&*call.tool_call_id, number))
                    .collect();
            }
            for result in message.tool_results() {
                if unanswered.remove(&*result.tool_call_id).is_none() {
                    let id = &result.tool_call_id;
                    self.report_problem(
                        path,
                        &format!(
                            "call {id} has a second result, or a result without an earlier call"
                        ),
                    );
                }
            }
        }
        // The next turn adds results for the last calls.
        if is_idle && !unanswered.is_empty() {
            self.found.notes.push(format!(
                "{}: the last calls have no results yet; the next turn adds them",
                path.display()
            ));
        }
    }

    fn report_unanswered(&mut self, path: &Path, open: &HashMap<&str, usize>) {
        for id in open.keys() {
            self.report_problem(path, &format!("call {id} has no result"));
        }
    }

    /// Checks that the log and the journal contain the turn of the message events.
    fn check_current_turn(
        &mut self,
        folder: &Path,
        events: &[MessageEvent],
        journal: &[JournalRecord],
        log: &LogFacts,
    ) {
        // All events belong to one turn: finished turns are compacted into the base.
        let turn = events.iter().find_map(|event| match event {
            MessageEvent::Append { message } => turn_of_message(&message.id),
            _ => None,
        });
        let Some(turn) = turn else { return };
        let path = folder.join(layout::EVENTS);
        if !log.turns.contains(turn) {
            self.report_problem(
                &path,
                &format!("turn {turn} began, but the log does not contain its event"),
            );
        }
        let path = folder.join(layout::JOURNAL);
        let effects = recorded_effects(journal, turn);
        for effect in &effects.without_intent {
            self.report_problem(
                &path,
                &format!("the journal has an outcome of {effect}, but no intent"),
            );
        }
        for step in steps_with_calls(events, turn) {
            if !effects.outcomes.contains(&format!("step-{step}/model")) {
                let problem = format!("the records of step {step} of turn {turn} are missing");
                self.report_problem(&path, &problem);
            }
        }
    }
}

/// Effects of a turn in its journal.
#[derive(Default)]
struct RecordedEffectIds {
    outcomes: HashSet<String>,
    without_intent: Vec<String>,
}

fn recorded_effects(journal: &[JournalRecord], turn: &str) -> RecordedEffectIds {
    let (mut begun, mut effects) = (HashSet::new(), RecordedEffectIds::default());
    for record in journal.iter().filter(|record| record.turn_id() == turn) {
        match record {
            JournalRecord::Intent { effect, .. } => drop(begun.insert(effect)),
            JournalRecord::Outcome { effect, .. } => {
                if !begun.contains(effect) {
                    effects.without_intent.push(effect.clone());
                }
                effects.outcomes.insert(effect.clone());
            }
        }
    }
    effects
}

/// Returns the steps of the turn whose answers contain calls.
fn steps_with_calls(events: &[MessageEvent], turn: &str) -> Vec<u32> {
    use goondan_core::message::MessageSource;
    let prefix = format!("{turn}-step-");
    let steps = events.iter().filter_map(|event| {
        let MessageEvent::Append { message } = event else {
            return None;
        };
        message.tool_calls().next()?;
        match &message.source {
            MessageSource::Assistant { step_id } => step_id.strip_prefix(&prefix)?.parse().ok(),
            _ => None,
        }
    });
    steps.collect()
}
