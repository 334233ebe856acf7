//! Static pages served by the swarm's server, so that they need no second server.

use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use goondan::spec::Code;
use tower_http::services::ServeDir;

use crate::problem::ApiProblem;

pub(super) fn files(folder: &Path) -> ServeDir {
    ServeDir::new(folder)
}

/// Serves the requested file. Names that begin with a dot stay private: a published directory may
/// contain `.env` or `.git`.
///
/// Programs that can write to the directory, such as agents, can create symbolic links. The
/// resolved path therefore decides: it must be inside the directory and not private there.
pub(super) async fn file(folder: PathBuf, mut files: ServeDir, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let leads = tokio::task::spawn_blocking(move || resolves_inside(&folder, &path)).await;
    if !leads.unwrap_or(false) {
        return super::nothing_there().await.into_response();
    }
    match files.try_call(request).await {
        Ok(response) if response.status() == StatusCode::NOT_FOUND => {
            super::nothing_there().await.into_response()
        }
        Ok(response) => response.map(Body::new),
        Err(error) => ApiProblem::new(
            Code::INTERNAL_ERROR,
            format!("The file cannot be read: {error}."),
        )
        .into_response(),
    }
}

/// Page served for a directory.
const INDEX_FILE_NAME: &str = "index.html";

/// Returns true if the resolved path is inside the directory. Neither the requested nor the
/// resolved path may be private.
fn resolves_inside(folder: &Path, path: &str) -> bool {
    let path = percent_encoding::percent_decode_str(path).decode_utf8_lossy();
    let is_hidden = |name: &str| name.starts_with('.');
    let parts = || path.split(['/', '\\']).filter(|name| !name.is_empty());
    let Ok(root) = folder.canonicalize() else {
        return false;
    };
    let is_inside = |place: &Path| {
        let below = place
            .canonicalize()
            .ok()
            .and_then(|real| Some(real.strip_prefix(&root).ok()?.to_owned()));
        below.is_some_and(|below| !below.iter().any(|name| is_hidden(&name.to_string_lossy())))
    };
    let place = folder.join(parts().collect::<PathBuf>());
    let index = place.join(INDEX_FILE_NAME);
    !parts().any(is_hidden)
        && is_inside(&place)
        && (!place.is_dir() || !index.exists() || is_inside(&index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn no_link_leads_out_of_a_site() {
        use std::fs;
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let (site, outside) = (dir.path().join("site"), dir.path().join("outside"));
        for folder in [
            &site.join("sub"),
            &site.join(".private"),
            &site.join("out"),
            &outside,
        ] {
            fs::create_dir_all(folder).unwrap();
        }
        for file in [
            site.join("index.html"),
            site.join("sub/a b"),
            site.join(".private/x"),
            outside.join("secret"),
        ] {
            fs::write(file, "x").unwrap();
        }
        for (target, link) in [
            ("../outside/secret", "leak"),
            ("../outside", "folder"),
            ("leak", "chain"),
            (".private/x", "shown"),
            ("../../outside/secret", "out/index.html"),
            ("sub", "inside"),
        ] {
            symlink(target, site.join(link)).unwrap();
        }
        for fine in [
            "/",
            "",
            "/index.html",
            "/sub/a%20b",
            "//sub//a b",
            "/inside/a%20b",
            "/sub",
        ] {
            assert!(resolves_inside(&site, fine), "{fine}");
        }
        for wrong in [
            "/leak",
            "/folder/secret",
            "/chain",
            "/shown",
            "/out/",
            "/out",
            "/.private/x",
            "/%2e%2e/outside/secret",
            "/..%2foutside%2fsecret",
            "/sub\\..\\..\\outside",
            "/missing",
        ] {
            assert!(!resolves_inside(&site, wrong), "{wrong}");
        }
    }
}
