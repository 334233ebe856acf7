//! Trust check: the user is asked once, before any code of a project runs and before its secrets
//! are read (rule S13).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use goondan::spec::{Code, Diagnostic, Environment};
use goondan::{
    Project, ReloadCheck, RequestedCapability, StateRoot, TrustList, folders_to_trust,
    packages_to_trust, requested_access, requested_access_elsewhere,
};

use crate::commands::quoted;
use crate::exit::{CliError, CommandExit};
use crate::output::{self, CommandOutput, style};
use crate::suggested_command;
use goondan::spec::reason;

/// Variable that trusts every project if it is `1`, for containers and services that build
/// projects.
const TRUST_VARIABLE: &str = "GOONDAN_TRUST";

/// Trust settings of this run, and the stored trust list.
#[derive(Debug, Clone)]
pub(crate) struct TrustSettings {
    state_root: StateRoot,
    /// Trusted for this run only.
    this_run: bool,
    /// Directory of `--workdir`, in which all agents work.
    workdir: Option<PathBuf>,
}

impl TrustSettings {
    /// Creates the settings; `flag` is `--trust`.
    pub(crate) fn new(state_root: &StateRoot, flag: bool) -> Self {
        let trusted_by_variable =
            std::env::var_os(TRUST_VARIABLE).is_some_and(|value| value == "1");
        TrustSettings {
            state_root: state_root.clone(),
            this_run: flag || trusted_by_variable,
            workdir: None,
        }
    }

    /// Adds the directory of `--workdir` to the requested access of a project.
    pub(crate) fn working_in(self, workdir: Option<&Path>) -> Self {
        TrustSettings {
            workdir: workdir.map(Path::to_owned),
            ..self
        }
    }

    /// Fails if the project requests capabilities and is not trusted. On a terminal, asks the user
    /// first and stores a yes.
    pub(crate) fn require(
        &self,
        project: &Project,
        output: &CommandOutput,
    ) -> Result<(), CliError> {
        let requested = self.untrusted_capabilities(project)?;
        self.ask_for_trust(project, requested, output)
    }

    /// Like [`TrustSettings::require`], but for a published project: requires trust even if the
    /// project requests no capabilities.
    pub(crate) fn require_published(
        &self,
        project: &Project,
        from: &str,
        output: &CommandOutput,
    ) -> Result<(), CliError> {
        let mut requested = self.untrusted_capabilities(project)?;
        if !self.is_given(&project.root)? {
            requested.splice(0..0, published_summary(project, from));
        }
        self.ask_for_trust(project, requested, output)
    }

    /// Asks the user to trust the project with this access, and stores a yes. Fails if the user
    /// declines or can't be asked. Without access to ask for, succeeds at once.
    fn ask_for_trust(
        &self,
        project: &Project,
        requested: Vec<RequestedCapability>,
        output: &CommandOutput,
    ) -> Result<(), CliError> {
        if requested.is_empty() {
            return Ok(());
        }
        let root = &project.root;
        let list = TrustList::of(&self.state_root);
        let can_be_asked = CommandOutput::stdin_is_terminal()
            && CommandOutput::stderr_is_terminal()
            && !list.is_inside(root);
        if !can_be_asked {
            output.explain(&capability_list(root, &requested))?;
            return Err(untrusted_error(root, &requested, list.is_inside(root)));
        }
        if confirm_trust(&capability_list(root, &requested)) {
            let mut folders = folders_to_trust(root, &requested).into_iter();
            let added = folders.try_for_each(|folder| list.add(&folder).map(drop));
            added
                .and_then(|()| list.add_packages(&packages_to_trust(&requested)))
                .map_err(|error| trust_list_write_error(&list, &error))
        } else {
            Err(untrusted_error(root, &requested, false))
        }
    }

    /// Returns the requested capabilities that are not trusted.
    pub(crate) fn untrusted_capabilities(
        &self,
        project: &Project,
    ) -> Result<Vec<RequestedCapability>, CliError> {
        if self.this_run {
            return Ok(Vec::new());
        }
        let is_listed = self.is_listed(&project.root)?;
        let requested = if is_listed {
            requested_access_elsewhere(project, &self.state_root)
        } else {
            requested_access(project, &self.state_root)
        };
        let list = TrustList::of(&self.state_root);
        let packages = if is_listed {
            list.packages()
                .map_err(|error| unreadable_trust_list_error(&list, &error))?
        } else {
            Vec::new()
        };
        let workdir = self.workdir.as_ref().filter(|_| !is_listed);
        let mut untrusted: Vec<RequestedCapability> = workdir
            .map(|workdir| {
                let description = format!(
                    "lets its agents work in {} (`--workdir`)",
                    workdir.display()
                );
                RequestedCapability::stating(description)
            })
            .into_iter()
            .collect();
        for capability in requested {
            let is_covered = match (&capability.package, &capability.folder) {
                (Some(package), _) => packages.contains(package),
                (None, folder) => folder
                    .as_ref()
                    .map_or(Ok(false), |folder| self.is_listed(folder))?,
            };
            untrusted.extend((!is_covered).then_some(capability));
        }
        Ok(untrusted)
    }

    /// Returns the variables of the project. Its `.env` files are only read if it is trusted.
    pub(crate) fn environment(&self, root: &Path) -> Result<Environment, Diagnostic> {
        match self.is_given(root) {
            Ok(true) => goondan::environment(root, None),
            _ => Ok(Environment::of_process()),
        }
    }

    /// Returns true if the project is trusted, whatever it requests later.
    pub(crate) fn is_given(&self, root: &Path) -> Result<bool, CliError> {
        Ok(self.this_run || self.is_listed(root)?)
    }

    /// Returns true if the directory, or one above it, is in the trust list.
    fn is_listed(&self, root: &Path) -> Result<bool, CliError> {
        let list = TrustList::of(&self.state_root);
        Ok(list
            .trusts(root)
            .map_err(|error| unreadable_trust_list_error(&list, &error))?
            .is_some())
    }

    /// Returns a check that rejects a reload if an untrusted project requests new capabilities.
    pub(crate) fn reload_check(&self) -> ReloadCheck {
        let trust = self.clone();
        Arc::new(move |project| {
            // An unreadable list trusts nothing.
            let requested = trust
                .untrusted_capabilities(project)
                .unwrap_or_else(|_| requested_access(project, &trust.state_root));
            if requested.is_empty() {
                Ok(())
            } else {
                Err(requested
                    .iter()
                    .map(|capability| capability.refused(&project.root))
                    .collect())
            }
        })
    }
}

/// Returns the origin and the agents of a published project, for the first prompt.
fn published_summary(project: &Project, from: &str) -> Vec<RequestedCapability> {
    let mut requested = vec![RequestedCapability::stating(format!("comes from {from}"))];
    for agent in project
        .bundle
        .iter()
        .flat_map(|bundle| bundle.agents().values())
    {
        let tools: Vec<&str> = agent
            .spec
            .tools
            .iter()
            .map(|used| used.tool.name.as_str())
            .collect();
        let tools = if tools.is_empty() {
            "no tools".to_owned()
        } else {
            format!("the tools {}", tools.join(", "))
        };
        requested.push(RequestedCapability::stating(format!(
            "has the agent {} with {tools}",
            agent.id.name
        )));
    }
    requested
}

/// Lists the requested capabilities, one per line.
pub(crate) fn capability_list(root: &Path, requested: &[RequestedCapability]) -> String {
    let bold = style::HEADING;
    let heading = format!(
        "{bold}The project in {} requires trust. Requested access:{bold:#}",
        root.display()
    );
    let place = |capability: &RequestedCapability| capability.place().unwrap_or_default();
    let width = requested
        .iter()
        .map(|capability| place(capability).chars().count())
        .max()
        .unwrap_or(0);
    let lines = requested
        .iter()
        .map(|capability| format!("\n  {:width$}  {}", place(capability), capability.what));
    heading + &lines.collect::<String>()
}

/// Prompts on the terminal. Only a clear yes agrees; Ctrl-C and Ctrl-D count as no.
fn confirm_trust(listing: &str) -> bool {
    let answer = output::ask(
        &format!("{listing}\n"),
        "Trust this project permanently? [y/N] ",
    );
    answer.is_some_and(|line| output::is_yes(&line))
}

/// Returns the error of an untrusted project, with the commands that trust it.
fn untrusted_error(
    root: &Path,
    requested: &[RequestedCapability],
    list_is_inside: bool,
) -> CliError {
    let message = format!(
        "The project in {} is not trusted, so gdn ran none of its code.",
        root.display()
    );
    let remedy = if list_is_inside {
        "The state root is inside the project, so it can't store trust in the project: \
            choose another state root"
            .to_owned()
    } else {
        let folders = folders_to_trust(root, requested).into_iter();
        let commands: Vec<String> = folders
            .map(|folder| format!("`{}`", trust_command(&folder)))
            .collect();
        format!(
            "Review the requested access, then run {}",
            commands.join(" and ")
        )
    };
    let mut error = CliError::new(CommandExit::Untrusted, Code::PROJECT_UNTRUSTED, message)
        .suggest(format!(
            "{remedy}; `--trust` or {TRUST_VARIABLE}=1 trust it for one run."
        ));
    let values = requested.iter().map(|capability| {
        serde_json::to_value(capability)
            .expect("a requested capability contains only strings and numbers")
    });
    error.wants = values.collect();
    error
}

/// Returns the command that trusts `folder` in the current state root.
pub(crate) fn trust_command(folder: &Path) -> String {
    format!(
        "gdn trust {}{}",
        quoted(&folder.to_string_lossy()),
        suggested_command::state_root()
    )
}

pub(crate) fn unreadable_trust_list_error(list: &TrustList, error: &io::Error) -> CliError {
    let path = list.path();
    let path = path.display();
    if is_of_content(error) {
        CliError::configuration(format!(
            "The list of trusted directories, {path}, can't be read: {error}."
        ))
        .suggest("Correct the file, or remove it; gdn then asks about every project again.")
    } else {
        CliError::configuration(format!(
            "The list of trusted directories, {path}, can't be read: {}.",
            reason(error)
        ))
        .suggest(STATE_ROOT_SUGGESTION)
    }
}

/// Returns the error for a trust list that cannot be written.
pub(crate) fn trust_list_write_error(list: &TrustList, error: &io::Error) -> CliError {
    if is_of_content(error) {
        return unreadable_trust_list_error(list, error);
    }
    let path = list.path();
    CliError::configuration(format!(
        "The list of trusted directories, {}, can't be changed: {}.",
        path.display(),
        reason(error)
    ))
    .suggest(STATE_ROOT_SUGGESTION)
}

/// Returns true if the file exists but is not a valid trust list.
fn is_of_content(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
    )
}

const STATE_ROOT_SUGGESTION: &str =
    "Choose another state root with --state-root or GOONDAN_STATE_ROOT.";
