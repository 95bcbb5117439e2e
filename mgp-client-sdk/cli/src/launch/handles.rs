//! The standard handles of this process on Windows.

#![expect(unsafe_code, reason = "no safe function changes whether a handle is inherited")]

use std::io;
use std::os::windows::io::AsRawHandle as _;

use windows_sys::Win32::Foundation::{HANDLE_FLAG_INHERIT, SetHandleInformation};

/// Keeps child processes from inheriting the standard handles of this process. Otherwise, a kernel would keep the pipes
/// of the command that started it open, and their reader would wait until the kernel ends.
pub(super) fn keep_standard_handles() {
    let handles =
        [io::stdin().as_raw_handle(), io::stdout().as_raw_handle(), io::stderr().as_raw_handle()];
    for handle in handles {
        // SAFETY: the call only changes a flag of a handle that this process owns and never closes. For a handle that
        // does not exist, it fails and changes nothing.
        unsafe { SetHandleInformation(handle, HANDLE_FLAG_INHERIT, 0) };
    }
}
