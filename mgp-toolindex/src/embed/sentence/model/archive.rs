//! Reads the members of a zip file, which is what a wheel is (MGP §16.4).
//!
//! The file is one whose checksum is known, and still nothing in it is believed: every offset and length is checked.
//!
//! Applies to: both.

use miniz_oxide::inflate::decompress_to_vec_with_limit;

/// The end of the list of members, before an optional comment.
const END: [u8; 4] = *b"PK\x05\x06";
const END_BYTES: usize = 22;
const ENTRY: [u8; 4] = *b"PK\x01\x02";
const ENTRY_BYTES: usize = 46;
const LOCAL: [u8; 4] = *b"PK\x03\x04";
const LOCAL_BYTES: usize = 30;
/// A comment is no longer than this.
const COMMENT: usize = u16::MAX as usize;

/// No member is larger; the weights of `MiniLM` are 91 MB.
const LARGEST: usize = 256 << 20;

/// Why a member cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ArchiveError {
    /// It does not end as a zip does.
    #[error("it is no zip file, or the download was cut short")]
    NotAZip,
    /// A length or offset leads out of the file.
    #[error("its list of members is damaged")]
    Damaged,
    /// Nobody packed such a member.
    #[error("it has no `{0}`")]
    NoMember(String),
    /// A member is packed in a way that wheels are not, or is too large.
    #[error("`{0}` is packed in a way that is not known here")]
    Unknown(String),
    /// A member does not unpack to what was promised.
    #[error("`{0}` is damaged")]
    DamagedMember(String),
}

/// A zip file in memory.
#[derive(Debug)]
pub(super) struct Archive<'a> {
    bytes: &'a [u8],
    /// Where the list of members begins, and how many there are.
    list: (usize, usize),
}

impl<'a> Archive<'a> {
    /// Finds the list of members.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, ArchiveError> {
        let last = bytes.len().checked_sub(END_BYTES).ok_or(ArchiveError::NotAZip)?;
        let first = last.saturating_sub(COMMENT);
        let at = (first..=last).rev().find(|at| bytes[*at..].starts_with(&END));
        let end = &bytes[at.ok_or(ArchiveError::NotAZip)?..];
        let (count, start) = (short(end, 10), long(end, 16));
        let (Some(count), Some(start)) = (count, start) else { return Err(ArchiveError::NotAZip) };
        Ok(Self { bytes, list: (start, count) })
    }

    /// Unpacks a member.
    pub(super) fn member(&self, name: &str) -> Result<Vec<u8>, ArchiveError> {
        let (mut at, count) = self.list;
        for _ in 0..count {
            let entry = part(self.bytes, at, ENTRY_BYTES).ok_or(ArchiveError::Damaged)?;
            let length = |offset| short(entry, offset).ok_or(ArchiveError::Damaged);
            if !entry.starts_with(&ENTRY) {
                return Err(ArchiveError::Damaged);
            }
            let (named, extra, comment) = (length(28)?, length(30)?, length(32)?);
            let own = part(self.bytes, at + ENTRY_BYTES, named).ok_or(ArchiveError::Damaged)?;
            if own == name.as_bytes() {
                return self.unpack(name, entry);
            }
            at += ENTRY_BYTES + named + extra + comment;
        }
        Err(ArchiveError::NoMember(name.to_owned()))
    }

    fn unpack(&self, name: &str, entry: &[u8]) -> Result<Vec<u8>, ArchiveError> {
        let damaged = || ArchiveError::DamagedMember(name.to_owned());
        let figures = (short(entry, 10), long(entry, 20), long(entry, 24), long(entry, 42));
        let (Some(method), Some(packed), Some(size), Some(at)) = figures else {
            return Err(damaged());
        };
        let local = part(self.bytes, at, LOCAL_BYTES).filter(|local| local.starts_with(&LOCAL));
        let local = local.ok_or_else(damaged)?;
        // The lengths of name and extra field may differ from those in the list.
        let before = short(local, 26).zip(short(local, 28)).ok_or_else(damaged)?;
        let start = at + LOCAL_BYTES + before.0 + before.1;
        let packed = part(self.bytes, start, packed).ok_or_else(damaged)?;
        let member = match method {
            0 => packed.to_vec(),
            8 if size <= LARGEST => {
                decompress_to_vec_with_limit(packed, size).map_err(|_| damaged())?
            }
            _ => return Err(ArchiveError::Unknown(name.to_owned())),
        };
        if member.len() == size { Ok(member) } else { Err(damaged()) }
    }
}

fn part(bytes: &[u8], at: usize, length: usize) -> Option<&[u8]> {
    bytes.get(at..at.checked_add(length)?)
}

fn short(bytes: &[u8], at: usize) -> Option<usize> {
    let two = part(bytes, at, 2)?.try_into().ok()?;
    Some(usize::from(u16::from_le_bytes(two)))
}

fn long(bytes: &[u8], at: usize) -> Option<usize> {
    let four = part(bytes, at, 4)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(four)).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use miniz_oxide::deflate::compress_to_vec;
    use proptest::prelude::*;

    /// Packs members; the method of each is its number.
    pub(crate) fn zip(members: &[(&str, u8, &[u8])]) -> Vec<u8> {
        let (mut out, mut list) = (Vec::new(), Vec::new());
        let number = |n: usize| u32::try_from(n).unwrap().to_le_bytes();
        for (name, method, content) in members {
            let packed = match method {
                0 => content.to_vec(),
                _ => compress_to_vec(content, 6),
            };
            let at = out.len();
            let named = &number(name.len())[..2];
            let sizes = [number(packed.len()), number(content.len())].concat();
            let head = [&[20, 0, 0, 0, *method, 0][..], &[0; 8], &sizes, named].concat();
            out.extend([&LOCAL[..], &head, &[0, 0], name.as_bytes(), &packed].concat());
            let tail = [&[0; 12][..], &number(at), name.as_bytes()].concat();
            list.extend([&ENTRY[..], &[20, 0], &head, &tail].concat());
        }
        let count = [0, 0, 0, 0, u8::try_from(members.len()).unwrap(), 0, 0, 0];
        let count = [&count[..4], &count[4..6], &count[4..6]].concat();
        let end = [&END[..], &count, &number(list.len()), &number(out.len()), &[0, 0]].concat();
        out.extend(list);
        out.extend(end);
        out
    }

    #[test]
    fn members_are_unpacked_by_name() {
        let long = "many words ".repeat(1000);
        let zip = zip(&[("a", 0, b"plain"), ("b/c", 8, long.as_bytes()), ("d", 0, b"")]);
        let archive = Archive::new(&zip).unwrap();
        assert_eq!(archive.member("a").unwrap(), b"plain");
        assert_eq!(archive.member("b/c").unwrap(), long.as_bytes());
        assert_eq!(archive.member("d").unwrap(), b"");
        assert_eq!(archive.member("c"), Err(ArchiveError::NoMember("c".into())));
    }

    #[test]
    fn a_file_that_was_cut_short_is_no_zip() {
        let zip = zip(&[("a", 0, b"plain")]);
        assert_eq!(Archive::new(&zip[..zip.len() - 1]).unwrap_err(), ArchiveError::NotAZip);
        assert_eq!(Archive::new(b"").unwrap_err(), ArchiveError::NotAZip);
    }

    #[test]
    fn a_member_is_not_larger_than_promised() {
        let mut zip = zip(&[("a", 8, &vec![7; 100_000])]);
        let at = zip.windows(4).position(|four| four == ENTRY).unwrap() + 24;
        zip[at..at + 4].copy_from_slice(&1000_u32.to_le_bytes());
        let refused = Archive::new(&zip).unwrap().member("a");
        assert_eq!(refused, Err(ArchiveError::DamagedMember("a".into())));
        zip[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        let refused = Archive::new(&zip).unwrap().member("a");
        assert_eq!(refused, Err(ArchiveError::Unknown("a".into())));
    }

    proptest! {
        #[test]
        fn damaged_bytes_never_panic(places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
            let mut zip = zip(&[("a", 0, b"plain"), ("b", 8, b"packed packed packed")]);
            for (place, byte) in places {
                let at = place.index(zip.len());
                zip[at] = byte;
            }
            if let Ok(archive) = Archive::new(&zip) {
                for name in ["a", "b", "c"] {
                    drop(archive.member(name));
                }
            }
        }
    }
}
