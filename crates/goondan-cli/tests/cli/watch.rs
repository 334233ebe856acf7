//! `gdn run --watch`: the running swarm reloads files that users, editors and compilers change.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::projects::{ECHO, manifest, scripted};
use crate::sandbox::Sandbox;

/// Timeout of a wait for output, after which the test fails.
const TIMEOUT: Duration = Duration::from_secs(90);

/// A running swarm, with all lines that it prints.
pub(crate) struct WatchedSwarm {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl WatchedSwarm {
    /// Starts the project `p`, and waits for a first answer.
    pub(crate) fn start(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        WatchedSwarm::start_command(
            sandbox.command(&[&["run", "p", "--input-format", "stream-json"], arguments].concat()),
        )
    }

    /// Starts `command`, and waits for a first answer.
    pub(crate) fn start_command(mut command: Command) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), lines(child.stdout.take().unwrap()));
        let stderr = lines(child.stderr.take().unwrap());
        let mut swarm = WatchedSwarm {
            child,
            stdin,
            stdout,
            stderr,
        };
        swarm.ask("are you there?");
        swarm
    }

    fn next(&self) -> Value {
        let line = self.stdout.recv_timeout(TIMEOUT).unwrap_or_else(|_| {
            panic!(
                "no output; standard error: {:?}",
                self.stderr.try_iter().collect::<Vec<_>>()
            )
        });
        serde_json::from_str(&line).unwrap()
    }

    pub(crate) fn until(&self, kind: &str) -> Value {
        loop {
            let event = self.next();
            if event["type"] == kind {
                return event;
            }
        }
    }

    /// Reads until the next reload event.
    pub(crate) fn reload(&self) -> Value {
        loop {
            let event = self.next();
            if event["type"].as_str().unwrap().starts_with("reload.") {
                return event;
            }
        }
    }

    pub(crate) fn send(&mut self, input: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{}", json!({"input": input})).unwrap();
    }

    pub(crate) fn ask(&mut self, input: &str) -> String {
        self.send(input);
        self.until("result")["response"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Reads standard error until a line contains `text`. Returns the line.
    fn stderr_line_with(&self, text: &str) -> String {
        loop {
            let line = self
                .stderr
                .recv_timeout(TIMEOUT)
                .unwrap_or_else(|_| panic!("no line with `{text}`"));
            if line.contains(text) {
                return line;
            }
        }
    }

    pub(crate) fn end(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

fn lines(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            // The receiver is gone when the test has ended.
            let _ = sender.send(line);
        }
    });
    receiver
}

/// Replaces a file with a new file, as editors do.
fn replace(path: &Path, text: &str) {
    let fresh = path.with_extension("new~");
    fs::write(&fresh, text).unwrap();
    fs::rename(&fresh, path).unwrap();
}

#[test]
fn edited_files_are_reloaded_for_the_next_turn() {
    let sandbox = scripted(ECHO);
    let path = |name: &str| sandbox.dir().join("p").join(name);
    let mut running = WatchedSwarm::start(&sandbox, &["--watch", "--record", "asked.jsonl"]);

    // The file is written in place, replaced, and removed and written again.
    for (round, save) in [fs_write as fn(&Path, &str), replace, remove_and_write]
        .into_iter()
        .enumerate()
    {
        save(
            &path("script.yaml"),
            &format!("default: {{text: round {round}}}\n"),
        );
        let reload = running.reload();
        assert_eq!(
            (&reload["type"], &reload["changed"]),
            (&json!("reload.completed"), &json!(["Model/m"]))
        );
        let model =
            json!([{"name": "a", "effect": "changed", "nextStep": [], "nextTurn": ["model"]}]);
        assert_eq!(reload["agents"], model);
        assert_eq!(running.ask("well?"), format!("round {round}"));
    }

    // The prompt file and the changed YAML are both new.
    let text = fs::read_to_string(path("goondan.yaml")).unwrap();
    fs::write(path("prompt.md"), "Be kind.").unwrap();
    replace(
        &path("goondan.yaml"),
        &text.replace("  tools:", "  prompt: {systemRef: prompt.md}\n  tools:"),
    );
    assert_eq!(running.reload()["changed"], json!(["Agent/a"]));
    replace(&path("prompt.md"), "Be brief.");
    let reload = running.reload();
    assert_eq!(reload["agents"][0]["nextTurn"], json!(["prompt"]));
    assert_eq!(reload["generation"], 6);
    running.ask("how?");
    let asked = fs::read_to_string(sandbox.dir().join("asked.jsonl")).unwrap();
    let last: Value = serde_json::from_str(asked.lines().last().unwrap()).unwrap();
    assert_eq!(last["request"]["system"], "Be brief.");

    // A new file in a new directory.
    fs::create_dir(path("tools")).unwrap();
    let tool = "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {name: nap}\nspec: {entry: 'builtin:wait'}\n";
    fs::write(path("tools/nap.yaml"), tool).unwrap();
    assert_eq!(running.reload()["added"], json!(["Tool/nap"]));
    fs::remove_file(path("tools/nap.yaml")).unwrap();
    assert_eq!(running.reload()["removed"], json!(["Tool/nap"]));
    running.end();
}

fn fs_write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
}

fn remove_and_write(path: &Path, text: &str) {
    fs::remove_file(path).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn an_invalid_edit_is_ignored_until_it_is_fixed() {
    let sandbox = scripted(ECHO);
    let path = sandbox.dir().join("p/goondan.yaml");
    let good = fs::read_to_string(&path).unwrap();
    let mut running = WatchedSwarm::start(&sandbox, &["--watch"]);
    replace(&path, &good.replace("Model/m}", "Model/nobody}"));
    let failed = running.reload();
    assert_eq!(
        (&failed["type"], &failed["diagnostics"]),
        (&json!("reload.failed"), &json!(1))
    );
    assert!(
        failed["messages"][0]
            .as_str()
            .unwrap()
            .contains("E_CONFIG_REF_NOT_FOUND"),
        "{failed}"
    );
    assert_eq!(running.ask("still there?"), "heard still there?");
    // The file is removed, and restored with its old content.
    fs::remove_file(&path).unwrap();
    assert_eq!(running.reload()["type"], "reload.failed");
    fs::write(&path, &good).unwrap();
    let restored = running.reload();
    assert_eq!(
        (&restored["type"], &restored["generation"]),
        (&json!("reload.completed"), &json!(1))
    );
    running.end();
}

#[test]
fn each_reload_is_reported_on_one_line() {
    let sandbox = scripted(ECHO);
    let mut running = WatchedSwarm::start(&sandbox, &["--watch", "--output-format", "json"]);
    sandbox.write("p/script.yaml", "default: {text: other}\n");
    let line = running.stderr_line_with("Generation");
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("plan line", line));
    assert_eq!(running.ask("hm?"), "other");
    sandbox.write("p/script.yaml", "default: {txt: other}\n");
    let line = running.stderr_line_with("Not reloaded");
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("refused line", line));
    assert!(running.stderr_line_with("txt").contains("script"));
    running.end();
}

#[test]
fn changed_env_files_are_reloaded() {
    let sandbox = Sandbox::new();
    let model = "{provider: scripted, model: any, apiKey: {valueFrom: {env: KEY}}, options: {script: script.yaml}}";
    sandbox.write("p/goondan.yaml", &manifest(model, ""));
    sandbox.write("p/script.yaml", ECHO);
    sandbox.write("p/.env", "KEY=one\n");
    let running = WatchedSwarm::start(&sandbox, &["--watch"]);
    sandbox.write("p/.env", "KEY=two\n");
    assert_eq!(running.reload()["changed"], json!(["Model/m"]));
    sandbox.write("p/.env", "OTHER=three\n");
    let failed = running.reload();
    assert!(
        failed["messages"][0]
            .as_str()
            .unwrap()
            .contains("E_CONFIG_ENV_MISSING"),
        "{failed}"
    );
    sandbox.write("p/.env.local", "KEY=four\n");
    assert_eq!(running.reload()["type"], "reload.completed");
    running.end();
}

/// Returns the source of the example library in C, whose tool returns `word`.
pub(crate) fn source(word: &str) -> String {
    let example = fs::read_to_string(plugins().join("c-reverse/reverse.c")).unwrap();
    let (before, rest) = example.split_once("/* Finds the argument").unwrap();
    let (_, after) = rest.split_once("static void cancel").unwrap();
    let answer = format!("{{\\\"output\\\":\\\"{word}\\\"}}");
    format!(
        "{before}static goondan_status start(void *self, uint64_t call, goondan_bytes request) {{\n  (void)self, (void)request;\n  \
         the_host->complete(the_host->ctx, call, GOONDAN_OK, text(\"{answer}\"));\n  return GOONDAN_OK;\n}}\n\
         static void cancel{after}"
    )
}

fn plugins() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plugins")
}

pub(crate) fn compiler() -> String {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    format!("cc -shared -fPIC -I '{}'", include.display())
}

fn compile(sandbox: &Sandbox, word: &str, to: &str) {
    sandbox.write(&format!("{word}.c"), &source(word));
    let line = format!("{} {word}.c -o {to}", compiler());
    assert!(
        Command::new("sh")
            .args(["-c", &line])
            .current_dir(sandbox.dir())
            .status()
            .unwrap()
            .success()
    );
}

/// Creates a project whose model calls the tool of the library, and answers with its result.
fn with_library(build: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let model = "{provider: scripted, model: any, options: {script: script.yaml}}";
    let tool = format!(
        "---\napiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: say}}\nspec:\n  entry: ./lib/say\n{build}"
    );
    let text = manifest(model, "").replace("{ref: Tool/bash}", "{ref: Tool/say}");
    sandbox.write("p/goondan.yaml", &format!("{text}{tool}"));
    let script = "rules:\n  - when: {role: user}\n    reply: {calls: [{id: c, tool: say__reverse, args: {text: x}}]}\n  \
                  - when: {role: tool}\n    reply: {text: '{{ results.c.output }}'}\n";
    sandbox.write("p/script.yaml", script);
    sandbox
}

#[test]
fn a_rewritten_library_is_reloaded() {
    let sandbox = with_library("");
    compile(&sandbox, "one", "one.so");
    compile(&sandbox, "two", "two.so");
    fs::create_dir_all(sandbox.dir().join("p/lib")).unwrap();
    let library = sandbox.dir().join("p/lib/libsay.so");
    fs::copy(sandbox.dir().join("one.so"), &library).unwrap();
    let mut running = WatchedSwarm::start(&sandbox, &["--watch"]);
    assert_eq!(running.ask("now?"), "one");
    // The library in use is overwritten in pieces, as a linker may do.
    let built = fs::read(sandbox.dir().join("two.so")).unwrap();
    let mut file = fs::File::create(&library).unwrap();
    built
        .chunks(built.len() / 3)
        .for_each(|piece| file.write_all(piece).unwrap());
    drop(file);
    let reload = running.reload();
    assert_eq!(reload["changed"], json!(["Tool/say"]), "{reload}");
    assert_eq!(reload["agents"][0]["nextStep"], json!(["tools"]));
    assert_eq!(running.ask("and now?"), "two");
    fs::write(&library, "no library").unwrap();
    assert_eq!(running.reload()["type"], "reload.failed");
    assert_eq!(running.ask("still?"), "two");
    running.end();
}

#[test]
fn a_changed_source_is_built_and_reloaded() {
    let build = format!(
        "  build: {{command: \"{} say.c -o lib/libsay.so\", sources: ['*.c']}}\n",
        compiler()
    );
    let sandbox = with_library(&build);
    sandbox.write("p/say.c", &source("one"));
    fs::create_dir_all(sandbox.dir().join("p/lib")).unwrap();
    let mut running = WatchedSwarm::start(&sandbox, &["--watch", "--build"]);
    assert_eq!(running.ask("now?"), "one");
    replace(&sandbox.dir().join("p/say.c"), &source("two"));
    assert_eq!(running.reload()["changed"], json!(["Tool/say"]));
    assert_eq!(running.ask("and now?"), "two");
    // The compiler error is reported, and the old library stays in use.
    sandbox.write("p/say.c", "this is no C");
    let failed = running.reload();
    assert!(
        failed["messages"][0]
            .as_str()
            .unwrap()
            .contains("the build of Tool/say failed"),
        "{failed}"
    );
    assert_eq!(running.ask("still?"), "two");
    sandbox.write("p/say.c", &source("three"));
    assert_eq!(running.reload()["changed"], json!(["Tool/say"]));
    assert_eq!(running.ask("at last?"), "three");
    running.end();
}

#[test]
fn the_reload_command_reloads_and_previews_changes() {
    let sandbox = scripted(ECHO);
    let not_running = sandbox.gdn(&["reload", "p"]);
    let not_running_dry_run = sandbox.gdn(&["reload", "p", "--dry-run"]);
    let mut running = WatchedSwarm::start(&sandbox, &[]);
    sandbox.write("p/script.yaml", "default: {text: other}\n");
    sandbox.write("copy/script.yaml", "default: {text: other}\n");
    let text = manifest(
        "{provider: scripted, model: any, options: {script: script.yaml}}",
        "workdir: project",
    );
    sandbox.write("copy/goondan.yaml", &text);
    let shown = sandbox.gdn_in("p", &["reload", "--dry-run", "../copy"]);
    let elsewhere = sandbox.gdn(&["reload", "copy"]);
    assert_eq!(running.ask("nothing yet?"), "heard nothing yet?");
    let reloaded = sandbox.gdn(&["reload", "p"]);
    assert_eq!(running.ask("and now?"), "other");
    sandbox.write("p/script.yaml", "default: {txt: other}\n");
    let refused = sandbox.gdn(&["reload", "p"]);
    running.end();
    let reports = [
        not_running,
        not_running_dry_run,
        shown,
        elsewhere,
        reloaded,
        refused,
    ];
    let text = reports.map(|outcome| outcome.report()).join("\n");
    let mut settings = sandbox.settings();
    settings.add_filter(r"[Pp]rocess \d+", "process [PID]");
    settings.bind(|| insta::assert_snapshot!("reload by hand", text));
}
