//! The memory use of this process (MGP §11.3).

/// Returns the resident memory in bytes; `None` if the system does not report it.
///
/// On Linux it is read from a file that the system keeps in memory, so reading never waits for a disk.
pub(super) fn bytes() -> Option<u64> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_some_memory_where_it_can_be_known() {
        assert_eq!(bytes().is_some_and(|bytes| bytes > 1 << 16), cfg!(target_os = "linux"));
    }
}
