//! Checks a shared library before it is loaded (MGP §16.4).
//!
//! Linux maps all segments that the ELF header lists. If the file is shorter, the first access to a missing page
//! kills the process. The usual cause is a truncated download or copy.

use std::{
    fs::File,
    io::{self, Read, SeekFrom},
    path::Path,
};

#[derive(Debug, thiserror::Error)]
pub(super) enum LibraryError {
    #[error("{0}")]
    Unreadable(#[source] io::Error),
    #[error("the file was truncated: it has {has} bytes of {wanted}")]
    Truncated { has: u64, wanted: u64 },
}

/// The type of a segment that is mapped into memory.
const PT_LOAD: u64 = 1;
/// The maximum number of segments that are checked; real libraries have about ten.
const MAX_SEGMENTS: u64 = 1024;

/// Returns an error if an ELF library is shorter than its header requires.
///
/// Accepts files in other formats and files that do not exist, because the loader reports errors about them. The loader
/// also finds a name without a path in the system's folders.
pub(super) fn check_length(library: &Path) -> Result<(), LibraryError> {
    let mut file = match File::open(library) {
        Err(reason) if reason.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(LibraryError::Unreadable)?,
    };
    let has = file.metadata().map_err(LibraryError::Unreadable)?.len();
    match needed(&mut file).map_err(LibraryError::Unreadable)? {
        Some(wanted) if wanted > has => Err(LibraryError::Truncated { has, wanted }),
        _ => Ok(()),
    }
}

/// Returns the minimum length of an ELF file according to its header; `None` for a file in another format.
fn needed(file: &mut (impl Read + io::Seek)) -> io::Result<Option<u64>> {
    let header = read_up_to(file, 64)?;
    // Accept any other format. The only library that needs the check is onnxruntime, which exists on Linux only as
    // 64-bit little-endian ELF.
    if !header.starts_with(&[0x7f, b'E', b'L', b'F', 2, 1]) {
        return Ok(None);
    }
    if header.len() < 64 {
        return Ok(Some(64));
    }
    let (table, size, count) =
        (number(&header, 32, 8), number(&header, 54, 2), number(&header, 56, 2));
    let mut wanted = table.saturating_add(size * count);
    if size < 56 {
        return Ok(Some(wanted));
    }
    file.seek(SeekFrom::Start(table))?;
    for _ in 0..count.min(MAX_SEGMENTS) {
        let segment = read_up_to(file, size)?;
        if (segment.len() as u64) < size {
            break;
        }
        if number(&segment, 0, 4) == PT_LOAD {
            let end = number(&segment, 8, 8).saturating_add(number(&segment, 32, 8));
            wanted = wanted.max(end);
        }
    }
    Ok(Some(wanted))
}

fn read_up_to(file: &mut impl Read, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a little-endian number of `size` bytes.
fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    let bytes = bytes.get(at..at + size).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    /// Returns an ELF header that lists one segment of this length.
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
    fn a_file_other_than_elf_is_left_to_the_loader() {
        for file in [&b""[..], b"MZ and so on", b"text", b"\x7fELF\x01\x01"] {
            check(file, None);
        }
        assert!(check_length(Path::new("no-such-library.so")).is_ok());
    }

    proptest! {
        #[test]
        fn any_header_is_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let file = [&elf(10)[..6], &bytes].concat();
            assert!(needed(&mut Cursor::new(file)).is_ok());
        }
    }
}
