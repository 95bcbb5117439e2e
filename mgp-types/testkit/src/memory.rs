//! The memory of a process.

/// Returns an entry of a process's memory statistics, e.g. `VmRSS`, in bytes; `None` on systems without `/proc`.
#[must_use]
pub fn process_memory(process: u32, figure: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let text = status.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(':'))?;
    let kib: u64 = text.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}
