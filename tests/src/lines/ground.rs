//! The folders in which lines run, and what is left in them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::witness;

/// The folder in which `gdn` runs lines, and that in which shells do.
pub(super) const OURS: &str = "ours";
const THEIRS: &str = "theirs";

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
  workdir: work
  permissions:
    default: ask
    rules:
      - {permission: write, action: allow}
      - {tool: "bash__exec", args: {command: "p1"}, action: allow}
      - {tool: "bash__exec", args: {command: "p1 *"}, action: allow}
      - {tool: "bash__exec", args: {command: "p2 *"}, action: allow}
      - {tool: "bash__exec", args: {command: "A=* p2 *"}, action: allow}
      - {tool: "bash__exec", args: {command: "cd *"}, action: allow}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}
"#;

/// The names of the witness. The last of them no rule allows.
const NAMES: [&str; 3] = ["p1", "p2", "p3"];

/// What came of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    /// What the witness wrote down, sorted: commands of a pipeline run at the same time.
    pub(super) notes: Vec<String>,
    files: BTreeMap<PathBuf, Vec<u8>>,
    printed: String,
    succeeded: bool,
}

/// Where the programs for one of the folders lie.
pub(super) fn programs(place: &Path, who: &str) -> PathBuf {
    place.join(format!("programs-{who}/bin"))
}

/// Makes the folders, deep below `dir`, so that a line that goes up stays below it.
pub(super) fn lay_out(dir: &Path) -> anyhow::Result<PathBuf> {
    let place = dir.canonicalize()?.join("a/b/c/d/e/f/g/h");
    let witness = std::env::current_exe()?.with_file_name("witness");
    for who in [OURS, THEIRS] {
        let bin = programs(&place, who);
        fs::create_dir_all(&bin)?;
        for name in NAMES {
            fs::copy(&witness, bin.join(name))?;
            witness::lay(&bin.join(name), &place.join(who).join("work"))?;
        }
        let folder = place.join(who);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("goondan.yaml"), PROJECT)?;
    }
    Ok(place)
}

/// The shells of this machine.
pub(super) fn shells() -> Vec<PathBuf> {
    ["/bin/dash", "/bin/bash"]
        .into_iter()
        .map(PathBuf::from)
        .filter(|shell| shell.exists())
        .collect()
}

pub(super) struct Ground {
    place: PathBuf,
}

impl Ground {
    pub(super) fn new(place: &Path) -> Ground {
        Ground {
            place: place.to_owned(),
        }
    }

    fn work(&self, who: &str) -> PathBuf {
        self.place.join(who).join("work")
    }

    /// Puts the files where they were before the first line.
    pub(super) fn reset(&self, who: &str) -> io::Result<()> {
        let work = self.work(who);
        match fs::remove_dir_all(&work) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir_all(work.join("d/e"))?;
        for (name, text) in [
            ("a1", "one\n"),
            ("b1", "two\n"),
            (".h", "hidden\n"),
            ("d/x", "x\n"),
            ("d/e/y", "y"),
        ] {
            fs::write(work.join(name), text)?;
        }
        Ok(())
    }

    /// What comes of a line as a shell runs it.
    pub(super) fn by_shell(&self, shell: &Path, line: &str) -> anyhow::Result<Outcome> {
        self.reset(THEIRS)?;
        // `gdn` has none to start.
        let inner = programs(&self.place, THEIRS).join("sh");
        let _ = fs::remove_file(&inner);
        std::os::unix::fs::symlink(shell, inner)?;
        let mut command = Command::new(shell);
        command
            .arg("-c")
            .arg(line)
            .current_dir(self.work(THEIRS))
            .env_clear();
        command
            .env("PATH", programs(&self.place, THEIRS))
            .env("HOME", self.work(THEIRS))
            .env("LC_ALL", "C");
        command.stdin(Stdio::null()).stderr(Stdio::null());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let output = command.output()?;
        self.outcome(
            THEIRS,
            String::from_utf8_lossy(&output.stdout).into_owned(),
            output.status.success(),
        )
    }

    /// What is left of a line that has ended.
    pub(super) fn outcome(
        &self,
        who: &str,
        printed: String,
        succeeded: bool,
    ) -> anyhow::Result<Outcome> {
        let work = self.work(who);
        let mut files = BTreeMap::new();
        collect(&work, &work, &mut files)?;
        let notes = files.remove(Path::new(witness::NOTES)).unwrap_or_default();
        let mut notes: Vec<String> = String::from_utf8_lossy(&notes)
            .lines()
            .map(str::to_owned)
            .collect();
        notes.sort();
        Ok(Outcome {
            notes,
            files,
            printed: witness::calm(&printed),
            succeeded,
        })
    }
}

fn collect(
    folder: &Path,
    work: &Path,
    files: &mut BTreeMap<PathBuf, Vec<u8>>,
) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, work, files)?;
        } else {
            let content = fs::read(&path)?;
            let content = std::str::from_utf8(&content)
                .map_or(content.clone(), |text| witness::calm(text).into_bytes());
            files.insert(path.strip_prefix(work)?.to_owned(), content);
        }
    }
    Ok(())
}
