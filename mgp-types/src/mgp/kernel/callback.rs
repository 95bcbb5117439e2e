//! Questions that servers asked and that wait for an operator's answer (MGP §13.4; methods of this kernel only).

use crate::mgp::CallbackType;
use crate::record::{List, record};
use crate::{Payload, Timestamp};

record! {
    /// Parameters of `mgp/kernel/callbacks`.
    pub struct KernelCallbacksParams {}

    /// Result of `mgp/kernel/callbacks`.
    pub struct KernelCallbacksResult {
        /// The open questions, oldest first.
        def callbacks: Vec<KernelCallback>,
    }

    /// A question that a server asks during a call and that an operator must answer, because the caller cannot.
    pub struct KernelCallback {
        /// The id of the question, which the answer must name.
        req id: String,
        /// The id of the server that asks.
        req server_id: String,
        /// The kind of answer that the server asks for.
        req kind as "type": CallbackType,
        /// The question, as the server wrote it.
        req message: String,
        /// The possible answers; empty if any text is an answer.
        list options: List<String>,
        /// The principal of the call during which the server asks.
        req subject: String,
        /// The id of the agent, if the principal acts through one.
        opt agent_id: Option<String>,
        /// The time of the question.
        req asked_at: Timestamp,
        /// The time at which the question expires.
        req expires_at: Timestamp,
    }

    /// Parameters of `mgp/kernel/callbacks/answer`.
    pub struct KernelCallbackAnswerParams {
        /// The id of the question.
        req id: String,
        /// The answer: one of the options or a text; `null` dismisses the question.
        req response: Payload,
    }

    /// Result of `mgp/kernel/callbacks/answer`.
    pub struct KernelCallbackAnswerResult {
        /// The question that was answered.
        req callback: KernelCallback,
    }
}
