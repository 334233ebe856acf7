//! The full-screen chat, as an emulated terminal shows it.

use std::process::Command;

use serde_json::json;

use crate::emulated_terminal::EmulatedTerminal;
use crate::hostile_text::{assert_harmless, hostile_texts};
use crate::projects::{ECHO, manifest, scripted};
use crate::sandbox::Sandbox;
use crate::serve::ServeProcess;

const MODEL: &str = "{provider: scripted, model: any, options: {script: script.yaml}}";

const SLOW: &str = "\
rules: [{when: {contains: slow}, reply: {text: late, delayMs: 600000}}]
default: {text: 'heard {{ input }}'}
";

/// Command that waits for the file `go` in the project.
const WAIT: &str = "until test -e go; do sleep 0.02; done";

/// Creates a swarm of agent `a` whose commands run in the project.
fn project_with_commands(script: &serde_json::Value, permissions: &str) -> Sandbox {
    let sandbox = scripted(&script.to_string());
    sandbox.write(
        "p/goondan.yaml",
        &manifest(
            MODEL,
            &format!("workdir: project\n  permissions: {permissions}"),
        ),
    );
    sandbox
}

fn run(command: &str) -> serde_json::Value {
    json!({"calls": [{"tool": "bash__exec", "args": {"command": command}}]})
}

#[test]
fn an_answer_of_five_thousand_lines_is_complete_above_the_prompt() {
    let answer: String = (1..=5000)
        .map(|number| format!("line {number} 日本 🙂\n"))
        .collect();
    let sandbox = scripted(&json!({"default": {"text": answer, "chunks": 1500}}).to_string());
    let mut terminal = EmulatedTerminal::start_chat(&sandbox);
    terminal.wait_prompt("you → a>");
    terminal.write("go\r");
    // Until the turn is over, the last line is one of the rows that each frame draws again, and a
    // look between the pieces of a frame would miss it.
    terminal.wait_idle("line 5000 日本 🙂");
    let lines = terminal.history();
    let seen: Vec<&String> = lines
        .iter()
        .filter(|line| line.starts_with("line "))
        .collect();
    let wrong = seen
        .iter()
        .enumerate()
        .find(|(at, line)| ***line != format!("line {} 日本 🙂", at + 1));
    assert_eq!(
        wrong.map(|(at, _)| &lines[at.saturating_sub(5)..lines.len().min(at + 8)]),
        None,
        "all lines in their order"
    );
    assert_eq!(seen.len(), 5000);
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.starts_with("you → a>"))
            .count(),
        2,
        "the input and the prompt"
    );
    terminal.write("/quit\r");
    assert_eq!(terminal.end(), 0);
    terminal.assert_clean();
}

#[test]
fn reasoning_is_folded_once_the_answer_begins() {
    let reply =
        json!({"reasoning": "First this.\nThen that.", "text": "So.", "finishReason": "length"});
    let sandbox = scripted(&json!({"default": reply}).to_string());
    let mut terminal = EmulatedTerminal::start_chat(&sandbox);
    terminal.wait_prompt("you → a>");
    terminal.write("go\r");
    terminal.wait_until(|rows| {
        let begins = |text: &str| rows.iter().position(|row| row.starts_with(text));
        let places = [
            begins("reasoning (2 lines)"),
            begins("So."),
            begins("warning: The answer is incomplete"),
        ];
        places.iter().all(Option::is_some) && places.is_sorted()
    });
    terminal.wait_prompt("you → a>");
    terminal.write("/reasoning\r");
    terminal.wait_until(|rows| rows.iter().any(|row| row == "Then that."));
    terminal.write("/quit\r");
    assert_eq!(terminal.end(), 0);
    terminal.assert_clean();
}

#[test]
fn the_cursor_follows_wide_characters() {
    let sandbox = scripted(ECHO);
    let mut terminal = EmulatedTerminal::start_chat(&sandbox);
    terminal.wait_prompt("you → a>");
    terminal.write("日本🙂e\u{301}");
    terminal.wait_prompt("you → a> 日本🙂e\u{301}");
    terminal.wait_cursor(|_, column| column == 9 + 2 + 2 + 2 + 1);
    terminal.write("\x1b[D\x1b[D\x7f語");
    terminal.wait_prompt("you → a> 日語🙂e\u{301}");
    terminal.wait_cursor(|_, column| column == 9 + 4);
    terminal.write("\x01x\x05y\r");
    terminal.wait_row("heard x日語🙂e\u{301}y");
}

#[test]
fn keys_edit_the_input_and_the_history_survives_a_restart() {
    let sandbox = scripted(ECHO);
    let mut terminal = EmulatedTerminal::start_chat(&sandbox);
    terminal.wait_prompt("you → a>");
    terminal.write("one two three\x17\x1bb\x0b2\x1b\rthree\r");
    terminal.wait_row("heard one 2");
    terminal.wait_idle("three");
    terminal.write("/quit\r");
    assert_eq!(terminal.end(), 0);
    terminal.assert_clean();
    let mut terminal = EmulatedTerminal::start_chat(&sandbox);
    terminal.wait_prompt("you → a>");
    terminal.write("\x1b[A\x1b[A");
    terminal.wait_until(|rows| {
        rows.iter().any(|row| row == "you → a> one 2")
            && rows.iter().any(|row| row == "         three")
    });
    // Down moves to the last line of the input, and then leaves the history.
    terminal.write("\x1b[B\x1b[B");
    terminal.wait_prompt("you → a>");
}

#[test]
fn two_hundred_pasted_lines_are_one_input() {
    let sandbox = scripted("default: {text: 'there were {{ input }}'}\n");
    let mut terminal = EmulatedTerminal::start_chat(&sandbox);
    terminal.wait_prompt("you → a>");
    let lines: String = (1..=200).map(|number| format!("row {number}\r")).collect();
    terminal.write(&format!("\x1b[200~{lines}\x03\x04end\x1b[201~"));
    terminal.wait_text("201 lines, 190 to 201");
    terminal.wait_prompt("         \\u{3}\\u{4}end");
    terminal.write("\r");
    terminal.wait_idle("\\u{3}\\u{4}end");
    let lines = terminal.history();
    assert!(
        lines.iter().any(|line| line == "  ⋮ 189 more lines"),
        "the input is repeated in part: {lines:#?}"
    );
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.starts_with("there were"))
            .count(),
        1,
        "one turn"
    );
    assert_eq!(
        lines.iter().filter(|line| *line == "row 150").count(),
        1,
        "the answer repeats all of it"
    );
}

#[test]
fn a_resized_terminal_shows_one_prompt() {
    let answer: String = (1..=400).map(|number| format!("line {number}\n")).collect();
    let script = json!({"agents": {"a": [run(WAIT), {"text": answer, "chunks": 400}]}});
    let sandbox = project_with_commands(&script, "{default: allow}");
    let mut terminal = EmulatedTerminal::start_chat(&sandbox);
    terminal.wait_prompt("you → a>");
    terminal.write("go\r");
    terminal.wait_text("a runs bash__exec");
    terminal.write("a line that goes on");
    for (height, width) in [(24, 40), (10, 30), (30, 120), (8, 20)] {
        terminal.resize(height, width);
        terminal.wait_until(|rows| {
            let prompts = rows
                .iter()
                .filter(|row| row.starts_with("you → a> a line"))
                .count();
            prompts == 1
                && rows
                    .iter()
                    .rfind(|row| !row.is_empty())
                    .is_some_and(|row| row.ends_with("on"))
        });
    }
    terminal.resize(24, 80);
    sandbox.write("p/go", "");
    for (height, width) in [(20, 70), (12, 100), (24, 60), (24, 80)] {
        terminal.resize(height, width);
    }
    terminal.wait_row("line 400");
    terminal.write("\x15done\r");
    terminal.wait_row("you → a> done");
    let drawn = terminal.bytes();
    let mut rest = drawn.as_str();
    for number in 1..=400 {
        let line = format!("line {number}\r\n");
        let at = rest
            .find(&line)
            .unwrap_or_else(|| panic!("{line:?} is missing"));
        rest = &rest[at + line.len()..];
    }
}

#[test]
fn ctrl_c_cancels_the_turn_then_clears_the_input_then_exits() {
    let sandbox = scripted(SLOW);
    let mut terminal = EmulatedTerminal::start_chat(&sandbox);
    terminal.wait_prompt("you → a>");
    terminal.write("slow\r");
    terminal.wait_text("a is thinking");
    terminal.write("what next\r");
    terminal.wait_row("joins: what next");
    terminal.write("and th");
    terminal.wait_prompt("you → a> and th");
    terminal.write("\x03");
    terminal.wait_row("Cancelled.");
    // The waiting input is not sent, but returns to the prompt.
    terminal.wait_until(|rows| {
        rows.iter().any(|row| row == "you → a> what next")
            && rows.iter().any(|row| row == "         and th")
    });
    terminal.write("\x03");
    terminal.wait_prompt("you → a>");
    terminal.write("\x03");
    terminal.wait_row("Press Ctrl-C again to leave, or keep typing.");
    terminal.write("h");
    terminal.wait_until(|rows| !rows.iter().any(|row| row.starts_with("Press Ctrl-C")));
    terminal.write("i\r");
    terminal.wait_idle("heard hi");
    terminal.write("\x03");
    terminal.wait_row("Press Ctrl-C again to leave, or keep typing.");
    terminal.write("\x03");
    assert_eq!(terminal.end(), 130);
    terminal.wait_text("error[INTERRUPTED]");
    terminal.assert_clean();
}

/// Creates a swarm whose first turn waits for the file `go`.
fn project_with_waiting_turn() -> Sandbox {
    let replies = json!([
        run(WAIT),
        {"text": "both done"},
        {"text": "later done"},
        {"text": "A summary."}
    ]);
    project_with_commands(&json!({"agents": {"a": replies}}), "{default: allow}")
}

/// Sends an input to a running turn, queues another input, undoes the last turn, and compacts the
/// conversation.
fn steer(sandbox: &Sandbox, terminal: &mut EmulatedTerminal) {
    terminal.wait_prompt("you → a>");
    terminal.write("one\r");
    terminal.wait_text("a runs bash__exec");
    terminal.write("/undo\r");
    terminal.wait_row("A turn is running. Wait for its end, or cancel it with /cancel.");
    terminal.write("tw");
    terminal.wait_row("Enter joins the running turn before its next step. Alt-Q queues the input.");
    terminal.write("o\r");
    terminal.wait_row("joins: two");
    terminal.write("/queue three\r");
    terminal.wait_row("next: three");
    sandbox.write("p/go", "");
    terminal.wait_idle("later done");
    let rows = terminal.history();
    let places = [
        "you → a> one",
        "you → a> two",
        "both done",
        "you → a> three",
        "later done",
    ]
    .map(|text| rows.iter().position(|row| row == text));
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{rows:#?}"
    );
    let answers = rows.iter().filter(|row| *row == "both done").count();
    assert_eq!(answers, 1, "{rows:#?}");
    terminal.write("/undo\r");
    terminal.wait_idle("Took back the last turn: three");
    terminal.write("/compact\r");
    terminal.wait_text("Compacted 5 messages to 1 message: about ");
    terminal.write("/undo\r");
    terminal.wait_idle("There is no input to take back.");
    terminal.write("/quit\r");
    assert_eq!(terminal.end(), 0);
    terminal.assert_clean();
}

#[test]
fn an_input_joins_the_running_turn_and_turns_are_taken_back() {
    let sandbox = project_with_waiting_turn();
    steer(&sandbox, &mut EmulatedTerminal::start_chat(&sandbox));
}

#[test]
fn an_input_joins_the_running_turn_of_another_process() {
    let sandbox = project_with_waiting_turn();
    let _serving = ServeProcess::start(&sandbox, &[]);
    steer(&sandbox, &mut EmulatedTerminal::start_chat(&sandbox));
}

#[test]
fn an_input_queued_during_a_turn_starts_the_next_turn() {
    let sandbox = project_with_commands(
        &json!({"agents": {"a": [run(WAIT), {"text": "first"}, {"text": "second"}]}}),
        "{default: allow}",
    );
    let mut terminal = EmulatedTerminal::start_chat(&sandbox);
    terminal.wait_prompt("you → a>");
    terminal.write("one\r");
    terminal.wait_text("a runs bash__exec");
    terminal.write("two\x1bq");
    terminal.wait_row("next: two");
    terminal.write("/usage\r");
    terminal.write("\x04");
    terminal.wait_row("A turn is running. Ctrl-D again cancels it and leaves.");
    sandbox.write("p/go", "");
    terminal.wait_row("second");
    let rows = terminal.wait_prompt("you → a>");
    let at = |text: &str| rows.iter().position(|row| row == text).unwrap();
    assert!(
        at("you → a> one") < at("first")
            && at("first") < at("you → a> two")
            && at("you → a> two") < at("second"),
        "{rows:#?}"
    );
    assert!(
        rows.iter().any(|row| row.starts_with("✓ bash__exec ")),
        "{rows:#?}"
    );
}

#[test]
fn a_running_command_shows_its_last_line_and_context_lists_its_parts() {
    let command = format!("echo starting; echo compiling; {WAIT}");
    let sandbox = project_with_commands(
        &json!({"agents": {"a": [run(&command), {"text": "done"}]}}),
        "{default: allow}",
    );
    let mut terminal = EmulatedTerminal::start_chat(&sandbox);
    terminal.wait_prompt("you → a>");
    terminal.write("one\r");
    terminal.wait_text("a: compiling");
    sandbox.write("p/go", "");
    terminal.wait_row("done");
    terminal.wait_prompt("you → a>");
    terminal.write("/context\r");
    terminal.wait_row("window       128000");
    let rows = terminal.wait_prompt("you → a>");
    for part in ["system", "skills", "tools", "messages", "results", "total"] {
        assert!(rows.iter().any(|row| row.starts_with(part)), "{rows:#?}");
    }
}

#[test]
fn a_signal_restores_the_terminal_settings() {
    for (signal, code) in [("TERM", 143), ("INT", 130), ("QUIT", 131)] {
        let sandbox = scripted(SLOW);
        let mut terminal = EmulatedTerminal::start_chat(&sandbox);
        terminal.wait_prompt("you → a>");
        terminal.write("dra");
        terminal.wait_prompt("you → a> dra");
        terminal.signal(signal);
        if signal == "INT" {
            terminal.wait_prompt("you → a>");
            for _ in 0..2 {
                terminal.signal(signal);
                terminal.wait_until(|rows| {
                    rows.iter()
                        .any(|row| row.contains("again to leave") || row.starts_with("error"))
                });
            }
        }
        assert_eq!(terminal.end(), code, "{signal}");
        terminal.assert_line_mode();
        if signal != "QUIT" {
            terminal.assert_clean();
        }
    }
}

#[test]
fn a_chat_is_suspended_and_resumed_by_job_control() {
    let sandbox = scripted(ECHO);
    let gdn = sandbox.command(&["run", "p"]);
    let mut shell = Command::new("bash");
    shell
        .args(["--norc", "--noprofile", "--noediting", "-i"])
        .current_dir(sandbox.dir());
    shell
        .envs(
            gdn.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env("PS1", "sh% ");
    shell
        .env("GDN", gdn.get_program())
        .env_remove("PROMPT_COMMAND");
    let mut terminal = EmulatedTerminal::start(shell, 24, 80);
    terminal.wait_prompt("sh%");
    terminal.write("\"$GDN\" run p\n");
    terminal.wait_prompt("you → a>");
    terminal.write("dra");
    terminal.wait_prompt("you → a> dra");
    for _ in 0..2 {
        terminal.write("\x1a");
        terminal.wait_text("Stopped");
        terminal.wait_prompt("sh%");
        terminal.assert_line_mode();
        terminal.write("clear; echo in the shell\n");
        terminal.wait_until(|rows| rows.first().is_some_and(|row| row == "in the shell"));
        terminal.write("fg\n");
        terminal.wait_prompt("you → a> dra");
    }
    terminal.write("ft\r");
    terminal.wait_idle("heard draft");
    terminal.write("/quit\r");
    terminal.wait_prompt("sh%");
    terminal.assert_clean();
    terminal.write("exit\n");
    terminal.end();
}

#[test]
fn an_approval_prompt_ignores_keys_typed_before_it_was_shown() {
    let script = json!({"agents": {"a": [
        run(WAIT), run("echo one"), run("echo two"), run("echo three"), {"text": "it is over"}
    ]}});
    let rules = format!(
        "{{default: allow, rules: [{{permission: execute, action: ask}}, {{tool: bash__*, args: {{command: '{WAIT}'}}, action: allow}}]}}"
    );
    let sandbox = project_with_commands(&script, &rules);
    sandbox.write(
        "p/goondan.yaml",
        &std::fs::read_to_string(sandbox.dir().join("p/goondan.yaml"))
            .unwrap()
            .replace("maxStepsPerTurn: 3", "maxStepsPerTurn: 9"),
    );
    let mut terminal = EmulatedTerminal::start_chat(&sandbox);
    terminal.wait_prompt("you → a>");
    terminal.write("go\r");
    terminal.wait_text("a runs bash__exec");
    terminal.write("y");
    terminal.wait_prompt("you → a> y");
    sandbox.write("p/go", "");
    // The approval request waits while the user types.
    terminal
        .wait_text("Press Esc for the approval request of a:main (bash__exec); your input stays.");
    terminal.write("\x1b");
    let question = "Allow this? [y]es, for this [c]onversation, [a]lways, [N]o:";
    let rows = terminal.wait_prompt(question);
    assert!(
        rows.iter().any(|row| row == "  │ command: echo one"),
        "{rows:#?}"
    );
    terminal.write("\r");
    terminal.wait_text("✗ bash__exec error");
    terminal.wait_prompt("you → a> y");
    terminal.write("\x7f");
    terminal.wait_prompt(question);
    terminal.wait_row("  │ command: echo two");
    terminal.write("yep\r");
    terminal.wait_row("That is not an answer. Type y, c, a or n, then Enter.");
    terminal.write("y\r");
    terminal.wait_row(&format!("{question} yes"));
    terminal.wait_row("  │ command: echo three");
    terminal.wait_prompt(question);
    terminal.write("\x03");
    terminal.wait_idle("Cancelled.");
    // Without a running turn, one Ctrl-D leaves the chat.
    terminal.write("\x04");
    assert_eq!(terminal.end(), 0);
    terminal.assert_clean();
}

#[test]
fn arrow_keys_choose_the_answer_to_a_request() {
    let script =
        json!({"agents": {"a": [run("echo one"), run("echo two"), {"text": "it is over"}]}});
    let sandbox = project_with_commands(&script, "{default: ask}");
    let mut terminal = EmulatedTerminal::start_chat(&sandbox);
    terminal.wait_prompt("you → a>");
    terminal.write("go\r");
    terminal.wait_row("  │ command: echo one");
    terminal.wait_row("▸ Do not allow");
    terminal.write("\x1b[A\x1b[A\x1b[A");
    terminal.wait_row("▸ Allow once");
    terminal.write("\r");
    terminal.wait_text("✓ bash__exec");
    terminal.wait_row("  │ command: echo two");
    // The choice of an earlier request is not kept.
    terminal.wait_row("▸ Do not allow");
    terminal.write("\r");
    terminal.wait_text("✗ bash__exec");
    terminal.wait_idle("it is over");
    terminal.write("/permissions\r");
    terminal.wait_row("ask    all calls");
    terminal.write("/tools\r");
    terminal.wait_text("bash__exec               ");
    terminal.write("/model\r");
    terminal.wait_text(": scripted ");
    terminal.write("/sessions\r");
    terminal.wait_row("Continue one with `/agent NAME` and `/key KEY`.");
    terminal.write("/quit\r");
    assert_eq!(terminal.end(), 0);
    terminal.assert_clean();
}

#[test]
fn tables_are_aligned_and_mentioned_files_are_attached() {
    let table = "| name | n |\n|---|---|\n| bees | 20 |\n";
    let script = json!({"rules": [{"when": {"contains": "inside"}, "reply": {"text": "attached"}}], "default": {"text": table}});
    let sandbox = scripted(&script.to_string());
    let mut terminal = EmulatedTerminal::start_chat(&sandbox);
    terminal.wait_prompt("you → a>");
    terminal.write("go\r");
    terminal.wait_row("name │ n");
    terminal.wait_row("bees │ 20");
    terminal.wait_prompt("you → a>");
    sandbox.write("note.txt", "inside the file");
    let path = sandbox.dir().join("note.txt");
    terminal.write(&format!("see @{}\r", path.display()));
    terminal.wait_idle("attached");
    terminal.write("/quit\r");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn keys_sent_before_an_approval_request_do_not_answer_it() {
    let script = json!({"agents": {"a": [run("echo risky"), {"text": "it is over"}]}});
    let sandbox = project_with_commands(&script, "{default: ask}");
    let mut terminal = EmulatedTerminal::start_chat(&sandbox);
    terminal.wait_prompt("you → a>");
    // All keys are sent before the approval request is shown.
    terminal.write("go\ry\ry\ra\r");
    let rows = terminal.wait_text("Allow this?");
    assert!(!rows.iter().any(|row| row.contains("[N]o: y")), "{rows:#?}");
    terminal.write("n\r");
    terminal.wait_text("✗ bash__exec error");
    let listed = sandbox.gdn(&["policy", "approvals", "-p", "p"]);
    assert!(!listed.stdout.contains("echo risky"), "{}", listed.stdout);
}

#[test]
fn called_agents_are_listed_below_the_waiting_call() {
    let script = json!({"agents": {
        "a": [{"calls": [{"tool": "agents__request", "args": {"target": "b", "input": "please"}}]}, {"text": "all done"}],
        "b": [run(WAIT), {"text": "done"}],
    }});
    let sandbox = scripted(&script.to_string());
    let agent = |name: &str, tool: &str| {
        format!(
            "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {{name: {name}}}\nspec: {{modelConfig: {{modelRef: Model/m}}, workdir: project, tools: [{{ref: Tool/{tool}}}], permissions: {{default: allow}}}}\n---\n"
        )
    };
    sandbox.write("p/goondan.yaml", &format!(
        "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {{name: m}}\nspec: {MODEL}\n---\n{}{}apiVersion: goondan.ai/v1\nkind: Swarm\nmetadata: {{name: s}}\nspec: {{entryAgent: Agent/a, agents: [{{ref: Agent/a}}, {{ref: Agent/b}}]}}\n",
        agent("a", "agents"), agent("b", "bash")
    ));
    let mut terminal = EmulatedTerminal::start_chat(&sandbox);
    terminal.wait_prompt("you → a>");
    terminal.write("go\r");
    let rows = terminal.wait_until(|rows| {
        rows.iter()
            .any(|row| row.trim_start().starts_with("└ b runs bash__exec"))
    });
    let below = rows
        .iter()
        .position(|row| row.starts_with("  └ b runs bash__exec"))
        .unwrap();
    assert!(
        rows[below - 1].contains(" a") && !rows[below - 1].contains('└'),
        "{rows:#?}"
    );
    sandbox.write("p/go", "");
    terminal.wait_row("all done");
    let rows = terminal.wait_prompt("you → a>");
    assert!(
        rows.iter().any(|row| row.starts_with("  b ✓ bash__exec")),
        "{rows:#?}"
    );
    assert!(
        rows.iter().any(|row| row.starts_with("✓ agents__request")),
        "{rows:#?}"
    );
    terminal.write("/agent \t\t");
    terminal.wait_row("a  b");
    terminal.write("b\r/agents\r");
    terminal.wait_row("▸ b");
    terminal.wait_prompt("you → b>");
}

#[test]
fn chat_commands_work_as_documented() {
    let sandbox = scripted(ECHO);
    let mut terminal = EmulatedTerminal::start(sandbox.command(&["run", "p"]), 40, 100);
    terminal.wait_prompt("you → a>");
    terminal.write("/us\t\r");
    terminal.wait_row("No model has reported its usage yet.");
    terminal.write("/nonsense\r");
    terminal.wait_row("Unknown command /nonsense; /help lists the commands.");
    terminal.write("/export\r");
    terminal.wait_text("The conversation a:main is empty.");
    terminal.write("hi\r");
    terminal.wait_idle("heard hi");
    terminal.write("/export out.jsonl\r");
    terminal.wait_row("Written to out.jsonl.");
    assert!(
        std::fs::read_to_string(sandbox.dir().join("out.jsonl"))
            .unwrap()
            .contains("heard hi")
    );
    terminal.write("/export out.jsonl\r");
    terminal.wait_text("can't be written to out.jsonl");
    terminal.write("/clear\r");
    terminal.wait_text("Return with `/key main`.");
    terminal.write("there\r");
    terminal.wait_idle("heard there");
    terminal.write("/reload\r");
    terminal.wait_text("no changes");
    terminal.write("/cancel\r");
    terminal.wait_row("No turn is running in this conversation.");
    terminal.write("/quit\r");
    assert_eq!(terminal.end(), 0);
    let listed = sandbox.gdn(&["instance", "list", "--all"]);
    assert!(listed.ok().contains("chat-2"), "{}", listed.stdout);
}

#[test]
fn a_plain_chat_is_used_with_plain_or_a_dumb_terminal() {
    let sandbox = scripted(ECHO);
    let frame = "\u{1b}[?2026h\u{1b}[?25l";
    for (arguments, variable) in [
        (&["run", "p", "--plain"][..], ("A", "b")),
        (&["run", "p"], ("TERM", "dumb")),
    ] {
        let mut command = sandbox.command(arguments);
        command.env(variable.0, variable.1);
        let mut terminal = EmulatedTerminal::start(command, 24, 80);
        terminal.wait_prompt("a>");
        terminal.write("hi\r");
        terminal.wait_idle("heard hi");
        terminal.write("/quit\r");
        assert_eq!(terminal.end(), 0);
        assert!(!terminal.bytes().contains(frame), "{:?}", terminal.bytes());
    }
    let mut command = sandbox.command(&["run", "p"]);
    command.env("NO_COLOR", "1");
    let mut terminal = EmulatedTerminal::start(command, 24, 80);
    terminal.wait_prompt("you → a>");
    terminal.write("**hi**\r");
    terminal.wait_idle("heard **hi**");
    terminal.write("/quit\r");
    assert_eq!(terminal.end(), 0);
    let styles = terminal.bytes().contains("\u{1b}[1m") || terminal.bytes().contains("\u{1b}[2m");
    assert!(
        terminal.bytes().contains(frame) && !styles,
        "{:?}",
        terminal.bytes()
    );
}

/// Asserts that the output contains only visible text, styles, and frames of the prompt with their
/// known sequences.
#[track_caller]
fn assert_framed(bytes: &str) {
    let (begin, end) = ("\u{1b}[?2026h\u{1b}[?25l", "\u{1b}[?25h\u{1b}[?2026l");
    let mut rest = bytes
        .replace("\u{1b}[?2004h", "")
        .replace("\u{1b}[?2004l", "");
    let mut frames = 0;
    let mut outside = String::new();
    while let Some((before, frame)) = rest.split_once(begin) {
        outside.push_str(before);
        let (frame, after) = frame.split_once(end).expect("the end of a frame");
        // A frame saves the cursor once, and restores it at its end.
        let frame = frame
            .strip_suffix("\u{1b}8")
            .unwrap_or(frame)
            .replacen("\u{1b}7", "", 1);
        // The cursor moves up within the rows of the prompt.
        let moves = |text: &str| {
            let mut parts = text.split("\u{1b}[");
            let first = parts.next().unwrap_or_default().to_owned();
            parts.fold(first, |done, part| match part.split_once('A') {
                Some((number, rest))
                    if number
                        .parse::<u8>()
                        .is_ok_and(|rows| (1..40).contains(&rows)) =>
                {
                    done + rest
                }
                _ => done + "\u{1b}[" + part,
            })
        };
        assert_harmless(&moves(&frame));
        frames += 1;
        rest = after.to_owned();
    }
    assert_harmless(&(outside + &rest));
    assert!(frames > 3, "{frames}");
}

#[test]
fn untrusted_text_cannot_control_the_terminal() {
    let hostile = hostile_texts();
    let call = |(index, text): (usize, &String)| match index % 2 {
        0 => json!({"id": format!("c{index}"), "tool": text, "args": {"x": text}}),
        _ => {
            json!({"id": format!("c{index}"), "tool": "text-transform__case", "args": {"text": text, "to": "upper"}})
        }
    };
    let calls: Vec<serde_json::Value> = hostile.iter().enumerate().map(call).collect();
    let answer = hostile.join(" ");
    let script = json!({"rules": [
        {"when": {"role": "user"}, "reply": {"text": answer, "calls": calls, "chunks": 700}},
        {"when": {"role": "tool"}, "reply": {"text": format!("{answer}\n# {answer}\n- **{answer}**\n```\n{answer}\n```\n"), "chunks": 900}},
    ]});
    let escaped = |c: char| match c {
        ' '..='~' => c.to_string(),
        c => format!("\\U{:08x}", u32::from(c)),
    };
    let sandbox = scripted(&script.to_string().chars().map(escaped).collect::<String>());
    let mut terminal =
        EmulatedTerminal::start(sandbox.command(&["run", "p", "-k", &hostile[2]]), 24, 120);
    terminal.wait_prompt("you → a>");
    terminal.write("go\r");
    terminal.wait_until(|rows| rows.iter().any(|row| row == "```"));
    // Pasted text is also untrusted.
    terminal.write("\x1b[200~");
    terminal.write(&answer.replace('\u{1b}', "\u{1b}\u{1b}"));
    terminal.write("\x1b[201~");
    terminal.wait_text(" lines, ");
    // Cancels the turn, clears the input, and leaves.
    terminal.write("\x03\x03\x03\x03\x03\x03");
    terminal.end();
    assert_framed(&terminal.bytes());
    assert!(
        !terminal
            .history()
            .iter()
            .any(|row| row.starts_with("error[E]") && !row.contains("\\u")),
        "no text looks like an error of gdn"
    );
}
