//! Reads the lines of one file, forwards or backwards, a block at a time.
//!
//! Applies to: both.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::chain::{LINE_MAX, Line};

const BLOCK: usize = 64 * 1024;

/// The lines of a file from a position on; a last one without its end is none.
#[derive(Debug)]
pub(super) struct Lines {
    file: File,
    buffer: Vec<u8>,
    /// Where the next line begins in the buffer.
    from: usize,
    /// Where the buffer begins in the file.
    base: u64,
}

impl Lines {
    pub(super) fn open(path: &Path, at: u64) -> io::Result<Self> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(at))?;
        Ok(Self { file, buffer: Vec::with_capacity(BLOCK), from: 0, base: at })
    }

    /// The next line without its end, and where it begins in the file.
    pub(super) fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        let mut searched = self.from;
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.buffer[searched..]) {
                let (from, end) = (self.from, searched + end);
                self.from = end + 1;
                return Ok(Some((self.base + from as u64, &self.buffer[from..end])));
            }
            searched = self.buffer.len() - self.from;
            // No line is that long; what is can only be damage, and is told like a line that does not end.
            if searched > 2 * LINE_MAX || !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Where the next line begins, or would.
    pub(super) fn position(&self) -> u64 {
        self.base + self.from as u64
    }

    /// Whether anything follows the last line.
    pub(super) fn is_torn(&self) -> bool {
        self.from < self.buffer.len()
    }

    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.from);
        self.base += self.from as u64;
        self.from = 0;
        let room = BLOCK as u64;
        Ok((&mut self.file).take(room).read_to_end(&mut self.buffer)? > 0)
    }
}

/// The lines of a file from its end on.
#[derive(Debug)]
pub(super) struct Backwards {
    file: File,
    /// Whole lines and the end of the one before them.
    buffer: Vec<u8>,
    /// Where the buffer begins in the file.
    base: u64,
}

impl Backwards {
    pub(super) fn open(path: &Path, before: Option<u64>) -> io::Result<Self> {
        let file = File::open(path)?;
        let base = match before {
            Some(before) => before,
            None => file.metadata()?.len(),
        };
        Ok(Self { file, buffer: Vec::new(), base })
    }

    /// The line before the last one given, without its end.
    pub(super) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            // The last byte of the buffer ends the line looked for.
            let ended = self.buffer.len().saturating_sub(1);
            if let Some(end) = memchr::memrchr(b'\n', &self.buffer[..ended]) {
                return Ok(Some(self.take(end + 1)));
            }
            if self.base == 0 {
                return Ok((!self.buffer.is_empty()).then(|| self.take(0)));
            }
            if self.buffer.len() > 2 * LINE_MAX {
                return Ok(None);
            }
            let size = self.base.min(BLOCK as u64);
            self.base -= size;
            self.file.seek(SeekFrom::Start(self.base))?;
            let mut block = Vec::with_capacity(BLOCK + self.buffer.len());
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

/// Where the line of an event begins in a file, or that of the first event after it.
///
/// The lines say their numbers themselves, so no index is kept that could be wrong.
pub(super) fn find(path: &Path, no: u64) -> io::Result<u64> {
    let (mut low, mut high) = (0, std::fs::metadata(path)?.len());
    while high - low > BLOCK as u64 {
        let middle = low + (high - low) / 2;
        let mut lines = Lines::open(path, middle)?;
        // What is left of the line in the middle comes first.
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
