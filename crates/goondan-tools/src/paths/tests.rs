//! Tests of path resolution and file access below a root.

use std::fs;
use std::os::unix::fs::symlink;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// Creates a root `in` next to a directory `out`, with links of all kinds.
fn tree() -> (TempDir, FileRoot) {
    let dir = tempfile::tempdir().unwrap();
    let (inside, outside) = (dir.path().join("in"), dir.path().join("out"));
    fs::create_dir_all(inside.join("a/b")).unwrap();
    fs::create_dir_all(outside.join("deep")).unwrap();
    fs::write(outside.join("secret"), "s").unwrap();
    fs::write(inside.join("file"), "f").unwrap();
    symlink("a", inside.join("to-a")).unwrap();
    symlink(inside.join("file"), inside.join("absolute")).unwrap();
    symlink(&outside, inside.join("leave")).unwrap();
    symlink("../out/deep", inside.join("deep")).unwrap();
    symlink("../out/new", inside.join("dangling")).unwrap();
    symlink("loop", inside.join("loop")).unwrap();
    let root = FileRoot::from_directory(&inside).unwrap();
    (dir, root)
}

fn code(root: &FileRoot, path: &str) -> Option<String> {
    root.resolve(path).err().and_then(|error| error.code)
}

#[test]
fn existing_and_new_paths_inside_the_root_resolve() {
    let (_dir, root) = tree();
    let at = |path: &str| root.resolve(path).unwrap().path;
    assert_eq!(at("."), root.folder());
    assert_eq!(at("to-a/b/../new/x"), root.folder().join("a/new/x"));
    assert_eq!(at("absolute"), root.folder().join("file"));
    assert_eq!(at("../in/file"), root.folder().join("file"));
    assert_eq!(
        at(root.folder().join("n/m").to_str().unwrap()),
        root.folder().join("n/m")
    );
}

#[test]
fn paths_outside_the_root_are_rejected() {
    let (dir, root) = tree();
    let absolute = dir.path().join("out/secret").display().to_string();
    let paths = [
        "..",
        "../out/secret",
        "a/../../out",
        "leave/secret",
        "leave",
        "deep/..",
        "deep/x",
        "dangling",
        &absolute,
    ];
    for path in paths {
        assert_eq!(
            code(&root, path).as_deref(),
            Some(Code::TOOL_PATH_ESCAPE.as_str()),
            "{path}"
        );
    }
    assert_eq!(code(&root, "loop").as_deref(), Some(Code::TOOL_IO.as_str()));
    assert_eq!(
        code(&root, "").as_deref(),
        Some(Code::TOOL_INVALID_ARGS.as_str())
    );
    assert_eq!(
        code(&root, "a\0b").as_deref(),
        Some(Code::TOOL_INVALID_ARGS.as_str())
    );
    // A sibling whose name begins with the name of the root is not inside the root.
    assert_eq!(
        code(&root, "../inside").as_deref(),
        Some(Code::TOOL_PATH_ESCAPE.as_str())
    );
}

#[test]
fn paths_in_additional_roots_are_allowed() {
    let (dir, root) = tree();
    let root = FileRoot {
        others: vec![dir.path().join("out/deep").canonicalize().unwrap()],
        ..root
    };
    let inside = dir.path().join("out/deep/x").display().to_string();
    assert!(root.resolve(&inside).is_ok() && root.resolve("deep/x").is_ok());
    for path in [
        dir.path().join("out/secret").display().to_string(),
        "deep/../secret".to_owned(),
        "leave/new".to_owned(),
    ] {
        assert_eq!(
            code(&root, &path).as_deref(),
            Some(Code::TOOL_PATH_ESCAPE.as_str()),
            "{path}"
        );
    }
}

#[test]
fn a_link_created_after_resolution_is_detected_on_open() {
    let (dir, root) = tree();
    let resolved = root.resolve("a/b/secret").unwrap();
    fs::remove_dir(root.folder().join("a/b")).unwrap();
    symlink(dir.path().join("out"), root.folder().join("a/b")).unwrap();
    assert_eq!(
        root.open(&resolved).unwrap_err().code.as_deref(),
        Some(Code::TOOL_PATH_ESCAPE.as_str())
    );
    assert_eq!(
        root.open_to_append(&resolved).unwrap_err().code.as_deref(),
        Some(Code::TOOL_PATH_ESCAPE.as_str())
    );
    assert_eq!(
        fs::read_to_string(dir.path().join("out/secret")).unwrap(),
        "s"
    );
}

/// Runs `operation` in many rounds, at least until it has succeeded `min_successes` times. Another
/// thread repeatedly replaces the directory `a/b` with a link out of the tree. Returns the tree.
fn while_links_are_swapped(
    min_successes: usize,
    operation: impl Fn(&FileRoot, usize) -> bool,
) -> (TempDir, FileRoot) {
    use std::sync::atomic::{AtomicBool, Ordering};
    struct StopOnDrop<'a>(&'a AtomicBool);
    impl Drop for StopOnDrop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let (dir, root) = tree();
    let (folder, aside, outside) = (
        root.folder().join("a/b"),
        root.folder().join("a/c"),
        dir.path().join("out"),
    );
    fs::write(folder.join("secret"), "mine").unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // The other thread may have created directories in between.
                if fs::rename(&folder, &aside).is_ok() && symlink(&outside, &folder).is_ok() {
                    fs::remove_file(&folder).unwrap();
                }
                let _ = fs::remove_dir_all(&folder);
                let _ = fs::rename(&aside, &folder);
                // Lets the other thread run.
                std::thread::yield_now();
            }
        });
        // Ends the other thread even after a panic.
        let _end = StopOnDrop(&is_over);
        let mut done = 0;
        for round in 0.. {
            if round >= 3_000 && done >= min_successes {
                break;
            }
            done += usize::from(operation(&root, round));
        }
    });
    (dir, root)
}

/// Returns the names of all entries outside the root, and the contents of the file `secret`.
fn outside(dir: &TempDir) -> (Vec<String>, String) {
    let names = |path: &str| {
        let entries = fs::read_dir(dir.path().join(path))
            .unwrap()
            .map(Result::unwrap);
        entries
            .map(|entry| format!("{path}/{}", entry.file_name().display()))
            .collect::<Vec<_>>()
    };
    let mut all = [names("out"), names("out/deep")].concat();
    all.sort();
    (
        all,
        fs::read_to_string(dir.path().join("out/secret")).unwrap(),
    )
}

fn initial_outside() -> (Vec<String>, String) {
    (
        vec!["out/deep".to_owned(), "out/secret".to_owned()],
        "s".to_owned(),
    )
}

#[test]
fn reads_stay_inside_the_root_while_links_are_swapped() {
    let (dir, _) = while_links_are_swapped(1, |root, round| {
        let opened = root
            .resolve("a/b/secret")
            .and_then(|resolved| root.open(&resolved));
        let Ok((mut file, _)) = opened else {
            return false;
        };
        let mut text = String::new();
        std::io::Read::read_to_string(&mut file, &mut text).unwrap();
        assert_eq!(text, "mine", "round {round}");
        true
    });
    assert_eq!(outside(&dir), initial_outside());
}

#[test]
fn writes_stay_inside_the_root_while_links_are_swapped() {
    use crate::file_changes::{create, remove, replace};
    let (dir, root) = while_links_are_swapped(20, |root, round| {
        let Ok(resolved) = root.resolve(&format!("a/b/new-{}", round % 7)) else {
            return false;
        };
        let Ok(known) = root.resolve("a/b/secret") else {
            return false;
        };
        match round % 5 {
            0 => create(root, &resolved, b"new").is_ok(),
            1 => replace(root, &known, b"mine").is_ok(),
            2 => remove(root, &resolved).is_ok(),
            3 => root
                .open_to_append(&known)
                .and_then(|mut file| {
                    std::io::Write::write_all(&mut file, b"")
                        .map_err(|error| errors::io_error("append", &error))
                })
                .is_ok(),
            _ => replace(root, &resolved, b"new").is_ok(),
        }
    });
    assert_eq!(outside(&dir), initial_outside());
    let left = fs::read_dir(root.folder().join("a"))
        .unwrap()
        .flat_map(|entry| fs::read_dir(entry.unwrap().path()));
    let drafts = left.flatten().filter(|entry| {
        entry
            .as_ref()
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with(".tmp-")
    });
    assert_eq!(drafts.count(), 0);
}

#[test]
fn directory_creation_stays_inside_the_root_while_links_are_swapped() {
    let (dir, _) = while_links_are_swapped(20, |root, round| {
        let Ok(resolved) = root.resolve(&format!("a/b/folder-{round}/deep/file")) else {
            return false;
        };
        match round % 2 {
            0 => root.create_parents(&resolved).is_ok(),
            _ => root.create_folders(&resolved).is_ok(),
        }
    });
    assert_eq!(outside(&dir), initial_outside());
}

#[test]
fn a_custom_tools_root_inside_dot_goondan_is_accessible() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    fs::create_dir_all(top.join("work")).unwrap();
    fs::create_dir_all(top.join("home/.goondan/tools/x")).unwrap();
    let reaches = |root: &str, path: &str| {
        let root = FileRoot {
            others: vec![top.join(root)],
            ..FileRoot::from_directory(&top.join("work")).unwrap()
        };
        let path = top.join(path);
        root.resolve(path.to_str().unwrap()).is_ok()
    };
    let tools = "home/.goondan/tools";
    assert!(reaches(tools, "home/.goondan/tools/x/run.sh"));
    assert!(reaches(
        "home/.goondan/tools/x",
        "home/.goondan/tools/x/run.sh"
    ));
    assert!(!reaches(tools, "home/.goondan/approvals.json"));
    assert!(!reaches(tools, "home/.goondan/tools/x/.goondan/y"));
    // Only a root that names the directory counts.
    assert!(!reaches("home", "home/.goondan/tools/x/run.sh"));
    assert!(!reaches("home/.goondan", "home/.goondan/tools/x/run.sh"));
}

#[test]
fn changes_through_a_symbolic_link_are_rejected() {
    use crate::file_changes::{create, remove, replace};
    let (dir, root) = tree();
    let resolved = root.resolve("a/b/secret").unwrap();
    symlink(dir.path().join("out/secret"), &resolved.path).unwrap();
    for done in [
        replace(&root, &resolved, b"x"),
        create(&root, &resolved, b"x").map(drop),
        remove(&root, &resolved),
    ] {
        assert_eq!(
            done.unwrap_err().code.as_deref(),
            Some(Code::TOOL_PATH_ESCAPE.as_str())
        );
    }
    assert_eq!(outside(&dir), initial_outside());
    let folder = FileRoot::resolve(&root, ".").unwrap();
    assert_eq!(
        replace(&root, &folder, b"x").unwrap_err().code.as_deref(),
        Some(Code::TOOL_WRONG_FILE_TYPE.as_str())
    );
}

#[test]
fn only_regular_files_can_be_opened() {
    let (_dir, root) = tree();
    nix::unistd::mkfifo(&root.folder().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for path in ["a", "pipe"] {
        let error = root.open(&root.resolve(path).unwrap()).unwrap_err();
        assert_eq!(
            error.code.as_deref(),
            Some(Code::TOOL_WRONG_FILE_TYPE.as_str()),
            "{path}"
        );
    }
}

proptest! {
    /// Every resolved path is inside the root, and equals the path that the operating system
    /// resolves.
    #[test]
    fn resolved_paths_stay_inside_the_root(parts in proptest::collection::vec(
        prop_oneof![
            Just(".."), Just("."), Just("a"), Just("b"), Just("to-a"), Just("leave"), Just("deep"),
            Just("absolute"), Just("dangling"), Just("in"), Just("out"), Just("secret"), Just("new"), Just("/"),
        ],
        1..8,
    )) {
        let (_dir, root) = tree();
        let path = parts.join("/");
        if let Ok(resolved) = root.resolve(&path) {
            prop_assert!(resolved.path.starts_with(root.folder()));
            if let Ok(real) = root.folder().join(&path).canonicalize() {
                prop_assert_eq!(real, resolved.path);
            }
        }
    }
}
