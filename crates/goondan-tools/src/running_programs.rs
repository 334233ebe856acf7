//! Programs that tools are running, and the rule for approved files.
//!
//! An approval covers the content of the files that a call runs. A program in a sandbox, such as a
//! background process of the same agent, may write to their directory. So a call with approved files
//! starts only when no such program is running, and no such program starts until the call has read
//! its files. Programs of the project, such as MCP servers, run all the time. They are stopped during
//! that time. The same applies to the programs of other `gdn` processes of the user
//! (`other_processes`).

#[cfg(not(target_os = "linux"))]
mod no_other_processes;
#[cfg(target_os = "linux")]
mod other_processes;
mod stopped_programs;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use goondan_core::code_directory::CodeDirectory;
use goondan_core::content_hash::content_identity;
use goondan_core::ports::tool::ApprovedFile;
use goondan_core::real_path::links_of_path;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::file_changes::FileChangeLock;
use crate::mutex_lock::lock;
use crate::sandbox::SignalDomain;
#[cfg(target_os = "linux")]
use crate::sandbox::orphans;
#[cfg(not(target_os = "linux"))]
pub(crate) use no_other_processes::{ByteLocks, LockFile, protect_lock_directory};
#[cfg(target_os = "linux")]
pub(crate) use other_processes::{ByteLocks, LockFile, protect_lock_directory};
use stopped_programs::{StoppedPrograms, give_way};

/// Time to wait for the end of programs that may write approved files.
const WRITER_WAIT_TIMEOUT: Duration = Duration::from_secs(3);

/// Time to wait for other processes of the user: for their programs that may write approved files, or
/// for the start of their approved calls.
const OTHER_PROCESS_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval at which a waiting program checks the others again. The end of an orphan and of a program
/// of another process sends no notification.
const RECHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Time in which a started call reads its approved files. No program that may write them starts
/// until then.
const FILE_READ_PERIOD: Duration = Duration::from_secs(2);

/// Lock name for all files with several hard links, in place of their paths. A program that may write
/// to any directory may have another link to such a file there.
const HARD_LINKS: &str = "files with several hard links";

static RUNNING_PROGRAMS: LazyLock<RunningPrograms> = LazyLock::new(RunningPrograms::default);

/// Places that a program may write to and that approved files must be protected from.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteAccess {
    /// Directories that all sandboxes of the program permit, and files that are open for it; empty
    /// for another program without a sandbox.
    writable: Vec<PathBuf>,
    is_sandboxed: bool,
    /// The program belongs to the project, for example an MCP server. It runs until the end of the
    /// swarm.
    pub(crate) is_of_project: bool,
}

impl WriteAccess {
    /// Creates the access of a program in sandboxes with these writable paths, which contain no links.
    pub(crate) fn of(sandboxes: impl Iterator<Item = Vec<PathBuf>>) -> WriteAccess {
        let writable = sandboxes.reduce(|first, second| permitted_by_both(&first, &second));
        let is_sandboxed = writable.is_some();
        let mut writable = writable.unwrap_or_default();
        if !writable.is_empty() {
            writable.push(PathBuf::from(HARD_LINKS));
        }
        WriteAccess {
            is_sandboxed,
            writable,
            is_of_project: false,
        }
    }

    /// Creates the access of a program without a sandbox that has a file open for writing.
    pub(crate) fn of_file(path: PathBuf) -> WriteAccess {
        WriteAccess {
            writable: with_hard_links(vec![path]),
            ..WriteAccess::default()
        }
    }

    /// Adds the places of a file that is open for the program.
    pub(crate) fn extend(&mut self, other: &WriteAccess) {
        self.writable.extend_from_slice(&other.writable);
    }

    pub(crate) fn is_sandboxed(&self) -> bool {
        self.is_sandboxed
    }

    /// Returns true if the program may change one of the paths.
    fn reaches(&self, paths: &[PathBuf]) -> bool {
        let may_write = |path: &PathBuf| self.writable.iter().any(|place| path.starts_with(place));
        paths.iter().any(may_write)
    }
}

/// Adds [`HARD_LINKS`] if one of the files has several hard links.
fn with_hard_links(mut files: Vec<PathBuf>) -> Vec<PathBuf> {
    if files.iter().any(|file| has_several_links(file)) {
        files.push(PathBuf::from(HARD_LINKS));
    }
    files
}

#[cfg(unix)]
fn has_several_links(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.nlink() > 1)
}

#[cfg(not(unix))]
fn has_several_links(_path: &Path) -> bool {
    false
}

/// Returns the places that both lists permit. A directory also permits everything below it.
fn permitted_by_both(first: &[PathBuf], second: &[PathBuf]) -> Vec<PathBuf> {
    let pairs = first
        .iter()
        .flat_map(|one| second.iter().map(move |other| (one, other)));
    let inner = |(one, other): (&PathBuf, &PathBuf)| match one.starts_with(other) {
        true => Some(one.clone()),
        false => other.starts_with(one).then(|| other.clone()),
    };
    pairs.filter_map(inner).collect()
}

/// The reason why approved files are not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApprovedFileError {
    #[error("`{path}` changed after the approval")]
    Changed { path: String },
    #[error("{program}, which is running in a sandbox, could change `{path}` after the approval")]
    Writer { program: String, path: String },
    #[error("a sandboxed program of another gdn process could change `{path}` after the approval")]
    OtherProcess { path: String },
    #[error(
        "another gdn process has been starting an approved call that uses `{place}` for {} s",
        OTHER_PROCESS_TIMEOUT.as_secs()
    )]
    OtherStart { place: String },
    #[cfg(target_os = "linux")]
    #[error("the directory `{directory}`, which gdn processes share, cannot be used: {cause}")]
    LockFile {
        directory: String,
        #[source]
        cause: io::Error,
    },
}

impl ApprovedFileError {
    /// Creates the error about a program that may write one of the files.
    fn of_writer(program: String, files: &[PathBuf]) -> ApprovedFileError {
        ApprovedFileError::Writer {
            program,
            path: first_of(files),
        }
    }

    /// Creates the error about the start of a call with files in the first of `places`.
    fn of_start(places: &[PathBuf]) -> ApprovedFileError {
        ApprovedFileError::OtherStart {
            place: first_of(places),
        }
    }

    /// Returns the remedy.
    pub(crate) fn suggestion(&self) -> &'static str {
        match self {
            ApprovedFileError::Changed { .. } | ApprovedFileError::Writer { .. } => {
                "End the other program, for example with `runtime__process`, or wait for its end. \
                Then call the tool again."
            }
            ApprovedFileError::OtherProcess { .. } => {
                "Wait for the end of the other program, or end it in the other process. Then call \
                the tool again."
            }
            ApprovedFileError::OtherStart { .. } => {
                "If the other process is suspended, continue or end it. Then call the tool again."
            }
            #[cfg(target_os = "linux")]
            ApprovedFileError::LockFile { .. } => {
                "The operator can remove the directory, or make it writable for this user only."
            }
        }
    }
}

fn first_of(files: &[PathBuf]) -> String {
    let path = files.first().map(|path| path.display().to_string());
    path.unwrap_or_default()
}

#[derive(Default)]
struct RunningPrograms {
    table: Mutex<ProgramTable>,
    /// Notified when an entry is removed, or when its process id becomes known.
    changed: Notify,
}

#[derive(Default)]
struct ProgramTable {
    next: u64,
    programs: BTreeMap<u64, RunningProgram>,
    /// Approved files of calls that are starting.
    approved: BTreeMap<u64, Vec<PathBuf>>,
}

struct RunningProgram {
    /// The process id; `None` before the start.
    pid: Option<u32>,
    /// All processes of a sandboxed program, if the kernel has such domains.
    domain: Option<Arc<SignalDomain>>,
    access: WriteAccess,
    /// Number of starting calls for which the program is stopped.
    stops: usize,
    /// Locks that keep other processes from starting calls with approved files that the program may
    /// write. `None` while the program is suspended for the start of such a call.
    locks: Option<ByteLocks>,
}

impl ProgramTable {
    fn next_key(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Returns a description of a running program that may change one of the files. Programs of the
    /// project are left out, because they are stopped instead.
    fn writer(&self, files: &[PathBuf]) -> Option<String> {
        let mut programs = self.programs.values();
        let known = programs
            .find(|program| !program.access.is_of_project && program.access.reaches(files))
            .map(|program| describe(program.pid));
        #[cfg(target_os = "linux")]
        return known.or_else(|| {
            let orphan = self.orphans().into_iter().next();
            orphan.map(|pid| describe(u32::try_from(pid).ok()))
        });
        #[cfg(not(target_os = "linux"))]
        known
    }

    /// Returns sandboxed processes that left their group. With a domain, they end with their program.
    #[cfg(target_os = "linux")]
    fn orphans(&self) -> Vec<i32> {
        match SignalDomain::is_supported() {
            true => Vec::new(),
            false => orphans::sandboxed(&self.pids()),
        }
    }

    #[cfg(target_os = "linux")]
    fn pids(&self) -> std::collections::BTreeSet<u32> {
        let pids = self.programs.values().filter_map(|program| program.pid);
        pids.collect()
    }
}

fn describe(pid: Option<u32>) -> String {
    pid.map_or_else(
        || "a program or redirection that is starting".to_owned(),
        |pid| format!("process {pid}"),
    )
}

/// Registration of a program, from before its start until its end.
#[derive(Debug)]
pub(crate) struct RegisteredProgram {
    key: u64,
    /// Protects the approved files; ends after [`FILE_READ_PERIOD`].
    _protection: Option<AbortOnDropHandle<()>>,
    /// Task that suspends the program while another process starts a call with approved files.
    _giving_way: Option<AbortOnDropHandle<()>>,
}

impl RegisteredProgram {
    /// Registers a program before its start. A program that may write approved files of a starting
    /// call waits. A program with approved files waits for running programs that may write them.
    ///
    /// # Errors
    ///
    /// Fails with an [`ApprovedFileError`] if approved files changed, or if the wait takes longer than
    /// [`WRITER_WAIT_TIMEOUT`] or, for other processes, [`OTHER_PROCESS_TIMEOUT`].
    pub(crate) async fn begin(
        access: WriteAccess,
        approved: &Arc<[ApprovedFile]>,
    ) -> io::Result<RegisteredProgram> {
        let protection = match approved.is_empty() {
            true => None,
            false => Some(FileProtection::begin(Arc::clone(approved)).await?),
        };
        let file = match access.writable.is_empty() {
            true => None,
            false => LockFile::of_user().map_err(io::Error::other)?,
        };
        let registered = register(&access, file.as_ref()).await;
        let key = registered.map_err(io::Error::other)?;
        let giving_way = file.filter(|_| access.is_of_project);
        Ok(RegisteredProgram {
            key,
            _giving_way: giving_way.map(|file| {
                let places = access.writable.clone();
                AbortOnDropHandle::new(tokio::spawn(give_way(key, file, places)))
            }),
            _protection: protection.map(|protection| {
                AbortOnDropHandle::new(tokio::spawn(async move {
                    tokio::time::sleep(FILE_READ_PERIOD).await;
                    drop(protection);
                }))
            }),
        })
    }

    /// Records the process id of the started program, and all processes of a sandboxed one.
    pub(crate) fn started(&self, pid: Option<u32>, domain: Option<SignalDomain>) {
        if let Some(program) = lock(&RUNNING_PROGRAMS.table).programs.get_mut(&self.key) {
            program.pid = pid;
            program.domain = domain.map(Arc::new);
        }
        RUNNING_PROGRAMS.changed.notify_waiters();
        #[cfg(target_os = "linux")]
        orphans::reap_later(program_ids);
    }

    /// Kills all processes of a sandboxed program, if the kernel has domains.
    pub(crate) fn kill_domain(&self) {
        self.domain().iter().for_each(|domain| domain.kill());
    }

    fn domain(&self) -> Option<Arc<SignalDomain>> {
        let table = lock(&RUNNING_PROGRAMS.table);
        table.programs.get(&self.key)?.domain.clone()
    }
}

/// Registers a program with `access`. Waits while a starting call needs its files unchanged.
async fn register(
    access: &WriteAccess,
    file: Option<&Arc<LockFile>>,
) -> Result<u64, ApprovedFileError> {
    loop {
        let attempts = once_possible(|| try_register(access, file).transpose());
        if let Ok(registered) = timeout(OTHER_PROCESS_TIMEOUT, attempts).await {
            return registered;
        }
        // A call of this process ends by itself.
        if let Some(file) = file
            && let started @ [_, ..] = file.started_in(&access.writable)?.as_slice()
        {
            return Err(ApprovedFileError::of_start(started));
        }
    }
}

/// Registers a program with `access`; `None` while a starting call needs its files unchanged.
fn try_register(
    access: &WriteAccess,
    file: Option<&Arc<LockFile>>,
) -> Result<Option<u64>, ApprovedFileError> {
    let mut table = lock(&RUNNING_PROGRAMS.table);
    if table.approved.values().any(|files| access.reaches(files)) {
        return Ok(None);
    }
    let locks = match file {
        None => None,
        Some(file) => match file.lock_program(&access.writable)? {
            None => return Ok(None),
            locks => locks,
        },
    };
    let key = table.next_key();
    let program = RunningProgram {
        pid: None,
        domain: None,
        access: access.clone(),
        stops: 0,
        locks,
    };
    table.programs.insert(key, program);
    Ok(Some(key))
}

/// Keeps other processes from starting calls whose approved files are among `files`. Waits while one
/// is starting; blocks the thread. A lock file that cannot be used does not fail the write: with it,
/// this user's processes start no such calls.
///
/// # Errors
///
/// Fails if the start takes longer than [`OTHER_PROCESS_TIMEOUT`].
pub(crate) fn lock_written_files(
    files: &[PathBuf],
) -> Result<Option<ByteLocks>, ApprovedFileError> {
    let Ok(Some(file)) = LockFile::of_user() else {
        return Ok(None);
    };
    let files = &with_hard_links(files.to_vec());
    let deadline = Instant::now() + OTHER_PROCESS_TIMEOUT;
    loop {
        match file.lock_program(files)? {
            None if Instant::now() > deadline => return Err(ApprovedFileError::of_start(files)),
            None => std::thread::sleep(RECHECK_INTERVAL),
            locks => return Ok(locks),
        }
    }
}

/// Repeats `attempt` until it succeeds.
async fn once_possible<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    loop {
        let changed = RUNNING_PROGRAMS.changed.notified();
        if let Some(done) = attempt() {
            return done;
        }
        let _ = timeout(RECHECK_INTERVAL, changed).await;
    }
}

impl Drop for RegisteredProgram {
    fn drop(&mut self) {
        let key = self.key;
        match self.domain() {
            // The program may write until all its processes have ended.
            Some(domain) => domain.end(move || remove(key)),
            None => remove(key),
        }
        #[cfg(target_os = "linux")]
        orphans::reap_later(program_ids);
    }
}

#[cfg(target_os = "linux")]
fn program_ids() -> orphans::ProgramIds {
    let table = lock(&RUNNING_PROGRAMS.table);
    let mut programs = table.programs.values();
    orphans::ProgramIds {
        known: table.pids(),
        has_sandboxed: programs.any(|program| program.access.is_sandboxed()),
    }
}

/// Removes a program that has ended.
fn remove(key: u64) {
    let mut table = lock(&RUNNING_PROGRAMS.table);
    let removed = table.programs.remove(&key);
    #[cfg(not(target_os = "linux"))]
    drop(removed);
    // Processes that left the group of a sandboxed program end with the last such program.
    #[cfg(target_os = "linux")]
    {
        let is_sandboxed = |program: &RunningProgram| program.access.is_sandboxed();
        if removed.as_ref().is_some_and(is_sandboxed) && !table.programs.values().any(is_sandboxed)
        {
            orphans::kill(&table.orphans());
        }
    }
    drop(table);
    RUNNING_PROGRAMS.changed.notify_waiters();
}

/// Keeps approved files unchanged while a call starts.
struct FileProtection {
    _stopped: StoppedPrograms,
    _other_processes: Option<ByteLocks>,
    _writers: WriterExclusion,
    _locks: FileChangeLock,
}

impl FileProtection {
    /// Waits until no sandboxed program may write the files, stops those of the project, locks the
    /// files for file tools, and compares their content with the approved content.
    async fn begin(approved: Arc<[ApprovedFile]>) -> io::Result<FileProtection> {
        let paths = places_of(&approved);
        let writers = WriterExclusion::begin(&paths).await?;
        let other_processes = exclude_other_processes(&paths)
            .await
            .map_err(io::Error::other)?;
        // No further program starts from now on.
        let stopped = StoppedPrograms::begin(&paths)
            .await
            .map_err(io::Error::other)?;
        let checking = tokio::task::spawn_blocking(move || {
            let locks = FileChangeLock::acquire(&paths);
            check_contents(&approved, &paths).map(|()| locks)
        });
        let locks = checking.await.map_err(io::Error::other)?;
        Ok(FileProtection {
            _stopped: stopped,
            _other_processes: other_processes,
            _writers: writers,
            _locks: locks.map_err(io::Error::other)?,
        })
    }
}

/// Waits until no program of another process may write the files. No such program starts until the
/// result is dropped.
async fn exclude_other_processes(
    files: &[PathBuf],
) -> Result<Option<ByteLocks>, ApprovedFileError> {
    let Some(file) = LockFile::of_user()? else {
        return Ok(None);
    };
    let locks = file.lock_start(files)?;
    let attempt = || match file.has_writer(files) {
        Ok(true) => None,
        Ok(false) => Some(Ok(())),
        Err(error) => Some(Err(error)),
    };
    match timeout(OTHER_PROCESS_TIMEOUT, once_possible(attempt)).await {
        Ok(done) => done.map(|()| Some(locks)),
        Err(_) => Err(ApprovedFileError::OtherProcess {
            path: first_of(files),
        }),
    }
}

/// Returns the places that determine the content of approved files: the files and directories without
/// links, each link on the way to them, and the place of files with several hard links.
fn places_of(approved: &[ApprovedFile]) -> Vec<PathBuf> {
    let mut places = BTreeSet::new();
    for file in approved {
        add_places(&file.path, &mut places);
        add_places_in(&file.path, &mut places);
    }
    places.into_iter().collect()
}

/// Adds the places of the code in a directory. A directory with too many entries is only one place.
fn add_places_in(directory: &Path, places: &mut BTreeSet<PathBuf>) {
    let code = Some(directory).filter(|path| path.is_dir());
    let code = code.and_then(CodeDirectory::read).unwrap_or_default();
    for path in code.files.iter().chain(&code.folders) {
        add_places(path, places);
    }
}

fn add_places(path: &Path, places: &mut BTreeSet<PathBuf>) {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    places.extend(with_hard_links(vec![real]));
    places.extend(links_of_path(path).unwrap_or_default());
}

/// Compares files with their approved content. A file whose link led elsewhere before `places` were
/// protected also counts as changed.
fn check_contents(approved: &[ApprovedFile], places: &[PathBuf]) -> Result<(), ApprovedFileError> {
    let is_changed = |file: &&ApprovedFile| {
        let approved = file.sha256.as_ref();
        let has_moved = || {
            let mut now = BTreeSet::new();
            add_places(&file.path, &mut now);
            if approved.is_some() {
                add_places_in(&file.path, &mut now);
            }
            now.iter().any(|place| places.binary_search(place).is_err())
        };
        approved.is_some_and(|approved| content_identity(&file.path) != *approved) || has_moved()
    };
    match approved.iter().find(is_changed) {
        None => Ok(()),
        Some(file) => Err(ApprovedFileError::Changed {
            path: file.path.display().to_string(),
        }),
    }
}

/// State in which no sandboxed program may write the files. Dropping it ends the state.
struct WriterExclusion {
    key: u64,
}

impl WriterExclusion {
    /// Waits until no running program may write `files`.
    async fn begin(files: &[PathBuf]) -> Result<WriterExclusion, io::Error> {
        let waiting = once_possible(|| WriterExclusion::try_begin(files).ok());
        match timeout(WRITER_WAIT_TIMEOUT, waiting).await {
            Ok(exclusion) => Ok(exclusion),
            Err(_) => WriterExclusion::try_begin(files).map_err(io::Error::other),
        }
    }

    fn try_begin(files: &[PathBuf]) -> Result<WriterExclusion, ApprovedFileError> {
        let mut table = lock(&RUNNING_PROGRAMS.table);
        if let Some(program) = table.writer(files) {
            return Err(ApprovedFileError::of_writer(program, files));
        }
        let key = table.next_key();
        table.approved.insert(key, files.to_vec());
        Ok(WriterExclusion { key })
    }
}

impl Drop for WriterExclusion {
    fn drop(&mut self) {
        lock(&RUNNING_PROGRAMS.table).approved.remove(&self.key);
        RUNNING_PROGRAMS.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    #[cfg(target_os = "linux")]
    use crate::sandbox::signal_domain;
    #[cfg(target_os = "linux")]
    use crate::server_programs::{ServerCommand, ServerProgram, ServerPrograms};

    fn writer_of(folder: &Path) -> WriteAccess {
        WriteAccess::of(std::iter::once(vec![folder.canonicalize().unwrap()]))
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

    /// A program that may only replace a link on the way to the script also excludes the call.
    #[cfg(unix)]
    #[tokio::test(start_paused = true)]
    async fn a_program_that_may_replace_a_link_of_an_approved_script_excludes_its_call() {
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

    /// A program elsewhere may write an approved file through another hard link.
    #[cfg(unix)]
    #[tokio::test(start_paused = true)]
    async fn a_program_elsewhere_excludes_an_approved_script_with_several_hard_links() {
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

    /// A program that may write somewhere in an approved directory of code excludes the call.
    #[tokio::test(start_paused = true)]
    async fn a_program_that_may_write_in_an_approved_directory_excludes_its_call() {
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

    /// Sends a line to a server, and waits for its answer.
    #[cfg(target_os = "linux")]
    async fn answers(server: &mut ServerProgram) {
        let stdin = server.stdin.as_mut().unwrap();
        stdin.write_all(b"line\n").await.unwrap();
        let mut answer = [0; 5];
        let stdout = server.stdout.as_mut().unwrap();
        stdout.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"line\n");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_server_that_may_write_approved_files_is_stopped_for_their_call() {
        if !crate::sandbox::sandboxed_start::is_there() {
            return;
        }
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folder = dir.path().canonicalize().unwrap();
        let files = approved(&folder.join("run.sh"), "echo good");
        let mut writer = server(&folder).await;
        let mut other = server(&elsewhere.path().canonicalize().unwrap()).await;
        answers(&mut writer).await;
        let begin = || StoppedPrograms::begin(std::slice::from_ref(&files[0].path));
        let (first, second) = (begin().await.unwrap(), begin().await.unwrap());
        assert!(has_stopped(&writer));
        answers(&mut other).await;
        drop(first);
        assert!(begin().await.is_ok() && has_stopped(&writer));
        drop(second);
        answers(&mut writer).await;
        let call = RegisteredProgram::begin(WriteAccess::default(), &files)
            .await
            .unwrap();
        let mut later = Box::pin(server(&folder));
        assert!(futures::poll!(&mut later).is_pending());
        drop(call);
        answers(&mut later.await).await;
        answers(&mut writer).await;
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
        let Some(other) = other_process() else { return };
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
        let Some(other) = other_process() else { return };
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
    async fn a_server_is_stopped_for_an_approved_call_of_another_process() {
        let (true, Some(other)) = (crate::sandbox::sandboxed_start::is_there(), other_process())
        else {
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        let script = [folder.join("run.sh")];
        let mut servers = [server(&folder).await, server(&folder).await];
        for _ in 0..2 {
            for server in &mut servers {
                answers(server).await;
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
            answers(server).await;
        }
        drop(servers);
        while other.has_writer(&script).unwrap() {
            tokio::time::sleep(RECHECK_INTERVAL).await;
        }
    }

    #[test]
    fn a_program_may_write_where_all_its_sandboxes_permit() {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        let sandboxes = [paths(&["/p", "/tmp"]), paths(&["/p/work", "/data"])];
        let access = WriteAccess::of(sandboxes.into_iter());
        assert!(access.reaches(&paths(&["/p/work/run.sh"])));
        assert!(!access.reaches(&paths(&["/p/run.sh", "/data/run.sh", "/tmp/run.sh"])));
        let nowhere = WriteAccess::of([paths(&["/a"]), Vec::new()].into_iter());
        assert!(nowhere.is_sandboxed() && !nowhere.reaches(&paths(&["/a"])));
        assert!(!WriteAccess::of(std::iter::empty()).is_sandboxed());
    }

    #[tokio::test]
    async fn a_changed_file_is_not_run() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.sh");
        let files = approved(&path, "echo good");
        std::fs::write(&path, "echo evil").unwrap();
        let refused = RegisteredProgram::begin(WriteAccess::default(), &files).await;
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("changed after the approval"), "{error}");
    }
}
