//! `gdn package`: adds, installs, updates and publishes packages.

mod change;
mod install;
mod list;
mod publish;

use clap::{Args, Subcommand};
use goondan::StateRoot;

use crate::exit::CliError;
use crate::output::CommandOutput;

const EXAMPLES: &str = "\
Examples:
  gdn package add oci://ghcr.io/acme/tools         Add a dependency and install it
  gdn package add ../tools                         Depend on a package in a directory
  gdn package install                              Install the project's dependencies
  gdn package install --frozen                     Install only the lock file's versions
  gdn package update @acme/tools                   Choose the newest version that the range allows
  gdn package list                                 List the packages, their versions and sources
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
    /// Turn a project into a package with a name and a version
    Init(change::PackageInitArgs),
    /// Add packages to the dependencies and install them
    Add(change::PackageAddArgs),
    /// Install the project's dependencies
    Install(install::PackageInstallArgs),
    /// Remove packages from the dependencies and delete their files
    Remove(change::PackageRemoveArgs),
    /// Install the newest versions that the ranges allow
    Update(install::PackageUpdateArgs),
    /// List the project's dependencies
    List(list::PackageListArgs),
    /// Write the archive that would be published
    Pack(publish::PackagePackArgs),
    /// Check, pack and publish a project
    Publish(publish::PackagePublishArgs),
}

/// Runs the selected subcommand.
pub(crate) async fn run(
    args: PackageArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
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
