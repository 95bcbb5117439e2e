//! The inbound and outbound stacks of a connection, the request time-out, and the detection of the connection's
//! end.

mod asked_questions;
mod callbacks;
mod form_question;
mod header_mirror;
mod inbound;
mod list_size;
mod liveness;
mod log_limit;
mod offers;
mod outbound;
mod page_address;
mod question_progress;
mod request_timeout;
mod task_callers;
mod url_elicitations;

pub(crate) use callbacks::{CallbackHandler, CallerAnswers, ReceivedCallbacks};
pub(crate) use form_question::answer_form;
pub(crate) use header_mirror::HeaderMirrorLayer;
pub(crate) use inbound::{FindCaller, InboundParts, inbound, is_question, not_offered};
pub(crate) use list_size::{MAX_LIST_BYTES, page_bytes};
#[cfg(feature = "http")]
pub(crate) use liveness::spawn_driver;
pub(crate) use liveness::{
    EofReader, Liveness, LivenessPeer, TaskGuard, is_answer, spawn_connection,
};
pub(crate) use offers::{offers, question_for_caller, remove_local_ids};
pub(crate) use outbound::{GatewayStacks, OutboundStack, Repeats, spanned};
pub(crate) use page_address::{check_page, check_pages, is_openable, required_pages};
pub(crate) use request_timeout::{OpenQuestion, ProgressHook, RequestTimeoutLayer, TimeLimits};
pub(crate) use task_callers::{TaskCaller, TaskCallers};
pub(crate) use url_elicitations::{CallerPeer, UrlElicitations};
