//! The rounds of a modern call: a request ends with the open questions of the handler as its result, and the client's
//! answers arrive with its next request.
//!
//! Between rounds the client stores the state of the call, which is sealed (encrypted and authenticated); the server
//! stores nothing.
//!
//! Applies to: inbound.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use mgp_types::mcp::{Era, InputResponses};
use mgp_types::method::{PromptsGet, ResourcesRead, ToolsCall};
use mgp_types::service::{
    BoxFuture, Call, CallKey, CallerAccess, Either, Method, MgpService, Params, Principal, Reply,
    RoundState, Rounds,
};
use mgp_types::{RpcError, Sealer};
use tower_service::Service;

use crate::error::LifecycleError;

/// The purpose that is sealed into the state. A value that was sealed for another purpose is not accepted as state.
const SEAL_PURPOSE: &str = "rounds";

/// The limits of a [`RoundsLayer`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RoundsConfig {
    /// The time limit for the caller's answer. Default: 15 minutes.
    pub ttl: Duration,
    /// Maximum number of rounds of one call. Default: 16.
    pub rounds: u32,
    /// Maximum size, in bytes, of the state of a call: answers and stored values. Default: 64 KiB.
    pub state_bytes: usize,
}

impl Default for RoundsConfig {
    fn default() -> Self {
        Self { ttl: Duration::from_mins(15), rounds: 16, state_bytes: 64 * 1024 }
    }
}

/// Layer that enables inner layers and handlers to ask a modern caller questions.
///
/// ```
/// use mgp_lifecycle::{HandshakeLayer, RoundsLayer, ServerOffer};
/// use mgp_types::mcp::Implementation;
/// use mgp_types::service::{CallerRequest, Call, Reply, Stack, mock};
/// use mgp_types::{Payload, Sealer};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let tool = Stack::from_fn(|call: Call| async move {
///     let name = call.cx().ask("name", CallerRequest::new("elicitation/create", Payload::empty_object())).await?;
///     Ok(Reply::raw(name))
/// });
/// let rounds = RoundsLayer::new(Sealer::random().unwrap()).layer(tool);
/// let offer = ServerOffer::new(Implementation::new("s", "1"));
/// let mut client = mock::client(Stack::new(HandshakeLayer::new(offer).layer(rounds)));
///
/// let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
///     "io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}"#;
/// let asked = client.call("tools/call", &format!(r#"{{"name":"t",{meta}}}"#)).await.unwrap();
/// let Reply::InputRequired(asked) = asked else { panic!("it must ask") };
/// let again = format!(
///     r#"{{"name":"t","inputResponses":{{"name":"Ann"}},"requestState":"{}",{meta}}}"#,
///     asked.state.unwrap()
/// );
/// assert!(client.request("tools/call", &again).await.unwrap().as_str().contains("Ann"));
/// # });
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct RoundsLayer {
    sealer: Sealer,
    config: Arc<RoundsConfig>,
}

impl RoundsLayer {
    /// Creates a layer. The client keeps the state of a call between two rounds; the layer seals this state with
    /// `sealer`. If a client can switch between several servers during a call, all these servers must use the same key.
    pub fn new(sealer: Sealer) -> Self {
        Self { sealer, config: Arc::default() }
    }

    /// Sets the limits of rounds.
    pub fn config(mut self, config: RoundsConfig) -> Self {
        self.config = Arc::new(config);
        self
    }

    /// Returns the state of a call, including the answers in this request. In the first round the state is new, in
    /// later rounds it is decrypted.
    fn open(&self, call: &Call) -> Result<RoundState, RpcError> {
        let params = call.params();
        let responses: InputResponses = match params.input_responses() {
            Some(responses) => responses.get()?,
            None => InputResponses::default(),
        };
        let Some(sealed) = params.request_state() else {
            return self.begin(&responses);
        };
        let bound = Binding::of(&call.cx().principal, call.method(), params)?;
        let opened = self.sealer.open(SEAL_PURPOSE, &bound.parts(), &sealed)?;
        let mut state: RoundState =
            serde_json::from_slice(&opened).map_err(RpcError::invalid_params)?;
        if state.round >= self.config.rounds {
            return Err(LifecycleError::TooManyRounds(self.config.rounds).into());
        }
        for key in std::mem::take(&mut state.asked) {
            if let Some(answer) = responses.get(&key) {
                state.answers.insert(key, answer.clone());
            }
        }
        Ok(state)
    }

    /// Creates the state for a first round, with answers that the client sent in advance.
    ///
    /// Accepting such answers adds no risk, because a client could always answer without asking its user. Stored
    /// values, however, are accepted only from sealed state.
    fn begin(&self, responses: &InputResponses) -> Result<RoundState, RpcError> {
        let mut state = RoundState { logical: new_name(), ..RoundState::default() };
        let mut remaining = self.config.state_bytes;
        for (key, answer) in responses.iter() {
            remaining = remaining
                .checked_sub(key.len() + answer.as_str().len())
                .ok_or(LifecycleError::StateTooLarge(self.config.state_bytes))?;
            state.answers.insert(key.to_owned(), answer.clone());
            state.early.insert(key.to_owned());
        }
        Ok(state)
    }

    fn seal(&self, rounds: &Rounds, bound: &Binding) -> Result<String, RpcError> {
        let state = serde_json::to_vec(&rounds.state()).map_err(|error| {
            RpcError::internal("the state of a round could not be written").because(error)
        })?;
        if state.len() > self.config.state_bytes {
            return Err(LifecycleError::StateTooLarge(self.config.state_bytes).into());
        }
        self.sealer.seal(SEAL_PURPOSE, &bound.parts(), self.config.ttl, &state)
    }
}

/// Returns a name for a logical call that is unique across all processes with the same key.
///
/// The name need not be secret, because the state that contains it is sealed.
fn new_name() -> String {
    static PROCESS: LazyLock<String> = LazyLock::new(|| format!("{:016x}-", fastrand::u64(..)));
    let mut name = String::with_capacity(40);
    name.push_str(&PROCESS);
    let mut rest = CallKey::next().as_u64();
    while rest > 0 {
        // Append one hexadecimal digit, the lowest first. `format!` would take longer than all other work for a round.
        name.push(char::from(b"0123456789abcdef"[usize::try_from(rest & 15).unwrap_or(0)]));
        rest >>= 4;
    }
    name
}

mgp_types::layer_service! {
    /// The service that [`RoundsLayer`] creates.
    pub RoundsService for RoundsLayer
}

impl<S: MgpService> Service<Call> for RoundsService<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, BoxFuture<'static, Result<Reply, RpcError>>>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        let may_ask =
            call.is::<ToolsCall>() || call.is::<PromptsGet>() || call.is::<ResourcesRead>();
        // A caller that answers no questions has only one round, which needs no preparation.
        let answers = call.cx().caller.accepts.any() || call.params().request_state().is_some();
        if call.cx().caller.era != Era::Modern || !may_ask || !answers {
            return Either::Left { future: self.inner.call(call) };
        }
        let layer = self.layer.clone();
        let state = match layer.open(&call) {
            Ok(state) => state,
            Err(error) => {
                return Either::Right { future: Box::pin(std::future::ready(Err(error))) };
            }
        };
        call.cx_mut().logical = Some(state.logical.as_str().into());
        let rounds = Rounds::new(state);
        let asking = CallerAccess::Channel(Arc::new(rounds.clone()));
        call.cx_mut().caller_access = asking.clone();
        // Computing the values to which the state is bound takes longer than most calls, so do it only if there is
        // state to seal.
        let (principal, method, params) =
            (call.cx().principal.clone(), call.method().clone(), call.params().clone());
        let running = self.inner.call(call);
        Either::Right {
            future: Box::pin(async move {
                let mut reply = asking.run_round(running).await?;
                if let Reply::InputRequired(needed) = &mut reply
                    && needed.state.is_none()
                {
                    let bound = Binding::of(&principal, &method, &params)?;
                    needed.state = Some(layer.seal(&rounds, &bound)?);
                }
                Ok(reply)
            }),
        }
    }
}

/// The values to which sealed state is bound: only the same caller can use the state, and only for the same call.
struct Binding {
    tenant: String,
    subject: String,
    agent: String,
    method: String,
    params: String,
}

impl Binding {
    fn of(principal: &Principal, method: &Method, params: &Params) -> Result<Self, RpcError> {
        Ok(Self {
            tenant: principal.tenant().to_string(),
            subject: principal.subject().to_string(),
            agent: principal.as_agent().map(ToString::to_string).unwrap_or_default(),
            method: method.to_string(),
            params: params.canonical_hash()?.to_string(),
        })
    }

    fn parts(&self) -> [&str; 5] {
        [&self.tenant, &self.subject, &self.agent, &self.method, &self.params]
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::Payload;
    use mgp_types::mcp::Revision;
    use mgp_types::service::{AcceptedRequests, PeerInfo};
    use mgp_types::service::{CallerRequest, Stack, mock};

    use tower_layer::Layer;

    use super::*;

    fn client(sealer: &Sealer) -> mock::Client {
        let tool = Stack::from_fn(|call: Call| async move {
            let cx = call.cx();
            let seed: u32 = cx.once("seed", || async { Ok(7) }).await?;
            let ask = || CallerRequest::new("elicitation/create", Payload::empty_object());
            let (a, b) = tokio::join!(cx.ask("a", ask()), cx.ask("b", ask()));
            let c = cx.ask("c", ask()).await?;
            Reply::of(&(seed, a?, b?, c))
        });
        asking(sealer, tool)
    }

    fn asking(sealer: &Sealer, tool: Stack) -> mock::Client {
        let mut client = mock::client(Stack::new(RoundsLayer::new(sealer.clone()).layer(tool)));
        let mut facts = PeerInfo::new(Revision::MODERN);
        let mut asks = AcceptedRequests::default();
        asks.elicitation = true;
        facts.accepts = asks;
        client.cx.caller = Arc::new(facts);
        client
    }

    async fn asked(client: &mut mock::Client, params: &str) -> (Vec<String>, String) {
        match client.call("tools/call", params).await.unwrap() {
            Reply::InputRequired(needed) => {
                (needed.asks.into_iter().map(|(key, _)| key).collect(), needed.state.unwrap())
            }
            other => panic!("it must ask, got {other:?}"),
        }
    }

    fn with(responses: &str, state: &str) -> String {
        format!(
            r#"{{"name":"t","arguments":{{"x":1}},"inputResponses":{responses},"requestState":"{state}"}}"#
        )
    }

    const FIRST: &str = r#"{"name":"t","arguments":{"x":1}}"#;

    #[tokio::test]
    async fn rounds_join_answers_and_ignore_what_was_not_asked() {
        let mut client = client(&Sealer::random().unwrap());
        let (keys, state) = asked(&mut client, FIRST).await;
        assert_eq!(keys, ["a", "b"]);
        let (keys, state) = asked(&mut client, &with(r#"{"a":1,"c":9,"z":0}"#, &state)).await;
        assert_eq!(keys, ["b"]);
        let (keys, state) = asked(&mut client, &with(r#"{"b":2}"#, &state)).await;
        assert_eq!(keys, ["c"]);
        let result = client.request("tools/call", &with(r#"{"c":3}"#, &state)).await.unwrap();
        assert_eq!(result.as_str(), "[7,1,2,3]");
    }

    #[tokio::test]
    async fn answers_may_arrive_before_the_question() {
        let mut client = client(&Sealer::random().unwrap());
        let early = |responses: &str| {
            format!(r#"{{"name":"t","arguments":{{"x":1}},"inputResponses":{responses}}}"#)
        };
        let (keys, _) = asked(&mut client, &early(r#"{"seed":9,"wrong":1}"#)).await;
        assert_eq!(keys, ["a", "b"], "an answer without a question is ignored");
        let (keys, state) = asked(&mut client, &early(r#"{"b":2,"z":0}"#)).await;
        assert_eq!(keys, ["a"]);
        let result = client.request("tools/call", &with(r#"{"a":1}"#, &state)).await;
        assert!(result.is_err(), "`c` is still open");
        let result = client.request("tools/call", &early(r#"{"a":1,"b":2,"c":3,"d":4}"#)).await;
        assert_eq!(result.unwrap().as_str(), "[7,1,2,3]", "the caller cannot set a stored value");
        for wrong in ["null", "7", "[]"] {
            let refused = client.call("tools/call", &early(wrong)).await.unwrap_err();
            assert_eq!(refused.code().0, -32602, "{wrong}");
        }
        let large = early(&format!(r#"{{"a":"{}"}}"#, "x".repeat(70_000)));
        assert_eq!(client.call("tools/call", &large).await.unwrap_err().code().0, 3001);
    }

    #[tokio::test]
    async fn a_permission_is_not_given_before_it_is_requested() {
        let tool = Stack::from_fn(|call: Call| async move {
            let ask = CallerRequest::new("elicitation/create", Payload::empty_object());
            Ok(Reply::raw(call.cx().ask_again("may", ask).await?))
        });
        let mut client = asking(&Sealer::random().unwrap(), tool);
        let early = r#"{"name":"t","arguments":{"x":1},"inputResponses":{"may":"yes"}}"#;
        let (keys, state) = asked(&mut client, early).await;
        assert_eq!(keys, ["may"]);
        let (_, state) = asked(&mut client, &with("{}", &state)).await;
        let result = client.request("tools/call", &with(r#"{"may":"no"}"#, &state)).await;
        assert_eq!(result.unwrap().as_str(), r#""no""#);
    }
}
