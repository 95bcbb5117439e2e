//! What happens in the child between fork and exec, on Linux, and what it finds after.
//!
//! MGP §11. Three things can only be done there: asking the kernel to kill the child when its parent
//! dies, marking descriptors that other code left inheritable, and leaving it one by its number. This is the only file of the
//! crate with `unsafe`, and there is no way around it: `CommandExt::pre_exec` is unsafe because its
//! closure runs in a copy of a process whose other threads are gone, perhaps in the middle of an
//! allocation; and nobody offers a safe call for either task. Hence the closure makes plain system
//! calls only: it does not allocate, lock, log or panic.
//!
//! *Applies to: outbound.*

#![expect(
    unsafe_code,
    reason = "`pre_exec` is unsafe and has no safe equivalent; the module says what keeps it sound"
)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::{Mode, OFlags, RawDir, open};
use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

/// Ties the child to the calling thread's life and leaves it no descriptor above stderr.
///
/// The death signal comes when the *thread* that forks ends, so call this on one that does not.
/// A child that is left a wire is not tied: it hears of our end by that, and has work to do then.
pub(super) fn prepare(command: &mut Command, wire: Option<&UnixStream>) {
    let (parent, wire) = (getpid(), wire.map(AsRawFd::as_raw_fd));
    // SAFETY: `in_child` makes system calls on its own stack and nothing else; see the module.
    unsafe {
        command.pre_exec(move || in_child(parent, wire));
    }
}

fn in_child(parent: Pid, wire: Option<RawFd>) -> io::Result<()> {
    if wire.is_none() {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the parent died before that call, no signal will come.
        if getppid() != Some(parent) {
            return Err(Errno::SRCH.into());
        }
    }
    close_on_exec();
    if let Some(wire) = wire {
        // SAFETY: whoever called `prepare` holds it open until the child is started.
        let wire = unsafe { BorrowedFd::borrow_raw(wire) };
        fcntl_setfd(wire, FdFlags::empty())?;
    }
    Ok(())
}

/// Takes a descriptor that we were left by its number; none if there is no such thing.
///
/// To be called once, before anything else is opened.
pub(super) fn inherited(number: RawFd) -> Option<OwnedFd> {
    if number <= 2 {
        return None;
    }
    // SAFETY: a number that means nothing is refused by the system, and is not used further.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_getfd(borrowed).ok()?;
    fcntl_setfd(borrowed, FdFlags::CLOEXEC).ok()?;
    // SAFETY: it is open, and in a process that has just begun nobody else owns it.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Marks every descriptor above stderr; without `/proc` they stay as they are.
fn close_on_exec() {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(directory) = open(c"/proc/self/fd", flags, Mode::empty()) else {
        return;
    };
    let mut buffer = [MaybeUninit::uninit(); 2048];
    let mut entries = RawDir::new(&directory, &mut buffer);
    while let Some(Ok(entry)) = entries.next() {
        let number = entry.file_name().to_str().ok().and_then(|name| name.parse().ok());
        if let Some(number) = number.filter(|&number: &i32| number > 2) {
            // SAFETY: the kernel has just listed it, and this process has no thread to close it.
            let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
            let _ = fcntl_setfd(descriptor, FdFlags::CLOEXEC);
        }
    }
}
