//! Where agents work: in folders of the bundle, and in the git repository around it, never further out.

use std::path::{Path, PathBuf};

use goondan_spec::kinds::Workdir;
use goondan_spec::{LoadInput, MemoryFiles, load};

use super::support::{SOUND, base, found};

/// A repository in `/r` with a bundle in `/r/team/swarm`, whose agent works in `workdir`.
fn files(workdir: &str) -> MemoryFiles {
    let text = SOUND.replace(
        "modelConfig: {modelRef: Model/m}",
        &format!("modelConfig: {{modelRef: Model/m}}, workdir: {workdir}"),
    );
    assert_ne!(text, SOUND);
    MemoryFiles::new()
        .file("/r/team/swarm/goondan.yaml", text)
        .file("/r/src/main.rs", "")
        .file("/outside/x", "")
        .link("/r/away", "/outside")
}

/// The working folder, or the codes of what is wrong.
fn workdir(files: &MemoryFiles) -> Result<Workdir, Vec<String>> {
    let loaded = load(LoadInput { root: Path::new("/r/team/swarm"), files, base: &base() });
    let codes = found(&loaded);
    loaded.bundle.map(|bundle| bundle.agents()[0].spec.workdir.clone()).ok_or(codes)
}

#[test]
fn the_repository_around_the_bundle_is_a_place_to_work() {
    let in_repository = |path: &str| Ok(Workdir::Repository(PathBuf::from(path)));
    for (written, expected) in [
        ("repository", in_repository("/r")),
        ("../..", in_repository("/r")),
        ("../../src", in_repository("/r/src")),
        ("..", in_repository("/r/team")),
        ("../swarm", Ok(Workdir::Project)),
        ("project", Ok(Workdir::Project)),
        ("./out", Ok(Workdir::Path("out".to_owned()))),
    ] {
        assert_eq!(workdir(&files(written).directory("/r/.git")), expected, "{written}");
        // A worktree and a submodule have a file there.
        assert_eq!(workdir(&files(written).file("/r/.git", "gitdir: /elsewhere")), expected, "{written}");
    }
    // Its own folder is the top of the repository.
    assert_eq!(workdir(&files("repository").directory("/r/team/swarm/.git")), Ok(Workdir::Project));
}

#[test]
fn nothing_outside_of_the_repository_is() {
    for (written, code) in [
        ("../../..", "E_CONFIG_PATH_ESCAPE"),
        ("../../away", "E_CONFIG_PATH_ESCAPE"),
        ("../../../outside", "E_CONFIG_PATH_ESCAPE"),
        ("/outside", "E_CONFIG_PATH_ESCAPE"),
        ("../../nothing", "E_CONFIG_ENTRY_NOT_FOUND"),
        ("../../src/main.rs", "E_CONFIG_ENTRY_NOT_FOUND"),
    ] {
        let found = workdir(&files(written).directory("/r/.git"));
        assert_eq!(found, Err(vec![format!("{code} goondan.yaml:9 spec.workdir")]), "{written}");
    }
    for (written, code) in [("repository", "E_CONFIG_ENTRY_NOT_FOUND"), ("..", "E_CONFIG_PATH_ESCAPE")] {
        let found = workdir(&files(written));
        assert_eq!(found, Err(vec![format!("{code} goondan.yaml:9 spec.workdir")]), "{written}");
    }
}
