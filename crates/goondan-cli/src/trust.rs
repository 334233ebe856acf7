//! Whether a project may do what it wants: asked once, before anything of it is run, opened or looked up (rule S13).

use std::io;
use std::path::Path;
use std::sync::Arc;

use goondan::spec::{Code, Diagnostic, Environment};
use goondan::{
    Project, ReloadCheck, StateRoot, TrustList, Want, folders_to_trust, packages_to_trust, wants,
    wants_elsewhere,
};

use crate::commands::quoted;
use crate::exit::{CliError, Exit};
use crate::output::{self, Output, style};
use crate::retyped;
use goondan::spec::reason;

/// The variable that, set to `1`, trusts whatever is run: for containers and services that build projects.
const VARIABLE: &str = "GOONDAN_TRUST";

/// What this run is told about trust, and where the rest is written down.
#[derive(Debug, Clone)]
pub(crate) struct Trust {
    state_root: StateRoot,
    /// Trusted without being written down.
    this_run: bool,
}

impl Trust {
    /// `flag` is `--trust`.
    pub(crate) fn new(state_root: &StateRoot, flag: bool) -> Self {
        let by_variable = std::env::var_os(VARIABLE).is_some_and(|value| value == "1");
        Trust {
            state_root: state_root.clone(),
            this_run: flag || by_variable,
        }
    }

    /// Ends the command where the project wants something and nobody trusts it. On a terminal somebody is asked, once for all.
    pub(crate) fn require(&self, project: &Project, output: &Output) -> Result<(), CliError> {
        let wants = self.open_wants(project)?;
        self.ask_for(project, wants, output)
    }

    /// As [`Trust::require`], of a project that somebody has published: it is asked about even if it wants nothing special.
    pub(crate) fn require_published(
        &self,
        project: &Project,
        from: &str,
        output: &Output,
    ) -> Result<(), CliError> {
        let mut wants = self.open_wants(project)?;
        if !self.is_given(&project.root)? {
            wants.splice(0..0, about(project, from));
        }
        self.ask_for(project, wants, output)
    }

    fn ask_for(
        &self,
        project: &Project,
        wants: Vec<Want>,
        output: &Output,
    ) -> Result<(), CliError> {
        if wants.is_empty() {
            return Ok(());
        }
        let root = &project.root;
        let list = TrustList::of(&self.state_root);
        let can_be_asked =
            Output::stdin_is_terminal() && Output::stderr_is_terminal() && !list.lies_in(root);
        if !can_be_asked {
            output.explain(&listing(root, &wants))?;
            return Err(refused(root, &wants, list.lies_in(root)));
        }
        match agreed(&listing(root, &wants)) {
            true => {
                let mut folders = folders_to_trust(root, &wants).into_iter();
                let added = folders.try_for_each(|folder| list.add(&folder).map(drop));
                added
                    .and_then(|()| list.add_packages(&packages_to_trust(&wants)))
                    .map_err(|error| unwritten(&list, &error))
            }
            false => Err(refused(root, &wants, false)),
        }
    }

    /// What the project wants and may not do; nothing where it is trusted.
    pub(crate) fn open_wants(&self, project: &Project) -> Result<Vec<Want>, CliError> {
        if self.this_run {
            return Ok(Vec::new());
        }
        let is_listed = self.is_listed(&project.root)?;
        let wants = match is_listed {
            true => wants_elsewhere(project, &self.state_root),
            false => wants(project, &self.state_root),
        };
        let list = TrustList::of(&self.state_root);
        let packages = if is_listed {
            list.packages().map_err(|error| unreadable(&list, &error))?
        } else {
            Vec::new()
        };
        let mut open = Vec::new();
        for want in wants {
            let is_covered = match (&want.package, &want.folder) {
                (Some(package), _) => packages.contains(package),
                (None, folder) => folder
                    .as_ref()
                    .map_or(Ok(false), |folder| self.is_listed(folder))?,
            };
            open.extend((!is_covered).then_some(want));
        }
        Ok(open)
    }

    /// The variables that the project sees. Its `.env` files are not read before somebody trusts it.
    pub(crate) fn environment(&self, root: &Path) -> Result<Environment, Diagnostic> {
        match self.is_given(root) {
            Ok(true) => goondan::environment(root, None),
            _ => Ok(Environment::of_process()),
        }
    }

    /// Whether anything of the project may be used, whatever it wants later.
    pub(crate) fn is_given(&self, root: &Path) -> Result<bool, CliError> {
        Ok(self.this_run || self.is_listed(root)?)
    }

    fn is_listed(&self, root: &Path) -> Result<bool, CliError> {
        let list = TrustList::of(&self.state_root);
        Ok(list
            .trusts(root)
            .map_err(|error| unreadable(&list, &error))?
            .is_some())
    }

    /// Refuses reloads by which a project that nobody trusts comes to want something.
    pub(crate) fn reload_check(&self) -> ReloadCheck {
        let trust = self.clone();
        Arc::new(move |project| {
            // A list that can't be read trusts nothing.
            let wants = trust
                .open_wants(project)
                .unwrap_or_else(|_| wants(project, &trust.state_root));
            match wants.is_empty() {
                true => Ok(()),
                false => Err(wants
                    .iter()
                    .map(|want| want.refused(&project.root))
                    .collect()),
            }
        })
    }
}

/// What a person should know of a published swarm before it runs for the first time.
fn about(project: &Project, from: &str) -> Vec<Want> {
    let mut wants = vec![Want::stating(format!("comes from {from}"))];
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
        wants.push(Want::stating(format!(
            "has the agent {} with {tools}",
            agent.id.name
        )));
    }
    wants
}

/// What the project wants, a line each.
pub(crate) fn listing(root: &Path, wants: &[Want]) -> String {
    let bold = style::HEADING;
    let heading = format!(
        "{bold}The project in {} wants to be trusted. What it does:{bold:#}",
        root.display()
    );
    let place = |want: &Want| want.place().unwrap_or_default();
    let width = wants
        .iter()
        .map(|want| place(want).chars().count())
        .max()
        .unwrap_or(0);
    let lines = wants
        .iter()
        .map(|want| format!("\n  {:width$}  {}", place(want), want.what));
    heading + &lines.collect::<String>()
}

/// Asks at the terminal. Anything but a clear yes is a no, and so are Ctrl-C and Ctrl-D.
fn agreed(listing: &str) -> bool {
    let answer = output::ask(
        |_| listing.to_owned(),
        "Trust this project, from now on? [y/N] ",
    );
    answer.is_ok_and(|line| output::is_yes(&line))
}

fn refused(root: &Path, wants: &[Want], list_lies_in_it: bool) -> CliError {
    let message = format!(
        "The project in {} is not trusted, so nothing of it was run.",
        root.display()
    );
    let lasting = match list_lies_in_it {
        true => {
            "The state root is inside the project, so it can't vouch for the project: choose another one".to_owned()
        }
        false => {
            let folders = folders_to_trust(root, wants).into_iter();
            let commands: Vec<String> = folders.map(|folder| format!("`{}`", trusting(&folder))).collect();
            format!("Look at what it wants, then run {}", commands.join(" and "))
        }
    };
    let mut error = CliError::new(Exit::Untrusted, Code::PROJECT_UNTRUSTED, message).suggest(
        format!("{lasting}; `--trust` or {VARIABLE}=1 trust it for one run."),
    );
    let values = wants
        .iter()
        .map(|want| serde_json::to_value(want).expect("a want holds texts and numbers alone"));
    error.wants = values.collect();
    error
}

/// The command that trusts `folder` where this one would look.
pub(crate) fn trusting(folder: &Path) -> String {
    format!(
        "gdn trust {}{}",
        quoted(&folder.to_string_lossy()),
        retyped::state_root()
    )
}

/// The error of a list that can't be read.
pub(crate) fn unreadable(list: &TrustList, error: &io::Error) -> CliError {
    let place = list.path();
    let place = place.display();
    match is_of_content(error) {
        true => CliError::configuration(format!(
            "The list of trusted folders, {place}, can't be read: {error}."
        ))
        .suggest("Correct the file, or remove it: then every project is asked about again."),
        false => CliError::configuration(format!(
            "The list of trusted folders, {place}, can't be read: {}.",
            reason(error)
        ))
        .suggest(ANOTHER_ROOT),
    }
}

/// The error of a list that can't be written.
pub(crate) fn unwritten(list: &TrustList, error: &io::Error) -> CliError {
    if is_of_content(error) {
        return unreadable(list, error);
    }
    let place = list.path();
    CliError::configuration(format!(
        "The list of trusted folders, {}, can't be changed: {}.",
        place.display(),
        reason(error)
    ))
    .suggest(ANOTHER_ROOT)
}

/// Whether the file is there, and holds something else than such a list.
fn is_of_content(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
    )
}

const ANOTHER_ROOT: &str = "Choose another folder with --state-root or GOONDAN_STATE_ROOT.";
