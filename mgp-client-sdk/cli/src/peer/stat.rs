//! One process, as a line of `/proc/PID/stat` describes it.

/// A process id with the start time of the process, in clock ticks since boot. The system reuses ids, but never the
/// pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessId {
    pub(crate) pid: i32,
    pub(crate) started: u64,
}

/// A process: its id, name, parent, session and terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    pub(crate) id: ProcessId,
    /// The first 15 bytes of the program's name, or a name that the process has set itself.
    pub(crate) name: String,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    /// The process id of the leader of the process's session.
    pub(crate) session: i32,
    /// The device number of the controlling terminal; 0 if the process has none.
    pub(crate) terminal: i32,
    /// The process group in the foreground of that terminal.
    pub(crate) foreground: i32,
}

impl ProcessStat {
    /// Parses a line of `/proc/PID/stat`.
    pub(crate) fn parse(stat: &str) -> Option<Self> {
        // The name in parentheses may contain any bytes, even parentheses, so the line is split at the last `) `.
        let (begin, rest) = stat.rsplit_once(") ")?;
        let (pid, name) = begin.split_once(" (")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<i32>().ok();
        Some(Self {
            id: ProcessId { pid: pid.parse().ok()?, started: fields.get(19)?.parse().ok()? },
            name: name.to_owned(),
            parent: number(1)?,
            group: number(2)?,
            session: number(3)?,
            terminal: number(4)?,
            foreground: number(5)?,
        })
    }

    /// Returns whether the process is the first one of a terminal (the leader of its session), e.g. the shell in a new
    /// terminal window.
    pub(crate) fn leads_terminal(&self) -> bool {
        self.terminal != 0 && self.session == self.id.pid
    }

    /// Returns whether the process runs in the foreground of a terminal.
    pub(crate) fn is_in_foreground(&self) -> bool {
        self.terminal != 0 && self.group == self.foreground
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_past_any_name() {
        let line = "12 (a ) S 1 2) S 9 56 34 1025 56 4194560 1 0 0 0 1 2 3 4 20 0 1 0 4711 1 2";
        let stat = ProcessStat::parse(line).unwrap();
        assert_eq!((stat.id, &*stat.name), (ProcessId { pid: 12, started: 4711 }, "a ) S 1 2"));
        assert_eq!((stat.parent, stat.group, stat.session), (9, 56, 34));
        assert!(stat.is_in_foreground() && !stat.leads_terminal());
        assert_eq!(ProcessStat::parse("12 (sh) S 9 56 34"), None);
        assert_eq!(ProcessStat::parse(""), None);
    }
}
