//! Memory of a kernel that rests: what it does not need then, it gives back to the system.
//!
//! A start runs through most of the program once, and each call through some of it; a kernel rests most of its life.
//! So when it rests, free memory goes back, and so do the pages of the program that are in memory because somebody once
//! ran or read them: the system has them in its cache still, and maps those that are wanted again.
//! Linux with glibc only; elsewhere nothing is done.
//!
//! Applies to: both.

/// Serves all threads from one part of memory; to be called before there is a second thread.
///
/// A part for each thread keeps what that thread freed, which nobody else can use.
pub(crate) fn share_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    system::share_memory();
}

/// Gives memory back whenever the process rests, as long as the future is polled; it ends where that cannot be done.
pub(crate) async fn whenever_it_rests() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    resting::give_back().await;
}

/// When it rests.
#[cfg(any(test, all(target_os = "linux", target_env = "gnu")))]
mod resting {
    use std::time::Duration;

    /// How long it has to rest, and how long nothing is looked at after memory was given back.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    const LOOK: Duration = Duration::from_secs(1);
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    const PAUSE: Duration = Duration::from_mins(1);

    /// So much of the time it may work and rest all the same: looking after files and servers takes a tenth of that.
    const REST: Duration = Duration::from_millis(10);

    /// What has to have come since: less is not worth the looking for it.
    const WORTH: u64 = 1 << 20;

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    pub(super) async fn give_back() {
        let mut rest = Rest::default();
        let mut pause = LOOK;
        loop {
            tokio::time::sleep(pause).await;
            pause = LOOK;
            let Some(now) = Usage::read() else { return };
            if rest.is_due(now) {
                // It takes some milliseconds; who calls meanwhile does not wait for them.
                if tokio::task::spawn_blocking(super::system::give_back).await.is_err() {
                    return;
                }
                let Some(now) = Usage::read() else { return };
                rest.given_back(now);
                pause = PAUSE;
            } else if rest.is_done(now) {
                pause = PAUSE;
            }
        }
    }

    /// What the process has used so far, and holds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Usage {
        worked: Duration,
        resident: u64,
    }

    /// How it was when it was last looked at.
    #[derive(Debug, Default)]
    struct Rest {
        last: Option<Duration>,
        /// What was left when memory was last given back.
        left: Option<u64>,
    }

    impl Rest {
        /// Whether it has rested since the last look, and holds more than it did when memory was last given back.
        fn is_due(&mut self, now: Usage) -> bool {
            let last = self.last.replace(now.worked);
            let rested = last.is_some_and(|last| now.worked.saturating_sub(last) <= REST);
            rested && !self.is_done(now)
        }

        /// Whether there is nothing to give back.
        fn is_done(&self, now: Usage) -> bool {
            self.left.is_some_and(|left| now.resident < left.saturating_add(WORTH))
        }

        fn given_back(&mut self, now: Usage) {
            // A minute of work and one of rest are not to be taken for each other.
            *self = Self { last: None, left: Some(now.resident) };
        }
    }

    impl Usage {
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        fn read() -> Option<Self> {
            Self::of(&std::fs::read_to_string("/proc/self/stat").ok()?)
        }

        /// Reads `/proc/PID/stat`: `utime` and `stime` are its 14th and 15th figure, `rss` the 24th (proc(5)).
        fn of(stat: &str) -> Option<Self> {
            /// The hundredths of a second that Linux counts processes' time in.
            const TICK: Duration = Duration::from_millis(10);
            // More where pages are larger; it is compared with itself.
            const PAGE: u64 = 4096;
            // A name may have blanks and brackets.
            let mut figures = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
            let mut next = || figures.next()?.parse::<u64>().ok();
            let ticks = next()?.saturating_add(next()?);
            let resident = figures.nth(8)?.parse::<u64>().ok()?.saturating_mul(PAGE);
            Some(Self { worked: TICK.saturating_mul(u32::try_from(ticks).ok()?), resident })
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn usage(worked_ms: u64, resident: u64) -> Usage {
            Usage { worked: Duration::from_millis(worked_ms), resident: resident << 20 }
        }

        #[test]
        fn memory_is_given_back_once_it_rests_and_not_again_before_there_is_more() {
            let mut rest = Rest::default();
            assert!(!rest.is_due(usage(200, 30)), "nobody knows yet whether it rests");
            assert!(!rest.is_due(usage(900, 31)), "it works");
            assert!(rest.is_due(usage(910, 31)));
            rest.given_back(usage(920, 8));
            assert!(!rest.is_due(usage(930, 8)));
            assert!(!rest.is_due(usage(940, 8)), "nothing came since");
            assert!(!rest.is_due(usage(2_000, 20)), "it was called, and may be called again");
            assert!(rest.is_due(usage(2_010, 20)));
        }

        #[test]
        fn figures_are_found_behind_any_name() {
            let rest = "S 1 2 3 0 -1 4194560 1525 0 0 0 7 5 0 0 20 0 8 0 2361 99 2048 184467";
            for name in ["mgp", "a) S 9 9 (b", ""] {
                let stat = format!("12 ({name}) {rest}");
                assert_eq!(Usage::of(&stat), Some(usage(120, 8)), "{stat}");
            }
            assert_eq!(Usage::of("12 (mgp) S 1"), None);
        }

        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        #[test]
        fn what_the_system_says_of_this_process_is_understood() {
            let usage = Usage::read().expect("there is a figure");
            assert!(usage.resident > 1 << 20, "{usage:?}");
        }
    }
}

/// What only the system and its C library can do.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "nobody offers safe calls for it; each says what keeps it sound")]
mod system {
    use std::ffi::{c_int, c_void};
    use std::fs;

    /// `M_ARENA_MAX` of `malloc.h`.
    const ARENAS: c_int = -8;

    /// `MADV_DONTNEED` of Linux, the same on all processors that Rust's standard library is built for.
    const NOT_NEEDED: c_int = 4;

    unsafe extern "C" {
        fn mallopt(option: c_int, value: c_int) -> c_int;
        // It may be called by any thread at any time (malloc_trim(3)).
        safe fn malloc_trim(pad: usize) -> c_int;
        fn madvise(from: *mut c_void, length: usize, advice: c_int) -> c_int;
    }

    pub(super) fn share_memory() {
        // SAFETY: only calls of it at the same time are in each other's way, and there is one thread. What it sets has
        // no meaning for memory that was handed out.
        unsafe { mallopt(ARENAS, 1) };
    }

    /// Gives back free memory, and the pages of the program.
    pub(super) fn give_back() {
        malloc_trim(0);
        let Ok(maps) = fs::read_to_string("/proc/self/smaps") else { return };
        let (code, text): (fn(), &'static str) = (give_back, "the words of the program");
        for inside in [code as usize, text.as_ptr().addr()] {
            let Some(Mapping { from, length }) = Mapping::untouched(&maps, inside) else {
                continue;
            };
            // SAFETY: code or texts of the program itself are in this mapping, so it stays where it is as long as the
            // process lives, and nobody else gets these addresses. It was read from a file for reading only, and no
            // page of it was written to since: the system has just said so, and whoever could write (a loader, a
            // debugger that sets a breakpoint) is done or leaves a page that counts as written. So each page that is
            // dropped is the file's, which cannot be written to while it runs, and the next access, by whichever
            // thread, finds the same bytes. Whatever goes wrong is refused by the system, and nothing is changed.
            unsafe { madvise(std::ptr::without_provenance_mut(from), length, NOT_NEEDED) };
        }
    }

    /// A stretch of memory.
    #[derive(Debug, PartialEq, Eq)]
    struct Mapping {
        from: usize,
        length: usize,
    }

    impl Mapping {
        /// The mapping of a file around an address, if it is for reading only and as it is in the file (proc(5), `smaps`).
        fn untouched(maps: &str, inside: usize) -> Option<Self> {
            let mut lines = maps.lines();
            let found = lines.find_map(|line| {
                let mut words = line.split_ascii_whitespace();
                let (from, to) = words.next()?.split_once('-')?;
                let from = usize::from_str_radix(from, 16).ok()?;
                let to = usize::from_str_radix(to, 16).ok()?;
                let is_private = matches!(words.next()?, "r-xp" | "r--p");
                let is_file = words.nth(3)?.starts_with('/');
                let found = Self { from, length: to.checked_sub(from)? };
                (from..to).contains(&inside).then_some((found, is_private && is_file))
            });
            let (found, is_plain) = found?;
            let written = lines.find_map(|line| line.strip_prefix("Anonymous:"))?.trim();
            (is_plain && written == "0 kB").then_some(found)
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        const MAPS: &str = "\
5000-9000 r--p 00000000 fe:00 11 /usr/bin/mgp
Rss:                  16 kB
Anonymous:             0 kB
9000-a000 r-xp 00004000 fe:00 11 /usr/bin/mgp
Rss:                   4 kB
Anonymous:             4 kB
a000-b000 r--p 00005000 fe:00 11 /usr/bin/mgp
Anonymous:             4 kB
b000-c000 rw-p 00006000 fe:00 11 /usr/bin/mgp
Anonymous:             0 kB
c000-d000 r--p 00000000 00:00 0 
Anonymous:             0 kB
d000-e000 r--s 00000000 fe:00 12 /somewhere
Anonymous:             0 kB
e000-f000 r-xp 00000000 fe:00 13 /a file with blanks
";

        #[test]
        fn only_what_is_as_in_its_file_and_stays_so_is_dropped() {
            let mapping = |from, to| Some(Mapping { from, length: to - from });
            assert_eq!(Mapping::untouched(MAPS, 0x5000), mapping(0x5000, 0x9000));
            assert_eq!(Mapping::untouched(MAPS, 0x8fff), mapping(0x5000, 0x9000));
            assert_eq!(Mapping::untouched(MAPS, 0x9000), None, "a breakpoint is in it");
            assert_eq!(Mapping::untouched(MAPS, 0xa000), None, "the loader wrote it");
            assert_eq!(Mapping::untouched(MAPS, 0xb000), None, "it may be written to");
            assert_eq!(Mapping::untouched(MAPS, 0xc000), None, "there is no file");
            assert_eq!(Mapping::untouched(MAPS, 0xd000), None, "it is shared");
            assert_eq!(Mapping::untouched(MAPS, 0xe000), None, "nothing says what was written");
            assert_eq!(Mapping::untouched(MAPS, 0xf000), None);
            assert_eq!(Mapping::untouched("", 0), None);
        }

        /// What is part of the program and nobody reads.
        static LARGE: [u8; 4 << 20] = [7; 4 << 20];

        #[test]
        fn what_of_the_program_nobody_reads_any_more_is_held_no_longer() {
            let sum = || std::hint::black_box(&LARGE).iter().map(|byte| u64::from(*byte)).sum();
            let resident = || {
                let maps = fs::read_to_string("/proc/self/smaps").unwrap();
                let found = Mapping::untouched(&maps, LARGE.as_ptr().addr()).unwrap();
                let (_, mapping) = maps.split_once(&format!("{:x}-", found.from)).unwrap();
                let held = mapping.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
                held.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
            };
            let before: u64 = sum();
            let held = resident();
            give_back();
            let left = resident();
            assert!(left + 2048 < held, "{held} kB, then {left}");
            assert_eq!(sum(), before, "it is there as soon as somebody wants it");
        }
    }
}
