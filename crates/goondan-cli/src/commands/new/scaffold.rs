//! What `gdn new` writes. The files lie in `templates/`, so that they can be read as what they are; a tool in C and its header
//! are the example and the header that the tests build, and a crate is the one that `custom-tools` writes, too.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::commands::init::NAME_LIMIT;

const CARGO: &str = include_str!("../../../../goondan-abi/templates/library.toml");
const HEADER: &str = include_str!("../../../../../include/goondan_plugin.h");
/// What the folder of a crate ignores.
const TARGET: &str = "/target\n";
/// What the folder of a library in C ignores.
const LIBRARIES: &str = "*.so\n*.dylib\n*.dll\n";

/// What builds a crate. The folder is stated because a variable or a setting of Cargo may put it elsewhere.
const RUST_BUILD: &str = "[cargo, build, --release, --target-dir, target]";
/// What the example in C calls itself.
const C_NAME: &str = "c-reverse";

/// What something new is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Lang {
    /// A crate that uses the SDK
    Rust,
    /// One file and its headers
    C,
    /// A file that Node.js, Bun or Deno runs
    Js,
    /// A file that Bun, Node.js or Deno runs
    Ts,
    /// A file that Python runs
    Python,
}

impl Lang {
    /// Whether it has to be built before it runs.
    pub(super) fn is_built(self) -> bool {
        matches!(self, Lang::Rust | Lang::C)
    }

    /// The line of a case that says without which program it is skipped. Several would do for TypeScript.
    fn needs(self) -> &'static str {
        match self {
            Lang::Js => "needs: [node]\n",
            Lang::Python => "needs: [python3]\n",
            Lang::Rust | Lang::C | Lang::Ts => "",
        }
    }
}

/// Something that can be made anew.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) article: &'static str,
    /// The folder of a project that holds such things, and their name where there are several.
    pub(super) folder: &'static str,
    /// The kind by which agents name it in that list; they do not name all.
    pub(super) used_as: Option<&'static str>,
    /// What to try it with; what people type while it is served, without it.
    pub(super) input: Option<&'static str>,
    /// The files of its code; but for a crate, the main one first.
    code: &'static [(Lang, &'static [Template])],
    /// The project around it.
    project: &'static str,
    script: &'static str,
    case: &'static str,
    /// What a project that is there gets.
    resource: &'static str,
    /// What stands in its resource instead of the command that builds it, where there is none.
    unbuilt: &'static str,
    /// What else is put in place of what.
    filled: &'static [(&'static str, &'static str)],
}

/// The path of a file, and its text.
type Template = (&'static str, &'static str);

pub(super) const TOOL: Subject = Subject {
    name: "tool",
    article: "a",
    folder: "tools",
    used_as: Some("Tool"),
    input: Some("stressed"),
    code: &[
        (
            Lang::Rust,
            &[
                ("Cargo.toml", CARGO),
                (
                    "src/lib.rs",
                    include_str!("../../../../goondan-abi/templates/library.rs"),
                ),
                (".gitignore", TARGET),
            ],
        ),
        (
            Lang::C,
            &[
                (
                    "tool.c",
                    include_str!("../../../../../examples/plugins/c-reverse/reverse.c"),
                ),
                ("goondan_plugin.h", HEADER),
                (".gitignore", LIBRARIES),
            ],
        ),
        (
            Lang::Js,
            &[("tool.mjs", include_str!("../../../templates/tool/tool.mjs"))],
        ),
        (
            Lang::Ts,
            &[("tool.ts", include_str!("../../../templates/tool/tool.ts"))],
        ),
        (
            Lang::Python,
            &[("tool.py", include_str!("../../../templates/tool/tool.py"))],
        ),
    ],
    project: include_str!("../../../templates/tool/goondan.yaml"),
    script: include_str!("../../../templates/tool/script.yaml"),
    case: include_str!("../../../templates/tool/case.yaml"),
    resource: include_str!("../../../templates/tool/resource.yaml"),
    unbuilt: include_str!("../../../templates/tool/exports.yaml"),
    filled: &[
        ("__ABOUT__", "Turn text around"),
        ("__EXPORT__", "reverse"),
        ("__INPUT__", "Reverse"),
    ],
};

pub(super) const EXTENSION: Subject = Subject {
    name: "extension",
    article: "an",
    folder: "extensions",
    used_as: Some("Extension"),
    input: Some("hello"),
    code: &[
        (
            Lang::Rust,
            &[
                ("Cargo.toml", CARGO),
                (
                    "src/lib.rs",
                    include_str!("../../../../goondan-abi/templates/extension.rs"),
                ),
                (".gitignore", TARGET),
            ],
        ),
        (
            Lang::C,
            &[
                (
                    "extension.c",
                    include_str!("../../../templates/extension/extension.c"),
                ),
                (
                    "json.h",
                    include_str!("../../../../../examples/plugins/c-layers/json.h"),
                ),
                ("goondan_plugin.h", HEADER),
                (".gitignore", LIBRARIES),
            ],
        ),
        (
            Lang::Js,
            &[(
                "extension.mjs",
                include_str!("../../../templates/extension/extension.mjs"),
            )],
        ),
        (
            Lang::Ts,
            &[(
                "extension.ts",
                include_str!("../../../templates/extension/extension.ts"),
            )],
        ),
        (
            Lang::Python,
            &[(
                "extension.py",
                include_str!("../../../templates/extension/extension.py"),
            )],
        ),
    ],
    project: include_str!("../../../templates/extension/goondan.yaml"),
    script: include_str!("../../../templates/extension/script.yaml"),
    case: include_str!("../../../templates/extension/case.yaml"),
    resource: include_str!("../../../templates/extension/resource.yaml"),
    unbuilt: "",
    // An extension has no parameters that need a schema.
    filled: &[("schemars = \"1\"\n", "")],
};

pub(super) const CONNECTOR: Subject = Subject {
    name: "connector",
    article: "a",
    folder: "connectors",
    used_as: None,
    input: None,
    code: &[
        (
            Lang::Rust,
            &[
                ("Cargo.toml", CARGO),
                (
                    "src/lib.rs",
                    include_str!("../../../../goondan-abi/templates/connector.rs"),
                ),
                (".gitignore", TARGET),
            ],
        ),
        (
            Lang::Js,
            &[(
                "connector.mjs",
                include_str!("../../../templates/connector/connector.mjs"),
            )],
        ),
        (
            Lang::Ts,
            &[(
                "connector.ts",
                include_str!("../../../templates/connector/connector.ts"),
            )],
        ),
        (
            Lang::Python,
            &[(
                "connector.py",
                include_str!("../../../templates/connector/connector.py"),
            )],
        ),
    ],
    project: include_str!("../../../templates/connector/goondan.yaml"),
    script: include_str!("../../../templates/connector/script.yaml"),
    case: include_str!("../../../templates/connector/case.yaml"),
    resource: include_str!("../../../templates/connector/resource.yaml"),
    unbuilt: "",
    // A connector has no parameters of its own.
    filled: &[
        ("schemars = \"1\"\n", ""),
        ("serde = { version = \"1\", features = [\"derive\"] }\n", ""),
    ],
};

impl Subject {
    /// The languages that it can be written in.
    pub(super) fn langs(&self) -> impl Iterator<Item = Lang> {
        self.code.iter().map(|(lang, _)| *lang)
    }
}

/// A file that is to be written.
#[derive(Debug)]
pub(super) struct File {
    /// From the current folder on.
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// Something that is to be written.
#[derive(Debug)]
pub(super) struct Scaffold<'a> {
    pub(super) subject: &'static Subject,
    pub(super) name: &'a str,
    pub(super) lang: Lang,
    /// What `Cargo.toml` says of the SDK; empty where there is none.
    pub(super) sdk: &'a str,
}

impl Scaffold<'_> {
    /// The thing itself, with a project around it to try it.
    pub(super) fn files(&self, folder: &Path) -> Vec<File> {
        let Subject {
            project,
            script,
            case,
            ..
        } = self.subject;
        let case_file = format!("{}.case.yaml", self.name);
        let around = [
            ("goondan.yaml", *project),
            ("script.yaml", *script),
            (&*case_file, *case),
        ];
        let files = self.code().iter().copied().chain(around);
        files
            .map(|(path, text)| File {
                path: folder.join(path),
                text: self.filled(text),
            })
            .collect()
    }

    /// The resource of the project in `root`, around the thing's folder (relative to it, with `/` between its parts).
    pub(super) fn resource(&self, root: &Path, folder: &str) -> File {
        let path = root
            .join(self.subject.folder)
            .join(format!("{}.yaml", self.name));
        File {
            path,
            text: self
                .filled(self.subject.resource)
                .replace("__FOLDER__", folder),
        }
    }

    fn code(&self) -> &'static [Template] {
        self.subject
            .code
            .iter()
            .find(|(lang, _)| *lang == self.lang)
            .map_or(&[], |(_, files)| files)
    }

    fn filled(&self, template: &str) -> String {
        let (name, main) = (self.name, self.code().first().map_or("", |(path, _)| path));
        let (entry, build) = match self.lang {
            Lang::Rust => (format!("target/release/{name}"), RUST_BUILD.to_owned()),
            Lang::C => (
                name.to_owned(),
                format!("[cc, -shared, -fPIC, -I, ., {main}, -o, lib{name}.so]"),
            ),
            Lang::Js | Lang::Ts | Lang::Python => (main.to_owned(), String::new()),
        };
        let short: String = name.chars().take(NAME_LIMIT - "try-".len()).collect();
        let mut text = template.to_owned();
        if !self.lang.is_built() {
            for line in [
                "  build: __BUILD__\n",
                "  build: {command: __BUILD__, cwd: __FOLDER__}\n",
            ] {
                text = text.replace(line, self.subject.unbuilt);
            }
        }
        let own = [
            ("__SDK__", self.sdk),
            ("__NEEDS__", self.lang.needs()),
            ("__ENTRY__", &entry),
            ("__BUILD__", &build),
            ("__SHORT__", &short),
            ("__NAME__", name),
            (C_NAME, name),
        ];
        let all = self.subject.filled.iter().copied().chain(own);
        all.fold(text, |text, (place, filling)| text.replace(place, filling))
    }
}
