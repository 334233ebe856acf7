//! Stages from a directory to a bundle. Every stage collects diagnostics; the last one decides.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bundle::{BasePackage, BuiltInResources, Bundle, DecodedResources, Resource, Resources};
use crate::decode::FieldReader;
use crate::decode_cache::DecodeCache;
use crate::diagnostic::{Code, Diagnostic, RelatedPosition, SourcePosition};
use crate::diagnostic_sink::{DiagnosticSink, ValueOrigin};
use crate::discover::{DiscoveredFiles, discover};
use crate::envelope::{self, DocumentEnvelope};
use crate::expansion::WrittenDocument;
use crate::files::{FileAccess, FileKind};
use crate::index::ResourceIndex;
use crate::installed_packages::{InstalledPackage, InstalledPackages, is_installed};
use crate::kinds::{self, DecodeScope, ToolBuild};
use crate::lint::{self, SpecPositions};
use crate::lock::LOCK_FILE;
use crate::meta::{Kind, ResourceId};
use crate::outline::{BundleOutline, ResourceDefinition, ResourceLink};
use crate::parsed_file::{KnownFiles, ParsedFile, has_unread_documents, read_file};
use crate::paths::{BundleDirectory, PathLookups};
use crate::source::SourceTexts;
use crate::text::reason;
use crate::{dependency_cycles, expansion, installed_packages, packages, parallel, short_form};

/// Input of [`load`].
#[derive(Clone, Copy)]
pub struct LoadInput<'a> {
    /// Directory, or a `goondan.yaml` in it.
    pub root: &'a Path,
    /// File access.
    pub files: &'a dyn FileAccess,
    /// Built-in package.
    pub base: &'a BasePackage,
}

/// Result of [`load`].
#[derive(Debug)]
pub struct LoadResult {
    /// The bundle. `None` if there is any error.
    pub bundle: Option<Bundle>,
    /// Errors and warnings of all files, sorted by file, line and column.
    pub diagnostics: Vec<Diagnostic>,
    /// Fields under older names, with the fixes that rename them. Older names are valid, so these
    /// are no warnings.
    pub renames: Vec<Diagnostic>,
    /// Texts that the diagnostics point into.
    pub sources: SourceTexts,
    /// Build instructions of tools in load order, including tools that are not built yet.
    pub builds: Vec<ToolBuild>,
}

/// Loads a bundle (rules L1 to L10) and reports all errors of all files in one run.
pub fn load(input: LoadInput<'_>) -> LoadResult {
    let known = KnownFiles::default();
    let loaded = load_again(input, &known);
    known.free_in_background();
    loaded
}

/// Works like [`load`], but reuses unchanged files of `known` and updates it with this load's
/// files.
pub fn load_again(input: LoadInput<'_>, known: &KnownFiles) -> LoadResult {
    run(input, known, |_, _, _| ()).0
}

/// Works like [`load_again`] and also returns the outline.
pub fn load_with_outline(input: LoadInput<'_>, known: &KnownFiles) -> (LoadResult, BundleOutline) {
    let (loaded, outline) = run(input, known, outline);
    (loaded, outline.unwrap_or_default())
}

/// Loads the bundle and calls `look` with the decoded resources before it is assembled.
fn run<T>(
    input: LoadInput<'_>,
    known: &KnownFiles,
    look: impl FnOnce(&DecodeStage<'_>, &DecodedResources, &mut LoadFindings) -> T,
) -> (LoadResult, Option<T>) {
    let root = match find_root(input.root, input.files) {
        Ok(root) => root,
        Err(diagnostic) => {
            let (sources, builds) = (SourceTexts::default(), Vec::new());
            return (
                LoadResult {
                    bundle: None,
                    diagnostics: vec![diagnostic],
                    renames: Vec::new(),
                    sources,
                    builds,
                },
                None,
            );
        }
    };
    let folder = BundleDirectory::new(input.files, &root);
    let found = discover(input.files, &root);
    let mut gathered = LoadFindings {
        diagnostics: found.diagnostics.clone(),
        ..LoadFindings::default()
    };
    let mut files = read_files(&folder, &found, known, &mut gathered);
    let own = packages::own_package_name(&files.own).map(str::to_owned);
    let own = own.as_deref();
    let mut installed = read_installed(&folder, &files, known, &mut gathered);
    add_derived(&mut files, &mut installed, gathered.is_clean());
    let documents = read_all(&files.own, own, &installed, &mut gathered);
    let built_in = known.built_in(input.base);
    let mut index = make_index(&documents, built_in, &mut gathered);
    index.restrict(&installed);
    let read = documents
        .iter()
        .filter(|document| document.base.is_empty())
        .count();
    index.set_unread_files(found.unread.clone());
    index.set_partial(!found.diagnostics.is_empty() || has_unread_documents(&files.own, read));
    let stage = DecodeStage {
        folder: &folder,
        index: &index,
        base: input.base,
        built_in,
        documents: &documents,
        files: &files.own,
    };
    let decoded = stage.decode_all(&mut gathered);
    let seen = look(&stage, &decoded, &mut gathered);
    gathered.grade_missing_entries(
        &decoded,
        documents
            .iter()
            .filter(|document| document.id().kind == Kind::Agent)
            .count(),
    );
    gathered
        .diagnostics
        .extend(dependency_cycles::find(&files.own, &files.nested));
    gathered
        .file_names
        .extend(files.own.iter().map(|file| file.name.clone()));
    let of_packages = installed.members.iter().flat_map(|member| &member.files);
    gathered
        .file_names
        .extend(of_packages.map(|file| file.name.clone()));
    gathered
        .file_names
        .extend((!installed.members.is_empty()).then(|| LOCK_FILE.to_owned()));
    if documents.is_empty() && gathered.is_clean() {
        gathered.diagnostics.push(nothing_defined(&root));
    }
    if gathered.is_clean() {
        let specs = documents
            .iter()
            .filter_map(|document| Some((document.id(), document.envelope.spec.as_ref()?)));
        gathered
            .diagnostics
            .extend(lint::lint(&decoded, &SpecPositions::new(specs)));
    }
    gathered.drop_package_warnings();
    let all = files.own.into_iter().chain(
        installed
            .members
            .iter()
            .flat_map(|member| member.files.iter().cloned()),
    );
    let all: Vec<Arc<ParsedFile>> = all.collect();
    let packages = installed
        .members
        .into_iter()
        .map(|member| member.package)
        .collect();
    (
        gathered.finish(root.clone(), decoded, all, packages),
        Some(seen),
    )
}

/// Works like [`load_again`] and also returns the project's resources as YAML, with all short forms
/// written out. Secrets are masked.
pub fn load_expanded(input: LoadInput<'_>, known: &KnownFiles) -> (LoadResult, String) {
    let (loaded, written) = run(input, known, |stage, _, gathered| expand(stage, gathered));
    (loaded, written.unwrap_or_default())
}

/// Returns the resources of the project as YAML documents, without those of packages.
fn expand(stage: &DecodeStage<'_>, gathered: &LoadFindings) -> String {
    let own = stage
        .documents
        .iter()
        .filter(|document| document.base.is_empty());
    let texts: Vec<String> = own
        .map(|document| {
            let head = &document.envelope.head;
            let pairs = |map: &std::collections::BTreeMap<String, String>| {
                let pairs = map.iter();
                pairs
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect()
            };
            let written = WrittenDocument {
                kind: head.id.kind,
                name: &head.id.name,
                metadata: vec![
                    ("labels", pairs(&head.labels)),
                    ("annotations", pairs(&head.annotations)),
                ],
                spec: document.envelope.spec.as_ref().map(|spec| spec.node),
            };
            let is_secret = |at: usize| {
                let mut secrets = gathered.secrets.iter();
                secrets.any(|(file, range)| file == document.file && range.contains(&at))
            };
            expansion::write(&written, &is_secret)
        })
        .collect();
    texts.join("---\n")
}

/// Collects the definitions and links of the project for editors.
fn outline(
    stage: &DecodeStage<'_>,
    decoded: &DecodedResources,
    gathered: &mut LoadFindings,
) -> BundleOutline {
    let named = stage
        .documents
        .iter()
        .filter(|document| !document.id().name.is_empty());
    let own = named.map(|document| {
        // Resources of installed packages and resources that the project leaves out have no
        // origin, so that an editor does not rename them.
        let origin = (document.base.is_empty() && !document.is_derived)
            .then(|| (document.file.to_owned(), document.envelope.head.name_at));
        ResourceDefinition {
            id: document.id().clone(),
            origin,
        }
    });
    let built_in = stage.built_in;
    let base = built_in
        .tools
        .keys()
        .chain(built_in.extensions.keys())
        .chain(built_in.connectors.keys());
    BundleOutline {
        definitions: own
            .chain(base.map(|id| ResourceDefinition {
                id: id.clone(),
                origin: None,
            }))
            .collect(),
        links: std::mem::take(&mut gathered.links),
        tools: decoded.tools.clone(),
        connectors: decoded.connectors.clone(),
        files: stage.files.iter().map(|file| file.name.clone()).collect(),
    }
}

/// Returns the project directory for a directory or its `goondan.yaml`.
fn find_root(path: &Path, files: &dyn FileAccess) -> Result<PathBuf, Diagnostic> {
    let shown = path.display();
    let is_manifest = path
        .file_name()
        .is_some_and(|name| name == "goondan.yaml" || name == "goondan.yml");
    match files.kind(path) {
        Ok(FileKind::Directory) => Ok(path.to_owned()),
        Ok(FileKind::File) if is_manifest => {
            let parent = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            Ok(parent.unwrap_or(Path::new(".")).to_owned())
        }
        Ok(_) => Err(Diagnostic::new(
            Code::PARSE_ERROR,
            format!("`{shown}` is neither a directory nor a `goondan.yaml`."),
        )
        .suggest("use the directory that contains the `goondan.yaml`")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Diagnostic::new(
            Code::PARSE_ERROR,
            format!("`{shown}` does not exist."),
        )
        .suggest("check the path; use the directory that contains the `goondan.yaml`")),
        Err(error) => Err(Diagnostic::new(
            Code::PARSE_ERROR,
            format!("`{shown}` cannot be read: {}.", reason(&error)),
        )
        .suggest("check that you may read it")),
    }
}

/// Accumulated results of all stages.
#[derive(Debug, Default)]
struct LoadFindings {
    diagnostics: Vec<Diagnostic>,
    renames: Vec<Diagnostic>,
    not_built: Vec<Diagnostic>,
    file_names: Vec<String>,
    values: Vec<ValueOrigin>,
    secrets: Vec<(String, std::ops::Range<usize>)>,
    texts: Vec<(String, String)>,
    builds: Vec<ToolBuild>,
    places: HashMap<ResourceId, Vec<(String, SourcePosition)>>,
    links: Vec<(String, Vec<ResourceLink>)>,
}

impl LoadFindings {
    /// Adds the findings about one file or resource.
    fn add(&mut self, findings: DiagnosticSink) {
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
    fn grade_missing_entries(&mut self, decoded: &DecodedResources, agents: usize) {
        let of_agents = decoded.agents.values().map(|agent| &agent.spec);
        let tools = of_agents
            .clone()
            .flat_map(|agent| &agent.tools)
            .map(|used| used.tool.to_string());
        let extensions = of_agents
            .flat_map(|agent| &agent.extensions)
            .map(|used| used.extension.to_string());
        let connectors = decoded
            .connections
            .values()
            .map(|connection| connection.spec.connector.to_string());
        let used: HashSet<String> = tools.chain(extensions).chain(connectors).collect();
        let is_used = |tool: &Option<String>| tool.as_ref().is_none_or(|tool| used.contains(tool));
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

    /// Returns whether there is no error.
    fn is_clean(&self) -> bool {
        !self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// Drops warnings about installed packages, which concern only their authors.
    fn drop_package_warnings(&mut self) {
        let is_theirs = |problem: &Diagnostic| problem.file.as_deref().is_some_and(is_installed);
        self.diagnostics
            .retain(|problem| problem.is_error() || !is_theirs(problem));
    }

    /// Sorts the diagnostics and creates the result; the bundle is `None` if there is an error.
    fn finish(
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
        files
            .iter()
            .for_each(|file| sources.insert(file.name.as_str(), Arc::clone(&file.text)));
        self.texts
            .drain(..)
            .for_each(|(name, text)| sources.insert(name, text));
        self.secrets.sort_by(|a, b| a.0.cmp(&b.0));
        for of_file in self.secrets.chunk_by(|a, b| a.0 == b.0) {
            let ranges: Vec<_> = of_file.iter().map(|(_, range)| range.clone()).collect();
            sources.mask(&of_file[0].0, &ranges);
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

/// Adds the documents that the project and its packages leave out. `is_whole` is false if a part of
/// the project could not be read.
fn add_derived(files: &mut ParsedFiles, installed: &mut InstalledPackages, is_whole: bool) {
    let derived = short_form::derived_files(&files.own, is_whole);
    files.own.extend(derived);
    for member in &mut installed.members {
        let derived = short_form::derived_files(&member.files, false);
        member.files.extend(derived);
    }
}

struct ParsedFiles {
    /// Files of this bundle.
    own: Vec<Arc<ParsedFile>>,
    /// `goondan.yaml` files of projects in subdirectories.
    nested: Vec<Arc<ParsedFile>>,
}

/// Reads the files of the project. Files below a nested project belong only to that project.
fn read_files(
    folder: &BundleDirectory<'_>,
    found: &DiscoveredFiles,
    known: &KnownFiles,
    gathered: &mut LoadFindings,
) -> ParsedFiles {
    let nested = parallel::map_files(&found.nested, |name| read_file(folder, name, known));
    let nested: Vec<Arc<ParsedFile>> = nested
        .into_iter()
        .filter(|file| file.package().is_some())
        .collect();
    let prefixes: Vec<&str> = nested
        .iter()
        .filter_map(|file| Some(file.name.rsplit_once('/')?.0))
        .collect();
    let is_own = |name: &&String| {
        !prefixes.iter().any(|prefix| {
            name.strip_prefix(prefix)
                .is_some_and(|rest| rest.starts_with('/'))
        })
    };
    let names: Vec<&String> = found.files.iter().filter(is_own).collect();
    gathered
        .diagnostics
        .retain(|problem| problem.file.as_ref().is_none_or(|file| is_own(&file)));
    let mut own = parallel::map_files(&names, |name| read_file(folder, name, known));
    known.keep_only(&[own.as_slice(), &nested].concat());
    own.retain(|file| !file.is_tool_manifest());
    for file in &own {
        gathered.add(file.findings.clone());
        let renames = file.renames.iter().cloned();
        let renames = renames.map(|rename| rename.in_file(file.name.as_str()));
        gathered.renames.extend(renames);
    }
    ParsedFiles { own, nested }
}

/// Reads the installed packages that the project depends on.
fn read_installed(
    folder: &BundleDirectory<'_>,
    files: &ParsedFiles,
    known: &KnownFiles,
    gathered: &mut LoadFindings,
) -> InstalledPackages {
    let mut installed = installed_packages::read(folder, &files.own, known);
    let members = installed
        .members
        .iter()
        .flat_map(|member| member.files.iter().cloned());
    known.keep_only(
        &files
            .own
            .iter()
            .chain(&files.nested)
            .cloned()
            .chain(members)
            .collect::<Vec<_>>(),
    );
    gathered.diagnostics.append(&mut installed.diagnostics);
    gathered.texts.append(&mut installed.texts);
    installed_packages::findings(&installed.members).for_each(|findings| gathered.add(findings));
    installed
}

/// Reads the documents of the project and of its packages. Swarms and Connections of packages are
/// skipped: they only apply when the package runs as a project.
fn read_all<'f>(
    files: &'f [Arc<ParsedFile>],
    own: Option<&str>,
    installed: &'f InstalledPackages,
    gathered: &mut LoadFindings,
) -> Vec<EnvelopedDocument<'f>> {
    let mut all = read_envelopes(files, own, "", gathered);
    for member in &installed.members {
        let documents = read_envelopes(
            &member.files,
            Some(&member.package.name),
            &member.package.folder,
            gathered,
        );
        let is_used = |document: &EnvelopedDocument<'_>| {
            !matches!(document.id().kind, Kind::Swarm | Kind::Connection)
        };
        all.extend(documents.into_iter().filter(is_used));
    }
    all
}

struct EnvelopedDocument<'f> {
    file: &'f str,
    /// Directory of its package. Empty for the project itself.
    base: &'f str,
    /// True if the project leaves it out.
    is_derived: bool,
    envelope: DocumentEnvelope<'f>,
    kept: &'f DecodeCache,
}

impl EnvelopedDocument<'_> {
    fn id(&self) -> &ResourceId {
        &self.envelope.head.id
    }
}

/// Reads `kind` and `metadata` of all documents in parallel. `own` is the name of their package,
/// `base` its directory.
fn read_envelopes<'f>(
    files: &'f [Arc<ParsedFile>],
    own: Option<&str>,
    base: &'f str,
    gathered: &mut LoadFindings,
) -> Vec<EnvelopedDocument<'f>> {
    let read = parallel::map(files, |file| {
        let mut findings = Vec::new();
        let positions = 0..file.documents.len();
        let documents: Vec<EnvelopedDocument<'_>> = positions
            .filter_map(|position| read_document(file, position, files, own, &mut findings))
            .collect();
        let documents = documents
            .into_iter()
            .map(|document| EnvelopedDocument { base, ..document })
            .collect::<Vec<_>>();
        (documents, findings)
    });
    let mut all = Vec::new();
    for (documents, findings) in read {
        all.extend(documents);
        findings
            .into_iter()
            .for_each(|findings| gathered.add(findings));
    }
    all
}

/// Reads the envelope of one document of `file`, or takes it from the cache.
fn read_document<'f>(
    file: &'f ParsedFile,
    position: usize,
    files: &[Arc<ParsedFile>],
    own: Option<&str>,
    findings: &mut Vec<DiagnosticSink>,
) -> Option<EnvelopedDocument<'f>> {
    let (root, kept) = (&file.documents[position], &file.kept[position]);
    if let Some(head) = kept.head(own) {
        return Some(EnvelopedDocument {
            file: &file.name,
            base: "",
            is_derived: file.is_derived,
            envelope: DocumentEnvelope::of(head, root),
            kept,
        });
    }
    let mut found = DiagnosticSink::about(file.name.clone());
    let read = envelope::read(root, own, &mut found);
    let envelope = read
        .and_then(|read| packages::check_package_position(read, position, file, files, &mut found));
    envelope
        .iter()
        .for_each(|envelope| kept.put_head(&envelope.head, &found));
    findings.push(found);
    Some(EnvelopedDocument {
        file: &file.name,
        base: "",
        is_derived: file.is_derived,
        envelope: envelope?,
        kept,
    })
}

/// Creates the index of resource names; reports names that occur twice.
fn make_index(
    documents: &[EnvelopedDocument<'_>],
    built_in: &BuiltInResources,
    gathered: &mut LoadFindings,
) -> ResourceIndex {
    let mut index = ResourceIndex::default();
    let named = || {
        documents
            .iter()
            .filter(|document| !document.id().name.is_empty())
    };
    let duplicates: Vec<&EnvelopedDocument<'_>> = named()
        .filter(|document| !index.insert(document.id()))
        .collect();
    if !duplicates.is_empty() {
        let mut first: HashMap<&ResourceId, &EnvelopedDocument<'_>> = HashMap::new();
        for document in named() {
            first.entry(document.id()).or_insert(document);
        }
        gathered.diagnostics.extend(
            duplicates
                .into_iter()
                .map(|document| duplicate(document, first[document.id()])),
        );
    }
    for id in built_in
        .tools
        .keys()
        .chain(built_in.extensions.keys())
        .chain(built_in.connectors.keys())
    {
        index.insert(id);
    }
    index
}

/// Creates the error for a resource whose name is in use.
fn duplicate(document: &EnvelopedDocument<'_>, first: &EnvelopedDocument<'_>) -> Diagnostic {
    let id = document.id();
    let position = format!(
        "`{}`, line {}",
        first.file, first.envelope.head.name_at.line
    );
    Diagnostic::new(
        Code::DUPLICATE_NAME,
        format!(
            "There is another {} named `{}`, in {position}.",
            id.kind, id.name
        ),
    )
    .in_file(document.file)
    .at(document.envelope.head.name_at)
    .of(id)
    .field("metadata.name")
    .suggest("rename one of the two")
    .related(RelatedPosition {
        message: format!("`{id}` is also defined here"),
        file: first.file.to_owned(),
        position: first.envelope.head.name_at,
    })
}

/// Inputs of decoding.
struct DecodeStage<'s> {
    folder: &'s BundleDirectory<'s>,
    index: &'s ResourceIndex,
    base: &'s BasePackage,
    built_in: &'s BuiltInResources,
    documents: &'s [EnvelopedDocument<'s>],
    files: &'s [Arc<ParsedFile>],
}

impl DecodeStage<'_> {
    /// Decodes kind by kind, in an order in which referenced kinds come first.
    fn decode_all(&self, gathered: &mut LoadFindings) -> DecodedResources {
        let mut done = DecodedResources::default();
        let packages = self.decode(Kind::Package, &done, gathered, |spec, scope, findings| {
            kinds::decode_package(spec, &scope.id.name, findings)
        });
        done.package = packages.into_values().next();
        done.models = self.decode_spec(Kind::Model, &done, gathered, |spec, _, findings| {
            kinds::decode_model(spec, findings)
        });
        done.extensions =
            self.decode_spec(Kind::Extension, &done, gathered, kinds::decode_extension);
        done.extensions.extend(self.built_in.extensions.clone());
        done.connectors =
            self.decode_spec(Kind::Connector, &done, gathered, kinds::decode_connector);
        done.connectors.extend(self.built_in.connectors.clone());
        done.tools = self.decode_spec(Kind::Tool, &done, gathered, kinds::decode_tool);
        done.tools.extend(self.built_in.tools.clone());
        done.agents = self.decode_spec(Kind::Agent, &done, gathered, kinds::decode_agent);
        done.swarms = self.decode_spec(Kind::Swarm, &done, gathered, kinds::decode_swarm);
        done.connections =
            self.decode_spec(Kind::Connection, &done, gathered, kinds::decode_connection);
        done
    }

    /// Decodes all resources of a kind; resources without a `spec` are skipped.
    fn decode_spec<T: Send + Sync + 'static>(
        &self,
        kind: Kind,
        done: &DecodedResources,
        gathered: &mut LoadFindings,
        decode: impl Fn(&FieldReader<'_>, &DecodeScope<'_>, &mut DiagnosticSink) -> Option<T> + Sync,
    ) -> Resources<T> {
        self.decode(kind, done, gathered, |spec, scope, findings| {
            decode(spec?, scope, findings)
        })
    }

    /// Decodes all resources of a kind in parallel; invalid ones are left out.
    fn decode<T: Send + Sync + 'static>(
        &self,
        kind: Kind,
        done: &DecodedResources,
        gathered: &mut LoadFindings,
        decode: impl Fn(Option<&FieldReader<'_>>, &DecodeScope<'_>, &mut DiagnosticSink) -> Option<T>
        + Sync,
    ) -> Resources<T> {
        let documents: Vec<&EnvelopedDocument<'_>> = self
            .documents
            .iter()
            .filter(|document| document.id().kind == kind)
            .collect();
        let decoded = parallel::map(&documents, |document| {
            let DocumentEnvelope { head, spec } = &document.envelope;
            if let Some((resource, findings)) = document.kept.resource(head, self.folder) {
                return (Some(resource), findings);
            }
            let mut findings = DiagnosticSink::about(document.file);
            findings.resource = Some(head.id.clone()).filter(|id| !id.name.is_empty());
            let looks = PathLookups::at(self.folder, document.base);
            let scope = DecodeScope::new(&head.id, &looks, self.base, self.index, done);
            let spec = decode(spec.as_ref(), &scope, &mut findings);
            let resource = spec.map(|spec| Arc::new(resource(document, spec)));
            if let Some(resource) = &resource {
                document.kept.put_resource(head, resource, &findings, looks);
            }
            (resource, findings)
        });
        let mut resources = Resources::new();
        for (resource, findings) in decoded {
            gathered.add(findings);
            if let Some(resource) = resource {
                resources.entry(resource.id.clone()).or_insert(resource);
            }
        }
        resources
    }
}

/// Creates a resource from its document and its decoded spec.
fn resource<T>(document: &EnvelopedDocument<'_>, spec: T) -> Resource<T> {
    let head = &document.envelope.head;
    Resource {
        id: head.id.clone(),
        labels: head.labels.clone(),
        annotations: head.annotations.clone(),
        origin: Some((document.file.to_owned(), head.name_at)),
        spec,
    }
}

/// Creates the error for a project without resources.
fn nothing_defined(root: &Path) -> Diagnostic {
    let path = root.to_string_lossy();
    let shown = if path.is_empty() || path == "." {
        "This directory".to_owned()
    } else {
        format!("`{path}`")
    };
    Diagnostic::new(Code::EMPTY, format!("{shown} defines no resource."))
        .suggest("add a `goondan.yaml` with a Model, an Agent and a Swarm")
}
