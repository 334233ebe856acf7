use super::*;

#[test]
fn each_letter_of_an_option_cluster_can_take_a_value() {
    for (word, value) in [
        ("-fx.mk", "x.mk"),
        ("-sfx.mk", "x.mk"),
        ("-nfs2.sed", "s2.sed"),
        ("-C/etc/x", "/etc/x"),
        ("-I../é", "../é"),
    ] {
        assert!(pieces(word).contains(&value.to_owned()), "{word}");
    }
}

#[test]
fn the_files_of_a_command_line_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path();
    for file in [
        "server.js",
        "pkg/__init__.py",
        "pkg/__main__.py",
        "pkg/sub.py",
        "app/lib/main.js",
        "lib/hook.mjs",
        "app/index.js",
        "app/package.json",
        "my tools/run.sh",
        "node_modules/server-x/package.json",
        "bin/serve",
        "notes.db",
        "data/package.json",
        "sub/Makefile",
    ] {
        let path = project.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x").unwrap();
    }
    std::fs::write(project.join("script"), "#!bin/serve\n").unwrap();
    let manifest = r#"{"main": "./lib/main"}"#;
    std::fs::write(project.join("app/package.json"), manifest).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(project.join("bin/serve"), executable).unwrap();
    }
    let bin = project.join("bin").display().to_string();
    let variables = BTreeMap::from([("PATH".to_owned(), bin)]);
    for (line, expected) in [
        (&["node", "server.js"][..], &["script", "server.js"][..]),
        (&["node", "server"], &["script", "server.js"]),
        (
            &["/usr/bin/env", "node", "./server.js"],
            &["script", "server.js"],
        ),
        (
            &["node", "--import=./lib/hook.mjs", "server.js"],
            &["lib", "lib/hook.mjs", "script", "server.js"],
        ),
        (
            &["node", "app"],
            &[
                "app",
                "app/index.js",
                "app/lib",
                "app/lib/main.js",
                "app/package.json",
            ],
        ),
        (
            &["python3.12", "-m", "pkg"],
            &[
                "pkg",
                "pkg/__init__.py",
                "pkg/__main__.py",
                "script",
                "server.js",
            ],
        ),
        (
            &["python3", "-m", "pkg.sub"],
            &[
                "pkg",
                "pkg/__init__.py",
                "pkg/sub.py",
                "script",
                "server.js",
            ],
        ),
        (
            &["sh", "-c", "exec node server.js"],
            &["script", "server.js"],
        ),
        (
            &["sh", "-c", "exec sh $PWD/server.js"],
            &["script", "server.js"],
        ),
        (
            &["sh", "-c", "exec sh ${PWD}/server.js"],
            &["script", "server.js"],
        ),
        (
            &["sh", "-c", "exec sh $(pwd)/server.js"],
            &["script", "server.js"],
        ),
        (
            &["sh", "-c", "cd lib && node hook"],
            &["lib", "lib/hook.mjs", "script", "server.js"],
        ),
        (
            &["sh", "-c", "cd lib; node hook.mjs"],
            &["lib", "lib/hook.mjs", "script", "server.js"],
        ),
        (&["make", "-sfserver.js"], &["script", "server.js"]),
        (
            &["make", "-s", "-C", "sub"],
            &["script", "server.js", "sub", "sub/Makefile"],
        ),
        (
            &["make", "-sCsub"],
            &["script", "server.js", "sub", "sub/Makefile"],
        ),
        (
            &["make", "--directory=sub"],
            &["script", "server.js", "sub", "sub/Makefile"],
        ),
        (
            &["make", "--makefile=sub/Makefile"],
            &["sub", "sub/Makefile"],
        ),
        (
            &["npm", "--prefix", "app", "start"],
            &["app", "app/package.json", "script", "server.js"],
        ),
        (&["perl", "-Ilib"], &["lib", "script", "server.js"]),
        (&["perl", "-I", "lib"], &["lib", "script", "server.js"]),
        (&["./script"], &["bin/serve", "script", "server.js"]),
        (&["sh", "my tools/run.sh"], &["my tools", "my tools/run.sh"]),
        (
            &["bin/serve", "--db", "notes.db"],
            &["bin/serve", "script", "server.js"],
        ),
        (&["serve"], &["bin/serve", "script", "server.js"]),
        (
            &["npx", "-y", "server-x@1.0", "data"],
            &[
                "data/package.json",
                "node_modules/server-x",
                "node_modules/server-x/package.json",
            ],
        ),
        (
            &["no-such-program", "data"],
            &["data", "data/package.json", "script", "server.js"],
        ),
        (
            &["no-such-program", "pkg.sub:app2"],
            &[
                "pkg",
                "pkg/__init__.py",
                "pkg/sub.py",
                "script",
                "server.js",
            ],
        ),
    ] {
        let args: Vec<String> = line[1..].iter().map(|arg| (*arg).to_owned()).collect();
        let mut expected = expected.to_vec();
        // The directory of the search path contains code.
        expected.extend(["bin"]);
        expected.sort_unstable();
        assert_eq!(
            found_files(project, line[0], &args, &variables),
            expected,
            "{line:?}"
        );
    }
}

#[test]
fn a_change_of_a_loadable_file_changes_the_server_content() {
    let settings = |folder: &str| format!("{folder}/.npmrc");
    for (line, file) in [
        (&["node", "app"][..], "app/lib/main.js"),
        (&["node", "."], "lib/main.js"),
        (&["node", "server.js"], "node_modules/x/index.js"),
        (&["python3", "-m", "pkg"], "pkg/__init__.py"),
        (&["python3", "-m", "pkg"], "json/__init__.py"),
        (
            &["python3", "tools/serve.py"],
            "tools/__pycache__/lib.cpython-312.pyc",
        ),
        (&["python3", "tools/serve.py"], "tools/lib.so"),
        (&["./tools/serve.py"], "tools/lib.py"),
        (&["ruby", "-rlib/main", "server.rb"], "lib/main.rb"),
        (&["npx", "-y", "server-x"], ".npmrc"),
        (&["npx", "-y", "server-x"], "package.json"),
        (&["npx", "-y", "server-x"], "node_modules/server-x/index.js"),
        (&["npx", "-y", "server-x"], "hook.js"),
        (&["sh", "tools/start.sh"], "tools/lib.sh"),
        (&["npm", "start"], &settings(".")),
        (&["npm", "--prefix", "app", "start"], &settings("app")),
        (&["yarn", "start"], ".yarnrc.yml"),
        (&["pnpm", "start"], ".pnpmfile.cjs"),
        (&["bun", "server.ts"], "bunfig.toml"),
        (&["deno", "run", "server.ts"], "deno.json"),
        (&["tsx", "server.ts"], "tsconfig.json"),
        (&["uv", "run", "serve"], "pyproject.toml"),
        (&["sh", "-c", "exec sh \"$PWD/run.sh\""], "run.sh"),
        (&["sh", "-c", "exec sh /proc/$$/cwd/run.sh"], "run.sh"),
        (&["sh", "-c", "exec sh r[u]n.sh"], "run.sh"),
        (&["go", "run", "./tools"], "tools/lib.go"),
        (&["/usr/local/go/bin/go", "run", "./tools"], "tools/lib.go"),
        (
            &["env", "CGO_ENABLED=0", "go", "run", "./tools"],
            "tools/lib.go",
        ),
        (&["timeout", "60", "go", "run", "./tools"], "tools/lib.go"),
        (&["uvx", "--from", "./tools", "serve"], "tools/lib.py"),
        (&["uvx", "--from", ".", "serve"], "src/serve/lib.py"),
        (&["pipx", "run", "--spec=./tools", "serve"], "tools/lib.py"),
        (&["npx", "-y", "./tools"], "tools/lib.js"),
        (&["uvicorn", "tools.app:app"], "tools/lib.py"),
        (&["flask", "run"], "app.py"),
        (&["gradle", "run"], "src/main/java/Main.java"),
        (&["mvn", "exec:java"], "src/main/java/Main.java"),
        (&["dotnet", "run", "--project", "tools"], "tools/Main.cs"),
        (
            &["docker", "compose", "run", "serve"],
            "compose.override.yaml",
        ),
        (
            &["docker", "run", "-v", "./tools:/srv", "x"],
            "tools/lib.py",
        ),
        (&["nix", "run", "."], "flake.nix"),
        (&["nix", "run", "./tools#serve"], "tools/flake.nix"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path();
        let write = |path: &str, content: &str| {
            let path = project.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        };
        for server in [
            "server.js",
            "server.ts",
            "server.rb",
            "app/index.js",
            "tools/start.sh",
        ] {
            write(server, "x");
        }
        write("tools/serve.py", "#!/usr/bin/env python3\n");
        write("app/package.json", r#"{"main": "lib/main.js"}"#);
        if file == "hook.js" {
            write("hook.js", "x");
            write(".npmrc", "node-options=--require ./hook.js\n");
        }
        let args: Vec<String> = line[1..].iter().map(|arg| (*arg).to_owned()).collect();
        let contents = || {
            let program = StartedProgram {
                command: line[0],
                args: &args,
                variables: &BTreeMap::new(),
                folder: project,
                project,
            };
            program.contents().contents
        };
        let before = contents();
        write("out/result.csv", "data");
        let is_unknown = line.last().unwrap().contains(['$', '[']);
        assert!(before == contents() || is_unknown, "{line:?}");
        let before = contents();
        write(file, "{}");
        assert_ne!(before, contents(), "{line:?} {file}");
    }
}

#[test]
fn a_server_that_loads_no_code_of_the_project_keeps_its_content() {
    for line in [
        &["mcp-server-git", "--repository", "src"][..],
        &["github-mcp-server", "stdio"],
        &[
            "npx",
            "-y",
            "@modelcontextprotocol/server-filesystem",
            "src",
        ],
        &["uvx", "--from", "mcp-server-x", "serve", "src"],
        &["uvx", "mcp-server-git", "--repository", "src"],
        &["docker", "run", "-i", "--rm", "mcp/time"],
        &["curl", "http://127.0.0.1:1/"],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path();
        std::fs::create_dir(project.join("src")).unwrap();
        std::fs::write(project.join("src/main.go"), "x").unwrap();
        let args: Vec<String> = line[1..].iter().map(|arg| (*arg).to_owned()).collect();
        let program = StartedProgram {
            command: line[0],
            args: &args,
            variables: &BTreeMap::new(),
            folder: project,
            project,
        };
        let before = program.contents();
        std::fs::write(project.join("src/main.go"), "y").unwrap();
        std::fs::write(project.join("main.py"), "y").unwrap();
        assert_eq!(program.contents(), before, "{line:?}");
        assert_eq!(program.files(), BTreeSet::new(), "{line:?}");
    }
}

#[test]
fn files_that_would_run_before_existing_ones_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path();
    for file in ["lib/srv/index.js", "sub/Makefile", "Makefile", "srv/app.py"] {
        let path = project.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x").unwrap();
    }
    for (line, folder, file) in [
        (&["node", "lib/srv"][..], ".", "lib/srv.js"),
        (&["node", "lib/srv"], ".", "lib/srv/package.json"),
        (&["node", "srv"], "lib", "lib/srv.js"),
        (&["sh", "-c", "exec node lib/srv"], ".", "lib/srv.js"),
        (&["make", "serve"], "sub", "sub/GNUmakefile"),
        (&["make", "serve"], ".", "GNUmakefile"),
        (&["make", "-C", "sub"], ".", "sub/GNUmakefile"),
        (&["just", "serve"], ".", ".justfile"),
        (&["uv", "run", "serve"], ".", "uv.toml"),
        (&["python3", "-m", "srv.app"], ".", "srv/app/__init__.py"),
        (&["uvicorn", "srv.app:app"], ".", "srv/app/__init__.py"),
        (&["sh", "start.sh"], ".", "start.sh"),
        (&["cargo", "run"], "sub", "Cargo.toml"),
        (&["gradle", "run"], ".", "settings.gradle.kts"),
    ] {
        let args: Vec<String> = line[1..].iter().map(|arg| (*arg).to_owned()).collect();
        let program = StartedProgram {
            command: line[0],
            args: &args,
            variables: &BTreeMap::new(),
            folder: &project.join(folder),
            project,
        };
        let possible = program.possible_files();
        let is_file = |path: &PathBuf| path.components().eq(project.join(file).components());
        assert!(possible.iter().any(is_file), "{line:?} {file} {possible:?}");
        assert!(!possible.contains(&project.join("other.js")), "{line:?}");
    }
}

#[test]
fn an_unknown_expansion_makes_the_files_of_a_server_unknown() {
    let dir = tempfile::tempdir().unwrap();
    for (line, expected) in [
        (&["sh", "-c", "exec node $PWD/x.js"][..], false),
        (&["sh", "-c", "exec node $HOME/x.js"], false),
        (&["sh", "-c", "exec node $DIR/x.js"], false),
        (&["node", "x.js", "$1"], false),
        (&["sh", "-c", "[ -f x ] && exec node x.js"], false),
        (&["sh", "-c", "exec node $OTHER/x.js"], true),
        (&["sh", "-c", "exec node $(cat x)"], true),
        (&["sh", "-c", "exec node *.js"], true),
        (&["env", "-S", "node ${OTHER}"], true),
        (&["find", "srv", "-exec", "python3", "{}", ";"], true),
        (&["sh", "-c", "find srv -exec python3 {} ';'"], true),
        (&["xargs", "-a", "l.txt", "python3"], true),
        (&["sh", "-c", "ls srv | python3"], true),
        (&["sh", "-c", "rsync -a srv sub; python3 sub/x.txt"], true),
        (&["sh", "-c", "cat srv/x.txt | python3"], false),
    ] {
        let args: Vec<String> = line[1..].iter().map(|arg| (*arg).to_owned()).collect();
        let program = StartedProgram {
            command: line[0],
            args: &args,
            variables: &BTreeMap::from([("DIR".to_owned(), "lib".to_owned())]),
            folder: dir.path(),
            project: dir.path(),
        };
        assert_eq!(program.contents().are_unknown, expected, "{line:?}");
    }
}

#[test]
fn paths_that_may_contain_unknown_files_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path();
    std::fs::create_dir_all(project.join("srv")).unwrap();
    std::fs::write(project.join("srv/start.txt"), "x").unwrap();
    std::fs::write(project.join("list.txt"), "srv/start.txt\n").unwrap();
    for (line, expected) in [
        (
            &["find", "srv", "-exec", "python3", "{}", ";"][..],
            &["srv"][..],
        ),
        (&["sh", "-c", "find srv -exec python3 {} ';'"], &["srv"]),
        (&["sh", "-c", "exec python3 srv/*"], &["srv"]),
        (
            &["xargs", "-a", "list.txt", "python3"],
            &["list.txt", "srv/start.txt"],
        ),
        (&["ls", "srv"], &[]),
    ] {
        let args: Vec<String> = line[1..].iter().map(|arg| (*arg).to_owned()).collect();
        let found = found_files(project, line[0], &args, &BTreeMap::new());
        assert_eq!(found, expected, "{line:?}");
    }
}

#[test]
fn the_files_and_directories_that_variables_name_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path();
    for file in [
        "start.py",
        "hook.js",
        "lib/sitecustomize.py",
        "data/notes.txt",
    ] {
        let path = project.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x").unwrap();
    }
    let lib = project.join("lib").display().to_string();
    for (value, expected) in [
        ("start.py", &["start.py"][..]),
        ("--require ./hook.js", &["hook.js"]),
        ("--import=./hook.js", &["hook.js"]),
        ("-Ilib", &["lib"]),
        ("lib", &["lib"]),
        (&format!("/usr/lib:{lib}:data"), &["lib"]),
        (".", &["hook.js", "start.py"]),
        ("ssh -i start.py", &["start.py"]),
        ("data", &[]),
        ("/usr/lib", &[]),
        ("text", &[]),
    ] {
        let variables = BTreeMap::from([("ANY".to_owned(), value.to_owned())]);
        let found = found_files(project, "/usr/bin/env", &[], &variables);
        assert_eq!(found, expected, "{value}");
    }
}

/// Returns the files that are found for a program, relative to the project.
fn found_files(
    project: &Path,
    command: &str,
    args: &[String],
    variables: &BTreeMap<String, String>,
) -> Vec<String> {
    let program = StartedProgram {
        command,
        args,
        variables,
        folder: project,
        project,
    };
    let real_project = project.canonicalize().unwrap();
    let found: BTreeSet<String> = program
        .files()
        .iter()
        .filter_map(|path| path.canonicalize().ok())
        .filter_map(|path| {
            let below = path.strip_prefix(&real_project).ok()?;
            Some(below.display().to_string())
        })
        .collect();
    found.into_iter().collect()
}
