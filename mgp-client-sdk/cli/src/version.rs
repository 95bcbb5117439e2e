//! The version of this program, and the comparison of versions.

use crate::args::Global;
use crate::exit::CliResult;
use crate::output::{ActionReport, print_json, write_stdout};

/// A fixed text and the version of this program; the test of upgrades searches the program's file for the fixed text.
static MARKED: &str = concat!("mgp program version ", env!("CARGO_PKG_VERSION"));

/// The length of the fixed text in [`MARKED`].
const MARK: usize = "mgp program version ".len();

pub(crate) fn own() -> &'static str {
    &MARKED[MARK..]
}

/// Prints the version as `mgp --version` does; with `--json`, as a document.
pub(crate) fn print(global: &Global) -> CliResult {
    if global.json {
        return print_json(&ActionReport::new("mgp", own()));
    }
    write_stdout(&format!("mgp {}\n", own()))
}

/// Returns whether a version is newer than another; `false` if one of them cannot be parsed.
pub(crate) fn is_newer(version: &str, than: &str) -> bool {
    parts(version).zip(parts(than)).is_some_and(|(version, than)| version > than)
}

/// Returns the parts to compare, in this order: the three numbers, whether it is a release, and the rest.
fn parts(version: &str) -> Option<([u64; 3], bool, &str)> {
    let version = version.split('+').next()?;
    let (numbers, rest) = version.split_once('-').unwrap_or((version, ""));
    let mut numbers = numbers.split('.').map(|number| number.parse().ok());
    let three = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some((three, rest.is_empty(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_an_order() {
        for (one, than) in [("0.10.0", "0.9.9"), ("1.0.0", "1.0.0-rc.1"), ("1.0.1+x", "1.0.0")] {
            assert!(is_newer(one, than) && !is_newer(than, one), "{one}");
        }
        for other in ["", "1", "1.0.0.0", "x.y.z", own()] {
            assert!(!is_newer(other, own()) && !is_newer(own(), other), "{other}");
        }
    }
}
