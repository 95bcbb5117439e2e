//! The part of `gov.audit` that tampers with an audit log: the verifier must detect every change.

use super::writer::{Folder, Writer, segments, verify};
use crate::{
    accept::Verdict,
    dice::Dice,
    run::{Context, Failure, Outcome, now, seconds},
};
use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
};

/// The number of events in the small log; one bit of each of its bytes is flipped.
const SMALL: usize = 200;

/// The number of events in the large log, which gets random changes.
const LARGE: usize = 10_000;

/// The number of random changes to the large log; each is applied to an unchanged copy.
const CHANGES: usize = 10_000;

/// The number of verifiers that run in parallel, each on its own copy of the log.
const AT_A_TIME: usize = 2;

/// The counts of changes made and of changes detected by the verifiers.
#[derive(Debug, Default)]
struct Tally {
    made: usize,
    found: usize,
    /// The number of changes for which the verifier named the first changed record or the next one.
    exact: usize,
    missed: Vec<String>,
}

/// Flips a bit of each byte of a small log, and applies random changes to a large one.
pub(super) fn all(program: &Path) -> Outcome<Verdict> {
    let bytes = over(program, SMALL, |log| (0..log.len()).map(Change::Flip).collect())?;
    let random = over(program, LARGE, |log| {
        let mut dice = Dice::new(1);
        (0..CHANGES).map(|_| Change::random(&mut dice, log)).collect()
    })?;
    for missed in bytes.missed.iter().chain(&random.missed).take(20) {
        println!("not found: {missed}");
    }
    Ok(Verdict {
        pass: bytes.made == bytes.found && random.made == random.found && random.made == CHANGES,
        figure: format!(
            "{} of {} byte flips and {} of {} random changes found, {:.1} % with the exact record",
            bytes.found,
            bytes.made,
            random.found,
            random.made,
            share(bytes.exact + random.exact, bytes.made + random.made)
        ),
        bound: "100 %".to_owned(),
    })
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn share(part: usize, whole: usize) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

fn over(
    program: &Path,
    events: usize,
    changes: impl FnOnce(&Log) -> Vec<Change>,
) -> Outcome<Tally> {
    let begin = now();
    let folder = Folder::new();
    let mut writer = Writer::start(program, folder.path())?;
    writer.write(0, events)?;
    writer.end()?;
    if verify(program, folder.path())? != Ok(()) {
        return Err(Failure::new("an untouched log does not verify"));
    }
    let changes = changes(&Log::read(folder.path())?);
    let (queue, found) = (Mutex::new(changes.into_iter()), Mutex::new(Tally::default()));
    thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_A_TIME)
            .map(|_| scope.spawn(|| work(program, folder.path(), &queue, &found)))
            .collect();
        for worker in workers {
            worker.join().map_err(|_| Failure::new("a verifier's thread ended"))??;
        }
        Outcome::Ok(())
    })?;
    println!("{events} events: {}", seconds(begin.elapsed()));
    found.into_inner().map_err(|_| Failure::new("a verifier's thread ended"))
}

fn work(
    program: &Path,
    original: &Path,
    queue: &Mutex<std::vec::IntoIter<Change>>,
    found: &Mutex<Tally>,
) -> Outcome {
    let copy = Folder::new();
    copy_folder(original, copy.path())?;
    let log = Log::read(copy.path())?;
    loop {
        let next = queue.lock().ok().and_then(|mut queue| queue.next());
        let Some(change) = next else { return Ok(()) };
        let (changed, touched) = log.with(&change);
        log.write(&changed)?;
        let verdict = verify(program, copy.path())?;
        log.write(&log.parts)?;
        let mut found = found.lock().map_err(|_| Failure::new("a thread ended"))?;
        found.made += 1;
        match verdict {
            Ok(()) => found.missed.push(format!("{change:?}")),
            Err(named) => {
                found.found += 1;
                // The next record counts too, because a change at the end of a record is sometimes detected there.
                let near = |seq: u64| touched.is_some_and(|line| seq == line || seq == line + 1);
                found.exact += usize::from(named.is_some_and(near));
            }
        }
    }
}

fn copy_folder(from: &Path, to: &Path) -> Outcome {
    fs::create_dir_all(to)?;
    // Copies the mode of the folder too, because a log refuses a folder that other users can read.
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.path().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// The files of a log, in memory.
struct Log {
    files: Vec<PathBuf>,
    parts: Vec<Vec<u8>>,
    /// The byte ranges of the lines, counted over all files together.
    lines: Vec<Range<usize>>,
}

/// A change to a log; byte positions and line numbers count over all files together.
#[derive(Debug, Clone)]
enum Change {
    Flip(usize),
    Drop(usize),
    Swap(usize, usize),
    Truncate(usize),
}

impl Change {
    fn random(dice: &mut Dice, log: &Log) -> Self {
        let lines = log.lines.len();
        match dice.below(4) {
            0 => Self::Flip(dice.below(log.len())),
            1 => Self::Drop(dice.below(lines)),
            2 => {
                let one = dice.below(lines);
                Self::Swap(one, (one + 1 + dice.below(lines - 1)) % lines)
            }
            // Half of the cuts are at the beginning of a line: then no line is damaged, and only the saved head shows
            // the loss.
            _ if dice.below(2) == 0 => Self::Truncate(log.lines[dice.below(lines)].start),
            _ => Self::Truncate(dice.below(log.len())),
        }
    }
}

impl Log {
    fn read(folder: &Path) -> Outcome<Self> {
        let files = segments(folder)?;
        let parts: Vec<Vec<u8>> =
            files.iter().map(fs::read).collect::<Result<_, _>>().context("the log")?;
        let mut lines = Vec::new();
        let mut start = 0;
        for (at, byte) in parts.concat().iter().enumerate() {
            if *byte == b'\n' {
                lines.push(start..at + 1);
                start = at + 1;
            }
        }
        if lines.len() < 2 { Err(Failure::new("no log")) } else { Ok(Self { files, parts, lines }) }
    }

    fn len(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }

    /// Returns the contents of the files after a change, and the sequence number of the first record that the change
    /// affected.
    fn with(&self, change: &Change) -> (Vec<Vec<u8>>, Option<u64>) {
        let mut all = self.parts.concat();
        let line_of = |at: usize| self.lines.iter().position(|line| line.contains(&at));
        let (cut, line) = match change {
            Change::Flip(at) => {
                all[*at] ^= 1 << (*at % 8);
                (None, line_of(*at))
            }
            Change::Drop(line) => (Some(self.lines[*line].clone()), Some(*line)),
            Change::Truncate(at) => (Some(*at..all.len()), line_of(*at)),
            Change::Swap(one, other) => {
                let (first, second) = (*one.min(other), *one.max(other));
                let (a, b) = (self.lines[first].clone(), self.lines[second].clone());
                let swapped = [
                    &all[..a.start],
                    &all[b.clone()],
                    &all[a.end..b.start],
                    &all[a],
                    &all[b.end..],
                ];
                all = swapped.concat();
                (None, Some(first))
            }
        };
        let mut parts = self.split(&all);
        if let Some(cut) = cut {
            parts = self.without(&cut);
        }
        (parts, line.and_then(|line| u64::try_from(line + 1).ok()))
    }

    /// Splits bytes of the same total length into the files of the log again.
    fn split(&self, all: &[u8]) -> Vec<Vec<u8>> {
        let mut rest = all;
        self.parts
            .iter()
            .map(|part| {
                let (own, others) = rest.split_at(part.len().min(rest.len()));
                rest = others;
                own.to_vec()
            })
            .collect()
    }

    /// Returns the contents of the files without a range of bytes.
    fn without(&self, cut: &Range<usize>) -> Vec<Vec<u8>> {
        let mut start = 0;
        self.parts
            .iter()
            .map(|part| {
                let begin = start;
                start += part.len();
                let bytes = part.iter().enumerate();
                bytes
                    .filter(|(at, _)| !cut.contains(&(begin + at)))
                    .map(|(_, byte)| *byte)
                    .collect()
            })
            .collect()
    }

    fn write(&self, parts: &[Vec<u8>]) -> Outcome {
        for ((file, part), own) in self.files.iter().zip(parts).zip(&self.parts) {
            // Skips files that the change does not affect; restoring the original writes all files.
            if part != own || fs::metadata(file)?.len() != own.len() as u64 || parts == self.parts {
                fs::write(file, part).context(file.display())?;
            }
        }
        Ok(())
    }
}
