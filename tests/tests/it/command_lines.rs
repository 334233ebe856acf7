//! Command lines that attack a policy, run for real: what a rule allows by a pattern starts nothing but what was judged.
//!
//! Each line is a call of `bash__exec` in a folder full of traps. A trap that goes off leaves a mark; so does whatever is
//! written outside of the working folder.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and says what it skips"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use goondan::Swarm;
use goondan::ports::tool::ToolCallResult;
use goondan::spec::Environment;
use serde_json::json;

const PROJECT: &str = r#"
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: any}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec:
  modelConfig: {modelRef: Model/m}
  tools: [{ref: Tool/bash}]
  workdir: project
  permissions:
    default: ask
    rules:
      - {tool: "bash__exec", args: {command: "git *"}, action: allow}
      - {tool: "bash__exec", args: {command: "echo *"}, action: allow}
      - {tool: "bash__exec", args: {command: "ls"}, action: allow}
      - {tool: "bash__exec", args: {command: "ls *"}, action: allow}
      - {tool: "bash__exec", args: {command: "cat *"}, action: allow}
      - {tool: "bash__exec", args: {command: "find *"}, action: allow}
      - {tool: "bash__exec", args: {command: "sort *"}, action: allow}
      - {tool: "bash__exec", args: {command: "tar *"}, action: allow}
      - {tool: "bash__exec", args: {command: "sed *"}, action: allow}
      - {tool: "bash__exec", args: {command: "grep *"}, action: allow}
      - {tool: "bash__exec", args: {command: "printf *"}, action: allow}
      - {tool: "bash__exec", args: {command: "diff *"}, action: allow}
      - {tool: "bash__exec", args: {command: "split *"}, action: allow}
      - {tool: "bash__exec", args: {command: "cd *"}, action: allow}
      - {tool: "bash__script", args: {path: "good.sh"}, action: allow}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}
"#;

/// Lines of which every program that they name seems to be allowed. `@T` is the trap, `@O` a folder outside.
const LINES: &[&str] = &[
    // Programs that start others, by their options.
    "git -c core.pager=@T -p log",
    "git -c core.fsmonitor=@T status",
    "git -c alias.x='!@T' x",
    "git -c core.sshCommand=@T fetch ssh://localhost/x",
    "git -c diff.external=@T diff HEAD~1",
    "git -c core.editor=@T commit --amend",
    "git -c sequence.editor=@T rebase -i HEAD~1",
    "git -c gpg.program=@T commit -S --allow-empty -m x",
    "git -c credential.helper='!@T' fetch https://localhost:1/x",
    "git -c uploadpack.packObjectsHook=@T upload-pack .",
    "git --exec-path=traps status-x",
    "git --exec-path traps x",
    "git --paginate log",
    "git -p log",
    "git grep -O@T first",
    "git grep --open-files-in-pager=@T first",
    "git grep --open-files=@T first",
    "git grep -nO@T first",
    "git \"$(echo -c)\" core.pager=@T -p log",
    "tar --to-comm=@T -xf good.tar",
    "tar -cI@T -f x.tar one",
    "tar cIf @T x.tar one",
    "tar \"$(echo --to-command=@T)\" -xf good.tar",
    "find . -maxdepth 0 \"-$(echo exec)\" @T ';'",
    "git fetch --upload-pack=@T .",
    "git fetch --upload-p=@T .",
    "git clone -u @T . clone-x",
    "git clone --upload-pack @T . clone-y",
    "git clone --config core.fsmonitor=@T . clone-z",
    "git clone --template=template . clone-t",
    "git ls-remote --upload-pack=@T .",
    "git ls-remote ext::@T",
    "git archive --remote=. --exec=@T HEAD",
    "git push --receive-pack=@T . HEAD:refs/heads/x",
    "git difftool -y -x @T HEAD~1",
    "git difftool --extcmd=@T -y HEAD~1",
    "git bisect run @T",
    "git rebase --exec @T HEAD~1",
    "git rebase -x @T HEAD~1",
    "git submodule foreach @T",
    "git filter-branch --tree-filter @T HEAD",
    "git config alias.y '!@T'",
    "git y",
    "git trapped",
    "git -C repo status",
    "git -C repo log",
    "git --git-dir=repo/.git --work-tree=repo status",
    "git --git-dir repo/.git --work-tree repo diff",
    "git --work-tree=repo diff",
    "git diff --ext-diff HEAD~1",
    "git diff --textconv HEAD~1",
    "git log --ext-diff -p",
    "git show --textconv HEAD",
    "git commit --allow-empty -m x",
    "git checkout -b x",
    "git gc --auto",
    "git send-email --smtp-server=@T HEAD~1",
    "git instaweb -b @T",
    "git help -w git",
    "git web--browse -c x -t @T x",
    "git mergetool -t x",
    "git hook run post-checkout",
    "git maintenance run",
    "git log --output=@O/log",
    "git diff --output=@O/diff HEAD~1",
    "git format-patch -o @O HEAD~1",
    "git archive -o @O/a.tar HEAD",
    "git bundle create @O/b HEAD",
    "git worktree add @O/w",
    "git clone . @O/c",
    "git init @O/i",
    "git config --file @O/config a.b c",
    "git config --global core.pager @T",
    "find . -name one -exec @T {} ;",
    "find . -name one -exec @T {} +",
    "find . -name one -execdir @T {} ;",
    "find . -name one -ok @T {} ;",
    "find . -maxdepth 0 -fprintf @O/f x",
    "find . -maxdepth 0 -fls @O/f",
    "find @O -delete",
    "sort --compress-program=@T -S 1k many",
    "sort --compress-prog @T -S 1k many",
    "sort -o @O/sorted one",
    "tar cf x.tar --checkpoint=1 --checkpoint-action=exec=@T one",
    "tar cf x.tar --checkpoint=1 --checkpoint-act=exec=@T one",
    "tar cf x.tar -I @T one",
    "tar cf x.tar --use-compress-program=@T one",
    "tar xf good.tar --to-command=@T",
    "tar xf good.tar -I@T",
    "tar cf @O/x.tar one",
    "tar xf evil.tar -C @O",
    "tar --rsh-command=@T -cf localhost:x one",
    "sed -n 1e@T one",
    "sed 1e@T one",
    "sed --expression=1e@T one",
    "sed -f e.sed one",
    "sed -n 'w@O/s' one",
    "sed -i.bak s/a/b/ @O/kept",
    "split --filter=@T one",
    "split one @O/split",
    // What the shell does with a line.
    "echo $(@T)",
    "echo `@T`",
    "echo \"$(@T)\"",
    "echo \"`@T`\"",
    "echo ${x:-$(@T)}",
    "echo $((`@T`))",
    "echo a & @T",
    "echo a\n@T",
    "echo a;@T",
    "echo a|@T",
    "echo a||@T;cat @T|sh",
    "echo a # \\\n@T",
    "echo 'a\\' ; @T #'",
    "echo \"a\\\\\" ; @T #\"",
    "echo $'a\\' ; @T #'",
    "echo $\"a\" ; @T",
    "echo a >&2 & @T",
    "echo <(@T)",
    "cat <<E\n`@T`\nE",
    "cat <<'E' ; @T\nE",
    "cat <<E\\\nF\n$(@T)\nEF",
    "cat <<\"E\"x\n'\nEx\n@T\n'",
    "cat <<-E\n\tE\n@T",
    "echo ${x#$(@T)}",
    "echo ${x/a/`@T`}",
    "echo {a,$(@T)}",
    "echo [$(@T)]",
    "echo @(a|$(@T))",
    "case a in a) @T;; esac",
    "echo a; case x in (x) @T;; esac",
    "ls() { @T; }; ls",
    "ls () if @T; then :; fi; ls",
    "alias ls=@T\nls",
    "echo a > $(@T)",
    "echo @T > .git/hooks/post-checkout",
    "echo evil > @O/x",
    "echo evil >> @O/x",
    "echo evil > link/x",
    "echo evil > ../outside/x",
    "echo evil >| @O/x",
    "echo evil >& @O/x",
    "echo evil &> @O/x",
    "echo evil 1<> @O/x",
    "cat < @O/kept > @O/y",
    "cd link && echo evil > x",
    "cd .. && cd outside && echo evil > x",
    "cd @O; echo evil > x",
    // Which file runs.
    "./ls",
    "traps/ls",
    "PATH=traps ls",
    "PATH=traps:$PATH ls",
    "cd traps && ./ls",
    "cd traps; ls",
    "env PATH=traps ls",
    "env -S @T",
    "env --split-string=@T ls",
    "env -C traps ./ls",
    "command ls; hash -p traps/ls ls; ls",
    "timeout 5 ./ls",
    "nice ./ls",
    "nohup @T",
    "xargs -a list @T",
    "xargs -I{} @T {}",
    "echo one | xargs @T",
    "sh -c 'echo a; @T'",
    "sh -c \"echo 'a'; @T\"",
    "sh -c 'echo $0; $0' @T",
    "bash -c 'ls() { @T; }; ls'",
    "bash -O expand_aliases -c 'alias ls=@T\nls'",
    "bash --init-file @T -i -c ls",
    "ENV=@T sh -i -c ls",
    "BASH_ENV=@T bash -c ls",
    "LD_PRELOAD=@T ls",
    "GIT_PAGER=@T git -p log",
    "GIT_EXTERNAL_DIFF=@T git diff HEAD~1",
    "GIT_SSH_COMMAND=@T git fetch ssh://localhost/x",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.fsmonitor GIT_CONFIG_VALUE_0=@T git status",
    "HOME=traps git status",
    // What an independent attacker found.
    "find . -maxdepth 0 \"$(echo -exec)\" @T ';'",
    "find . -maxdepth 0 -exec echo one + @T ';'",
    "env '--split-string=@T' ls",
    "./traps/../traps/ls",
    "timeout 5 ./ls",
    "echo evil > x/../../outside/x",
    "cd .git && echo evil > config",
    "cat < /tmp/../dev/tty",
];

/// Lines that do what they say, and the start of what they print.
const FINE: &[(&str, &str)] = &[
    ("git status --short", " M tracked"),
    ("git log --oneline --format=%s", "m\nm"),
    ("git diff --stat --no-textconv", " tracked"),
    ("git show --no-textconv --format=%s HEAD", "m"),
    (
        "git add tracked && git diff --cached --name-only",
        "tracked",
    ),
    ("git config user.name", "n"),
    ("echo a b  'c  d' \"e f\"", "a b c  d e f"),
    ("echo a; echo b && echo c || echo d", "a\nb\nc"),
    ("cat missing || echo none", "none"),
    ("cat missing && echo none; echo end", "end"),
    ("cat one | sort -r | cat -", "second\nfirst"),
    ("cat - < one", "first\nsecond"),
    (
        "echo \"$(git config user.name) and $(cat one)\"",
        "n and first\nsecond",
    ),
    ("echo o*e t?r? [ ] {} a~b", "one t?r? [ ] {} a~b"),
    (
        "echo traps/*",
        "traps/git traps/git-trapped traps/git-x traps/ls",
    ),
    ("(cd traps; cat ../one); cat one", "first\nsecond\nfirst"),
    ("cd traps && cat ../one", "first"),
    ("sh -c 'cat one; echo a'", "first\nsecond\na"),
    ("timeout 5 echo a", "a"),
    ("find . -maxdepth 1 -name one", "./one"),
    ("find . -maxdepth 1 -name one -exec cat {} +", "first"),
    ("sort -r one", "second"),
    ("tar tf good.tar", "one"),
    ("sed s/first/third/ one", "third"),
    ("grep -c o one", "1"),
    ("cat missing 2> /dev/null; echo a 2>&1", "a"),
    ("printf '%s-' a b", "a-b-"),
    ("ls # all of them", "e.sed"),
    ("echo a |\ncat - &&\n\n echo b", "a\nb"),
];

/// Calls whose attack is not in the line.
const CALLS: &[(&str, &str, &str)] = &[
    (
        "bash__exec",
        "env",
        r#"{"command": "git status", "env": {"GIT_DIR": "repo/.git"}}"#,
    ),
    (
        "bash__exec",
        "path",
        r#"{"command": "ls", "env": {"PATH": "traps"}}"#,
    ),
    (
        "bash__exec",
        "preload",
        r#"{"command": "ls", "env": {"LD_PRELOAD": "@T"}}"#,
    ),
    (
        "bash__exec",
        "cwd with traps",
        r#"{"command": "./ls", "cwd": "traps"}"#,
    ),
    (
        "bash__exec",
        "cwd of a trapped repository",
        r#"{"command": "git status", "cwd": "repo"}"#,
    ),
    (
        "bash__exec",
        "cwd outside",
        r#"{"command": "echo evil > x", "cwd": "../outside"}"#,
    ),
    (
        "bash__exec",
        "cwd by a link",
        r#"{"command": "echo evil > x", "cwd": "link"}"#,
    ),
    (
        "bash__exec",
        "cwd outside for a program",
        r#"{"command": "git init", "cwd": "@O"}"#,
    ),
    (
        "bash__script",
        "another shell",
        r#"{"path": "good.sh", "shell": "@T"}"#,
    ),
    (
        "bash__script",
        "a shell in the folder",
        r#"{"path": "good.sh", "shell": "traps/ls"}"#,
    ),
    (
        "bash__script",
        "a start file",
        r#"{"path": "good.sh", "env": {"BASH_ENV": "@T"}}"#,
    ),
    (
        "bash__script",
        "a path",
        r#"{"path": "good.sh", "env": {"PATH": "traps"}}"#,
    ),
    (
        "bash__script",
        "a preload",
        r#"{"path": "good.sh", "env": {"LD_PRELOAD": "@T"}}"#,
    ),
    (
        "bash__script",
        "another script",
        r#"{"path": "traps/../traps/ls"}"#,
    ),
];

/// The folders of one attack.
struct Ground {
    dir: tempfile::TempDir,
}

impl Ground {
    fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    fn outside(&self) -> PathBuf {
        self.dir.path().join("outside")
    }

    fn trap(&self) -> PathBuf {
        self.work().join("traps/ls")
    }

    fn filled(&self, text: &str) -> String {
        let path = |path: PathBuf| path.display().to_string();
        text.replace("@T", &path(self.trap()))
            .replace("@O", &path(self.outside()))
    }

    /// A folder whose files wait to be run: as `ls`, as hooks, by two repositories' settings. Nothing where the programs that
    /// it takes are not installed.
    fn lay() -> Option<Ground> {
        if ["git", "tar"]
            .iter()
            .any(|program| Command::new(program).arg("--version").output().is_err())
        {
            println!("skipped: git or tar is not installed");
            return None;
        }
        let ground = Ground {
            dir: tempfile::tempdir().unwrap(),
        };
        let (work, outside) = (ground.work(), ground.outside());
        for folder in ["traps", "template/hooks"] {
            fs::create_dir_all(work.join(folder)).unwrap();
        }
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("kept"), "a\n").unwrap();
        let mark = |place: &Path| format!("echo x >> '{}/SPRUNG'\n", place.display());
        let trap = format!("#!/bin/sh\n{}{}", mark(&outside), mark(&work));
        for name in [
            "traps/ls",
            "ls",
            "traps/git",
            "template/hooks/post-checkout",
            "traps/git-x",
            "traps/git-trapped",
        ] {
            program(&work.join(name), &trap);
        }
        std::os::unix::fs::symlink(&outside, work.join("link")).unwrap();
        for (name, text) in [
            ("one", "first\nsecond\n"),
            ("list", "one\n"),
            ("e.sed", "1e traps/ls\n"),
        ] {
            fs::write(work.join(name), text).unwrap();
        }
        fs::write(work.join("good.sh"), "ls > /dev/null\n").unwrap();
        fs::write(work.join("many"), "line\n".repeat(200_000)).unwrap();
        ground.repository(&work);
        ground.repository(&work.join("repo"));
        ground.git(&work, &["config", "core.pager", "cat"]);
        let trap = ground.trap().display().to_string();
        for (name, value) in [
            ("core.fsmonitor", trap.as_str()),
            ("core.pager", &trap),
            ("core.sshCommand", &trap),
            ("diff.external", &trap),
            ("diff.x.textconv", &trap),
            ("alias.trapped", &format!("!{trap}")),
        ] {
            ground.git(&work.join("repo"), &["config", name, value]);
        }
        ground.git(&work, &["config", "diff.x.textconv", &trap]);
        ground.git(&work, &["config", "alias.trapped", &format!("!{trap}")]);
        for repository in [&work, &work.join("repo")] {
            fs::write(repository.join(".gitattributes"), "* diff=x\n").unwrap();
            for hook in [
                "post-checkout",
                "pre-commit",
                "post-commit",
                "pre-auto-gc",
                "reference-transaction",
            ] {
                fs::copy(
                    work.join("traps/ls"),
                    repository.join(".git/hooks").join(hook),
                )
                .unwrap();
            }
        }
        let tar = Command::new("tar")
            .args(["cf", "good.tar", "one"])
            .current_dir(&work)
            .status()
            .unwrap();
        let evil = Command::new("tar")
            .args(["cf", "evil.tar", "list"])
            .current_dir(&work)
            .status()
            .unwrap();
        assert!(tar.success() && evil.success());
        fs::write(work.join("goondan.yaml"), PROJECT).unwrap();
        for place in [&work, &outside] {
            let _ = fs::remove_file(place.join("SPRUNG"));
        }
        let saved = ground.dir.path().join("saved");
        fs::create_dir(&saved).unwrap();
        fs::rename(&work, saved.join("work")).unwrap();
        fs::rename(&outside, saved.join("outside")).unwrap();
        Some(ground)
    }

    /// Puts everything where it was before the first attack.
    fn reset(&self) {
        for folder in ["work", "outside", "state"] {
            let _ = fs::remove_dir_all(self.dir.path().join(folder));
        }
        let copy = |from: &str, to: PathBuf| {
            let from = self.dir.path().join(from);
            assert!(
                Command::new("cp")
                    .arg("-a")
                    .arg(from)
                    .arg(to)
                    .status()
                    .unwrap()
                    .success()
            );
        };
        copy("saved/work", self.work());
        copy("saved/outside", self.outside());
    }

    fn repository(&self, at: &Path) {
        fs::create_dir_all(at).unwrap();
        self.git(at, &["init", "-q", "-b", "main"]);
        for text in ["first\n", "second\n"] {
            fs::write(at.join("tracked"), text).unwrap();
            self.git(at, &["add", "tracked"]);
            self.git(
                at,
                &[
                    "-c",
                    "user.name=n",
                    "-c",
                    "user.email=e@x",
                    "commit",
                    "-q",
                    "-m",
                    "m",
                ],
            );
        }
        fs::write(at.join("tracked"), "third\n").unwrap();
        self.git(at, &["config", "user.name", "n"]);
        self.git(at, &["config", "user.email", "e@x"]);
    }

    fn git(&self, at: &Path, args: &[&str]) {
        let mut command = Command::new("git");
        command
            .args(args)
            .current_dir(at)
            .env("HOME", self.dir.path())
            .env("GIT_CONFIG_NOSYSTEM", "1");
        assert!(command.status().unwrap().success(), "git {args:?}");
    }

    /// What went off: a trap that ran, or a change outside.
    fn damage(&self) -> Option<String> {
        let outside = fs::read_dir(self.outside()).into_iter().flatten();
        let outside: Vec<_> = outside.map(|one| one.unwrap().file_name()).collect();
        if self.work().join("SPRUNG").exists() || self.outside().join("SPRUNG").exists() {
            Some("the trap ran".to_owned())
        } else if outside != ["kept"] || fs::read(self.outside().join("kept")).unwrap() != b"a\n" {
            Some(format!("there is {outside:?} outside"))
        } else {
            None
        }
    }
}

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

async fn call(ground: &Ground, tool: &str, arguments: serde_json::Value) -> ToolCallResult {
    let bundle = goondan::load(&ground.work()).bundle.unwrap();
    let builder = Swarm::builder(bundle)
        .state_root(ground.dir.path().join("state"))
        .environment(Environment::default());
    let swarm = builder.start().await.unwrap();
    let result = swarm.call_tool(Some("a"), None, tool, arguments).await;
    swarm.shutdown().await;
    result.unwrap()
}

async fn attack(ground: &Ground, tool: &str, arguments: &str) -> Option<String> {
    ground.reset();
    let mut arguments: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&ground.filled(arguments)).unwrap();
    arguments.entry("timeoutMs").or_insert(json!(5000));
    let result = call(ground, tool, arguments.into()).await;
    ground
        .damage()
        .map(|damage| format!("{damage}: {result:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_pattern_allows_starts_nothing_else() {
    let Some(ground) = Ground::lay() else { return };
    let mut through = Vec::new();
    let lines = LINES
        .iter()
        .map(|line| ("bash__exec", *line, json!({"command": line}).to_string()));
    let calls = CALLS
        .iter()
        .map(|(tool, name, arguments)| (*tool, *name, (*arguments).to_owned()));
    for (tool, name, arguments) in lines.chain(calls) {
        if let Some(damage) = attack(&ground, tool, &arguments).await {
            through.push(format!("{name:?}: {damage:.200}"));
        }
    }
    let all = LINES.len() + CALLS.len();
    println!(
        "attacks: command lines, run for real: {} of {all} held",
        all - through.len()
    );
    assert!(
        through.is_empty(),
        "{} of {all} got through:\n{}",
        through.len(),
        through.join("\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_pattern_allows_does_what_it_says() {
    let Some(ground) = Ground::lay() else { return };
    let mut wrong = Vec::new();
    for (line, expected) in FINE {
        ground.reset();
        let result = call(&ground, "bash__exec", json!({"command": line})).await;
        let printed = result
            .output
            .as_ref()
            .and_then(|output| output["stdout"].as_str());
        if !printed.is_some_and(|printed| printed.starts_with(expected)) {
            wrong.push(format!("{line:?}: {:?} {:?}", result.output, result.error));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
