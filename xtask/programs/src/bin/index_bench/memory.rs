//! Reads the resident memory of this process.

/// The resident memory of this process in kB: its current amount (`now`, of which `heap` is a part), and the peak so
/// far (`most`).
pub(crate) struct Memory {
    pub(crate) now: u64,
    /// The part of `now` that is not backed by files.
    pub(crate) heap: u64,
    pub(crate) most: u64,
}

impl Memory {
    /// Reads the values from `/proc`; all are zero on systems without it.
    pub(crate) fn of_this_process() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
        };
        Self { now: field("VmRSS:"), heap: field("RssAnon:"), most: field("VmHWM:") }
    }
}
