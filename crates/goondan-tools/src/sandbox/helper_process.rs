//! The helper process: restricts itself, and then becomes the program.

use std::ffi::OsString;
use std::process::ExitCode;

use super::group_watcher;
use super::helper_arguments::{HELPER_ERROR_PREFIX, HELPER_FAILED_CODE, ProcessRestrictions};

/// Restricts this process and executes `command`. Returns only after a failure, which it prints on
/// standard error. With `watch-groups` or `watch-sandboxes`, acts as the watcher of leftover processes
/// instead. No other thread may be running.
pub fn enter(restrictions: &str, command: &[OsString]) -> ExitCode {
    if restrictions == group_watcher::WATCHER_ARGUMENT {
        return group_watcher::run_watcher();
    }
    #[cfg(target_os = "linux")]
    if restrictions == super::domain_watcher::DOMAIN_WATCHER_ARGUMENT {
        return super::domain_watcher::run_watcher();
    }
    let entered =
        serde_json::from_str::<ProcessRestrictions>(restrictions).map_err(HelperStartError::from);
    let entered = entered
        .and_then(|restrictions| apply_restrictions(&restrictions))
        .and_then(|()| execute(command));
    if let Err(reason) = entered {
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "{HELPER_ERROR_PREFIX}{reason}");
    }
    ExitCode::from(u8::try_from(HELPER_FAILED_CODE).unwrap_or(1))
}

/// The reason why the program was not started.
#[derive(Debug, thiserror::Error)]
enum HelperStartError {
    #[error("the restrictions are invalid: {0}")]
    NotUnderstood(#[from] serde_json::Error),
    #[cfg(unix)]
    #[error(transparent)]
    Sandbox(#[from] super::sandboxed_start::SandboxApplyError),
    #[cfg(unix)]
    #[error("the limit `{name}` can't be set: {cause}")]
    Limit {
        name: &'static str,
        #[source]
        cause: nix::Error,
    },
    #[cfg(unix)]
    #[error("the limit `processes` is not supported on this operating system")]
    Processes,
    #[cfg(not(unix))]
    #[error("limits and sandboxes are not supported on this operating system")]
    OtherSystem,
    #[cfg(unix)]
    #[error("no program is given")]
    NoProgram,
    #[cfg(unix)]
    #[error("failed to start `{program}`: {cause}")]
    NotStarted {
        program: String,
        #[source]
        cause: std::io::Error,
    },
}

#[cfg(target_os = "linux")]
fn apply_restrictions(restrictions: &ProcessRestrictions) -> Result<(), HelperStartError> {
    limit(restrictions)?;
    let mut layers = restrictions.layers.clone();
    // This process becomes the program, so its own entry in /proc stays valid.
    for layer in &mut layers {
        layer.read.push("/proc/self".into());
    }
    Ok(super::landlock::apply_layers(&layers)?)
}

#[cfg(all(unix, not(target_os = "linux")))]
fn apply_restrictions(restrictions: &ProcessRestrictions) -> Result<(), HelperStartError> {
    if !restrictions.layers.is_empty() {
        return Err(super::sandboxed_start::SandboxApplyError::OtherSystem.into());
    }
    limit(restrictions)
}

#[cfg(not(unix))]
fn apply_restrictions(_restrictions: &ProcessRestrictions) -> Result<(), HelperStartError> {
    Err(HelperStartError::OtherSystem)
}

/// Sets the resource limits of this process, which the started program inherits. Fails for a limit
/// that the system does not support.
#[cfg(unix)]
fn limit(restrictions: &ProcessRestrictions) -> Result<(), HelperStartError> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};

    let mib = |size: u64| size.saturating_mul(1 << 20);
    let limits = &restrictions.limits;
    let requested_limits = [
        (Resource::RLIMIT_CPU, limits.cpu_seconds, "cpuSeconds"),
        (Resource::RLIMIT_AS, limits.memory_mib.map(mib), "memoryMib"),
        (
            Resource::RLIMIT_FSIZE,
            limits.file_size_mib.map(mib),
            "fileSizeMib",
        ),
        #[cfg(any(target_os = "linux", target_os = "freebsd"))]
        (Resource::RLIMIT_NPROC, limits.processes, "processes"),
    ];
    if limits.processes.is_some()
        && !requested_limits
            .iter()
            .any(|(.., name)| *name == "processes")
    {
        return Err(HelperStartError::Processes);
    }
    for (resource, limit, name) in requested_limits {
        let Some(limit) = limit else { continue };
        let failed = |cause| HelperStartError::Limit { name, cause };
        // Raising a limit above the existing hard limit is not permitted.
        let (_, hard) = getrlimit(resource).map_err(failed)?;
        let limit = limit.min(hard);
        setrlimit(resource, limit, limit).map_err(failed)?;
    }
    Ok(())
}

#[cfg(unix)]
fn execute(command: &[OsString]) -> Result<(), HelperStartError> {
    use std::os::unix::process::CommandExt as _;

    let (program, arguments) = command.split_first().ok_or(HelperStartError::NoProgram)?;
    let cause = std::process::Command::new(program).args(arguments).exec();
    Err(HelperStartError::NotStarted {
        program: program.to_string_lossy().into_owned(),
        cause,
    })
}

#[cfg(not(unix))]
fn execute(_command: &[OsString]) -> Result<(), HelperStartError> {
    Err(HelperStartError::OtherSystem)
}
