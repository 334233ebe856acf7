//! Templates of new custom tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sdk;

/// The language of a new tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Template {
    Go,
    Rust,
    #[serde(rename = "rust-lib")]
    RustLib,
    #[default]
    Sh,
    Python,
}

pub(super) struct Scaffold {
    /// Path below the directory, contents, and true for an executable file.
    pub(super) files: Vec<(String, String, bool)>,
    /// Instructions, in order.
    pub(super) next: Vec<String>,
}

pub(super) fn scaffold(template: Template, name: &str, description: &str) -> Scaffold {
    let (entrypoint, source, build) = match template {
        Template::Sh => (format!("{name}.sh"), (format!("{name}.sh"), SH, true), None),
        Template::Python => (
            format!("{name}.py"),
            (format!("{name}.py"), PYTHON, true),
            None,
        ),
        Template::Go => (
            name.to_owned(),
            (format!("{name}.go"), GO, false),
            Some(format!("go build -o {name} {name}.go")),
        ),
        Template::RustLib => {
            let library = library_file(name);
            let source = ("src/lib.rs".to_owned(), RUST_LIB, false);
            (
                format!("target/release/{library}"),
                source,
                Some("cargo build --release".to_owned()),
            )
        }
        Template::Rust => {
            let program = format!("target/release/{name}");
            (
                program,
                ("src/main.rs".to_owned(), RUST, false),
                Some("cargo build --release".to_owned()),
            )
        }
    };
    let filled = |text: &str| {
        text.replace("{{name}}", name)
            .replace("__NAME__", name)
            .replace("__EXPORT__", "run")
            .replace("__INPUT__", "Run")
            .replace("{{quoted}}", &quoted(description))
            .replace("__ABOUT__", &one_line(description))
    };
    let mut files = vec![
        (
            "tool.yaml".to_owned(),
            filled(MANIFEST).replace("{{entrypoint}}", &entrypoint),
            false,
        ),
        (source.0.clone(), filled(source.1), source.2),
    ];
    match template {
        Template::Rust => files.push(("Cargo.toml".to_owned(), filled(CARGO), false)),
        Template::RustLib => {
            files.push((
                "Cargo.toml".to_owned(),
                filled(CARGO_LIB).replace("__SDK__", &sdk::dependency()),
                false,
            ));
        }
        Template::Go | Template::Sh | Template::Python => {}
    }
    let mut next = vec![
        format!("write what it does into {}", source.0),
        match template {
            Template::RustLib => {
                "its parameters are the fields of the struct there; tool.yaml needs none".to_owned()
            }
            _ => "declare its parameters in tool.yaml: they arrive as --name=value".to_owned(),
        },
    ];
    next.extend(build.map(|build| format!("build it: run `{build}` in its folder")));
    next.push(format!("call custom-tools__run with tool_name {name}"));
    Scaffold { files, next }
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
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

const MANIFEST: &str = "\
name: {{name}}
description: {{quoted}}
version: 1.0.0
entrypoint: {{entrypoint}}
usage: |
  Say here what it expects and what it prints.
parameters: []
#  - name: since
#    type: string        # string, number, integer or boolean
#    required: true
#    description: What it means
";

const SH: &str = "\
#!/bin/sh
# Arguments arrive as --name=value; GOONDAN_WORKSPACE is the folder to work in.
set -eu

for argument in \"$@\"; do
  case \"$argument\" in
    # --since=*) since=${argument#*=} ;;
    *) echo \"unknown argument: $argument\" >&2; exit 2 ;;
  esac
done

echo \"{{name}} does nothing yet\"
";

const PYTHON: &str = "\
#!/usr/bin/env python3
import argparse
import os

parser = argparse.ArgumentParser()
# parser.add_argument(\"--since\")
arguments = parser.parse_args()
workspace = os.environ[\"GOONDAN_WORKSPACE\"]

print(\"{{name}} does nothing yet\")
";

const GO: &str = "\
package main

import (
\t\"flag\"
\t\"fmt\"
\t\"os\"
)

func main() {
\t// since := flag.String(\"since\", \"\", \"What it means\")
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

const CARGO: &str = "\
[package]
name = \"{{name}}\"
version = \"1.0.0\"
edition = \"2024\"

# Not a part of the project around it.
[workspace]
";

const RUST: &str = "\
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
const CARGO_LIB: &str = include_str!("../../../goondan-abi/templates/library.toml");

/// The source code of a library, which `gdn new tool` also uses.
const RUST_LIB: &str = include_str!("../../../goondan-abi/templates/library.rs");
