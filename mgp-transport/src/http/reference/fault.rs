//! The reason why a server cannot pass on data of another server, and the header that names the reason.

use http::{HeaderMap, HeaderName, HeaderValue};
use mgp_types::service::FetchError;

use super::ReferenceError;

/// The header that names the fault in a response with the status 502.
const HEADER: HeaderName = HeaderName::from_static("mgp-reference-fault");

/// The reason why data cannot be read from the server that exported them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OriginFault {
    /// The server cannot be reached, or fails.
    #[error("it cannot be reached, or it fails; check that it runs")]
    Unreachable,
    /// The URL of the data must not be fetched.
    #[error("its URL must not be fetched from here")]
    Forbidden,
    /// The server refuses the URL of the data, e.g. because the URL has expired.
    #[error("it refuses its URL of the data; export the data again")]
    Refused,
    /// The URL does not lead to the data of a reference, or the response cannot be used.
    #[error("its URL does not lead to the data of a reference")]
    Foreign,
    /// The data have another size than the reference names.
    #[error("the data have another size than it named; export the data again")]
    Size,
}

/// All faults, each with the name that the header contains for it.
const NAMES: [(OriginFault, &str); 5] = [
    (OriginFault::Unreachable, "unreachable"),
    (OriginFault::Forbidden, "forbidden"),
    (OriginFault::Refused, "refused"),
    (OriginFault::Foreign, "foreign"),
    (OriginFault::Size, "size"),
];

impl OriginFault {
    pub(super) fn of(error: &ReferenceError) -> Self {
        match error {
            ReferenceError::Origin(fault) => *fault,
            ReferenceError::Fetch(FetchError::Forbidden { .. }) => Self::Forbidden,
            ReferenceError::Refused(400..500) => Self::Refused,
            ReferenceError::Foreign => Self::Foreign,
            ReferenceError::Size { .. } => Self::Size,
            _ => Self::Unreachable,
        }
    }

    pub(super) fn write(self, headers: &mut HeaderMap) {
        if let Some((_, name)) = NAMES.iter().find(|(fault, _)| *fault == self) {
            headers.insert(HEADER, HeaderValue::from_static(name));
        }
    }

    pub(super) fn read(headers: &HeaderMap) -> Option<Self> {
        let name = headers.get(HEADER)?;
        NAMES.iter().find(|(_, known)| name == known).map(|(fault, _)| *fault)
    }
}
