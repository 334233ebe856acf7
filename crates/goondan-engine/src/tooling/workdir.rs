//! Working directory of a call: created if missing, and checked against links.

use std::io;
use std::path::{Path, PathBuf};

use goondan_core::ports::tool::HandlerError;
use goondan_core::private_files;
use goondan_core::real_path::real_path;
use goondan_spec::Code;

use super::dispatch::ToolCallContext;

/// Returns the working directory of a call with links resolved; creates it if missing. Checked for
/// every call, because links in its path may have changed since it was configured.
pub(super) async fn prepare_workdir(context: &ToolCallContext) -> Result<PathBuf, HandlerError> {
    let workdir = &context.facts.workdir;
    let real = resolve_inside(context.facts.anchor.as_deref(), workdir)?;
    if !workdir.is_dir() {
        let is_own = *workdir == context.engine.store.workdir(&context.facts.instance);
        create_workdir(workdir, is_own).await.map_err(|cause| {
            HandlerError::new(format!(
                "failed to create the working directory {}: {cause}",
                workdir.display()
            ))
        })?;
    }
    // Canonical paths on Windows start with `\\?\`, which many programs do not accept.
    Ok(if cfg!(unix) { real } else { workdir.clone() })
}

/// Creates `workdir`. With `is_own`, only this user can access it: the instance's own directory is
/// private state. Any other directory belongs to the project and gets the usual permissions.
async fn create_workdir(workdir: &Path, is_own: bool) -> io::Result<()> {
    if is_own {
        private_files::create_directory(workdir)
    } else {
        tokio::fs::create_dir_all(workdir).await
    }
}

/// Resolves links in `workdir`, which need not exist. Fails if the result is outside `anchor`, the
/// directory that must contain it.
fn resolve_inside(anchor: Option<&Path>, workdir: &Path) -> Result<PathBuf, HandlerError> {
    let real = real_path(workdir).unwrap_or_else(|_| workdir.to_owned());
    if anchor.is_some_and(|anchor| !real.starts_with(anchor)) {
        let message = format!(
            "the working directory {} is a link to another directory",
            workdir.display()
        );
        return Err(HandlerError::new(message)
            .code(Code::TOOL_PATH_ESCAPE)
            .suggest("Replace the link with a directory."));
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_link_out_of_the_anchor_directory_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let anchor = folder.path().canonicalize().unwrap().join("project");
        std::fs::create_dir_all(anchor.join("sub")).unwrap();
        for (name, target) in [
            ("up", ".."),
            ("root", "/"),
            ("later", "../not-there-yet"),
            ("down", "sub"),
        ] {
            std::os::unix::fs::symlink(target, anchor.join(name)).unwrap();
        }
        for name in ["up", "root", "later", "up/x"] {
            assert!(
                resolve_inside(Some(&anchor), &anchor.join(name)).is_err(),
                "{name}"
            );
        }
        assert_eq!(
            resolve_inside(Some(&anchor), &anchor.join("down")).unwrap(),
            anchor.join("sub")
        );
        // A directory that was resolved when it was configured must stay free of links.
        let named = anchor.join("moved");
        assert!(resolve_inside(Some(&named), &named).is_ok());
        std::os::unix::fs::symlink("/", &named).unwrap();
        assert!(resolve_inside(Some(&named), &named).is_err());
    }
}
