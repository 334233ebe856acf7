//! Server-sent events out of pieces of bytes, within bounds.

use memchr::memchr2;

/// Takes pieces of a stream and hands out the data of its events. It never holds more than its limit.
pub(crate) struct Events {
    /// An unfinished line.
    line: Vec<u8>,
    /// The data of an unfinished event: its `data:` lines so far, each behind the one before.
    data: Vec<u8>,
    has_data: bool,
    /// The last line ended with a carriage return: a line feed that follows belongs to it.
    after_return: bool,
    limit: usize,
}

/// A line or an event grew beyond the limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Events {
    /// Nothing so far. A line and the data of an event may have up to `limit` bytes together.
    pub(crate) fn new(limit: usize) -> Self {
        Events {
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            after_return: false,
            limit,
        }
    }

    /// Takes the next piece. `each` is given the data of every event that it completes; an event without data, such as a
    /// comment, gives an empty one.
    pub(crate) fn take(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), TooLong> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_return) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', bytes) else {
                self.check(bytes.len())?;
                self.line.extend_from_slice(bytes);
                return Ok(());
            };
            self.check(end)?;
            self.after_return = bytes[end] == b'\r';
            if self.line.is_empty() {
                self.end_line(&bytes[..end], &mut each);
            } else {
                self.line.extend_from_slice(&bytes[..end]);
                let mut line = std::mem::take(&mut self.line);
                self.end_line(&line, &mut each);
                line.clear();
                self.line = line;
            }
            bytes = &bytes[end + 1..];
        }
        Ok(())
    }

    /// The stream is over: what is unfinished counts as an event, as it may be the last one without its empty line.
    pub(crate) fn finish(&mut self, mut each: impl FnMut(&[u8])) {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.end_line(&line, &mut each);
        }
        if self.has_data {
            self.end_line(b"", &mut each);
        }
    }

    fn check(&self, more: usize) -> Result<(), TooLong> {
        if self.line.len() + self.data.len() + more > self.limit {
            Err(TooLong)
        } else {
            Ok(())
        }
    }

    fn end_line(&mut self, line: &[u8], each: &mut impl FnMut(&[u8])) {
        if line.is_empty() {
            each(&self.data);
            self.data.clear();
            self.has_data = false;
        } else if let Some(value) = line.strip_prefix(b"data:") {
            if std::mem::replace(&mut self.has_data, true) {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value.trim_ascii());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events_of<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut events = Events::new(1000);
        let mut found = Vec::new();
        let mut each = |data: &[u8]| {
            if !data.is_empty() {
                found.push(String::from_utf8_lossy(data).into_owned());
            }
        };
        for piece in pieces {
            events.take(piece, &mut each).expect("short enough");
        }
        events.finish(each);
        found
    }

    #[test]
    fn events_are_found_in_whatever_form() {
        for (stream, expected) in [
            ("data: a\n\ndata: b\n\n", &["a", "b"][..]),
            ("data:a\r\n\r\ndata:  b \r\n\r\n", &["a", "b"]),
            ("data: a\r\rdata: b\r\r", &["a", "b"]),
            (": ping\n\nevent: x\nid: 1\ndata: a\n\n", &["a"]),
            ("data: a\ndata: b\n\n", &["a\nb"]),
            ("data: a\n\ndata: b", &["a", "b"]),
            ("data\ndatas: x\n\n\n\n", &[]),
        ] {
            assert_eq!(events_of([stream.as_bytes()]), expected, "{stream:?}");
        }
    }

    #[test]
    fn nothing_grows_beyond_the_limit() {
        let mut events = Events::new(10);
        assert_eq!(events.take(b"data: 7890", |_| {}), Ok(()));
        assert_eq!(events.take(b"1", |_| {}), Err(TooLong));
        let mut events = Events::new(20);
        assert_eq!(
            events.take(&b"data: 7890\n".repeat(4), |_| {}),
            Err(TooLong)
        );
    }

    proptest! {
        #[test]
        fn any_pieces_give_the_same_events(
            parts in prop::collection::vec("(data:|: |event: )?[a-c ]{0,4}(\n|\r\n|\r|\n\n)?", 0..12),
            cuts in prop::collection::vec(0usize..100, 0..12),
        ) {
            let stream = parts.concat();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|cut| &stream.as_bytes()[cut[0]..cut[1]]);
            prop_assert_eq!(events_of(pieces), events_of([stream.as_bytes()]));
        }
    }
}
