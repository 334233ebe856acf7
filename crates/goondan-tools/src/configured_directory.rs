//! Directories that the configuration of a tool names.
//!
//! A program of an agent can replace such a directory with a link, and a cloned project can contain
//! one. So links are followed only where no agent could have made them.

use std::path::{Component, Path, PathBuf};

use goondan_core::ports::tool::{HandlerError, ToolContext};
use goondan_core::real_path::real_path;
use goondan_spec::Code;

use crate::sandbox::{resolved_once, stated_place};

/// Returns the directory `stated` as a path without links; `None` if it starts with `~/` and there is
/// no home directory. The directory need not exist.
///
/// # Errors
///
/// Fails if a link leads to the directory: any link below the project for a relative path, and for
/// another path a link in the project, in the working directory, or in a directory that every user
/// may write to.
pub(crate) fn configured_directory(
    ctx: &ToolContext,
    stated: &str,
) -> Result<Option<PathBuf>, HandlerError> {
    let project = resolved_once(&ctx.project_dir);
    let Some(place) = stated_directory(stated, &project, &ctx.workdir) else {
        return Ok(None);
    };
    match real_path(&place) {
        Ok(real) if real == place => Ok(Some(place)),
        _ => Err(link_error(stated, &place)),
    }
}

/// Returns the directory `stated`, in which a link remains if it must not be followed.
fn stated_directory(stated: &str, project: &Path, workdir: &Path) -> Option<PathBuf> {
    let replaceable = [project, workdir];
    match stated.strip_prefix("~/") {
        Some(below) => {
            let home = std::env::home_dir().filter(|home| home.is_absolute())?;
            Some(stated_place(&home.join(below), &replaceable))
        }
        None if Path::new(stated).is_absolute() => {
            Some(stated_place(Path::new(stated), &replaceable))
        }
        None => Some(resolve_below(project, Path::new(stated))),
    }
}

/// Returns `base`, which contains no links, with the components of `path`.
fn resolve_below(base: &Path, path: &Path) -> PathBuf {
    let mut place = base.to_owned();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(place.pop()),
            part => place.push(part),
        }
    }
    place
}

/// Returns the error for a directory with a link in its path.
fn link_error(stated: &str, place: &Path) -> HandlerError {
    HandlerError::new(format!(
        "the configured directory `{stated}` is not used, because its path {} contains a symbolic link",
        place.display()
    ))
    .code(Code::TOOL_PATH_ESCAPE)
    .suggest(
        "The operator can replace the link with a directory, or state the target of the link in the \
        tool's `config`.",
    )
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn configured_directories_inside_the_project_must_not_contain_links() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (project, victim) = (base.join("project"), base.join("victim"));
        for folder in [&project.join("lib/deep"), &victim, &base.join("shared")] {
            std::fs::create_dir_all(folder).unwrap();
        }
        symlink(&victim, project.join("linked")).unwrap();
        symlink("lib", project.join("inside")).unwrap();
        symlink(&victim, base.join("beside")).unwrap();
        let resolve_stated = |stated: &str| {
            let place = stated_directory(stated, &project, &project.join("lib")).unwrap();
            (real_path(&place).unwrap() == place).then_some(place)
        };
        let absolute = |path: &str| base.join(path).display().to_string();
        for (stated, expected) in [
            ("lib/deep", project.join("lib/deep")),
            ("./new/", project.join("new")),
            ("../shared", base.join("shared")),
            (&absolute("project/lib"), project.join("lib")),
            // This link is outside the project, so no agent could have created it.
            (&absolute("beside"), victim.clone()),
        ] {
            assert_eq!(resolve_stated(stated), Some(expected), "{stated}");
        }
        for stated in ["linked", "linked/x", "inside/deep", "../beside"] {
            assert_eq!(resolve_stated(stated), None, "{stated}");
        }
        for path in ["project/linked", "project/inside"] {
            assert_eq!(resolve_stated(&absolute(path)), None, "{path}");
        }
    }
}
