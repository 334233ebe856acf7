//! Results of turns that are kept for whoever may ask for them again.
//!
//! Few are ever asked for, so they are kept as they are written, which takes a fourth of the memory; and one behind another.
//! Thousands of small pieces, each of which stays for ten thousand turns, would lie among those that stay for one, and keep
//! the memory between them from being given back.

use std::io;

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::event::TurnResult;

/// So many bytes lie in one piece.
const PAGE: usize = 64 * 1024;

/// A result that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptResult(Bytes);

impl KeptResult {
    /// How much memory it takes, in bytes.
    pub fn size(&self) -> usize {
        self.0.len()
    }

    /// The result. An error where what a model made up nests deeper than JSON is read.
    pub fn decode(&self) -> serde_json::Result<TurnResult> {
        serde_json::from_slice(&self.0)
    }
}

/// Where things are kept. What is put here stays for as long as somebody has it, and the room is used again when everything
/// is gone that was put here at about the same time.
#[derive(Debug)]
pub struct Shelf {
    /// The free rest of a page.
    page: BytesMut,
}

impl Default for Shelf {
    fn default() -> Self {
        // Pages that follow are as large as the first one.
        Shelf { page: BytesMut::with_capacity(PAGE) }
    }
}

impl Shelf {
    /// Keeps a result.
    pub fn put(&mut self, result: &TurnResult) -> KeptResult {
        // In the store it is written the same way.
        let encoded = serde_json::to_writer((&mut self.page).writer(), result);
        encoded.expect("every part of a result has a form in JSON, and there is always room");
        KeptResult(self.page.split().freeze())
    }

    /// Keeps a short text.
    pub(crate) fn put_text(&mut self, text: &str) -> Bytes {
        self.page.extend_from_slice(text.as_bytes());
        self.page.split().freeze()
    }
}

/// How much memory a result would take.
pub(crate) fn size_of(result: &TurnResult) -> usize {
    let mut count = Count(0);
    serde_json::to_writer(&mut count, result).expect("every part of a result has a form in JSON");
    count.0
}

/// Counts what is written.
struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::suite::samples::{event, instance, result};

    #[test]
    fn what_is_kept_comes_back_as_it_was() {
        let results: Vec<TurnResult> =
            (0..2_000).map(|number| result(&event(&format!("e{number}"), &instance("k")))).collect();
        let mut shelf = Shelf::default();
        let kept: Vec<KeptResult> = results.iter().map(|result| shelf.put(result)).collect();
        for (kept, result) in kept.iter().zip(&results) {
            assert_eq!((kept.decode().unwrap(), kept.size()), (result.clone(), size_of(result)));
        }
    }

    #[test]
    fn it_lies_in_pages_and_nothing_larger_is_split() {
        let mut shelf = Shelf::default();
        let texts: Vec<Bytes> = (0..4 * PAGE / 16).map(|_| shelf.put_text("sixteen letters!")).collect();
        let adjoining = texts.windows(2).filter(|pair| pair[0].as_ptr_range().end == pair[1].as_ptr()).count();
        assert!(adjoining >= texts.len() - 5, "{adjoining} of {}", texts.len());
        assert_eq!(shelf.put_text(&"x".repeat(2 * PAGE)).len(), 2 * PAGE);
        assert_eq!(shelf.put_text("x"), "x");
        assert!(shelf.page.capacity() > PAGE / 2);
    }
}
