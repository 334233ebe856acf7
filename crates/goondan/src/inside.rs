//! What the command and the case runner need beside the public API. Nobody else should: it may change at any time.

/// The command keeps its history, and `doctor` looks at folders, with the rights of their owner alone.
pub use goondan_core::private;
/// Cases look for the answers to asynchronous requests; recordings, for those that came as a call.
pub use goondan_core::reserved::{ANSWER_TOOL, INTER_AGENT_RESPONSE};
/// `policy explain` checks the arguments that it is given.
pub use goondan_core::schema::ArgumentSchema;
/// `validate` says from how many tokens on tools are deferred.
pub use goondan_engine::plan::DEFER_TOKENS;
/// The command's log, and what cases look for in every file, hold no secret.
pub use goondan_engine::policy::redact::{Redacted, Redactor, forms_of};
/// What was meant by a name that is none.
pub use goondan_spec::closest;
/// Cases look for the secrets that are masked wherever they appear.
pub use goondan_spec::value::Masking;
/// `validate --fix` repairs files, and the language server looks at them.
pub use goondan_spec::{BasePackage, Files, OsFiles, repair::Repair};
/// The command edits the dependencies of a project, and lists those that are installed.
pub use goondan_spec::{installed::installed_folder, manifest_edit};
/// Diagnostics are printed with the lines that they are about; `gdn schema` prints the schemas; texts of strangers are
/// escaped; cases are YAML, too.
pub use goondan_spec::{render, schema::schemas, shown, yaml};
/// Cases look at the files of an instance.
pub use goondan_store::jsonl::layout;

/// What is built in.
pub use crate::project::base;

/// What tells the files of the package in `folder` from any others.
pub fn contents(folder: &std::path::Path) -> std::io::Result<String> {
    goondan_spec::contents::contents(&OsFiles, folder)
}

/// What the certain fixes make of the project at `root`.
pub fn repair(root: &std::path::Path, files: &dyn Files) -> Vec<Repair> {
    goondan_spec::repair::repair(goondan_spec::LoadInput {
        root,
        files,
        base: base(),
    })
}
