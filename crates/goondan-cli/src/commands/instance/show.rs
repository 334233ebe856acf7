//! `gdn instance show`.

use std::sync::Arc;

use clap::Args;
use goondan::StateRoot;
use goondan::internal::untrusted_text;
use goondan::message::{Message, MessagePart, MessageRole, ToolResultPart};
use goondan::ports::store::DeadLetter;
use goondan::ports::tool::ToolCallStatus;
use goondan::workspace::UnfinishedEffect;
use goondan::workspace::database::Database;
use serde_json::json;

use super::list::{InstanceRow, local};
use super::{InstanceTargetArgs, unfinished};
use crate::exit::CliError;
use crate::instances::{self, FoundConversation};
use crate::output::{CommandOutput, style};
use crate::store::{self, StoreArgs};

/// Arguments of `gdn instance show`.
#[derive(Debug, Args)]
#[command(mut_arg("store", store::help("Read from")))]
pub(super) struct InstanceShowArgs {
    #[command(flatten)]
    which: InstanceTargetArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// Show only the last N messages
    #[arg(short = 'n', long, value_name = "N")]
    last: Option<usize>,
}

struct ShownConversation {
    found: FoundConversation,
    messages: Vec<Arc<Message>>,
    warnings: Vec<String>,
    effects: Vec<UnfinishedEffect>,
    letters: Vec<DeadLetter>,
}

fn look_at_files(
    args: &InstanceShowArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<ShownConversation, CliError> {
    let (name, scope) = (&args.which.name, args.which.scope(state_root, output)?);
    let found = instances::choose(&instances::in_files(state_root, &scope)?, name)?
        .ok_or_else(|| instances::unknown(&scope, name))?;
    let id = &found.summary.id;
    let (messages, warnings) = found.workspace.conversation(id)?;
    let (effects, letters) = (
        found.workspace.unfinished(id)?,
        found.workspace.dead_letters(id)?,
    );
    Ok(ShownConversation {
        found,
        messages,
        warnings,
        effects,
        letters,
    })
}

async fn look_into(
    database: &Database,
    args: &InstanceShowArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<ShownConversation, CliError> {
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
    Ok(ShownConversation {
        found,
        messages,
        warnings: Vec::new(),
        effects,
        letters,
    })
}

pub(super) async fn run(
    args: &InstanceShowArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let ShownConversation {
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
    let messages: Vec<_> = messages.into_iter().map(Message::for_reader).collect();
    if output.json {
        return output.json_pretty(&json!({
            "instance": InstanceRow::from(&found),
            "messages": messages,
            "unfinished": unfinished::as_json(&effects),
            "deadLetters": letters,
            "warnings": warnings,
        }));
    }
    for warning in &warnings {
        output.note(&format!("warning: {}", untrusted_text::line(warning)))?;
    }
    heading(&found, output)?;
    messages
        .iter()
        .try_for_each(|message| show(message, output))?;
    unfinished::show_effects(&effects, output)?;
    unfinished::show_dead_letters(&found, &letters, output)
}

fn heading(found: &FoundConversation, output: &CommandOutput) -> Result<(), CliError> {
    let (bold, faint) = (style::HEADING, style::FAINT);
    let summary = &found.summary;
    output.line(&format!(
        "{bold}{}{bold:#} {faint}in {}, {}, {} messages, updated {}{faint:#}",
        untrusted_text::line(found.name()),
        untrusted_text::line(&found.workspace.id),
        untrusted_text::line(&summary.status),
        summary.messages,
        local(summary.updated_at),
    ))
}

fn show(message: &Message, output: &CommandOutput) -> Result<(), CliError> {
    let (name, role) = (style::NAME, role(message.data.role));
    for part in &message.data.content {
        let text = match part {
            MessagePart::Opaque { .. } => continue,
            MessagePart::Reasoning { text, .. } if text.is_empty() => continue,
            MessagePart::Reasoning { text, .. } => format!("(reasoning) {text}"),
            MessagePart::Text { text, .. } => text.clone(),
            MessagePart::ToolCall(call) => format!("→ {} {}", call.tool_name, call.input),
            MessagePart::ToolResult(result) => {
                format!("← {} {}", result.tool_name, outcome(result))
            }
            MessagePart::File(file) => format!(
                "({}, {} characters of Base64)",
                file.media_type,
                file.data.len()
            ),
        };
        let text = untrusted_text::lines(text)
            .to_string()
            .replace('\n', "\n            ");
        output.line(&format!("{name}{role:<11}{name:#} {text}"))?;
    }
    Ok(())
}

fn role(role: MessageRole) -> &'static str {
    match role {
        MessageRole::System => "system",
        MessageRole::User => "user",
        MessageRole::Assistant => "assistant",
        MessageRole::Tool => "tool",
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
