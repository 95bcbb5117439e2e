//! CPU time, memory and context switches of a process tree, read from the kernel.

/// CPU time (ns) of a whole process (all threads, also exited ones) from its CPU clock.
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
pub(crate) fn ctxt(pid: i32) -> u64 {
    let mut t = 0;
    if let Ok(d) = std::fs::read_dir(format!("/proc/{pid}/task")) {
        for e in d.flatten() {
            if let Ok(s) = std::fs::read_to_string(e.path().join("status")) {
                for l in s.lines() {
                    if l.contains("ctxt_switches") {
                        t += l
                            .split_whitespace()
                            .nth(1)
                            .and_then(|x| x.parse::<u64>().ok())
                            .unwrap_or(0);
                    }
                }
            }
        }
    }
    t
}
pub(crate) struct Acct {
    pub(crate) pids: Vec<i32>,
    pub(crate) cpu0: u64,
    pub(crate) self0: u64,
    pub(crate) ctx0: u64,
}
impl Acct {
    pub(crate) fn start(roots: &[i32]) -> Acct {
        let pids = tree(roots);
        Acct {
            cpu0: pids.iter().map(|&p| cpu_ns(p)).sum(),
            self0: cpu_ns(std::process::id() as i32),
            ctx0: pids.iter().map(|&p| ctxt(p)).sum(),
            pids,
        }
    }
    pub(crate) fn end(&self) -> (u64, u64, u64) {
        (
            self.pids.iter().map(|&p| cpu_ns(p)).sum::<u64>() - self.cpu0,
            cpu_ns(std::process::id() as i32) - self.self0,
            self.pids.iter().map(|&p| ctxt(p)).sum::<u64>().saturating_sub(self.ctx0),
        )
    }
    pub(crate) fn hwm_kb(&self) -> u64 {
        self.pids.iter().map(|&p| status_kb(p, "VmHWM")).sum()
    }
    pub(crate) fn rss_kb(&self) -> u64 {
        self.pids.iter().map(|&p| status_kb(p, "VmRSS")).sum()
    }
}
