//! Appends lines to a file.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::lines::{self, FIRST_SEQUENCE, LineReader};
use super::record_sequence::RecordSequence;
use super::synced_disk::SyncedDisk;
use super::{checksum, file_format};
use crate::fs::{DataFile, FileWriter};
use goondan_core::ports::store::StoreError;

/// Appends lines to a file. The first append creates the file and truncates a torn last line.
///
/// After any failure the file ends with a complete line of a successful append. The leftovers of a
/// failed append or sync are truncated before the next write.
pub(super) struct FileAppender {
    disk: Arc<SyncedDisk>,
    path: PathBuf,
    file: Option<Box<dyn DataFile>>,
    /// End of the last line; `None` until the file was read.
    end: Option<FileEnd>,
    /// Everything before this end is durable, as far as this process can determine.
    synced: FileEnd,
    /// True if bytes after `end` must be truncated.
    has_debris: bool,
    /// Number of parent directories that may be as new as the file.
    depth: usize,
    /// Bytes of the current write, kept to reuse the memory.
    buffer: Vec<u8>,
}

/// The position of the next line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileEnd {
    /// Offset in bytes.
    pub(super) at: u64,
    /// Sequence number of the next record; `None` in a file of version 1.
    pub(super) next: Option<u64>,
}

impl FileEnd {
    /// The end of an empty file.
    pub(super) const EMPTY: FileEnd = FileEnd {
        at: 0,
        next: Some(FIRST_SEQUENCE),
    };
}

impl FileAppender {
    /// Creates an appender for the file at `path`. A sync also makes the names of up to `depth`
    /// parent directories durable.
    pub(super) fn new(disk: Arc<SyncedDisk>, path: PathBuf, depth: usize) -> Self {
        FileAppender {
            disk,
            path,
            file: None,
            end: None,
            synced: FileEnd::EMPTY,
            has_debris: false,
            depth,
            buffer: Vec::new(),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a value as one line of JSON, without syncing the file.
    pub(super) fn append<T: Serialize>(&mut self, value: &T) -> Result<(), StoreError> {
        self.append_all(std::iter::once(value))
    }

    /// Appends lines with one write, all or none.
    pub(super) fn append_all<T: Serialize>(
        &mut self,
        values: impl Iterator<Item = T>,
    ) -> Result<(), StoreError> {
        let mut values = values.peekable();
        if values.peek().is_none() {
            return Ok(());
        }
        let start = self.begin_write()?;
        let next = lines::encode_sealed(&mut self.buffer, start.next, values)
            .map_err(|cause| self.file_error("encode a line of", cause))?;
        self.finish_write(start, next)
    }

    /// Appends encoded lines with one write, all or none.
    pub(super) fn append_lines<'a>(
        &mut self,
        lines: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), StoreError> {
        let mut lines = lines.filter(|line| !line.is_empty()).peekable();
        if lines.peek().is_none() {
            return Ok(());
        }
        let start = self.begin_write()?;
        let mut next_sequence = start.next;
        for line in lines {
            next_sequence = lines::seal_lines(&mut self.buffer, line, next_sequence);
        }
        self.finish_write(start, next_sequence)
    }

    /// Opens the file and empties the buffer. In a new file, the buffer begins with the header.
    fn begin_write(&mut self) -> Result<FileEnd, StoreError> {
        let start = self
            .open()
            .map_err(|cause| self.file_error("append to", cause))?;
        self.buffer.clear();
        if start.at == 0 {
            file_format::add_header(&mut self.buffer, &self.path);
        }
        Ok(start)
    }

    /// Writes the buffer to the end of the file. `next` is the number of the record after the
    /// written ones.
    fn finish_write(&mut self, start: FileEnd, next: Option<u64>) -> Result<(), StoreError> {
        self.write_buffer(start, next)
            .map_err(|cause| self.file_error("append to", cause))?;
        self.close_if_crowded();
        Ok(())
    }

    /// Writes the buffer at `start`. On an error, truncates the file to its previous length.
    fn write_buffer(&mut self, start: FileEnd, next: Option<u64>) -> io::Result<()> {
        let file = self.file.as_mut().expect("opened by `begin_write`");
        if let Err(error) = file.write_at(start.at, &self.buffer) {
            self.has_debris = file.set_len(start.at).is_err();
            return Err(error);
        }
        let at = start.at + self.buffer.len() as u64;
        self.end = Some(FileEnd { at, next });
        Ok(())
    }

    /// Makes everything appended durable, including lines of an earlier process. On an error those
    /// lines count as lost and must be appended again, because their state on disk is unknown.
    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        self.try_sync()
            .map_err(|cause| self.file_error("sync", cause))?;
        self.close_if_crowded();
        Ok(())
    }

    /// Syncs the file and its directory entry. On an error, truncates the file to its synced
    /// length.
    fn try_sync(&mut self) -> io::Result<()> {
        let end = self.open()?;
        let file = self.file.as_mut().expect("opened above");
        if let Err(error) = self.disk.sync_file(&mut **file) {
            self.has_debris = file.set_len(self.synced.at).is_err();
            self.end = Some(self.synced);
            return Err(error);
        }
        if !self.disk.exists(&self.path) {
            // The file was deleted, so the writes went to an unlinked file.
            self.forget_file();
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "it was deleted while it was in use",
            ));
        }
        self.disk.sync_directories(&self.path, self.depth)?;
        self.synced = end;
        Ok(())
    }

    /// Truncates the file to zero bytes; does nothing if the file does not exist.
    pub(super) fn clear(&mut self) -> Result<(), StoreError> {
        if self.file.is_none() && !self.disk.exists(&self.path) {
            return Ok(());
        }
        self.set_length(0)?;
        self.end = Some(FileEnd::EMPTY);
        self.synced = FileEnd::EMPTY;
        Ok(())
    }

    /// Removes all lines from `end` on. `end` must be the end of a line.
    pub(super) fn truncate_at(&mut self, end: u64) -> Result<(), StoreError> {
        self.set_length(end)?;
        // The next append reads the number of the last remaining record.
        self.end = None;
        Ok(())
    }

    /// Cuts the file at an offset.
    fn set_length(&mut self, end: u64) -> Result<(), StoreError> {
        let cut = self.open_unread().and_then(|file| file.set_len(end));
        cut.map_err(|cause| self.file_error("cut", cause))?;
        self.has_debris = false;
        Ok(())
    }

    /// Returns the position of the next line. Reads the file on the first call.
    pub(super) fn end(&mut self) -> Result<FileEnd, StoreError> {
        self.open().map_err(|cause| self.file_error("open", cause))
    }

    /// Returns the length of the file without debris; 0 until the file was read.
    pub(super) fn len(&self) -> u64 {
        self.end.map_or(0, |end| end.at)
    }

    /// Closes the file until the next append.
    pub(super) fn close(&mut self) {
        self.file = None;
    }

    /// Replaces all lines like [`FileAppender::replace`], with contents that `write` produces.
    pub(super) fn replace_with(
        &mut self,
        write: impl FnOnce(&mut FileWriter) -> io::Result<()>,
    ) -> io::Result<()> {
        self.forget_file();
        self.disk.replace_with(&self.path, write)
    }

    /// Overwrites all lines in place with `records`, without a sync. After a power failure the file
    /// may hold any mix of old and new bytes. Concurrent readers see the old lines or the new ones;
    /// trailing empty lines have no meaning. If this fails, the records are written to a new file.
    pub(super) fn overwrite<T: Serialize>(&mut self, records: &[T]) -> io::Result<()> {
        let (bytes, next) = (
            lines::encode_file(&self.path, records)?,
            FIRST_SEQUENCE + records.len() as u64,
        );
        let is_written = self.try_overwrite(&bytes).is_ok();
        if !is_written {
            self.forget_file();
            self.disk.put(&self.path, &bytes)?;
        }
        self.end = Some(FileEnd {
            at: bytes.len() as u64,
            next: Some(next),
        });
        Ok(())
    }

    /// Replaces all lines with `records`. The contents are durable on return, the file name after
    /// the next sync.
    pub(super) fn replace<T: Serialize>(&mut self, records: &[T]) -> io::Result<()> {
        let bytes = lines::encode_file(&self.path, records)?;
        self.replace_with(|file| file.write_all(&bytes))
    }

    /// Replaces the content in place, padded with line breaks to the old length so that a crash
    /// leaves whole lines.
    fn try_overwrite(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (before, end) = (self.open()?.at, bytes.len() as u64);
        let file = self.file.as_mut().expect("opened above");
        if before < end {
            // If the disk is full, undo the growth so that nothing changes.
            let added = vec![b'\n'; usize::try_from(end - before).unwrap_or_default()];
            if let Err(error) = file.write_at(before, &added) {
                file.set_len(before)?;
                return Err(error);
            }
        }
        self.buffer.clear();
        self.buffer.extend_from_slice(bytes);
        self.buffer.resize(
            bytes.len().max(usize::try_from(before).unwrap_or_default()),
            b'\n',
        );
        file.write_at(0, &self.buffer)?;
        if end < before {
            file.set_len(end)?;
        }
        Ok(())
    }

    /// Marks all contents as safely stored elsewhere, so that a failed sync discards none of them.
    pub(super) fn mark_stored(&mut self) {
        self.synced = self.end.unwrap_or(FileEnd::EMPTY);
    }

    /// Closes the file and forgets its lengths, so that the next access opens it again.
    fn forget_file(&mut self) {
        self.file = None;
        self.end = None;
        self.synced = FileEnd::EMPTY;
        self.has_debris = false;
    }

    /// Closes the file if the process has many open files.
    fn close_if_crowded(&mut self) {
        if self.disk.is_crowded() {
            self.close();
        }
    }

    /// Opens the file, truncates it to its last complete line, and returns its end.
    fn open(&mut self) -> io::Result<FileEnd> {
        let known_end = self.end;
        self.open_unread()?;
        let file = &mut **self.file.as_mut().expect("opened above");
        let end = match known_end {
            Some(end) => end,
            None => find_end(file, &self.path)?,
        };
        if (self.has_debris || known_end.is_none()) && file.len()? != end.at {
            file.set_len(end.at)?;
        }
        if known_end.is_none() {
            self.synced = end;
        }
        self.end = Some(end);
        self.has_debris = false;
        Ok(end)
    }

    /// Opens the file if it is closed. Fails if the file was deleted since.
    fn open_unread(&mut self) -> io::Result<&mut dyn DataFile> {
        if self.file.is_none() {
            let opened = self.disk.open(&self.path)?;
            if opened.is_new && self.end.is_some_and(|end| end.at > 0) {
                self.end = None;
                return Err(io::Error::new(
                    io::ErrorKind::NotFound,
                    "it was deleted while it was in use",
                ));
            }
            self.file = Some(opened.file);
        }
        Ok(&mut **self.file.as_mut().expect("opened above"))
    }

    /// Creates the error for a failed operation on the file, such as "append to".
    fn file_error(&self, doing: &str, cause: io::Error) -> StoreError {
        StoreError::file(doing, &self.path, cause)
    }
}

/// Finds the position of the next line. The format of the file is that of its header.
fn find_end(file: &mut dyn DataFile, path: &Path) -> io::Result<FileEnd> {
    let at = end_of_last_line(file)?;
    if at == 0 {
        return Ok(FileEnd::EMPTY);
    }
    let first = read_line_start(file, at)?;
    let is_numbered = file_format::read_header(&first, path)?.is_some();
    // A number without a header is also read: the header may be damaged.
    let next = match last_sequence(file, at)? {
        Some(last) => Some(last + 1),
        None if is_numbered => Some(next_sequence_by_counting(file, at, path)?),
        None => None,
    };
    Ok(FileEnd { at, next })
}

/// Reads the first line of a file of `end` bytes. If the line is longer than a file header can be,
/// reads only its start.
fn read_line_start(file: &mut dyn DataFile, end: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(end).unwrap_or(usize::MAX);
    let mut start = vec![0; length.min(file_format::MAX_HEADER_BYTES)];
    file.read_at(0, &mut start)?;
    if let Some(line_break) = start.iter().position(|byte| *byte == b'\n') {
        start.truncate(line_break + 1);
    }
    Ok(start)
}

/// Returns the sequence number in the line that ends at `end`.
fn last_sequence(file: &mut dyn DataFile, end: u64) -> io::Result<Option<u64>> {
    let start = end.saturating_sub(checksum::MAX_SEAL_BYTES as u64);
    let mut bytes = vec![0; usize::try_from(end - start).expect("a block fits")];
    file.read_at(start, &mut bytes)?;
    Ok(checksum::sequence_number(&bytes))
}

/// Returns the sequence number of the next record of a file whose last line has none. Reads the
/// whole file of `end` bytes, and counts its records like a reader.
fn next_sequence_by_counting(file: &mut dyn DataFile, end: u64, path: &Path) -> io::Result<u64> {
    let mut bytes = vec![0; usize::try_from(end).unwrap_or(usize::MAX)];
    file.read_at(0, &mut bytes)?;
    let mut lines = LineReader::new(&*bytes);
    let mut sequence = RecordSequence::new(path);
    while let Some(line) = lines.next()? {
        sequence.check(&line)?;
    }
    Ok(sequence.next())
}

/// Finds the end of the last complete line. Reads backwards, one block at a time.
fn end_of_last_line(file: &mut dyn DataFile) -> io::Result<u64> {
    const BLOCK: u64 = 4096;
    let mut end = file.len()?;
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        let mut block = vec![0; usize::try_from(end - start).expect("a block fits")];
        file.read_at(start, &mut block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fs::FileSystem;
    use crate::fs::sim::SimFs;

    const PATH: &str = "/x.jsonl";

    fn appender(fs: &SimFs) -> FileAppender {
        FileAppender::new(SyncedDisk::new(Arc::new(fs.clone())), PATH.into(), 1)
    }

    /// Returns the lines of the file after its header.
    fn text(fs: &SimFs) -> String {
        let text = String::from_utf8(fs.contents(Path::new(PATH)).unwrap()).unwrap();
        match text.split_once('\n') {
            Some((header, rest)) if header.contains("\"format\"") => rest.to_owned(),
            _ => text,
        }
    }

    #[test]
    fn a_torn_tail_of_any_length_is_removed() {
        for tail in ["{\"half", &"x".repeat(10_000)] {
            let fs = SimFs::new();
            fs.put(Path::new(PATH), format!("1\n2\n{tail}").as_bytes());
            appender(&fs).append(&3).unwrap();
            assert_eq!(text(&fs), "1\n2\n3\n");
        }
    }

    #[test]
    fn the_next_sequence_number_counts_lines_without_numbers() {
        let fs = SimFs::new();
        let mut bytes = Vec::new();
        file_format::add_header(&mut bytes, Path::new(PATH));
        bytes.extend_from_slice(b"\"noise\"\n");
        lines::encode_sealed(&mut bytes, Some(1), [json!({"a": 1})]).unwrap();
        bytes.extend_from_slice(b"\"noise\"\n");
        fs.put(Path::new(PATH), &bytes);
        appender(&fs).append(&json!({"a": 2})).unwrap();
        let read = lines::read::<Value>(&fs, Path::new(PATH)).unwrap();
        assert_eq!(
            (read.values.len(), read.warnings.len()),
            (4, 2),
            "{:?}",
            read.warnings
        );
    }

    #[test]
    fn a_full_disk_leaves_only_complete_lines() {
        let fs = SimFs::new();
        let mut lines = appender(&fs);
        lines.append(&1).unwrap();
        fs.limit_free_space(Some(3));
        let error = lines.append(&"a long line").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("failed to append to /x.jsonl: "),
            "{error}"
        );
        assert_eq!(text(&fs), "1\n");
        fs.limit_free_space(None);
        lines.append(&2).unwrap();
        assert_eq!(text(&fs), "1\n2\n");
    }

    #[test]
    fn a_failed_sync_removes_unsynced_lines() {
        let fs = SimFs::new();
        let mut lines = appender(&fs);
        lines.append(&1).unwrap();
        lines.sync().unwrap();
        lines.append(&2).unwrap();
        fs.fail_syncs(1);
        lines.sync().unwrap_err();
        lines.append(&3).unwrap();
        lines.sync().unwrap();
        fs.lose_power(None);
        assert_eq!(text(&fs), "1\n3\n");
    }

    #[test]
    fn a_synced_line_in_a_new_file_survives_a_power_failure() {
        let fs = SimFs::new();
        let mut lines = appender(&fs);
        lines.append(&1).unwrap();
        lines.sync().unwrap();
        fs.lose_power(None);
        assert_eq!(text(&fs), "1\n");
    }

    #[test]
    fn a_synced_line_survives_in_a_file_created_by_a_killed_process() {
        let fs = SimFs::new();
        appender(&fs).append(&1).unwrap();
        let fs = fs.kill();
        let mut lines = appender(&fs);
        lines.append(&2).unwrap();
        lines.sync().unwrap();
        fs.lose_power(None);
        assert_eq!(text(&fs), "1\n2\n");
    }

    #[test]
    fn a_synced_line_survives_in_a_file_created_but_never_synced() {
        let fs = SimFs::new();
        let disk = SyncedDisk::new(Arc::new(fs.clone()));
        let mut other = FileAppender::new(Arc::clone(&disk), "/other".into(), 1);
        other.append(&0).unwrap();
        other.sync().unwrap();
        FileAppender::new(Arc::clone(&disk), PATH.into(), 1)
            .append(&1)
            .unwrap();
        let mut lines = FileAppender::new(disk, PATH.into(), 1);
        lines.append(&2).unwrap();
        lines.sync().unwrap();
        fs.lose_power(None);
        assert_eq!(text(&fs), "1\n2\n");
    }

    #[test]
    fn overwrite_replaces_all_lines_or_none() {
        let fs = SimFs::new();
        let mut lines = appender(&fs);
        for (new_lines, expected) in [
            (&[1, 2, 3][..], "1\n2\n3\n4\n"),
            (&[5], "5\n4\n"),
            (&[66, 77, 8], "66\n77\n8\n4\n"),
        ] {
            lines.overwrite(new_lines).unwrap();
            lines.append(&4).unwrap();
            assert_eq!(text(&fs), expected);
        }
        fs.limit_free_space(Some(2));
        lines
            .overwrite(&["a line for which there is no room"])
            .unwrap_err();
        assert_eq!(text(&fs), "66\n77\n8\n4\n");
    }

    #[test]
    fn a_deleted_file_is_reported_and_then_created_again() {
        let fs = SimFs::new();
        fs.create_directories(Path::new("/d")).unwrap();
        let mut lines = FileAppender::new(SyncedDisk::new(Arc::new(fs.clone())), "/d/x".into(), 2);
        lines.append(&1).unwrap();
        fs.remove_folder(Path::new("/d")).unwrap();
        lines.append(&2).unwrap();
        assert!(
            lines
                .sync()
                .unwrap_err()
                .to_string()
                .ends_with("it was deleted while it was in use")
        );
        lines.append(&3).unwrap();
        lines.sync().unwrap();
        let text = String::from_utf8(fs.contents(Path::new("/d/x")).unwrap()).unwrap();
        assert!(
            text.contains("\"format\"") && text.ends_with("\n3\n"),
            "{text}"
        );
    }
}
