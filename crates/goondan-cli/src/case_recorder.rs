//! Test cases from recorded conversations, for `gdn test record` and the studio.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use goondan::ids::InstanceId;
use goondan::message::Message;
use goondan::models::CassetteMask;
use goondan::spec::Bundle;
use goondan::{Project, Swarm};
use goondan_conformance::record::{CaseHistory, RecordingError, RecordingSource, record};
use goondan_conformance::report::{CaseReport, case_line};
use goondan_conformance::{RunOptions, run as run_cases};
use goondan_serve::wire::CaseBody;
use goondan_serve::{CaseRecorder, NotRecorded};
use tempfile::NamedTempFile;
use tokio::sync::Mutex;

use crate::project_editor::find_files_by_name;
use crate::trust::TrustSettings;

/// File name suffix of test cases.
pub(crate) const CASE_FILE_SUFFIX: &str = ".case.yaml";
/// Maximum length of a generated case name, in characters.
const MAX_CASE_NAME_CHARS: usize = 60;

/// Recorded history of a conversation and of all conversations that it caused.
pub(crate) struct RecordedHistory {
    pub(crate) history: CaseHistory,
    pub(crate) conversations: BTreeMap<InstanceId, Vec<Arc<Message>>>,
}

/// Writes the case to a temporary file in `folder`. With `must_pass`, replays the case first and
/// fails unless it passes.
pub(crate) fn write_case(
    text: &str,
    folder: &Path,
    bundle: &Bundle,
    must_pass: bool,
) -> Result<NamedTempFile, RecordError> {
    let mut file = tempfile::Builder::new()
        .prefix(".")
        .suffix(CASE_FILE_SUFFIX)
        .tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    if !must_pass {
        return Ok(file);
    }
    let summary = run_cases(&RunOptions::new([file.path().to_owned()]), &mut |_| {});
    if summary.is_good() {
        return Ok(file);
    }
    let errors = summary.errors.iter().map(ToString::to_string);
    let cases = summary
        .cases
        .iter()
        .map(|case: &CaseReport| case_line(case).trim_end().to_owned());
    let differences: Vec<String> = errors.chain(cases).collect();
    let root = bundle.root().display();
    let reason = format!(
        "Replaying the conversation with the project in {root} gives a different result:\n{}",
        differences.join("\n")
    );
    Err(RecordError::Unrecordable(RecordingError(reason)))
}

/// Reason for a failed recording.
#[derive(Debug)]
pub(crate) enum RecordError {
    /// The conversation cannot be recorded as a case, because a replay would differ.
    Unrecordable(RecordingError),
    /// The file cannot be written.
    Io(std::io::Error),
}

impl From<std::io::Error> for RecordError {
    fn from(error: std::io::Error) -> Self {
        RecordError::Io(error)
    }
}

/// Converts conversations of a running swarm into test cases, for the studio.
#[derive(Debug)]
pub(crate) struct SwarmRecorder {
    /// Project directory.
    root: PathBuf,
    env_file: Option<PathBuf>,
    trust: TrustSettings,
    /// Lock for the trial run of a case: only one runs at a time.
    playing: Mutex<()>,
}

impl SwarmRecorder {
    /// Creates a recorder for the project in `root`, with the variables and trust of the running
    /// swarm.
    pub(crate) fn new(root: &Path, env_file: Option<&Path>, trust: TrustSettings) -> Self {
        SwarmRecorder {
            root: root.to_owned(),
            env_file: env_file.map(Path::to_owned),
            trust,
            playing: Mutex::new(()),
        }
    }

    /// Records the conversation, or only the turn of `message`, as a test case that passes.
    async fn case(
        &self,
        swarm: &Swarm,
        id: &InstanceId,
        message: Option<&str>,
    ) -> Result<CaseBody, NotRecorded> {
        let (recorded, turn) = read_history(swarm, id, message).await?;
        let name = case_name(id, turn);
        let _playing = self.playing.lock().await;
        let (root, env_file, trust) =
            (self.root.clone(), self.env_file.clone(), self.trust.clone());
        let outcome = tokio::task::spawn_blocking(move || {
            make_case(&root, env_file.as_deref(), &trust, name, recorded)
        })
        .await;
        outcome.unwrap_or_else(|_| {
            Err(NotRecorded(
                "Could not create the test case: bug in gdn.".to_owned(),
            ))
        })
    }
}

impl CaseRecorder for SwarmRecorder {
    fn record<'r>(
        &'r self,
        swarm: &'r Swarm,
        instance: &'r InstanceId,
        message: Option<&'r str>,
    ) -> BoxFuture<'r, Result<CaseBody, NotRecorded>> {
        self.case(swarm, instance, message).boxed()
    }
}

/// Reads a conversation, or the turn of one of its messages. Returns the turn number in the second
/// case.
async fn read_history(
    swarm: &Swarm,
    id: &InstanceId,
    message: Option<&str>,
) -> Result<(RecordedHistory, Option<usize>), NotRecorded> {
    let unread_error =
        |error| NotRecorded(format!("The stored conversation can't be read: {error}."));
    let mut events = Vec::new();
    for meta in swarm.instances().await {
        let instance = InstanceId::new(meta.agent, meta.instance_key);
        events.extend(swarm.events(&instance, 0).await.map_err(unread_error)?);
    }
    CaseHistory::sort(&mut events);
    let turn = match message {
        Some(message) => {
            Some(CaseHistory::number_of(id, message, &events).map_err(recording_error)?)
        }
        None => None,
    };
    let history = CaseHistory::of(id, turn.as_slice(), events).map_err(recording_error)?;
    let mut conversations = BTreeMap::new();
    for instance in history.instances() {
        let messages = swarm.conversation(&instance).await.map_err(unread_error)?;
        conversations.insert(instance, messages);
    }
    Ok((
        RecordedHistory {
            history,
            conversations,
        },
        turn,
    ))
}

/// Creates the case and checks that it passes with the project on disk. An untrusted project is not
/// run for that.
fn make_case(
    root: &Path,
    env_file: Option<&Path>,
    trust: &TrustSettings,
    name: String,
    recorded: RecordedHistory,
) -> Result<CaseBody, NotRecorded> {
    let failed = |error: std::io::Error| {
        NotRecorded(format!(
            "The trial run of the test case \
        can't start: {error}."
        ))
    };
    let project = goondan::load(root);
    let Some(bundle) = &project.bundle else {
        return Err(NotRecorded(
            "The project on disk has errors, so the test case can't be run.".to_owned(),
        ));
    };
    require_trust(trust, &project)?;
    let mask =
        goondan::environment(root, env_file).map_err(|problem| NotRecorded(problem.message))?;
    let mask = CassetteMask::of_environment(&mask);
    let RecordedHistory {
        history,
        conversations,
    } = recorded;
    let folder = tempfile::tempdir().map_err(failed)?;
    let real_root = root.canonicalize().map_err(failed)?;
    let relative_root = relative(&folder.path().canonicalize().map_err(failed)?, &real_root);
    let mut source = RecordingSource {
        name: name.clone(),
        project: relative_root,
        bundle,
        conversations,
        mask: &mask,
        runs_tools: false,
    };
    let text = record(&history, &source).map_err(recording_error)?;
    let must_pass = true;
    write_case(&text, folder.path(), bundle, must_pass).map_err(|error| match error {
        RecordError::Unrecordable(reason) => recording_error(reason),
        RecordError::Io(error) => failed(error),
    })?;
    // The final case is for a file next to the other test cases.
    let directory = cases_directory(&real_root);
    source.project = relative(&real_root.join(&directory), &real_root);
    let text = record(&history, &source).map_err(recording_error)?;
    let file = format!("{name}{CASE_FILE_SUFFIX}");
    Ok(CaseBody {
        file: match directory.is_empty() {
            true => file,
            false => format!("{directory}/{file}"),
        },
        name,
        text,
    })
}

/// Returns the directory of the project's test cases, relative to the project directory. It is empty,
/// the project directory itself, if there are no test cases or if they are in several directories.
fn cases_directory(root: &Path) -> String {
    let cases = find_files_by_name(root, |name| name.ends_with(CASE_FILE_SUFFIX));
    let directory_of = |path: &String| {
        let (directory, _) = path.rsplit_once('/').unwrap_or_default();
        directory.to_owned()
    };
    let mut directories: Vec<String> = cases.iter().map(directory_of).collect();
    directories.sort_unstable();
    directories.dedup();
    match <[String; 1]>::try_from(directories) {
        Ok([directory]) => directory,
        Err(_) => String::new(),
    }
}

/// Fails with the first missing permission if the project on disk is not trusted.
fn require_trust(trust: &TrustSettings, project: &Project) -> Result<(), NotRecorded> {
    let check = trust.reload_check();
    check(project).map_err(|refused| {
        let first = refused
            .first()
            .map(|problem| problem.message.clone())
            .unwrap_or_default();
        NotRecorded(format!(
            "The project on disk requests access for which it is not trusted. {first}"
        ))
    })
}

/// Converts the reason to the error for the studio.
fn recording_error(reason: RecordingError) -> NotRecorded {
    NotRecorded(reason.0)
}

/// Returns a kebab-case name for the test case of a conversation, or of its turn number `turn`.
fn case_name(id: &InstanceId, turn: Option<usize>) -> String {
    let mut name = to_kebab_case(&format!("{}-{}", id.agent, id.instance_key));
    name.truncate(MAX_CASE_NAME_CHARS);
    let mut name = name.trim_end_matches('-');
    if name.is_empty() {
        name = "recorded";
    }
    match turn {
        Some(turn) => format!("{name}-turn-{turn}"),
        None => name.to_owned(),
    }
}

/// Converts text to lower case. Replaces other characters than ASCII letters and digits with single
/// hyphens, and removes them at the beginning.
fn to_kebab_case(text: &str) -> String {
    let mut kebab = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            kebab.push(c.to_ascii_lowercase());
        } else if !kebab.is_empty() && !kebab.ends_with('-') {
            kebab.push('-');
        }
    }
    kebab
}

/// Returns `to` relative to `from`, with `/` separators. Both must be absolute.
pub(crate) fn relative(from: &Path, to: &Path) -> String {
    let (from, to): (Vec<Component<'_>>, Vec<Component<'_>>) =
        (from.components().collect(), to.components().collect());
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    if shared == 0 {
        return to.iter().collect::<PathBuf>().display().to_string();
    }
    let up = from[shared..].iter().map(|_| "..".to_owned());
    let down = to[shared..]
        .iter()
        .map(|part| part.as_os_str().to_string_lossy().into_owned());
    let parts: Vec<String> = up.chain(down).collect();
    if parts.is_empty() {
        ".".to_owned()
    } else {
        parts.join("/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_start_at_the_directory_of_the_case() {
        let path = |from: &str, to: &str| relative(Path::new(from), Path::new(to));
        assert_eq!(path("/a/b/cases", "/a/b"), "..");
        assert_eq!(path("/a/b", "/a/b"), ".");
        assert_eq!(path("/a/cases/deep", "/a/b/c"), "../../b/c");
    }

    #[test]
    fn a_new_case_is_written_next_to_the_existing_cases() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        assert_eq!(cases_directory(root), "");
        for (file, expected) in [
            ("tests/cases/a.case.yaml", "tests/cases"),
            ("tests/cases/b.case.yaml", "tests/cases"),
            ("node_modules/x/c.case.yaml", "tests/cases"),
            ("d.case.yaml", ""),
        ] {
            let file = root.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "").unwrap();
            assert_eq!(cases_directory(root), expected);
        }
    }

    #[test]
    fn a_case_is_named_after_its_conversation() {
        let name = |agent: &str, key: &str, turn| case_name(&InstanceId::new(agent, key), turn);
        assert_eq!(name("desk", "main", None), "desk-main");
        assert_eq!(
            name("desk", "Lena's/../\u{202e}key", Some(2)),
            "desk-lena-s-key-turn-2"
        );
        assert_eq!(name("\u{e9}", "\u{1f41d}", None), "recorded");
        assert_eq!(
            name("a", &"x-".repeat(200), None),
            format!("a-{}x", "x-".repeat(28))
        );
    }
}
