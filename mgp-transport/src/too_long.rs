//! The errors for answers that are longer than a limit.

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

/// Returns the error for a call whose answer does not fit into the array of its batch.
pub(crate) fn batch_too_long(bound: usize) -> RpcError {
    // As for any answer that is too long, the error code must not suggest a retry.
    RpcError::new(
        ErrorCode::UPSTREAM_ERROR,
        format!(
            "the answers of the batch are larger than {}, so this one is left out; the request was carried out: do not repeat it, and send fewer at once",
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
