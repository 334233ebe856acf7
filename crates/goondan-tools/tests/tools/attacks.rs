//! Attacks through a model's tool arguments, one class per test. Each attack is one input to one
//! export. The call must fail, and must not read or change anything outside.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::custom_tools::project_file;
use crate::mock_engine::MockEngine;

/// Contents that must not be readable.
pub(crate) const SECRET: &str = "what nobody may read";

/// Creates a working directory with links of all kinds next to a directory `out`.
fn tree() -> MockEngine {
    let engine = MockEngine::new();
    project_file(&engine, "out/secret.md", SECRET);
    project_file(&engine, "workshop/secret.md", SECRET);
    engine.write("sub/deep/file.md", "mine");
    engine.write("memory/note.md", "mine");
    let out = engine.dir.path().join("out");
    for (target, link) in [
        ("../out", "leave"),
        ("../out/secret.md", "leaf.md"),
        ("leave", "chain"),
        ("chain", "chain2"),
        ("sub/../../out", "winding"),
        ("../out/new.md", "dangling.md"),
        ("sub/deep", "deep"),
        ("/", "root"),
        ("/proc/self/root", "proc"),
        ("/proc/self/cwd/..", "cwd"),
    ] {
        symlink(target, engine.work().join(link)).unwrap();
    }
    symlink(&out, engine.work().join("absolute")).unwrap();
    symlink("../../out", engine.work().join("memory/leave")).unwrap();
    engine
}

/// Paths that resolve to `out`, or to another place outside the working directory.
fn escaping_paths(engine: &MockEngine) -> Vec<String> {
    let dir = engine.dir.path().canonicalize().unwrap();
    let (dir, work) = (
        dir.display().to_string(),
        engine.work().display().to_string(),
    );
    let mut paths: Vec<String> = [
        "../out/secret.md",
        "..//out/./secret.md",
        "./../out/secret.md",
        "sub/../../out/secret.md",
        "sub/deep/../../../out/secret.md",
        "nothing/../../out/secret.md",
        "leave/secret.md",
        "leaf.md",
        "chain/secret.md",
        "chain2/secret.md",
        "winding/secret.md",
        "absolute/secret.md",
        "deep/../../../out/secret.md",
        "leave/../out/secret.md",
        "chain2/../work/../out/secret.md",
        "../workshop/secret.md",
        "root/etc/passwd",
        "proc/etc/passwd",
        "cwd/etc",
        "/etc/passwd",
        "//etc/passwd",
        "/./etc/passwd",
        "/proc/self/root/etc/passwd",
        "/proc/self/environ",
        "/proc/self/cwd/../out",
        "/dev/stdin",
        "/dev/fd/0",
        "secret.md\0.txt",
        "\0",
        "../out/secret.md\0",
        ".goondan/approvals.yaml",
        ".GOONDAN/approvals.yaml",
        "sub/../.Goondan/approvals.yaml",
        "../.goondan/approvals.yaml",
    ]
    .map(str::to_owned)
    .to_vec();
    paths.extend([
        format!("{dir}/out/secret.md"),
        format!("{work}/../out/secret.md"),
        format!("{work}shop/secret.md"),
        format!("/proc/self/root{dir}/out/secret.md"),
        format!("{}out/secret.md", "sub/../".repeat(500) + "../"),
        format!("{}out/secret.md", "./".repeat(1_000) + "../"),
    ]);
    paths
}

/// Paths with a special meaning in other programs. The tools treat them as plain or invalid names
/// inside the working directory.
fn lookalike_paths() -> Vec<String> {
    let mut paths: Vec<String> = [
        "~/.ssh/id_rsa",
        "~root/x",
        "$HOME/x",
        "${HOME}/x",
        "%2e%2e/out/secret.md",
        "..%2fout/secret.md",
        "..\\out\\secret.md",
        "C:\\Windows\\x",
        "\\\\server\\share",
        "file:///etc/passwd",
        "․․/out/secret.md",
        "‥/out/secret.md",
        "..／out／secret.md",
        "..∕out∕secret.md",
        "．．/out/secret.md",
        "../\u{200b}out/secret.md",
        ".. /out/secret.md",
        "... /secret.md",
        "..../out/secret.md",
        "-rf",
        "CON",
        "x:stream",
        "out.",
        "LEAVE/secret.md",
        "le\u{301}ave/secret.md",
    ]
    .map(str::to_owned)
    .to_vec();
    paths.push("x".repeat(5_000));
    paths.push("x/".repeat(5_000));
    paths
}

/// Returns the paths and contents of all files in the forbidden directories.
fn outside(engine: &MockEngine) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for folder in ["out", "workshop"] {
        for entry in std::fs::read_dir(engine.dir.path().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            found.push((
                path.display().to_string(),
                std::fs::read_to_string(&path).unwrap_or_default(),
            ));
        }
    }
    found
}

fn file_calls(path: &str) -> Vec<(&'static str, Value)> {
    let patch = format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\n");
    vec![
        ("fs__read", json!({"path": path})),
        ("fs__write", json!({"path": path, "content": "x"})),
        (
            "fs__edit",
            json!({"path": path, "old_text": "what", "new_text": "x"}),
        ),
        ("fs__ls", json!({"path": path})),
        ("fs__grep", json!({"path": path, "pattern": "."})),
        ("fs__glob", json!({"path": path, "pattern": "**"})),
        ("fs__apply_patch", json!({"patch": patch})),
        ("file-system__read", json!({"path": path})),
        ("file-system__write", json!({"path": path, "content": "x"})),
        (
            "file-system__write",
            json!({"path": path, "content": "x", "append": true}),
        ),
        ("file-system__list", json!({"path": path})),
        ("file-system__mkdir", json!({"path": path})),
        ("memory__get", json!({"path": path})),
        ("bash__script", json!({"path": path})),
        ("agents__spawn", json!({"target": "worker", "cwd": path})),
    ]
}

#[tokio::test]
async fn paths_outside_the_working_directory_are_rejected() {
    let engine = tree();
    let before = outside(&engine);
    let (mut count, mut accepted) = (0, Vec::new());
    for path in escaping_paths(&engine) {
        for (tool, args) in file_calls(&path) {
            count += 1;
            if let Ok(done) = engine.call(tool, args).await {
                accepted.push(format!("{tool} {path:.80}: {}", done.output));
            }
        }
    }
    assert!(accepted.is_empty(), "{accepted:#?}");
    assert_eq!(outside(&engine), before);
    println!(
        "attacks: paths outside the working directory: {} in {count} calls, all refused",
        escaping_paths(&engine).len()
    );
}

#[tokio::test]
async fn lookalike_paths_stay_inside_the_working_directory() {
    let engine = tree();
    let before = outside(&engine);
    let mut count = 0;
    for path in lookalike_paths() {
        for (tool, args) in file_calls(&path) {
            count += 1;
            let result = match engine.call(tool, args).await {
                Ok(done) => done.output.to_string(),
                Err(error) => error.message,
            };
            assert!(
                !result.contains(SECRET) && !result.contains("root:x:"),
                "{tool} {path:.80}: {result}"
            );
        }
    }
    assert_eq!(outside(&engine), before);
    println!(
        "attacks: lookalike paths: {} in {count} calls, all contained",
        lookalike_paths().len()
    );
}

/// Names that resemble paths.
fn path_like_names() -> Vec<String> {
    let mut names: Vec<String> = [
        "..",
        ".",
        "../evil",
        "../../evil",
        "../../../../evil",
        "/evil",
        "/etc/evil",
        "a/b",
        "a/../../evil",
        "./evil",
        "a\\..\\evil",
        "..\\evil",
        "C:evil",
        "~/evil",
        "evil\0",
        "a\0/../evil",
        ".hidden",
        "evil/",
        "/",
        "..／evil",
        "．．",
        "ev\nil",
        "ev\u{202e}il",
        "con:",
        "a..b",
        "$(touch evil)",
        "`touch evil`",
        "evil;touch evil",
        "-rf",
        " ",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push("x".repeat(300));
    names
}

fn files(folder: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path().display().to_string()),
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn names_that_resemble_paths_are_rejected() {
    let engine = MockEngine::new();
    project_file(
        &engine,
        "a/tool.yaml",
        "name: a\ndescription: d\nentrypoint: a\n",
    );
    let before = files(engine.dir.path());
    let mut count = 0;
    let mut accepted = Vec::new();
    for name in path_like_names() {
        for (tool, args) in [
            ("custom-tools__run", json!({"tool_name": name})),
            ("custom-tools__delete", json!({"tool_name": name})),
            (
                "custom-tools__create",
                json!({"name": name, "description": "d"}),
            ),
            (
                "squad__skill",
                json!({"action": "write", "skillName": name, "content": "x"}),
            ),
            ("squad__skill", json!({"action": "read", "skillName": name})),
            ("squad__memory", json!({"agentName": name, "learning": "x"})),
            (
                "squad__decide",
                json!({"agentName": name, "title": "x", "body": "x"}),
            ),
            ("squad__route", json!({"targetAgent": name, "task": "x"})),
            ("memory__get", json!({"path": name})),
            ("agents__request", json!({"target": name, "input": "x"})),
            ("agents__send", json!({"target": name, "input": "x"})),
            ("agents__spawn", json!({"target": name})),
            (
                "task__run",
                json!({"agent": name, "description": "d", "prompt": "p"}),
            ),
            ("sessions__history", json!({"session_id": name})),
            (
                "sessions__send",
                json!({"session_id": name, "content": "x"}),
            ),
            (
                "runtime__process",
                json!({"action": "signal", "process_id": name, "signal": "term"}),
            ),
        ] {
            count += 1;
            if let Ok(done) = engine.call(tool, args).await
                && done.output["type"] != "failure"
                && done.output["resultType"] != "failure"
            {
                accepted.push(format!("{tool} {name:?}: {}", done.output));
            }
        }
    }
    assert!(accepted.is_empty(), "{accepted:#?}");
    assert_eq!(files(engine.dir.path()), before);
    println!(
        "attacks: names that resemble paths: {} in {count} calls, all refused",
        path_like_names().len()
    );
}

/// Commands that try to print the variables of the parent process. Cargo sets some variables, which
/// represent keys here.
const ENVIRONMENT_COMMANDS: &[&str] = &[
    "env",
    "printenv",
    "printenv CARGO_MANIFEST_DIR",
    "export -p",
    "set",
    "echo $CARGO_MANIFEST_DIR",
    "echo ${CARGO_MANIFEST_DIR-}",
    "cat /proc/self/environ",
    "tr '\\0' '\\n' < /proc/$$/environ",
    "sh -c env",
    "sh -lc env",
    "sh -c 'sh -c env'",
    "env -u PATH /usr/bin/env",
    "nohup env",
    "env & wait",
    "(env)",
    "setsid env",
    "awk 'BEGIN{for(k in ENVIRON) print k \"=\" ENVIRON[k]}'",
    "bash -c 'compgen -e; declare -x'",
    "exec env",
    "xargs env < /dev/null",
    "find . -maxdepth 0 -exec env ;",
];

#[tokio::test]
async fn commands_cannot_read_variables_of_the_parent_process() {
    let parent_value = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let engine = MockEngine::new();
    let mut count = 0;
    for (number, command) in ENVIRONMENT_COMMANDS.iter().enumerate() {
        let name = format!("leak{number}");
        project_file(
            &engine,
            &format!("tools/{name}/tool.yaml"),
            &format!("name: {name}\ndescription: d\nentrypoint: run\n"),
        );
        project_file(
            &engine,
            &format!("tools/{name}/run"),
            &format!("#!/bin/sh\n{command}\n"),
        );
        engine.write("script.sh", format!("#!/bin/sh\n{command}\n"));
        for (tool, args) in [
            ("bash__exec", json!({"command": command})),
            ("bash__script", json!({"path": "script.sh"})),
            ("runtime__exec", json!({"command": command})),
            ("custom-tools__run", json!({"tool_name": name})),
        ] {
            count += 1;
            let output = engine
                .call(tool, args)
                .await
                .map(|done| done.output.to_string())
                .unwrap_or_default();
            assert!(
                !output.contains(&parent_value) && !output.contains("CARGO_PKG"),
                "{tool} {command}: {output}"
            );
        }
    }
    println!(
        "attacks: variables of the parent process: {} in {count} calls, all find nothing",
        ENVIRONMENT_COMMANDS.len()
    );
}

/// Repeatedly replaces a file and a directory with links to the outside, until dropped.
struct LinkSwapper {
    is_over: std::sync::Arc<std::sync::atomic::AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl LinkSwapper {
    /// Replaces `x` with a link to `outside/secret`, and `d` with a link to `outside`.
    fn start(work: std::path::PathBuf, outside: std::path::PathBuf) -> LinkSwapper {
        let is_over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let flag = std::sync::Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let at = |name: &str| work.join(name);
            while !flag.load(std::sync::atomic::Ordering::Relaxed) {
                std::fs::write(at("draft"), "inside").unwrap();
                std::fs::rename(at("draft"), at("x")).unwrap();
                symlink(outside.join("secret"), at("draft")).unwrap();
                std::fs::rename(at("draft"), at("x")).unwrap();
                std::fs::rename(at("d"), at("aside")).unwrap();
                symlink(&outside, at("d")).unwrap();
                std::thread::yield_now();
                std::fs::remove_file(at("d")).unwrap();
                std::fs::rename(at("aside"), at("d")).unwrap();
            }
        });
        LinkSwapper {
            is_over,
            thread: Some(thread),
        }
    }
}

impl Drop for LinkSwapper {
    fn drop(&mut self) {
        self.is_over
            .store(true, std::sync::atomic::Ordering::Relaxed);
        let ended = self.thread.take().map(std::thread::JoinHandle::join);
        assert!(matches!(ended, Some(Ok(()))), "the swapping thread failed");
    }
}

/// An agent replaces a directory of the configuration with a link.
#[tokio::test]
async fn a_link_replacing_a_configured_directory_is_not_followed() {
    let mut engine = MockEngine::new().config(json!({"roots": ["lib"]}));
    let project = engine.dir.path().canonicalize().unwrap();
    project_file(&engine, "lib/mine", "mine");
    project_file(&engine, "victim/secret", SECRET);
    let path = project.join("lib/mine");
    engine.ok("fs__read", json!({"path": path})).await;
    let replace_by_link = |name: &str| {
        std::fs::rename(project.join(name), project.join(format!("{name}-old"))).unwrap();
        symlink("victim", project.join(name)).unwrap();
    };
    replace_by_link("lib");
    for name in ["lib/secret", "victim/secret"] {
        let path = json!({"path": project.join(name)});
        for tool in ["fs__read", "file-system__read", "fs__ls"] {
            let (code, message) = engine.err(tool, path.clone()).await;
            assert_eq!(code, "E_TOOL_PATH_ESCAPE", "{tool} {name}: {message}");
        }
        let write = json!({"path": project.join(name), "content": "x"});
        let (code, _) = engine.err("fs__write", write).await;
        assert_eq!(code, "E_TOOL_PATH_ESCAPE", "{name}");
    }
    for directory in ["shelf", "tools"] {
        engine = engine.config(json!({"dir": "shelf"}));
        let yaml = "name: victim\ndescription: d\nentrypoint: run.sh\n";
        project_file(&engine, &format!("{directory}/mine/readme"), "x");
        project_file(&engine, "victim/victim/tool.yaml", yaml);
        project_file(&engine, "victim/victim/run.sh", "#!/bin/sh\n");
        replace_by_link(directory);
        let create = json!({"name": "new", "description": "d", "scope": "project"});
        let named = json!({"tool_name": "victim"});
        for (tool, args) in [
            ("custom-tools__list", json!({})),
            ("custom-tools__run", named.clone()),
            ("custom-tools__delete", named),
            ("custom-tools__create", create),
        ] {
            let (code, message) = engine.err(tool, args).await;
            assert_eq!(code, "E_TOOL_PATH_ESCAPE", "{tool} {directory}: {message}");
        }
        std::fs::remove_file(project.join(directory)).unwrap();
        assert!(project.join("victim/victim/tool.yaml").is_file());
        assert!(!project.join("victim/new").exists());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_tools_do_not_follow_links_swapped_in_during_the_call() {
    let engine = MockEngine::new();
    engine.write("x", "inside");
    engine.write("d/inside", "inside");
    let outside = engine.dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "OUTSIDE").unwrap();
    let _swapper = LinkSwapper::start(engine.work(), outside);
    let calls = [
        ("fs__read", json!({"path": "x"})),
        ("fs__read", json!({"path": "d/secret"})),
        ("fs__grep", json!({"pattern": "OUT", "path": "x"})),
        ("fs__grep", json!({"pattern": "OUT", "path": "d"})),
        ("fs__grep", json!({"pattern": "OUT"})),
        ("fs__glob", json!({"pattern": "**/secret"})),
        ("fs__glob", json!({"pattern": "secret", "path": "d"})),
        ("fs__ls", json!({"path": "d"})),
        ("file-system__read", json!({"path": "x"})),
        ("file-system__list", json!({"path": "d"})),
        ("file-system__list", json!({"path": ".", "recursive": true})),
    ];
    let mut answered = 0;
    for round in 0..150 {
        for (tool, arguments) in &calls {
            if let Ok(output) = engine.call(tool, arguments.clone()).await {
                answered += 1;
                let mut text = output.output.to_string();
                // If nothing matches, the result contains the search pattern.
                text = text.replace("**/secret", "");
                let leaked = ["OUTSIDE", "secret"]
                    .iter()
                    .find(|word| text.contains(**word));
                assert_eq!(leaked, None, "round {round}: {tool} {arguments}: {text}");
            }
        }
    }
    assert!(answered > 0, "every call failed");
}

/// A sandboxed program creates hard links to a file with keys. No argument of these calls names the
/// file, so no policy rule applies to the file.
#[tokio::test]
async fn tools_do_not_show_protected_files_through_hard_links() {
    let engine = MockEngine::new();
    let key = "KEY=4f7a2c";
    project_file(&engine, ".env", key);
    for name in ["sub/.ENV.local", "memory/plain.md", "sub/plain.txt"] {
        engine.write(name, format!("{key} {name}"));
    }
    project_file(&engine, ".squad/skills/other/SKILL.md", "KEY");
    for (file, link) in [
        (".env", "work/notes.txt"),
        (".env", "work/sub/deep.txt"),
        (".env", "work/memory/keys.md"),
        (".env", "work/MEMORY.md"),
        ("work/sub/.ENV.local", "work/sub/local.txt"),
        (".env", ".squad/skills/keys/SKILL.md"),
        (".env", ".squad/agents/fenster/history.md"),
        // An unprotected file with two names is found under both names.
        ("work/sub/plain.txt", "work/sub/plain2.txt"),
        ("work/memory/plain.md", "work/memory/plain2.md"),
    ] {
        let link = engine.dir.path().join(link);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::fs::hard_link(engine.dir.path().join(file), link).unwrap();
    }
    symlink("../sub/.ENV.local", engine.work().join("memory/linked.md")).unwrap();
    let calls = [
        ("fs__grep", json!({"pattern": "KEY"}), 4),
        ("fs__grep", json!({"pattern": "KEY", "path": "sub"}), 2),
        (
            "fs__grep",
            json!({"pattern": "KEY", "include": "**/*.txt"}),
            2,
        ),
        ("memory__search", json!({"query": "KEY"}), 2),
        (
            "squad__skill",
            json!({"action": "read", "skillName": "keys"}),
            0,
        ),
        (
            "squad__skill",
            json!({"action": "read", "skillName": "other"}),
            0,
        ),
    ];
    let count = calls.len();
    for (tool, arguments, plain) in calls {
        let output = engine.call(tool, arguments.clone()).await;
        let text = output.map_or_else(|error| error.message, |done| done.output.to_string());
        let shown = text.matches(key).count();
        assert_eq!(shown, plain, "{tool} {arguments}: {text}");
        assert_eq!(
            text.matches("plain").count() > 0,
            plain > 0,
            "{tool}: {text}"
        );
    }
    // A write would change the file under its protected name.
    let learn = json!({"agentName": "fenster", "learning": "x"});
    let learned = engine.call("squad__memory", learn).await;
    assert!(!format!("{learned:?}").contains(key), "{learned:?}");
    assert_eq!(
        std::fs::read_to_string(engine.dir.path().join(".env")).unwrap(),
        key
    );
    println!("attacks: hard links to a file with keys: {count} calls, none shows the keys");
}
