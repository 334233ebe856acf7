//! The sandbox on Linux: no capabilities, Landlock for files, seccomp for system calls.

use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Mutex, OnceLock};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use super::SandboxLayer;
use super::sandboxed_start::SandboxApplyError;
use super::system_calls;
use super::world_readable::SETTINGS_DIR;
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
    if layers.is_empty() {
        return Ok(());
    }
    drop_capabilities()?;
    for layer in layers {
        files(layer)?;
    }
    system_calls::restrict(layers.iter().all(|layer| layer.network))
}

/// Gives up all capabilities, so that a program of root has the power of an ordinary user.
fn drop_capabilities() -> Result<(), SandboxApplyError> {
    set_no_new_privs(true).map_err(SandboxApplyError::Capabilities)?;
    for capability in CapabilitySet::all().iter() {
        // Fails for an ordinary user, who has no capabilities, and for those that this kernel does
        // not have. Without new privileges, no program can take one from the bounding set.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let _ = clear_ambient_capability_set();
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).map_err(SandboxApplyError::Capabilities)
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
    // A device file gives access to a terminal or a disk, wherever it is.
    let writable = all & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    let (read, write) = match &layer.execute {
        None => (AccessFs::from_read(PREFERRED_LANDLOCK_ABI), writable),
        Some(_) => (
            AccessFs::from_read(PREFERRED_LANDLOCK_ABI) & !AccessFs::Execute,
            writable & !AccessFs::Execute,
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
        .add_rules(path_beneath_rules([SETTINGS_DIR], AccessFs::ReadDir))?
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
