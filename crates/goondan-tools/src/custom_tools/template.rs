//! Templates of new custom tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sdk_location;

/// The language of a new tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ToolTemplate {
    Go,
    Rust,
    #[serde(rename = "rust-lib")]
    RustLib,
    #[default]
    Sh,
    Python,
}

pub(super) struct ToolScaffold {
    /// Path below the directory, contents, and true for an executable file.
    pub(super) files: Vec<(String, String, bool)>,
    /// Instructions, in order.
    pub(super) next: Vec<String>,
}

/// Returns the files of a new custom tool, and the instructions for its author.
pub(super) fn build_scaffold(
    template: ToolTemplate,
    name: &str,
    description: &str,
) -> ToolScaffold {
    let (entrypoint, source, build) = match template {
        ToolTemplate::Sh => (
            format!("{name}.sh"),
            (format!("{name}.sh"), SHELL_TEMPLATE, true),
            None,
        ),
        ToolTemplate::Python => (
            format!("{name}.py"),
            (format!("{name}.py"), PYTHON_TEMPLATE, true),
            None,
        ),
        ToolTemplate::Go => (
            name.to_owned(),
            (format!("{name}.go"), GO_TEMPLATE, false),
            Some(format!("go build -o {name} {name}.go")),
        ),
        ToolTemplate::RustLib => {
            let library = library_file(name);
            let source = ("src/lib.rs".to_owned(), LIBRARY_SOURCE_TEMPLATE, false);
            (
                format!("target/release/{library}"),
                source,
                Some("cargo build --release".to_owned()),
            )
        }
        ToolTemplate::Rust => {
            let program = format!("target/release/{name}");
            (
                program,
                ("src/main.rs".to_owned(), RUST_TEMPLATE, false),
                Some("cargo build --release".to_owned()),
            )
        }
    };
    let fill_placeholders = |text: &str| {
        text.replace("{{name}}", name)
            .replace("__NAME__", name)
            .replace("__EXPORT__", "run")
            .replace("__INPUT__", "Run")
            .replace("{{quoted}}", &quote_string(description))
            .replace("__ABOUT__", &one_line(description))
    };
    let mut files = vec![
        (
            "tool.yaml".to_owned(),
            fill_placeholders(MANIFEST_TEMPLATE).replace("{{entrypoint}}", &entrypoint),
            false,
        ),
        (source.0.clone(), fill_placeholders(source.1), source.2),
    ];
    match template {
        ToolTemplate::Rust => files.push((
            "Cargo.toml".to_owned(),
            fill_placeholders(CARGO_MANIFEST_TEMPLATE),
            false,
        )),
        ToolTemplate::RustLib => {
            files.push((
                "Cargo.toml".to_owned(),
                fill_placeholders(LIBRARY_MANIFEST_TEMPLATE)
                    .replace("__SDK__", &sdk_location::sdk_dependency()),
                false,
            ));
        }
        ToolTemplate::Go | ToolTemplate::Sh | ToolTemplate::Python => {}
    }
    let mut next = vec![
        format!("write the code of the tool in {}", source.0),
        match template {
            ToolTemplate::RustLib => {
                "its parameters are the fields of the struct in that file; do not repeat them in \
                tool.yaml"
                    .to_owned()
            }
            _ => "declare its parameters in tool.yaml: they arrive as --name=value".to_owned(),
        },
    ];
    next.extend(build.map(|build| format!("build it: run `{build}` in its directory")));
    next.push(format!("call custom-tools__run with tool_name {name}"));
    ToolScaffold { files, next }
}

/// Returns the file name that cargo uses for a library with this name.
fn library_file(name: &str) -> String {
    use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
    format!("{DLL_PREFIX}{}{DLL_SUFFIX}", name.replace('-', "_"))
}

/// Makes a string fit into a comment.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Quotes a string in a form that YAML and Rust read alike.
fn quote_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

const MANIFEST_TEMPLATE: &str = "\
name: {{name}}
description: {{quoted}}
version: 1.0.0
entrypoint: {{entrypoint}}
usage: |
  Describe the input and the output here.
parameters: []
#  - name: since
#    type: string        # string, number, integer or boolean
#    required: true
#    description: Its meaning
";

const SHELL_TEMPLATE: &str = "\
#!/bin/sh
# Arguments arrive as --name=value; GOONDAN_WORKSPACE is the working directory.
set -eu

for argument in \"$@\"; do
  case \"$argument\" in
    # --since=*) since=${argument#*=} ;;
    *) echo \"unknown argument: $argument\" >&2; exit 2 ;;
  esac
done

echo \"{{name}} does nothing yet\"
";

const PYTHON_TEMPLATE: &str = "\
#!/usr/bin/env python3
import argparse
import os

parser = argparse.ArgumentParser()
# parser.add_argument(\"--since\")
arguments = parser.parse_args()
workspace = os.environ[\"GOONDAN_WORKSPACE\"]

print(\"{{name}} does nothing yet\")
";

const GO_TEMPLATE: &str = "\
package main

import (
\t\"flag\"
\t\"fmt\"
\t\"os\"
)

func main() {
\t// since := flag.String(\"since\", \"\", \"its meaning\")
\tflag.Parse()
\tworkspace := os.Getenv(\"GOONDAN_WORKSPACE\")
\tif workspace == \"\" {
\t\tfmt.Fprintln(os.Stderr, \"GOONDAN_WORKSPACE is not set\")
\t\tos.Exit(1)
\t}

\twriteOutput(\"{{name}} does nothing yet\")
}

func writeOutput(result string) {
\tfmt.Println(result)
}
";

const CARGO_MANIFEST_TEMPLATE: &str = "\
[package]
name = \"{{name}}\"
version = \"1.0.0\"
edition = \"2024\"

# Not a member of a surrounding workspace.
[workspace]
";

const RUST_TEMPLATE: &str = "\
fn main() {
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            // Some((\"--since\", value)) => {}
            _ => {
                eprintln!(\"unknown argument: {argument}\");
                std::process::exit(2);
            }
        }
    }
    println!(\"{{name}} does nothing yet\");
}
";

/// The Cargo manifest of a library, which `gdn new tool` also uses.
const LIBRARY_MANIFEST_TEMPLATE: &str = include_str!("../../../goondan-abi/templates/library.toml");

/// The source code of a library, which `gdn new tool` also uses.
const LIBRARY_SOURCE_TEMPLATE: &str = include_str!("../../../goondan-abi/templates/library.rs");
