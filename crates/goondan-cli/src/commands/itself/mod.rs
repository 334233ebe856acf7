//! `gdn self`: the program as it is installed.
//!
//! The installers leave a receipt, which says where they got the program from. Where there is none, another program has
//! installed it, and that one has to update it.

mod place;
mod release;
mod swap;

use clap::{Args, Subcommand};
use goondan::spec::Code;
use semver::Version;
use serde_json::json;

use self::place::Place;
use self::release::Source;
use crate::exit::{CliError, Exit};
use crate::output::{Output, style};

const EXAMPLES: &str = "\
Examples:
  gdn self update              Install the newest version, if an installer has installed this one
  gdn self update --check      Only say whether there is a newer one";

/// Arguments of `gdn self`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SelfArgs {
    #[command(subcommand)]
    command: SelfCommand,
}

#[derive(Debug, Subcommand)]
enum SelfCommand {
    /// Replace this program by its newest version
    Update(UpdateArgs),
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct UpdateArgs {
    /// Only say whether there is a newer version
    #[arg(long)]
    check: bool,
}

/// Updates the program.
pub(crate) async fn run(args: &SelfArgs, output: &Output) -> Result<(), CliError> {
    let SelfCommand::Update(UpdateArgs { check }) = &args.command;
    let place = Place::find()?;
    let source = Source::new(&place.receipt).await?;
    let release = source.newest().await?;
    let installed = version(env!("CARGO_PKG_VERSION"))?;
    let is_newer = release.version > installed;
    if is_newer && !check {
        output.note(&format!("Downloading {}.", release.file))?;
        let archive = source.download(&release).await?;
        swap::swap(&place, &release, &archive)?;
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
            "gdn {newest} is there, and this is {installed}. `gdn self update` installs it."
        ),
        (false, _) => format!("gdn {installed} is up to date: the newest version is {newest}."),
    })
}

fn version(text: &str) -> Result<Version, CliError> {
    Version::parse(text).map_err(|error| failed(format!("`{text}` is no version: {error}.")))
}

/// The error of an update that did not happen.
fn failed(message: impl Into<String>) -> CliError {
    CliError::new(Exit::Failure, Code::UPDATE_ERROR, message)
}
