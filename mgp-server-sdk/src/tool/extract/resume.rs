//! The place from which a call goes on after its connection was lost.

use mgp_stream::Checkpoints;
use mgp_types::RpcError;
use serde::de::DeserializeOwned;

use super::{FromCall, ToolRequest};

/// The place that an earlier call marked with [`ResultStream::checkpoint`](crate::ResultStream::checkpoint); `None` if
/// the call begins at the start.
///
/// The server offers [`CheckpointLayer`](crate::CheckpointLayer), which refuses a place that was not marked by a call
/// of the same caller to the same tool with the same arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume<T>(pub Option<T>);

impl<T: DeserializeOwned + Send> FromCall for Resume<T> {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        let checkpoints = request.cx().extensions.get::<Checkpoints>();
        let place = checkpoints.map_or(Ok(None), Checkpoints::resumed_from)?;
        Ok(Self(place))
    }
}
