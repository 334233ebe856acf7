//! Walks the files below a directory like ripgrep: respects `.gitignore`, skips hidden files, and
//! does not follow symbolic links.

use std::num::NonZero;
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc;

use globset::{GlobBuilder, GlobMatcher};
use goondan_core::ports::tool::HandlerError;
use goondan_spec::Code;
use goondan_spec::ignore_files::IgnoreFiles;
use ignore::{DirEntry, WalkBuilder, WalkState};
use tokio_util::sync::CancellationToken;

use crate::errors;
use crate::paths::FileRoot;
use crate::state_directory;

/// Ignore files that a walk respects, in order of precedence.
const IGNORE_FILE_NAMES: [&str; 3] = [".ignore", ".gitignore", ".git/info/exclude"];

/// Characters with a meaning in globs.
const WILDCARDS: [char; 5] = ['*', '?', '[', '{', '\\'];

/// Passes each regular file below `folder` (or `folder` itself) to a visitor, in no order. Each
/// thread creates its own visitor, and all processors are used. `.gitignore` files above the root
/// are ignored, for example one in the home directory. State directories are skipped. A cancelled walk ends early.
pub(super) fn visit<'a, V: FnMut(&Path) + Send + 'a>(
    root: &FileRoot,
    folder: &Path,
    cancellation: &'a CancellationToken,
    mut visitor: impl FnMut() -> V,
) {
    let ignores = IgnoreFiles::new(root.folder(), &IGNORE_FILE_NAMES);
    let states = state_directory::in_folder(folder);
    let mut builder = WalkBuilder::new(folder);
    // Of the ignore files, the library reads only the one of the user.
    builder.require_git(false).parents(false);
    builder.ignore(false).git_ignore(false).git_exclude(false);
    builder.threads(std::thread::available_parallelism().map_or(1, NonZero::get));
    builder.filter_entry(move |entry: &DirEntry| {
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        let is_state = || states.iter().any(|state| state == entry.path());
        entry.depth() == 0 || !(is_state() || ignores.excludes(entry.path(), is_folder))
    });
    builder.build_parallel().run(|| {
        let mut visit = visitor();
        Box::new(move |entry| {
            if cancellation.is_cancelled() {
                return WalkState::Quit;
            }
            // Skip unreadable entries.
            if let Ok(entry) = entry
                && entry.file_type().is_some_and(|kind| kind.is_file())
            {
                visit(entry.path());
            }
            WalkState::Continue
        })
    });
}

/// Returns the files of [`visit`] that satisfy `wanted`, in path order.
pub(super) fn files(
    root: &FileRoot,
    folder: &Path,
    cancellation: &CancellationToken,
    wanted: impl Fn(&Path) -> bool + Sync,
) -> Vec<PathBuf> {
    let (sender, found) = mpsc::channel();
    visit(root, folder, cancellation, || {
        let (sender, wanted) = (sender.clone(), &wanted);
        move |file: &Path| {
            if wanted(file) {
                // The receiver exists until the walk is over.
                let _ = sender.send(file.to_owned());
            }
        }
    });
    drop(sender);
    let mut files: Vec<PathBuf> = found.into_iter().collect();
    files.sort_unstable();
    files
}

/// A glob for paths below a directory. Without a slash, it matches only the file name.
pub(super) struct PathGlob {
    matcher: GlobMatcher,
    name_alone: bool,
}

impl PathGlob {
    /// Parses a glob for paths below `folder`, such as `*.{rs,toml}` or `src/**/*.rs`. An absolute
    /// glob must be below `folder`.
    ///
    /// # Errors
    /// Fails if the glob is invalid, leads out of `folder`, or begins with `!`.
    pub(super) fn new(
        root: &FileRoot,
        folder: &Path,
        glob: &str,
    ) -> Result<PathGlob, HandlerError> {
        if glob.starts_with('!') {
            return Err(errors::invalid_argument(format!(
                "the glob `{glob}` excludes files, which is not supported"
            ))
            .suggest("name the files to include, such as `*.rs`"));
        }
        let given_glob = glob.strip_prefix("./").unwrap_or(glob);
        let pattern = relative_glob(root, folder, given_glob)?;
        let built = GlobBuilder::new(&pattern).literal_separator(true).build();
        let matcher = built
            .map_err(|error| {
                errors::invalid_argument(format!("the glob `{glob}` is invalid: {}", error.kind()))
            })?
            .compile_matcher();
        Ok(PathGlob {
            matcher,
            name_alone: !given_glob.contains('/'),
        })
    }

    /// Returns true if a path relative to the searched directory matches.
    pub(super) fn matches(&self, path: &Path) -> bool {
        if self.name_alone {
            return path
                .file_name()
                .is_some_and(|name| self.matcher.is_match(name));
        }
        self.matcher.is_match(path)
    }
}

/// Returns a glob relative to `folder`. Fails if it leads elsewhere.
fn relative_glob(root: &FileRoot, folder: &Path, glob: &str) -> Result<String, HandlerError> {
    let escape = || {
        HandlerError::new(format!(
            "the glob `{glob}` leads out of the searched directory {}",
            folder.display()
        ))
        .code(Code::TOOL_PATH_ESCAPE)
        .suggest("use a glob relative to `path`, such as `src/**/*.rs`")
    };
    let home = match glob.strip_prefix("~/") {
        Some(below) => Some(std::env::home_dir().ok_or_else(escape)?.join(below)),
        None => None,
    };
    let path = home.as_deref().unwrap_or(Path::new(glob));
    let is_parent = |part: &Component<'_>| *part == Component::ParentDir;
    if !path.has_root() && !path.components().any(|part| is_parent(&part)) {
        return Ok(glob.to_owned());
    }
    // The components before the first one with a wildcard are a path.
    let is_plain = |part: &Component<'_>| !part.as_os_str().to_string_lossy().contains(WILDCARDS);
    let plain: PathBuf = path.components().take_while(is_plain).collect();
    let wild: PathBuf = path.components().skip_while(is_plain).collect();
    if wild.components().any(|part| is_parent(&part)) {
        return Err(escape());
    }
    let start = if plain.has_root() {
        plain
    } else {
        root.relative_path(folder).join(plain)
    };
    let start = root.resolve(&start.to_string_lossy())?.path;
    let below = start.strip_prefix(folder).map_err(|_| escape())?;
    Ok(below.join(&wild).to_string_lossy().into_owned())
}
