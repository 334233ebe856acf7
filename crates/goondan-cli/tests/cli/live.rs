//! A chat that has the terminal, as the terminal shows it.

use std::process::Command;

use serde_json::json;

use crate::hostile::{assert_harmless, texts};
use crate::projects::{ECHO, manifest, scripted};
use crate::sandbox::Sandbox;
use crate::serve::ServeProcess;
use crate::viewer::Viewer;

const MODEL: &str = "{provider: scripted, model: any, options: {script: script.yaml}}";

const SLOW: &str = "\
rules: [{when: {contains: slow}, reply: {text: late, delayMs: 600000}}]
default: {text: 'heard {{ input }}'}
";

/// Waits for the file `go` in the project, as a command of an agent.
const WAIT: &str = "until test -e go; do sleep 0.02; done";

/// A swarm of agent `a` whose commands run in the project.
fn working(script: &serde_json::Value, permissions: &str) -> Sandbox {
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
fn five_thousand_lines_are_all_there_and_the_prompt_stands_below() {
    let answer: String = (1..=5000)
        .map(|number| format!("line {number} 日本 🙂\n"))
        .collect();
    let sandbox = scripted(&json!({"default": {"text": answer, "chunks": 1500}}).to_string());
    let mut viewer = Viewer::sit_down(&sandbox);
    viewer.wait_prompt("you → a>");
    viewer.write("go\r");
    // Until the turn is over, the last line is one of the rows that each frame draws again, and a
    // look between the pieces of a frame would miss it.
    viewer.wait_idle("line 5000 日本 🙂");
    let lines = viewer.history();
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
        "in their order"
    );
    assert_eq!(seen.len(), 5000);
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.starts_with("you → a>"))
            .count(),
        2,
        "the input, and the prompt"
    );
    viewer.write("/quit\r");
    assert_eq!(viewer.end(), 0);
    viewer.assert_clean();
}

#[test]
fn reasoning_is_folded_once_the_answer_begins() {
    let reply =
        json!({"reasoning": "First this.\nThen that.", "text": "So.", "finishReason": "length"});
    let sandbox = scripted(&json!({"default": reply}).to_string());
    let mut viewer = Viewer::sit_down(&sandbox);
    viewer.wait_prompt("you → a>");
    viewer.write("go\r");
    viewer.wait(|rows| {
        let begins = |text: &str| rows.iter().position(|row| row.starts_with(text));
        let places = [
            begins("reasoning (2 lines)"),
            begins("So."),
            begins("warning: The answer is incomplete"),
        ];
        places.iter().all(Option::is_some) && places.is_sorted()
    });
    viewer.wait_prompt("you → a>");
    viewer.write("/reasoning\r");
    viewer.wait(|rows| rows.iter().any(|row| row == "Then that."));
    viewer.write("/quit\r");
    assert_eq!(viewer.end(), 0);
    viewer.assert_clean();
}

#[test]
fn the_cursor_stands_where_wide_letters_end() {
    let sandbox = scripted(ECHO);
    let mut viewer = Viewer::sit_down(&sandbox);
    viewer.wait_prompt("you → a>");
    viewer.write("日本🙂e\u{301}");
    viewer.wait_prompt("you → a> 日本🙂e\u{301}");
    viewer.wait_cursor(|_, column| column == 9 + 2 + 2 + 2 + 1);
    viewer.write("\x1b[D\x1b[D\x7f語");
    viewer.wait_prompt("you → a> 日語🙂e\u{301}");
    viewer.wait_cursor(|_, column| column == 9 + 4);
    viewer.write("\x01x\x05y\r");
    viewer.wait_row("heard x日語🙂e\u{301}y");
}

#[test]
fn keys_edit_and_earlier_inputs_come_back_in_the_next_chat() {
    let sandbox = scripted(ECHO);
    let mut viewer = Viewer::sit_down(&sandbox);
    viewer.wait_prompt("you → a>");
    viewer.write("one two three\x17\x1bb\x0b2\x1b\rthree\r");
    viewer.wait_row("heard one 2");
    viewer.wait_idle("three");
    viewer.write("/quit\r");
    assert_eq!(viewer.end(), 0);
    viewer.assert_clean();
    let mut viewer = Viewer::sit_down(&sandbox);
    viewer.wait_prompt("you → a>");
    viewer.write("\x1b[A\x1b[A");
    viewer.wait(|rows| {
        rows.iter().any(|row| row == "you → a> one 2")
            && rows.iter().any(|row| row == "         three")
    });
    // To the first line, and away.
    viewer.write("\x1b[B\x1b[B");
    viewer.wait_prompt("you → a>");
}

#[test]
fn two_hundred_pasted_lines_are_one_input() {
    let sandbox = scripted("default: {text: 'there were {{ input }}'}\n");
    let mut viewer = Viewer::sit_down(&sandbox);
    viewer.wait_prompt("you → a>");
    let lines: String = (1..=200).map(|number| format!("row {number}\r")).collect();
    viewer.write(&format!("\x1b[200~{lines}\x03\x04end\x1b[201~"));
    viewer.wait_text("201 lines, 190 to 201");
    viewer.wait_prompt("         \\u{3}\\u{4}end");
    viewer.write("\r");
    viewer.wait_idle("\\u{3}\\u{4}end");
    let lines = viewer.history();
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
fn a_terminal_that_changes_its_size_meanwhile_shows_one_prompt() {
    let answer: String = (1..=400).map(|number| format!("line {number}\n")).collect();
    let script = json!({"agents": {"a": [run(WAIT), {"text": answer, "chunks": 400}]}});
    let sandbox = working(&script, "{default: allow}");
    let mut viewer = Viewer::sit_down(&sandbox);
    viewer.wait_prompt("you → a>");
    viewer.write("go\r");
    viewer.wait_text("a runs bash__exec");
    viewer.write("a line that goes on");
    for (height, width) in [(24, 40), (10, 30), (30, 120), (8, 20)] {
        viewer.resize(height, width);
        viewer.wait(|rows| {
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
    viewer.resize(24, 80);
    sandbox.write("p/go", "");
    for (height, width) in [(20, 70), (12, 100), (24, 60), (24, 80)] {
        viewer.resize(height, width);
    }
    viewer.wait_row("line 400");
    viewer.write("\x15done\r");
    viewer.wait_row("you → a> done");
    let drawn = viewer.bytes();
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
fn ctrl_c_cancels_then_clears_then_leaves() {
    let sandbox = scripted(SLOW);
    let mut viewer = Viewer::sit_down(&sandbox);
    viewer.wait_prompt("you → a>");
    viewer.write("slow\r");
    viewer.wait_text("a is thinking");
    viewer.write("what next\r");
    viewer.wait_row("joins: what next");
    viewer.write("and th");
    viewer.wait_prompt("you → a> and th");
    viewer.write("\x03");
    viewer.wait_row("Cancelled.");
    // What waited is not sent: it is back at the prompt.
    viewer.wait(|rows| {
        rows.iter().any(|row| row == "you → a> what next")
            && rows.iter().any(|row| row == "         and th")
    });
    viewer.write("\x03");
    viewer.wait_prompt("you → a>");
    viewer.write("\x03");
    viewer.wait_row("Press Ctrl-C again to leave, or keep typing.");
    viewer.write("h");
    viewer.wait(|rows| !rows.iter().any(|row| row.starts_with("Press Ctrl-C")));
    viewer.write("i\r");
    viewer.wait_idle("heard hi");
    viewer.write("\x03");
    viewer.wait_row("Press Ctrl-C again to leave, or keep typing.");
    viewer.write("\x03");
    assert_eq!(viewer.end(), 130);
    viewer.wait_text("error[INTERRUPTED]");
    viewer.assert_clean();
}

/// A swarm whose first turn waits for the file `go`, and whose later replies count.
fn steered() -> Sandbox {
    let replies = json!([
        run(WAIT),
        {"text": "both done"},
        {"text": "later done"},
        {"text": "A summary."}
    ]);
    working(&json!({"agents": {"a": replies}}), "{default: allow}")
}

/// Steers a turn, queues an input, takes the last turn back and compacts the rest.
fn steer(sandbox: &Sandbox, viewer: &mut Viewer) {
    viewer.wait_prompt("you → a>");
    viewer.write("one\r");
    viewer.wait_text("a runs bash__exec");
    viewer.write("/undo\r");
    viewer.wait_row("A turn is running. Wait for its end, or cancel it with /cancel.");
    viewer.write("tw");
    viewer.wait_row("Enter joins the running turn before its next step. Alt-Q queues the input.");
    viewer.write("o\r");
    viewer.wait_row("joins: two");
    viewer.write("/queue three\r");
    viewer.wait_row("next: three");
    sandbox.write("p/go", "");
    viewer.wait_idle("later done");
    let rows = viewer.history();
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
    viewer.write("/undo\r");
    viewer.wait_idle("Took back the last turn: three");
    viewer.write("/compact\r");
    viewer.wait_text("Compacted 5 messages to 1 message: about ");
    viewer.write("/undo\r");
    viewer.wait_idle("There is no input to take back.");
    viewer.write("/quit\r");
    assert_eq!(viewer.end(), 0);
    viewer.assert_clean();
}

#[test]
fn an_input_joins_the_running_turn_and_turns_are_taken_back() {
    let sandbox = steered();
    steer(&sandbox, &mut Viewer::sit_down(&sandbox));
}

#[test]
fn a_turn_of_another_process_is_steered_too() {
    let sandbox = steered();
    let _serving = ServeProcess::start(&sandbox, &[]);
    steer(&sandbox, &mut Viewer::sit_down(&sandbox));
}

#[test]
fn what_is_typed_while_a_turn_runs_is_the_next_input() {
    let sandbox = working(
        &json!({"agents": {"a": [run(WAIT), {"text": "first"}, {"text": "second"}]}}),
        "{default: allow}",
    );
    let mut viewer = Viewer::sit_down(&sandbox);
    viewer.wait_prompt("you → a>");
    viewer.write("one\r");
    viewer.wait_text("a runs bash__exec");
    viewer.write("two\x1bq");
    viewer.wait_row("next: two");
    viewer.write("/usage\r");
    viewer.write("\x04");
    viewer.wait_row("A turn is running. Ctrl-D again cancels it and leaves.");
    sandbox.write("p/go", "");
    viewer.wait_row("second");
    let rows = viewer.wait_prompt("you → a>");
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
fn a_running_command_shows_its_last_line_and_the_context_its_parts() {
    let command = format!("echo starting; echo compiling; {WAIT}");
    let sandbox = working(
        &json!({"agents": {"a": [run(&command), {"text": "done"}]}}),
        "{default: allow}",
    );
    let mut viewer = Viewer::sit_down(&sandbox);
    viewer.wait_prompt("you → a>");
    viewer.write("one\r");
    viewer.wait_text("a: compiling");
    sandbox.write("p/go", "");
    viewer.wait_row("done");
    viewer.wait_prompt("you → a>");
    viewer.write("/context\r");
    viewer.wait_row("window       128000");
    let rows = viewer.wait_prompt("you → a>");
    for part in ["system", "skills", "tools", "messages", "results", "total"] {
        assert!(rows.iter().any(|row| row.starts_with(part)), "{rows:#?}");
    }
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    for (signal, code) in [("TERM", 143), ("INT", 130), ("QUIT", 131)] {
        let sandbox = scripted(SLOW);
        let mut viewer = Viewer::sit_down(&sandbox);
        viewer.wait_prompt("you → a>");
        viewer.write("dra");
        viewer.wait_prompt("you → a> dra");
        viewer.signal(signal);
        if signal == "INT" {
            viewer.wait_prompt("you → a>");
            for _ in 0..2 {
                viewer.signal(signal);
                viewer.wait(|rows| {
                    rows.iter()
                        .any(|row| row.contains("again to leave") || row.starts_with("error"))
                });
            }
        }
        assert_eq!(viewer.end(), code, "{signal}");
        viewer.assert_as_before();
        if signal != "QUIT" {
            viewer.assert_clean();
        }
    }
}

#[test]
fn a_chat_stops_and_goes_on_as_jobs_do() {
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
    let mut viewer = Viewer::at(shell, 24, 80);
    viewer.wait_prompt("sh%");
    viewer.write("\"$GDN\" run p\n");
    viewer.wait_prompt("you → a>");
    viewer.write("dra");
    viewer.wait_prompt("you → a> dra");
    for _ in 0..2 {
        viewer.write("\x1a");
        viewer.wait_text("Stopped");
        viewer.wait_prompt("sh%");
        viewer.assert_as_before();
        viewer.write("clear; echo in the shell\n");
        viewer.wait(|rows| rows.first().is_some_and(|row| row == "in the shell"));
        viewer.write("fg\n");
        viewer.wait_prompt("you → a> dra");
    }
    viewer.write("ft\r");
    viewer.wait_idle("heard draft");
    viewer.write("/quit\r");
    viewer.wait_prompt("sh%");
    viewer.assert_clean();
    viewer.write("exit\n");
    viewer.end();
}

#[test]
fn a_question_stands_in_the_place_of_the_prompt_and_only_what_is_typed_then_answers() {
    let script = json!({"agents": {"a": [
        run(WAIT), run("echo one"), run("echo two"), run("echo three"), {"text": "it is over"}
    ]}});
    let rules = format!(
        "{{default: allow, rules: [{{permission: execute, action: ask}}, {{tool: bash__*, args: {{command: '{WAIT}'}}, action: allow}}]}}"
    );
    let sandbox = working(&script, &rules);
    sandbox.write(
        "p/goondan.yaml",
        &std::fs::read_to_string(sandbox.dir().join("p/goondan.yaml"))
            .unwrap()
            .replace("maxStepsPerTurn: 3", "maxStepsPerTurn: 9"),
    );
    let mut viewer = Viewer::sit_down(&sandbox);
    viewer.wait_prompt("you → a>");
    viewer.write("go\r");
    viewer.wait_text("a runs bash__exec");
    viewer.write("y");
    viewer.wait_prompt("you → a> y");
    sandbox.write("p/go", "");
    // Somebody types: the question waits.
    viewer
        .wait_text("Press Esc for the approval request of a:main (bash__exec); your input stays.");
    viewer.write("\x1b");
    let question = "Allow this? [y]es, for this [c]onversation, [a]lways, [N]o:";
    let rows = viewer.wait_prompt(question);
    assert!(
        rows.iter().any(|row| row == "  │ command: echo one"),
        "{rows:#?}"
    );
    viewer.write("\r");
    viewer.wait_text("✗ bash__exec error");
    viewer.wait_prompt("you → a> y");
    viewer.write("\x7f");
    viewer.wait_prompt(question);
    viewer.wait_row("  │ command: echo two");
    viewer.write("yep\r");
    viewer.wait_row("That is not an answer. Type y, c, a or n, then Enter.");
    viewer.write("y\r");
    viewer.wait_row(&format!("{question} yes"));
    viewer.wait_row("  │ command: echo three");
    viewer.wait_prompt(question);
    viewer.write("\x03");
    viewer.wait_idle("Cancelled.");
    // Nothing runs any more, so once is enough.
    viewer.write("\x04");
    assert_eq!(viewer.end(), 0);
    viewer.assert_clean();
}

#[test]
fn arrow_keys_choose_the_answer_to_a_request() {
    let script =
        json!({"agents": {"a": [run("echo one"), run("echo two"), {"text": "it is over"}]}});
    let sandbox = working(&script, "{default: ask}");
    let mut viewer = Viewer::sit_down(&sandbox);
    viewer.wait_prompt("you → a>");
    viewer.write("go\r");
    viewer.wait_row("  │ command: echo one");
    viewer.wait_row("▸ Do not allow");
    viewer.write("\x1b[A\x1b[A\x1b[A");
    viewer.wait_row("▸ Allow once");
    viewer.write("\r");
    viewer.wait_text("✓ bash__exec");
    viewer.wait_row("  │ command: echo two");
    // The choice of an earlier request is not kept.
    viewer.wait_row("▸ Do not allow");
    viewer.write("\r");
    viewer.wait_text("✗ bash__exec");
    viewer.wait_idle("it is over");
    viewer.write("/permissions\r");
    viewer.wait_row("ask    all calls");
    viewer.write("/tools\r");
    viewer.wait_text("bash__exec               ");
    viewer.write("/model\r");
    viewer.wait_text(": scripted ");
    viewer.write("/sessions\r");
    viewer.wait_row("Continue one with `/agent NAME` and `/key KEY`.");
    viewer.write("/quit\r");
    assert_eq!(viewer.end(), 0);
    viewer.assert_clean();
}

#[test]
fn tables_are_aligned_and_named_files_are_attached() {
    let table = "| name | n |\n|---|---|\n| bees | 20 |\n";
    let script = json!({"rules": [{"when": {"contains": "inside"}, "reply": {"text": "attached"}}], "default": {"text": table}});
    let sandbox = scripted(&script.to_string());
    let mut viewer = Viewer::sit_down(&sandbox);
    viewer.wait_prompt("you → a>");
    viewer.write("go\r");
    viewer.wait_row("name │ n");
    viewer.wait_row("bees │ 20");
    viewer.wait_prompt("you → a>");
    sandbox.write("note.txt", "inside the file");
    let path = sandbox.dir().join("note.txt");
    viewer.write(&format!("see @{}\r", path.display()));
    viewer.wait_idle("attached");
    viewer.write("/quit\r");
    assert_eq!(viewer.end(), 0);
}

#[test]
fn keys_of_the_moment_before_answer_nothing() {
    let script = json!({"agents": {"a": [run("echo risky"), {"text": "it is over"}]}});
    let sandbox = working(&script, "{default: ask}");
    let mut viewer = Viewer::sit_down(&sandbox);
    viewer.wait_prompt("you → a>");
    // All of it is there before anything can have been asked.
    viewer.write("go\ry\ry\ra\r");
    let asked = viewer.wait_text("Allow this?");
    assert!(
        !asked.iter().any(|row| row.contains("[N]o: y")),
        "{asked:#?}"
    );
    viewer.write("n\r");
    viewer.wait_text("✗ bash__exec error");
    let told = sandbox.gdn(&["policy", "approvals", "-p", "p"]);
    assert!(!told.stdout.contains("echo risky"), "{}", told.stdout);
}

#[test]
fn agents_stand_below_the_call_that_waits_for_them() {
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
    let mut viewer = Viewer::sit_down(&sandbox);
    viewer.wait_prompt("you → a>");
    viewer.write("go\r");
    let rows = viewer.wait(|rows| {
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
    viewer.wait_row("all done");
    let rows = viewer.wait_prompt("you → a>");
    assert!(
        rows.iter().any(|row| row.starts_with("  b ✓ bash__exec")),
        "{rows:#?}"
    );
    assert!(
        rows.iter().any(|row| row.starts_with("✓ agents__request")),
        "{rows:#?}"
    );
    viewer.write("/agent \t\t");
    viewer.wait_row("a  b");
    viewer.write("b\r/agents\r");
    viewer.wait_row("▸ b");
    viewer.wait_prompt("you → b>");
}

#[test]
fn commands_do_what_help_says() {
    let sandbox = scripted(ECHO);
    let mut viewer = Viewer::at(sandbox.command(&["run", "p"]), 40, 100);
    viewer.wait_prompt("you → a>");
    viewer.write("/us\t\r");
    viewer.wait_row("No model has reported its usage yet.");
    viewer.write("/nonsense\r");
    viewer.wait_row("Unknown command /nonsense; /help lists the commands.");
    viewer.write("/export\r");
    viewer.wait_text("The conversation a:main is empty.");
    viewer.write("hi\r");
    viewer.wait_idle("heard hi");
    viewer.write("/export out.jsonl\r");
    viewer.wait_row("Written to out.jsonl.");
    assert!(
        std::fs::read_to_string(sandbox.dir().join("out.jsonl"))
            .unwrap()
            .contains("heard hi")
    );
    viewer.write("/export out.jsonl\r");
    viewer.wait_text("can't be written to out.jsonl");
    viewer.write("/clear\r");
    viewer.wait_text("Return with `/key main`.");
    viewer.write("there\r");
    viewer.wait_idle("heard there");
    viewer.write("/reload\r");
    viewer.wait_text("no changes");
    viewer.write("/cancel\r");
    viewer.wait_row("No turn is running in this conversation.");
    viewer.write("/quit\r");
    assert_eq!(viewer.end(), 0);
    let listed = sandbox.gdn(&["instance", "list", "--all"]);
    assert!(listed.ok().contains("chat-2"), "{}", listed.stdout);
}

#[test]
fn plain_lines_where_they_are_wanted_or_all_that_there_is() {
    let sandbox = scripted(ECHO);
    let frame = "\u{1b}[?2026h\u{1b}[?25l";
    for (arguments, variable) in [
        (&["run", "p", "--plain"][..], ("A", "b")),
        (&["run", "p"], ("TERM", "dumb")),
    ] {
        let mut command = sandbox.command(arguments);
        command.env(variable.0, variable.1);
        let mut viewer = Viewer::at(command, 24, 80);
        viewer.wait_prompt("a>");
        viewer.write("hi\r");
        viewer.wait_idle("heard hi");
        viewer.write("/quit\r");
        assert_eq!(viewer.end(), 0);
        assert!(!viewer.bytes().contains(frame), "{:?}", viewer.bytes());
    }
    let mut command = sandbox.command(&["run", "p"]);
    command.env("NO_COLOR", "1");
    let mut viewer = Viewer::at(command, 24, 80);
    viewer.wait_prompt("you → a>");
    viewer.write("**hi**\r");
    viewer.wait_idle("heard **hi**");
    viewer.write("/quit\r");
    assert_eq!(viewer.end(), 0);
    let styles = viewer.bytes().contains("\u{1b}[1m") || viewer.bytes().contains("\u{1b}[2m");
    assert!(
        viewer.bytes().contains(frame) && !styles,
        "{:?}",
        viewer.bytes()
    );
}

/// Fails where anything came to the terminal but what a person sees, styles, and the frames of the prompt, each with exactly
/// the sequences that it has.
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
        let (frame, after) = frame.split_once(end).expect("a frame ends");
        // Where the cursor is, and back to it at the end: once each.
        let frame = frame
            .strip_suffix("\u{1b}8")
            .unwrap_or(frame)
            .replacen("\u{1b}7", "", 1);
        // Up and down within the rows at the bottom, at the beginning of a line.
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
fn what_strangers_wrote_does_nothing_to_the_terminal() {
    let hostile = texts();
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
    let mut viewer = Viewer::at(sandbox.command(&["run", "p", "-k", &hostile[2]]), 24, 120);
    viewer.wait_prompt("you → a>");
    viewer.write("go\r");
    viewer.wait(|rows| rows.iter().any(|row| row == "```"));
    // What is pasted is a stranger's, too.
    viewer.write("\x1b[200~");
    viewer.write(&answer.replace('\u{1b}', "\u{1b}\u{1b}"));
    viewer.write("\x1b[201~");
    viewer.wait_text(" lines, ");
    // Whatever still runs or stands there.
    viewer.write("\x03\x03\x03\x03\x03\x03");
    viewer.end();
    assert_framed(&viewer.bytes());
    assert!(
        !viewer
            .history()
            .iter()
            .any(|row| row.starts_with("error[E]") && !row.contains("\\u")),
        "no imitation"
    );
}
