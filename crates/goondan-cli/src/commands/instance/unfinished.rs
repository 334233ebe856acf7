//! What is not as it should be in a conversation: a turn that was cut off, events whose turns failed.

use std::path::PathBuf;

use goondan::inside::shown;
use goondan::ports::journal::EffectKind;
use goondan::ports::store::DeadLetter;
use goondan::workspace::UnfinishedEffect;
use serde_json::{Value, json};

use super::list::local;
use crate::commands::quoted;
use crate::exit::CliError;
use crate::instances::Found;
use crate::output::{Output, shorten, style};
use crate::retyped;

/// Effects for programs.
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

/// Lists what the turn did that runs or was cut off.
pub(super) fn show_effects(effects: &[UnfinishedEffect], output: &Output) -> Result<(), CliError> {
    let (bold, warning, faint) = (style::HEADING, style::WARNING, style::FAINT);
    let Some(first) = effects.first() else {
        return Ok(());
    };
    output.line(&format!(
        "\n{bold}Unfinished turn{bold:#} {faint}{}, resumes at the next start{faint:#}",
        shown::line(&first.turn_id)
    ))?;
    for effect in effects {
        let Some(what) = words(effect) else { continue };
        if effect.is_uncertain() {
            output.line(&format!(
                "{warning}uncertain:{warning:#}  {what} may or may not have happened"
            ))?;
        } else {
            let state = match (effect.has_outcome, effect.may_repeat) {
                (true, _) => "done:",
                (false, true) => "again:",
                (false, false) => "begun:",
            };
            output.line(&format!("{state:<11} {what}"))?;
        }
    }
    Ok(())
}

/// What a person should know an effect by; what happens inside the engine alone has no words.
fn words(effect: &UnfinishedEffect) -> Option<String> {
    match effect.kind {
        EffectKind::ToolCall => {
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
        | EffectKind::ExtensionQuestion => None,
    }
}

/// The command that tries them again. From another folder it has to be told the project.
fn retry(found: &Found) -> String {
    let owner = found
        .workspace
        .owner()
        .ok()
        .flatten()
        .map(|owner| owner.path);
    let is_here = |path: &PathBuf| {
        std::env::current_dir()
            .and_then(|here| here.canonicalize())
            .is_ok_and(|here| here.starts_with(path))
    };
    let project = owner.filter(|path| !is_here(path));
    let project = project
        .map(|path| retyped::option("--project", &path.to_string_lossy()))
        .unwrap_or_default();
    format!(
        "gdn instance retry {}{project}{}",
        quoted(&found.name()),
        retyped::state_root()
    )
}

/// Lists the events whose turns failed, with what tries them again.
pub(super) fn show_dead_letters(
    found: &Found,
    letters: &[DeadLetter],
    output: &Output,
) -> Result<(), CliError> {
    let (bold, faint, red) = (style::HEADING, style::FAINT, style::ERROR);
    if letters.is_empty() {
        return Ok(());
    }
    let retry = shown::line(retry(found)).to_string();
    output.line(&format!(
        "\n{bold}Failed events{bold:#} {faint}`{retry}` tries again{faint:#}"
    ))?;
    for DeadLetter {
        event,
        error,
        failed_at,
    } in letters
    {
        let (id, code) = (shown::line(&event.id), shown::line(&error.code));
        output.line(&format!(
            "{id}  {faint}{}{faint:#}  {}",
            local(*failed_at),
            shorten(&event.input)
        ))?;
        output.line(&format!(
            "  {red}{code}{red:#}: {}",
            shorten(&error.message)
        ))?;
    }
    Ok(())
}
