//! The server's side of checkpoints: decrypts the checkpoint from which a call resumes, and seals new checkpoints.
//!
//! Applies to: inbound.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::time::Duration;

use mgp_types::mgp::Extension;
use mgp_types::proposal::{Checkpoint, WantsCheckpoints};
use mgp_types::service::{Call, Context, Either, MgpService, Reply};
use mgp_types::{Payload, RpcError, Sealer, canonical_hash, random_name};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower_service::Service;

/// The purpose for which checkpoints are sealed. A text that was sealed for another purpose, e.g. as a confirmation,
/// cannot be opened as a checkpoint.
const SEAL_PURPOSE: &str = "checkpoint";

/// The default lifetime of a checkpoint: a call can resume from it for this time after it was sent.
const TTL: Duration = Duration::from_hours(1);

/// The maximum length, in bytes of JSON, of the text in which a tool describes the position that it has reached in its
/// result. It also limits the length of the sealed checkpoint.
const MAX_PLACE_BYTES: usize = 4096;

/// Layer that enables tools to send checkpoints with their chunks, and to resume from them.
///
/// A checkpoint contains the tool's own description of the position that it has reached in its result. It is sealed,
/// and bound to the principal, the tool and its arguments, so the server need not store anything.
///
/// ```
/// use std::time::Duration;
///
/// use mgp_stream::CheckpointLayer;
///
/// let layer = CheckpointLayer::new().unwrap().ttl(Duration::from_secs(600));
/// # drop(layer);
/// ```
#[derive(Clone)]
#[must_use]
pub struct CheckpointLayer {
    sealer: Sealer,
    ttl: Duration,
}

mgp_types::opaque_debug!(CheckpointLayer { ttl });

mgp_types::layer_service! {
    /// The service that [`CheckpointLayer`] creates.
    pub CheckpointService for CheckpointLayer
}

impl CheckpointLayer {
    /// Creates a layer with a random key, so that checkpoints are valid until the process ends.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the system cannot provide random bytes.
    pub fn new() -> Result<Self, RpcError> {
        Ok(Self { sealer: Sealer::random()?, ttl: TTL })
    }

    /// Sets the key, so that checkpoints stay valid after a restart and in other processes with the same key.
    pub fn key(mut self, key: [u8; 32]) -> Self {
        self.sealer = Sealer::with_key(key);
        self
    }

    /// Sets the time for which a call can resume from a checkpoint. Default: 1 hour.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// If the call resumes from a checkpoint, opens that checkpoint. If the call resumes or requests checkpoints,
    /// stores [`Checkpoints`] in its extensions.
    fn prepare(&self, call: &mut Call) -> Result<(), RpcError> {
        let wanted = call.cx().member::<WantsCheckpoints>()?.is_some_and(|wants| wants.0);
        let from = call.cx().member::<Checkpoint>()?;
        if !wanted && from.is_none() {
            return Ok(());
        }
        let cx = call.cx();
        let tool = call.tool().map_or("", |tool| tool.name).to_owned();
        let arguments = canonical_hash(call.tool_arguments().as_str())?;
        let mut place = Checkpoints {
            layer: self.clone(),
            operation: match &from {
                Some(from) => from.operation_id.clone(),
                None => random_name()?,
            },
            binding: [principal_key(cx), tool, arguments.to_string()],
            is_wanted: wanted,
            resumed_from: None,
        };
        place.resumed_from = from.map(|from| place.open(&from)).transpose()?;
        call.cx_mut().extensions.insert_shared(Arc::new(place));
        Ok(())
    }
}

/// Returns a text that identifies the principal of a call, so that a checkpoint can be bound to it.
fn principal_key(cx: &Context) -> String {
    let principal = &cx.principal;
    let agent = principal.as_agent().map(ToString::to_string);
    // Encoding texts cannot fail.
    serde_json::to_string(&(principal.tenant().as_str(), principal.subject().as_str(), agent))
        .unwrap_or_default()
}

impl<S: MgpService> Service<Call> for CheckpointService<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, Ready<Result<Reply, RpcError>>>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        if call.tool().is_some()
            && call.cx().caller.has(Extension::Checkpoint)
            && let Err(refused) = self.layer.prepare(&mut call)
        {
            return Either::Right { future: ready(Err(refused)) };
        }
        Either::Left { future: self.inner.call(call) }
    }
}

/// The checkpoints of one call, found among the extensions of its context.
pub struct Checkpoints {
    layer: CheckpointLayer,
    operation: String,
    /// The names to which the sealed checkpoints are bound: the principal, the tool and the hash of its arguments.
    binding: [String; 3],
    is_wanted: bool,
    resumed_from: Option<Payload>,
}

mgp_types::opaque_debug!(Checkpoints { operation });

impl Checkpoints {
    /// Returns whether the caller requested checkpoints.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Returns the position in the result from which the call must continue, as the tool described it; `None` if the
    /// call starts from the beginning.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if the position cannot be read as this type.
    pub fn resumed_from<T: DeserializeOwned>(&self) -> Result<Option<T>, RpcError> {
        self.resumed_from.as_ref().map(Payload::get).transpose()
    }

    /// Seals the description of a position in the result as a checkpoint. `chunks` is the number of chunks that this
    /// call sent before the checkpoint.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the description cannot be written as JSON, or has more than 4 KiB.
    pub fn seal<T: Serialize>(&self, place: &T, chunks: u64) -> Result<Checkpoint, RpcError> {
        let place = Payload::of(place)?;
        if place.as_str().len() > MAX_PLACE_BYTES {
            let message = format!("a checkpoint may have {MAX_PLACE_BYTES} bytes of JSON");
            return Err(RpcError::internal(message));
        }
        let bytes = place.as_str().as_bytes();
        let (sealer, ttl) = (&self.layer.sealer, self.layer.ttl);
        let token = sealer.seal(SEAL_PURPOSE, &self.bound_to(&self.operation), ttl, bytes)?;
        let mut checkpoint = Checkpoint::new(self.operation.clone(), token);
        checkpoint.sequence = Some(chunks);
        Ok(checkpoint)
    }

    fn open(&self, checkpoint: &Checkpoint) -> Result<Payload, RpcError> {
        let bound_to = self.bound_to(&checkpoint.operation_id);
        let opened = self.layer.sealer.open(SEAL_PURPOSE, &bound_to, &checkpoint.checkpoint_token);
        let opened = opened.ok().and_then(|place| String::from_utf8(place).ok());
        opened.map(Payload::from_trusted).ok_or_else(|| {
            RpcError::invalid_params(
                "the checkpoint is unknown: it has expired, the server was restarted, or it belongs to another \
                 call; call the tool without `_meta.resume`",
            )
        })
    }

    fn bound_to<'a>(&'a self, operation: &'a str) -> [&'a str; 4] {
        let [principal, tool, arguments] = &self.binding;
        [operation, principal, tool, arguments]
    }
}
