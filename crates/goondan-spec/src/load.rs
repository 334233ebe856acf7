//! The stages from a folder to a bundle. Every stage collects; the last one decides.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bundle::{BasePackage, BuiltIn, Bundle, Decoded, Resource, Resources};
use crate::decode::Field;
use crate::diagnostic::{Code, Diagnostic, Position, Related};
use crate::discover::{Found, discover};
use crate::envelope::{self, Envelope};
use crate::files::{FileKind, Files};
use crate::findings::{Findings, ValueOrigin};
use crate::index::Index;
use crate::installed::{Installed, InstalledPackage, is_installed};
use crate::kept::Keep;
use crate::kinds::{self, Scope, ToolBuild};
use crate::lint::{self, Places};
use crate::lock::LOCK_FILE;
use crate::meta::{Kind, ResourceId};
use crate::outline::{Definition, Link, Outline};
use crate::paths::{Folder, Looks};
use crate::read::{KnownFiles, ParsedFile, hides_some, read_file};
use crate::source::Sources;
use crate::text::reason;
use crate::{cycles, installed, packages, parallel};

/// What [`load`] reads.
#[derive(Clone, Copy)]
pub struct LoadInput<'a> {
    /// A folder, or a `goondan.yaml` in it.
    pub root: &'a Path,
    /// Where its files come from.
    pub files: &'a dyn Files,
    /// The built-in package.
    pub base: &'a BasePackage,
}

/// What [`load`] made of it.
#[derive(Debug)]
pub struct Loaded {
    /// The bundle; `None` where any diagnostic is an error.
    pub bundle: Option<Bundle>,
    /// Errors and warnings of all files, by file, line and column.
    pub diagnostics: Vec<Diagnostic>,
    /// The texts that the diagnostics point into.
    pub sources: Sources,
    /// How tools are built, in load order; also where an entry is missing because it was not built yet.
    pub builds: Vec<ToolBuild>,
}

/// Reads a bundle (rules L1 to L10). All mistakes of all files are found in one run.
pub fn load(input: LoadInput<'_>) -> Loaded {
    let known = KnownFiles::default();
    let loaded = load_again(input, &known);
    known.give_back();
    loaded
}

/// As [`load`], without parsing what is `known` from an earlier load; from now on `known` are the files of this one.
pub fn load_again(input: LoadInput<'_>, known: &KnownFiles) -> Loaded {
    run(input, known, |_, _, _| ()).0
}

/// As [`load_again`], and tells what stands where.
pub fn survey(input: LoadInput<'_>, known: &KnownFiles) -> (Loaded, Outline) {
    let (loaded, outline) = run(input, known, outline);
    (loaded, outline.unwrap_or_default())
}

/// Loads, and lets `look` see what was made before it is put together.
fn run<T>(
    input: LoadInput<'_>,
    known: &KnownFiles,
    look: impl FnOnce(&Stage<'_>, &Decoded, &mut Gathered) -> T,
) -> (Loaded, Option<T>) {
    let root = match find_root(input.root, input.files) {
        Ok(root) => root,
        Err(diagnostic) => {
            let (sources, builds) = (Sources::default(), Vec::new());
            return (
                Loaded {
                    bundle: None,
                    diagnostics: vec![diagnostic],
                    sources,
                    builds,
                },
                None,
            );
        }
    };
    let folder = Folder::new(input.files, &root);
    let found = discover(input.files, &root);
    let mut gathered = Gathered {
        diagnostics: found.diagnostics.clone(),
        ..Gathered::default()
    };
    let files = read_files(&folder, &found, known, &mut gathered);
    let own = packages::own(&files.own);
    let installed = read_installed(&folder, &files, known, &mut gathered);
    let documents = read_all(&files.own, own, &installed, &mut gathered);
    let built_in = known.built_in(input.base);
    let mut index = make_index(&documents, built_in, &mut gathered);
    index.restrict(&installed);
    let read = documents
        .iter()
        .filter(|document| document.base.is_empty())
        .count();
    index.set_partial(!found.diagnostics.is_empty() || hides_some(&files.own, read));
    let stage = Stage {
        folder: &folder,
        index: &index,
        base: input.base,
        built_in,
        documents: &documents,
        files: &files.own,
    };
    let decoded = stage.decode_all(&mut gathered);
    let seen = look(&stage, &decoded, &mut gathered);
    gathered.weigh_not_built(
        &decoded,
        documents
            .iter()
            .filter(|document| document.id().kind == Kind::Agent)
            .count(),
    );
    gathered
        .diagnostics
        .extend(cycles::find(&files.own, &files.nested));
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
            .extend(lint::lint(&decoded, &Places::new(specs)));
    }
    gathered.leave_to_packages();
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

fn outline(stage: &Stage<'_>, decoded: &Decoded, gathered: &mut Gathered) -> Outline {
    let named = stage
        .documents
        .iter()
        .filter(|document| !document.id().name.is_empty());
    let own = named.map(|document| {
        // What is installed is nobody's to rename here.
        let origin = document
            .base
            .is_empty()
            .then(|| (document.file.to_owned(), document.envelope.head.name_at));
        Definition {
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
    Outline {
        definitions: own
            .chain(base.map(|id| Definition {
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

fn find_root(path: &Path, files: &dyn Files) -> Result<PathBuf, Diagnostic> {
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
            format!("`{shown}` is neither a folder nor a `goondan.yaml`."),
        )
        .suggest("name the folder that holds the `goondan.yaml`")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Diagnostic::new(
            Code::PARSE_ERROR,
            format!("There is nothing at `{shown}`."),
        )
        .suggest("check the path; name the folder that holds the `goondan.yaml`")),
        Err(error) => Err(Diagnostic::new(
            Code::PARSE_ERROR,
            format!("`{shown}` cannot be read: {}.", reason(&error)),
        )
        .suggest("check that you may read it")),
    }
}

/// Everything that the stages have found so far.
#[derive(Debug, Default)]
struct Gathered {
    diagnostics: Vec<Diagnostic>,
    not_built: Vec<Diagnostic>,
    file_names: Vec<String>,
    values: Vec<ValueOrigin>,
    secrets: Vec<(String, std::ops::Range<usize>)>,
    texts: Vec<(String, String)>,
    builds: Vec<ToolBuild>,
    places: HashMap<ResourceId, Vec<(String, Position)>>,
    links: Vec<(String, Vec<Link>)>,
}

impl Gathered {
    fn take(&mut self, findings: Findings) {
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

    /// A tool or an extension that is not built keeps its project from running only if an agent uses it, a connector if a
    /// Connection does. Agents that could not be read may use any.
    fn weigh_not_built(&mut self, decoded: &Decoded, agents: usize) {
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

    fn is_clean(&self) -> bool {
        !self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// What could be better in a package is its author's to know, and not for each project that uses it.
    fn leave_to_packages(&mut self) {
        let is_theirs = |problem: &Diagnostic| problem.file.as_deref().is_some_and(is_installed);
        self.diagnostics
            .retain(|problem| problem.is_error() || !is_theirs(problem));
    }

    fn finish(
        mut self,
        root: PathBuf,
        resources: Decoded,
        files: Vec<Arc<ParsedFile>>,
        packages: Vec<InstalledPackage>,
    ) -> Loaded {
        self.diagnostics.sort_by(|a, b| place(a).cmp(&place(b)));
        self.diagnostics.dedup();
        let mut sources = Sources::default();
        files
            .iter()
            .for_each(|file| sources.insert(file.name.as_str(), Arc::clone(&file.text)));
        self.texts
            .drain(..)
            .for_each(|(name, text)| sources.insert(name, text));
        self.secrets.sort_by(|a, b| a.0.cmp(&b.0));
        for of_file in self.secrets.chunk_by(|a, b| a.0 == b.0) {
            let ranges: Vec<_> = of_file.iter().map(|(_, range)| range.clone()).collect();
            sources.blot(&of_file[0].0, &ranges);
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
        Loaded {
            bundle,
            diagnostics: self.diagnostics,
            sources,
            builds: self.builds,
        }
    }
}

fn place(diagnostic: &Diagnostic) -> (Option<&str>, Option<(usize, usize)>) {
    (
        diagnostic.file.as_deref(),
        diagnostic
            .position
            .map(|position| (position.line, position.column)),
    )
}

struct FilesRead {
    /// The files of this bundle.
    own: Vec<Arc<ParsedFile>>,
    /// The `goondan.yaml` of projects in sub-folders.
    nested: Vec<Arc<ParsedFile>>,
}

fn read_files(
    folder: &Folder<'_>,
    found: &Found,
    known: &KnownFiles,
    gathered: &mut Gathered,
) -> FilesRead {
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
    own.iter()
        .for_each(|file| gathered.take(file.findings.clone()));
    FilesRead { own, nested }
}

/// Reads the packages that the project depends on.
fn read_installed(
    folder: &Folder<'_>,
    files: &FilesRead,
    known: &KnownFiles,
    gathered: &mut Gathered,
) -> Installed {
    let mut installed = installed::read(folder, &files.own, known);
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
    installed::findings(&installed.members).for_each(|findings| gathered.take(findings));
    installed
}

/// The documents of the project, and of the packages that it depends on. What a package runs by itself, its swarms and
/// connections, is no part of other projects.
fn read_all<'f>(
    files: &'f [Arc<ParsedFile>],
    own: Option<&str>,
    installed: &'f Installed,
    gathered: &mut Gathered,
) -> Vec<Document<'f>> {
    let mut all = read_envelopes(files, own, "", gathered);
    for member in &installed.members {
        let documents = read_envelopes(
            &member.files,
            Some(&member.package.name),
            &member.package.folder,
            gathered,
        );
        let is_used =
            |document: &Document<'_>| !matches!(document.id().kind, Kind::Swarm | Kind::Connection);
        all.extend(documents.into_iter().filter(is_used));
    }
    all
}

/// A document with its envelope.
struct Document<'f> {
    file: &'f str,
    /// The folder that its paths start from; empty for the project itself.
    base: &'f str,
    envelope: Envelope<'f>,
    kept: &'f Keep,
}

impl Document<'_> {
    fn id(&self) -> &ResourceId {
        &self.envelope.head.id
    }
}

fn read_envelopes<'f>(
    files: &'f [Arc<ParsedFile>],
    own: Option<&str>,
    base: &'f str,
    gathered: &mut Gathered,
) -> Vec<Document<'f>> {
    let read = parallel::map(files, |file| {
        let mut findings = Vec::new();
        let positions = 0..file.documents.len();
        let documents: Vec<Document<'_>> = positions
            .filter_map(|position| read_document(file, position, files, own, &mut findings))
            .collect();
        let documents = documents
            .into_iter()
            .map(|document| Document { base, ..document })
            .collect::<Vec<_>>();
        (documents, findings)
    });
    let mut all = Vec::new();
    for (documents, findings) in read {
        all.extend(documents);
        findings
            .into_iter()
            .for_each(|findings| gathered.take(findings));
    }
    all
}

/// Reads the envelope of one document of `file`, unless it is known.
fn read_document<'f>(
    file: &'f ParsedFile,
    position: usize,
    files: &[Arc<ParsedFile>],
    own: Option<&str>,
    findings: &mut Vec<Findings>,
) -> Option<Document<'f>> {
    let (root, kept) = (&file.documents[position], &file.kept[position]);
    if let Some(head) = kept.head(own) {
        return Some(Document {
            file: &file.name,
            base: "",
            envelope: Envelope::of(head, root),
            kept,
        });
    }
    let mut found = Findings::about(file.name.clone());
    let read = envelope::read(root, own, &mut found);
    let envelope = read.and_then(|read| packages::place(read, position, file, files, &mut found));
    envelope
        .iter()
        .for_each(|envelope| kept.put_head(&envelope.head, &found));
    findings.push(found);
    Some(Document {
        file: &file.name,
        base: "",
        envelope: envelope?,
        kept,
    })
}

fn make_index(documents: &[Document<'_>], built_in: &BuiltIn, gathered: &mut Gathered) -> Index {
    let mut index = Index::default();
    let named = || {
        documents
            .iter()
            .filter(|document| !document.id().name.is_empty())
    };
    let again: Vec<&Document<'_>> = named()
        .filter(|document| !index.insert(document.id()))
        .collect();
    if !again.is_empty() {
        let mut first: HashMap<&ResourceId, &Document<'_>> = HashMap::new();
        for document in named() {
            first.entry(document.id()).or_insert(document);
        }
        gathered.diagnostics.extend(
            again
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

fn duplicate(document: &Document<'_>, first: &Document<'_>) -> Diagnostic {
    let id = document.id();
    let place = format!(
        "`{}`, line {}",
        first.file, first.envelope.head.name_at.line
    );
    Diagnostic::new(
        Code::DUPLICATE_NAME,
        format!(
            "There is another {} named `{}`, in {place}.",
            id.kind, id.name
        ),
    )
    .in_file(document.file)
    .at(document.envelope.head.name_at)
    .of(id)
    .field("metadata.name")
    .suggest("rename one of the two")
    .related(Related {
        message: format!("`{id}` is defined here, too"),
        file: first.file.to_owned(),
        position: first.envelope.head.name_at,
    })
}

/// All that decoding looks at.
struct Stage<'s> {
    folder: &'s Folder<'s>,
    index: &'s Index,
    base: &'s BasePackage,
    built_in: &'s BuiltIn,
    documents: &'s [Document<'s>],
    files: &'s [Arc<ParsedFile>],
}

impl Stage<'_> {
    /// Decodes kind by kind, so that each may look at those that it refers to.
    fn decode_all(&self, gathered: &mut Gathered) -> Decoded {
        let mut done = Decoded::default();
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

    fn decode_spec<T: Send + Sync + 'static>(
        &self,
        kind: Kind,
        done: &Decoded,
        gathered: &mut Gathered,
        decode: impl Fn(&Field<'_>, &Scope<'_>, &mut Findings) -> Option<T> + Sync,
    ) -> Resources<T> {
        self.decode(kind, done, gathered, |spec, scope, findings| {
            decode(spec?, scope, findings)
        })
    }

    fn decode<T: Send + Sync + 'static>(
        &self,
        kind: Kind,
        done: &Decoded,
        gathered: &mut Gathered,
        decode: impl Fn(Option<&Field<'_>>, &Scope<'_>, &mut Findings) -> Option<T> + Sync,
    ) -> Resources<T> {
        let documents: Vec<&Document<'_>> = self
            .documents
            .iter()
            .filter(|document| document.id().kind == kind)
            .collect();
        let decoded = parallel::map(&documents, |document| {
            let Envelope { head, spec } = &document.envelope;
            if let Some((resource, findings)) = document.kept.resource(head, self.folder) {
                return (Some(resource), findings);
            }
            let mut findings = Findings::about(document.file);
            findings.resource = Some(head.id.clone()).filter(|id| !id.name.is_empty());
            let looks = Looks::at(self.folder, document.base);
            let scope = Scope::new(&head.id, &looks, self.base, self.index, done);
            let spec = decode(spec.as_ref(), &scope, &mut findings);
            let resource = spec.map(|spec| Arc::new(resource(document, spec)));
            if let Some(resource) = &resource {
                document.kept.put_resource(head, resource, &findings, looks);
            }
            (resource, findings)
        });
        let mut resources = Resources::new();
        for (resource, findings) in decoded {
            gathered.take(findings);
            if let Some(resource) = resource {
                resources.entry(resource.id.clone()).or_insert(resource);
            }
        }
        resources
    }
}

fn resource<T>(document: &Document<'_>, spec: T) -> Resource<T> {
    let head = &document.envelope.head;
    Resource {
        id: head.id.clone(),
        labels: head.labels.clone(),
        annotations: head.annotations.clone(),
        origin: Some((document.file.to_owned(), head.name_at)),
        spec,
    }
}

fn nothing_defined(root: &Path) -> Diagnostic {
    let path = root.to_string_lossy();
    let shown = if path.is_empty() || path == "." {
        "This folder".to_owned()
    } else {
        format!("`{path}`")
    };
    Diagnostic::new(Code::EMPTY, format!("{shown} defines no resource."))
        .suggest("add a `goondan.yaml` with a Model, an Agent and a Swarm")
}
