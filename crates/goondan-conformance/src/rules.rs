//! Rules that test cases can name.

use serde::Serialize;

/// A numbered rule of the runtime's behavior.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RuntimeRule {
    /// Rule id, such as `T4`.
    pub id: &'static str,
    /// Short form of the rule.
    pub summary: &'static str,
}

/// All rules, in the order of the reference.
pub const RULES: &[RuntimeRule] = &[
    rule("L1", "the files of a directory that form a bundle"),
    rule("L2", "YAML 1.2 in full, with limits"),
    rule(
        "L3",
        "all diagnostics of all files in one run; any error prevents the start",
    ),
    rule(
        "L4",
        "the envelope; unknown fields are errors with a suggestion",
    ),
    rule("L5", "the codes of diagnostics"),
    rule("L6", "names"),
    rule("L7", "references and their resolution"),
    rule("L8", "value sources, environment files, secrets"),
    rule("L9", "the kinds and their fields"),
    rule("L9a", "exports are optional if the entry describes itself"),
    rule(
        "L9b",
        "names and schemas are checked against the limits of the provider",
    ),
    rule("L10", "tool names that every provider accepts"),
    rule("T1", "a tool is called `resource__export`"),
    rule("T2", "the forms of an entry"),
    rule("T3", "registry and catalog; a call outside the catalog"),
    rule("T4", "arguments are validated before the handler runs"),
    rule("T5", "the context of a call that a handler receives"),
    rule("T6", "the result of a call and its error codes"),
    rule("T7", "limits on error messages and output"),
    rule("T8", "errors reach the model in a stable text form"),
    rule(
        "T9",
        "calls of a step run at the same time and keep their order; one result each",
    ),
    rule(
        "T10",
        "malformed calls get results; empty answers end the turn",
    ),
    rule("A1", "request, send, spawn, list, catalog; unknown agents"),
    rule("A2", "time-outs and failures of a request"),
    rule("A3", "one turn at a time for a key; keys run concurrently"),
    rule("A4", "a request that waits on itself is refused"),
    rule("A5", "asynchronous requests and their answers"),
    rule("A6", "send, spawn, list and catalog in detail"),
    rule("A7", "one trace through every hop"),
    rule("A8", "limits on instances, turns and call depth"),
    rule(
        "C1",
        "conversations change by append, replace, remove, truncate",
    ),
    rule("C2", "messages are on disk as they happen"),
    rule("C2b", "side effects go through the journal"),
    rule("C3", "the layout of the state"),
    rule("C4", "accepted events and unfinished turns survive a crash"),
    rule("C5", "one process holds a workspace"),
    rule("C6", "idle instances retire and are collected"),
    rule("M1", "one event in, one turn result out"),
    rule("M2", "system prompt and schemas reach the model"),
    rule("M3", "streaming, output and input formats"),
    rule("M4", "provider failures are retried within bounds"),
    rule("M5", "required tools"),
    rule("M6", "scripted and replayed models"),
    rule("M7", "token usage"),
    rule(
        "M8",
        "answers state why they ended; calls of an incomplete answer do not run",
    ),
    rule("M9", "reasoning is stored and is not part of the text"),
    rule(
        "X1",
        "extensions from files: layers around turns, steps and tool calls, and `next` once",
    ),
    rule(
        "X2",
        "the state, tools, requests and events of an extension",
    ),
    rule("X3", "extensions that fail, hang or end"),
    rule("E1", "the runtime events"),
    rule("E2", "events contain no secrets and no unbounded text"),
    rule("R1", "the watched files"),
    rule("R2", "a broken edit changes nothing"),
    rule("R3", "the time at which a valid edit takes effect"),
    rule("R4", "removed agents drain"),
    rule("R5", "the report of a reload"),
    rule("S1", "permissions and approvals"),
    rule("S1b", "permissions narrow along a call chain"),
    rule("S2", "file tools stay inside their roots"),
    rule("S3", "the addresses that network tools can reach"),
    rule("S4", "the execution of shell commands"),
    rule("S5", "names never become paths unchecked"),
];

/// Creates a rule.
const fn rule(id: &'static str, summary: &'static str) -> RuntimeRule {
    RuntimeRule { id, summary }
}

/// Returns the rule with this id.
pub fn find(id: &str) -> Option<RuntimeRule> {
    RULES.iter().copied().find(|rule| rule.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique() {
        for (index, rule) in RULES.iter().enumerate() {
            assert!(
                RULES[..index].iter().all(|earlier| earlier.id != rule.id),
                "{}",
                rule.id
            );
        }
    }
}
