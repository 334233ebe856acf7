use std::fs;

use super::*;

#[test]
fn a_line_with_an_unknown_file_has_no_remembered_approval() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().to_owned();
    fs::write(folder.join("run.sh"), "x").unwrap();
    for line in [
        "sh \"$PWD/run.sh\"",
        ". \"$PWD/run.sh\"",
        "sh \"$(pwd)/run.sh\"",
        "D=$PWD; sh $D/run.sh",
        "make -C \"$(pwd)/sub\"",
        "cd $PWD/sub; make",
        "BASH_ENV=$PWD/run.sh bash -c true",
        "F=run; sh $F.sh",
        "X=run.sh; sh $X",
        "X=1; echo \"$(sh run.sh)\"",
        "sh $(echo run).sh",
        "sh ${X:-run}.sh",
        "set -- run sh; sh $1.$2",
        "for i in run; do sh $i.sh; done",
        "sh -c 'sh \"$0/run.sh\"' sub",
        "bash -c 'sh {run,x}.sh'",
        "bash -c 'sh ~+/run.sh'",
        "echo c2ggcnVuLnNo | base64 -d | sh",
        "Q=/proc; sh $Q/self/cwd/run.sh",
        "GIT_EXTERNAL_DIFF='$PWD/run.sh' git diff",
        "sh /proc/[s]elf/cwd/run.sh",
        "sh /pro?/self/cwd/run.sh",
        "sh r*.sh",
        "sh -c 'sh r[u]n.sh'",
        "for i in 1; do sh r?n.sh; done",
        // A program can run its input, files from a list, or copies.
        "cat d/* | python3",
        "ls d | python3",
        "cat d/* | { python3; }",
        "cat notes.txt | { python3; }",
        "find d -type f -exec sh {} +",
        "find . -type f -ok sh {} ';'",
        "ls d | xargs -I F sh d/F",
        "xargs -n1 git add",
        "xargs python3 < l.txt",
        "parallel sh :::: l.txt",
        "rsync -a . sub; sh sub/s.txt",
        "cp -a . sub2; sh sub2/s.txt",
        "tar c . | tar x -C sub; sh sub/s.txt",
        "cat d/* | tee x.sh; sh x.sh",
    ] {
        let found = find(&[line.to_owned()], std::slice::from_ref(&folder), &folder);
        assert_eq!(found, None, "{line}");
    }
    // A script can also run an unknown file.
    fs::write(folder.join("unknown.sh"), ". \"$LIB/x.txt\"\n").unwrap();
    fs::write(folder.join("unknown.mk"), "include $(LIB)\n").unwrap();
    for line in ["sh unknown.sh", "./unknown.sh", "make -f unknown.mk"] {
        let found = find(&[line.to_owned()], std::slice::from_ref(&folder), &folder);
        assert_eq!(found, None, "{line}");
    }
    fs::remove_file(folder.join("unknown.sh")).unwrap();
    // An expansion that no shell of the line evaluates names no file.
    let found = find(
        &["awk '{print $1}' notes.txt".to_owned()],
        std::slice::from_ref(&folder),
        &folder,
    );
    assert!(found.is_some());
}

#[test]
fn a_file_is_found_in_code_of_any_language() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().to_owned();
    fs::write(folder.join("s.txt"), "true").unwrap();
    for line in [
        "echo x | sed 's/x/sh s.txt/e'",
        "sed -n '1e sh s.txt' x",
        "echo 'puts [exec sh s.txt]' | tclsh",
        "printf '!sh s.txt' | ed -s",
        "awk 'BEGIN{system(\"sh s.txt\")}'",
    ] {
        let found = find(&[line.to_owned()], std::slice::from_ref(&folder), &folder);
        let is_covered = found.is_none_or(|found| found.files.contains(&folder.join("s.txt")));
        assert!(is_covered, "{line}");
    }
}

#[test]
fn a_script_is_found_for_every_way_to_run_it() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("work");
    fs::create_dir_all(folder.join("sub")).unwrap();
    for file in ["run.sh", "sub/run.py", "notes.txt", "../outside.run.sh"] {
        fs::write(folder.join(file), "x").unwrap();
    }
    let named = |line: &str| -> Vec<String> {
        let found = find(&[line.to_owned()], std::slice::from_ref(&folder), &folder);
        found
            .unwrap_or_else(|| panic!("{line}"))
            .files
            .iter()
            .map(|file| {
                file.strip_prefix(&folder)
                    .unwrap_or(file)
                    .display()
                    .to_string()
            })
            .collect()
    };
    for line in [
        "sh run.sh",
        "./run.sh",
        "bash -c 'sh run.sh'",
        "env X=1 sh run.sh",
        "cat notes.txt | sh run.sh",
        "sh < run.sh",
        "for i in 1; do . run.sh; done",
        "python3 --file=run.sh",
        "sh ../outside.run.sh",
        "python3 - < run.sh",
        "make -frun.sh",
        "java @run.sh",
    ] {
        assert!(
            named(line).iter().any(|file| file.ends_with("run.sh")),
            "{line}: {:?}",
            named(line)
        );
    }
    assert_eq!(named("cd sub && python3 run.py"), ["", "sub", "sub/run.py"]);
    assert_eq!(named("LD_PRELOAD=run.sh touch x"), ["", "run.sh"]);
    for line in ["ls", "touch run.sh", "rm -f run.sh"] {
        assert_eq!(named(line), Vec::<String>::new(), "{line}");
    }
    // A file that a command only reads also counts, because another command can run the data.
    assert_eq!(named("git diff run.sh"), ["run.sh"]);
    for line in [
        "cat notes.txt",
        "cat notes.txt | wc -l",
        "wc -l < notes.txt",
        "cat notes.txt | python3",
        "head -c 999 notes.txt | node",
        "cat notes.txt | (python3)",
        "cat notes.txt | timeout 5 ruby",
        "cat notes.txt | tee x.sh; sh x.sh",
    ] {
        assert!(named(line).contains(&"notes.txt".to_owned()), "{line}");
    }
    assert_eq!(
        find(
            &[(0..6000).map(|n| format!(" w{n}")).collect::<String>()],
            std::slice::from_ref(&folder),
            &folder
        ),
        None
    );
}

#[test]
fn files_that_a_program_loads_implicitly_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("work");
    for (file, content) in [
        ("Makefile", "x"),
        ("sub/Makefile", "x"),
        ("sub/package.json", "{}"),
        ("pkg/mod.py", "x"),
        ("lib/start.py", "x"),
        ("data/notes.txt", "x"),
        ("program", "#!./interpreter\n"),
        ("interpreter", "#!/bin/sh\n"),
        ("start.py", "x"),
    ] {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let named = |line: &str| {
        let found = find(&[line.to_owned()], std::slice::from_ref(&folder), &folder)?;
        let below = found.files.iter().map(|file| {
            let file = file.strip_prefix(&folder).unwrap_or(file);
            file.display().to_string()
        });
        Some(below.collect::<Vec<_>>())
    };
    for (line, expected) in [
        ("./program", &["", "interpreter", "program"][..]),
        ("make test", &["", "Makefile"]),
        ("make -C sub", &["", "Makefile", "sub", "sub/Makefile"]),
        ("make -sCsub", &["", "Makefile", "sub", "sub/Makefile"]),
        (
            "make --directory=sub",
            &["", "Makefile", "sub", "sub/Makefile"],
        ),
        (
            "npm --prefix sub run build",
            &["", "sub", "sub/package.json"],
        ),
        ("python3 -m pkg.mod", &["", "pkg", "pkg/mod.py"]),
        ("PYTHONPATH=lib python3 -V", &["", "lib"]),
        ("PYTHONPATH=/usr/lib:lib python3 -V", &["", "lib"]),
        ("env PYTHONPATH=lib python3 -V", &["", "lib"]),
        ("export PYTHONPATH=lib; python3 -V", &["", "lib"]),
        ("sh -c 'PYTHONPATH=lib python3 -V'", &["", "lib"]),
        ("PYTHONSTARTUP=start.py python3 -i", &["", "start.py"]),
        ("PYTHONPATH=data python3 -V", &[""]),
        ("perl -Ilib -v", &["", "lib"]),
        ("perl -I lib -v", &["", "lib"]),
        ("python3 -V data", &[""]),
        ("cat program", &["program"]),
    ] {
        let expected: Vec<String> = expected.iter().map(|file| (*file).to_owned()).collect();
        assert_eq!(named(line), Some(expected), "{line}");
    }
    assert_eq!(named("PYTHONPATH=. python3 -V"), None);
}

/// A program may load files that no word of its line names.
#[test]
fn changes_to_code_that_the_line_does_not_name_are_detected() {
    for (line, file) in [
        ("python3 -m json.tool x", "json.py"),
        ("python3 run.py", "json/__init__.py"),
        ("python3 sub/run.py", "sub/json.py"),
        ("python3 -c 'import x'", "x.so"),
        ("python3 -m pkg.mod", "pkg/__pycache__/mod.cpython-312.pyc"),
        ("python3 -E -m pkg.mod", "pkg/mod.pyc"),
        ("pytest tests", "conftest.py"),
        ("perl -wIlib -e 1", "lib/x.pm"),
        ("perl -Mlib=lib -e 1", "lib/x.pm"),
        ("gcc -isystem lib -c x.c", "lib/stdio.h"),
        ("gcc -Blib -c x.c", "lib/as"),
        ("gcc -specs=lib/specs -c x.c", "lib/specs"),
        ("make -C a -C b", "a/b/Makefile"),
        ("make", "rules.mk"),
        ("run-parts lib", "lib/job"),
        ("node .", "lib/main.js"),
        ("node --test", "x.test.js"),
        ("node run.js", "node_modules/x/index.js"),
        ("npm test", ".npmrc"),
        ("yarn test", ".yarnrc.yml"),
        ("pnpm test", ".pnpmfile.cjs"),
        ("deno task x", "deno.json"),
        ("npx tsc", "tsconfig.json"),
        ("ruby -rlib/x -e 1", "lib/x.rb"),
        ("lua run.lua", "x.lua"),
        ("cargo test", "build.rs"),
        ("git --git-dir=lib log", "lib/config"),
        ("git --exec-path=lib log", "lib/git-log"),
        ("git -c core.pager=x log", ".git/config"),
        ("git log", ".git/config"),
        ("git commit -m x", ".git/hooks/pre-commit"),
        ("git diff", ".gitattributes"),
        ("git commit -m x", ".husky/pre-commit"),
        ("git status", "monitor.sh"),
        ("git status", "included.txt"),
        ("make all", ".git/config"),
        ("make all", ".git/modules/sub/config"),
        ("sh run.sh", "sub/.git/config"),
        ("sh run.sh", ".git/commondir"),
        ("make -C sub", ".gitattributes"),
        ("make all", ".hg/hgrc"),
        ("pytest", "test_notes.txt"),
        ("nx build", "nx.json"),
        ("pip install -r lists/dev.txt", "lists/base.txt"),
        ("some-tool --unknown", "some-tool.conf"),
        ("sh run.sh", "lib.sh"),
        ("sh build.sh", "steps.txt"),
        ("./build.sh && true", "steps.txt"),
        ("sh steps.txt", "more.txt"),
        (". ./steps.txt", "more.txt"),
        ("make", "rules.txt"),
        ("make all", "steps.txt"),
        ("make -f other.txt", "more.txt"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_owned();
        let write = |name: &str, content: &str| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        for name in [
            "run.py",
            "run.js",
            "run.lua",
            "run.sh",
            "sub/run.py",
            "pkg/mod.py",
            "lib/first",
            "a/b/first",
            ".git/config",
            ".git/hooks/first",
            "tests/a.py",
        ] {
            write(name, "x");
        }
        write(
            ".git/config",
            "[core]\n\tfsmonitor = ./monitor.sh\n[include]\n\tpath = ../parts.txt\n",
        );
        write("monitor.sh", "x");
        write("parts.txt", "[include]\n\tpath = included.txt\n");
        write("included.txt", "x");
        write("lists/dev.txt", "-r base.txt\n");
        write("lists/base.txt", "x");
        write("build.sh", "if true; then . ./steps.txt; fi\n");
        write("steps.txt", "sh more.txt\n");
        write("more.txt", "true\n");
        write("Makefile", "include rules.txt\nall:\n\tsh build.sh\n");
        write("rules.txt", "x:\n\ttrue\n");
        write("other.txt", "x:\n\tsh more.txt\n");
        let contents = || {
            let found = find(&[line.to_owned()], std::slice::from_ref(&folder), &folder).unwrap();
            let identities = found.files.into_iter().map(|file| {
                let identity = goondan_core::content_hash::readable_content_identity(&file);
                (file, identity.unwrap())
            });
            identities.collect::<BTreeMap<_, _>>()
        };
        let before = contents();
        write("result.csv", "data");
        assert_eq!(before, contents(), "{line}: data");
        write(file, "changed");
        assert_ne!(before, contents(), "{line}: {file}");
    }
}

#[test]
fn a_line_that_starts_version_control_is_recognized() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().to_owned();
    let starts = |line: &str| {
        let found = find(&[line.to_owned()], std::slice::from_ref(&folder), &folder);
        found.unwrap().starts_version_control
    };
    for line in [
        "git status",
        "cd sub && git log",
        "env X=1 /usr/bin/git commit",
        "sh -c 'git status'",
        "timeout 9 hg status",
        "jj st",
        "python3 -c \"import os; os.system('svn up')\"",
    ] {
        assert!(starts(line), "{line}");
    }
    for line in ["make", "echo git", "cat .git/config", "pytest digit"] {
        assert!(!starts(line), "{line}");
    }
}

#[test]
fn commands_that_load_no_code_cover_only_their_files() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().to_owned();
    fs::write(folder.join("tool"), "x").unwrap();
    for (line, expected) in [
        ("ls -l", &[][..]),
        ("cat tool", &["tool"]),
        ("mkdir new && rm -r new", &[]),
        ("cp tool bin", &["tool"]),
        ("mv tool other", &["tool"]),
        ("sleep 1", &[]),
    ] {
        let found = find(&[line.to_owned()], std::slice::from_ref(&folder), &folder).unwrap();
        let expected: BTreeSet<PathBuf> = expected.iter().map(|name| folder.join(name)).collect();
        assert_eq!(found.files, expected, "{line}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_dependent_path_is_found_unless_it_is_data() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().to_owned();
    fs::write(folder.join("run.sh"), "x").unwrap();
    std::os::unix::fs::symlink("/proc/self/cwd/run.sh", folder.join("link")).unwrap();
    std::os::unix::fs::symlink("/proc/thread-self/cwd", folder.join("here")).unwrap();
    let found = |line: &str| {
        let found = find(&[line.to_owned()], std::slice::from_ref(&folder), &folder).unwrap();
        found.process_dependent_path
    };
    for line in [
        "sh /proc/self/cwd/run.sh",
        "sh /proc/thread-self/cwd/run.sh",
        "sh /dev/fd/../cwd/run.sh",
        "sh link",
        "sh here/run.sh",
        "cd here && sh run.sh",
        "cd /proc/self && sh cwd/run.sh",
        "python3 --file=/proc/self/cwd/run.sh",
        "sh < link",
        "python3 -c \"exec(open('/proc/self/cwd/run.sh').read())\"",
        "cat /proc/self/cwd/run.sh | python3",
    ] {
        assert!(found(line).is_some(), "{line}");
    }
    for line in [
        "sh run.sh",
        "sh -c 'cat /proc/self/status > /dev/stderr'",
        "cat /proc/self/cwd/run.sh",
        "sh /dev/stdin < run.sh",
    ] {
        assert_eq!(found(line), None, "{line}");
    }
}

#[test]
fn a_script_is_found_if_its_name_has_special_characters() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().to_owned();
    fs::create_dir_all(folder.join("one/two")).unwrap();
    for file in [
        "run.sh",
        "a,b.sh",
        "my run.sh",
        "a=b.sh",
        "it's.sh",
        "a:b.sh",
        "one/two/c.sh",
    ] {
        fs::write(folder.join(file), "x").unwrap();
    }
    let named = |line: &str| {
        let found = find(&[line.to_owned()], std::slice::from_ref(&folder), &folder)?;
        Some(found.files)
    };
    for (line, file) in [
        ("sh a,b.sh", "a,b.sh"),
        ("sh './my run.sh'", "my run.sh"),
        ("sh 'ru'n.sh; X=1", "run.sh"),
        ("sh r\\un.sh; X=1", "run.sh"),
        ("sh './my run.sh'; X=1", "my run.sh"),
        ("sh ./my\\ run.sh; X=1", "my run.sh"),
        ("X=1; sh \"./my run\".sh", "my run.sh"),
        ("X=1; eval \"sh 'my run.sh'\"", "my run.sh"),
        ("X=1; sh a,b.sh", "a,b.sh"),
        ("sh a=b.sh", "a=b.sh"),
        ("sh \"it's.sh\"", "it's.sh"),
        ("X=1; sh it\\'s.sh", "it's.sh"),
        ("python3 --file=a,b.sh", "a,b.sh"),
        ("python3 --file=a=b.sh,x", "a=b.sh"),
        ("python3 --path=x:a,b.sh:y", "a,b.sh"),
        ("python3 -c \"open('a,b.sh')\"", "a,b.sh"),
        ("python3 -c \"# it's\nopen('my run.sh')\"", "my run.sh"),
        ("python3 - < 'my run.sh'", "my run.sh"),
        ("sh -c \"sh 'my run.sh'\"", "my run.sh"),
        ("cd one && cd two && sh c.sh", "one/two/c.sh"),
        ("X=1; cd one; cd two; sh c.sh", "one/two/c.sh"),
    ] {
        let found = named(line).unwrap_or_default();
        assert!(
            found.iter().any(|path| path.ends_with(file)),
            "{line}: {found:?}"
        );
    }
    for line in [
        "sh $'r\\x75n.sh'",
        "sh <<'E'\n. './my run.sh'\nE",
        "X=1; sh \"${x:-\"my run.sh\"}\"",
        "a 'b",
    ] {
        assert_eq!(named(line), None, "{line}");
    }
    assert!(named("for i in 1 2; do echo 1; done").is_some());
}

#[cfg(unix)]
#[test]
fn link_targets_are_found_in_all_commands() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().canonicalize().unwrap();
    fs::create_dir_all(folder.join("real")).unwrap();
    fs::write(folder.join("real/notes"), "x").unwrap();
    std::os::unix::fs::symlink("real", folder.join("link")).unwrap();
    std::os::unix::fs::symlink("gone", folder.join("new")).unwrap();
    let targets = |line: &str| -> Vec<String> {
        let found = find(&[line.to_owned()], std::slice::from_ref(&folder), &folder).unwrap();
        let name = |path: &PathBuf| path.strip_prefix(&folder).unwrap().display().to_string();
        let links = found.link_targets.iter();
        links
            .map(|(path, target)| format!("{} {}", name(path), name(target)))
            .collect()
    };
    for (line, expected) in [
        ("cd link && make", "link real"),
        ("rm link/notes", "link/notes real/notes"),
        ("git diff link", "link real"),
        ("echo x > link/notes", "link/notes real/notes"),
        ("echo x >> new", "new gone"),
        ("sort < link/notes", "link/notes real/notes"),
        ("tar --directory=link -x", "link real"),
        (
            "for i in 1; do cat link/notes; done",
            "link/notes real/notes",
        ),
    ] {
        let found = targets(line);
        assert!(
            found.iter().any(|link| link == expected),
            "{line}: {found:?}"
        );
    }
    assert_eq!(targets("cat real/notes > real/copy"), [""; 0]);
}
