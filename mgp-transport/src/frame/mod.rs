//! Splits bytes into lines (MGP §1.4, stdio).

mod line;

pub(crate) use line::{Line, LineBuffer};

/// Returns a number of bytes as text, for error messages.
pub(crate) fn bytes_text(bytes: usize) -> String {
    match (bytes >> 20, bytes % (1 << 20)) {
        (mebibytes, 0) if mebibytes > 0 => format!("{mebibytes} MiB"),
        _ => format!("{bytes} bytes"),
    }
}
