//! Names that the engine gives a meaning to. Who writes events (agents through their tools, libraries) may not use them: an
//! event that could say of itself that it is an answer would join a turn that it has no part in.

use goondan_spec::Code;

use crate::JsonObject;
use crate::ports::tool::ToolError;

/// The type of an input from outside.
pub const INPUT: &str = "user.input";
/// The type of a question, where it states none.
pub const REQUEST: &str = "agent.request";
/// The type of a message, where it states none.
pub const SEND: &str = "agent.send";

/// The tool that takes an answer which is data, where the provider is not sent its schema.
pub const ANSWER_TOOL: &str = "answer__submit";

/// The metadata of a result that may hold what a stranger wrote.
pub const UNTRUSTED: &str = "untrusted";

/// The record of a conversation that may hold what a stranger wrote: an object whose `origin` says where that came from.
pub const UNTRUSTED_STATE: &str = "gdn.untrusted";

/// The record of a conversation's approvals.
pub const APPROVALS: &str = "gdn.approvals";

/// The metadata of a message that tells the instructions of a folder.
pub const INSTRUCTIONS: &str = "gdn.instructions";

/// The type of a cron job's prompt.
pub const FIRED: &str = "automation.cron";
/// The metadata of such a prompt.
pub const CRON: &str = "cron";
/// The metadata of an answer that joins a turn.
pub const INTER_AGENT_RESPONSE: &str = "__goondanInterAgentResponse";
/// The metadata of a summary.
pub const COMPACTION: &str = "compaction";
/// The metadata of a message that an extension puts before a turn.
pub const CONTEXT_MESSAGE: &str = "contextMessage";

/// Types of these families are the engine's, [`REQUEST`] and [`SEND`] aside.
const FAMILIES: [&str; 5] = ["agent.", "automation.", "user.", "approval.", "gdn."];

/// Keys that begin like that are the engine's.
const PREFIXES: [&str; 2] = ["__goondan", "gdn."];

/// Keys that the engine and its extensions read, or that would pass for something that the engine vouches for.
const KEYS: [&str; 8] = [
    UNTRUSTED,
    COMPACTION,
    CONTEXT_MESSAGE,
    CRON,
    "approval",
    "auth",
    "callers",
    "trace",
];

/// The longest type, in bytes.
const LONGEST_TYPE: usize = 200;

/// Refuses an event whose writer gave it a type or metadata that are the engine's.
pub fn check(event_type: Option<&str>, metadata: &JsonObject) -> Result<(), ToolError> {
    if let Some(event_type) = event_type {
        check_type(event_type)?;
    }
    match metadata.keys().find(|key| is_reserved_key(key)) {
        Some(key) => {
            let shown = crate::limits::head(key, 80);
            Err(refused(format!(
                "the metadata key `{shown}` is reserved: the engine itself sets it"
            )))
        }
        None => Ok(()),
    }
}

fn check_type(event_type: &str) -> Result<(), ToolError> {
    let shown = crate::limits::head(event_type, 80);
    if event_type.len() > LONGEST_TYPE || event_type.chars().any(char::is_control) {
        return Err(refused(format!(
            "`{}` is not a valid event type",
            shown.escape_debug()
        )));
    }
    let is_ours = FAMILIES
        .iter()
        .any(|family| begins(event_type.trim(), family));
    if is_ours && event_type != REQUEST && event_type != SEND {
        return Err(refused(format!(
            "the event type `{shown}` is reserved: the engine itself makes such events"
        )));
    }
    Ok(())
}

fn is_reserved_key(key: &str) -> bool {
    let key = key.trim();
    PREFIXES.iter().any(|prefix| begins(key, prefix))
        || KEYS
            .iter()
            .any(|reserved| key.eq_ignore_ascii_case(reserved))
}

fn begins(text: &str, with: &str) -> bool {
    text.get(..with.len())
        .is_some_and(|begin| begin.eq_ignore_ascii_case(with))
}

fn refused(message: String) -> ToolError {
    ToolError::new(message)
        .code(Code::AGENT_EVENT_RESERVED)
        .suggest("Leave it out, or take a name of your own, such as `job.done`.")
}

/// Whether what an extension keeps may lie under that name: names with a dot are the engine's and those of tools.
pub fn is_extension_state(name: &str) -> bool {
    !name.contains('.')
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::inbound::RESPONSE;

    fn code(event_type: Option<&str>, metadata: Value) -> Option<String> {
        let Value::Object(metadata) = metadata else {
            panic!("metadata are an object")
        };
        check(event_type, &metadata)
            .err()
            .and_then(|error| error.code)
    }

    #[test]
    fn nobody_else_sends_what_the_engine_sends() {
        let longest = "x".repeat(LONGEST_TYPE + 1);
        for reserved in [
            RESPONSE,
            FIRED,
            INPUT,
            "Agent.Response",
            " agent.response",
            "agent.response ",
            "agent.request.x",
            "automation.x",
            "user.anything",
            "approval.resolved",
            "job\nagent.response",
            &longest,
        ] {
            assert_eq!(
                code(Some(reserved), json!({})).as_deref(),
                Some(Code::AGENT_EVENT_RESERVED.as_str()),
                "{reserved}"
            );
        }
        for free in [
            REQUEST,
            SEND,
            "job",
            "session.spawn",
            "task.run",
            "agents",
            "ä",
            "",
        ] {
            assert_eq!(code(Some(free), json!({})), None, "{free}");
        }
    }

    #[test]
    fn nobody_else_sets_what_the_engine_reads() {
        for key in [
            INTER_AGENT_RESPONSE,
            "__goondanInterAgentResponseFormatted",
            "__GOONDANx",
            "gdn.approvals",
            "untrusted",
            "Untrusted",
            "compaction",
            "contextMessage",
            "cron",
            "callers",
            "auth",
        ] {
            let metadata = Value::Object([(key.to_owned(), json!({}))].into_iter().collect());
            assert_eq!(
                code(None, metadata).as_deref(),
                Some(Code::AGENT_EVENT_RESERVED.as_str()),
                "{key}"
            );
        }
        assert_eq!(
            code(
                None,
                json!({"ticket": 7, "pinned": true, "data": {"callers": []}, "ä": 1})
            ),
            None
        );
    }

    #[test]
    fn what_the_engine_keeps_has_names_that_no_extension_has() {
        for reserved in ["gdn.approvals", "gdn.untrusted", "tool.automation"] {
            assert!(!is_extension_state(reserved), "{reserved}");
        }
        assert!(is_extension_state("tool-search"));
    }
}
