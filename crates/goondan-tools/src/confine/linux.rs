//! The sandbox of Linux: Landlock for files, seccomp for the network.

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

use super::Layer;
use super::start::NoSandbox;
use crate::state::lock;

/// What must be there. The third version is the first that guards the length of files.
const NEEDED: ABI = ABI::V3;

/// What is used where it is there: devices, signals and sockets of processes outside.
const WANTED: ABI = ABI::V6;

/// Devices that hold nothing. No terminal is among them: a program could write over a question on it, and answer it.
const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// Puts a character into the input of a terminal.
const TIOCSTI: u32 = 0x5412;

/// Pastes into a console.
const TIOCLINUX: u32 = 0x541c;

/// The bit that marks system calls of the x32 interface, which the filter of x86-64 does not tell apart.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// Whether this system can contain anything. Found out once, on a thread that ends with it.
pub(crate) fn is_there() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    let layers = [Layer {
        network: false,
        ..Layer::default()
    }];
    *FOUND.get_or_init(|| {
        std::thread::spawn(move || sandbox(&layers).is_ok())
            .join()
            .unwrap_or(false)
    })
}

/// Puts all layers on this thread, and so on what it starts from now on; what one of them forbids is forbidden.
pub(crate) fn sandbox(layers: &[Layer]) -> Result<(), NoSandbox> {
    for layer in layers {
        files(layer)?;
    }
    if !layers.is_empty() {
        apply_filter(filter(layers.iter().all(|layer| layer.network))?)?;
    }
    Ok(())
}

/// The filter of system calls. Both are made once: that takes longer than to put one on.
fn filter(has_network: bool) -> Result<&'static BpfProgram, NoSandbox> {
    static FILTERS: [OnceLock<BpfProgram>; 2] = [const { OnceLock::new() }; 2];
    let filter = &FILTERS[usize::from(has_network)];
    match filter.get() {
        Some(filter) => Ok(filter),
        None => {
            let made = calls(has_network)?;
            Ok(filter.get_or_init(|| made))
        }
    }
}

/// A device and a number in it: the same file as long as both are the same.
type Identity = Option<(u64, u64)>;

/// The rules of a layer, for the files that its paths led to when they were made.
struct Rules {
    layer: Layer,
    files: Vec<Identity>,
    made: RulesetCreated,
}

/// How many rules are kept: a swarm has a few layers, one for each kind of command and folder.
const KEPT: usize = 32;

fn files(layer: &Layer) -> Result<(), NoSandbox> {
    match rules(layer)?.restrict_self()?.ruleset {
        RulesetStatus::NotEnforced => Err(NoSandbox::NotEnforced),
        RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced => Ok(()),
    }
}

/// The rules of a layer: those of the time before where its paths lead to the same files. Making them takes longer than
/// all else that starts a program.
fn rules(layer: &Layer) -> Result<RulesetCreated, NoSandbox> {
    static MADE: Mutex<VecDeque<Rules>> = Mutex::new(VecDeque::new());
    let files: Vec<Identity> = layer.paths().map(|path| identity(path)).collect();
    let mut made = lock(&MADE);
    if let Some(known) = made
        .iter()
        .find(|known| known.layer == *layer && known.files == files)
    {
        return Ok(known.made.try_clone()?);
    }
    let new = make(layer)?;
    made.retain(|known| known.layer != *layer);
    made.truncate(KEPT - 1);
    made.push_front(Rules {
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

fn make(layer: &Layer) -> Result<RulesetCreated, RulesetError> {
    let all = AccessFs::from_all(WANTED);
    let (read, write) = match &layer.execute {
        None => (AccessFs::from_read(WANTED), all),
        Some(_) => (
            AccessFs::from_read(WANTED) & !AccessFs::Execute,
            all & !AccessFs::Execute,
        ),
    };
    let programs = layer.execute.iter().flatten();
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(NEEDED))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::from_all(WANTED))?
        .create()?
        .add_rules(path_beneath_rules(&layer.read, read))?
        .add_rules(path_beneath_rules(&layer.write, write))?
        .add_rules(path_beneath_rules(programs, AccessFs::from_read(WANTED)))?
        .add_rules(path_beneath_rules(DEVICES, AccessFs::from_file(WANTED)))
}

/// System calls that no program in a sandbox makes: those that type on a terminal, and those that make sockets. With the
/// network, sockets of the network alone are left: those of the local machine lead out of every sandbox (think of a
/// container engine, or of whatever starts services). Pairs of connected sockets are always left.
fn calls(has_network: bool) -> Result<BpfProgram, BackendError> {
    let with = |argument: u8, value: u64| {
        let is_value =
            SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?;
        SeccompRule::new(vec![is_value])
    };
    let typing = vec![with(1, u64::from(TIOCSTI))?, with(1, u64::from(TIOCLINUX))?];
    let local = with(0, u64::from(libc::AF_UNIX.cast_unsigned()))?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::from([(libc::SYS_ioctl, typing)]);
    // It does what other calls do, past the filter.
    rules.insert(libc::SYS_io_uring_setup, Vec::new());
    // Such a pair can be sent to any socket of the local machine that has a name.
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
    // Limits of other processes, such as this program's.
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
            .map(|(call, rules)| (call | X32, rules)),
    );
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refusal = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch)?.try_into()
}
