//! Keeps the processes of one host running.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use goondan_core::JsonObject;
use goondan_core::ids::InstanceId;
use goondan_core::ports::tool::ToolError;
use goondan_spec::kinds::{Runtime, Sandbox};
use tokio::time::Instant;

use crate::errors;
use crate::process::Process;
use crate::programs::{HostProgram, HostPrograms};
use crate::shim;
use crate::wire::Down;

/// Ends in a row after which a host is started again at once.
const QUICK: u32 = 3;
/// The longest pause before a host is started again.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Places of which a host has a process before those that have nothing to do are ended.
const MANY_PLACES: usize = 16;
/// The least memory with which a runtime starts at all, in MiB.
const LEAST_MEMORY: u64 = 64;

/// Gives the shim descriptors of its own, and what modules print to the log. The first argument is a limit on memory in KiB;
/// an address space can't be limited, for runtimes reserve far more of it than they use.
const PLUMBING: &str = r#"exec 3<&0 4>&1 </dev/null >&2
[ -z "$1" ] || ulimit -d "$1" || exit 69
shift
exec "$@""#;

/// The shell that does it.
const SHELL: &str = "/bin/sh";

/// For whom a process runs: the sandboxes that calls are made from, and what may be written there. Without a sandbox every
/// call is made from the same place.
#[derive(Debug, Clone, Default, PartialEq)]
struct Place {
    sandboxes: Vec<Sandbox>,
    workdir: PathBuf,
}

/// What a host is, as far as others may share it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Definition {
    pub(crate) runtime: Runtime,
    pub(crate) program: PathBuf,
    /// The package's folder.
    pub(crate) package: PathBuf,
    /// The project's folder.
    pub(crate) project: PathBuf,
    /// The settings for programs.
    pub(crate) settings: JsonObject,
}

/// A host: one process for each place that it is called from, started by the first call.
pub(crate) struct Host {
    name: String,
    definition: Definition,
    /// Where shims lie.
    folder: PathBuf,
    programs: Arc<dyn HostPrograms>,
    slots: Mutex<Vec<(Place, Arc<Slot>)>>,
}

#[derive(Default)]
struct Slot(tokio::sync::Mutex<Life>);

#[derive(Default)]
struct Life {
    process: Option<Arc<Process>>,
    /// Ends since the last answer.
    deaths: u32,
    not_before: Option<Instant>,
}

impl Host {
    pub(crate) fn new(
        name: String,
        definition: Definition,
        folder: PathBuf,
        programs: Arc<dyn HostPrograms>,
    ) -> Self {
        Host {
            name,
            definition,
            folder,
            programs,
            slots: Mutex::default(),
        }
    }

    pub(crate) fn definition(&self) -> &Definition {
        &self.definition
    }

    fn slots(&self) -> MutexGuard<'_, Vec<(Place, Arc<Slot>)>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has its processes forget the extensions at an instance. Must not block.
    pub(crate) fn forget(&self, instance: &InstanceId) {
        for (_, slot) in self.slots().iter() {
            // One that is being started has none yet.
            let Ok(life) = slot.0.try_lock() else {
                continue;
            };
            let Some(process) = &life.process else {
                continue;
            };
            for session in process.sessions().forget(instance) {
                process.tell(&Down::Forget { session });
            }
        }
    }

    /// A process that takes calls from that place: one that runs, or a new one unless it is too early for that.
    pub(crate) async fn connect(
        &self,
        sandboxes: &[Sandbox],
        workdir: &Path,
    ) -> Result<Arc<Process>, ToolError> {
        let place = match sandboxes.is_empty() {
            true => Place::default(),
            false => Place {
                sandboxes: sandboxes.to_vec(),
                workdir: workdir.to_owned(),
            },
        };
        let slot = self.slot(&place);
        let mut life = slot.0.lock().await;
        if let Some(process) = &life.process {
            if process.is_fit() {
                return Ok(Arc::clone(process));
            }
            let has_answered = process.calls().has_answered();
            life.process = None;
            life.note_death(has_answered);
        }
        if let Some(left) = life
            .not_before
            .and_then(|at| at.checked_duration_since(Instant::now()))
        {
            return Err(errors::down(&self.name, life.deaths, left.as_secs() + 1));
        }
        match self.start(&place, workdir).await {
            Ok(process) => Ok(Arc::clone(life.process.insert(Arc::new(process)))),
            Err(error) => {
                life.note_death(false);
                Err(error)
            }
        }
    }

    /// The slot of a place. Where there are many, those that have nothing to do are given up.
    fn slot(&self, place: &Place) -> Arc<Slot> {
        let mut slots = self.slots();
        if let Some((_, slot)) = slots.iter().find(|(known, _)| known == place) {
            return Arc::clone(slot);
        }
        if slots.len() >= MANY_PLACES {
            slots.retain(|(_, slot)| Arc::strong_count(slot) > 1 || slot.is_busy());
        }
        let slot = Arc::<Slot>::default();
        slots.push((place.clone(), Arc::clone(&slot)));
        slot
    }

    async fn start(&self, place: &Place, workdir: &Path) -> Result<Process, ToolError> {
        let (runtime, folder) = (self.definition.runtime, self.folder.clone());
        let placed = tokio::task::spawn_blocking(move || shim::place(runtime, &folder)).await;
        let shim = placed.map_err(|error| errors::start(&self.name, error))?;
        let shim = shim.map_err(|error| {
            errors::start(
                &self.name,
                format_args!("its program can't be written: {error}"),
            )
        })?;
        let streams = self
            .programs
            .start(&self.program(place, workdir, &shim))
            .await?;
        Process::greet(&self.name, streams).await
    }

    fn program(&self, place: &Place, workdir: &Path, shim: &Path) -> HostProgram {
        let Definition {
            runtime,
            program,
            package,
            project,
            settings,
        } = &self.definition;
        let mut settings = settings.clone();
        let memory = memory(&mut settings)
            .map(|mib| (mib.max(LEAST_MEMORY) * 1024).to_string())
            .unwrap_or_default();
        let program_text = program.to_string_lossy().into_owned();
        let mut args: Vec<String> = ["-c", PLUMBING, "sh", &memory, &program_text]
            .map(str::to_owned)
            .into();
        let own: &[&str] = match runtime {
            Runtime::Node | Runtime::Bun => &[],
            Runtime::Deno => &["run", "--no-prompt", "--allow-all", "--quiet"],
            // What it writes beside its sources would look like an edit.
            Runtime::Python => &["-u", "-B"],
        };
        args.extend(own.iter().map(|arg| (*arg).to_owned()));
        args.push(shim.to_string_lossy().into_owned());
        HostProgram {
            program: SHELL.into(),
            args,
            folder: package.clone(),
            project: project.clone(),
            config: settings,
            sandboxes: place.sandboxes.clone(),
            workdir: if place.workdir.as_os_str().is_empty() {
                workdir.to_owned()
            } else {
                place.workdir.clone()
            },
            reads: vec![self.folder.clone()],
            starts: vec![SHELL.into(), program.clone()],
        }
    }

    /// Ends all of its processes, and waits until they have.
    pub(crate) async fn end(&self) {
        let slots: Vec<_> = self.slots().drain(..).collect();
        let end = async |slot: Arc<Slot>| {
            if let Some(process) = slot.0.lock().await.process.take() {
                process.end().await;
            }
        };
        futures::future::join_all(slots.into_iter().map(|(_, slot)| end(slot))).await;
    }
}

impl Slot {
    fn is_busy(&self) -> bool {
        self.0.try_lock().is_ok_and(|life| {
            life.process
                .as_ref()
                .is_some_and(|process| process.calls().count() > 0)
        })
    }
}

impl Life {
    fn note_death(&mut self, has_answered: bool) {
        self.deaths = if has_answered {
            1
        } else {
            self.deaths.saturating_add(1)
        };
        self.not_before = Some(Instant::now() + pause_after(self.deaths));
    }
}

/// The pause after that many ends in a row: none for the first three, then 1 s, 2 s, 4 s … 1 min.
fn pause_after(deaths: u32) -> Duration {
    match deaths.checked_sub(QUICK + 1) {
        None => Duration::ZERO,
        Some(doublings) => {
            Duration::from_secs(1_u64.checked_shl(doublings).unwrap_or(u64::MAX)).min(LONGEST_PAUSE)
        }
    }
}

/// Takes the limit on memory out of the settings: the shell puts it on.
fn memory(settings: &mut JsonObject) -> Option<u64> {
    settings
        .get_mut("limits")?
        .as_object_mut()?
        .remove("memoryMib")?
        .as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_quick_ones_then_doubling_up_to_a_minute() {
        let seconds = |deaths| pause_after(deaths).as_secs();
        assert_eq!((0..=3).map(seconds).max(), Some(0));
        assert_eq!(
            (4..=11).map(seconds).collect::<Vec<_>>(),
            [1, 2, 4, 8, 16, 32, 60, 60]
        );
        assert_eq!(seconds(u32::MAX), 60);
    }
}
