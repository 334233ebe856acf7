//! Names reserved for the engine. Agents (through their tools) and libraries cannot use them in
//! events. Otherwise a forged event could pass for an answer and join a turn of another
//! conversation.

use goondan_spec::Code;

use crate::JsonObject;
use crate::ports::tool::HandlerError;

/// Type of an input from outside the swarm.
pub const INPUT_EVENT: &str = "user.input";
/// Default type of a request to an agent.
pub const REQUEST_EVENT: &str = "agent.request";
/// Default type of a message to an agent.
pub const SEND_EVENT: &str = "agent.send";

/// Tool that receives a structured answer, if its schema is not sent to the provider.
pub const ANSWER_TOOL: &str = "answer__submit";

/// Metadata key of a result that can contain untrusted content.
pub const UNTRUSTED_KEY: &str = "untrusted";

/// State record of a conversation that can contain untrusted content: an object whose `origin`
/// names the source.
pub const UNTRUSTED_RECORD: &str = "gdn.untrusted";

/// State record with the title that a user gave a conversation: a string, or null without a title.
pub const TITLE_RECORD: &str = "gdn.title";

/// State record of a conversation's approvals.
pub const APPROVALS_RECORD: &str = "gdn.approvals";

/// Name of the state with the task list of a conversation.
pub const TODO_STATE: &str = "todo";
/// Name of the state with the conversations that a squad has started.
pub const SQUAD_STATE: &str = "squad";
/// Name of the state with the scheduled jobs of a conversation.
pub const JOBS_STATE: &str = "automation";
/// Names of all states that tools store for a conversation.
pub const TOOL_STATES: [&str; 3] = [TODO_STATE, SQUAD_STATE, JOBS_STATE];

/// Prefix of the state records with the messages that a summary replaces. The id of the summary
/// follows.
pub const COMPACTED_RECORD_PREFIX: &str = "gdn.compacted.";

/// Metadata key of a message with the instructions of a directory.
pub const INSTRUCTIONS_KEY: &str = "gdn.instructions";

/// Type of an event that compacts a conversation.
pub const COMPACT_EVENT: &str = "gdn.compact";
/// Type of an event that removes the last turn of a conversation.
pub const UNDO_EVENT: &str = "gdn.undo";

/// Type of a cron job's prompt.
pub const CRON_EVENT: &str = "automation.cron";
/// Metadata key of a cron job's prompt.
pub const CRON_KEY: &str = "cron";
/// Metadata key of an answer that joins a turn.
pub const INTER_AGENT_RESPONSE_KEY: &str = "__goondanInterAgentResponse";
/// Metadata key of a summary.
pub const COMPACTION_KEY: &str = "compaction";
/// Metadata key of a message that an extension puts before a turn.
pub const CONTEXT_MESSAGE_KEY: &str = "contextMessage";

/// Prefixes of reserved types; [`REQUEST_EVENT`] and [`SEND_EVENT`] are allowed.
const RESERVED_TYPE_PREFIXES: [&str; 5] = ["agent.", "automation.", "user.", "approval.", "gdn."];

const RESERVED_KEY_PREFIXES: [&str; 2] = ["__goondan", "gdn."];

/// Keys that the engine and its extensions read, or that would appear to be vouched for by the
/// engine.
const RESERVED_KEYS: [&str; 8] = [
    UNTRUSTED_KEY,
    COMPACTION_KEY,
    CONTEXT_MESSAGE_KEY,
    CRON_KEY,
    "approval",
    "auth",
    "callers",
    "trace",
];

const MAX_EVENT_TYPE_BYTES: usize = 200;

/// Checks the type and metadata of an event from outside the engine.
///
/// # Errors
/// [`Code::AGENT_EVENT_RESERVED`] if the type or a metadata key is reserved, or the type is not
/// valid.
pub fn check(event_type: Option<&str>, metadata: &JsonObject) -> Result<(), HandlerError> {
    if let Some(event_type) = event_type {
        check_type(event_type)?;
    }
    match metadata.keys().find(|key| is_reserved_key(key)) {
        Some(key) => {
            let excerpt = crate::limits::head(key, 80);
            Err(reserved_error(format!(
                "the metadata key `{excerpt}` is reserved: the engine itself sets it"
            )))
        }
        None => Ok(()),
    }
}

/// Fails for an invalid event type, and for a type that only the engine may send.
fn check_type(event_type: &str) -> Result<(), HandlerError> {
    let excerpt = crate::limits::head(event_type, 80);
    if event_type.len() > MAX_EVENT_TYPE_BYTES || event_type.chars().any(char::is_control) {
        return Err(reserved_error(format!(
            "`{}` is not a valid event type",
            excerpt.escape_debug()
        )));
    }
    let is_ours = RESERVED_TYPE_PREFIXES
        .iter()
        .any(|family| has_prefix_ignoring_case(event_type.trim(), family));
    if is_ours && event_type != REQUEST_EVENT && event_type != SEND_EVENT {
        return Err(reserved_error(format!(
            "the event type `{excerpt}` is reserved: only the engine sends such events"
        )));
    }
    Ok(())
}

/// Returns true for a metadata key that only the engine may set.
fn is_reserved_key(key: &str) -> bool {
    let key = key.trim();
    RESERVED_KEY_PREFIXES
        .iter()
        .any(|prefix| has_prefix_ignoring_case(key, prefix))
        || RESERVED_KEYS
            .iter()
            .any(|reserved| key.eq_ignore_ascii_case(reserved))
}

/// Returns true if `text` begins with `prefix`; ignores ASCII case.
fn has_prefix_ignoring_case(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len())
        .is_some_and(|begin| begin.eq_ignore_ascii_case(prefix))
}

/// Returns the error for a reserved event type or metadata key.
fn reserved_error(message: String) -> HandlerError {
    HandlerError::new(message)
        .code(Code::AGENT_EVENT_RESERVED)
        .suggest("Leave the name out, or use your own name, such as `job.done`.")
}

/// Returns true if extensions can use `name` for their state. Names with a dot belong to the engine
/// and to tools.
pub fn is_extension_state(name: &str) -> bool {
    !name.contains('.')
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::agent_event::RESPONSE_EVENT;

    fn code(event_type: Option<&str>, metadata: Value) -> Option<String> {
        let Value::Object(metadata) = metadata else {
            panic!("metadata is an object")
        };
        check(event_type, &metadata)
            .err()
            .and_then(|error| error.code)
    }

    #[test]
    fn event_types_of_the_engine_are_reserved() {
        let longest = "x".repeat(MAX_EVENT_TYPE_BYTES + 1);
        for reserved in [
            RESPONSE_EVENT,
            CRON_EVENT,
            INPUT_EVENT,
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
            REQUEST_EVENT,
            SEND_EVENT,
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
    fn metadata_keys_of_the_engine_are_reserved() {
        for key in [
            INTER_AGENT_RESPONSE_KEY,
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
    fn record_names_of_the_engine_are_not_extension_state() {
        for reserved in ["gdn.approvals", "gdn.untrusted", "tool.automation"] {
            assert!(!is_extension_state(reserved), "{reserved}");
        }
        assert!(is_extension_state("tool-search"));
    }
}
