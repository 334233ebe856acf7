//! What the helper does: restrict itself, then become the program.

use std::ffi::OsString;
use std::process::ExitCode;

use super::{MARK, REFUSED, Restrictions, watcher};

/// Puts the restrictions on this process and executes `command`. It comes back only where that failed, and says why on
/// standard error. Told to watch instead, it ends what its parent leaves behind. No other thread may run.
pub fn enter(restrictions: &str, command: &[OsString]) -> ExitCode {
    if restrictions == watcher::WATCH {
        return watcher::watch();
    }
    let reason = match serde_json::from_str::<Restrictions>(restrictions) {
        Ok(restrictions) => match restrict(&restrictions) {
            Ok(()) => execute(command),
            Err(reason) => reason,
        },
        Err(error) => format!("the restrictions are not understood: {error}"),
    };
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{MARK}{reason}");
    ExitCode::from(u8::try_from(REFUSED).unwrap_or(1))
}

#[cfg(target_os = "linux")]
fn restrict(restrictions: &Restrictions) -> Result<(), String> {
    limit(restrictions)?;
    let mut layers = restrictions.layers.clone();
    // This process becomes the program, so what is its own here stays its own.
    layers.iter_mut().for_each(|layer| layer.read.push("/proc/self".into()));
    super::linux::sandbox(&layers)
}

#[cfg(all(unix, not(target_os = "linux")))]
fn restrict(restrictions: &Restrictions) -> Result<(), String> {
    if !restrictions.layers.is_empty() {
        return Err("there is a sandbox on Linux alone".to_owned());
    }
    limit(restrictions)
}

#[cfg(not(unix))]
fn restrict(_restrictions: &Restrictions) -> Result<(), String> {
    Err("neither limits nor a sandbox can be had on this operating system".to_owned())
}

#[cfg(unix)]
fn limit(restrictions: &Restrictions) -> Result<(), String> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};

    let mib = |size: u64| size.saturating_mul(1 << 20);
    let limits = &restrictions.limits;
    let wanted = [
        (Resource::RLIMIT_CPU, limits.cpu_seconds, "cpuSeconds"),
        (Resource::RLIMIT_AS, limits.memory_mib.map(mib), "memoryMib"),
        (Resource::RLIMIT_FSIZE, limits.file_size_mib.map(mib), "fileSizeMib"),
        #[cfg(any(target_os = "linux", target_os = "freebsd"))]
        (Resource::RLIMIT_NPROC, limits.processes, "processes"),
    ];
    if limits.processes.is_some() && !wanted.iter().any(|(.., name)| *name == "processes") {
        return Err("the limit `processes` can't be had on this operating system".to_owned());
    }
    for (resource, limit, name) in wanted {
        let Some(limit) = limit else { continue };
        let failed = |error| format!("the limit `{name}` can't be set: {error}");
        // Nobody may raise a limit; a lower one that is there already holds.
        let (_, hard) = getrlimit(resource).map_err(failed)?;
        let limit = limit.min(hard);
        setrlimit(resource, limit, limit).map_err(failed)?;
    }
    Ok(())
}

#[cfg(unix)]
fn execute(command: &[OsString]) -> String {
    use std::os::unix::process::CommandExt as _;

    let Some((program, arguments)) = command.split_first() else { return "no program is given".to_owned() };
    let error = std::process::Command::new(program).args(arguments).exec();
    format!("failed to start `{}`: {error}", program.to_string_lossy())
}

#[cfg(not(unix))]
fn execute(_command: &[OsString]) -> String {
    "a process can't become another program here".to_owned()
}
