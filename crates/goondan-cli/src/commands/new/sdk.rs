//! Source of `goondan-abi` for a new crate.
//!
//! The crate is on no registry. A `gdn` built from a checkout uses that checkout while it exists,
//! so that tool and program match. Any other `gdn` uses the repository.

use std::path::{Path, PathBuf};

use goondan::internal::regular_file;

use crate::exit::CliError;
use crate::input_files::MAX_PROJECT_FILE_BYTES;

/// Crate in the checkout that this program was built in.
const BUILD_CHECKOUT_SDK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../goondan-abi");
const SDK_CRATE_NAME: &str = "goondan-abi";

/// Returns the content between the braces of the dependency. `tool` is the new crate's directory.
pub(super) fn dependency(given: Option<&Path>, tool: &Path) -> Result<String, CliError> {
    let sdk_folder = match given {
        Some(given) => Some(find_crate(given).ok_or_else(|| {
            CliError::configuration(format!(
                "The crate `{SDK_CRATE_NAME}` is not in `{}`.",
                given.display()
            ))
            .suggest(
                "Pass `--sdk` the directory of a gdn checkout, or of that crate in the \
                checkout.",
            )
        })?),
        None => find_crate(Path::new(BUILD_CHECKOUT_SDK)),
    };
    Ok(match sdk_folder {
        Some(folder) => format!("path = {}", toml_string(&sdk_path(tool, &folder))),
        None => format!("git = {}", toml_string(env!("CARGO_PKG_REPOSITORY"))),
    })
}

/// Finds the crate at `folder`, or in the checkout at `folder`. The path is canonical.
fn find_crate(folder: &Path) -> Option<PathBuf> {
    let is_crate = |folder: &PathBuf| {
        let manifest = regular_file::read_text(&folder.join("Cargo.toml"), MAX_PROJECT_FILE_BYTES)
            .unwrap_or_default();
        manifest
            .lines()
            .any(|line| line.replace(' ', "") == format!("name=\"{SDK_CRATE_NAME}\""))
    };
    let candidates = [
        folder.to_owned(),
        folder.join("crates").join(SDK_CRATE_NAME),
    ];
    candidates.into_iter().find(is_crate)?.canonicalize().ok()
}

/// Returns the path of the SDK.
/// It is relative within one checkout, so that the checkout can move; otherwise absolute.
fn sdk_path(tool: &Path, sdk: &Path) -> String {
    let checkout = sdk.ancestors().nth(2);
    let current_dir = std::env::current_dir().and_then(|current_dir| current_dir.canonicalize());
    let tool = current_dir.ok().map(|current_dir| current_dir.join(tool));
    let inside = checkout.zip(tool.as_deref()).and_then(|(checkout, tool)| {
        let (down, up) = (
            sdk.strip_prefix(checkout).ok()?,
            tool.strip_prefix(checkout).ok()?,
        );
        let up = up
            .components()
            .filter(|part| *part != std::path::Component::CurDir);
        let is_plain =
            |part: &std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
        let depth = up.clone().all(|part| is_plain(&part)).then(|| up.count())?;
        Some(Path::new(&"../".repeat(depth)).join(down))
    });
    inside
        .unwrap_or_else(|| sdk.to_owned())
        .to_string_lossy()
        .replace('\\', "/")
}

/// Quotes the text as a TOML string.
fn toml_string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sdk_is_found_in_the_checkout_of_this_program() {
        let expected = dependency(None, Path::new("/somewhere/else")).unwrap();
        assert!(
            expected.starts_with("path = \"/") && expected.ends_with("/crates/goondan-abi\""),
            "{expected}"
        );
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        assert_eq!(
            dependency(Some(&checkout), Path::new("/somewhere/else")).unwrap(),
            expected
        );
        let inside = checkout.canonicalize().unwrap().join("examples/x");
        assert_eq!(
            dependency(None, &inside).unwrap(),
            "path = \"../../crates/goondan-abi\""
        );
    }

    #[test]
    fn a_directory_without_the_sdk_is_refused() {
        let error = dependency(Some(Path::new("/")), Path::new("x")).unwrap_err();
        assert!(error.message.contains("goondan-abi"), "{error}");
    }
}
