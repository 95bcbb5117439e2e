//! Reads the members of process groups, and the parents of processes, from `/proc`.
//!
//! Used to end a child together with its process group (MGP §11).

use rustix::process::Pid;

/// Returns whether a process group has a living member; `None` if the members of the group cannot be listed.
///
/// A living leader counts as a member, so this function should be called only after the leader has died.
#[cfg(target_os = "linux")]
pub(super) fn has_members(group: Pid) -> Option<bool> {
    let group = group.as_raw_nonzero().get();
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name();
        if !name.as_encoded_bytes().first().is_some_and(u8::is_ascii_digit) {
            continue;
        }
        // The process might have ended since the scan began. Its text is then empty, so it does not count as living.
        let stat = std::fs::read(entry.path().join("stat")).unwrap_or_default();
        if living_in(&stat) == Some(group) {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn has_members(_group: Pid) -> Option<bool> {
    None
}

/// Reads the process group from the text of a `/proc/PID/stat` file; returns `None` if the process is dead.
#[cfg(target_os = "linux")]
fn living_in(stat: &[u8]) -> Option<i32> {
    let mut fields = fields_after_name(stat)?;
    let state = fields.next()?;
    let group = fields.nth(1)?.parse().ok()?;
    (!matches!(state, "Z" | "X" | "x")).then_some(group)
}

/// Reads the parent's process id from the text of a `/proc/PID/stat` file.
#[cfg(target_os = "linux")]
pub(super) fn parent(stat: &[u8]) -> Option<i32> {
    fields_after_name(stat)?.nth(1)?.parse().ok()
}

/// Returns the fields after the program's name: the state, the parent, the process group and further fields.
#[cfg(target_os = "linux")]
fn fields_after_name(stat: &[u8]) -> Option<std::str::SplitAsciiWhitespace<'_>> {
    // The name is in parentheses and can contain any character, even parentheses. So search for the last parenthesis.
    let after_name = stat.get(memchr::memrchr(b')', stat)? + 1..)?;
    Some(std::str::from_utf8(after_name).ok()?.split_ascii_whitespace())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stat: &str, expected: Option<i32>) {
        assert_eq!(living_in(stat.as_bytes()), expected, "{stat}");
    }

    #[test]
    fn the_group_is_read_past_any_name() {
        check("12 (sh) S 1 34 34 0 -1", Some(34));
        check("12 (a ) Z 9 (x) R 1 56 56 0 -1", Some(56));
        check("12 (sh) Z 1 34 34 0 -1", None);
        check("12 (sh", None);
        check("", None);
    }

    #[test]
    fn the_parent_is_read_past_any_name() {
        assert_eq!(parent(b"12 (a ) Z 9 (x) R 1 56 56 0 -1"), Some(1));
        assert_eq!(parent(b"12 (sh"), None);
    }

    #[test]
    fn our_own_group_has_us() {
        assert_eq!(has_members(rustix::process::getpgrp()), Some(true));
    }
}
