//! A chat, on a terminal of its own.

use crate::person::Person;
use crate::projects::{manifest, scripted};
use crate::sandbox::Sandbox;

const SLOW: &str = "\
rules: [{when: {contains: slow}, reply: {text: late, delayMs: 600000}}]
default: {text: 'heard {{ input }}'}
";

#[test]
fn ctrl_c_cancels_the_turn_and_the_chat_goes_on() {
    let sandbox = scripted(SLOW);
    let mut person = Person::sit_down(&sandbox);
    person.read_until("a> ");
    person.write("slow\r");
    person.read_until("a is thinking");
    person.signal("INT");
    person.read_until("Cancelled.");
    person.read_until("a> ");
    person.write("hi\r");
    person.read_until("heard hi");
    person.read_until("a> ");
    person.write("/quit\r");
    assert_eq!(person.exit_code(), Some(0));
}

#[test]
fn a_signal_at_the_prompt_ends_the_chat() {
    let sandbox = scripted(SLOW);
    let mut person = Person::sit_down(&sandbox);
    person.read_until("a> ");
    person.signal("TERM");
    person.read_until("error[INTERRUPTED]");
    assert_eq!(person.exit_code(), Some(143));
}

#[test]
fn ctrl_c_twice_at_the_prompt_ends_the_chat() {
    let sandbox = scripted(SLOW);
    let mut person = Person::sit_down(&sandbox);
    person.read_until("a> ");
    person.write("\x03");
    person.read_until("Press Ctrl-C again to leave");
    person.read_until("a> ");
    person.write("\x03");
    person.read_until("error[INTERRUPTED]");
    assert_eq!(person.exit_code(), Some(130));
}

#[test]
fn what_goes_on_is_told_while_it_does_and_what_came_of_it_behind_it() {
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
    let mut person = Person::at(sandbox.command(&["run", "p", "--input", "go"]));
    person.read_until("→ bash__exec");
    person.read_until("a runs bash__exec");
    // The line counts the seconds.
    person.read_until("1s");
    sandbox.write("p/go", "");
    person.read_until("← bash__exec");
    // The exit code is red.
    person.read_until("\u{1b}[1m\u{1b}[31mexit 7");
    person.read_until("  │ found");
    person.read_until("it is over");
    assert_eq!(person.exit_code(), Some(0));
}

/// A turn that waits for the file `go`, and then says all that it has read.
fn waiting() -> Sandbox {
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
fn a_line_joins_the_turn_that_runs_and_a_queued_one_follows_it() {
    let sandbox = waiting();
    let mut person = Person::sit_down(&sandbox);
    person.read_until("a> ");
    person.write("go\r");
    person.read_until("→ bash__exec");
    person.write("more of it\r");
    person.read_until("joins: more of it");
    person.write("/queue later\r");
    person.read_until("next: later");
    sandbox.write("p/go", "");
    person.read_until("← bash__exec");
    person.read_until("\u{1b}[1m\u{1b}[31mexit 7");
    person.read_until("you → a>\u{1b}[0m more of it");
    person.read_until("heard more of it");
    person.read_until("you → a>\u{1b}[0m later");
    person.read_until("heard later");
    person.read_until("a> ");
    person.write("\x04");
    assert_eq!(person.exit_code(), Some(0));
}

#[test]
fn what_was_not_sent_is_repeated_where_a_turn_is_cancelled() {
    let sandbox = waiting();
    let mut person = Person::sit_down(&sandbox);
    person.read_until("a> ");
    person.write("go\r");
    person.read_until("→ bash__exec");
    person.write("/queue later\r");
    person.read_until("next: later");
    person.write("half a line\x03");
    person.read_until("Not sent: later");
    person.read_until("Cancelling the turn.");
    person.read_until("Cancelled.");
    person.read_until("a> ");
    person.write("hi\r");
    person.read_until("heard hi");
    person.read_until("a> ");
    person.write("/quit\r");
    assert_eq!(person.exit_code(), Some(0));
}

#[test]
fn plain_lines_have_the_commands_of_the_full_view() {
    let sandbox = waiting();
    let mut person = Person::sit_down(&sandbox);
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
        person.read_until("a> ");
        person.write(&format!("{command}\r"));
        person.read_until(shown);
    }
    person.write("\x04");
    assert_eq!(person.exit_code(), Some(0));
}

#[test]
fn a_signal_ends_a_chat_that_stands_at_a_question() {
    let sandbox = scripted(
        "agents: {a: [{calls: [{id: c, tool: bash__exec, args: {command: 'true'}}]}, {text: it is over}]}\n",
    );
    let model = "{provider: scripted, model: any, options: {script: script.yaml}}";
    sandbox.write(
        "p/goondan.yaml",
        &manifest(model, "permissions: {default: ask}"),
    );
    let mut person = Person::sit_down(&sandbox);
    person.read_until("a> ");
    person.write("go\r");
    person.read_until("[N]o: ");
    person.signal("TERM");
    // The approval request stays open for the next start.
    person.read_until("error[INTERRUPTED]");
    assert_eq!(person.exit_code(), Some(143));
}
