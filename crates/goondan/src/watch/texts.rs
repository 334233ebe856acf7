//! Contents of files that were read, for as long as their stamps say that they are the same.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::stamp::{FileStamp, Stamp};

/// A file that had changed that shortly before it was read may change once more without looking different: file systems
/// count time in steps, of up to two seconds.
const STEP: Duration = Duration::from_secs(3);

/// A larger file is read anew each time: packages may bring large ones, and texts are small.
const LARGEST: usize = 1024 * 1024;

/// What was read, by path as it was asked for. A watch relies on stamps in any case; who is asked to reload reads all files.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    known: Mutex<HashMap<PathBuf, Known>>,
}

#[derive(Debug, Clone)]
struct Known {
    stamp: FileStamp,
    bytes: Arc<[u8]>,
}

impl Texts {
    /// The first `limit + 1` bytes of the file at `path`, which looks like `stamp`: as they were read before, or by `read`.
    pub(crate) fn of(
        &self,
        path: &Path,
        stamp: &Stamp,
        limit: u64,
        read: impl FnOnce() -> io::Result<Vec<u8>>,
    ) -> io::Result<Vec<u8>> {
        let Stamp::File(stamp) = stamp else {
            return read();
        };
        let known = self.lock().get(path).cloned();
        if let Some(known) =
            known.filter(|known| known.stamp == *stamp && known.bytes.len() as u64 <= limit)
        {
            return Ok(known.bytes.to_vec());
        }
        let now = SystemTime::now();
        let bytes = read()?;
        if stamp.is_older_than(STEP, now) && bytes.len() as u64 <= limit && bytes.len() <= LARGEST {
            let known = Known {
                stamp: stamp.clone(),
                bytes: bytes.as_slice().into(),
            };
            self.lock().insert(path.to_owned(), known);
        } else {
            self.lock().remove(path);
        }
        Ok(bytes)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Known>> {
        // Whoever panicked while holding it left a map that is whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{self, File};

    use super::*;

    /// Reads through `texts`, and tells whether the file was looked into.
    fn read(texts: &Texts, path: &Path) -> (Vec<u8>, bool) {
        let mut looked = false;
        let read = || {
            looked = true;
            fs::read(path)
        };
        let bytes = texts
            .of(path, &Stamp::of(path), 100, read)
            .expect("the file is there");
        (bytes, looked)
    }

    #[test]
    fn a_file_that_changed_just_now_is_read_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let texts = Texts::default();
        fs::write(&path, "one").unwrap();
        let times = fs::FileTimes::new().set_modified(SystemTime::now() - Duration::from_secs(60));
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_times(times)
            .unwrap();
        // Its modification time was set back, but that it was changed shows.
        assert_eq!(read(&texts, &path), (b"one".to_vec(), true));
        assert_eq!(read(&texts, &path), (b"one".to_vec(), true));
    }

    #[test]
    fn what_looks_the_same_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "one").unwrap();
        let Stamp::File(stamp) = Stamp::of(&path) else {
            panic!("a file")
        };
        let known = Known {
            stamp,
            bytes: b"one".as_slice().into(),
        };
        let texts = Texts {
            known: Mutex::new(HashMap::from([(path.clone(), known)])),
        };
        assert_eq!(read(&texts, &path), (b"one".to_vec(), false));
        fs::write(&path, "three").unwrap();
        assert_eq!(read(&texts, &path), (b"three".to_vec(), true));
    }
}
