//! Prompts of a server: chat commands with a text from the server.

use std::collections::HashSet;

use goondan_spec::Code;
use rmcp::RoleClient;
use rmcp::model::{
    ClientRequest, GetPromptRequest, GetPromptRequestParams, GetPromptResult, ListPromptsRequest,
    PaginatedRequestParams, Prompt, Role, ServerResult,
};
use rmcp::service::{Peer, ServiceError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::catalog::clean_untrusted_text;
use crate::codes::error;
use crate::connection::McpConnection;
use crate::elicitation::ElicitationContext;
use crate::pending_request::{UnansweredCall, send_request};
use crate::result;
use goondan_core::JsonObject;
use goondan_core::ports::tool::{Attachment, HandlerError};

/// Maximum number of prompts per server. The others are left out.
pub(crate) const MAX_PROMPTS: usize = 200;
/// Maximum number of characters in a name.
const MAX_NAME_CHARS: usize = 100;
/// Maximum number of characters in a description.
const MAX_DESCRIPTION_CHARS: usize = 300;

/// A prompt in the catalog of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogPrompt {
    /// Name of the prompt, without blanks.
    pub name: String,
    /// Purpose of the prompt; may be empty.
    pub description: String,
    /// Arguments in the server's order.
    pub arguments: Vec<PromptArgument>,
}

/// An argument of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptArgument {
    /// Name of the argument, which contains no whitespace.
    pub name: String,
    /// True if the prompt needs a value for the argument.
    pub is_required: bool,
}

/// The messages of a prompt as an input for an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptInput {
    /// Text of the messages.
    pub text: String,
    /// Images and other files of the messages.
    pub files: Vec<Attachment>,
}

/// A prompt of a server that runs for the swarm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerPrompt {
    /// Name of the server's Tool.
    pub server: String,
    /// The prompt as the server lists it.
    pub prompt: CatalogPrompt,
}

impl ServerPrompt {
    /// Returns the chat command without arguments, such as `/git:review`.
    pub fn command(&self) -> String {
        format!("/{}:{}", self.server, self.prompt.name)
    }

    /// Returns the chat command with placeholders for its arguments.
    pub fn usage(&self) -> String {
        usage(&self.server, &self.prompt)
    }
}

/// Splits a command line such as `/git:review a.rs` into the Tool, the prompt and the words.
pub(crate) fn command_parts(line: &str) -> Option<(&str, &str, &str)> {
    let line = line.trim().strip_prefix('/')?;
    let (command, words) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let (server, name) = command.split_once(':')?;
    Some((server, name, words))
}

/// Reads all pages of the server's prompts, up to [`MAX_PROMPTS`].
///
/// # Errors
///
/// Fails if the server refuses a page.
pub(crate) async fn list(peer: &Peer<RoleClient>) -> Result<Vec<CatalogPrompt>, ServiceError> {
    let (mut prompts, mut cursor, mut seen) = (Vec::new(), None, HashSet::new());
    loop {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let request = ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(params));
        let ServerResult::ListPromptsResult(page) = peer.send_request(request).await? else {
            return Err(ServiceError::UnexpectedResponse);
        };
        prompts.extend(page.prompts.iter().filter_map(catalog_prompt));
        // Servers that ignore the cursor repeat their first page.
        match page.next_cursor.filter(|next| seen.insert(next.clone())) {
            Some(next) if prompts.len() < MAX_PROMPTS && seen.len() < MAX_PROMPTS => {
                cursor = Some(next);
            }
            _ => break,
        }
    }
    let mut names = HashSet::new();
    prompts.retain(|prompt: &CatalogPrompt| names.insert(prompt.name.clone()));
    prompts.truncate(MAX_PROMPTS);
    Ok(prompts)
}

/// Returns the entry of a prompt; `None` if its name cannot be typed as a command.
fn catalog_prompt(prompt: &Prompt) -> Option<CatalogPrompt> {
    let description = prompt.description.as_deref().or(prompt.title.as_deref());
    let arguments = prompt.arguments.iter().flatten().map(|argument| {
        Some(PromptArgument {
            name: typed_name(&argument.name)?,
            is_required: argument.required == Some(true),
        })
    });
    Some(CatalogPrompt {
        name: typed_name(&prompt.name)?,
        description: clean_untrusted_text(description.unwrap_or_default(), MAX_DESCRIPTION_CHARS)
            .replace(['\n', '\r', '\t'], " "),
        arguments: arguments.collect::<Option<_>>()?,
    })
}

/// Returns a name that is short, visible and without blanks; `None` for another name.
fn typed_name(name: &str) -> Option<String> {
    let is_typed = !name.is_empty()
        && name.chars().count() <= MAX_NAME_CHARS
        && !name.contains(char::is_whitespace)
        && clean_untrusted_text(name, MAX_NAME_CHARS) == name;
    is_typed.then(|| name.to_owned())
}

/// Gets the messages of a prompt.
///
/// # Errors
///
/// Fails if the server refuses the request or answers with an unexpected type.
pub(crate) async fn get(
    server: &str,
    link: &McpConnection,
    context: &ElicitationContext,
    name: &str,
    arguments: JsonObject,
) -> Result<PromptInput, UnansweredCall> {
    let mut params = GetPromptRequestParams::new(name);
    params.arguments = (!arguments.is_empty()).then_some(arguments);
    params.meta = context.request_meta();
    let request = ClientRequest::GetPromptRequest(GetPromptRequest::new(params));
    match send_request(link, context, request).await? {
        ServerResult::GetPromptResult(prompt) => Ok(input(prompt)),
        ServerResult::InputRequiredResult(_) => {
            let what = "requests user input for a prompt, which is not supported";
            Err(UnansweredCall::Given(error(Code::MCP_INPUT, server, what)))
        }
        _ => Err(ServiceError::UnexpectedResponse.into()),
    }
}

/// Joins the messages of a prompt. Names the speakers if not all messages are the user's.
fn input(prompt: GetPromptResult) -> PromptInput {
    let is_dialog = prompt
        .messages
        .iter()
        .any(|message| message.role != Role::User);
    let (mut texts, mut files) = (Vec::new(), Vec::new());
    for message in prompt.messages {
        let speaker = match message.role {
            _ if !is_dialog => "",
            Role::User => "User: ",
            _ => "Assistant: ",
        };
        let mut parts = Vec::new();
        result::take(message.content, &mut parts, &mut files);
        texts.extend(parts.into_iter().map(|part| format!("{speaker}{part}")));
    }
    result::limit_attachments(&mut texts, &mut files);
    PromptInput {
        text: texts.join("\n\n"),
        files,
    }
}

/// Assigns the words of a command line to the arguments of a prompt. `name=value` sets an argument
/// by name. Other words fill the arguments in order, and the last one takes all remaining words.
/// Double quotes keep blanks.
///
/// # Errors
///
/// Fails if a required argument has no value, or if the prompt has no argument for a word.
pub(crate) fn parse_arguments(
    server: &str,
    prompt: &CatalogPrompt,
    line: &str,
) -> Result<JsonObject, HandlerError> {
    let mut values = JsonObject::new();
    let mut unnamed = Vec::new();
    for word in words(line) {
        let named = word.split_once('=').filter(|(name, _)| {
            let is_argument = |argument: &PromptArgument| argument.name == *name;
            prompt.arguments.iter().any(is_argument)
        });
        match named {
            Some((name, value)) => drop(values.insert(name.to_owned(), json!(value))),
            None => unnamed.push(word),
        }
    }
    let free: Vec<&PromptArgument> = prompt
        .arguments
        .iter()
        .filter(|argument| !values.contains_key(&argument.name))
        .collect();
    let mut unnamed = unnamed.into_iter();
    for (index, argument) in free.iter().enumerate() {
        let value = match index + 1 == free.len() {
            true => unnamed.by_ref().collect::<Vec<_>>().join(" "),
            false => unnamed.next().unwrap_or_default(),
        };
        if !value.is_empty() {
            values.insert(argument.name.clone(), Value::String(value));
        }
    }
    let is_missing =
        |argument: &&PromptArgument| argument.is_required && !values.contains_key(&argument.name);
    let what = match (unnamed.next(), prompt.arguments.iter().find(is_missing)) {
        (Some(_), _) => format!(
            "has no argument for the text after the prompt `{}`",
            prompt.name
        ),
        (None, Some(missing)) => format!(
            "needs the argument `{}` for the prompt `{}`",
            missing.name, prompt.name
        ),
        (None, None) => return Ok(values),
    };
    let error = error(Code::TOOL_INVALID_ARGS, server, what);
    Err(error.suggest(format!("Type `{}`.", usage(server, prompt))))
}

/// Returns the command line of a prompt with placeholders for its arguments.
pub(crate) fn usage(server: &str, prompt: &CatalogPrompt) -> String {
    let mut usage = format!("/{server}:{}", prompt.name);
    for argument in &prompt.arguments {
        let name = &argument.name;
        usage.push_str(&match argument.is_required {
            true => format!(" {name}"),
            false => format!(" [{name}]"),
        });
    }
    usage
}

/// Splits a line at blanks outside of double quotes, and removes the quotes.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted, mut has_word) =
        (Vec::new(), String::new(), false, false);
    for c in line.chars() {
        match c {
            '"' => (is_quoted, has_word) = (!is_quoted, true),
            c if c.is_whitespace() && !is_quoted => {
                if std::mem::take(&mut has_word) {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => {
                word.push(c);
                has_word = true;
            }
        }
    }
    if has_word {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(arguments: &[(&str, bool)]) -> CatalogPrompt {
        let argument = |(name, is_required): &(&str, bool)| PromptArgument {
            name: (*name).to_owned(),
            is_required: *is_required,
        };
        CatalogPrompt {
            name: "review".to_owned(),
            description: String::new(),
            arguments: arguments.iter().map(argument).collect(),
        }
    }

    fn assigned(line: &str, arguments: &[(&str, bool)]) -> Result<Value, String> {
        let assigned = parse_arguments("git", &prompt(arguments), line);
        assigned
            .map(Value::Object)
            .map_err(|error| format!("{} {}", error.message, error.suggestion.unwrap_or_default()))
    }

    #[test]
    fn words_fill_arguments_by_name_and_in_order() {
        let arguments = [("file", true), ("style", false)];
        let both = json!({"file": "a b.rs", "style": "short and clear"});
        for line in [
            "\"a b.rs\" short and clear",
            "style=\"short and clear\" \"a b.rs\"",
            "file=\"a b.rs\" short and clear",
        ] {
            assert_eq!(assigned(line, &arguments), Ok(both.clone()), "{line}");
        }
        assert_eq!(assigned("x", &arguments), Ok(json!({"file": "x"})));
        assert_eq!(
            assigned("other=1", &arguments),
            Ok(json!({"file": "other=1"}))
        );
    }

    #[test]
    fn missing_prompt_arguments_are_named() {
        let missing = assigned("style=x", &[("file", true), ("style", false)]).unwrap_err();
        assert!(missing.contains("needs the argument `file`"), "{missing}");
        assert!(
            missing.ends_with("Type `/git:review file [style]`."),
            "{missing}"
        );
        let superfluous = assigned("x", &[]).unwrap_err();
        assert!(superfluous.contains("has no argument"), "{superfluous}");
    }
}
