//! `gdn instance show`.

use std::sync::Arc;

use clap::Args;
use goondan::StateRoot;
use goondan::database::Database;
use goondan::inside::shown;
use goondan::message::{Message, Part, Role, ToolResultPart};
use goondan::ports::store::DeadLetter;
use goondan::ports::tool::ToolCallStatus;
use goondan::workspace::UnfinishedEffect;
use serde_json::json;

use super::list::{Row, local};
use super::{Which, unfinished};
use crate::exit::CliError;
use crate::instances::{self, Found};
use crate::output::{Output, style};
use crate::store::{self, StoreArgs};

/// Arguments of `gdn instance show`.
#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    store: StoreArgs,
    /// Show only the last N messages
    #[arg(short = 'n', long, value_name = "N")]
    last: Option<usize>,
}

/// What there is to show of a conversation.
struct Shown {
    found: Found,
    messages: Vec<Arc<Message>>,
    warnings: Vec<String>,
    effects: Vec<UnfinishedEffect>,
    letters: Vec<DeadLetter>,
}

fn look_at_files(
    args: &ShowArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<Shown, CliError> {
    let (name, scope) = (&args.which.name, args.which.scope(state_root, output)?);
    let found = instances::choose(&instances::in_files(state_root, &scope)?, name)?
        .ok_or_else(|| instances::unknown(&scope, name))?;
    let id = &found.summary.id;
    let (messages, warnings) = found.workspace.conversation(id)?;
    let (effects, letters) = (
        found.workspace.unfinished(id)?,
        found.workspace.dead_letters(id)?,
    );
    Ok(Shown {
        found,
        messages,
        warnings,
        effects,
        letters,
    })
}

async fn look_into(
    database: &Database,
    args: &ShowArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<Shown, CliError> {
    let (name, scope) = (&args.which.name, args.which.scope(state_root, output)?);
    let all = instances::in_database(database, state_root, &scope).await?;
    let found = instances::choose(&all, name)?.ok_or_else(|| instances::unknown(&scope, name))?;
    let id = &found.summary.id;
    let looking = database
        .look(&found.workspace)
        .await
        .map_err(|error| store::unusable(&error))?;
    let read = async {
        Ok((
            looking.conversation(id).await?,
            looking.unfinished(id).await?,
            looking.dead_letters(id).await?,
        ))
    };
    let (messages, effects, letters) = read.await.map_err(|error| store::failed(&error))?;
    Ok(Shown {
        found,
        messages,
        warnings: Vec::new(),
        effects,
        letters,
    })
}

/// Shows a conversation.
pub(super) async fn run(
    args: &ShowArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let Shown {
        found,
        mut messages,
        warnings,
        effects,
        letters,
    } = match args.store.database()? {
        Some(database) => look_into(&database, args, state_root, output).await?,
        None => look_at_files(args, state_root, output)?,
    };
    if let Some(last) = args.last {
        messages.drain(..messages.len().saturating_sub(last));
    }
    if output.json {
        return output.json_pretty(&json!({
            "instance": Row::from(&found),
            "messages": messages,
            "unfinished": unfinished::as_json(&effects),
            "deadLetters": letters,
            "warnings": warnings,
        }));
    }
    for warning in &warnings {
        output.note(&format!("warning: {}", shown::line(warning)))?;
    }
    heading(&found, output)?;
    messages
        .iter()
        .try_for_each(|message| show(message, output))?;
    unfinished::show_effects(&effects, output)?;
    unfinished::show_dead_letters(&found, &letters, output)
}

fn heading(found: &Found, output: &Output) -> Result<(), CliError> {
    let (bold, faint) = (style::HEADING, style::FAINT);
    let summary = &found.summary;
    output.line(&format!(
        "{bold}{}{bold:#} {faint}in {}, {}, {} messages, updated {}{faint:#}",
        shown::line(found.name()),
        shown::line(&found.workspace.id),
        shown::line(&summary.status),
        summary.messages,
        local(summary.updated_at),
    ))
}

fn show(message: &Message, output: &Output) -> Result<(), CliError> {
    let (name, role) = (style::NAME, role(message.data.role));
    for part in &message.data.content {
        let text = match part {
            Part::Opaque { .. } => continue,
            Part::Reasoning { text, .. } if text.is_empty() => continue,
            Part::Reasoning { text, .. } => format!("(reasoning) {text}"),
            Part::Text { text, .. } => text.clone(),
            Part::ToolCall(call) => format!("→ {} {}", call.tool_name, call.input),
            Part::ToolResult(result) => format!("← {} {}", result.tool_name, outcome(result)),
            Part::File(file) => format!(
                "({}, {} characters of Base64)",
                file.media_type,
                file.data.len()
            ),
        };
        let text = shown::lines(text)
            .to_string()
            .replace('\n', "\n            ");
        output.line(&format!("{name}{role:<11}{name:#} {text}"))?;
    }
    Ok(())
}

fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

fn outcome(result: &ToolResultPart) -> String {
    match (&result.status, &result.output, &result.error) {
        (ToolCallStatus::Ok, Some(serde_json::Value::String(text)), _) => text.clone(),
        (ToolCallStatus::Ok, Some(value), _) => value.to_string(),
        (ToolCallStatus::Ok, None, _) => "ok".to_owned(),
        (ToolCallStatus::Error, _, Some(error)) => format!("{}: {}", error.code, error.message),
        (ToolCallStatus::Error, _, None) => "error".to_owned(),
    }
}
