//! JSON Lines that may have been cut off while they were written.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ports::store::StoreError;

/// Reads every line of `path`; no file is an empty file. A last line without its line break was cut off while it was
/// written and does not count; any other line that can't be read is left out too. Both are told in warnings.
pub fn read_lines<T: DeserializeOwned>(path: &Path) -> io::Result<(Vec<T>, Vec<String>)> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(mut file) => file.read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), Vec::new())),
        Err(error) => return Err(error),
    };
    let (mut values, mut warnings) = (Vec::new(), Vec::new());
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let number = index + 1;
        if line.last() != Some(&b'\n') {
            warnings.push(format!(
                "{}:{number}: dropped a line that was cut off ({} bytes)",
                path.display(),
                line.len()
            ));
            continue;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice(line) {
            Ok(value) => values.push(value),
            Err(error) => {
                warnings.push(format!("{}:{number}: left out a line that can't be read: {error}", path.display()))
            }
        }
    }
    Ok((values, warnings))
}

/// A file that lines are appended to. It is made, and a torn last line cut away, when the first line comes.
pub(super) struct Appender {
    path: PathBuf,
    file: Option<File>,
    buffer: Vec<u8>,
}

impl Appender {
    pub(super) fn new(path: PathBuf) -> Self {
        Appender { path, file: None, buffer: Vec::new() }
    }

    /// Appends one line with one write.
    pub(super) fn append<T: Serialize>(&mut self, value: &T) -> Result<(), StoreError> {
        self.append_all(std::iter::once(value))
    }

    /// Appends lines with one write.
    pub(super) fn append_all<T: Serialize>(&mut self, values: impl Iterator<Item = T>) -> Result<(), StoreError> {
        self.buffer.clear();
        for value in values {
            serde_json::to_writer(&mut self.buffer, &value).map_err(|cause| self.failed("encode a line of", &cause))?;
            self.buffer.push(b'\n');
        }
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.open()?;
        let file = self.file.as_mut().expect("opened above");
        let before = file.stream_position().map_err(|cause| StoreError::new("append to", &self.path, &cause))?;
        file.write_all(&self.buffer).map_err(|cause| {
            // A short write must not leave half a line in front of the next one.
            let _ = file.set_len(before).and_then(|()| file.seek(SeekFrom::Start(before)));
            StoreError::new("append to", &self.path, &cause)
        })
    }

    /// Puts everything that was appended on disk.
    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        match &self.file {
            Some(file) => file.sync_data().map_err(|cause| self.failed("put on disk", &cause)),
            None => Ok(()),
        }
    }

    /// Forgets all lines.
    pub(super) fn clear(&mut self) -> Result<(), StoreError> {
        match &mut self.file {
            Some(file) => {
                let cleared = file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0)));
                cleared.map(drop).map_err(|cause| StoreError::new("clear", &self.path, &cause))
            }
            None => match OpenOptions::new().write(true).truncate(true).open(&self.path) {
                Ok(_) => Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(cause) => Err(self.failed("clear", &cause)),
            },
        }
    }

    /// Opens the file again at the next append: it was replaced by another one.
    pub(super) fn reopen(&mut self) {
        self.file = None;
    }

    fn open(&mut self) -> Result<(), StoreError> {
        if self.file.is_none() {
            self.file = Some(open_at_last_line(&self.path).map_err(|cause| self.failed("open", &cause))?);
        }
        Ok(())
    }

    fn failed(&self, doing: &str, cause: &dyn std::fmt::Display) -> StoreError {
        StoreError::new(doing, &self.path, cause)
    }
}

fn open_at_last_line(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    let end = end_of_last_line(&mut file)?;
    file.set_len(end)?;
    file.seek(SeekFrom::Start(end))?;
    Ok(file)
}

/// Where the last whole line ends. Reads backwards, a block at a time.
fn end_of_last_line(file: &mut File) -> io::Result<u64> {
    const BLOCK: u64 = 4096;
    let mut end = file.seek(SeekFrom::End(0))?;
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        let mut block = vec![0; usize::try_from(end - start).expect("a block fits")];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Writes `bytes` beside `path` and renames: readers see the old file or the new one.
pub(super) fn replace_file(path: &Path, bytes: &[u8], durable: bool) -> Result<(), StoreError> {
    let folder = path.parent().expect("every file of the layout lies in a folder");
    let write = || {
        std::fs::create_dir_all(folder)?;
        let temporary = path.with_extension("tmp");
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        if durable {
            file.sync_data()?;
        }
        std::fs::rename(&temporary, path)?;
        if durable { sync_folder(folder) } else { Ok(()) }
    };
    write().map_err(|cause| StoreError::new("write", path, &cause))
}

/// Puts a rename or a new file on disk. Windows has no such call and needs none.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(windows) { Ok(()) } else { File::open(folder)?.sync_all() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_tail_is_told_and_then_cut_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        std::fs::write(&path, "1\n2\n{\"half").unwrap();
        let (values, warnings) = read_lines::<u32>(&path).unwrap();
        assert_eq!(values, [1, 2]);
        assert!(warnings[0].ends_with("x.jsonl:3: dropped a line that was cut off (6 bytes)"), "{warnings:?}");

        let mut appender = Appender::new(path.clone());
        appender.append(&3).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n2\n3\n");
    }

    #[test]
    fn garbage_in_the_middle_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        std::fs::write(&path, b"1\n\x00\xff\n2\n").unwrap();
        let (values, warnings) = read_lines::<u32>(&path).unwrap();
        assert_eq!((values, warnings.len()), (vec![1, 2], 1));
    }

    #[test]
    fn a_long_torn_line_is_cut_away_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        std::fs::write(&path, format!("1\n{}", "x".repeat(10_000))).unwrap();
        Appender::new(path.clone()).append(&2).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n2\n");
    }
}
