//! Reads the CPU time and memory of a process tree from `/proc` and the CPU clocks. All modes of the load generator use
//! it to measure the server.

/// Returns the CPU time of a process in nanoseconds, including threads that have exited.
pub(crate) fn cpu_ns(pid: i32) -> u64 {
    let clk = ((!(pid as libc::clockid_t)) << 3) | 2;
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid place to write to.
    if unsafe { libc::clock_gettime(clk, &mut ts) } == 0 {
        ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
    } else {
        0
    }
}

/// Returns the user-space CPU time of a process in nanoseconds. Linux counts this time in ticks of 10 ms, so the value
/// is only meaningful for long runs.
pub(crate) fn user_ns(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The process name in parentheses may itself contain spaces and parentheses, so fields are counted after the last
    // parenthesis. The 12th of these fields is the user time.
    let ticks: Option<u64> =
        stat.rsplit_once(')').and_then(|x| x.1.split_whitespace().nth(11)?.parse().ok());
    ticks.unwrap_or(0) * 10_000_000
}

/// Returns the given processes and all their descendants.
pub(crate) fn tree(roots: &[i32]) -> Vec<i32> {
    let mut par: Vec<(i32, i32)> = vec![];
    for e in std::fs::read_dir("/proc").unwrap().flatten() {
        if let Ok(pid) = e.file_name().to_string_lossy().parse::<i32>() {
            if let Ok(s) = std::fs::read_to_string(format!("/proc/{pid}/stat")) {
                if let Some(p) = s
                    .rsplit_once(')')
                    .and_then(|x| x.1.split_whitespace().nth(1).and_then(|x| x.parse().ok()))
                {
                    par.push((pid, p));
                }
            }
        }
    }
    let mut out: Vec<i32> = roots.to_vec();
    let mut i = 0;
    while i < out.len() {
        let r = out[i];
        for &(c, p) in &par {
            if p == r && !out.contains(&c) {
                out.push(c);
            }
        }
        i += 1;
    }
    out
}

/// Returns the value of a line of `/proc/PID/status`, in kB; 0 if the process or the line does not exist.
pub(crate) fn status_kb(pid: i32, key: &str) -> u64 {
    std::fs::read_to_string(format!("/proc/{pid}/status"))
        .ok()
        .and_then(|s| {
            s.lines()
                .find(|l| l.starts_with(key))
                .and_then(|l| l.split_whitespace().nth(1).and_then(|x| x.parse().ok()))
        })
        .unwrap_or(0)
}

/// The CPU times of the server processes and of the load generator when the measured part of a run begins.
pub(crate) struct Account {
    pub(crate) pids: Vec<i32>,
    pub(crate) server_cpu: u64,
    pub(crate) server_user: u64,
    pub(crate) own_cpu: u64,
}

impl Account {
    /// Reads the counters for the processes `roots` and their descendants. If `alone` is set, the descendants are not
    /// measured.
    pub(crate) fn start(roots: &[i32], alone: bool) -> Account {
        let pids = if alone { roots.to_vec() } else { tree(roots) };
        Account {
            server_cpu: pids.iter().map(|&p| cpu_ns(p)).sum(),
            server_user: pids.iter().map(|&p| user_ns(p)).sum(),
            own_cpu: cpu_ns(std::process::id() as i32),
            pids,
        }
    }

    /// Returns two CPU times since [`Account::start`], in nanoseconds: that of the server processes, and that of the
    /// load generator.
    pub(crate) fn end(&self) -> (u64, u64) {
        (
            self.pids.iter().map(|&p| cpu_ns(p)).sum::<u64>() - self.server_cpu,
            cpu_ns(std::process::id() as i32) - self.own_cpu,
        )
    }

    /// Returns the user-space CPU time of the server processes since the start, in nanoseconds.
    pub(crate) fn user(&self) -> u64 {
        self.pids.iter().map(|&p| user_ns(p)).sum::<u64>().saturating_sub(self.server_user)
    }

    /// Returns the sum of the peak resident memory of the server processes, in kB.
    pub(crate) fn peak_kb(&self) -> u64 {
        self.pids.iter().map(|&p| status_kb(p, "VmHWM")).sum()
    }

    /// Returns the sum of the current resident memory of the server processes, in kB.
    pub(crate) fn rss_kb(&self) -> u64 {
        self.pids.iter().map(|&p| status_kb(p, "VmRSS")).sum()
    }
}
