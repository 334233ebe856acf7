//! Unfinished turns and failed events of a conversation.

use std::path::PathBuf;

use goondan::internal::untrusted_text;
use goondan::ports::journal::EffectKind;
use goondan::ports::store::DeadLetter;
use goondan::workspace::UnfinishedEffect;
use serde_json::{Value, json};

use super::list::local;
use crate::commands::quoted;
use crate::exit::CliError;
use crate::instances::FoundConversation;
use crate::output::{CommandOutput, shorten, style};
use crate::suggested_command;

/// Returns the effects as JSON objects.
pub(super) fn as_json(effects: &[UnfinishedEffect]) -> Vec<Value> {
    let value = |effect: &UnfinishedEffect| {
        json!({
            "turnId": effect.turn_id,
            "effect": effect.effect,
            "kind": effect.kind,
            "intent": effect.intent,
            "hasOutcome": effect.has_outcome,
            "mayRepeat": effect.may_repeat,
            "uncertain": effect.is_uncertain(),
        })
    };
    effects.iter().map(value).collect()
}

/// Lists the effects of a turn that is running or was interrupted.
pub(super) fn show_effects(
    effects: &[UnfinishedEffect],
    output: &CommandOutput,
) -> Result<(), CliError> {
    let (bold, warning, faint) = (style::HEADING, style::WARNING, style::FAINT);
    let Some(first) = effects.first() else {
        return Ok(());
    };
    output.line(&format!(
        "\n{bold}Unfinished turn{bold:#} {faint}{}, resumes at the next start{faint:#}",
        untrusted_text::line(&first.turn_id)
    ))?;
    for effect in effects {
        let Some(description) = effect_text(effect) else {
            continue;
        };
        if effect.is_uncertain() {
            output.line(&format!(
                "{warning}uncertain:{warning:#}  {description} may or may not have happened"
            ))?;
        } else {
            let state = match (effect.has_outcome, effect.may_repeat) {
                (true, _) => "done:",
                (false, true) => "again:",
                (false, false) => "begun:",
            };
            output.line(&format!("{state:<11} {description}"))?;
        }
    }
    Ok(())
}

/// Describes an effect, such as a tool call; `None` for effects internal to the engine.
fn effect_text(effect: &UnfinishedEffect) -> Option<String> {
    match effect.kind {
        EffectKind::ToolCall | EffectKind::AgentRequest => {
            let name = effect.intent["toolName"].as_str().unwrap_or("a tool");
            Some(format!(
                "{} {}",
                shorten(name),
                shorten(&effect.intent["input"].to_string())
            ))
        }
        EffectKind::ModelCall => Some("model call".to_owned()),
        EffectKind::Approval => {
            let name = effect.intent["toolName"].as_str().unwrap_or("a tool");
            Some(format!("approval of {}", shorten(name)))
        }
        EffectKind::Inbox
        | EffectKind::Instructions
        | EffectKind::ExtensionState
        | EffectKind::ExtensionQuestion
        | EffectKind::Start => None,
    }
}

/// Returns the command that retries the events. It names the project if run in another directory.
fn retry_command(found: &FoundConversation) -> String {
    let owner = found
        .workspace
        .owner()
        .ok()
        .flatten()
        .map(|owner| owner.path);
    let is_here = |path: &PathBuf| {
        std::env::current_dir()
            .and_then(|current_dir| current_dir.canonicalize())
            .is_ok_and(|current_dir| current_dir.starts_with(path))
    };
    let project = owner.filter(|path| !is_here(path));
    let project = project
        .map(|path| suggested_command::option("--project", &path.to_string_lossy()))
        .unwrap_or_default();
    format!(
        "gdn conversation retry {}{project}{}",
        quoted(&found.name()),
        suggested_command::state_root()
    )
}

/// Lists the failed events with the command that retries them.
pub(super) fn show_dead_letters(
    found: &FoundConversation,
    letters: &[DeadLetter],
    output: &CommandOutput,
) -> Result<(), CliError> {
    let (bold, faint, red) = (style::HEADING, style::FAINT, style::ERROR);
    if letters.is_empty() {
        return Ok(());
    }
    let retry = untrusted_text::line(retry_command(found)).to_string();
    output.line(&format!(
        "\n{bold}Failed events{bold:#} {faint}retry with `{retry}`{faint:#}"
    ))?;
    for DeadLetter {
        event,
        error,
        failed_at,
    } in letters
    {
        let (id, code) = (
            untrusted_text::line(&event.id),
            untrusted_text::line(&error.code),
        );
        output.line(&format!(
            "{id}  {faint}{failed_at}{faint:#}  {input}",
            failed_at = local(*failed_at),
            input = shorten(&event.input)
        ))?;
        output.line(&format!(
            "  {red}{code}{red:#}: {}",
            shorten(&error.message)
        ))?;
    }
    Ok(())
}
