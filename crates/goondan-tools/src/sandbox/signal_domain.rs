//! All processes of a sandboxed program, as one receiver of signals.
//!
//! A thread in a Landlock domain that limits signals can send signals only to processes of this
//! domain. The program that the thread starts is in the domain, with all its descendants, and no
//! other process is. So a signal of the thread to all processes reaches exactly these. The kernel
//! sends it while no process can be created. A program that starts processes all the time cannot
//! avoid it.
//!
//! The sandbox of the program is nested in the domain. So the program cannot send signals to the
//! thread, which is part of this process. All domains are nested in an outermost one, which also
//! contains the watcher of sandboxes (`domain_watcher`).

use std::fs;
use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use landlock::{
    CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid, getppid};

use super::orphans::visible_pids;
use super::sandboxed_start::SandboxApplyError;

/// First interval at which the end of killed processes is checked. Each interval is twice the one
/// before.
const MIN_END_CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// Longest interval at which the end of killed processes is checked.
const MAX_END_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Receiver for a signal to all processes that the sender may signal.
const ALL_PROCESSES: Pid = Pid::from_raw(-1);

/// Thread states of `/proc` in which a thread never runs again.
const ENDED_STATES: &[char] = &['Z', 'X'];

/// Thread states of `/proc` in which a thread does not run by itself: stopped, zombie and dead.
const STOPPED_STATES: &[char] = &['T', 'Z', 'X'];

/// All that a thread does.
type ThreadBody = Box<dyn FnOnce() + Send>;

/// Work for the thread of a domain.
type DomainOrder = Box<dyn FnOnce(&mut DomainThread) + Send>;

/// The processes of a sandboxed program. Dropping it kills them, with a short delay.
#[derive(Debug)]
pub(crate) struct SignalDomain {
    orders: Sender<DomainOrder>,
}

impl SignalDomain {
    /// Returns true if the kernel limits signals of a domain: Linux 6.12 or later.
    pub(crate) fn is_supported() -> bool {
        SignalDomain::outermost().is_some()
    }

    /// Returns the domain that contains all others, and creates it at the first call. Returns `None`
    /// if it could not be created, or if the kernel does not limit signals.
    fn outermost() -> Option<&'static SignalDomain> {
        static OUTERMOST: OnceLock<Option<SignalDomain>> = OnceLock::new();
        let check_limit = || {
            if reaches_parent() {
                Err(io::Error::other("signals are not limited"))
            } else {
                Ok(())
            }
        };
        let start = || SignalDomain::start_on(start_thread, check_limit);
        OUTERMOST
            .get_or_init(|| start().ok().map(|((), domain)| domain))
            .as_ref()
    }

    /// Runs `order` on the thread of the outermost domain, outside all sandboxes.
    pub(super) fn run_outermost<T: Send + 'static>(
        order: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let outermost = SignalDomain::outermost();
        outermost
            .and_then(|domain| domain.run_on_thread(|_| order()))
            .unwrap_or_else(|| Err(io::Error::other("the kernel does not limit signals")))
    }

    /// Runs `work`, which starts a program, on a new thread in a new domain.
    ///
    /// # Errors
    ///
    /// Fails if the domain cannot be created, or if `work` fails.
    pub(crate) fn start<T: Send + 'static>(
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<(T, SignalDomain)> {
        let start = |body| SignalDomain::run_outermost(move || start_thread(body));
        SignalDomain::start_on(start, work)
    }

    /// Runs `work` in a new domain, on a thread that `start` starts.
    fn start_on<T: Send + 'static>(
        start: impl FnOnce(ThreadBody) -> io::Result<()>,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<(T, SignalDomain)> {
        let (orders, received) = mpsc::channel();
        let (report, reported) = mpsc::sync_channel(1);
        start(Box::new(move || {
            let entered = DomainThread::enter().map_err(io::Error::other);
            match entered.and_then(|thread| Ok((thread, work()?))) {
                Ok((thread, done)) => {
                    let _ = report.send(Ok(done));
                    thread.run_orders(&received);
                }
                Err(error) => {
                    let _ = report.send(Err(error));
                }
            }
        }))?;
        let done = reported
            .recv()
            .map_err(|_| io::Error::other("the thread of the sandbox ended early"))??;
        Ok((done, SignalDomain { orders }))
    }

    /// Kills all processes. None of them continues when this returns, except to end its last system
    /// call.
    pub(crate) fn kill(&self) {
        self.run_on_thread(|_| signal_all(Signal::SIGKILL));
    }

    /// Kills all processes like [`SignalDomain::kill`], and calls `on_end` when all have ended. Drops
    /// `on_end` if the domain does not exist any more.
    pub(crate) fn end(&self, on_end: impl FnOnce() + Send + 'static) {
        self.run_on_thread(|thread| {
            signal_all(Signal::SIGKILL);
            thread.on_end = Some(Box::new(on_end));
        });
    }

    /// Requests that all processes stop. Returns at once.
    pub(crate) fn stop(&self) {
        let _ = self.orders.send(Box::new(|_| signal_all(Signal::SIGSTOP)));
    }

    /// Continues the stopped processes of the domain. Does not wait until they run.
    pub(crate) fn resume(&self) {
        let _ = self.orders.send(Box::new(|_| signal_all(Signal::SIGCONT)));
    }

    /// Returns true if all processes have stopped or ended. Otherwise, requests again that they stop.
    /// Blocks the thread for some milliseconds.
    pub(crate) fn has_stopped(&self) -> bool {
        // A process that ends may continue stopped ones of its group, so the second test counts.
        let test = |_: &mut DomainThread| {
            (0..2).all(|_| {
                signal_all(Signal::SIGSTOP);
                domain_members().all(has_stopped)
            })
        };
        // A domain whose thread has ended has no processes.
        self.run_on_thread(test).unwrap_or(true)
    }

    /// Runs `order` on the thread of the domain, and returns its result. Returns `None` if that thread
    /// has ended.
    fn run_on_thread<T: Send + 'static>(
        &self,
        order: impl FnOnce(&mut DomainThread) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = mpsc::sync_channel(1);
        let order: DomainOrder = Box::new(move |thread| {
            let _ = answer.send(order(thread));
        });
        self.orders.send(order).ok()?;
        answered.recv().ok()
    }
}

/// Starts a thread that runs `body`. It inherits the domain of the current thread, if there is one.
fn start_thread(body: ThreadBody) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("sandbox-signals".to_owned());
    thread.spawn(body).map(drop)
}

/// Thread in the domain. Elsewhere, a signal to all processes would reach processes outside the
/// domain.
struct DomainThread {
    /// Called when all killed processes have ended.
    on_end: Option<Box<dyn FnOnce() + Send>>,
}

impl DomainThread {
    /// Puts the current thread into a new domain. The thread can then send signals only to processes
    /// of this domain.
    fn enter() -> Result<DomainThread, SandboxApplyError> {
        let restricted = signal_rules()?.restrict_self()?;
        match restricted.ruleset {
            RulesetStatus::NotEnforced => Err(SandboxApplyError::NotEnforced),
            // The limit of signals is required. A partly enforced ruleset lacks only the option for
            // the audit log.
            RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced => {
                Ok(DomainThread { on_end: None })
            }
        }
    }

    /// Runs the orders until the [`SignalDomain`] is dropped. Then kills all processes of the domain.
    fn run_orders(mut self, orders: &Receiver<DomainOrder>) {
        let mut interval = MIN_END_CHECK_INTERVAL;
        loop {
            let order = match self.on_end {
                Some(_) => orders.recv_timeout(interval),
                None => orders.recv().map_err(RecvTimeoutError::from),
            };
            match order {
                Ok(order) => order(&mut self),
                Err(RecvTimeoutError::Timeout) => {
                    interval = (interval * 2).min(MAX_END_CHECK_INTERVAL);
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.on_end.is_some()
                && domain_members().all(has_ended)
                && let Some(on_end) = self.on_end.take()
            {
                on_end();
            }
        }
        signal_all(Signal::SIGKILL);
    }
}

/// Returns Landlock rules that limit signals and nothing else. Fails if the kernel does not support
/// this limit.
fn signal_rules() -> Result<landlock::RulesetCreated, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(Scope::Signal)?
        .create()?
        .set_compatibility(CompatLevel::BestEffort)
        // Otherwise, an audit log contains each process that a signal did not reach.
        .log_same_exec(false)
}

/// Sends a signal to all other processes of the domain. Only for a thread or process in a domain.
fn signal_all(signal: Signal) {
    let _ = kill(ALL_PROCESSES, signal);
}

/// Kills all other processes of the domain, and waits until they have ended. Only for a process in a
/// domain.
pub(super) fn kill_all() {
    loop {
        signal_all(Signal::SIGKILL);
        if domain_members().all(has_ended) {
            return;
        }
        std::thread::sleep(MIN_END_CHECK_INTERVAL);
    }
}

/// Returns true if the current thread may signal the parent process, which is outside all domains.
/// Returns false also if no parent is visible.
fn reaches_parent() -> bool {
    let parent = getppid();
    parent.as_raw() > 0 && kill(parent, None).is_ok()
}

/// Returns the processes of the domain of the current thread.
fn domain_members() -> impl Iterator<Item = i32> {
    let own_pid = getpid().as_raw();
    visible_pids()
        .into_iter()
        .filter(move |pid| *pid != own_pid && kill(Pid::from_raw(*pid), None).is_ok())
}

/// Returns true if every thread of the process has stopped or ended. None of them runs until the
/// process is continued.
pub(crate) fn has_stopped(pid: i32) -> bool {
    has_only(pid, STOPPED_STATES)
}

fn has_ended(pid: i32) -> bool {
    has_only(pid, ENDED_STATES)
}

/// Returns true if all threads of the process have one of the states.
#[expect(clippy::disallowed_methods, reason = "the kernel generates /proc")]
fn has_only(pid: i32, states: &[char]) -> bool {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return true;
    };
    tasks
        .flatten()
        .filter_map(|task| state(&task.path()))
        .all(|state| states.contains(&state))
}

/// Returns the state of a thread; `None` for a thread that does not exist any more.
#[expect(clippy::disallowed_methods, reason = "the kernel generates /proc")]
fn state(task: &Path) -> Option<char> {
    let stat = fs::read_to_string(task.join("stat")).ok()?;
    // The program's name, in parentheses, may contain any characters.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.trim_start().chars().next()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Starts a shell in a new domain; `None` on a kernel that does not limit signals.
    fn shell(script: &'static str) -> Option<(Child, SignalDomain)> {
        let start = move || {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", script]).stdout(Stdio::piped()).spawn()
        };
        SignalDomain::is_supported().then(|| SignalDomain::start(start).unwrap())
    }

    /// Starts processes that leave their session, start the next process, and exit.
    const MOVING_PROCESSES: &str = "move='setsid sh -c \"$0\" \"$0\" &'; \
        setsid sh -c \"$move\" \"$move\" & setsid sh -c \"$move\" \"$move\" & echo moving";

    #[test]
    fn ending_a_domain_kills_all_its_processes_and_no_others() {
        let Some((mut child, domain)) = shell(MOVING_PROCESSES) else {
            return;
        };
        let mut outside = Command::new("sleep").arg("60").spawn().unwrap();
        // All processes have the pipe open.
        let mut output = String::new();
        let (ended, end) = mpsc::channel();
        let mut pipe = child.stdout.take().unwrap();
        child.wait().unwrap();
        domain.end(move || ended.send(()).unwrap());
        end.recv().unwrap();
        pipe.read_to_string(&mut output).unwrap();
        assert_eq!(output, "moving\n");
        assert!(outside.try_wait().unwrap().is_none());
        outside.kill().unwrap();
        outside.wait().unwrap();
    }

    #[test]
    fn stopped_processes_can_be_resumed() {
        let Some((mut child, domain)) = shell("while :; do echo x; done") else {
            return;
        };
        let mut pipe = child.stdout.take().unwrap();
        let mut some = [0; 4];
        pipe.read_exact(&mut some).unwrap();
        domain.stop();
        while !domain.has_stopped() {
            std::thread::yield_now();
        }
        let pid = i32::try_from(child.id()).unwrap();
        assert!(has_stopped(pid) && !has_ended(pid));
        domain.resume();
        // More than the capacity of the pipe.
        let mut more = vec![0; 1 << 20];
        pipe.read_exact(&mut more).unwrap();
        domain.kill();
        child.wait().unwrap();
    }
}
