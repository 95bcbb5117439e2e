//! Looks at a library before it is loaded (MGP §16.4).
//!
//! The loader of Linux maps what the header promises, and the process dies of the first page that is not there.
//! A download or copy that was cut short is the usual way to such a file.
//!
//! Applies to: both.

use std::{
    fs::File,
    io::{self, Read, SeekFrom},
    path::Path,
};

/// Why a library is not even tried.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(#[source] io::Error),
    /// The header promises more than the file has.
    #[error("the file was cut short: it has {has} bytes of {wanted}")]
    Cut {
        /// How many it has.
        has: u64,
        /// How many it should have at least.
        wanted: u64,
    },
}

/// A segment that is mapped.
const LOAD: u64 = 1;
/// Programs and libraries have about ten segments.
const MOST_SEGMENTS: u64 = 1024;

/// Refuses a library that ends before its header says.
///
/// What is no library of Linux is left to the loader, which says so; and so is a name without a file, which the loader
/// looks for in the places of the system.
pub(super) fn whole(library: &Path) -> Result<(), Unfit> {
    let mut file = match File::open(library) {
        Err(reason) if reason.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(Unfit::Unreadable)?,
    };
    let has = file.metadata().map_err(Unfit::Unreadable)?.len();
    match needed(&mut file).map_err(Unfit::Unreadable)? {
        Some(wanted) if wanted > has => Err(Unfit::Cut { has, wanted }),
        _ => Ok(()),
    }
}

/// How long a library of Linux is at least, according to its header.
fn needed(file: &mut (impl Read + io::Seek)) -> io::Result<Option<u64>> {
    let mut header = [0; 64];
    let read = read_full(file, &mut header)?;
    // ELF of 64 bits, the little end first: all machines there is a runtime for.
    if !header.starts_with(&[0x7f, b'E', b'L', b'F', 2, 1]) {
        return Ok(None);
    }
    if read < header.len() {
        return Ok(Some(64));
    }
    let (table, size, count) =
        (number(&header, 32, 8), number(&header, 54, 2), number(&header, 56, 2));
    let mut wanted = table.saturating_add(size * count);
    if size < 56 {
        return Ok(Some(wanted));
    }
    file.seek(SeekFrom::Start(table))?;
    let mut segment = vec![0; usize::try_from(size).unwrap_or(56)];
    for _ in 0..count.min(MOST_SEGMENTS) {
        if read_full(file, &mut segment)? < segment.len() {
            break;
        }
        if number(&segment, 0, 4) == LOAD {
            let end = number(&segment, 8, 8).saturating_add(number(&segment, 32, 8));
            wanted = wanted.max(end);
        }
    }
    Ok(Some(wanted))
}

/// Fills the buffer as far as the file reaches.
fn read_full(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match file.read(&mut buffer[read..]) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(reason) if reason.kind() == io::ErrorKind::Interrupted => {}
            Err(reason) => return Err(reason),
        }
    }
    Ok(read)
}

/// A number of so many bytes, the little end first.
fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    let bytes = bytes.get(at..at + size).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    /// A header that promises one segment of this length.
    fn elf(length: u64) -> Vec<u8> {
        let mut file = vec![0; 120];
        file[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        file[32] = 64;
        file[54] = 56;
        file[56] = 1;
        file[64] = 1;
        file[96..104].copy_from_slice(&length.to_le_bytes());
        file
    }

    fn check(file: &[u8], expected: Option<u64>) {
        assert_eq!(needed(&mut Cursor::new(file)).unwrap(), expected);
    }

    #[test]
    fn a_library_is_as_long_as_its_segments() {
        check(&elf(10), Some(120));
        check(&elf(30_000_000), Some(30_000_000));
        check(&elf(u64::MAX), Some(u64::MAX));
    }

    #[test]
    fn a_library_that_ends_within_its_header_needs_more() {
        check(&elf(10)[..20], Some(64));
        check(&elf(10)[..70], Some(120));
    }

    #[test]
    fn what_is_no_library_of_linux_is_left_to_the_loader() {
        for file in [&b""[..], b"MZ and so on", b"text", b"\x7fELF\x01\x01"] {
            check(file, None);
        }
        assert!(whole(Path::new("no-such-library.so")).is_ok());
    }

    proptest! {
        #[test]
        fn any_header_is_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let file = [&elf(10)[..6], &bytes].concat();
            assert!(needed(&mut Cursor::new(file)).is_ok());
        }
    }
}
