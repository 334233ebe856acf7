//! Projects that need trust: no code runs before, and all of it runs after `gdn trust`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use crate::projects::{ECHO, manifest, scripted};
use crate::pty_session::PtySession;
use crate::sandbox::{Outcome, Sandbox};
use crate::watch::{WatchedSwarm, compiler, source};

const MODEL: &str = "{provider: scripted, model: any, options: {script: script.yaml}}";
const ALLOW: &str = "permissions: {default: allow}";

/// Runs `gdn` without trust in any project, and with empty standard input.
fn gdn(sandbox: &Sandbox, arguments: &[&str]) -> Outcome {
    sandbox.run_command(sandbox.command_without_trust(arguments))
}

/// Creates a project `p` whose model calls `tool` with `arguments`, and whose agent has the Tool
/// `reference`. `more` is appended to the manifest.
fn project_calling(reference: &str, tool: &str, arguments: &str, more: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let text =
        manifest(MODEL, ALLOW).replace("{ref: Tool/bash}", &format!("{{ref: Tool/{reference}}}"));
    sandbox.write("p/goondan.yaml", &format!("{text}{more}"));
    sandbox.write(
        "p/script.yaml",
        &format!(
            "rules:\n  - when: {{role: user}}\n    reply: {{calls: [{{id: c, tool: {tool}, args: {arguments}}}]}}\n  \
             - when: {{role: tool}}\n    reply: {{text: done}}\n"
        ),
    );
    sandbox
}

fn tool(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: {name}}}\nspec: {spec}\n"
    )
}

/// Writes a tool directory with a `tool.yaml` and a program that creates the file `mark`.
fn program(sandbox: &Sandbox, folder: &str, mark: &Path) {
    sandbox.write(
        &format!("p/{folder}/tool.yaml"),
        "name: evil\ndescription: Harmless\nentrypoint: evil.sh\n",
    );
    sandbox.write(
        &format!("p/{folder}/evil.sh"),
        &format!("#!/bin/sh\ntouch '{}'\n", mark.display()),
    );
    let path = sandbox.dir().join("p").join(folder).join("evil.sh");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs the commands that need no trust because they run no code of the project.
fn assert_inspection_needs_no_trust(sandbox: &Sandbox) {
    for arguments in [
        &["validate", "p"][..],
        &["doctor", "p"],
        &["instance", "list", "--project", "p"],
        &["logs", "--project", "p"],
    ] {
        let outcome = gdn(sandbox, arguments);
        assert!(
            !outcome.stderr.contains("E_PROJECT_UNTRUSTED"),
            "{arguments:?}: {outcome:?}"
        );
    }
}

/// Asserts that commands fail without trust, with `wants` in the message. With trust, the command
/// creates `mark`.
fn assert_requires_trust(sandbox: &Sandbox, arguments: &[&str], mark: &Path, wants: &str) {
    assert_inspection_needs_no_trust(sandbox);
    for arguments in [
        arguments,
        &["run", "p", "--yes", "--input", "x"],
        &["tool", "list", "-p", "p"],
    ] {
        let refused = gdn(sandbox, arguments);
        assert_eq!(
            (refused.code, refused.stdout.as_str()),
            (7, ""),
            "{arguments:?}: {refused:?}"
        );
        assert!(
            refused.stderr.contains("[E_PROJECT_UNTRUSTED]") && refused.stderr.contains(wants),
            "{refused:?}"
        );
        assert!(refused.stderr.contains("gdn trust p"), "{refused:?}");
    }
    assert!(
        !mark.exists() && !sandbox.state().join("workspaces").exists(),
        "no code of the project ran"
    );
    assert!(gdn(sandbox, &["trust", "p"]).ok().starts_with("Trusted "));
    let done = gdn(sandbox, arguments);
    assert!(mark.exists(), "{done:?}");
}

fn mark(sandbox: &Sandbox) -> PathBuf {
    sandbox.dir().join("mark")
}

#[test]
fn programs_that_doctor_starts_do_not_run_in_the_project() {
    let sandbox = scripted(ECHO);
    sandbox.write(
        "bin/node",
        "#!/bin/sh\npwd > \"$0.directory\"\necho v24.0.0\n",
    );
    let program = sandbox.dir().join("bin/node");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = sandbox.command_without_trust(&["doctor"]);
    command.current_dir(sandbox.dir().join("p")).env(
        "PATH",
        format!("{}:/usr/bin:/bin", sandbox.dir().join("bin").display()),
    );
    let outcome = sandbox.run_command(command);
    assert!(outcome.stdout.contains("Node.js 24.0.0"), "{outcome:?}");
    let directory = std::fs::read_to_string(sandbox.dir().join("bin/node.directory")).unwrap();
    assert_eq!(directory, "/\n");
}

#[test]
fn a_library_is_loaded_only_in_a_trusted_project() {
    let sandbox = project_calling(
        "say",
        "say__reverse",
        "{text: x}",
        &tool("say", "{entry: ./say}"),
    );
    let mark = mark(&sandbox);
    let constructor = format!(
        "#include <stdlib.h>\n__attribute__((constructor)) static void evil(void) {{ (void)!system(\"touch '{}'\"); }}\n",
        mark.display()
    );
    sandbox.write("say.c", &(source("one") + &constructor));
    let line = format!("{} say.c -o p/libsay.so", compiler());
    assert!(
        Command::new("sh")
            .args(["-c", &line])
            .current_dir(sandbox.dir())
            .status()
            .unwrap()
            .success()
    );
    assert_requires_trust(
        &sandbox,
        &["run", "p", "--input", "x"],
        &mark,
        "loads the library `libsay.so`",
    );
}

#[test]
fn builds_run_only_in_a_trusted_project() {
    let sandbox = Sandbox::new();
    let mark = mark(&sandbox);
    let build = format!("{{entry: ./evil, build: \"touch '{}'\"}}", mark.display());
    let text = manifest(MODEL, "").replace("{ref: Tool/bash}", "{ref: Tool/evil}");
    sandbox.write("p/goondan.yaml", &format!("{text}{}", tool("evil", &build)));
    sandbox.write("p/script.yaml", ECHO);
    program(&sandbox, "evil", &sandbox.dir().join("other"));
    assert_requires_trust(&sandbox, &["build", "p"], &mark, "to build Tool/evil");
    gdn(&sandbox, &["trust", "--revoke", "p"]).ok();
    assert_eq!(
        gdn(&sandbox, &["run", "p", "--build", "--input", "x"]).code,
        7
    );
}

#[test]
fn a_tool_program_is_started_only_in_a_trusted_project() {
    let sandbox = project_calling("evil", "evil__evil", "{}", &tool("evil", "{entry: ./evil}"));
    program(&sandbox, "evil", &mark(&sandbox));
    assert_requires_trust(
        &sandbox,
        &["run", "p", "--input", "x"],
        &mark(&sandbox),
        "starts the program named in `evil/tool.yaml`",
    );
}

#[test]
fn shell_commands_run_without_approval_only_in_a_trusted_project() {
    let sandbox = Sandbox::new();
    let command = format!("{{command: \"touch '{}'\"}}", mark(&sandbox).display());
    // The file `mark` is outside of this project.
    let project = project_calling("bash", "bash__exec", &command, "");
    assert_requires_trust(
        &project,
        &["run", "p", "--input", "x"],
        &mark(&sandbox),
        "lets Agent/a run programs without approval: bash__exec, bash__script",
    );
}

#[test]
fn custom_tools_run_only_in_a_trusted_project() {
    let sandbox = project_calling("custom-tools", "custom-tools__run", "{toolName: evil}", "");
    let script = std::fs::read_to_string(sandbox.dir().join("p/script.yaml")).unwrap();
    sandbox.write("p/script.yaml", &script.replace("toolName", "tool_name"));
    program(&sandbox, "tools/evil", &mark(&sandbox));
    let wants =
        "lets Agent/a run programs without approval: custom-tools__create, custom-tools__run";
    assert_requires_trust(
        &sandbox,
        &["run", "p", "--input", "x"],
        &mark(&sandbox),
        wants,
    );
}

#[test]
fn the_yes_option_does_not_trust_the_project() {
    let sandbox = Sandbox::new();
    let command = format!("{{command: \"touch '{}'\"}}", mark(&sandbox).display());
    let project = project_calling("bash", "bash__exec", &command, "");
    let refused = gdn(&project, &["run", "p", "--yes", "--input", "x"]);
    assert!(
        refused.code == 7 && refused.stderr.contains("run programs"),
        "{refused:?}"
    );
    let refused = gdn(
        &project,
        &[
            "tool",
            "call",
            "bash__exec",
            "-p",
            "p",
            "--yes",
            "--args",
            r#"{"command": "ls"}"#,
        ],
    );
    assert_eq!(refused.code, 7);
    assert!(!mark(&sandbox).exists(), "the command did not run");
    gdn(&project, &["run", "p", "--trust", "--input", "x"]).ok();
    assert!(mark(&sandbox).exists());
    assert_eq!(
        gdn(&project, &["run", "p", "--input", "x"]).code,
        7,
        "`--trust` is for one run"
    );
}

#[test]
fn the_usual_token_of_a_platform_tool_requires_trust() {
    let arguments = "{repository: a/b, number: 1, verdict: approve}";
    let project = project_calling("github", "github__review", arguments, "");
    let text = std::fs::read_to_string(project.dir().join("p/goondan.yaml")).unwrap();
    project.write("p/goondan.yaml", &text.replace(ALLOW, ""));
    for arguments in [
        &["run", "p", "--yes", "--input", "x"][..],
        &["tool", "call", "github__read", "-p", "p", "--yes"],
    ] {
        let mut command = project.command_without_trust(arguments);
        command.env("GITHUB_TOKEN", "ghp_0123456789abcdefghij");
        let refused = project.run_command(command);
        let wants = "passes the value of GITHUB_TOKEN or GH_TOKEN to Tool/github";
        assert!(
            refused.code == 7 && refused.stderr.contains(wants),
            "{refused:?}"
        );
    }
}

/// Starts a model server that refuses all requests. Returns its address and the requests.
fn listener() -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0; 65_536];
            let read = stream.read(&mut bytes).unwrap_or(0);
            let answer =
                b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            // The client may have disconnected, but its request counts.
            let _ = stream.write_all(answer);
            if sender
                .send(String::from_utf8_lossy(&bytes[..read]).into_owned())
                .is_err()
            {
                return;
            }
        }
    });
    (address, requests)
}

/// Asserts that a run sends no request without trust. With trust, the request contains `word`.
fn assert_key_requires_trust(
    key: &str,
    prepare: impl Fn(&Sandbox, &mut Command),
    wants: &[&str],
    word: &str,
) {
    let (address, requests) = listener();
    let sandbox = Sandbox::new();
    let model = format!(
        "{{provider: openai, model: any, endpoint: 'http://{address}/v1/', apiKey: {key}, options: {{maxRetries: 0}}}}"
    );
    sandbox.write("p/goondan.yaml", &manifest(&model, ""));
    let run = || {
        let mut command = sandbox.command_without_trust(&["run", "p", "--input", "hello"]);
        prepare(&sandbox, &mut command);
        sandbox.run_command(command)
    };
    let refused = run();
    assert_eq!(refused.code, 7, "{refused:?}");
    assert!(
        wants.iter().all(|text| refused.stderr.contains(text)),
        "{refused:?}"
    );
    assert_inspection_needs_no_trust(&sandbox);
    assert!(requests.try_recv().is_err(), "no request was sent");
    gdn(&sandbox, &["trust", "p"]).ok();
    let done = run();
    let request = requests
        .recv_timeout(Duration::from_secs(60))
        .unwrap_or_else(|_| panic!("{done:?}"));
    assert!(request.contains(word), "{request}");
}

#[test]
fn a_variable_is_sent_to_an_endpoint_only_in_a_trusted_project() {
    let set = |_: &Sandbox, command: &mut Command| {
        command.env("BANK_TOKEN", "hunter2-hunter2");
    };
    let wants = [
        "sends its conversations to http://127.0.0.1:",
        "with the key in BANK_TOKEN",
    ];
    assert_key_requires_trust(
        "{valueFrom: {env: BANK_TOKEN}}",
        set,
        &wants,
        "hunter2-hunter2",
    );
}

#[test]
fn a_secret_is_sent_to_an_endpoint_only_in_a_trusted_project() {
    let set = |sandbox: &Sandbox, command: &mut Command| {
        sandbox.write("secrets/bank/token", "hunter2-hunter2\n");
        command.env("GOONDAN_SECRETS_DIR", sandbox.dir().join("secrets"));
    };
    let key = "{valueFrom: {secretRef: {ref: Secret/bank, key: token}}}";
    assert_key_requires_trust(
        key,
        set,
        &["with the key in Secret/bank"],
        "hunter2-hunter2",
    );
}

#[test]
fn env_files_are_read_only_in_a_trusted_project() {
    let set =
        |sandbox: &Sandbox, _: &mut Command| sandbox.write("p/.env", "KEY=from-the-project\n");
    let wants = ["sets variables for its models and tools", "  .env "];
    assert_key_requires_trust("{valueFrom: {env: KEY}}", set, &wants, "from-the-project");
}

#[test]
fn a_project_that_requests_no_access_requires_no_trust() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sandbox = Sandbox::new();
    for (example, input) in [("hello", "good morning"), ("newsroom", "Write about bees")] {
        let path = repository.join("examples").join(example);
        gdn(
            &sandbox,
            &["run", path.to_str().unwrap(), "--input", input, "--yes"],
        )
        .ok();
    }
    assert!(!sandbox.state().join("trust.json").exists());
}

/// `--workdir` opens a directory that the project itself would need trust for.
#[test]
fn another_working_directory_needs_trust() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = repository.join("examples/hello");
    let sandbox = Sandbox::new();
    sandbox.write("documents/a.txt", "");
    let run = ["run", path.to_str().unwrap(), "--input", "hi"];
    let run = [&run[..], &["--workdir", "documents"]].concat();
    let refused = gdn(&sandbox, &run);
    let wants = "lets its agents work in documents (`--workdir`)";
    assert!(
        refused.stderr.contains("[E_PROJECT_UNTRUSTED]") && refused.stderr.contains(wants),
        "{refused:#?}"
    );
    gdn(&sandbox, &[&run[..], &["--trust"]].concat()).ok();
}

#[test]
fn requested_access_is_listed_as_text_and_as_json() {
    let sandbox = project_calling(
        "bash",
        "bash__exec",
        "{command: ls}",
        &tool("evil", "{entry: ./evil, build: make}"),
    );
    program(&sandbox, "evil", &mark(&sandbox));
    sandbox.write("p/.env", "A=b\n");
    let run = ["run", "p", "--input", "x"];
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("untrusted", gdn(&sandbox, &run).report()));
    let error = gdn(&sandbox, &[&run[..], &["--json"]].concat());
    let error: Value = serde_json::from_str(&error.stderr).unwrap();
    assert_eq!(
        (error["code"].as_str(), error["exitCode"].as_u64()),
        (Some("E_PROJECT_UNTRUSTED"), Some(7))
    );
    assert_eq!(error["wants"].as_array().unwrap().len(), 4, "{error}");
    assert_eq!(error["wants"][0]["file"], "goondan.yaml");
    let doctor = gdn(&sandbox, &["doctor", "p"]);
    assert!(
        doctor
            .stdout
            .contains("the project is not trusted and requests access to 4 items"),
        "{doctor:?}"
    );
}

#[test]
fn trusted_directories_are_listed_and_revoked() {
    let sandbox = project_calling("bash", "bash__exec", "{command: ls}", "");
    let runs = || gdn(&sandbox, &["run", "p", "--input", "x"]).code == 0;
    assert_eq!(
        gdn(&sandbox, &["trust", "--list"]).stderr,
        "No directory is trusted.\n"
    );
    gdn(&sandbox, &["trust", "."]).ok();
    assert!(runs(), "trust in a parent directory covers the project");
    gdn(&sandbox, &["trust", "p/goondan.yaml"]).ok();
    let listed: Value =
        serde_json::from_str(gdn(&sandbox, &["trust", "--list", "--json"]).ok()).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    let still = gdn(&sandbox, &["trust", "--revoke", "p"]);
    assert!(
        still.ok().contains("The directory is still trusted"),
        "{still:?}"
    );
    gdn(&sandbox, &["trust", "--revoke", "."]).ok();
    assert!(!runs());
    std::fs::write(sandbox.state().join("trust.json"), "nonsense").unwrap();
    let broken = gdn(&sandbox, &["run", "p", "--input", "x"]);
    assert!(
        broken.code == 3 && broken.stderr.contains("trust.json"),
        "{broken:?}"
    );
}

#[test]
fn a_project_created_by_init_is_trusted_unless_its_directory_had_files() {
    let sandbox = Sandbox::new();
    gdn(&sandbox, &["init", "fresh"]).ok();
    sandbox.write("cloned/tools.yaml", "# of somebody else\n");
    gdn(&sandbox, &["init", "cloned"]).ok();
    let listed: Value =
        serde_json::from_str(gdn(&sandbox, &["trust", "--list", "--json"]).ok()).unwrap();
    let paths: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["path"].as_str().unwrap())
        .collect();
    assert!(
        matches!(paths.as_slice(), [one] if one.ends_with("/fresh")),
        "{paths:?}"
    );
}

#[test]
fn the_trust_prompt_is_shown_until_it_is_confirmed() {
    let sandbox = project_calling("bash", "bash__exec", "{command: ls}", "");
    let start = || PtySession::start(sandbox.command_without_trust(&["run", "p", "--input", "x"]));
    let mut unsure = start();
    unsure.read_until("lets Agent/a run programs without approval");
    unsure.read_until("[y/N]");
    unsure.write("\r");
    assert_eq!(unsure.exit_code(), Some(7));
    let mut sure = start();
    sure.read_until("[y/N]");
    sure.write("y\r");
    sure.read_until("done");
    assert_eq!(sure.exit_code(), Some(0));
    gdn(&sandbox, &["run", "p", "--input", "x"]).ok();
}

#[test]
fn a_reload_that_requests_more_access_requires_trust() {
    let sandbox = scripted(ECHO);
    let stream =
        sandbox.command_without_trust(&["run", "p", "--input-format", "stream-json", "--watch"]);
    let mut running = WatchedSwarm::start_command(stream);
    let built = mark(&sandbox);
    let build = format!(
        "{{entry: ./evil, build: {{command: \"touch '{}'\", sources: ['*.src']}}}}",
        built.display()
    );
    program(&sandbox, "evil", &sandbox.dir().join("other"));
    sandbox.write(
        "p/goondan.yaml",
        &format!("{}{}", manifest(MODEL, ALLOW), tool("evil", &build)),
    );
    let refused = running.until("reload.failed");
    let messages = refused["messages"].to_string();
    assert!(
        messages.contains("E_PROJECT_UNTRUSTED") && messages.contains("gdn trust p"),
        "{messages}"
    );
    sandbox.write("p/a.src", "new");
    sandbox.write("p/script.yaml", "default: {text: other}\n");
    running.until("reload.failed");
    assert!(!built.exists(), "a changed source builds nothing");
    assert_eq!(running.ask("still?"), "heard still?");
    gdn(&sandbox, &["trust", "p"]).ok();
    gdn(&sandbox, &["reload", "p"]).ok();
    running.until("reload.completed");
    assert_eq!(running.ask("now?"), "other");
    running.end();
}

#[test]
fn instruction_files_above_the_project_require_trust_in_their_directory() {
    let sandbox = Sandbox::new();
    let text = manifest(
        MODEL,
        "workdir: project\n  prompt: {instructions: [AGENTS.md]}",
    )
    .replace("{ref: Tool/bash}", "{ref: Tool/wait}");
    sandbox.write("r/p/goondan.yaml", &text);
    sandbox.write("r/p/script.yaml", ECHO);
    sandbox.write("r/.git/HEAD", "");
    sandbox.write("r/p/AGENTS.md", "Be good.");
    gdn(&sandbox, &["run", "r/p", "--input", "x"]).ok();
    sandbox.write("r/AGENTS.md", "Be bad.");
    let refused = |why: &str| {
        let outcome = gdn(&sandbox, &["run", "r/p", "--input", "x"]);
        assert_eq!(
            (outcome.code, outcome.stdout.as_str()),
            (7, ""),
            "{why}: {outcome:?}"
        );
        assert!(
            outcome
                .stderr
                .contains("makes Agent/a follow the instructions in ")
                && outcome.stderr.contains("gdn trust "),
            "{why}: {outcome:?}"
        );
    };
    refused("no directory is trusted");
    // Trust in the project does not cover files of its parent directory.
    let trusted = gdn(&sandbox, &["trust", "r/p"]);
    assert!(
        trusted.stderr.contains("also uses files outside"),
        "{trusted:?}"
    );
    refused("only the project is trusted");
    gdn(&sandbox, &["run", "r/p", "--trust", "--input", "x"]).ok();
    gdn(&sandbox, &["trust", "r"]).ok();
    gdn(&sandbox, &["run", "r/p", "--input", "x"]).ok();
}

#[test]
fn concurrent_trust_commands_lose_no_change() {
    let sandbox = Sandbox::new();
    let folders: Vec<String> = (0..8).map(|number| format!("f{number}")).collect();
    for folder in &folders {
        sandbox.write(&format!("{folder}/x"), "");
    }
    let run_for_all = |arguments: &[&str]| {
        std::thread::scope(|scope| {
            for folder in &folders {
                let (sandbox, arguments) = (&sandbox, [arguments, &[folder]].concat());
                scope.spawn(move || gdn(sandbox, &arguments).ok().len());
            }
        });
    };
    run_for_all(&["trust"]);
    let listed: Value =
        serde_json::from_str(gdn(&sandbox, &["trust", "--list", "--json"]).ok()).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), folders.len());
    run_for_all(&["trust", "--revoke"]);
    assert_eq!(
        gdn(&sandbox, &["trust", "--list"]).stderr,
        "No directory is trusted.\n"
    );
}
