//! Stages from a directory to a bundle. Every stage collects diagnostics; the last one decides.

mod decode_stage;
mod documents;
mod findings;
mod views;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::decode_stage::DecodeStage;
use self::documents::{add_derived_documents, make_index, read_all, read_files, read_installed};
use self::findings::LoadFindings;
use self::views::{build_outline, expand};
use crate::base_package::BasePackage;
use crate::bundle::Bundle;
use crate::decoded_resources::DecodedResources;
use crate::diagnostic::{Code, Diagnostic};
use crate::discover::discover_files;
use crate::files::{FileAccess, FileKind};
use crate::kinds::ToolBuild;
use crate::lint::{self, SpecPositions};
use crate::lock::LOCK_FILE;
use crate::meta::Kind;
use crate::outline::BundleOutline;
use crate::parsed_file::{KnownFiles, ParsedFile, has_unread_documents};
use crate::paths::BundleDirectory;
use crate::source::SourceTexts;
use crate::text::reason;
use crate::{dependency_cycles, packages};

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
    /// Fields under older names, with the fixes that rename them. Not warnings, because older names
    /// are valid.
    pub renames: Vec<Diagnostic>,
    /// Texts that the diagnostics point into.
    pub sources: SourceTexts,
    /// Build instructions of tools in load order, including tools that are not built yet.
    pub builds: Vec<ToolBuild>,
}

/// Loads a bundle (rules L1 to L10) and reports all errors of all files in one run.
pub fn load(input: LoadInput<'_>) -> LoadResult {
    // Without files of an earlier load, `load_again` reads all files.
    let known_files = KnownFiles::default();
    let loaded = load_again(input, &known_files);
    known_files.free_in_background();
    loaded
}

/// Works like [`load`], but reuses unchanged files of earlier loads from `known`, and stores the
/// files of this load in it.
pub fn load_again(input: LoadInput<'_>, known: &KnownFiles) -> LoadResult {
    run(input, known, |_, _, _| ()).0
}

/// Works like [`load_again`] and also returns the outline.
pub fn load_with_outline(input: LoadInput<'_>, known: &KnownFiles) -> (LoadResult, BundleOutline) {
    let (loaded, outline) = run(input, known, build_outline);
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
    let discovered = discover_files(input.files, &root);
    let mut gathered = LoadFindings::starting_with(discovered.diagnostics.clone());
    let mut files = read_files(&folder, &discovered, known, &mut gathered);
    let own_package = packages::own_package_name(&files.own).map(str::to_owned);
    let own_package = own_package.as_deref();
    let mut installed = read_installed(&folder, &files, known, &mut gathered);
    add_derived_documents(&mut files, &mut installed, gathered.is_clean());
    let documents = read_all(&files.own, own_package, &installed, &mut gathered);
    let built_in = known.built_in(input.base);
    let mut index = make_index(&documents, built_in, &mut gathered);
    index.restrict_reach(installed.reach.clone(), installed.absent.clone());
    let read = documents
        .iter()
        .filter(|document| document.base.is_empty())
        .count();
    index.set_unread_files(discovered.unread.clone());
    index.set_partial(!discovered.diagnostics.is_empty() || has_unread_documents(&files.own, read));
    let stage = DecodeStage {
        folder: &folder,
        index: &index,
        base: input.base,
        built_in,
        documents: &documents,
        files: &files.own,
    };
    let decoded = stage.decode_all(&mut gathered);
    let environment = look(&stage, &decoded, &mut gathered);
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
    let package_files = installed.members.iter().flat_map(|member| &member.files);
    gathered
        .file_names
        .extend(package_files.map(|file| file.name.clone()));
    gathered
        .file_names
        .extend((!installed.members.is_empty()).then(|| LOCK_FILE.to_owned()));
    if documents.is_empty() && gathered.is_clean() {
        gathered.diagnostics.push(no_resources_error(&root));
    }
    if gathered.is_clean() {
        let specs = documents
            .iter()
            .filter_map(|document| Some((document.id(), document.envelope.spec.as_ref()?)));
        gathered
            .diagnostics
            .extend(lint::lint_bundle(&decoded, &SpecPositions::new(specs)));
    }
    gathered.drop_package_warnings();
    let all_files = files.own.into_iter().chain(
        installed
            .members
            .iter()
            .flat_map(|member| member.files.iter().cloned()),
    );
    let all_files: Vec<Arc<ParsedFile>> = all_files.collect();
    let packages = installed
        .members
        .into_iter()
        .map(|member| member.package)
        .collect();
    (
        gathered.finish(root.clone(), decoded, all_files, packages),
        Some(environment),
    )
}

/// Works like [`load_again`] and also returns the project's resources as YAML, with all short forms
/// written out. Secrets are masked.
pub fn load_expanded(input: LoadInput<'_>, known: &KnownFiles) -> (LoadResult, String) {
    let (loaded, written) = run(input, known, |stage, _, gathered| expand(stage, gathered));
    (loaded, written.unwrap_or_default())
}

/// Returns the project directory for a directory or its `goondan.yaml`.
fn find_root(path: &Path, files: &dyn FileAccess) -> Result<PathBuf, Diagnostic> {
    let shown_path = path.display();
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
            format!("`{shown_path}` is neither a directory nor a `goondan.yaml`."),
        )
        .suggest("use the directory that contains the `goondan.yaml`")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Diagnostic::new(
            Code::PARSE_ERROR,
            format!("`{shown_path}` does not exist."),
        )
        .suggest("check the path; use the directory that contains the `goondan.yaml`")),
        Err(error) => Err(Diagnostic::new(
            Code::PARSE_ERROR,
            format!("`{shown_path}` cannot be read: {}.", reason(&error)),
        )
        .suggest("check that you may read it")),
    }
}

/// Creates the error for a project without resources.
fn no_resources_error(root: &Path) -> Diagnostic {
    let path = root.to_string_lossy();
    let shown_path = if path.is_empty() || path == "." {
        "This directory".to_owned()
    } else {
        format!("`{path}`")
    };
    Diagnostic::new(Code::EMPTY, format!("{shown_path} defines no resource."))
        .suggest("add a `goondan.yaml` with a Model, an Agent and a Swarm")
}
