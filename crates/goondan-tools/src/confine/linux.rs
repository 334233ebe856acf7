//! The sandbox of Linux: Landlock for files, seccomp for the network.

use std::collections::BTreeMap;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
    path_beneath_rules,
};
use nix::libc;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use super::Layer;

/// What must be there. The third version is the first that guards the length of files.
const NEEDED: ABI = ABI::V3;

/// What is used where it is there: devices, signals and sockets of processes outside.
const WANTED: ABI = ABI::V6;

/// Devices that hold nothing.
const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"];

/// The bit that marks system calls of the x32 interface, which the filter of x86-64 does not tell apart.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// Puts on all layers; what one of them forbids is forbidden.
pub(super) fn sandbox(layers: &[Layer]) -> Result<(), String> {
    for layer in layers {
        files(layer).map_err(|error| format!("this kernel has no Landlock that would do ({error})"))?;
    }
    if layers.iter().any(|layer| !layer.network) {
        no_network().map_err(|error| format!("the network can't be shut off by seccomp: {error}"))?;
    }
    Ok(())
}

fn files(layer: &Layer) -> Result<(), String> {
    let all = AccessFs::from_all(WANTED);
    let restrict = || {
        let status = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(NEEDED))?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(all)?
            .scope(Scope::from_all(WANTED))?
            .create()?
            .add_rules(path_beneath_rules(&layer.read, AccessFs::from_read(WANTED)))?
            .add_rules(path_beneath_rules(&layer.write, all))?
            .add_rules(path_beneath_rules(DEVICES, AccessFs::from_file(WANTED)))?
            .restrict_self()?;
        Ok::<_, landlock::RulesetError>(status)
    };
    let status = restrict().map_err(|error| error.to_string())?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err("nothing was enforced".to_owned()),
        RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced => Ok(()),
    }
}

/// No sockets of any kind: those of the local machine lead out, too (think of a container engine). Pairs of connected
/// sockets are left.
fn no_network() -> Result<(), String> {
    let calls = [libc::SYS_socket, libc::SYS_io_uring_setup];
    #[cfg(target_arch = "x86_64")]
    let calls = [calls[0], calls[1], calls[0] | X32, calls[1] | X32];
    let rules: BTreeMap<i64, Vec<seccompiler::SeccompRule>> =
        calls.into_iter().map(|call| (call, Vec::new())).collect();
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let refusal = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch).map_err(|error| error.to_string())?;
    let program = BpfProgram::try_from(filter).map_err(|error| error.to_string())?;
    seccompiler::apply_filter(&program).map_err(|error| error.to_string())
}
