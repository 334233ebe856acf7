//! Cache of file contents, valid while the file stamps stay the same.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::stamp::{FileStamp, PathStamp};

/// Minimum age of a change before the content is cached. File systems have time steps of up to two
/// seconds, so a second change within a step could be invisible.
const MIN_STABLE_AGE: Duration = Duration::from_secs(3);

/// Maximum size of cached files, in bytes. Larger files are read each time.
const MAX_CACHED_CONTENT_BYTES: usize = 1024 * 1024;

/// Cached contents by requested path. Only a watch uses the cache; an explicit reload reads all
/// files.
#[derive(Debug, Default)]
pub(crate) struct FileContentCache {
    known: Mutex<HashMap<PathBuf, CachedFileContent>>,
}

/// Content of a file, and the stamp that it was read with.
#[derive(Debug, Clone)]
struct CachedFileContent {
    stamp: FileStamp,
    bytes: Arc<[u8]>,
}

impl FileContentCache {
    /// Returns the first `limit + 1` bytes of the file at `path`, from the cache if `stamp` is
    /// unchanged, or else through `read`.
    pub(crate) fn of(
        &self,
        path: &Path,
        stamp: &PathStamp,
        limit: u64,
        read: impl FnOnce() -> io::Result<Vec<u8>>,
    ) -> io::Result<Vec<u8>> {
        let PathStamp::File(stamp) = stamp else {
            return read();
        };
        let cached = self.lock().get(path).cloned();
        if let Some(cached) =
            cached.filter(|cached| cached.stamp == *stamp && cached.bytes.len() as u64 <= limit)
        {
            return Ok(cached.bytes.to_vec());
        }
        let now = SystemTime::now();
        let bytes = read()?;
        if stamp.is_older_than(MIN_STABLE_AGE, now)
            && bytes.len() as u64 <= limit
            && bytes.len() <= MAX_CACHED_CONTENT_BYTES
        {
            let cached = CachedFileContent {
                stamp: stamp.clone(),
                bytes: bytes.as_slice().into(),
            };
            self.lock().insert(path.to_owned(), cached);
        } else {
            self.lock().remove(path);
        }
        Ok(bytes)
    }

    /// Locks the cached contents.
    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, CachedFileContent>> {
        // A panic of another holder cannot leave the map inconsistent.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{self, File};

    use super::*;

    /// Maximum number of bytes that the tests read.
    const LIMIT: u64 = 100;

    /// Reads the file through the cache. Returns its content, and true if the file itself was read.
    fn read(cache: &FileContentCache, path: &Path) -> (Vec<u8>, bool) {
        let mut was_read = false;
        let read_file = || {
            was_read = true;
            fs::read(path)
        };
        let bytes = cache
            .of(path, &PathStamp::of(path), LIMIT, read_file)
            .expect("the file exists");
        (bytes, was_read)
    }

    #[test]
    fn a_recently_changed_file_is_read_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let cache = FileContentCache::default();
        fs::write(&path, "one").unwrap();
        let times = fs::FileTimes::new().set_modified(SystemTime::now() - Duration::from_secs(60));
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_times(times)
            .unwrap();
        // The modification time is set back, but the change time is recent.
        assert_eq!(read(&cache, &path), (b"one".to_vec(), true));
        assert_eq!(read(&cache, &path), (b"one".to_vec(), true));
    }

    #[test]
    fn a_file_with_an_unchanged_stamp_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "one").unwrap();
        let PathStamp::File(stamp) = PathStamp::of(&path) else {
            panic!("a file")
        };
        let cached = CachedFileContent {
            stamp,
            bytes: b"one".as_slice().into(),
        };
        let cache = FileContentCache {
            known: Mutex::new(HashMap::from([(path.clone(), cached)])),
        };
        assert_eq!(read(&cache, &path), (b"one".to_vec(), false));
        fs::write(&path, "three").unwrap();
        assert_eq!(read(&cache, &path), (b"three".to_vec(), true));
    }
}
