//! Templates of `gdn new`. The files are in `templates/`, so that they can be read as they are.
//! The C tool and its header are the example that the tests build. The crate is shared with
//! `custom-tools`.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::commands::init::MAX_NAME_LENGTH;

const CARGO_MANIFEST: &str = include_str!("../../../../goondan-abi/templates/library.toml");
const C_HEADER: &str = include_str!("../../../../../include/goondan_plugin.h");
/// `.gitignore` of a crate.
const CRATE_GITIGNORE: &str = "/target\n";
/// `.gitignore` of a C library.
const LIBRARY_GITIGNORE: &str = "*.so\n*.dylib\n*.dll\n";

/// Build command of a crate. It states the directory, because Cargo settings may change the
/// default.
const RUST_BUILD_COMMAND: &str = "[cargo, build, --release, --target-dir, target]";
/// Name in the C example, to be replaced.
const C_EXAMPLE_NAME: &str = "c-reverse";

/// Language of the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ScaffoldLanguage {
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

impl ScaffoldLanguage {
    /// Returns true if code in this language needs a build.
    pub(super) fn is_built(self) -> bool {
        matches!(self, ScaffoldLanguage::Rust | ScaffoldLanguage::C)
    }

    /// Test case line that skips the case without the runtime. TypeScript runs on several runtimes.
    fn needs(self) -> &'static str {
        match self {
            ScaffoldLanguage::Js => "needs: [node]\n",
            ScaffoldLanguage::Python => "needs: [python3]\n",
            ScaffoldLanguage::Rust | ScaffoldLanguage::C | ScaffoldLanguage::Ts => "",
        }
    }
}

/// Kind of scaffold.
#[derive(Debug)]
pub(super) struct ScaffoldKind {
    pub(super) name: &'static str,
    pub(super) article: &'static str,
    /// Directory of a project for such resources, and their plural.
    pub(super) folder: &'static str,
    /// Resource kind in references of agents; `None` if agents do not reference it.
    pub(super) used_as: Option<&'static str>,
    /// Input with which the new project is tried; `None` if the project is served instead.
    pub(super) input: Option<&'static str>,
    /// Files per language. Except for crates, the main file is first.
    code: &'static [(ScaffoldLanguage, &'static [TemplateSource])],
    /// Manifest of the project around it.
    project: &'static str,
    script: &'static str,
    case: &'static str,
    /// Resource for an existing project.
    resource: &'static str,
    /// Replacement for the build line, in languages without a build.
    unbuilt: &'static str,
    /// Further placeholders with their values.
    filled: &'static [(&'static str, &'static str)],
}

/// Path and content of a file.
type TemplateSource = (&'static str, &'static str);

pub(super) const TOOL: ScaffoldKind = ScaffoldKind {
    name: "tool",
    article: "a",
    folder: "tools",
    used_as: Some("Tool"),
    input: Some("stressed"),
    code: &[
        (
            ScaffoldLanguage::Rust,
            &[
                ("Cargo.toml", CARGO_MANIFEST),
                (
                    "src/lib.rs",
                    include_str!("../../../../goondan-abi/templates/library.rs"),
                ),
                (".gitignore", CRATE_GITIGNORE),
            ],
        ),
        (
            ScaffoldLanguage::C,
            &[
                (
                    "tool.c",
                    include_str!("../../../../../examples/plugins/c-reverse/reverse.c"),
                ),
                ("goondan_plugin.h", C_HEADER),
                (".gitignore", LIBRARY_GITIGNORE),
            ],
        ),
        (
            ScaffoldLanguage::Js,
            &[("tool.mjs", include_str!("../../../templates/tool/tool.mjs"))],
        ),
        (
            ScaffoldLanguage::Ts,
            &[("tool.ts", include_str!("../../../templates/tool/tool.ts"))],
        ),
        (
            ScaffoldLanguage::Python,
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

pub(super) const EXTENSION: ScaffoldKind = ScaffoldKind {
    name: "extension",
    article: "an",
    folder: "extensions",
    used_as: Some("Extension"),
    input: Some("hello"),
    code: &[
        (
            ScaffoldLanguage::Rust,
            &[
                ("Cargo.toml", CARGO_MANIFEST),
                (
                    "src/lib.rs",
                    include_str!("../../../../goondan-abi/templates/extension.rs"),
                ),
                (".gitignore", CRATE_GITIGNORE),
            ],
        ),
        (
            ScaffoldLanguage::C,
            &[
                (
                    "extension.c",
                    include_str!("../../../templates/extension/extension.c"),
                ),
                (
                    "json.h",
                    include_str!("../../../../../examples/plugins/c-layers/json.h"),
                ),
                ("goondan_plugin.h", C_HEADER),
                (".gitignore", LIBRARY_GITIGNORE),
            ],
        ),
        (
            ScaffoldLanguage::Js,
            &[(
                "extension.mjs",
                include_str!("../../../templates/extension/extension.mjs"),
            )],
        ),
        (
            ScaffoldLanguage::Ts,
            &[(
                "extension.ts",
                include_str!("../../../templates/extension/extension.ts"),
            )],
        ),
        (
            ScaffoldLanguage::Python,
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

pub(super) const CONNECTOR: ScaffoldKind = ScaffoldKind {
    name: "connector",
    article: "a",
    folder: "connectors",
    used_as: None,
    input: None,
    code: &[
        (
            ScaffoldLanguage::Rust,
            &[
                ("Cargo.toml", CARGO_MANIFEST),
                (
                    "src/lib.rs",
                    include_str!("../../../../goondan-abi/templates/connector.rs"),
                ),
                (".gitignore", CRATE_GITIGNORE),
            ],
        ),
        (
            ScaffoldLanguage::Js,
            &[(
                "connector.mjs",
                include_str!("../../../templates/connector/connector.mjs"),
            )],
        ),
        (
            ScaffoldLanguage::Ts,
            &[(
                "connector.ts",
                include_str!("../../../templates/connector/connector.ts"),
            )],
        ),
        (
            ScaffoldLanguage::Python,
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
    // A connector has no parameters.
    filled: &[
        ("schemars = \"1\"\n", ""),
        ("serde = { version = \"1\", features = [\"derive\"] }\n", ""),
    ],
};

impl ScaffoldKind {
    /// Returns the languages that this kind of scaffold supports.
    pub(super) fn langs(&self) -> impl Iterator<Item = ScaffoldLanguage> {
        self.code.iter().map(|(lang, _)| *lang)
    }
}

/// File to write.
#[derive(Debug)]
pub(super) struct ScaffoldFile {
    /// Path relative to the current directory.
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// Scaffold with all its choices.
#[derive(Debug)]
pub(super) struct ScaffoldPlan<'a> {
    pub(super) subject: &'static ScaffoldKind,
    pub(super) name: &'a str,
    pub(super) lang: ScaffoldLanguage,
    /// SDK dependency for `Cargo.toml`; empty if there is none.
    pub(super) sdk: &'a str,
}

impl ScaffoldPlan<'_> {
    /// Returns the code and a project to try it.
    pub(super) fn files(&self, folder: &Path) -> Vec<ScaffoldFile> {
        let ScaffoldKind {
            project,
            script,
            case,
            ..
        } = self.subject;
        let case_file = format!("{}.case.yaml", self.name);
        let project_files = [
            ("goondan.yaml", *project),
            ("script.yaml", *script),
            (&*case_file, *case),
        ];
        let files = self.code_files().iter().copied().chain(project_files);
        files
            .map(|(path, text)| ScaffoldFile {
                path: folder.join(path),
                text: self.fill_placeholders(text),
            })
            .collect()
    }

    /// Returns the resource for the project in `root`. `folder` is relative, with `/` separators.
    pub(super) fn resource(&self, root: &Path, folder: &str) -> ScaffoldFile {
        let path = root
            .join(self.subject.folder)
            .join(format!("{}.yaml", self.name));
        ScaffoldFile {
            path,
            text: self
                .fill_placeholders(self.subject.resource)
                .replace("__FOLDER__", folder),
        }
    }

    /// Returns the code files in the chosen language.
    fn code_files(&self) -> &'static [TemplateSource] {
        self.subject
            .code
            .iter()
            .find(|(lang, _)| *lang == self.lang)
            .map_or(&[], |(_, files)| files)
    }

    /// Returns the template with all placeholders replaced.
    fn fill_placeholders(&self, template: &str) -> String {
        let (name, main) = (
            self.name,
            self.code_files().first().map_or("", |(path, _)| path),
        );
        let (entry, build) = match self.lang {
            ScaffoldLanguage::Rust => (
                format!("target/release/{name}"),
                RUST_BUILD_COMMAND.to_owned(),
            ),
            ScaffoldLanguage::C => (
                name.to_owned(),
                format!("[cc, -shared, -fPIC, -I, ., {main}, -o, lib{name}.so]"),
            ),
            ScaffoldLanguage::Js | ScaffoldLanguage::Ts | ScaffoldLanguage::Python => {
                (main.to_owned(), String::new())
            }
        };
        let short_name: String = name.chars().take(MAX_NAME_LENGTH - "try-".len()).collect();
        let mut text = template.to_owned();
        if !self.lang.is_built() {
            for line in [
                "  build: __BUILD__\n",
                "  build: {command: __BUILD__, cwd: __FOLDER__}\n",
            ] {
                text = text.replace(line, self.subject.unbuilt);
            }
        }
        let common_placeholders = [
            ("__SDK__", self.sdk),
            ("__NEEDS__", self.lang.needs()),
            ("__ENTRY__", &entry),
            ("__BUILD__", &build),
            ("__SHORT__", &short_name),
            ("__NAME__", name),
            (C_EXAMPLE_NAME, name),
        ];
        let placeholders = self
            .subject
            .filled
            .iter()
            .copied()
            .chain(common_placeholders);
        placeholders.fold(text, |text, (placeholder, value)| {
            text.replace(placeholder, value)
        })
    }
}
