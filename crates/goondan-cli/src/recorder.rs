//! Cases of conversations that have happened: `gdn test record` and the studio make them in the same way.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use goondan::ids::InstanceId;
use goondan::message::Message;
use goondan::models::Mask;
use goondan::spec::Bundle;
use goondan::{Project, Swarm};
use goondan_conformance::record::{History, Source, Unrecordable, record};
use goondan_conformance::report::{CaseReport, case_line};
use goondan_conformance::{Options, run as run_cases};
use goondan_serve::wire::CaseBody;
use goondan_serve::{NotRecorded, Recorder};
use tempfile::NamedTempFile;
use tokio::sync::Mutex;

use crate::trust::Trust;

/// What the names of files with cases end with.
pub(crate) const SUFFIX: &str = ".case.yaml";
/// So long is the name of a case at most that nobody has chosen.
const NAME: usize = 60;

/// What is kept of a conversation and of all that it has caused.
pub(crate) struct Kept {
    pub(crate) history: History,
    pub(crate) conversations: BTreeMap<InstanceId, Vec<Arc<Message>>>,
}

/// The file with a case. It is there only if the case passes, unless nobody wants to know.
pub(crate) fn written(
    text: &str,
    folder: &Path,
    bundle: &Bundle,
    is_tried: bool,
) -> Result<NamedTempFile, RecordError> {
    let mut file = tempfile::Builder::new()
        .prefix(".")
        .suffix(SUFFIX)
        .tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    if !is_tried {
        return Ok(file);
    }
    let summary = run_cases(&Options::new([file.path().to_owned()]), &mut |_| {});
    if summary.is_good() {
        return Ok(file);
    }
    let errors = summary.errors.iter().map(ToString::to_string);
    let cases = summary
        .cases
        .iter()
        .map(|case: &CaseReport| case_line(case).trim_end().to_owned());
    let said: Vec<String> = errors.chain(cases).collect();
    let root = bundle.root().display();
    let reason = format!(
        "Played back with the project in {root}, the conversation goes another way:\n{}",
        said.join("\n")
    );
    Err(RecordError::Unrecordable(Unrecordable(reason)))
}

/// Why there is no file with a case.
#[derive(Debug)]
pub(crate) enum RecordError {
    /// The conversation can't be played.
    Unrecordable(Unrecordable),
    /// The file can't be written.
    Io(std::io::Error),
}

impl From<std::io::Error> for RecordError {
    fn from(error: std::io::Error) -> Self {
        RecordError::Io(error)
    }
}

/// Makes cases of a running swarm's conversations, for the studio.
#[derive(Debug)]
pub(crate) struct SwarmRecorder {
    /// The project folder.
    root: PathBuf,
    env_file: Option<PathBuf>,
    trust: Trust,
    /// A case is played before it is shown: one at a time.
    playing: Mutex<()>,
}

impl SwarmRecorder {
    /// One for the swarm of the project in `root`, that was started with that trust and that file of variables.
    pub(crate) fn new(root: &Path, env_file: Option<&Path>, trust: Trust) -> Self {
        SwarmRecorder {
            root: root.to_owned(),
            env_file: env_file.map(Path::to_owned),
            trust,
            playing: Mutex::new(()),
        }
    }

    async fn case(
        &self,
        swarm: &Swarm,
        id: &InstanceId,
        message: Option<&str>,
    ) -> Result<CaseBody, NotRecorded> {
        let (kept, turn) = kept(swarm, id, message).await?;
        let name = name_of(id, turn);
        let _playing = self.playing.lock().await;
        let (root, env_file, trust) =
            (self.root.clone(), self.env_file.clone(), self.trust.clone());
        let made = tokio::task::spawn_blocking(move || {
            made(&root, env_file.as_deref(), &trust, name, kept)
        })
        .await;
        made.unwrap_or_else(|_| {
            Err(NotRecorded(
                "The case could not be made: that is a mistake of gdn.".to_owned(),
            ))
        })
    }
}

impl Recorder for SwarmRecorder {
    fn record<'r>(
        &'r self,
        swarm: &'r Swarm,
        instance: &'r InstanceId,
        message: Option<&'r str>,
    ) -> BoxFuture<'r, Result<CaseBody, NotRecorded>> {
        self.case(swarm, instance, message).boxed()
    }
}

/// What is kept of a conversation, or of the turn of one of its messages, which is then numbered.
async fn kept(
    swarm: &Swarm,
    id: &InstanceId,
    message: Option<&str>,
) -> Result<(Kept, Option<usize>), NotRecorded> {
    let unread = |error| {
        NotRecorded(format!(
            "What is kept of the conversation can't be read: {error}."
        ))
    };
    let mut events = Vec::new();
    for meta in swarm.instances().await {
        let instance = InstanceId::new(meta.agent, meta.instance_key);
        events.extend(swarm.events(&instance, 0).await.map_err(unread)?);
    }
    History::sort(&mut events);
    let turn = match message {
        Some(message) => Some(History::number_of(id, message, &events).map_err(refused)?),
        None => None,
    };
    let history = History::of(id, turn.as_slice(), events).map_err(refused)?;
    let mut conversations = BTreeMap::new();
    for instance in history.instances() {
        let messages = swarm.conversation(&instance).await.map_err(unread)?;
        conversations.insert(instance, messages);
    }
    Ok((
        Kept {
            history,
            conversations,
        },
        turn,
    ))
}

/// The case, which passes with the project as it is on disk. What nobody trusts is not run for that.
fn made(
    root: &Path,
    env_file: Option<&Path>,
    trust: &Trust,
    name: String,
    kept: Kept,
) -> Result<CaseBody, NotRecorded> {
    let failed = |error: std::io::Error| NotRecorded(format!("The case can't be tried: {error}."));
    let project = goondan::load(root);
    let Some(bundle) = &project.bundle else {
        return Err(NotRecorded(
            "The project on disk has errors at the moment, so the case can't be tried.".to_owned(),
        ));
    };
    trusted(trust, &project)?;
    let mask =
        goondan::environment(root, env_file).map_err(|problem| NotRecorded(problem.message))?;
    let mask = Mask::of_environment(&mask);
    let Kept {
        history,
        conversations,
    } = kept;
    let folder = tempfile::tempdir().map_err(failed)?;
    let beside = relative(
        &folder.path().canonicalize().map_err(failed)?,
        &root.canonicalize().map_err(failed)?,
    );
    let mut source = Source {
        name: name.clone(),
        project: beside,
        bundle,
        conversations,
        mask: &mask,
        runs_tools: false,
    };
    let text = record(&history, &source).map_err(refused)?;
    written(&text, folder.path(), bundle, true).map_err(|error| match error {
        RecordError::Unrecordable(reason) => refused(reason),
        RecordError::Io(error) => failed(error),
    })?;
    // For a file in the folder of the project.
    ".".clone_into(&mut source.project);
    let text = record(&history, &source).map_err(refused)?;
    Ok(CaseBody {
        file: format!("{name}{SUFFIX}"),
        name,
        text,
    })
}

fn trusted(trust: &Trust, project: &Project) -> Result<(), NotRecorded> {
    let check = trust.reload_check();
    check(project).map_err(|refused| {
        let first = refused
            .first()
            .map(|problem| problem.message.clone())
            .unwrap_or_default();
        NotRecorded(format!(
            "The project on disk wants what nobody has trusted it with. {first}"
        ))
    })
}

fn refused(reason: Unrecordable) -> NotRecorded {
    NotRecorded(reason.0)
}

/// A name in kebab-case that says whose conversation it is, and which turn.
fn name_of(id: &InstanceId, turn: Option<usize>) -> String {
    let mut name = String::new();
    for c in format!("{}-{}", id.agent, id.instance_key)
        .chars()
        .map(|c| c.to_ascii_lowercase())
    {
        match c.is_ascii_alphanumeric() {
            true => name.push(c),
            false if name.ends_with('-') || name.is_empty() => {}
            false => name.push('-'),
        }
    }
    name.truncate(NAME);
    let name = name.trim_end_matches('-');
    let name = if name.is_empty() { "recorded" } else { name };
    turn.map_or_else(|| name.to_owned(), |turn| format!("{name}-turn-{turn}"))
}

/// `to` as seen from `from`, with `/` between its parts. Both are absolute.
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
    fn a_path_leads_from_the_case_to_the_project() {
        let path = |from: &str, to: &str| relative(Path::new(from), Path::new(to));
        assert_eq!(path("/a/b/cases", "/a/b"), "..");
        assert_eq!(path("/a/b", "/a/b"), ".");
        assert_eq!(path("/a/cases/deep", "/a/b/c"), "../../b/c");
    }

    #[test]
    fn a_case_is_named_after_its_conversation() {
        let name = |agent: &str, key: &str, turn| name_of(&InstanceId::new(agent, key), turn);
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
