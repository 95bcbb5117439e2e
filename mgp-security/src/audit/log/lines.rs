//! Reads the lines of one file forwards or backwards, one block at a time.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::chain::{Line, MAX_LINE};

const BLOCK_SIZE: usize = 64 * 1024;

/// The lines of a file from an offset on; an incomplete last line is not returned.
#[derive(Debug)]
pub(super) struct Lines {
    file: File,
    buffer: Vec<u8>,
    /// The position in the buffer where the next line starts.
    from: usize,
    /// The position in the file where the buffer starts.
    base: u64,
}

impl Lines {
    pub(super) fn open(path: &Path, at: u64) -> io::Result<Self> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(at))?;
        Ok(Self { file, buffer: Vec::with_capacity(BLOCK_SIZE), from: 0, base: at })
    }

    /// Returns the next line without its newline, and its offset in the file; `None` if no complete line of a possible
    /// length follows.
    pub(super) fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        let mut searched = self.from;
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.buffer[searched..]) {
                let (from, end) = (self.from, searched + end);
                self.from = end + 1;
                return Ok(Some((self.base + from as u64, &self.buffer[from..end])));
            }
            searched = self.buffer.len() - self.from;
            // A line of this length can only be damage; report it like an incomplete line.
            if searched > 2 * MAX_LINE || !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Returns the position in the file where the next line starts.
    pub(super) fn position(&self) -> u64 {
        self.base + self.from as u64
    }

    /// Returns whether there are bytes after the last complete line.
    pub(super) fn is_torn(&self) -> bool {
        self.from < self.buffer.len()
    }

    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.from);
        self.base += self.from as u64;
        self.from = 0;
        let room = BLOCK_SIZE as u64;
        Ok((&mut self.file).take(room).read_to_end(&mut self.buffer)? > 0)
    }
}

/// The lines of a file in reverse order.
#[derive(Debug)]
pub(super) struct ReverseLines {
    file: File,
    /// Complete lines, preceded by the last part of the line before them.
    buffer: Vec<u8>,
    /// The position in the file where the buffer starts.
    base: u64,
}

impl ReverseLines {
    pub(super) fn open(path: &Path, before: Option<u64>) -> io::Result<Self> {
        let file = File::open(path)?;
        let base = match before {
            Some(before) => before,
            None => file.metadata()?.len(),
        };
        Ok(Self { file, buffer: Vec::new(), base })
    }

    /// Returns the next line in the direction of the start of the file, without its newline.
    pub(super) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            // The last byte of the buffer is the newline that ends the wanted line, so search for the newline before
            // it.
            let ended = self.buffer.len().saturating_sub(1);
            if let Some(end) = memchr::memrchr(b'\n', &self.buffer[..ended]) {
                return Ok(Some(self.take(end + 1)));
            }
            if self.base == 0 {
                return Ok((!self.buffer.is_empty()).then(|| self.take(0)));
            }
            if self.buffer.len() > 2 * MAX_LINE {
                return Ok(None);
            }
            let size = self.base.min(BLOCK_SIZE as u64);
            self.base -= size;
            self.file.seek(SeekFrom::Start(self.base))?;
            let mut block = Vec::with_capacity(BLOCK_SIZE + self.buffer.len());
            (&mut self.file).take(size).read_to_end(&mut block)?;
            block.append(&mut self.buffer);
            self.buffer = block;
        }
    }

    fn take(&mut self, from: usize) -> Vec<u8> {
        let mut line = self.buffer.split_off(from);
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        line
    }
}

/// Returns the position of the first line whose event number is at least `no`. If all numbers are lower, returns the
/// position after the last line.
///
/// Uses a binary search over the numbers in the lines, so no index is needed that could be out of date.
pub(super) fn find(path: &Path, no: u64) -> io::Result<u64> {
    let (mut low, mut high) = (0, std::fs::metadata(path)?.len());
    while high - low > BLOCK_SIZE as u64 {
        let middle = low + (high - low) / 2;
        let mut lines = Lines::open(path, middle)?;
        // The search starts in the middle of a line, so the first text that is read is only a part of a line.
        let next = match lines.next()? {
            Some(_) => lines.next()?,
            None => None,
        };
        match next {
            Some((at, line)) if at < high => {
                if Line::read(line).is_some_and(|line| line.no < no) {
                    low = at;
                } else {
                    high = middle;
                }
            }
            _ => high = middle,
        }
    }
    let mut lines = Lines::open(path, low)?;
    while let Some((at, line)) = lines.next()? {
        if Line::read(line).is_some_and(|line| line.no >= no) {
            return Ok(at);
        }
    }
    Ok(lines.position())
}
