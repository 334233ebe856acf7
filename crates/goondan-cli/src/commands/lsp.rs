//! `gdn lsp`.

use std::io::{self, BufReader, BufWriter};
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use goondan::inside::{BasePackage, Files, OsFiles};
use goondan::spec::codes::page_url;
use goondan::spec::{Bundle, Code, Diagnostic};
use goondan::{Project, StateRoot};
use goondan_lsp::{End, Host, WireError};

use crate::exit::{CliError, Exit};
use crate::trust::Trust;

const EXAMPLES: &str = "\
Examples (an editor starts it; docs/editors.md says how):
  gdn lsp            Check and complete the YAML of projects while you write it
  gdn lsp --stdio    The same: some editors insist on the option";

/// Arguments of `gdn lsp`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LspArgs {
    /// Talk over standard input and output, as it always does
    #[arg(long)]
    stdio: bool,
}

/// Talks to an editor until it goes.
pub(crate) fn run(args: &LspArgs, state_root: &StateRoot) -> Result<(), CliError> {
    let LspArgs { stdio: _ } = args;
    let host = Machine {
        trust: Trust::new(state_root, false),
        files: OsFiles,
    };
    let mut output = BufWriter::new(io::stdout().lock());
    match goondan_lsp::serve(host, BufReader::new(io::stdin()), &mut output) {
        Ok(End::Orderly) => Ok(()),
        // The protocol wants this told by the exit code alone.
        Ok(End::Abrupt) => Err(CliError::shown(Exit::Failure)),
        // Whoever would read on has closed the pipe.
        Err(WireError::Stream(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Err(CliError::shown(Exit::Failure))
        }
        Err(error) => Err(
            CliError::failure(Code::LSP_PROTOCOL, error.to_string()).suggest(format!(
                "An editor starts this command. {} says how.",
                page_url("editors.md")
            )),
        ),
    }
}

/// This machine, as far as an editor may be told of it.
struct Machine {
    trust: Trust,
    files: OsFiles,
}

impl Host for Machine {
    fn files(&self) -> &dyn Files {
        &self.files
    }

    fn base(&self) -> &BasePackage {
        goondan::inside::base()
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
