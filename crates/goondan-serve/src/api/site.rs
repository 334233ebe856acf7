//! Pages that are delivered beside the swarm, so that they need no server of their own.

use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use goondan::spec::Code;
use tower_http::services::ServeDir;

use crate::problem::Problem;

/// The files of a folder.
pub(super) fn files(folder: &Path) -> ServeDir {
    ServeDir::new(folder)
}

/// Answers with the file that a request is for. Names that begin with a dot stay private: whoever publishes a folder seldom
/// means its `.env` or `.git`.
///
/// Whoever writes into the folder, such as an agent, can make links there. So what counts is where a path leads: nothing outside of the
/// folder is delivered, and nothing private below it.
pub(super) async fn file(folder: PathBuf, mut files: ServeDir, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let leads = tokio::task::spawn_blocking(move || leads_inside(&folder, &path)).await;
    if !leads.unwrap_or(false) {
        return super::nothing_there().await.into_response();
    }
    match files.try_call(request).await {
        Ok(response) if response.status() == StatusCode::NOT_FOUND => {
            super::nothing_there().await.into_response()
        }
        Ok(response) => response.map(Body::new),
        Err(error) => Problem::new(
            Code::INTERNAL_ERROR,
            format!("The file can't be read: {error}."),
        )
        .into_response(),
    }
}

/// The page that is delivered for a folder.
const INDEX: &str = "index.html";

/// Whether what lies at the path of an address is below the folder, and private neither by the name that it was asked by nor by its own.
fn leads_inside(folder: &Path, path: &str) -> bool {
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
    let index = place.join(INDEX);
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
            assert!(leads_inside(&site, fine), "{fine}");
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
            assert!(!leads_inside(&site, wrong), "{wrong}");
        }
    }
}
