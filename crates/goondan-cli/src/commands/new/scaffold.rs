//! What `gdn new tool` writes. The files lie in `templates/tool/`, so that they can be read as what they are; those in C are
//! the example and the header that the tests build, and a crate is the one that `custom-tools` writes, too.

use std::path::{Path, PathBuf};

pub(super) const CARGO: &str = include_str!("../../../../goondan-abi/templates/library.toml");
const RUST: &str = include_str!("../../../../goondan-abi/templates/library.rs");
const PROJECT: &str = include_str!("../../../templates/tool/goondan.yaml");
const SCRIPT: &str = include_str!("../../../templates/tool/script.yaml");
const CASE: &str = include_str!("../../../templates/tool/case.yaml");
const RESOURCE: &str = include_str!("../../../templates/tool/resource.yaml");
const EXPORTS: &str = include_str!("../../../templates/tool/exports.yaml");
const JAVASCRIPT: &str = include_str!("../../../templates/tool/tool.mjs");
const TYPESCRIPT: &str = include_str!("../../../templates/tool/tool.ts");
const PYTHON: &str = include_str!("../../../templates/tool/tool.py");
const C: &str = include_str!("../../../../../examples/plugins/c-reverse/reverse.c");
pub(super) const HEADER: &str = include_str!("../../../../../include/goondan_plugin.h");

/// What builds a crate. The folder is stated because a variable or a setting of Cargo may put it elsewhere.
pub(super) const RUST_BUILD: &str = "[cargo, build, --release, --target-dir, target]";
/// What the folder of a library in C ignores.
pub(super) const LIBRARIES: &str = "*.so\n*.dylib\n*.dll\n";

/// What builds the library `name` from `file`.
pub(super) fn c_build(file: &str, name: &str) -> String {
    format!("[cc, -shared, -fPIC, -I, ., {file}, -o, lib{name}.so]")
}

/// What the example in C calls itself.
const C_NAME: &str = "c-reverse";
/// The longest name of a resource (rule L6).
const NAME_LIMIT: usize = 63;

/// A file that is to be written.
#[derive(Debug)]
pub(super) struct File {
    /// From the current folder on.
    pub(super) path: PathBuf,
    /// With the tool's name filled in.
    pub(super) text: String,
}

/// What a tool is written in.
#[derive(Debug)]
pub(super) enum Language {
    /// A crate.
    Rust {
        /// What `Cargo.toml` says of the SDK.
        sdk: String,
    },
    /// A file and a header.
    C,
    /// A file that a runtime runs.
    Module(Module),
}

/// A file that a runtime runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Module {
    file: &'static str,
    text: &'static str,
    /// The program without which its case is skipped; empty where there are several that would do.
    needs: &'static str,
}

impl Module {
    /// In JavaScript.
    pub(super) const JAVASCRIPT: Module = Module { file: "tool.mjs", text: JAVASCRIPT, needs: "needs: [node]\n" };
    /// In TypeScript.
    pub(super) const TYPESCRIPT: Module = Module { file: "tool.ts", text: TYPESCRIPT, needs: "" };
    /// In Python.
    pub(super) const PYTHON: Module = Module { file: "tool.py", text: PYTHON, needs: "needs: [python3]\n" };
}

/// A tool that is to be written.
#[derive(Debug)]
pub(super) struct Scaffold<'a> {
    pub(super) name: &'a str,
    pub(super) language: &'a Language,
}

impl Scaffold<'_> {
    /// The tool itself, with a project around it to try it.
    pub(super) fn files(&self, folder: &Path) -> Vec<File> {
        let name = self.name;
        let code: &[(&str, String)] = match self.language {
            Language::Rust { .. } => &[
                ("Cargo.toml", self.filled(CARGO)),
                ("src/lib.rs", self.filled(RUST)),
                (".gitignore", "/target\n".to_owned()),
            ],
            Language::C => &[
                ("tool.c", C.replace(C_NAME, name)),
                ("goondan_plugin.h", HEADER.to_owned()),
                (".gitignore", LIBRARIES.to_owned()),
            ],
            Language::Module(module) => &[(module.file, module.text.to_owned())],
        };
        let case = format!("{name}.case.yaml");
        let around =
            [("goondan.yaml", self.filled(PROJECT)), ("script.yaml", self.filled(SCRIPT)), (&case, self.filled(CASE))];
        let files = code.iter().cloned().chain(around);
        files.map(|(path, text)| File { path: folder.join(path), text }).collect()
    }

    /// The Tool resource of the project in `root`, around the tool's folder (relative to it, with `/` between its parts).
    pub(super) fn resource(&self, root: &Path, folder: &str) -> File {
        let path = root.join("tools").join(format!("{}.yaml", self.name));
        File { path, text: self.filled(RESOURCE).replace("__FOLDER__", folder) }
    }

    fn filled(&self, template: &str) -> String {
        let (entry, build, sdk) = match self.language {
            Language::Rust { sdk } => (format!("target/release/{}", self.name), RUST_BUILD.to_owned(), sdk.as_str()),
            Language::C => (self.name.to_owned(), c_build("tool.c", self.name), ""),
            Language::Module(module) => (module.file.to_owned(), String::new(), ""),
        };
        let template = match self.language {
            Language::Module(module) => template
                .replace("  build: __BUILD__\n", EXPORTS)
                .replace("  build: {command: __BUILD__, cwd: __FOLDER__}\n", EXPORTS)
                .replace("project: .\n", &format!("{}project: .\n", module.needs)),
            Language::Rust { .. } | Language::C => template.to_owned(),
        };
        let short: String = self.name.chars().take(NAME_LIMIT - "try-".len()).collect();
        template
            .replace("__ABOUT__", "Turn text around")
            .replace("__EXPORT__", "reverse")
            .replace("__INPUT__", "Reverse")
            .replace("__SDK__", sdk)
            .replace("__ENTRY__", &entry)
            .replace("__BUILD__", &build)
            .replace("__SHORT__", &short)
            .replace("__NAME__", self.name)
    }
}
