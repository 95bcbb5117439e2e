//! Generates lines by mutating the seeds; the same seed number produces the same lines.

use mgp_testkit::Random;

use super::corpus::{LINES, PIECES};

/// The maximum length of a line, except for the rare long lines.
const MAX_LINE: usize = 4 << 10;
/// The average number of lines of which one contains a piece that is repeated to a total length of up to
/// [`MAX_LONG_LINE`] bytes.
const LONG_LINE_INTERVAL: usize = 2_000;
const MAX_LONG_LINE: usize = 80 << 10;

/// A deterministic generator of mutated lines.
#[derive(Debug)]
pub(crate) struct Mutator {
    random: Random,
    line: Vec<u8>,
}

impl Mutator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Random(seed), line: Vec::new() }
    }

    /// Returns the next line, without a newline.
    pub(crate) fn line(&mut self) -> &[u8] {
        self.line.clear();
        let base = self.below(LINES.len());
        self.line.extend_from_slice(LINES[base].as_bytes());
        // Applies a random number of mutations; with zero, the line stays equal to its seed.
        for _ in 0..self.below(6) {
            self.mutate();
            self.line.truncate(MAX_LINE);
        }
        if self.below(LONG_LINE_INTERVAL) == 0 {
            self.long_run();
        }
        for byte in &mut self.line {
            if *byte == b'\n' {
                *byte = b' ';
            }
        }
        &self.line
    }

    fn mutate(&mut self) {
        let at = self.below(self.line.len() + 1);
        match self.below(10) {
            0 => self.change(at, |byte, random| byte ^ (1 << (random % 8))),
            1 => self.change(at, |_, random| random),
            2 => {
                let byte = self.byte();
                self.line.insert(at, byte);
            }
            3 => {
                let range = self.range(24);
                self.line.drain(range);
            }
            4 => {
                let range = self.range(64);
                let copy = self.line[range].to_vec();
                self.put(at, &copy);
            }
            5 => self.line.truncate(at),
            6 => self.splice(at),
            7 => self.nest(at),
            _ => {
                let piece = self.below(PIECES.len());
                self.put(at, PIECES[piece]);
            }
        }
    }

    fn change(&mut self, at: usize, make: impl FnOnce(u8, u8) -> u8) {
        let random = self.byte();
        if let Some(byte) = self.line.get_mut(at) {
            *byte = make(*byte, random);
        }
    }

    /// Joins the part of this line before `at` and the end of another seed.
    fn splice(&mut self, at: usize) {
        let other = LINES[self.below(LINES.len())].as_bytes();
        let from = self.below(other.len() + 1);
        self.line.truncate(at);
        self.line.extend_from_slice(&other[from..]);
    }

    /// Inserts many nested brackets at `at`, sometimes without closing them.
    fn nest(&mut self, at: usize) {
        let depth = if self.below(8) == 0 { self.below(1_000) } else { self.below(200) };
        let (open, close): (&[u8], &[u8]) =
            if self.below(2) == 0 { (b"[", b"]") } else { (b"{\"a\":", b"}") };
        let mut nest = open.repeat(depth);
        if self.below(3) > 0 {
            nest.push(b'1');
            nest.extend(close.repeat(depth));
        }
        self.put(at, &nest);
    }

    /// Inserts one piece many times, so that some lines exceed the length limit of the connection.
    fn long_run(&mut self) {
        let piece = PIECES[self.below(PIECES.len())];
        let times = self.below(MAX_LONG_LINE / piece.len());
        let at = self.below(self.line.len() + 1);
        self.put(at, &piece.repeat(times));
    }

    fn put(&mut self, at: usize, piece: &[u8]) {
        self.line.splice(at..at, piece.iter().copied());
    }

    fn range(&mut self, longest: usize) -> std::ops::Range<usize> {
        let start = self.below(self.line.len() + 1);
        let length = self.below(longest);
        start..(start + length).min(self.line.len())
    }

    fn byte(&mut self) -> u8 {
        self.random.below(256).to_le_bytes()[0]
    }

    #[expect(clippy::cast_possible_truncation, reason = "a remainder of a usize fits")]
    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }
}
