//! Reads whole lines from a host or a kernel, for the shim.

use std::io::{self, Read};

const BUFFER_BYTES: usize = 64 * 1024;

/// Maximum length of a buffered line; a longer line, which every kernel refuses, is passed on in pieces.
const MAX_LINE_BYTES: usize = 32 << 20;

/// A reader that returns whole lines.
pub(super) struct LineReader<R> {
    input: R,
    buffer: Vec<u8>,
    /// The number of buffered bytes that the previous call of `next` returned.
    taken: usize,
}

impl<R: Read> LineReader<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, buffer: Vec::new(), taken: 0 }
    }

    /// Waits for input, and returns all complete lines received so far; `None` at the end of the input. Returns a line
    /// of more than [`MAX_LINE_BYTES`] in parts.
    pub(super) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        let mut searched = 0;
        loop {
            if let Some(end) = self.buffer[searched..].iter().rposition(|byte| *byte == b'\n') {
                self.taken = searched + end + 1;
                return Ok(Some(&self.buffer[..self.taken]));
            }
            searched = self.buffer.len();
            if searched > MAX_LINE_BYTES {
                self.taken = searched;
                return Ok(Some(&self.buffer));
            }
            self.buffer.resize(searched + BUFFER_BYTES, 0);
            let read = self.input.read(&mut self.buffer[searched..]);
            self.buffer.truncate(searched + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Ok(None),
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_however_they_arrive() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut lines = LineReader::new(reader);
        io::Write::write_all(&mut writer, b"one\ntwo\nth").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), b"one\ntwo\n");
        io::Write::write_all(&mut writer, b"ree\nrest").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), b"three\n");
        drop(writer);
        assert_eq!(lines.next().unwrap(), None);
    }
}
