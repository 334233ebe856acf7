//! The sandbox on Linux: no capabilities, Landlock for files, seccomp for system calls.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{FileStat, SFlag, fstat};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use super::SandboxLayer;
use super::sandboxed_start::SandboxApplyError;
use super::system_calls::{self, CallAccess};
use super::world_readable::SETTINGS_DIR;
use crate::mutex_lock::lock;

/// Required version of Landlock: the first version that controls truncating files.
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
pub(crate) fn is_supported() -> bool {
    static LANDLOCK_SUPPORTED: OnceLock<bool> = OnceLock::new();
    let layers = [SandboxLayer {
        network: false,
        ..SandboxLayer::default()
    }];
    *LANDLOCK_SUPPORTED.get_or_init(|| {
        std::thread::spawn(move || apply_layers(&layers).is_ok())
            .join()
            .unwrap_or(false)
    })
}

/// Applies all layers to this thread and the processes it starts. An operation is permitted only if
/// all layers permit it.
pub(crate) fn apply_layers(layers: &[SandboxLayer]) -> Result<(), SandboxApplyError> {
    if layers.is_empty() {
        return Ok(());
    }
    drop_capabilities()?;
    for layer in layers {
        files(layer)?;
    }
    system_calls::apply_filters(CallAccess {
        network: layers.iter().all(|layer| layer.network),
        stays_stopped: layers.iter().any(|layer| layer.stays_stopped),
    })
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
    let no_capabilities = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, no_capabilities).map_err(SandboxApplyError::Capabilities)
}

/// Device and inode number, which identify a file.
type Identity = Option<(u64, u64)>;

/// Rules of a layer, and the files to which the paths of the layer referred when the rules were
/// created.
struct LandlockRules {
    layer: SandboxLayer,
    files: Vec<Identity>,
    made: RulesetCreated,
}

/// A path of a layer, as an open descriptor. The rules apply to this file, even if another program
/// replaces the path with a link.
struct OpenPlace {
    descriptor: OwnedFd,
    stat: FileStat,
}

impl OpenPlace {
    /// Opens a path of `layer`; `None` for a path that does not exist.
    ///
    /// # Errors
    ///
    /// Fails if an exact place of the layer contains a link.
    fn open(layer: &SandboxLayer, path: &Path) -> Result<Option<OpenPlace>, SandboxApplyError> {
        let is_exact = layer.exact.iter().any(|exact| path.starts_with(exact));
        let resolve = if is_exact {
            ResolveFlag::RESOLVE_NO_SYMLINKS
        } else {
            ResolveFlag::empty()
        };
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
            .resolve(resolve);
        match openat2(AT_FDCWD, path, how) {
            Ok(descriptor) => {
                let stat = fstat(&descriptor).map_err(io::Error::from)?;
                Ok(Some(OpenPlace { descriptor, stat }))
            }
            Err(Errno::ELOOP) if layer.exact.iter().any(|exact| exact == path) => {
                Err(SandboxApplyError::Link(path.to_owned()))
            }
            Err(_) => Ok(None),
        }
    }

    fn file_identity(&self) -> (u64, u64) {
        (self.stat.st_dev, self.stat.st_ino)
    }

    /// Returns the rule for this place.
    fn rule(&self, access: BitFlags<AccessFs>) -> PathBeneath<&OwnedFd> {
        let kind = SFlag::from_bits_truncate(self.stat.st_mode) & SFlag::S_IFMT;
        let access = if kind == SFlag::S_IFDIR {
            access
        } else {
            // Other rights do not exist for files.
            access & AccessFs::from_file(PREFERRED_LANDLOCK_ABI)
        };
        PathBeneath::new(&self.descriptor, access)
    }
}

/// Maximum number of cached rules. A swarm has few layers: one per kind of command and directory.
const MAX_CACHED_RULESETS: usize = 32;

fn files(layer: &SandboxLayer) -> Result<(), SandboxApplyError> {
    match cached_ruleset(layer)?.restrict_self()?.ruleset {
        RulesetStatus::NotEnforced => Err(SandboxApplyError::NotEnforced),
        RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced => Ok(()),
    }
}

/// Returns the rules of a layer. Cached rules are used if the paths still refer to the same files.
/// Creating rules takes longer than the rest of starting a program.
fn cached_ruleset(layer: &SandboxLayer) -> Result<RulesetCreated, SandboxApplyError> {
    static CACHED_RULESETS: Mutex<VecDeque<LandlockRules>> = Mutex::new(VecDeque::new());
    let open_place = |path: &PathBuf| OpenPlace::open(layer, path);
    let places: Vec<Option<OpenPlace>> = layer.paths().map(open_place).collect::<Result<_, _>>()?;
    let identity = |place: &Option<OpenPlace>| place.as_ref().map(OpenPlace::file_identity);
    let files: Vec<Identity> = places.iter().map(identity).collect();
    let mut cached_rulesets = lock(&CACHED_RULESETS);
    if let Some(known) = cached_rulesets
        .iter()
        .find(|known| known.layer == *layer && known.files == files)
    {
        return Ok(known.made.try_clone()?);
    }
    let ruleset = build_ruleset(layer, &places)?;
    cached_rulesets.retain(|known| known.layer != *layer);
    cached_rulesets.truncate(MAX_CACHED_RULESETS - 1);
    cached_rulesets.push_front(LandlockRules {
        layer: layer.clone(),
        files,
        made: ruleset.try_clone()?,
    });
    Ok(ruleset)
}

/// Returns the rules that give access to the places.
fn rules_for(
    places: &[Option<OpenPlace>],
    access: BitFlags<AccessFs>,
) -> impl Iterator<Item = Result<PathBeneath<&OwnedFd>, RulesetError>> {
    let existing = places.iter().flatten();
    existing.map(move |place| Ok(place.rule(access)))
}

/// Creates the rules of a layer. `places` are its open paths, in the order of
/// [`SandboxLayer::paths`].
fn build_ruleset(
    layer: &SandboxLayer,
    places: &[Option<OpenPlace>],
) -> Result<RulesetCreated, RulesetError> {
    let all_access = AccessFs::from_all(PREFERRED_LANDLOCK_ABI);
    // A device file gives access to a terminal or a disk, wherever it is.
    let write_access =
        all_access & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    let (read, write) = match &layer.execute {
        None => (AccessFs::from_read(PREFERRED_LANDLOCK_ABI), write_access),
        Some(_) => (
            AccessFs::from_read(PREFERRED_LANDLOCK_ABI) & !AccessFs::Execute,
            write_access & !AccessFs::Execute,
        ),
    };
    let (readable, rest) = places.split_at(layer.read.len());
    let (writable, programs) = rest.split_at(layer.write.len());
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(REQUIRED_LANDLOCK_ABI))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all_access)?
        .scope(Scope::from_all(PREFERRED_LANDLOCK_ABI))?
        .create()?
        .add_rules(path_beneath_rules([SETTINGS_DIR], AccessFs::ReadDir))?
        .add_rules(rules_for(readable, read))?
        .add_rules(rules_for(writable, write))?
        .add_rules(rules_for(
            programs,
            AccessFs::from_read(PREFERRED_LANDLOCK_ABI),
        ))?
        .add_rules(path_beneath_rules(
            PERMITTED_DEVICES,
            AccessFs::from_file(PREFERRED_LANDLOCK_ABI),
        ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Another program may replace a checked directory at any time.
    #[test]
    fn a_sandbox_path_replaced_by_a_link_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let place = root.join("place");
        std::fs::create_dir(&place).unwrap();
        let layer = SandboxLayer {
            exact: vec![place.clone()],
            ..SandboxLayer::default()
        };
        assert!(OpenPlace::open(&layer, &place).unwrap().is_some());
        std::fs::rename(&place, root.join("moved")).unwrap();
        symlink("/", &place).unwrap();
        let refused = OpenPlace::open(&layer, &place);
        assert!(matches!(refused, Err(SandboxApplyError::Link(path)) if path == place));
        let below = OpenPlace::open(&layer, &place.join("etc"));
        assert!(below.unwrap().is_none());
        let missing = OpenPlace::open(&layer, &root.join("none"));
        assert!(missing.unwrap().is_none());
    }
}
