//! A child process that does not outlive its test.

use std::ops::{Deref, DerefMut};
use std::process::Child;

/// A child process of a test, which is killed when this value is dropped.
#[derive(Debug)]
pub struct KilledChild(pub Child);

impl Deref for KilledChild {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for KilledChild {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for KilledChild {
    fn drop(&mut self) {
        // Ignore the error: the process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
