//! Resolves `spec.entry` to a built-in entry, a library or a module (rule T2).

use crate::base_package::BasePackage;
use crate::decode::FieldReader;
use crate::diagnostic::{Code, Diagnostic};
use crate::diagnostic_sink::DiagnosticSink;
use crate::kinds::{
    ConnectorEntry, EMBEDDED_ENTRY, ExtensionEntry, ScriptLanguage, ScriptModule, ToolEntry,
};
use crate::paths::PathLookups;
use crate::relative_paths::join_relative;
use crate::text::{closest, excerpt, format_alternatives, format_list};

/// Prefix of an entry that is built into this program.
pub(crate) const BUILTIN_PREFIX: &str = "builtin:";
/// Manifest of an executable custom tool, in the directory that the entry names.
pub(crate) const TOOL_MANIFEST: &str = "tool.yaml";
/// Prefix and suffix of a dynamic library on Linux, macOS and Windows.
const LIBRARY_FORMS: [(&str, &str); 3] = [("lib", ".so"), ("lib", ".dylib"), ("", ".dll")];

/// Suffix of an entry format that is reserved but not supported yet.
const WASM_SUFFIX: &str = ".wasm";

/// Returns true if the entry refers to a built-in implementation.
pub(crate) fn is_builtin(entry: &str) -> bool {
    entry.starts_with(BUILTIN_PREFIX)
}

/// Reads the entry of a Tool: built in, embedded, a script, a directory with a program, or a
/// library.
pub(crate) fn tool(
    field: &FieldReader<'_>,
    lookups: &PathLookups<'_>,
    base: &BasePackage,
    findings: &mut DiagnosticSink,
) -> Option<ToolEntry> {
    let text = field.text(findings)?;
    if let Some(name) = text.strip_prefix(BUILTIN_PREFIX) {
        let names: Vec<&str> = base.tools.iter().map(|tool| tool.name.as_str()).collect();
        return builtin_name(field, name, &names, findings).map(ToolEntry::Builtin);
    }
    // A path `./embedded` names a directory or a library.
    if text == EMBEDDED_ENTRY {
        return Some(ToolEntry::Embedded);
    }
    if let Some(diagnostic) = unsupported_form_error(field, text) {
        findings.add(diagnostic);
        return None;
    }
    let path = resolve_entry_path(field, text, lookups, findings)?;
    if let Some(language) = ScriptLanguage::of(&path) {
        return ScriptModule::find(field, &path, language, lookups, findings)
            .map(|module| ToolEntry::Module(Box::new(module)));
    }
    if lookups.is_folder(&path) {
        return executable_entry(field, &path, lookups, findings);
    }
    let instead = "to run a program, put it into a directory with a `tool.yaml` and write that \
        directory here";
    library_entry(field, &path, lookups, instead, findings).map(ToolEntry::Library)
}

/// Reads the entry of an Extension: built in, a script or a library. `names` are the built-in
/// extensions.
pub(crate) fn extension(
    field: &FieldReader<'_>,
    names: &[&str],
    lookups: &PathLookups<'_>,
    findings: &mut DiagnosticSink,
) -> Option<ExtensionEntry> {
    let text = field.text(findings)?;
    if let Some(name) = text.strip_prefix(BUILTIN_PREFIX) {
        return builtin_name(field, name, names, findings).map(ExtensionEntry::Builtin);
    }
    let path = resolve_entry_path(field, text, lookups, findings)?;
    match ScriptLanguage::of(&path) {
        Some(language) => {
            let module = ScriptModule::find(field, &path, language, lookups, findings)?;
            Some(ExtensionEntry::Module(Box::new(module)))
        }
        None => {
            let instead =
                "an extension is a library, or a file in JavaScript, TypeScript or Python";
            library_entry(field, &path, lookups, instead, findings).map(ExtensionEntry::Library)
        }
    }
}

/// Reads the entry of a Connector: built in, a script or a library. `names` are the built-in
/// connectors.
pub(crate) fn connector(
    field: &FieldReader<'_>,
    names: &[&str],
    lookups: &PathLookups<'_>,
    findings: &mut DiagnosticSink,
) -> Option<ConnectorEntry> {
    let text = field.text(findings)?;
    if let Some(name) = text.strip_prefix(BUILTIN_PREFIX) {
        return builtin_name(field, name, names, findings).map(ConnectorEntry::Builtin);
    }
    let path = resolve_entry_path(field, text, lookups, findings)?;
    match ScriptLanguage::of(&path) {
        Some(language) => {
            let module = ScriptModule::find(field, &path, language, lookups, findings)?;
            Some(ConnectorEntry::Module(Box::new(module)))
        }
        None => {
            let instead = "a connector is a library, or a file in JavaScript, TypeScript or Python";
            library_entry(field, &path, lookups, instead, findings).map(ConnectorEntry::Library)
        }
    }
}

/// Placeholder in an entry for the current platform.
const PLATFORM_PLACEHOLDER: &str = "{platform}";

/// Returns the name of the current platform, such as `linux-x86_64`.
pub(crate) fn platform() -> String {
    format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH)
}

/// Resolves the path of an entry, including a [`PLATFORM_PLACEHOLDER`] directory in it.
fn resolve_entry_path(
    field: &FieldReader<'_>,
    text: &str,
    lookups: &PathLookups<'_>,
    findings: &mut DiagnosticSink,
) -> Option<String> {
    let Some((before, after)) = text.split_once(PLATFORM_PLACEHOLDER) else {
        return lookups.path(field, findings);
    };
    let path = lookups.path_of(field, &format!("{before}{}{after}", platform()), findings)?;
    let is_part = (before.is_empty() || before.ends_with('/'))
        && (after.is_empty() || after.starts_with('/'));
    if !is_part {
        let message = format!(
            "`{PLATFORM_PLACEHOLDER}` must be a whole directory name in `{}`, not a part of a \
            name.",
            field.path
        );
        findings.add(
            field
                .invalid_value(message)
                .suggest("write something like `./lib/{platform}/name`"),
        );
        return None;
    }
    let above = lookups.path_of(field, before.trim_end_matches('/'), findings)?;
    let names = lookups.list_directory(&above).unwrap_or_default();
    let mut available: Vec<&str> = names
        .iter()
        .map(|(name, _)| name.as_str())
        .filter(|name| name.contains('-'))
        .collect();
    if available.contains(&platform().as_str()) {
        return Some(path);
    }
    available.sort_unstable();
    let others = if available.is_empty() {
        "nor for any other platform".to_owned()
    } else {
        format!("only for {}", format_list(&available, 8))
    };
    let message = format!(
        "`{}` has no library for {}, {others}.",
        field.path,
        platform()
    );
    let suggestion = if lookups.is_installed() {
        "use a version of the package that supports it, or ask its author".to_owned()
    } else {
        format!(
            "build it for this platform, and put it into `{}`",
            join_relative(&above, &platform())
        )
    };
    findings.add_not_built(
        field
            .diagnostic(Code::PACKAGE_PLATFORM, message)
            .suggest(suggestion),
    );
    None
}

/// Returns the name of a built-in entry; `None`, with an error, if it is not in `names`.
fn builtin_name(
    field: &FieldReader<'_>,
    name: &str,
    names: &[&str],
    findings: &mut DiagnosticSink,
) -> Option<String> {
    if names.contains(&name) {
        return Some(name.to_owned());
    }
    let name_excerpt = excerpt(name, 100);
    let diagnostic = field.diagnostic(
        Code::ENTRY_NOT_FOUND,
        format!("There is no built-in entry `{BUILTIN_PREFIX}{name_excerpt}`."),
    );
    findings.add(match closest(name, names) {
        Some(near) => field.did_you_mean(diagnostic, &format!("{BUILTIN_PREFIX}{near}")),
        None if names.is_empty() => diagnostic.suggest("there is no built-in entry for this kind"),
        None => diagnostic.suggest(format!("use {}", format_alternatives(names))),
    });
    None
}

/// Returns the error for an entry form that is not supported yet; `None` for other forms.
fn unsupported_form_error(field: &FieldReader<'_>, text: &str) -> Option<Diagnostic> {
    if text.starts_with("mcp:") {
        let message = "Entries of the form `mcp:` are not supported yet.";
        let instead = "write `mcp: {command: …}` or `mcp: {url: …}` in place of `entry`; `gdn mcp \
            import` does it for you";
        return Some(field.invalid_value(message).suggest(instead));
    }
    if !text.to_ascii_lowercase().ends_with(WASM_SUFFIX) {
        return None;
    }
    let message = format!("Entries in WebAssembly (`{WASM_SUFFIX}`) are not supported yet.");
    let instead = "write the tool in JavaScript, TypeScript or Python; or make it a program that \
        takes `--key=value` arguments, put it into a directory with a `tool.yaml`, and write \
        that directory here; or build a library (`gdn new tool --lang rust`)";
    Some(field.invalid_value(message).suggest(instead))
}

/// Returns the entry for a directory with a `tool.yaml`; `None`, with an error, if it has none.
fn executable_entry(
    field: &FieldReader<'_>,
    path: &str,
    lookups: &PathLookups<'_>,
    findings: &mut DiagnosticSink,
) -> Option<ToolEntry> {
    let manifest = join_relative(path, TOOL_MANIFEST);
    if lookups.is_file(&manifest) {
        return Some(ToolEntry::Executable(path.to_owned()));
    }
    let message = format!(
        "`{}` is the directory `{path}`, but there is no `{TOOL_MANIFEST}` in it.",
        field.path
    );
    let suggestion = if lookups.is_file(&join_relative(path, "Cargo.toml")) {
        "write the path of the library that `cargo build` creates, such as \
            `./target/release/name`"
    } else {
        "add a `tool.yaml`, or name a dynamic library"
    };
    findings.add(
        field
            .diagnostic(Code::ENTRY_NOT_FOUND, message)
            .suggest(suggestion),
    );
    None
}

/// Finds the library file that `path` means. `instead` is the suggestion for any other file.
fn library_entry(
    field: &FieldReader<'_>,
    path: &str,
    lookups: &PathLookups<'_>,
    instead: &str,
    findings: &mut DiagnosticSink,
) -> Option<String> {
    let candidates = library_candidates(path);
    if let Some(found) = candidates
        .iter()
        .find(|candidate| lookups.is_file(candidate))
    {
        // The written path was checked for links that leave the bundle, but the library file may be
        // another link.
        return check_inside_bundle(field, found, lookups, findings).then(|| {
            findings.depends_on(found.clone());
            found.clone()
        });
    }
    if lookups.is_file(path) {
        let diagnostic = field
            .diagnostic(
                Code::ENTRY_NOT_FOUND,
                format!("`{path}` is a file, but not a dynamic library."),
            )
            .suggest(instead);
        findings.add(diagnostic);
    } else {
        let message = format!(
            "`{}` is `{}`, but there is no library or directory at this path.",
            field.path,
            excerpt(path, 200)
        );
        let first = if findings.is_buildable() {
            "run `gdn build`"
        } else {
            "build the library first"
        };
        let names = format_alternatives(&usual_names(path));
        let suggestion = match handler_file(path) {
            Some(file) => format!(
                "write the path of the file, such as `./{file}`, and name the function in \
                    `exports: [{{name: …}}]`"
            ),
            None => format!("{first}, or correct the path; the file may be called {names}"),
        };
        findings.add_not_built(
            field
                .diagnostic(Code::ENTRY_NOT_FOUND, message)
                .suggest(suggestion),
        );
    }
    None
}

/// Returns the handler file if `entry` names a function as Python or Node.js programs do:
/// `tools/stats.py` for `tools.stats.mean` and `tools/stats.py:mean`.
fn handler_file(entry: &str) -> Option<String> {
    if let Some((file, function)) = entry.rsplit_once(':') {
        let is_code = [".py", ".ts", ".js"].iter().any(|end| file.ends_with(end));
        return (is_code && !function.contains('/'))
            .then(|| file.trim_start_matches("./").to_owned());
    }
    let (module, function) = entry.rsplit_once('.')?;
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let is_library = ["so", "dll", "dylib"].contains(&function);
    (module.split('.').all(is_word) && is_word(function) && !is_library)
        .then(|| format!("{}.py", module.replace('.', "/")))
}

/// Returns false, with an error, if the path is a link to a file outside the bundle.
fn check_inside_bundle(
    field: &FieldReader<'_>,
    path: &str,
    lookups: &PathLookups<'_>,
    findings: &mut DiagnosticSink,
) -> bool {
    let stays = !lookups.leaves_by_link(path);
    if !stays {
        let message = format!(
            "`{}` leads to `{path}`, a link to a file outside the bundle.",
            field.path
        );
        findings.add(
            field
                .diagnostic(Code::PATH_ESCAPE, message)
                .suggest("copy the file into the bundle"),
        );
    }
    stays
}

/// Returns the possible paths of a library: as written, then with each platform's prefix and
/// suffix. The current platform comes first.
pub fn library_candidates(path: &str) -> Vec<String> {
    let (folder, name) = path
        .rsplit_once('/')
        .map_or(("", path), |(folder, name)| (folder, name));
    let bare = bare_name(name);
    let mut forms = LIBRARY_FORMS;
    forms.sort_by_key(|(_, suffix)| *suffix != std::env::consts::DLL_SUFFIX);
    let mut candidates = Vec::new();
    if bare != name {
        candidates.push(path.to_owned());
    }
    for (prefix, suffix) in forms {
        for bare in [bare.to_owned(), bare.replace('-', "_")] {
            candidates.push(join_relative(folder, &format!("{prefix}{bare}{suffix}")));
            if !prefix.is_empty() {
                candidates.push(join_relative(folder, &format!("{bare}{suffix}")));
            }
        }
    }
    let mut seen_paths = Vec::with_capacity(candidates.len());
    candidates.retain(|candidate| {
        !seen_paths.contains(candidate) && {
            seen_paths.push(candidate.clone());
            true
        }
    });
    candidates
}

/// Returns the file names that compilers use for a library on Linux, macOS and Windows.
fn usual_names(path: &str) -> [String; 3] {
    let bare = bare_name(file_name(path)).replace('-', "_");
    LIBRARY_FORMS.map(|(prefix, suffix)| format!("{prefix}{bare}{suffix}"))
}

/// Returns the library name without the prefix and suffix of a system.
fn bare_name(name: &str) -> &str {
    match LIBRARY_FORMS
        .iter()
        .find_map(|(_, suffix)| name.strip_suffix(suffix))
    {
        Some(stem) => stem.strip_prefix("lib").unwrap_or(stem),
        None => name,
    }
}

/// Returns the last part of a path.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_names_of_every_platform_are_candidates() {
        let candidates = library_candidates("tools/text-utils");
        for name in [
            "libtext_utils.so",
            "libtext_utils.dylib",
            "text_utils.dll",
            "text-utils.so",
            "text_utils.so",
        ] {
            assert!(
                candidates.contains(&format!("tools/{name}")),
                "{name} in {candidates:?}"
            );
        }
        assert!(library_candidates("libx.so").contains(&"x.dll".to_owned()));
        assert_eq!(library_candidates("a/libx.dylib")[0], "a/libx.dylib");
    }
}
