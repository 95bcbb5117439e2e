//! Elicitation: a server asks the person (MCP elicitation).
//!
//! Applies to: both.

use super::{Meta, ResultType, TaskAugmentation};
use crate::record::{Object, RawObject, open_enum, record};

open_enum! {
    /// How the person is asked.
    pub enum ElicitMode {
        /// With a form; also what absence means.
        Form = "form",
        /// With a page to visit.
        Url = "url",
    }

    /// What the person did.
    pub enum ElicitAction {
        /// Answered.
        Accept = "accept",
        /// Said no.
        Decline = "decline",
        /// Went away.
        Cancel = "cancel",
    }
}

record! {
    /// Parameters of `elicitation/create`.
    pub struct ElicitParams {
        /// How to ask.
        opt mode: Option<ElicitMode>,
        /// What to ask.
        req message: String,
        /// The form, as a flat JSON Schema.
        opt requested_schema as "requestedSchema": Option<RawObject>,
        /// Names the elicitation of a page.
        opt elicitation_id as "elicitationId": Option<String>,
        /// The page.
        opt url: Option<String>,
        /// Run it as a task (2025-11-25).
        opt task: Option<TaskAugmentation>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `elicitation/create`.
    pub struct ElicitResult {
        /// How to read the result.
        opt result_type as "resultType": Option<ResultType>,
        /// What the person did.
        req action: ElicitAction,
        /// What was filled in.
        opt content: Option<Object>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `notifications/elicitation/complete`.
    pub struct ElicitationCompleteParams {
        /// The elicitation that is over.
        req elicitation_id as "elicitationId": String,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Data of error −32042.
    pub struct UrlElicitationRequiredData {
        /// The pages to visit.
        req elicitations: Vec<ElicitParams>,
    }
}
