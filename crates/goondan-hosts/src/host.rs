//! Starts and restarts the processes of one host.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use goondan_core::JsonObject;
use goondan_core::ids::InstanceId;
use goondan_core::plugin_session::{ExtensionMessage, RestartDelay};
use goondan_core::ports::tool::{ApprovedFile, HandlerError};
use goondan_spec::Code;
use goondan_spec::kinds::{SandboxSettings, ScriptRuntime};
use tokio::time::Instant;

use crate::errors;
use crate::process::RuntimeProcess;
use crate::programs::{HostProgram, HostPrograms};
use crate::shim;

/// Number of consecutive failures after which the process is still restarted at once.
const IMMEDIATE_RESTARTS: u32 = 3;
/// Maximum pause before a restart.
const MAX_RESTART_DELAY: Duration = Duration::from_secs(60);
/// Number of scopes above which idle processes are ended.
const MAX_IDLE_SCOPES: usize = 16;
/// Minimum memory limit in MiB that lets a runtime start.
const MIN_MEMORY_MIB: u64 = 64;

/// Gives the shim separate file descriptors, and sends the modules' printed output to the log. The
/// first argument is a memory limit in KiB. It limits the data segment, because runtimes reserve
/// far more address space than they use.
const REDIRECT_SCRIPT: &str = r#"exec 3<&0 4>&1 </dev/null >&2
[ -z "$1" ] || ulimit -d "$1" || exit 69
shift
exec "$@""#;

const SHELL_PATH: &str = "/bin/sh";

/// The access of a process: the sandboxes of its callers, and their writable directory. All calls
/// without a sandbox are equal.
#[derive(Debug, Clone, Default, PartialEq)]
struct ProcessScope {
    sandboxes: Vec<SandboxSettings>,
    workdir: PathBuf,
}

/// Properties of a host. Modules with equal properties share a host.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScriptHostDefinition {
    pub(crate) runtime: ScriptRuntime,
    pub(crate) program: PathBuf,
    pub(crate) package: PathBuf,
    pub(crate) project: PathBuf,
    /// The settings for programs.
    pub(crate) settings: JsonObject,
}

/// A host: one process per scope, started by the first call.
pub(crate) struct ScriptHost {
    name: String,
    definition: ScriptHostDefinition,
    folder: PathBuf,
    programs: Arc<dyn HostPrograms>,
    slots: Mutex<Vec<(ProcessScope, Arc<HostSlot>)>>,
}

#[derive(Default)]
struct HostSlot(tokio::sync::Mutex<HostProcessState>);

struct HostProcessState {
    process: Option<Arc<RuntimeProcess>>,
    restart: RestartDelay,
}

impl Default for HostProcessState {
    fn default() -> Self {
        HostProcessState {
            process: None,
            restart: RestartDelay::new(IMMEDIATE_RESTARTS, MAX_RESTART_DELAY),
        }
    }
}

impl ScriptHost {
    pub(crate) fn new(
        name: String,
        definition: ScriptHostDefinition,
        folder: PathBuf,
        programs: Arc<dyn HostPrograms>,
    ) -> Self {
        ScriptHost {
            name,
            definition,
            folder,
            programs,
            slots: Mutex::default(),
        }
    }

    pub(crate) fn definition(&self) -> &ScriptHostDefinition {
        &self.definition
    }

    fn slots(&self) -> MutexGuard<'_, Vec<(ProcessScope, Arc<HostSlot>)>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the extensions of an instance from all processes. Must not block.
    pub(crate) fn forget(&self, instance: &InstanceId) {
        for (_, slot) in self.slots().iter() {
            // A process that is still starting has no extensions.
            let Ok(slot_state) = slot.0.try_lock() else {
                continue;
            };
            let Some(process) = &slot_state.process else {
                continue;
            };
            for session in process.sessions().forget(instance) {
                process.send(&ExtensionMessage::Forget { session });
            }
        }
    }

    /// Returns the running process for the sandboxes and `workdir`, or starts one. Fails if the
    /// pause after a failure is not over.
    pub(crate) async fn connect(
        &self,
        sandboxes: &[SandboxSettings],
        workdir: &Path,
        approved_files: &Arc<[ApprovedFile]>,
    ) -> Result<Arc<RuntimeProcess>, HandlerError> {
        let scope = if sandboxes.is_empty() {
            ProcessScope::default()
        } else {
            ProcessScope {
                sandboxes: sandboxes.to_vec(),
                workdir: workdir.to_owned(),
            }
        };
        let slot = self.slot(&scope);
        let mut slot_state = slot.0.lock().await;
        if let Some(process) = &slot_state.process {
            if process.accepts_calls() {
                return Ok(Arc::clone(process));
            }
            let has_answered = process.calls().has_answered();
            slot_state.process = None;
            slot_state
                .restart
                .record_failure(has_answered, Instant::now());
        }
        let process = format!("the runtime process of {}", self.name);
        slot_state.restart.check(&process, Code::HOST_DOWN)?;
        match self.start(&scope, workdir, approved_files).await {
            Ok(process) => Ok(Arc::clone(slot_state.process.insert(Arc::new(process)))),
            // The process did not fail: the next approval may start it at once.
            Err(error) if error.code.as_deref() == Some(Code::TOOL_DENIED.as_str()) => Err(error),
            Err(error) => {
                slot_state.restart.record_failure(false, Instant::now());
                Err(error)
            }
        }
    }

    /// Returns the slot for `scope`. If there are many slots, drops the idle ones.
    fn slot(&self, scope: &ProcessScope) -> Arc<HostSlot> {
        let mut slots = self.slots();
        if let Some((_, slot)) = slots.iter().find(|(known, _)| known == scope) {
            return Arc::clone(slot);
        }
        if slots.len() >= MAX_IDLE_SCOPES {
            slots.retain(|(_, slot)| Arc::strong_count(slot) > 1 || slot.is_busy());
        }
        let slot = Arc::<HostSlot>::default();
        slots.push((scope.clone(), Arc::clone(&slot)));
        slot
    }

    /// Writes the shim, starts a process, and waits until it is ready.
    async fn start(
        &self,
        scope: &ProcessScope,
        workdir: &Path,
        approved_files: &Arc<[ApprovedFile]>,
    ) -> Result<RuntimeProcess, HandlerError> {
        let (runtime, folder) = (self.definition.runtime, self.folder.clone());
        let written = tokio::task::spawn_blocking(move || shim::write_shim(runtime, &folder)).await;
        let shim = written.map_err(|error| errors::start(&self.name, error))?;
        let shim = shim.map_err(|error| {
            errors::start(
                &self.name,
                format_args!("cannot write its program: {error}"),
            )
        })?;
        let program = HostProgram {
            approved_files: Arc::clone(approved_files),
            ..self.program(scope, workdir, &shim)
        };
        let streams = self.programs.start(&program).await?;
        RuntimeProcess::wait_until_ready(&self.name, streams).await
    }

    /// Returns the command line and the settings of a process.
    fn program(&self, scope: &ProcessScope, workdir: &Path, shim: &Path) -> HostProgram {
        let ScriptHostDefinition {
            runtime,
            program,
            package,
            project,
            settings,
        } = &self.definition;
        let mut settings = settings.clone();
        let memory = take_memory_limit(&mut settings)
            .map(|mib| (mib.max(MIN_MEMORY_MIB) * 1024).to_string())
            .unwrap_or_default();
        let program_text = program.to_string_lossy().into_owned();
        let mut args: Vec<String> = ["-c", REDIRECT_SCRIPT, "sh", &memory, &program_text]
            .map(str::to_owned)
            .into();
        let is_sandboxed = !scope.sandboxes.is_empty() || settings.contains_key("sandbox");
        let runtime_args: &[&str] = match runtime {
            ScriptRuntime::Node | ScriptRuntime::Bun => &[],
            ScriptRuntime::Deno => &["run", "--no-prompt", "--allow-all", "--quiet"],
            // Bytecode files next to the sources would look like edits. Without a sandbox, they are
            // in another directory.
            ScriptRuntime::Python if is_sandboxed => &["-u", "-B"],
            ScriptRuntime::Python => &["-u"],
        };
        args.extend(runtime_args.iter().map(|arg| (*arg).to_owned()));
        args.push(shim.to_string_lossy().into_owned());
        HostProgram {
            program: SHELL_PATH.into(),
            args,
            folder: package.clone(),
            project: project.clone(),
            config: settings,
            sandboxes: scope.sandboxes.clone(),
            workdir: if scope.workdir.as_os_str().is_empty() {
                workdir.to_owned()
            } else {
                scope.workdir.clone()
            },
            reads: vec![self.folder.clone()],
            starts: vec![SHELL_PATH.into(), program.clone()],
            approved_files: Arc::default(),
        }
    }

    /// Ends all processes, and waits until they have ended.
    pub(crate) async fn end(&self) {
        let slots: Vec<_> = self.slots().drain(..).collect();
        let end = async |slot: Arc<HostSlot>| {
            if let Some(process) = slot.0.lock().await.process.take() {
                process.end().await;
            }
        };
        futures::future::join_all(slots.into_iter().map(|(_, slot)| end(slot))).await;
    }
}

impl HostSlot {
    /// Returns true if the process has open calls. A slot that is in use counts as not busy.
    fn is_busy(&self) -> bool {
        self.0.try_lock().is_ok_and(|slot_state| {
            slot_state
                .process
                .as_ref()
                .is_some_and(|process| process.calls().count() > 0)
        })
    }
}

/// Removes the memory limit from the settings, because the shell applies it. Returns the limit in
/// MiB, or `None` if there is none.
fn take_memory_limit(settings: &mut JsonObject) -> Option<u64> {
    settings
        .get_mut("limits")?
        .as_object_mut()?
        .remove("memoryMib")?
        .as_u64()
}
