//! Reads the file of the word table without copying rows or building an index (MGP §16.4).
//!
//! The file is little-endian and has these parts, in this order: a head of 64 bytes (magic, version, dimensions, rows,
//! slots, longest piece, bytes of all pieces, name), the number of pieces of each length (u16), scales (f32), slots
//! (u16, a hash table of row numbers), the pieces, and the rows (i8). The pieces are sorted by length, so the piece of
//! a row is found without stored offsets. A piece that continues a word begins with `#`.

const HEAD: usize = 64;
const EMPTY: u16 = u16::MAX;

/// A valid file, split into its parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    pub(super) name: &'static str,
    pub(super) dimensions: usize,
    longest: usize,
    counts: &'static [u8],
    scales: &'static [u8],
    slots: &'static [u8],
    pieces: &'static [u8],
    rows: &'static [u8],
    /// For each length: the first row whose piece has this length, and the position of that piece in `pieces`.
    lengths: [(u32, u32); LENGTHS],
}

/// The number of possible piece lengths: one more than the maximum length of a piece in bytes.
const LENGTHS: usize = 33;

/// The hash of a piece. It is extended byte by byte, so one pass over a word computes the hashes of all its prefixes.
#[derive(Clone, Copy)]
pub(super) struct Hash(u32);

impl Hash {
    /// The hash of an empty text. The hash of a word's first piece is computed from it.
    pub(super) const FIRST: Self = Self(0x811C_9DC5);
    /// The hash of the mark `#`. The hash of a piece that continues a word is computed from it.
    pub(super) const NEXT: Self = Self::FIRST.with(b'#');

    pub(super) const fn with(self, byte: u8) -> Self {
        Self((self.0 ^ byte as u32).wrapping_mul(0x0100_0193))
    }
}

impl File {
    /// Splits a file; returns `None` if it is truncated or inconsistent.
    pub(super) fn of(raw: &'static [u8]) -> Option<Self> {
        let (head, rest) = raw.split_at_checked(HEAD)?;
        let figure = |at: usize| u32_at(head, at).and_then(|figure| usize::try_from(figure).ok());
        if head.get(..8)? != b"mgptable" || figure(8)? != 1 {
            return None;
        }
        let (dimensions, count, slots) = (figure(12)?, figure(16)?, figure(20)?);
        let (longest, text) = (figure(24)?, figure(28)?);
        // A look-up in the hash table ends at an empty slot, so refuse a table without an empty slot.
        if longest >= LENGTHS || !slots.is_power_of_two() || count >= slots {
            return None;
        }
        let name = std::str::from_utf8(head.get(32..)?).ok()?.trim_end_matches('\0');
        let (counts, rest) = rest.split_at_checked(2 * (longest + 1))?;
        let (scales, rest) = rest.split_at_checked(4 * count)?;
        let (slots, rest) = rest.split_at_checked(2 * slots)?;
        let (pieces, rows) = rest.split_at_checked(text)?;
        let mut lengths = [(0, 0); LENGTHS];
        let (mut row, mut byte) = (0u32, 0u32);
        for (length, begins) in (0u32..).zip(&mut lengths) {
            *begins = (row, byte);
            let count = u16_at(counts, length as usize).map_or(0, u32::from);
            row += count;
            byte += count * length;
        }
        let whole = row as usize == count && byte as usize == text;
        let fits = rows.len() == count.checked_mul(dimensions)?;
        (whole && fits).then_some(Self {
            name,
            dimensions,
            longest,
            counts,
            scales,
            slots,
            pieces,
            rows,
            lengths,
        })
    }

    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Finds the row of a word, which must be in lower case; returns `None` unless the whole word is one piece of the
    /// table.
    pub(super) fn find_word(&self, word: &str) -> Option<u32> {
        let bytes = word.as_bytes();
        if bytes.is_empty() || bytes.len() > self.longest {
            return None;
        }
        let hash = bytes.iter().fold(Hash::FIRST, |hash, byte| hash.with(*byte));
        self.find(hash, Place::First, bytes)
    }

    /// Finds the row of a piece by its hash. `rest` is the text of the piece, without the mark `#` of pieces at
    /// [`Place::Next`].
    pub(super) fn find(&self, hash: Hash, place: Place, rest: &[u8]) -> Option<u32> {
        let length = rest.len() + usize::from(place == Place::Next);
        let &(first, begins) = self.lengths.get(length)?;
        let count = u16_at(self.counts, length).map_or(0, u32::from);
        let mask = self.slots.len() / 2 - 1;
        let mut at = (hash.0 ^ (hash.0 >> 15)) as usize & mask;
        loop {
            let row = u16_at(self.slots, at).filter(|row| *row != EMPTY).map(u32::from)?;
            // Rows are sorted by the length of their pieces. A row outside of the range of this length has another
            // piece, which only shares the hash slot, so it is not the row of the wanted piece.
            let nth = row.wrapping_sub(first);
            if nth < count {
                let from = begins as usize + nth as usize * length;
                let piece = self.pieces.get(from..from + length)?;
                let same = match place {
                    Place::First => piece == rest,
                    Place::Next => piece.split_first() == Some((&b'#', rest)),
                };
                if same {
                    return Some(row);
                }
            }
            at = (at + 1) & mask;
        }
    }

    #[cfg(test)]
    pub(super) fn piece(&self, row: u32) -> Option<(Place, &'static str)> {
        let length = (0..=self.longest).rev().find(|length| {
            let first = self.lengths[*length].0;
            row >= first && row - first < u16_at(self.counts, *length).map_or(0, u32::from)
        })?;
        let (first, begins) = self.lengths[length];
        let from = begins as usize + (row - first) as usize * length;
        let piece = std::str::from_utf8(&self.pieces[from..from + length]).ok()?;
        Some(piece.strip_prefix('#').map_or((Place::First, piece), |rest| (Place::Next, rest)))
    }

    pub(super) fn add(&self, row: u32, sum: &mut [f32]) {
        let from = row as usize * self.dimensions;
        let (Some(row), Some(scale)) = (
            self.rows.get(from..from + self.dimensions),
            u32_at(self.scales, 4 * row as usize).map(f32::from_bits),
        ) else {
            return;
        };
        for (sum, byte) in sum.iter_mut().zip(row) {
            *sum += scale * f32::from(byte.cast_signed());
        }
    }
}

/// The position of a piece in its word: at the beginning, or after another piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    First,
    Next,
}

fn u16_at(raw: &[u8], nth: usize) -> Option<u16> {
    let bytes = raw.get(2 * nth..2 * nth + 2)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

fn u32_at(raw: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(raw.get(at..at + 4)?.try_into().ok()?))
}
