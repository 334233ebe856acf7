//! `gdn self`: the installed program.
//!
//! The installers leave a receipt with the URL of the releases. Without a receipt, another package
//! manager installed the program and has to update it.

mod installation;
mod release;
mod swap;

use clap::{Args, Subcommand};
use goondan::spec::Code;
use semver::Version;
use serde_json::json;

use self::installation::InstalledProgram;
use self::release::ReleaseServer;
use crate::exit::{CliError, CommandExit};
use crate::output::{CommandOutput, style};

const EXAMPLES: &str = "\
Examples:
  gdn self update              Install the newest version (if this one came from an installer)
  gdn self update --check      Only check for a newer version";

/// Arguments of `gdn self`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SelfArgs {
    #[command(subcommand)]
    command: SelfCommand,
}

#[derive(Debug, Subcommand)]
enum SelfCommand {
    /// Replace this program with the newest version
    Update(SelfUpdateArgs),
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct SelfUpdateArgs {
    /// Only check for a newer version
    #[arg(long)]
    check: bool,
}

/// Replaces this program with the newest version, or only checks for one.
pub(crate) async fn run(args: &SelfArgs, output: &CommandOutput) -> Result<(), CliError> {
    let SelfCommand::Update(SelfUpdateArgs { check }) = &args.command;
    let program = InstalledProgram::find()?;
    let source = ReleaseServer::new(&program.receipt).await?;
    let release = source.newest().await?;
    let installed = version(env!("CARGO_PKG_VERSION"))?;
    let is_newer = release.version > installed;
    if is_newer && !check {
        output.note(&format!("Downloading {}.", release.file))?;
        let archive = source.download(&release).await?;
        swap::swap(&program, &release, &archive)?;
    }
    let (newest, updated) = (&release.version, is_newer && !check);
    if output.json {
        let (installed, newest) = (installed.to_string(), newest.to_string());
        let report = json!({ "installed": installed, "newest": newest, "isNewer": is_newer, "updated": updated });
        return output.json_pretty(&report);
    }
    let good = style::GOOD;
    output.line(&match (is_newer, updated) {
        (_, true) => format!("{good}Updated{good:#} gdn {installed} to {newest}."),
        (true, false) => format!(
            "gdn {newest} is available; this is {installed}. Install it with `gdn self update`."
        ),
        (false, _) => format!("gdn {installed} is up to date: the newest version is {newest}."),
    })
}

/// Parses a version.
fn version(text: &str) -> Result<Version, CliError> {
    Version::parse(text)
        .map_err(|error| update_error(format!("`{text}` is not a version: {error}.")))
}

fn update_error(message: impl Into<String>) -> CliError {
    CliError::new(CommandExit::Failure, Code::UPDATE_ERROR, message)
}
