//! `gdn package`.

mod change;
mod install;
mod list;
mod publish;

use clap::{Args, Subcommand};
use goondan::StateRoot;

use crate::exit::CliError;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  gdn package add oci://ghcr.io/acme/tools         Depend on a package, and install it
  gdn package add ../tools                         Depend on a package in a folder
  gdn package install                              Install what the project depends on
  gdn package install --frozen                     Install what the lock file says, and nothing else
  gdn package update @acme/tools                   Choose the newest version that the range allows
  gdn package list                                 List the packages, their versions and where they came from
  gdn package publish oci://ghcr.io/acme/tools     Check, pack and publish this project";

/// Arguments of `gdn package`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PackageArgs {
    #[command(subcommand)]
    command: PackageCommand,
}

#[derive(Debug, Subcommand)]
enum PackageCommand {
    /// Make a project a package: give it a name and a version
    Init(change::InitArgs),
    /// Add packages to the dependencies, and install them
    Add(change::AddArgs),
    /// Install what the project depends on
    Install(install::InstallArgs),
    /// Remove packages from the dependencies, and their files
    Remove(change::RemoveArgs),
    /// Choose the newest versions that the ranges allow, and install them
    Update(install::UpdateArgs),
    /// List what the project depends on
    List(list::ListArgs),
    /// Write the archive that would be published
    Pack(publish::PackArgs),
    /// Check, pack and publish a project
    Publish(publish::PublishArgs),
}

/// Looks after packages.
pub(crate) async fn run(
    args: PackageArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    match args.command {
        PackageCommand::Init(args) => change::init(&args, output),
        PackageCommand::Add(args) => change::add(&args, state_root, output).await,
        PackageCommand::Install(args) => install::run(&args, state_root, output).await,
        PackageCommand::Remove(args) => change::remove(&args, state_root, output).await,
        PackageCommand::Update(args) => install::update(&args, state_root, output).await,
        PackageCommand::List(args) => list::run(&args, output),
        PackageCommand::Pack(args) => publish::pack(&args, output),
        PackageCommand::Publish(args) => publish::publish(&args, output).await,
    }
}
