//! Restricts the system calls of sandboxed programs with seccomp filters.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use nix::libc;
use nix::unistd::gettid;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

use super::permitted_calls::{ARCHITECTURE_CALLS, FCHMODAT2, PERMITTED_CALLS};
use super::sandboxed_start::SandboxApplyError;

/// Inserts a character into the input of a terminal.
const TIOCSTI: u32 = 0x5412;

const TIOCLINUX: u32 = 0x541c;

/// Calls whose first argument is a process, and 0 for the caller. Other processes are refused.
const OWN_PROCESS_CALLS: [i64; 5] = [
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

/// Calls that set the mode of a file, with the position of the mode. `mkdir` ignores the bits of
/// [`SET_ID_MODES`].
const CALLS_WITH_MODE: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];

/// Mode bits with which a program runs with the user or the group of its file. With the second bit,
/// a directory also gives its group to new files.
const SET_ID_MODES: [u32; 2] = [libc::S_ISUID, libc::S_ISGID];

/// Calls that create a file if a flag requests it, with the positions of the flags and of the mode.
/// Without the flag, the mode has no meaning and can have any value.
const CREATING_CALLS: &[(i64, u8, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
    (libc::SYS_openat, 2, 3),
];

/// Flags with which [`CREATING_CALLS`] create a file: `O_CREAT`, and the bit of `O_TMPFILE` that no
/// other flag has.
const CREATING_FLAGS: [u64; 2] = [0o100, 0o20_000_000];

/// Flags of `clone` that create a namespace.
const NAMESPACE_FLAGS: [i32; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// `which` of `setpriority` for all processes of a user. Its type differs between C libraries.
const PRIO_WHO_USER: u64 = 2;

/// `which` of `ioprio_set` for all processes of a user.
const IOPRIO_WHO_USER: u64 = 3;

/// Calls that can continue a stopped program, or change a file while it is stopped: a timer may send
/// `SIGCONT`, and submitted writes are still executed.
const CALLS_BEYOND_STOP: [i64; 2] = [libc::SYS_timer_create, libc::SYS_io_submit];

/// Commands of `fcntl` that set the receiver of a signal for events of a file, and the signal. It
/// could be `SIGCONT`. A lease delays other programs that open the file.
const FILE_EVENT_COMMANDS: [i32; 4] = [F_SETOWN, F_SETSIG, F_SETOWN_EX, libc::F_SETLEASE];

const F_SETOWN: i32 = 8;

const F_SETSIG: i32 = 10;

const F_SETOWN_EX: i32 = 15;

/// `ioctl` command that sets the receiver of signals for events of a socket.
const FIOSETOWN: u32 = 0x8901;

const SIOCSPGRP: u32 = 0x8902;

/// Calls that send a signal to a process or thread, with the position of its id.
const SIGNAL_CALLS: [(i64, u8); 6] = [
    (libc::SYS_kill, 0),
    (libc::SYS_pidfd_open, 0),
    (libc::SYS_rt_sigqueueinfo, 0),
    (libc::SYS_rt_tgsigqueueinfo, 1),
    (libc::SYS_tgkill, 1),
    (libc::SYS_tkill, 0),
];

/// Calls that change extended attributes. They would also reach files outside of the sandbox.
const ATTRIBUTE_CALLS: [i64; 6] = [
    libc::SYS_fremovexattr,
    libc::SYS_fsetxattr,
    libc::SYS_lremovexattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_setxattr,
];

/// Setting for the filters of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallAccess {
    pub(super) network: bool,
    /// The program cannot continue itself after a stop.
    pub(super) stays_stopped: bool,
}

/// The filters for one setting.
struct CallFilters {
    /// Permits the calls of the list.
    permitted: BpfProgram,
    /// Refuses some of the permitted calls by their arguments.
    refused: BpfProgram,
    /// Answers the calls that change extended attributes as a file system without them does.
    attributes: BpfProgram,
}

/// Applies the filters to this thread and the processes that it starts.
pub(super) fn apply_filters(access: CallAccess) -> Result<(), SandboxApplyError> {
    let filters = call_filters(access)?;
    apply_filter(&filters.permitted)?;
    apply_filter(&filters.refused)?;
    apply_filter(&filters.attributes)?;
    Ok(())
}

/// Refuses signals to this thread from the programs that it starts afterwards. A deadly signal to
/// the thread would end this whole process. Thread and program share a sandbox, so its other rules
/// permit such signals.
pub(super) fn protect_current_thread() -> Result<(), SandboxApplyError> {
    let thread = to_unsigned(gettid().as_raw());
    let rules = SIGNAL_CALLS.iter().map(|(call, argument)| {
        let is_thread = equals_rule(*argument, thread)?;
        Ok((*call, vec![is_thread]))
    });
    let rules = rules.collect::<Result<CallRules, BackendError>>()?;
    let filter = compile_filter(rules, SeccompAction::Allow, errno_action(libc::EPERM))?;
    Ok(apply_filter(&filter)?)
}

/// Returns the system call filters for `access`. Keeps them after the first call, because building
/// filters takes longer than applying them.
fn call_filters(access: CallAccess) -> Result<&'static CallFilters, SandboxApplyError> {
    static SECCOMP_FILTERS: [[OnceLock<CallFilters>; 2]; 2] =
        [const { [const { OnceLock::new() }; 2] }; 2];
    let filters = &SECCOMP_FILTERS[usize::from(access.network)][usize::from(access.stays_stopped)];
    match filters.get() {
        Some(filters) => Ok(filters),
        None => {
            let made = CallFilters {
                permitted: compile_filter(
                    permitted_calls(access.stays_stopped),
                    errno_action(libc::ENOSYS),
                    SeccompAction::Allow,
                )?,
                refused: compile_filter(
                    refused_arguments(access.network)?,
                    SeccompAction::Allow,
                    errno_action(libc::EPERM),
                )?,
                attributes: compile_filter(
                    ATTRIBUTE_CALLS.map(|call| (call, Vec::new())).into(),
                    SeccompAction::Allow,
                    errno_action(libc::EOPNOTSUPP),
                )?,
            };
            Ok(filters.get_or_init(|| made))
        }
    }
}

type CallRules = BTreeMap<i64, Vec<SeccompRule>>;

/// Returns the permitted calls. An empty list of rules permits all arguments.
fn permitted_calls(stays_stopped: bool) -> CallRules {
    PERMITTED_CALLS
        .iter()
        .chain(ARCHITECTURE_CALLS)
        .chain(&ATTRIBUTE_CALLS)
        .filter(|call| !(stays_stopped && CALLS_BEYOND_STOP.contains(call)))
        .map(|call| (*call, Vec::new()))
        .collect()
}

/// Returns the calls that are refused with certain arguments. A call is refused if one of its rules
/// matches, or if it has none.
///
/// Sockets are refused without network access. With it, only local sockets are refused, because
/// they lead out of the sandbox, for example to a container engine, and other families. Pairs of connected stream
/// sockets are always permitted.
fn refused_arguments(has_network: bool) -> Result<CallRules, BackendError> {
    let mut rules = CallRules::new();
    let devices =
        [TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP].map(|command| equals_rule(1, command.into()));
    rules.insert(
        libc::SYS_ioctl,
        devices.into_iter().collect::<Result<_, _>>()?,
    );
    // The end of the parent could continue a stopped program.
    let continued_by_parent = SeccompRule::new(vec![
        argument_condition(0, SeccompCmpOp::Eq, to_unsigned(libc::PR_SET_PDEATHSIG))?,
        argument_condition(1, SeccompCmpOp::Eq, to_unsigned(libc::SIGCONT))?,
    ])?;
    rules.insert(libc::SYS_prctl, vec![continued_by_parent]);
    let file_events = FILE_EVENT_COMMANDS.map(|command| equals_rule(1, to_unsigned(command)));
    rules.insert(
        libc::SYS_fcntl,
        file_events.into_iter().collect::<Result<_, _>>()?,
    );
    // A datagram pair can send to any named local socket.
    let pairs = [libc::SOCK_DGRAM, libc::SOCK_RAW]
        .map(|kind| argument_rule(1, SeccompCmpOp::MaskedEq(0xf), to_unsigned(kind)));
    rules.insert(
        libc::SYS_socketpair,
        pairs.into_iter().collect::<Result<_, _>>()?,
    );
    rules.insert(
        libc::SYS_socket,
        if has_network {
            other_sockets()?
        } else {
            Vec::new()
        },
    );
    // A sandboxed program could leave a file with which another user gets its rights. A directory
    // below one with the bit still inherits it from the kernel.
    for (call, argument) in CALLS_WITH_MODE {
        let setting = SET_ID_MODES
            .map(u64::from)
            .map(|bit| argument_rule(*argument, SeccompCmpOp::MaskedEq(bit), bit));
        rules.insert(*call, setting.into_iter().collect::<Result<_, _>>()?);
    }
    for (call, flags, mode) in CREATING_CALLS {
        let creating = CREATING_FLAGS.iter().flat_map(|flag| {
            SET_ID_MODES.map(u64::from).map(|bit| {
                SeccompRule::new(vec![
                    argument_condition(*flags, SeccompCmpOp::MaskedEq(*flag), *flag)?,
                    argument_condition(*mode, SeccompCmpOp::MaskedEq(bit), bit)?,
                ])
            })
        });
        rules.insert(*call, creating.collect::<Result<_, BackendError>>()?);
    }
    let namespaces = NAMESPACE_FLAGS.map(|flag| {
        let flag = to_unsigned(flag);
        argument_rule(0, SeccompCmpOp::MaskedEq(flag), flag)
    });
    rules.insert(
        libc::SYS_clone,
        namespaces.into_iter().collect::<Result<_, _>>()?,
    );
    for call in OWN_PROCESS_CALLS {
        rules.insert(call, vec![argument_rule(0, SeccompCmpOp::Ne, 0)?]);
    }
    rules.insert(
        libc::SYS_setpriority,
        vec![
            argument_rule(1, SeccompCmpOp::Ne, 0)?,
            equals_rule(0, PRIO_WHO_USER)?,
        ],
    );
    rules.insert(
        libc::SYS_ioprio_set,
        vec![
            argument_rule(1, SeccompCmpOp::Ne, 0)?,
            equals_rule(0, IOPRIO_WHO_USER)?,
        ],
    );
    Ok(rules)
}

/// Returns the rules for sockets that are neither of the internet protocols nor for the list of network
/// interfaces.
fn other_sockets() -> Result<Vec<SeccompRule>, BackendError> {
    let families = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let other_family =
        families.map(|family| argument_condition(0, SeccompCmpOp::Ne, to_unsigned(family)));
    let other_netlink = [
        argument_condition(0, SeccompCmpOp::Eq, to_unsigned(libc::AF_NETLINK)),
        argument_condition(2, SeccompCmpOp::Ne, to_unsigned(libc::NETLINK_ROUTE)),
    ];
    Ok(vec![
        SeccompRule::new(other_family.into_iter().collect::<Result<_, _>>()?)?,
        SeccompRule::new(other_netlink.into_iter().collect::<Result<_, _>>()?)?,
    ])
}

/// Compiles a filter that takes the action `matching` for the calls in `rules`, and `other` for all
/// other calls.
fn compile_filter(
    rules: CallRules,
    other: SeccompAction,
    matching: SeccompAction,
) -> Result<BpfProgram, BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, other, matching, arch)?.try_into()
}

/// Returns the action that answers a call with `error`.
fn errno_action(error: i32) -> SeccompAction {
    SeccompAction::Errno(error.cast_unsigned())
}

fn equals_rule(argument: u8, value: u64) -> Result<SeccompRule, BackendError> {
    argument_rule(argument, SeccompCmpOp::Eq, value)
}

fn argument_rule(
    argument: u8,
    comparison: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![argument_condition(argument, comparison, value)?])
}

fn argument_condition(
    argument: u8,
    comparison: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, comparison, value)
}

fn to_unsigned(value: i32) -> u64 {
    u64::from(value.cast_unsigned())
}
