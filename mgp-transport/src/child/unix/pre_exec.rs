//! Code that runs in the child between fork and exec, on Linux.
//!
//! See MGP §11. Four things can only be done there: asking the operating system to kill the child when its parent
//! dies, marking descriptors that other code left inheritable, passing on a descriptor by its number, and giving the
//! child the limit of open files that this process had before it raised its own. This is the
//! only file of the crate with `unsafe`, and it cannot be avoided: no safe function does these things, and
//! `CommandExt::pre_exec` is unsafe. Its closure runs in a copy of a process whose other threads no longer exist, one
//! of them perhaps in the middle of an allocation. Therefore the closure only makes system calls: it does not allocate,
//! lock, log or panic.

#![expect(
    unsafe_code,
    reason = "`pre_exec` is unsafe and has no safe equivalent; the module documents why it is sound"
)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::{Mode, OFlags, RawDir, open};
use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getpid, getppid, set_parent_process_death_signal, setrlimit,
};

use super::open_files::earlier_limit;

/// Makes the child die when the calling thread ends, and prevents it from inheriting descriptors other than 0, 1 and 2.
///
/// The operating system sends the death signal when the *thread* that forked ends, so the calling thread must never
/// end. A child that gets a socket, i.e. a keeper, gets no death signal: the closed socket notifies it of the end of
/// this process, and it must then end its descendants.
pub(super) fn prepare(command: &mut Command, socket: Option<&UnixStream>) {
    let (parent, socket) = (getpid(), socket.map(AsRawFd::as_raw_fd));
    let files = earlier_limit();
    // SAFETY: `in_child` only makes system calls with data on its own stack, as the module documentation requires.
    unsafe {
        command.pre_exec(move || in_child(parent, socket, files));
    }
}

fn in_child(parent: Pid, socket: Option<RawFd>, files: Option<Rlimit>) -> io::Result<()> {
    if socket.is_none() {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the parent died before the call above, the operating system does not send the signal, so fail here.
        if getppid() != Some(parent) {
            return Err(Errno::SRCH.into());
        }
    }
    close_on_exec();
    if let Some(files) = files {
        // Ignore the error: it means that the hard limit was lowered meanwhile, and the child keeps the limit of this
        // process.
        let _ = setrlimit(Resource::Nofile, files);
    }
    if let Some(socket) = socket {
        // SAFETY: the caller of `prepare` keeps the socket open until the child is started.
        let socket = unsafe { BorrowedFd::borrow_raw(socket) };
        fcntl_setfd(socket, FdFlags::empty())?;
    }
    Ok(())
}

/// Takes ownership of an inherited descriptor by its number; returns `None` if it is not open, or is 0, 1 or 2.
///
/// Must be called only once, before the process opens anything else.
pub(super) fn inherited(number: RawFd) -> Option<OwnedFd> {
    if number <= 2 {
        return None;
    }
    // SAFETY: the system reports an error for a number that is not open, and such a number is not used further.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_getfd(borrowed).ok()?;
    fcntl_setfd(borrowed, FdFlags::CLOEXEC).ok()?;
    // SAFETY: the descriptor is open and, in a process that has just started, has no other owner.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Marks every descriptor above stderr as close-on-exec; does nothing without `/proc`.
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
            // SAFETY: the kernel has just listed the descriptor, and no other thread of this process can close it.
            let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
            let _ = fcntl_setfd(descriptor, FdFlags::CLOEXEC);
        }
    }
}
