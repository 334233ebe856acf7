//! Findings of all stages of a load.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::LoadResult;
use crate::bundle::Bundle;
use crate::decoded_resources::DecodedResources;
use crate::diagnostic::{Code, Diagnostic, SourcePosition};
use crate::diagnostic_sink::{DiagnosticSink, ValueOrigin};
use crate::installed_package::InstalledPackage;
use crate::installed_packages::is_installed;
use crate::kinds::ToolBuild;
use crate::meta::ResourceId;
use crate::parsed_file::ParsedFile;
use crate::resource_link::ResourceLink;
use crate::source::SourceTexts;

/// Accumulated results of all stages.
#[derive(Debug, Default)]
pub(super) struct LoadFindings {
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) renames: Vec<Diagnostic>,
    not_built: Vec<Diagnostic>,
    pub(super) file_names: Vec<String>,
    values: Vec<ValueOrigin>,
    pub(super) secrets: Vec<(String, std::ops::Range<usize>)>,
    pub(super) texts: Vec<(String, String)>,
    builds: Vec<ToolBuild>,
    places: HashMap<ResourceId, Vec<(String, SourcePosition)>>,
    pub(super) links: Vec<(String, Vec<ResourceLink>)>,
}

impl LoadFindings {
    /// Creates the findings with the diagnostics of an earlier stage.
    pub(super) fn starting_with(diagnostics: Vec<Diagnostic>) -> Self {
        LoadFindings {
            diagnostics,
            ..LoadFindings::default()
        }
    }

    /// Adds the findings about one file or resource.
    pub(super) fn add(&mut self, findings: DiagnosticSink) {
        let file = findings.file;
        self.diagnostics.extend(findings.diagnostics);
        self.not_built.extend(findings.not_built);
        self.file_names.extend(findings.files);
        self.values.extend(findings.values);
        self.secrets.extend(
            findings
                .secrets
                .into_iter()
                .map(|range| (file.clone(), range)),
        );
        if !findings.links.is_empty() {
            self.links.push((file, findings.links));
        }
        self.texts.extend(findings.texts);
        self.builds.extend(findings.builds);
        if let Some(resource) = findings.resource.filter(|_| !findings.places.is_empty()) {
            self.places.insert(resource, findings.places);
        }
    }

    /// Reports each tool, extension and connector whose entry file is missing (not yet built).
    ///
    /// A missing file is an error if an agent uses the tool or extension, or a Connection the
    /// connector; else it is a warning. If an agent could not be decoded, its references are
    /// unknown, so every missing file is an error. `agents` is the number of declared agents.
    pub(super) fn grade_missing_entries(&mut self, decoded: &DecodedResources, agents: usize) {
        let agent_specs = decoded.agents.values().map(|agent| &agent.spec);
        let tools = agent_specs
            .clone()
            .flat_map(|agent| &agent.tools)
            .map(|used| used.tool.to_string());
        let extensions = agent_specs
            .flat_map(|agent| &agent.extensions)
            .map(|used| used.extension.to_string());
        let connectors = decoded
            .connections
            .values()
            .map(|connection| connection.spec.connector.to_string());
        let used_ids: HashSet<String> = tools.chain(extensions).chain(connectors).collect();
        let is_used =
            |tool: &Option<String>| tool.as_ref().is_none_or(|tool| used_ids.contains(tool));
        for mut diagnostic in std::mem::take(&mut self.not_built) {
            if decoded.agents.len() == agents && !is_used(&diagnostic.resource) {
                let kind = diagnostic
                    .resource
                    .as_deref()
                    .and_then(|resource| resource.split_once('/'));
                let unused = match kind.map(|(kind, _)| kind) {
                    Some("Extension") => "No agent uses the extension.",
                    Some("Connector") => "No connection uses the connector.",
                    _ => "No agent uses the tool.",
                };
                let message = format!("{} {unused}", diagnostic.message);
                diagnostic = Diagnostic {
                    message,
                    ..diagnostic
                }
                .as_code(Code::NOT_READY);
            }
            self.diagnostics.push(diagnostic);
        }
    }

    /// Returns true if there is no error.
    pub(super) fn is_clean(&self) -> bool {
        !self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// Drops warnings about installed packages, which concern only their authors.
    pub(super) fn drop_package_warnings(&mut self) {
        let is_theirs = |problem: &Diagnostic| problem.file.as_deref().is_some_and(is_installed);
        self.diagnostics
            .retain(|problem| problem.is_error() || !is_theirs(problem));
    }

    /// Sorts the diagnostics and creates the result; the bundle is `None` if there is an error.
    pub(super) fn finish(
        mut self,
        root: PathBuf,
        resources: DecodedResources,
        files: Vec<Arc<ParsedFile>>,
        packages: Vec<InstalledPackage>,
    ) -> LoadResult {
        self.diagnostics
            .sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
        self.diagnostics.dedup();
        let mut sources = SourceTexts::default();
        for file in &files {
            sources.insert(file.name.as_str(), Arc::clone(&file.text));
        }
        for (name, text) in self.texts.drain(..) {
            sources.insert(name, text);
        }
        self.secrets.sort_by(|a, b| a.0.cmp(&b.0));
        for of_file in self.secrets.chunk_by(|a, b| a.0 == b.0) {
            let ranges: Vec<_> = of_file.iter().map(|(_, range)| range.clone()).collect();
            sources.mask_ranges(&of_file[0].0, &ranges);
        }
        self.file_names.sort_unstable();
        self.file_names.dedup();
        let clean = self.is_clean();
        let bundle = clean.then(|| Bundle {
            root,
            packages,
            files: self.file_names,
            marks: files
                .iter()
                .map(|file| (file.name.clone(), Arc::clone(&file.mark)))
                .collect(),
            resources,
            values: self.values,
            builds: self.builds.clone(),
            places: self.places,
        });
        LoadResult {
            bundle,
            diagnostics: self.diagnostics,
            renames: self.renames,
            sources,
            builds: self.builds,
        }
    }
}

/// Returns the sort key of a diagnostic: its file and position.
fn sort_key(diagnostic: &Diagnostic) -> (Option<&str>, Option<(usize, usize)>) {
    (
        diagnostic.file.as_deref(),
        diagnostic
            .position
            .map(|position| (position.line, position.column)),
    )
}
