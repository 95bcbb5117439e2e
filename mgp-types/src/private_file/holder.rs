//! The process that holds the lock of a file.

use std::path::Path;

/// Returns the id of the process that holds the lock of a file, if the system reports it.
#[cfg(target_os = "linux")]
pub(super) fn lock_holder(file: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = std::fs::metadata(file).ok()?;
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    find_holder(&locks, metadata.dev(), metadata.ino())
}

/// Returns `None`, because other systems do not report it.
#[cfg(not(target_os = "linux"))]
pub(super) fn lock_holder(_: &Path) -> Option<u32> {
    None
}

/// Finds the holder in the text of `/proc/locks`, whose lines have the type of a lock as their second word, the process
/// as the fifth, and the file as the sixth.
#[cfg(target_os = "linux")]
fn find_holder(locks: &str, device: u64, inode: u64) -> Option<u32> {
    let major = ((device >> 8) & 0xfff) | ((device >> 32) & !0xfff);
    let minor = (device & 0xff) | ((device >> 12) & !0xff);
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            // The process is 0 if it is in another namespace.
            [_, "FLOCK", _, _, pid, locked, ..] if locked == file => {
                pid.parse::<u32>().ok().filter(|pid| *pid > 0)
            }
            _ => None,
        }
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_found_by_the_file() {
        let locks = "1: POSIX  ADVISORY  READ 7 fe:00:131 128 128\n\
                     2: FLOCK  ADVISORY  WRITE 4711 fe:00:131 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 8 fe:00:131 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 9 00:1b:63 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 0 00:1b:64 0 EOF\n";
        let check = |device, inode, expected| {
            assert_eq!(find_holder(locks, device, inode), expected, "{device:x} {inode}");
        };
        check(0xfe00, 131, Some(4711));
        check(0x1b, 63, Some(9));
        check(0x1b, 64, None);
        check(0xfe00, 63, None);
    }
}
