//! Method names; copies of known names need no allocation.

use std::fmt;

use bytestring::ByteString;

/// The name of a method.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Method(ByteString);

impl Method {
    /// Creates a method from its name; the text is copied only if the name is unknown.
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self(match crate::method::lookup(name) {
            Some(info) => ByteString::from_static(info.name),
            None => name.into(),
        })
    }

    /// Creates a method from a static name.
    #[must_use]
    pub const fn from_static(name: &'static str) -> Self {
        Self(ByteString::from_static(name))
    }

    /// Borrows the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
