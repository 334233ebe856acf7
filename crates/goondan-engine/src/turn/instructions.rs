//! Instructions of folders below the working folder, such as a nested `AGENTS.md`: the model is told them once a tool has
//! worked there, and again once they have changed.
//!
//! Those of the working folder and of what is above it stand in the system prompt (`goondan-spec`: `kinds/instructions.rs`).

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use goondan_spec::Fingerprint;
use goondan_spec::discover::is_skipped;
use goondan_spec::kinds::{InstructionFile, MarkedArguments};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::policy::PathArguments;
use crate::turn::step::StepContext;
use crate::turn::{TurnContext, model_effect, store_failed};
use goondan_core::JsonObject;
use goondan_core::event::TurnError;
use goondan_core::message::{Message, MessageSource, Part, Role, ToolCall};
use goondan_core::ports::journal::{Effect, EffectKind, Outcome, WhenInterrupted};
use goondan_core::ports::tool::{ToolCallResult, ToolCallStatus};
use goondan_core::real_path::real_path;
use goondan_core::reserved::INSTRUCTIONS;

/// How many bytes of instructions one step adds to the conversation.
pub const MAX_NESTED_INSTRUCTIONS: usize = 32 * 1024;
/// No more of a file is read than that.
const MOST_READ: u64 = 1024 * 1024;

const HEADING: &str = "A tool has worked in a folder that has instructions of its own. They are about that folder and what is below \
                       it, and count more there than those of the folders above.";

/// A file that was found.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Nested {
    /// As seen from the working folder, with slashes.
    name: String,
    text: String,
    cut: usize,
    /// Of the whole file as far as it was read.
    fingerprint: Fingerprint,
}

/// Tells the model the instructions of the folders that the calls of a step were about.
pub(super) async fn tell(
    context: &mut StepContext<'_>,
    message: &Message,
    results: &[ToolCallResult],
) -> Result<(), TurnError> {
    let places = places(context, message, results);
    let (effect_id, next) = (
        format!("step-{}/instructions", context.index),
        model_effect(context.index + 1),
    );
    let turn = context.turn();
    let is_recorded = turn.journal.has_outcome(&effect_id);
    // A step that a resumed turn has behind it has told what is recorded, and nothing else.
    let is_behind = turn.journal.has_outcome(&next);
    if !is_recorded && (is_behind || places.is_empty()) {
        return Ok(());
    }
    let found = if is_recorded {
        Vec::new()
    } else {
        look(turn, places).await
    };
    if !is_recorded && found.is_empty() {
        return Ok(());
    }
    let effect = Effect {
        id: effect_id,
        kind: EffectKind::Instructions,
        intent: Value::Null,
        when_interrupted: WhenInterrupted::RunAgain,
    };
    let outcome = turn
        .journal
        .run(effect, Box::pin(async move { found }))
        .await;
    let Outcome::Done { value: found, .. } = outcome.map_err(|error| store_failed(&error))? else {
        unreachable!("reading is run again")
    };
    append(turn, found).await
}

async fn append(turn: &mut TurnContext, found: Vec<Nested>) -> Result<(), TurnError> {
    let told: JsonObject = found
        .iter()
        .map(|file| (file.name.clone(), json!(file.fingerprint)))
        .collect();
    let text = found.into_iter().fold(
        HEADING.to_owned(),
        |mut text,
         Nested {
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
    let metadata = JsonObject::from_iter([(INSTRUCTIONS.to_owned(), Value::Object(told))]);
    turn.append_with(
        Role::User,
        vec![Part::text(text)],
        MessageSource::System,
        metadata,
    )
    .await
    .map(drop)
}

/// The arguments with paths of calls that went well. An agent that works elsewhere than it was set up for, in a folder that a
/// run or an editor named, is told nothing: nobody has trusted that folder to say what agents do.
fn places(
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
        let of_call = results
            .iter()
            .find(|result| result.tool_call_id == call.tool_call_id);
        of_call.is_some_and(|result| result.status == ToolCallStatus::Ok)
    };
    let calls = message.tool_calls().filter(went_well);
    let of_call = |call: &ToolCall| {
        let marked = &catalog.get(&call.tool_name)?.marked_arguments;
        let has_paths =
            !(marked.paths.is_empty() && marked.trees.is_empty() && marked.patches.is_empty());
        Some((marked.clone(), call.input.as_object()?.clone())).filter(|_| has_paths)
    };
    calls.filter_map(of_call).collect()
}

/// What the conversation has not been told yet.
async fn look(turn: &TurnContext, places: Vec<(MarkedArguments, JsonObject)>) -> Vec<Nested> {
    let (workdir, names) = (
        turn.facts.workdir.clone(),
        turn.facts.agent.instructions.clone(),
    );
    let messages = turn.conversation().history();
    let found = tokio::task::spawn_blocking(move || {
        let Ok(workdir) = real_path(&workdir) else {
            return Vec::new();
        };
        let mut folders = BTreeSet::new();
        for (marked, arguments) in &places {
            let paths = PathArguments::within(&workdir, marked, arguments);
            paths
                .absolute()
                .flat_map(|(_, _, paths)| paths)
                .for_each(|path| folders.extend(below(&workdir, path)));
        }
        let found = folders
            .iter()
            .filter_map(|folder| find(&workdir, folder, &names));
        fit(found.filter(|file| !is_told(&messages, file)).collect())
    });
    // Who can't read a file is not told of it.
    found.await.unwrap_or_default()
}

fn is_told(messages: &[std::sync::Arc<Message>], file: &Nested) -> bool {
    let fingerprint = json!(file.fingerprint);
    let told = messages
        .iter()
        .rev()
        .filter_map(|message| message.metadata.get(INSTRUCTIONS)?.get(&file.name));
    told.into_iter().next() == Some(&fingerprint)
}

/// The folders on the way from the working folder to `path`, without the working folder itself. What lies in a repository of
/// its own, in a hidden folder or among what others made is not meant for who works here.
fn below(workdir: &Path, path: &Path) -> Vec<PathBuf> {
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

fn find(workdir: &Path, folder: &Path, names: &[String]) -> Option<Nested> {
    let path = names
        .iter()
        .map(|name| folder.join(name))
        .find(|path| path.is_file())?;
    // A link may lead anywhere; it counts only where it stays.
    if !real_path(&path).ok()?.starts_with(workdir) {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(&path)
        .ok()?
        .take(MOST_READ)
        .read_to_end(&mut bytes)
        .ok()?;
    let text = String::from_utf8_lossy(&bytes)
        .trim_start_matches('\u{feff}')
        .to_owned();
    let name = path
        .strip_prefix(workdir)
        .ok()?
        .components()
        .map(|part| part.as_os_str().to_string_lossy());
    let name = name.collect::<Vec<_>>().join("/");
    let fingerprint = Fingerprint::of_bytes(&bytes);
    (!text.trim().is_empty()).then_some(Nested {
        name,
        text,
        cut: 0,
        fingerprint,
    })
}

/// The deepest folders come first where there is not room for all.
fn fit(mut found: Vec<Nested>) -> Vec<Nested> {
    let mut room = MAX_NESTED_INSTRUCTIONS;
    for file in found.iter_mut().rev() {
        let end = file.text.floor_char_boundary(room.min(file.text.len()));
        file.cut = file.text.len() - end;
        file.text.truncate(end);
        room -= end;
    }
    found
}
