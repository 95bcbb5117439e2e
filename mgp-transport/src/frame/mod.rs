//! Splits bytes into lines (MGP §1.4, stdio).

mod line;

pub(crate) use line::{Line, LineBuffer};

use mgp_types::{ErrorCode, RpcError};

/// Returns the error for a call whose answer is longer than the limit.
pub(crate) fn answer_too_long(bound: usize) -> RpcError {
    // The error code must not suggest a retry, because the server has already executed the request.
    RpcError::new(
        ErrorCode::UPSTREAM_ERROR,
        format!(
            "the answer is larger than {}, so it cannot be delivered; the request was carried out: do not repeat it, and ask for less at a time",
            bytes_text(bound)
        ),
    )
}

/// Returns a number of bytes as text, for error messages.
pub(crate) fn bytes_text(bytes: usize) -> String {
    match (bytes >> 20, bytes % (1 << 20)) {
        (mebibytes, 0) if mebibytes > 0 => format!("{mebibytes} MiB"),
        _ => format!("{bytes} bytes"),
    }
}
