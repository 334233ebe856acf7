//! The sandbox on Linux: Landlock for files, seccomp for the network.

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Mutex, OnceLock};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use nix::libc;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

use super::SandboxLayer;
use super::sandboxed_start::SandboxApplyError;
use crate::mutex_lock::lock;

/// Required version. The third one is the first that controls truncating files.
const REQUIRED_LANDLOCK_ABI: ABI = ABI::V3;

/// Preferred version. It adds devices, signals and sockets of outside processes.
const PREFERRED_LANDLOCK_ABI: ABI = ABI::V6;

/// Devices without data. Terminals are excluded, because a program could overwrite and answer a
/// prompt on them.
const PERMITTED_DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// Inserts a character into the input of a terminal.
const TIOCSTI: u32 = 0x5412;

const TIOCLINUX: u32 = 0x541c;

/// The bit of system calls of the x32 interface, which the filter for x86-64 does not distinguish.
#[cfg(target_arch = "x86_64")]
const X32_SYSCALL_BIT: i64 = 0x4000_0000;

/// Returns true if this system supports sandboxes. Tested once, on a thread that ends with the
/// test.
pub(crate) fn is_there() -> bool {
    static LANDLOCK_SUPPORTED: OnceLock<bool> = OnceLock::new();
    let layers = [SandboxLayer {
        network: false,
        ..SandboxLayer::default()
    }];
    *LANDLOCK_SUPPORTED.get_or_init(|| {
        std::thread::spawn(move || sandbox(&layers).is_ok())
            .join()
            .unwrap_or(false)
    })
}

/// Applies all layers to this thread and the processes it starts. An operation is permitted only if
/// all layers permit it.
pub(crate) fn sandbox(layers: &[SandboxLayer]) -> Result<(), SandboxApplyError> {
    for layer in layers {
        files(layer)?;
    }
    if !layers.is_empty() {
        apply_filter(filter(layers.iter().all(|layer| layer.network))?)?;
    }
    Ok(())
}

/// Returns the system call filter. Both filters are built once, because that takes longer than
/// applying one.
fn filter(has_network: bool) -> Result<&'static BpfProgram, SandboxApplyError> {
    static SECCOMP_FILTERS: [OnceLock<BpfProgram>; 2] = [const { OnceLock::new() }; 2];
    let filter = &SECCOMP_FILTERS[usize::from(has_network)];
    match filter.get() {
        Some(filter) => Ok(filter),
        None => {
            let made = calls(has_network)?;
            Ok(filter.get_or_init(|| made))
        }
    }
}

/// Device and inode number, which identify a file.
type Identity = Option<(u64, u64)>;

/// The rules of a layer, and the files that its paths referred to.
struct LandlockRules {
    layer: SandboxLayer,
    files: Vec<Identity>,
    made: RulesetCreated,
}

/// Maximum number of cached rules. A swarm has few layers: one per kind of command and directory.
const MAX_CACHED_RULESETS: usize = 32;

fn files(layer: &SandboxLayer) -> Result<(), SandboxApplyError> {
    match rules(layer)?.restrict_self()?.ruleset {
        RulesetStatus::NotEnforced => Err(SandboxApplyError::NotEnforced),
        RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced => Ok(()),
    }
}

/// Returns the rules of a layer. Cached rules are used if the paths still refer to the same files.
/// Creating rules takes longer than the rest of starting a program.
fn rules(layer: &SandboxLayer) -> Result<RulesetCreated, SandboxApplyError> {
    static CACHED_RULESETS: Mutex<VecDeque<LandlockRules>> = Mutex::new(VecDeque::new());
    let files: Vec<Identity> = layer.paths().map(|path| identity(path)).collect();
    let mut made = lock(&CACHED_RULESETS);
    if let Some(known) = made
        .iter()
        .find(|known| known.layer == *layer && known.files == files)
    {
        return Ok(known.made.try_clone()?);
    }
    let new = make(layer)?;
    made.retain(|known| known.layer != *layer);
    made.truncate(MAX_CACHED_RULESETS - 1);
    made.push_front(LandlockRules {
        layer: layer.clone(),
        files,
        made: new.try_clone()?,
    });
    Ok(new)
}

fn identity(path: &Path) -> Identity {
    path.metadata()
        .ok()
        .map(|metadata| (metadata.dev(), metadata.ino()))
}

fn make(layer: &SandboxLayer) -> Result<RulesetCreated, RulesetError> {
    let all = AccessFs::from_all(PREFERRED_LANDLOCK_ABI);
    let (read, write) = match &layer.execute {
        None => (AccessFs::from_read(PREFERRED_LANDLOCK_ABI), all),
        Some(_) => (
            AccessFs::from_read(PREFERRED_LANDLOCK_ABI) & !AccessFs::Execute,
            all & !AccessFs::Execute,
        ),
    };
    let programs = layer.execute.iter().flatten();
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(REQUIRED_LANDLOCK_ABI))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::from_all(PREFERRED_LANDLOCK_ABI))?
        .create()?
        .add_rules(path_beneath_rules(&layer.read, read))?
        .add_rules(path_beneath_rules(&layer.write, write))?
        .add_rules(path_beneath_rules(
            programs,
            AccessFs::from_read(PREFERRED_LANDLOCK_ABI),
        ))?
        .add_rules(path_beneath_rules(
            PERMITTED_DEVICES,
            AccessFs::from_file(PREFERRED_LANDLOCK_ABI),
        ))
}

/// Builds the filter of forbidden system calls: input into terminals, and sockets. With network
/// access, only local sockets are forbidden, because they lead out of the sandbox, for example to a
/// container engine. Pairs of connected stream sockets are always permitted.
fn calls(has_network: bool) -> Result<BpfProgram, BackendError> {
    let with = |argument: u8, value: u64| {
        let is_value =
            SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?;
        SeccompRule::new(vec![is_value])
    };
    let typing = vec![with(1, u64::from(TIOCSTI))?, with(1, u64::from(TIOCLINUX))?];
    let local = with(0, u64::from(libc::AF_UNIX.cast_unsigned()))?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::from([(libc::SYS_ioctl, typing)]);
    // io_uring performs other system calls without the filter.
    rules.insert(libc::SYS_io_uring_setup, Vec::new());
    // A datagram pair can send to any named local socket.
    let pairs = [libc::SOCK_DGRAM, libc::SOCK_RAW].map(|kind| {
        let is_kind = SeccompCmpOp::MaskedEq(0xf);
        let kind = u64::from(kind.cast_unsigned());
        SeccompRule::new(vec![SeccompCondition::new(
            1,
            SeccompCmpArgLen::Dword,
            is_kind,
            kind,
        )?])
    });
    rules.insert(
        libc::SYS_socketpair,
        pairs.into_iter().collect::<Result<_, _>>()?,
    );
    // Forbids changing the limits of other processes, such as this program.
    let foreign = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0)?;
    rules.insert(libc::SYS_prlimit64, vec![SeccompRule::new(vec![foreign])?]);
    rules.insert(
        libc::SYS_socket,
        if has_network { vec![local] } else { Vec::new() },
    );
    #[cfg(target_arch = "x86_64")]
    rules.extend(
        rules
            .clone()
            .into_iter()
            .map(|(call, rules)| (call | X32_SYSCALL_BIT, rules)),
    );
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refusal = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch)?.try_into()
}
