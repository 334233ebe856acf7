//! `gdn lsp`: starts the language server for the YAML of projects.

use std::io::{self, BufReader, BufWriter};
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use goondan::internal::{BasePackage, FileAccess, OsFiles};
use goondan::spec::codes::page_url;
use goondan::spec::{Bundle, Code, Diagnostic};
use goondan::{Project, StateRoot};
use goondan_lsp::{LspHost, SessionEnd, WireError};

use crate::exit::{CliError, CommandExit};
use crate::trust::TrustSettings;

const EXAMPLES: &str = "\
Examples (started by an editor; see docs/editors.md):
  gdn lsp            Check and complete the YAML of projects as you type
  gdn lsp --stdio    The same; some editors pass this option";

/// Arguments of `gdn lsp`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LspArgs {
    /// Use standard input and output (always on)
    #[arg(long)]
    stdio: bool,
}

/// Serves an editor over stdio until it disconnects.
pub(crate) fn run(args: &LspArgs, state_root: &StateRoot) -> Result<(), CliError> {
    let LspArgs { stdio: _ } = args;
    let host = LspMachine {
        trust: TrustSettings::new(state_root, false),
        files: OsFiles,
    };
    let mut output = BufWriter::new(io::stdout().lock());
    match goondan_lsp::serve(host, BufReader::new(io::stdin()), &mut output) {
        Ok(SessionEnd::Orderly) => Ok(()),
        // The protocol defines this exit code, and no message is due.
        Ok(SessionEnd::Abrupt) => Err(CliError::already_printed(CommandExit::Failure)),
        // The client closed the pipe.
        Err(WireError::Stream(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Err(CliError::already_printed(CommandExit::Failure))
        }
        Err(error) => Err(
            CliError::failure(Code::LSP_PROTOCOL, error.to_string()).suggest(format!(
                "This command is started by an editor. See {}.",
                page_url("editors.md")
            )),
        ),
    }
}

/// [`LspHost`] with the files of this machine and the environment that trust allows.
struct LspMachine {
    trust: TrustSettings,
    files: OsFiles,
}

impl LspHost for LspMachine {
    fn files(&self) -> &dyn FileAccess {
        &self.files
    }

    fn base_package(&self) -> &BasePackage {
        goondan::internal::base()
    }

    fn check(&self, root: &Path, bundle: &Arc<Bundle>) -> Vec<Diagnostic> {
        let project = Project::of(root, Arc::clone(bundle));
        match self.trust.environment(root) {
            Ok(environment) => goondan::check(&project, &environment),
            Err(problem) => vec![problem],
        }
    }

    fn variables(&self, root: &Path) -> Vec<String> {
        let environment = self.trust.environment(root).unwrap_or_default();
        environment
            .iter()
            .map(|(name, _)| name.to_owned())
            .collect()
    }
}
