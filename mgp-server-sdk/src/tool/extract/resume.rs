//! The extractor for the checkpoint from which a call resumes after its connection was lost.

use mgp_stream::Checkpoints;
use mgp_types::RpcError;
use serde::de::DeserializeOwned;

use super::{FromCall, ToolRequest};

/// The point of the result that an earlier call marked with
/// [`ResultStream::checkpoint`](crate::ResultStream::checkpoint); `None` if the call starts at the beginning.
///
/// The server must offer [`CheckpointLayer`](crate::CheckpointLayer), which accepts a checkpoint only if an earlier
/// call with the same caller, tool and arguments marked it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume<T>(pub Option<T>);

impl<T: DeserializeOwned + Send> FromCall for Resume<T> {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        let checkpoints = request.cx().extensions.get::<Checkpoints>();
        let place = checkpoints.map_or(Ok(None), Checkpoints::resumed_from)?;
        Ok(Self(place))
    }
}
