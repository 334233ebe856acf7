//! Items for the `gdn` command and the test runner only. They may change at any time.

/// Locks of small files, for the chat history and for edits of a project.
pub use goondan_core::file_lock;
/// Files that no link can replace, for static pages of the server.
pub use goondan_core::nofollow_fs;
/// Paths in JSON that need not be UTF-8, for the output of commands.
pub use goondan_core::path_json;
/// Files that only their owner can access, for the chat history and other private files of the
/// command, and for the directory checks of `doctor`.
pub use goondan_core::private_files;
/// Working directory for programs that the command starts for itself.
pub use goondan_core::program_search::directory_outside_projects;
/// Paths without links, for directories that a command must not publish.
pub use goondan_core::real_path::real_path;
/// Names of asynchronous responses, for test cases and recordings.
pub use goondan_core::reserved_names::{ANSWER_TOOL, INTER_AGENT_RESPONSE_KEY};
/// Argument validation, for `policy explain`.
pub use goondan_core::schema::ArgumentSchema;
/// Token threshold for deferred tools, for `validate`.
pub use goondan_engine::plan::DEFER_TOKENS;
/// Masking of secrets, for the log of the command and for checks in test cases.
pub use goondan_engine::policy::redact::{RedactingWriter, SecretRedactor, forms_of};
/// Suggestion for a misspelled name.
pub use goondan_spec::closest;
/// Names of the optional environment files, for `validate`.
pub use goondan_spec::env_files::OPTIONAL_ENV_FILES;
/// Kinds of directory entries, for implementations of [`FileAccess`].
pub use goondan_spec::files::FileKind;
/// YAML scalars for texts, for new resources.
pub use goondan_spec::fix::scalar as yaml_scalar;
/// Regular files of a project, with a limit, for commands that edit them.
pub use goondan_spec::regular_file;
/// Files with keys, which static pages of the server must not show.
pub use goondan_spec::secret_files;
/// Masked secrets, for test cases.
pub use goondan_spec::value::SecretMasking;
/// File access and fixes, for `validate --fix` and the language server.
pub use goondan_spec::{BasePackage, FileAccess, OsFiles, repair::RepairedFile};
/// Edits of a project's dependencies, and its installed packages.
pub use goondan_spec::{installed_packages::installed_folder, manifest_edit};
/// Line ends of a file, for text that is added to it.
pub use goondan_spec::{line_end_at, with_line_end};
/// Rendering of diagnostics, JSON Schemas, escaping of foreign strings, and YAML parsing.
pub use goondan_spec::{render, schema::schemas, untrusted_text, yaml};
/// File layout of an instance, for test cases.
pub use goondan_store::jsonl::layout;

/// Built-in package.
pub use crate::start::project::base;

/// Returns the digest of the package files in `folder`.
pub fn contents(folder: &std::path::Path) -> std::io::Result<String> {
    goondan_spec::content_hash::contents(&OsFiles, folder)
}

/// Loads the project at `path` through `files`, for a check of unsaved changes.
pub fn load_through(path: &std::path::Path, files: &dyn FileAccess) -> crate::Project {
    crate::start::project::load_again(path, files, &goondan_spec::KnownFiles::default())
}

/// Loads the project at `path`, and returns its resources as YAML with short forms written out.
pub fn expand(path: &std::path::Path) -> (crate::Project, String) {
    crate::start::project::load_expanded(path)
}

/// Returns the safe fixes for the project at `root`.
pub fn repair(root: &std::path::Path, files: &dyn FileAccess) -> Vec<RepairedFile> {
    goondan_spec::repair::repair(goondan_spec::LoadInput {
        root,
        files,
        base: base(),
    })
}
