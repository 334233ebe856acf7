//! Tests of running programs and approved files.

#[cfg(target_os = "linux")]
use std::collections::BTreeMap;
use std::path::Path;

use goondan_core::content_hash::content_identity;
#[cfg(target_os = "linux")]
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[cfg(target_os = "linux")]
use super::stopped_programs::StoppedPrograms;
use super::*;
#[cfg(target_os = "linux")]
use crate::sandbox::signal_domain;
#[cfg(target_os = "linux")]
use crate::server_programs::{ServerCommand, ServerProgram, ServerPrograms};

fn writer_of(folder: &Path) -> WriteAccess {
    WriteAccess::from_sandboxes(std::iter::once(vec![folder.canonicalize().unwrap()]))
}

fn approved(path: &Path, content: &str) -> Arc<[ApprovedFile]> {
    std::fs::write(path, content).unwrap();
    Arc::from([ApprovedFile {
        path: path.to_owned(),
        sha256: Some(content_identity(path)),
    }])
}

/// The writer and the call cannot run at the same time, in either order.
#[tokio::test(start_paused = true)]
async fn a_sandboxed_writer_and_an_approved_call_exclude_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let (path, none) = (dir.path().join("run.sh"), Arc::default());
    let files = approved(&path, "echo good");
    let writer = RegisteredProgram::begin(writer_of(dir.path()), &none)
        .await
        .unwrap();
    let refused = RegisteredProgram::begin(WriteAccess::default(), &files).await;
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("could change"), "{error}");
    drop(writer);
    let call = RegisteredProgram::begin(WriteAccess::default(), &files)
        .await
        .unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    RegisteredProgram::begin(writer_of(elsewhere.path()), &none)
        .await
        .unwrap();
    let mut waiting = Box::pin(RegisteredProgram::begin(writer_of(dir.path()), &none));
    assert!(futures::poll!(&mut waiting).is_pending());
    drop(call);
    waiting.await.unwrap();
}

/// The program can replace a link in the script path, but cannot write the script.
#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn a_writer_of_a_link_to_an_approved_script_excludes_the_call() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    for folder in ["work", "middle", "real", "first"] {
        std::fs::create_dir(base.join(folder)).unwrap();
    }
    symlink("../real/run.sh", base.join("first/file")).unwrap();
    symlink("../first/file", base.join("middle/chain")).unwrap();
    symlink("../middle/chain", base.join("work/chain")).unwrap();
    symlink("../real", base.join("middle/folder")).unwrap();
    symlink("../middle/folder", base.join("work/folder")).unwrap();
    let script = approved(&base.join("real/run.sh"), "echo good");
    let none = Arc::default();
    for (path, writable) in [
        ("work/chain", &["work", "middle", "first", "real"][..]),
        ("work/folder/run.sh", &["work", "middle", "real"]),
    ] {
        let files: Arc<[ApprovedFile]> = Arc::from([ApprovedFile {
            path: base.join(path),
            sha256: script[0].sha256.clone(),
        }]);
        for folder in writable {
            let writer = RegisteredProgram::begin(writer_of(&base.join(folder)), &none).await;
            let call = RegisteredProgram::begin(WriteAccess::default(), &files).await;
            assert!(call.is_err(), "{path} {folder}");
            drop(writer);
            RegisteredProgram::begin(WriteAccess::default(), &files)
                .await
                .unwrap();
        }
    }
}

/// A program in another directory can write an approved file through another hard link.
#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn a_writer_elsewhere_excludes_an_approved_script_with_hard_links() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (path, link) = (dir.path().join("run.sh"), elsewhere.path().join("link"));
    let (files, none) = (approved(&path, "echo good"), Arc::default());
    let begin = |access, files| RegisteredProgram::begin(access, files);
    let writer = begin(writer_of(elsewhere.path()), &none).await.unwrap();
    begin(WriteAccess::default(), &files).await.unwrap();
    std::fs::hard_link(&path, &link).unwrap();
    let refused = begin(WriteAccess::default(), &files).await;
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("could change"), "{error}");
    drop(writer);
    let call = begin(WriteAccess::default(), &files).await.unwrap();
    let mut waiting = Box::pin(begin(writer_of(elsewhere.path()), &none));
    assert!(futures::poll!(&mut waiting).is_pending());
    let mut redirected = Box::pin(begin(WriteAccess::of_file(link), &none));
    assert!(futures::poll!(&mut redirected).is_pending());
    drop(call);
    waiting.await.unwrap();
    redirected.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_writer_inside_an_approved_directory_excludes_the_call() {
    let dir = tempfile::tempdir().unwrap();
    let lib = dir.path().join("lib");
    std::fs::create_dir_all(lib.join("sub")).unwrap();
    std::fs::write(lib.join("start.py"), "good").unwrap();
    let approved: Arc<[ApprovedFile]> = Arc::from([ApprovedFile {
        sha256: Some(content_identity(&lib)),
        path: lib.clone(),
    }]);
    let none = Arc::default();
    let writer = RegisteredProgram::begin(writer_of(&lib.join("sub")), &none).await;
    let refused = RegisteredProgram::begin(WriteAccess::default(), &approved).await;
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("could change"), "{error}");
    drop(writer);
    let call = RegisteredProgram::begin(WriteAccess::default(), &approved).await;
    drop(call.unwrap());
    std::fs::write(lib.join("sub/new.py"), "evil").unwrap();
    let refused = RegisteredProgram::begin(WriteAccess::default(), &approved).await;
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("changed after the approval"), "{error}");
}

/// Starts an MCP server that may write in `folder` and prints its input.
#[cfg(target_os = "linux")]
async fn server(folder: &Path) -> ServerProgram {
    let config = serde_json::json!({"sandbox": true});
    let command = ServerCommand {
        program: "/bin/sh",
        args: &[
            "-c".to_owned(),
            "while read -r line; do echo \"$line\"; done".to_owned(),
        ],
        env: &BTreeMap::new(),
        folder,
        config: config.as_object().unwrap(),
        sandboxes: &[],
        project: folder,
        workdir: folder,
        runtime: None,
        approved_files: &Arc::default(),
    };
    ServerPrograms::new(None).start(&command).await.unwrap()
}

#[cfg(target_os = "linux")]
fn has_stopped(server: &ServerProgram) -> bool {
    let pid = server.id().unwrap();
    signal_domain::has_stopped(pid.try_into().unwrap())
}

/// Sends a line to a server, and checks that the server prints the same line.
#[cfg(target_os = "linux")]
async fn assert_answers(server: &mut ServerProgram) {
    let stdin = server.stdin.as_mut().unwrap();
    stdin.write_all(b"line\n").await.unwrap();
    let mut answer = [0; 5];
    let stdout = server.stdout.as_mut().unwrap();
    stdout.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"line\n");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_server_that_can_write_approved_files_is_paused_during_the_call() {
    if !crate::sandbox::sandboxed_start::is_supported() {
        eprintln!("skipped: there is no sandbox");
        return;
    }
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = dir.path().canonicalize().unwrap();
    let files = approved(&folder.join("run.sh"), "echo good");
    let mut writer = server(&folder).await;
    let mut other = server(&elsewhere.path().canonicalize().unwrap()).await;
    assert_answers(&mut writer).await;
    let begin = || StoppedPrograms::begin(std::slice::from_ref(&files[0].path));
    let (first, second) = (begin().await.unwrap(), begin().await.unwrap());
    assert!(has_stopped(&writer));
    assert_answers(&mut other).await;
    drop(first);
    assert!(begin().await.is_ok() && has_stopped(&writer));
    drop(second);
    assert_answers(&mut writer).await;
    let call = RegisteredProgram::begin(WriteAccess::default(), &files)
        .await
        .unwrap();
    let mut later = Box::pin(server(&folder));
    assert!(futures::poll!(&mut later).is_pending());
    drop(call);
    assert_answers(&mut later.await).await;
    assert_answers(&mut writer).await;
}

/// Opens the lock file again, like another process.
#[cfg(target_os = "linux")]
fn other_process() -> Option<Arc<LockFile>> {
    let file = LockFile::of_user().unwrap()?;
    Some(Arc::new(file.open_again().unwrap()))
}

#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn an_approved_call_waits_for_programs_of_another_process() {
    let Some(other) = other_process() else {
        eprintln!("skipped: there is no lock file of the user");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().canonicalize().unwrap();
    let files = approved(&folder.join("run.sh"), "echo good");
    let program = other.lock_program(&[folder]).unwrap().unwrap();
    let begin = || RegisteredProgram::begin(WriteAccess::default(), &files);
    let error = begin().await.unwrap_err().to_string();
    assert!(
        error.contains("another gdn process could change"),
        "{error}"
    );
    let mut waiting = Box::pin(begin());
    assert!(futures::poll!(&mut waiting).is_pending());
    drop(program);
    waiting.await.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn a_program_waits_for_an_approved_call_of_another_process() {
    let Some(other) = other_process() else {
        eprintln!("skipped: there is no lock file of the user");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().canonicalize().unwrap().join("bin/run.sh");
    let start = other.lock_start(&[script]).unwrap();
    let none = Arc::default();
    let begin = || RegisteredProgram::begin(writer_of(dir.path()), &none);
    let error = begin().await.unwrap_err().to_string();
    assert!(
        error.contains("has been starting an approved call"),
        "{error}"
    );
    let mut waiting = Box::pin(begin());
    assert!(futures::poll!(&mut waiting).is_pending());
    drop(start);
    waiting.await.unwrap();
    let file = [dir.path().canonicalize().unwrap().join("bin/run.sh")];
    let _written = lock_written_files(&file).unwrap();
    assert!(other.has_writer(&file).unwrap());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_server_is_paused_for_an_approved_call_of_another_process() {
    let (true, Some(other)) = (
        crate::sandbox::sandboxed_start::is_supported(),
        other_process(),
    ) else {
        eprintln!("skipped: there is no sandbox or no lock file of the user");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().canonicalize().unwrap();
    let script = [folder.join("run.sh")];
    let mut servers = [server(&folder).await, server(&folder).await];
    for _ in 0..2 {
        for server in &mut servers {
            assert_answers(server).await;
        }
        assert!(other.has_writer(&script).unwrap());
        let start = other.lock_start(&script).unwrap();
        while other.has_writer(&script).unwrap() {
            tokio::time::sleep(RECHECK_INTERVAL).await;
        }
        assert!(servers.iter().all(has_stopped));
        drop(start);
    }
    for server in &mut servers {
        assert_answers(server).await;
    }
    drop(servers);
    while other.has_writer(&script).unwrap() {
        tokio::time::sleep(RECHECK_INTERVAL).await;
    }
}

#[test]
fn write_access_is_the_intersection_of_all_sandboxes() {
    let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
    let sandboxes = [paths(&["/p", "/tmp"]), paths(&["/p/work", "/data"])];
    let access = WriteAccess::from_sandboxes(sandboxes.into_iter());
    assert!(access.can_change(&paths(&["/p/work/run.sh"])));
    assert!(!access.can_change(&paths(&["/p/run.sh", "/data/run.sh", "/tmp/run.sh"])));
    let nowhere = WriteAccess::from_sandboxes([paths(&["/a"]), Vec::new()].into_iter());
    assert!(nowhere.is_sandboxed() && !nowhere.can_change(&paths(&["/a"])));
    assert!(!WriteAccess::from_sandboxes(std::iter::empty()).is_sandboxed());
}

#[tokio::test]
async fn an_approved_file_changed_after_approval_is_not_run() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.sh");
    let files = approved(&path, "echo good");
    std::fs::write(&path, "echo evil").unwrap();
    let refused = RegisteredProgram::begin(WriteAccess::default(), &files).await;
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("changed after the approval"), "{error}");
}
