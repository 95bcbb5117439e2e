//! The part of `gov.audit` that kills the writer of an audit log: acknowledged events must survive a SIGKILL at any
//! moment.

use super::writer::{Writer, ack, event, is_sound, reopening, segments};
use crate::{
    accept::Verdict,
    run::{Failure, Outcome, now, seconds},
};
use std::{collections::BTreeSet, fs, io::Write as _, path::Path, thread, time::Duration};

/// The number of times that the check kills a process.
const KILLS: usize = 1000;

/// The maximum time to open a log after a kill.
const MAX_OPEN_TIME: Duration = Duration::from_millis(100);

/// The number of kills per log; several, because recovery must also work on a log that was recovered before.
const KILLS_PER_LOG: usize = 100;

/// Kills writers of audit logs, then checks that each log is valid and contains every acknowledged event.
pub(super) fn all(program: &Path) -> Outcome<Verdict> {
    let begin = now();
    let (mut acked, mut lost, mut unsound, mut slowest) = (0, 0, 0, Duration::ZERO);
    let folder = std::env::temp_dir().join(format!("mgp-gov-{}", std::process::id()));
    let log = folder.as_path();
    for _ in 0..KILLS / KILLS_PER_LOG {
        // Removes the log of the last round, or of an earlier process that had the same process id.
        let _ = fs::remove_dir_all(log);
        let mut promised = BTreeSet::new();
        for kill in 0..KILLS_PER_LOG {
            promised.extend(one(program, log, kill)?);
            slowest = slowest.max(reopening(program, log)?);
        }
        unsound += usize::from(!is_sound(program, log)?);
        acked += promised.len();
        let found = numbers(log)?;
        lost += promised.difference(&found).count();
    }
    let _ = fs::remove_dir_all(log);
    println!("{KILLS} kills: {}", seconds(begin.elapsed()));
    Ok(Verdict {
        pass: lost == 0 && unsound == 0 && acked > KILLS && slowest < MAX_OPEN_TIME,
        figure: format!(
            "{KILLS} kills: {lost} of {acked} acknowledged events lost, {unsound} logs unsound, \
             opened in {:.0} ms at worst",
            slowest.as_secs_f64() * 1000.0
        ),
        bound: format!("none lost, all sound, {} ms", MAX_OPEN_TIME.as_millis()),
    })
}

/// Lets a writer run for a while and kills it; returns the sequence numbers of the events that it acknowledged.
fn one(program: &Path, log: &Path, kill: usize) -> Outcome<Vec<u64>> {
    let (mut child, mut input, mut output) = Writer::start(program, log)?.parts();
    let writing = thread::spawn(move || {
        // The loop ends when the writer is killed, because its pipe closes.
        for number in 0.. {
            if input.write_all(event(&format!("{kill}-{number}")).as_bytes()).is_err() {
                return;
            }
        }
    });
    let delay = Duration::from_micros(u64::try_from(2_000 + kill * 137 % 20_000)?);
    let reading = thread::spawn(move || {
        let mut acks = Vec::new();
        while let Ok(Some(seq)) = ack(&mut output) {
            acks.push(seq);
        }
        acks
    });
    thread::sleep(delay);
    child.kill()?;
    child.wait()?;
    let gone = |_| Failure::new("a thread of the check ended");
    writing.join().map_err(gone)?;
    reading.join().map_err(gone)
}

/// Returns the sequence numbers of all records in the log.
fn numbers(log: &Path) -> Outcome<BTreeSet<u64>> {
    let mut found = BTreeSet::new();
    for file in segments(log)? {
        for line in fs::read_to_string(file)?.lines() {
            let record: serde_json::Value = serde_json::from_str(line)?;
            found.extend(record["seq"].as_u64());
        }
    }
    Ok(found)
}
