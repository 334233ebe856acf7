//! Static pages served by the swarm's server, so that they need no second server.

use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use goondan::internal::nofollow_fs::{FileOpenMode, open_without_links};
use goondan::internal::secret_files::is_declared;
use goondan::spec::Code;
use tower_http::services::ServeFile;

use crate::problem::ApiProblem;

/// Page served for a directory.
const INDEX_FILE_NAME: &str = "index.html";

/// Limit of directory entries that are searched for the names of a file.
#[cfg(unix)]
const MAX_SEARCHED_ENTRIES: usize = 200_000;

/// The answer to the path of a request.
#[derive(Debug)]
enum SiteEntry {
    /// A file, which stays the same if its path changes.
    Page { file: File, path: PathBuf },
    /// A directory whose address lacks the final slash.
    Directory,
}

/// Serves the requested file of the directory `folder`, a real path. Names that begin with a dot
/// stay private: a published directory may contain `.env` or `.git`. A file with another name outside
/// of the site, or with a private one, also stays private.
///
/// Programs that can write to the directory, such as agents, can create symbolic links at any
/// time, also instead of the directory itself. The file is therefore opened once, without links in its
/// whole path, and that descriptor is served.
pub(super) async fn file(folder: PathBuf, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let entry = tokio::task::spawn_blocking(move || find(&folder, &path)).await;
    match entry.ok().flatten() {
        Some(SiteEntry::Page { file, path }) => serve_file(&file, &path, request).await,
        Some(SiteEntry::Directory) => add_slash(&request),
        None => super::fallbacks::unknown_path_error().await.into_response(),
    }
}

/// Serves a file of a mounted directory.
async fn serve_file(file: &File, path: &Path, request: Request) -> Response {
    let media_type = mime_guess::from_path(path).first_or_octet_stream();
    let mut files = ServeFile::new_with_mime(served_path(file, path), &media_type);
    match files.try_call(request).await {
        Ok(response) if response.status() == StatusCode::NOT_FOUND => {
            super::fallbacks::unknown_path_error().await.into_response()
        }
        Ok(response) => response.map(Body::new),
        Err(error) => ApiProblem::new(
            Code::INTERNAL_ERROR,
            format!("The file cannot be read: {error}."),
        )
        .into_response(),
    }
}

/// Returns a path that leads to the open file. Only Linux has such a path with a separate read
/// position for each reader; on other systems, the original path is opened again.
#[cfg(target_os = "linux")]
fn served_path(file: &File, _path: &Path) -> PathBuf {
    use std::os::fd::AsRawFd as _;
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Returns the path of the opened file.
#[cfg(not(target_os = "linux"))]
fn served_path(_file: &File, path: &Path) -> PathBuf {
    path.to_owned()
}

/// Redirects to the address of the directory, so that relative links in its page work.
fn add_slash(request: &Request) -> Response {
    let parts = request.uri().path().split('/');
    // A path must not become the address of another host.
    let path: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    let query = request.uri().query();
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    Redirect::temporary(&format!("/{}/{query}", path.join("/"))).into_response()
}

/// Opens the file for a path below the real path `root`. Returns `None` if there is none, or if the
/// requested or the resolved path leads out of the directory or is private.
fn find(root: &Path, path: &str) -> Option<SiteEntry> {
    let is_directory_path = path.is_empty() || path.ends_with('/');
    let decoded = percent_encoding::percent_decode_str(path).decode_utf8_lossy();
    let parts = || decoded.split(['/', '\\']).filter(|name| !name.is_empty());
    if parts().any(is_hidden) {
        return None;
    }
    let resolve = |place: &Path| {
        let real = place.canonicalize().ok()?;
        let below = real.strip_prefix(root).ok()?;
        let is_private = below.iter().any(|name| is_hidden(&name.to_string_lossy()));
        let is_private = is_private || is_declared(&real);
        (!is_private).then_some(real)
    };
    let mut real = resolve(&root.join(parts().collect::<PathBuf>()))?;
    if real.is_dir() {
        let index = resolve(&real.join(INDEX_FILE_NAME))?;
        if !is_directory_path {
            return (!decoded.contains('\\')).then_some(SiteEntry::Directory);
        }
        real = index;
    }
    let file = open_without_links(&real, FileOpenMode::Read).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() {
        return None;
    }
    if has_other_names(root, &metadata) {
        tracing::warn!(
            file = %real.display(),
            "a file of the site is not served, because it has a hard link that is not a page of the \
            site; replace it with a copy"
        );
        return None;
    }
    Some(SiteEntry::Page { file, path: real })
}

/// Returns true for a name that stays private.
fn is_hidden(name: &str) -> bool {
    name.starts_with('.')
}

/// Returns true if a file has a hard link outside of the site or with a private name. Also returns
/// true if the site has too many entries to search. A file with such a link may contain keys,
/// because no list has the names of all files with keys.
#[cfg(unix)]
fn has_other_names(root: &Path, metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |metadata: &Metadata| (metadata.dev(), metadata.ino());
    let mut missing = metadata.nlink();
    let wanted = identity(metadata);
    if missing < 2 {
        return false;
    }
    let mut folders = vec![root.to_owned()];
    let mut searched = 0;
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            searched += 1;
            if searched > MAX_SEARCHED_ENTRIES {
                return true;
            }
            if is_hidden(&entry.file_name().to_string_lossy()) || is_declared(&entry.path()) {
                continue;
            }
            match entry.metadata() {
                Ok(found) if found.is_dir() => folders.push(entry.path()),
                Ok(found) if identity(&found) == wanted => missing -= 1,
                Ok(_) | Err(_) => {}
            }
            if missing == 0 {
                return false;
            }
        }
    }
    true
}

/// Returns false: the system reports no identity of files.
#[cfg(not(unix))]
fn has_other_names(_: &Path, _: &Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn links_cannot_leave_the_site_directory() {
        use std::fs;
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (site, outside) = (base.join("site"), base.join("outside"));
        for directory in [
            &site.join("sub"),
            &site.join(".private"),
            &site.join("out"),
            &outside,
        ] {
            fs::create_dir_all(directory).unwrap();
        }
        for file in [
            site.join("index.html"),
            site.join("sub/a b"),
            site.join("sub/index.html"),
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
        for allowed in [
            "/",
            "",
            "/index.html",
            "/sub/a%20b",
            "//sub//a b",
            "/inside/a%20b",
            "/sub",
        ] {
            assert!(find(&site, allowed).is_some(), "{allowed}");
        }
        for refused in [
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
            assert!(find(&site, refused).is_none(), "{refused}");
        }
        fs::write(base.join(".env"), "KEY=1").unwrap();
        fs::write(base.join(".netrc"), "password").unwrap();
        fs::write(site.join(".npmrc"), "token").unwrap();
        for (target, name) in [
            (base.join(".env"), "keys"),
            (base.join(".netrc"), "login"),
            (site.join(".npmrc"), "package"),
            (site.join(".private/x"), "hidden"),
            (outside.join("secret"), "other"),
            (site.join("index.html"), "sub/page"),
        ] {
            fs::hard_link(target, site.join(name)).unwrap();
        }
        assert!(find(&site, "/sub/page").is_some());
        for refused in ["/keys", "/login", "/package", "/hidden", "/other"] {
            assert!(find(&site, refused).is_none(), "{refused}");
        }
        fs::rename(&site, base.join("moved")).unwrap();
        symlink("outside", &site).unwrap();
        assert!(find(&site, "/secret").is_none());
    }
}
