//! Prompts of MCP servers as commands of the editor.

use agent_client_protocol::v1::schema as wire;
use agent_client_protocol::{Error, ErrorCode};
use goondan::mcp::{PromptInput, ServerPrompt};
use goondan::ports::tool::HandlerError;
use goondan::{Input, Swarm};
use serde_json::json;

/// Returns the commands for the prompts of the swarm's servers.
pub(super) fn for_swarm(swarm: &Swarm) -> Vec<wire::AvailableCommand> {
    swarm.prompts().iter().map(to_command).collect()
}

/// Returns the update that announces commands.
pub(super) fn commands_update(commands: Vec<wire::AvailableCommand>) -> wire::SessionUpdate {
    let update = wire::AvailableCommandsUpdate::new(commands);
    wire::SessionUpdate::AvailableCommandsUpdate(update)
}

/// Returns the command of a prompt, without the slash that the editor adds.
fn to_command(prompt: &ServerPrompt) -> wire::AvailableCommand {
    let (command, usage) = (prompt.command(), prompt.usage());
    let hint = usage.strip_prefix(&command).unwrap_or_default().trim();
    let input = (!hint.is_empty()).then(|| {
        wire::AvailableCommandInput::Unstructured(wire::UnstructuredCommandInput::new(hint))
    });
    let name = command.trim_start_matches('/');
    wire::AvailableCommand::new(name, prompt.prompt.description.clone()).input(input)
}

/// Returns true if the text may be the command of a prompt, such as `/git:review a.rs`.
pub(super) fn is_command(text: &str) -> bool {
    let command = text.split_whitespace().next().unwrap_or_default();
    command.starts_with('/') && command.contains(':')
}

/// Replaces a command by the prompt's text and files. Other texts stay as they are.
pub(super) async fn expand(swarm: &Swarm, mut input: Input) -> Result<Box<Input>, Error> {
    match swarm.expand_prompt(&input.text).await {
        Some(Ok(PromptInput { text, mut files })) => {
            files.append(&mut input.files);
            Ok(Box::new(Input {
                text,
                files,
                ..input
            }))
        }
        Some(Err(error)) => Err(editor_error(error)),
        None => Ok(Box::new(input)),
    }
}

/// Converts a server's failure for the editor.
fn editor_error(error: HandlerError) -> Error {
    let data = json!({"code": error.code, "suggestion": error.suggestion});
    Error::new(ErrorCode::INVALID_PARAMS, error.message).data(data)
}
