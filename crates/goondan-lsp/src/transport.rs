//! LSP transport: a header with the content length, then the JSON body.

use std::io::{self, BufRead, Read, Write};

/// Maximum length of a header line, in bytes.
const MAX_HEADER_LINE_BYTES: u64 = 4096;
const MAX_HEADER_LINES: usize = 32;
/// Maximum length of a message, in bytes. Files of a project have at most 1 MiB.
const MAX_MESSAGE_BYTES: usize = 32 * 1024 * 1024;

/// Error that ends the connection.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The header of a message is invalid.
    #[error("The client sent an invalid Language Server Protocol message: {0}.")]
    Header(&'static str),
    /// The stream failed, or ended inside a message.
    #[error("The connection to the client failed: {0}.")]
    Stream(#[from] io::Error),
}

/// Reads the next message. Returns `None` if the client closed the stream between two messages.
pub(crate) fn read(from: &mut impl BufRead) -> Result<Option<Vec<u8>>, WireError> {
    let Some(length) = read_header(from)? else {
        return Ok(None);
    };
    let mut body = Vec::new();
    // The buffer grows with the received data, so a large length allocates no memory in advance.
    from.take(length as u64).read_to_end(&mut body)?;
    match body.len() == length {
        true => Ok(Some(body)),
        false => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
    }
}

/// Reads the header lines and returns the body length in bytes; `None` if the input ends before a
/// header.
fn read_header(from: &mut impl BufRead) -> Result<Option<usize>, WireError> {
    let mut length = None;
    for count in 0..MAX_HEADER_LINES {
        let mut line = Vec::new();
        from.take(MAX_HEADER_LINE_BYTES)
            .read_until(b'\n', &mut line)?;
        if line.is_empty() && count == 0 {
            return Ok(None);
        }
        if !line.ends_with(b"\n") {
            return Err(WireError::Header("a header line does not end"));
        }
        let line = line.trim_ascii();
        if line.is_empty() {
            return length
                .map(Some)
                .ok_or(WireError::Header("the Content-Length is missing"));
        }
        length = content_length(line)?.or(length);
    }
    Err(WireError::Header("the header does not end"))
}

/// Returns the length if the line is a `Content-Length` header; `None` for another header.
fn content_length(line: &[u8]) -> Result<Option<usize>, WireError> {
    let Some(colon) = line.iter().position(|byte| *byte == b':') else {
        return Err(WireError::Header("a header line has no colon"));
    };
    if !line[..colon].eq_ignore_ascii_case(b"content-length") {
        return Ok(None);
    }
    let number = std::str::from_utf8(line[colon + 1..].trim_ascii())
        .ok()
        .and_then(|text| text.parse().ok());
    match number {
        Some(length) if length <= MAX_MESSAGE_BYTES => Ok(Some(length)),
        Some(_) => Err(WireError::Header("the message is longer than 32 MiB")),
        None => Err(WireError::Header("the Content-Length is not a number")),
    }
}

/// Writes a message with its header and flushes the output.
pub(crate) fn write(to: &mut impl Write, body: &[u8]) -> io::Result<()> {
    write!(to, "Content-Length: {}\r\n\r\n", body.len())?;
    to.write_all(body)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(mut bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let mut found = Vec::new();
        while let Some(body) = read(&mut bytes).map_err(|error| error.to_string())? {
            found.push(body);
        }
        Ok(found)
    }

    #[test]
    fn written_messages_can_be_read() {
        let mut stream = Vec::new();
        write(&mut stream, b"{}").unwrap();
        write(&mut stream, "\"é\"".as_bytes()).unwrap();
        assert_eq!(
            read_all(&stream),
            Ok(vec![b"{}".to_vec(), "\"é\"".as_bytes().to_vec()])
        );
        let other_header_style = b"content-length:2\nContent-Type: x; charset=utf-8\n\n{}";
        assert_eq!(read_all(other_header_style), Ok(vec![b"{}".to_vec()]));
    }

    #[test]
    fn invalid_headers_return_a_descriptive_error() {
        for (bytes, sentence) in [
            (&b"hello"[..], "does not end"),
            (b"hello\n", "no colon"),
            (b"\r\n\r\n", "Content-Length is missing"),
            (b"Content-Length: -1\r\n\r\n", "not a number"),
            (
                b"Content-Length: 18446744073709551615\r\n\r\n",
                "longer than",
            ),
            (
                b"Content-Length: 99999999999999999999999\r\n\r\n",
                "not a number",
            ),
            (b"Content-Length: 5\r\n\r\n{}", "failed"),
            (&[0xff; 9000], "does not end"),
            (&b"a:b\n".repeat(100), "the header does not end"),
        ] {
            let error = read_all(bytes).unwrap_err();
            assert!(error.contains(sentence), "{error}");
        }
    }
}
