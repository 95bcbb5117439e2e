//! Roots: the directories a client works in (MCP roots).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::{Meta, ResultType};
use crate::percent_decode;
use crate::record::record;

record! {
    /// A directory or file.
    pub struct Root {
        /// The `file://` URI of the directory or file.
        req uri: String,
        /// The display name of the directory or file.
        opt name: Option<String>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `roots/list`.
    pub struct ListRootsResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        /// The roots.
        req roots read nullable: Vec<Root>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }
}

impl Root {
    /// Creates the root of a directory or file. Returns `None` if the path is not absolute, or not UTF-8.
    #[must_use]
    pub fn from_path(path: impl AsRef<Path>) -> Option<Self> {
        let path = path.as_ref();
        let text = path.to_str().filter(|_| path.is_absolute())?;
        // On Windows, a path begins with a drive instead of a slash, so a third slash is added; its separators,
        // backslashes, become slashes.
        let mut uri = String::from(if cfg!(windows) { "file:///" } else { "file://" });
        for byte in text.bytes() {
            if byte == b'\\' && cfg!(windows) {
                uri.push('/');
            } else if byte.is_ascii_alphanumeric() || b"/:-._~".contains(&byte) {
                uri.push(char::from(byte));
            } else {
                // Writing to a string cannot fail.
                let _ = write!(uri, "%{byte:02X}");
            }
        }
        Some(Self::new(uri))
    }

    /// Returns the path of the directory or file; `None` if the URI does not name a path on this machine.
    ///
    /// The path is not checked: it can contain `..` or links, or not exist. Canonicalize it before you compare it with
    /// other paths.
    ///
    /// ```
    /// use std::path::Path;
    ///
    /// use mgp_types::mcp::Root;
    ///
    /// let root = Root::new("file:///srv/my%20files");
    /// assert_eq!(root.to_path().as_deref(), Some(Path::new("/srv/my files")));
    /// assert_eq!(Root::new("https://example.com/").to_path(), None);
    /// ```
    #[must_use]
    pub fn to_path(&self) -> Option<PathBuf> {
        let rest = self.uri.strip_prefix("file://")?;
        let path = rest.strip_prefix("localhost").unwrap_or(rest);
        if !path.starts_with('/') || path.contains(['?', '#']) {
            return None;
        }
        let path = percent_decode(path).filter(|path| !path.contains('\0'))?;
        let has_drive = cfg!(windows) && path.as_bytes().get(2) == Some(&b':');
        Some(PathBuf::from(if has_drive { &path[1..] } else { path.as_str() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(uri: &str, expected: Option<&str>) {
        assert_eq!(Root::new(uri).to_path().as_deref(), expected.map(Path::new));
    }

    #[test]
    fn only_the_uri_of_a_local_file_has_a_path() {
        check("file:///a%20b/%C3%A9", Some("/a b/é"));
        check("file://localhost/a", Some("/a"));
        for uri in ["file://host/a", "file://localhosts/a", "file:a", "http://a/b", "/a"] {
            check(uri, None);
        }
        for uri in ["file:///a%2", "file:///%FF", "file:///a%00", "file:///a?b", "file:///a#b"] {
            check(uri, None);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_path_is_the_same_after_the_way_through_a_uri() {
        for path in ["/", "/a b/é%#?\\"] {
            assert_eq!(Root::from_path(path).unwrap().to_path().unwrap(), Path::new(path));
        }
        assert_eq!(Root::from_path("a"), None);
    }
}
