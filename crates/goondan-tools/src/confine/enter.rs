//! The helper process: restricts itself, and then becomes the program.

use std::ffi::OsString;
use std::process::ExitCode;

use super::{MARK, REFUSED, Restrictions, watcher};

/// Restricts this process and executes `command`. Returns only after a failure, which it prints on
/// standard error. With `watch-groups`, acts as the watcher of leftover processes instead. No other
/// thread may be running.
pub fn enter(restrictions: &str, command: &[OsString]) -> ExitCode {
    if restrictions == watcher::WATCH {
        return watcher::watch();
    }
    let entered = serde_json::from_str::<Restrictions>(restrictions).map_err(NotEntered::from);
    let entered = entered
        .and_then(|restrictions| restrict(&restrictions))
        .and_then(|()| execute(command));
    if let Err(reason) = entered {
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "{MARK}{reason}");
    }
    ExitCode::from(u8::try_from(REFUSED).unwrap_or(1))
}

/// The reason why the program was not started.
#[derive(Debug, thiserror::Error)]
enum NotEntered {
    #[error("the restrictions are not understood: {0}")]
    NotUnderstood(#[from] serde_json::Error),
    #[cfg(unix)]
    #[error(transparent)]
    Sandbox(#[from] super::start::NoSandbox),
    #[cfg(unix)]
    #[error("the limit `{name}` can't be set: {cause}")]
    Limit {
        name: &'static str,
        #[source]
        cause: nix::Error,
    },
    #[cfg(unix)]
    #[error("the limit `processes` can't be had on this operating system")]
    Processes,
    #[cfg(not(unix))]
    #[error("neither limits nor a sandbox can be had on this operating system")]
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
fn restrict(restrictions: &Restrictions) -> Result<(), NotEntered> {
    limit(restrictions)?;
    let mut layers = restrictions.layers.clone();
    // This process becomes the program, so its own entry in /proc stays valid.
    layers
        .iter_mut()
        .for_each(|layer| layer.read.push("/proc/self".into()));
    Ok(super::linux::sandbox(&layers)?)
}

#[cfg(all(unix, not(target_os = "linux")))]
fn restrict(restrictions: &Restrictions) -> Result<(), NotEntered> {
    if !restrictions.layers.is_empty() {
        return Err(super::start::NoSandbox::OtherSystem.into());
    }
    limit(restrictions)
}

#[cfg(not(unix))]
fn restrict(_restrictions: &Restrictions) -> Result<(), NotEntered> {
    Err(NotEntered::OtherSystem)
}

#[cfg(unix)]
fn limit(restrictions: &Restrictions) -> Result<(), NotEntered> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};

    let mib = |size: u64| size.saturating_mul(1 << 20);
    let limits = &restrictions.limits;
    let wanted = [
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
    if limits.processes.is_some() && !wanted.iter().any(|(.., name)| *name == "processes") {
        return Err(NotEntered::Processes);
    }
    for (resource, limit, name) in wanted {
        let Some(limit) = limit else { continue };
        let failed = |cause| NotEntered::Limit { name, cause };
        // Raising a limit above the existing hard limit is not permitted.
        let (_, hard) = getrlimit(resource).map_err(failed)?;
        let limit = limit.min(hard);
        setrlimit(resource, limit, limit).map_err(failed)?;
    }
    Ok(())
}

#[cfg(unix)]
fn execute(command: &[OsString]) -> Result<(), NotEntered> {
    use std::os::unix::process::CommandExt as _;

    let (program, arguments) = command.split_first().ok_or(NotEntered::NoProgram)?;
    let cause = std::process::Command::new(program).args(arguments).exec();
    Err(NotEntered::NotStarted {
        program: program.to_string_lossy().into_owned(),
        cause,
    })
}

#[cfg(not(unix))]
fn execute(_command: &[OsString]) -> Result<(), NotEntered> {
    Err(NotEntered::OtherSystem)
}
