//! A chat in plain lines, on a pseudo terminal.

use crate::projects::{manifest, scripted};
use crate::pty_session::PtySession;
use crate::sandbox::Sandbox;

const SLOW: &str = "\
rules: [{when: {contains: slow}, reply: {text: late, delayMs: 600000}}]
default: {text: 'heard {{ input }}'}
";

#[test]
fn ctrl_c_cancels_the_turn_and_the_chat_continues() {
    let sandbox = scripted(SLOW);
    let mut pty = PtySession::start_chat(&sandbox);
    pty.read_until("a> ");
    pty.write("slow\r");
    pty.read_until("a is thinking");
    pty.signal("INT");
    pty.read_until("Cancelled.");
    pty.read_until("a> ");
    pty.write("hi\r");
    pty.read_until("heard hi");
    pty.read_until("a> ");
    pty.write("/quit\r");
    assert_eq!(pty.exit_code(), Some(0));
}

#[test]
fn a_signal_at_the_prompt_ends_the_chat() {
    let sandbox = scripted(SLOW);
    let mut pty = PtySession::start_chat(&sandbox);
    pty.read_until("a> ");
    pty.signal("TERM");
    pty.read_until("error[INTERRUPTED]");
    assert_eq!(pty.exit_code(), Some(143));
}

#[test]
fn ctrl_c_twice_at_the_prompt_ends_the_chat() {
    let sandbox = scripted(SLOW);
    let mut pty = PtySession::start_chat(&sandbox);
    pty.read_until("a> ");
    pty.write("\x03");
    pty.read_until("Press Ctrl-C again to leave");
    pty.read_until("a> ");
    pty.write("\x03");
    pty.read_until("error[INTERRUPTED]");
    assert_eq!(pty.exit_code(), Some(130));
}

#[test]
fn a_running_call_is_shown_with_its_duration_and_then_its_result() {
    let command = "until test -e go; do sleep 0.02; done; echo found; exit 7";
    let script = format!(
        "agents: {{a: [{{calls: [{{id: c, tool: bash__exec, args: {{command: '{command}'}}}}]}}, {{text: it is over}}]}}\n"
    );
    let sandbox = scripted(&script);
    let model = "{provider: scripted, model: any, options: {script: script.yaml}}";
    sandbox.write(
        "p/goondan.yaml",
        &manifest(model, "workdir: project\n  permissions: {default: allow}"),
    );
    let mut pty = PtySession::start(sandbox.command(&["run", "p", "--input", "go"]));
    pty.read_until("→ bash__exec");
    pty.read_until("a runs bash__exec");
    // The status line counts the seconds.
    pty.read_until("1s");
    sandbox.write("p/go", "");
    pty.read_until("← bash__exec");
    // The exit code is red.
    pty.read_until("\u{1b}[1m\u{1b}[31mexit 7");
    pty.read_until("  │ found");
    pty.read_until("it is over");
    assert_eq!(pty.exit_code(), Some(0));
}

/// Creates a project whose turn waits for the file `go`, and then repeats its input.
fn project_with_waiting_turn() -> Sandbox {
    let command = "until test -e go; do sleep 0.02; done; exit 7";
    let script = format!(
        "rules:\n  - {{when: {{role: user, contains: go}}, reply: {{calls: [{{id: c, tool: bash__exec, args: {{command: '{command}'}}}}]}}}}\n\
         default: {{text: 'heard {{{{ input }}}}'}}\n"
    );
    let sandbox = scripted(&script);
    let model = "{provider: scripted, model: any, options: {script: script.yaml}}";
    sandbox.write(
        "p/goondan.yaml",
        &manifest(model, "workdir: project\n  permissions: {default: allow}"),
    );
    sandbox
}

#[test]
fn a_line_joins_the_running_turn_and_a_queued_line_follows_it() {
    let sandbox = project_with_waiting_turn();
    let mut pty = PtySession::start_chat(&sandbox);
    pty.read_until("a> ");
    pty.write("go\r");
    pty.read_until("→ bash__exec");
    pty.write("more of it\r");
    pty.read_until("joins: more of it");
    pty.write("/queue later\r");
    pty.read_until("next: later");
    sandbox.write("p/go", "");
    pty.read_until("← bash__exec");
    pty.read_until("\u{1b}[1m\u{1b}[31mexit 7");
    pty.read_until("you → a>\u{1b}[0m more of it");
    pty.read_until("heard more of it");
    pty.read_until("you → a>\u{1b}[0m later");
    pty.read_until("heard later");
    pty.read_until("a> ");
    pty.write("\x04");
    assert_eq!(pty.exit_code(), Some(0));
}

#[test]
fn a_cancelled_turn_lists_queued_lines_that_were_not_sent() {
    let sandbox = project_with_waiting_turn();
    let mut pty = PtySession::start_chat(&sandbox);
    pty.read_until("a> ");
    pty.write("go\r");
    pty.read_until("→ bash__exec");
    pty.write("/queue later\r");
    pty.read_until("next: later");
    pty.write("half a line\x03");
    pty.read_until("Not sent: later");
    pty.read_until("Cancelling the turn.");
    pty.read_until("Cancelled.");
    pty.read_until("a> ");
    pty.write("hi\r");
    pty.read_until("heard hi");
    pty.read_until("a> ");
    pty.write("/quit\r");
    assert_eq!(pty.exit_code(), Some(0));
}

#[test]
fn the_plain_chat_has_the_commands_of_the_full_screen_chat() {
    let sandbox = project_with_waiting_turn();
    let mut pty = PtySession::start_chat(&sandbox);
    for (command, shown) in [
        ("/help", "/undo            take back"),
        ("/agents", "▸ a"),
        (
            "/agent nobody",
            "There is no agent nobody; /agents lists them.",
        ),
        ("/tools", "bash__exec"),
        ("/permissions", "allow  all calls"),
        ("/sessions", "There are no conversations yet."),
        ("/usage", "No model has reported its usage yet."),
        ("/context", "No model has answered in this chat yet."),
        ("/key other", "/key other"),
        ("hi", "heard hi"),
        ("/sessions", "▸ "),
        ("/undo", "Took back the last turn: hi"),
        ("/compact", "There is nothing to compact."),
        ("/cancel", "No turn is running in this conversation."),
        ("/nothing", "Unknown command /nothing"),
    ] {
        pty.read_until("a> ");
        pty.write(&format!("{command}\r"));
        pty.read_until(shown);
    }
    pty.write("\x04");
    assert_eq!(pty.exit_code(), Some(0));
}

#[test]
fn a_signal_ends_a_chat_at_an_approval_prompt() {
    let sandbox = scripted(
        "agents: {a: [{calls: [{id: c, tool: bash__exec, args: {command: 'true'}}]}, {text: it is over}]}\n",
    );
    let model = "{provider: scripted, model: any, options: {script: script.yaml}}";
    sandbox.write(
        "p/goondan.yaml",
        &manifest(model, "permissions: {default: ask}"),
    );
    let mut pty = PtySession::start_chat(&sandbox);
    pty.read_until("a> ");
    pty.write("go\r");
    pty.read_until("[N]o: ");
    pty.signal("TERM");
    // The approval request stays open for the next start.
    pty.read_until("error[INTERRUPTED]");
    assert_eq!(pty.exit_code(), Some(143));
}
