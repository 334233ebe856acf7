//! Instruction files directories_between the working directory, such as a nested `AGENTS.md`. The model receives
//! them after a tool has worked in their directory, and again after they have changed.
//!
//! Instructions of the working directory and its parents are part of the system prompt
//! (`goondan-spec`: `kinds/instructions.rs`).

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use goondan_spec::Fingerprint;
use goondan_spec::discover::is_skipped;
use goondan_spec::kinds::{InstructionFile, MarkedArguments};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::policy::PathArguments;
use crate::turn::step::StepContext;
use crate::turn::{TurnContext, model_effect, store_failure_error};
use goondan_core::JsonObject;
use goondan_core::event::TurnError;
use goondan_core::message::{Message, MessagePart, MessageRole, MessageSource, ToolCall};
use goondan_core::nofollow_fs::open_regular_file;
use goondan_core::ports::journal::{EffectKind, EffectOutcome, InterruptionPolicy, TurnEffect};
use goondan_core::ports::tool::{ToolCallResult, ToolCallStatus};
use goondan_core::real_path::real_path;
use goondan_core::reserved_names::INSTRUCTIONS_KEY;
use goondan_core::utf8_cut::without_cut_end;
use goondan_spec::secret_files::SecretFiles;

/// Maximum instruction bytes that one step adds to the conversation.
pub const MAX_NESTED_INSTRUCTION_BYTES: usize = 32 * 1024;
/// Maximum bytes read from one file.
const MAX_INSTRUCTION_FILE_BYTES: u64 = 1024 * 1024;

const INSTRUCTIONS_HEADING: &str = "A tool has worked in a directory with its own instructions. \
    They apply to that directory and directories_between it, and override instructions of the directories above.";

#[derive(Debug, Clone, Serialize, Deserialize)]
struct NestedInstructions {
    /// Path relative to the working directory, with forward slashes.
    name: String,
    text: String,
    cut: usize,
    /// Fingerprint of the bytes that were read.
    fingerprint: Fingerprint,
}

/// Adds the instructions of the directories that the calls of a step worked in.
pub(super) async fn append_instructions(
    context: &mut StepContext<'_>,
    message: &Message,
    results: &[ToolCallResult],
) -> Result<(), TurnError> {
    let path_arguments = path_arguments(context, message, results);
    let effect_id = format!("step-{}/instructions", context.index);
    let next_model_call = model_effect(context.index + 1);
    let turn = context.turn();
    let is_recorded = turn.journal.has_outcome(&effect_id);
    // A resumed turn must not add instructions to a step that it had already passed.
    let is_already_passed = turn.journal.has_outcome(&next_model_call);
    if !is_recorded && (is_already_passed || path_arguments.is_empty()) {
        return Ok(());
    }
    let files = if is_recorded {
        // The journal returns the recorded files instead.
        Vec::new()
    } else {
        find_new_instructions(turn, path_arguments).await
    };
    if !is_recorded && files.is_empty() {
        return Ok(());
    }
    let effect = TurnEffect {
        id: effect_id,
        kind: EffectKind::Instructions,
        intent: Value::Null,
        when_interrupted: InterruptionPolicy::RunAgain,
    };
    let outcome = turn
        .journal
        .run(effect, Box::pin(async move { files }))
        .await;
    let EffectOutcome::Done { value: files, .. } =
        outcome.map_err(|error| store_failure_error(&error))?
    else {
        unreachable!("an interrupted effect runs again")
    };
    append(turn, files).await
}

/// Appends a message with the instruction files, and their fingerprints as metadata.
async fn append(turn: &mut TurnContext, files: Vec<NestedInstructions>) -> Result<(), TurnError> {
    let fingerprints: JsonObject = files
        .iter()
        .map(|file| (file.name.clone(), json!(file.fingerprint)))
        .collect();
    let text = files.into_iter().fold(
        INSTRUCTIONS_HEADING.to_owned(),
        |mut text,
         NestedInstructions {
             name,
             text: content,
             cut,
             ..
         }| {
            text.push_str("\n\n");
            text.push_str(
                &InstructionFile {
                    name,
                    outside: None,
                    text: content,
                    cut,
                }
                .block(),
            );
            text
        },
    );
    let metadata =
        JsonObject::from_iter([(INSTRUCTIONS_KEY.to_owned(), Value::Object(fingerprints))]);
    turn.append_with(
        MessageRole::User,
        vec![MessagePart::text(text)],
        MessageSource::System,
        metadata,
    )
    .await
    .map(drop)
}

/// Returns the path arguments of successful calls. Returns none if a run or an editor has set
/// another working directory: the user has not trusted that directory to instruct agents.
fn path_arguments(
    context: &mut StepContext<'_>,
    message: &Message,
    results: &[ToolCallResult],
) -> Vec<(MarkedArguments, JsonObject)> {
    let catalog = context.catalog.clone();
    let turn = context.turn();
    let facts = &turn.facts;
    let is_own = turn.engine.workdir.is_none()
        && facts.workdir == turn.engine.workdir(&facts.agent, &facts.instance, None);
    if facts.agent.instructions.is_empty() || !is_own {
        return Vec::new();
    }
    let went_well = |call: &&ToolCall| {
        let call_result = results
            .iter()
            .find(|result| result.tool_call_id == call.tool_call_id);
        call_result.is_some_and(|result| result.status == ToolCallStatus::Ok)
    };
    let calls = message.tool_calls().filter(went_well);
    let call_paths = |call: &ToolCall| {
        let marked = &catalog.get(&call.tool_name)?.marked_arguments;
        let has_paths =
            !(marked.paths.is_empty() && marked.trees.is_empty() && marked.patches.is_empty());
        Some((marked.clone(), call.input.as_object()?.clone())).filter(|_| has_paths)
    };
    calls.filter_map(call_paths).collect()
}

/// Returns the instruction files of the directories in `path_arguments`, except those whose current version
/// is in the conversation. Skips unreadable files.
async fn find_new_instructions(
    turn: &TurnContext,
    path_arguments: Vec<(MarkedArguments, JsonObject)>,
) -> Vec<NestedInstructions> {
    let (workdir, names) = (
        turn.facts.workdir.clone(),
        turn.facts.agent.instructions.clone(),
    );
    let project = turn.engine.generation.load().project.clone();
    let messages = turn.conversation().history();
    let files = tokio::task::spawn_blocking(move || {
        let Ok(workdir) = real_path(&workdir) else {
            return Vec::new();
        };
        let secrets = SecretFiles::below([&workdir, &real_path(&project).unwrap_or(project)]);
        let mut folders = BTreeSet::new();
        for (marked, arguments) in &path_arguments {
            let paths = PathArguments::within(&workdir, marked, arguments);
            for path in paths
                .absolute()
                .flat_map(|(_argument, _text, targets)| targets)
            {
                folders.extend(directories_between(&workdir, path));
            }
        }
        let files = folders
            .iter()
            .filter_map(|folder| find(&workdir, folder, &names, &secrets));
        truncate_to_limit(
            files
                .filter(|file| !is_in_conversation(&messages, file))
                .collect(),
        )
    });
    // The task fails only by a panic or a shutdown. The turn then continues without these files.
    files.await.unwrap_or_default()
}

/// Returns true if the conversation contains this version of the file.
fn is_in_conversation(messages: &[std::sync::Arc<Message>], file: &NestedInstructions) -> bool {
    let fingerprint = json!(file.fingerprint);
    let newest_first = messages
        .iter()
        .rev()
        .filter_map(|message| message.metadata.get(INSTRUCTIONS_KEY)?.get(&file.name));
    newest_first.into_iter().next() == Some(&fingerprint)
}

/// Returns the directories from the working directory (exclusive) to `path`. Stops at nested
/// repositories, hidden directories and generated directories: their instructions are not meant for
/// this project.
fn directories_between(workdir: &Path, path: &Path) -> Vec<PathBuf> {
    let Ok(relative) = path.strip_prefix(workdir) else {
        return Vec::new();
    };
    let mut folders = Vec::new();
    let mut folder = workdir.to_owned();
    for part in relative.components() {
        let name = part.as_os_str().to_string_lossy();
        folder.push(part);
        if name.starts_with('.')
            || is_skipped(&name)
            || !folder.is_dir()
            || folder.join(".git").exists()
        {
            break;
        }
        folders.push(folder.clone());
    }
    folders
}

/// Reads the first instruction file of a directory. `None` if the directory has none, or if the
/// file is empty, unreadable, a link out of the working directory, or a file with keys.
fn find(
    workdir: &Path,
    folder: &Path,
    names: &[String],
    secrets: &SecretFiles,
) -> Option<NestedInstructions> {
    let path = names
        .iter()
        .map(|name| folder.join(name))
        .find(|path| path.is_file())?;
    // A link may point anywhere; it counts only if its target is inside the working directory.
    let real = real_path(&path)
        .ok()
        .filter(|real| real.starts_with(workdir))?;
    let mut bytes = Vec::new();
    let file = open_regular_file(workdir, &real).ok()?;
    if secrets.contains(&real, &file.metadata().ok()?) {
        return None;
    }
    file.take(MAX_INSTRUCTION_FILE_BYTES)
        .read_to_end(&mut bytes)
        .ok()?;
    let text = String::from_utf8_lossy(without_cut_end(&bytes))
        .trim_start_matches('\u{feff}')
        .to_owned();
    let name = path
        .strip_prefix(workdir)
        .ok()?
        .components()
        .map(|part| part.as_os_str().to_string_lossy());
    let name = name.collect::<Vec<_>>().join("/");
    let fingerprint = Fingerprint::of_bytes(&bytes);
    (!text.trim().is_empty()).then_some(NestedInstructions {
        name,
        text,
        cut: 0,
        fingerprint,
    })
}

/// Truncates the files to the limit; the deepest directories take precedence.
fn truncate_to_limit(mut files: Vec<NestedInstructions>) -> Vec<NestedInstructions> {
    let mut room = MAX_NESTED_INSTRUCTION_BYTES;
    for file in files.iter_mut().rev() {
        let end = file.text.floor_char_boundary(room.min(file.text.len()));
        file.cut = file.text.len() - end;
        file.text.truncate(end);
        room -= end;
    }
    files
}
