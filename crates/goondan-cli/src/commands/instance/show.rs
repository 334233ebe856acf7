//! `gdn conversation show`: shows a conversation with its unfinished work and its failed events.

use std::sync::Arc;

use clap::Args;
use goondan::StateRoot;
use goondan::event::{ContextUsage, RuntimeEvent, RuntimeEventKind};
use goondan::internal::untrusted_text;
use goondan::message::{Message, MessagePart, MessageRole, ToolResultPart};
use goondan::ports::store::DeadLetter;
use goondan::ports::tool::ToolCallStatus;
use goondan::workspace::UnfinishedEffect;
use goondan::workspace::database::SharedDatabase;
use serde_json::json;

use super::list::{InstanceRow, local};
use super::{InstanceTargetArgs, unfinished};
use crate::exit::CliError;
use crate::instances::{self, FoundConversation};
use crate::output::{CommandOutput, style};
use crate::store::{self, StoreArgs};

/// Arguments of `gdn conversation show`.
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
    /// Show what fills the context window, instead of the messages
    #[arg(long, conflicts_with = "last")]
    context: bool,
}

/// Stored content of the conversation to show.
struct ShownConversation {
    found: FoundConversation,
    messages: Vec<Arc<Message>>,
    warnings: Vec<String>,
    effects: Vec<UnfinishedEffect>,
    letters: Vec<DeadLetter>,
    /// Parts of the last model request.
    context: Option<ContextUsage>,
}

/// Reads the conversation from the files of the state root.
fn read_from_files(
    args: &InstanceShowArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<ShownConversation, CliError> {
    let (name, scope) = (&args.which.name, args.which.scope(state_root, output)?);
    let mut instance = instances::choose(&instances::in_files(state_root, &scope)?, name)?
        .ok_or_else(|| instances::unknown_conversation_error(&scope, name))?;
    instance.read_title();
    let id = &instance.summary.id;
    let (messages, warnings) = instance.workspace.conversation(id)?;
    let (effects, letters) = (
        instance.workspace.unfinished(id)?,
        instance.workspace.dead_letters(id)?,
    );
    let events = if args.context {
        instance.workspace.runtime_events(id)?.concat()
    } else {
        Vec::new()
    };
    let context = last_context(&events);
    Ok(ShownConversation {
        found: instance,
        messages,
        warnings,
        effects,
        letters,
        context,
    })
}

/// Reads the conversation from a database.
async fn read_from_database(
    database: &SharedDatabase,
    args: &InstanceShowArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<ShownConversation, CliError> {
    let (name, scope) = (&args.which.name, args.which.scope(state_root, output)?);
    let all_instances = instances::in_database(database, state_root, &scope).await?;
    let instance = instances::choose(&all_instances, name)?
        .ok_or_else(|| instances::unknown_conversation_error(&scope, name))?;
    let id = &instance.summary.id;
    let reader = database
        .look(&instance.workspace)
        .await
        .map_err(|error| store::unusable_error(&error))?;
    let reading = async {
        Ok((
            reader.conversation(id).await?,
            reader.unfinished(id).await?,
            reader.dead_letters(id).await?,
            if args.context {
                reader.events(id, 0).await?
            } else {
                Vec::new()
            },
        ))
    };
    let (messages, effects, letters, events) =
        reading.await.map_err(|error| store::read_error(&error))?;
    Ok(ShownConversation {
        found: instance,
        messages,
        warnings: Vec::new(),
        effects,
        letters,
        context: last_context(&events),
    })
}

/// Returns the parts of the last model request of a conversation.
fn last_context(events: &[RuntimeEvent]) -> Option<ContextUsage> {
    events.iter().rev().find_map(|event| match &event.kind {
        RuntimeEventKind::ModelCompleted { call, .. } => call.context,
        _ => None,
    })
}

/// Shows what fills the context window.
fn show_context(
    found: &FoundConversation,
    context: Option<ContextUsage>,
    output: &CommandOutput,
) -> Result<(), CliError> {
    if output.json {
        return output.json_pretty(&json!({
            "instance": InstanceRow::from(found),
            "context": context,
        }));
    }
    print_heading(found, output)?;
    match context {
        Some(context) => context
            .lines()
            .iter()
            .try_for_each(|line| output.line(line)),
        None => output.line("No model has answered in this conversation yet."),
    }
}

/// Shows a conversation with its unfinished effects and failed events.
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
        context,
    } = match args.store.database()? {
        Some(database) => read_from_database(&database, args, state_root, output).await?,
        None => read_from_files(args, state_root, output)?,
    };
    if args.context {
        return show_context(&found, context, output);
    }
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
    print_heading(&found, output)?;
    messages
        .iter()
        .try_for_each(|message| print_message(message, output))?;
    unfinished::show_effects(&effects, output)?;
    unfinished::show_dead_letters(&found, &letters, output)
}

/// Prints the name, workspace, status and size of the conversation.
fn print_heading(found: &FoundConversation, output: &CommandOutput) -> Result<(), CliError> {
    let (bold, faint) = (style::HEADING, style::FAINT);
    let summary = &found.summary;
    output.line(&format!(
        "{bold}{}{bold:#} {faint}in {}, {}, {} messages, updated {}{faint:#}",
        untrusted_text::line(found.name()),
        untrusted_text::line(&found.workspace.id),
        untrusted_text::line(&summary.status),
        summary.messages,
        local(summary.updated_at),
    ))?;
    match &found.title {
        Some(title) => output.line(&format!("{faint}{}{faint:#}", untrusted_text::line(title))),
        None => Ok(()),
    }
}

/// Prints the parts of a message. Opaque parts, which only a model provider can read, are omitted.
fn print_message(message: &Message, output: &CommandOutput) -> Result<(), CliError> {
    let (name, role) = (style::NAME, role_name(message.data.role));
    for part in &message.data.content {
        let text = match part {
            MessagePart::Opaque { .. } => continue,
            MessagePart::Reasoning { text, .. } if text.is_empty() => continue,
            MessagePart::Reasoning { text, .. } => format!("(reasoning) {text}"),
            MessagePart::Text { text, .. } => text.clone(),
            MessagePart::ToolCall(call) => format!("→ {} {}", call.tool_name, call.input),
            MessagePart::ToolResult(result) => {
                format!("← {} {}", result.tool_name, result_text(result))
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

/// Returns the displayed name of the role.
fn role_name(role: MessageRole) -> &'static str {
    match role {
        MessageRole::System => "system",
        MessageRole::User => "user",
        MessageRole::Assistant => "assistant",
        MessageRole::Tool => "tool",
    }
}

/// Returns the output or the error of a tool call as text.
fn result_text(result: &ToolResultPart) -> String {
    match (&result.status, &result.output, &result.error) {
        (ToolCallStatus::Ok, Some(serde_json::Value::String(text)), _) => text.clone(),
        (ToolCallStatus::Ok, Some(value), _) => value.to_string(),
        (ToolCallStatus::Ok, None, _) => "ok".to_owned(),
        (ToolCallStatus::Error, _, Some(error)) => format!("{}: {}", error.code, error.message),
        (ToolCallStatus::Error, _, None) => "error".to_owned(),
    }
}
