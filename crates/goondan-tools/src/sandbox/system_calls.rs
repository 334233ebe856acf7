//! System calls that a sandboxed program must not make, as a seccomp filter.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use nix::libc;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

use super::sandboxed_start::SandboxApplyError;

/// Inserts a character into the input of a terminal.
const TIOCSTI: u32 = 0x5412;

const TIOCLINUX: u32 = 0x541c;

/// The bit of system calls of the x32 interface, which the filter for x86-64 does not distinguish.
#[cfg(target_arch = "x86_64")]
const X32_SYSCALL_BIT: i64 = 0x4000_0000;

/// Calls that are refused with any arguments, by group. Programs of tools do not need them, and
/// each of them reaches beyond the files and processes of the sandbox.
const FORBIDDEN_CALLS: &[i64] = &[
    // Clock and names of the machine.
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_settimeofday,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    // Keys of the kernel.
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    // Memory, semaphores and messages that all processes of the user share.
    libc::SYS_mq_getsetattr,
    libc::SYS_mq_notify,
    libc::SYS_mq_open,
    libc::SYS_mq_timedreceive,
    libc::SYS_mq_timedsend,
    libc::SYS_mq_unlink,
    libc::SYS_msgctl,
    libc::SYS_msgget,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_semctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmdt,
    libc::SYS_shmget,
    // Namespaces and mounts. In a namespace of its own, a user has the powers of root.
    libc::SYS_chroot,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mount,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_pivot_root,
    libc::SYS_setns,
    libc::SYS_umount2,
    libc::SYS_unshare,
    // Programs and probes in the kernel, its log, its modules, and its power switch.
    libc::SYS_acct,
    libc::SYS_bpf,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_kexec_load,
    libc::SYS_perf_event_open,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    // Memory, descriptors and files of other processes.
    libc::SYS_kcmp,
    libc::SYS_open_by_handle_at,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    // Performs other calls without the filter.
    libc::SYS_io_uring_setup,
];

/// Calls whose first argument is a process, and 0 for the caller. Other processes are refused.
const OWN_PROCESS_CALLS: [i64; 5] = [
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

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

/// The filters for one setting.
struct CallFilters {
    refused: BpfProgram,
    missing: BpfProgram,
}

/// Applies the filters to this thread and the processes that it starts.
pub(super) fn restrict(has_network: bool) -> Result<(), SandboxApplyError> {
    let filters = filters(has_network)?;
    apply_filter(&filters.missing)?;
    apply_filter(&filters.refused)?;
    Ok(())
}

/// Returns the filters. Each is built once, because that takes longer than applying one.
fn filters(has_network: bool) -> Result<&'static CallFilters, SandboxApplyError> {
    static SECCOMP_FILTERS: [OnceLock<CallFilters>; 2] = [const { OnceLock::new() }; 2];
    let filters = &SECCOMP_FILTERS[usize::from(has_network)];
    match filters.get() {
        Some(filters) => Ok(filters),
        None => {
            let made = CallFilters {
                refused: program(refused_calls(has_network)?, libc::EPERM)?,
                // The flags of `clone3` are in memory, where no filter sees them. Libraries use
                // `clone` on systems without `clone3`.
                missing: program(
                    BTreeMap::from([(libc::SYS_clone3, Vec::new())]),
                    libc::ENOSYS,
                )?,
            };
            Ok(filters.get_or_init(|| made))
        }
    }
}

type CallRules = BTreeMap<i64, Vec<SeccompRule>>;

/// Returns the refused calls. A call is refused if one of its rules matches, or if it has none.
///
/// Sockets are refused without network access. With it, only local sockets are refused, because
/// they lead out of the sandbox, for example to a container engine. Pairs of connected stream
/// sockets are always permitted.
fn refused_calls(has_network: bool) -> Result<CallRules, BackendError> {
    let mut rules: CallRules = FORBIDDEN_CALLS
        .iter()
        .map(|call| (*call, Vec::new()))
        .collect();
    let typing = vec![is(1, u64::from(TIOCSTI))?, is(1, u64::from(TIOCLINUX))?];
    rules.insert(libc::SYS_ioctl, typing);
    // A datagram pair can send to any named local socket.
    let pairs = [libc::SOCK_DGRAM, libc::SOCK_RAW]
        .map(|kind| rule(1, SeccompCmpOp::MaskedEq(0xf), unsigned(kind)));
    rules.insert(
        libc::SYS_socketpair,
        pairs.into_iter().collect::<Result<_, _>>()?,
    );
    let local = is(0, unsigned(libc::AF_UNIX))?;
    rules.insert(
        libc::SYS_socket,
        if has_network { vec![local] } else { Vec::new() },
    );
    let namespaces = NAMESPACE_FLAGS.map(|flag| {
        let flag = unsigned(flag);
        rule(0, SeccompCmpOp::MaskedEq(flag), flag)
    });
    rules.insert(
        libc::SYS_clone,
        namespaces.into_iter().collect::<Result<_, _>>()?,
    );
    for call in OWN_PROCESS_CALLS {
        rules.insert(call, vec![rule(0, SeccompCmpOp::Ne, 0)?]);
    }
    rules.insert(
        libc::SYS_setpriority,
        vec![rule(1, SeccompCmpOp::Ne, 0)?, is(0, PRIO_WHO_USER)?],
    );
    rules.insert(
        libc::SYS_ioprio_set,
        vec![rule(1, SeccompCmpOp::Ne, 0)?, is(0, IOPRIO_WHO_USER)?],
    );
    Ok(rules)
}

/// Compiles a filter that answers the calls with `error`.
fn program(rules: CallRules, error: i32) -> Result<BpfProgram, BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refusal = SeccompAction::Errno(error.cast_unsigned());
    SeccompFilter::new(
        in_all_interfaces(rules),
        SeccompAction::Allow,
        refusal,
        arch,
    )?
    .try_into()
}

/// Adds the same rules for the x32 interface.
#[cfg(target_arch = "x86_64")]
fn in_all_interfaces(mut rules: CallRules) -> CallRules {
    let in_x32: Vec<_> = rules
        .iter()
        .map(|(call, rules)| (call | X32_SYSCALL_BIT, rules.clone()))
        .collect();
    rules.extend(in_x32);
    rules
}

#[cfg(not(target_arch = "x86_64"))]
fn in_all_interfaces(rules: CallRules) -> CallRules {
    rules
}

fn is(argument: u8, value: u64) -> Result<SeccompRule, BackendError> {
    rule(argument, SeccompCmpOp::Eq, value)
}

fn rule(argument: u8, comparison: SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, comparison, value)?;
    SeccompRule::new(vec![condition])
}

fn unsigned(value: i32) -> u64 {
    u64::from(value.cast_unsigned())
}
