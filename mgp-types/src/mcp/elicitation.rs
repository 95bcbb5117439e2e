//! Elicitation: a server asks the user (MCP elicitation).

use serde::{Deserialize, Serialize};

use super::{Meta, ResultType, TaskAugmentation};
use crate::record::{Object, RawObject, open_enum, record};
use crate::{Payload, RpcError};

open_enum! {
    /// The way to ask the user.
    pub enum ElicitMode {
        /// The server asks by a form; this is the default.
        Form = "form",
        /// The server asks the user to visit a page.
        Url = "url",
    }

    /// The user's response to an elicitation.
    pub enum ElicitAction {
        /// The user accepted, i.e. answered the form, or agreed to visit the page.
        Accept = "accept",
        /// The user declined.
        Decline = "decline",
        /// The user closed the question without an answer.
        Cancel = "cancel",
    }
}

record! {
    /// Parameters of `elicitation/create`.
    pub struct ElicitParams {
        /// The way to ask the user.
        opt mode: Option<ElicitMode>,
        /// The question for the user.
        req message: String,
        /// The form, as a flat JSON Schema; for mode `form`.
        opt requested_schema as "requestedSchema": Option<RawObject>,
        /// The id of the elicitation; for mode `url`.
        opt elicitation_id as "elicitationId": Option<String>,
        /// The URL of the page to visit; for mode `url`.
        opt url: Option<String>,
        /// If set, the request runs as a task (MCP 2025-11-25).
        opt task: Option<TaskAugmentation>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `elicitation/create`.
    pub struct ElicitResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        /// The user's response to an elicitation.
        req action: ElicitAction,
        /// The answers to the form.
        opt content: Option<Object>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `notifications/elicitation/complete`.
    pub struct ElicitationCompleteParams {
        /// The id of the completed elicitation.
        req elicitation_id as "elicitationId": String,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// The `data` of error −32042: the request can succeed only after the user has visited a page.
    pub struct UrlElicitationRequiredData {
        /// The elicitations that the user must complete before the client repeats the request.
        req elicitations: Vec<ElicitParams>,
    }
}

impl ElicitParams {
    /// Returns whether the elicitation asks the user to visit a page; an absent mode means a form.
    #[must_use]
    pub fn is_url(&self) -> bool {
        self.mode == Some(ElicitMode::Url)
    }

    /// Returns the default values of the form's fields; fields without a default value are left out.
    #[must_use]
    pub fn defaults(&self) -> Object {
        #[derive(Deserialize)]
        struct Form {
            #[serde(default)]
            properties: Object,
        }
        #[derive(Deserialize)]
        struct Field {
            default: Option<Payload>,
        }
        let form = self.requested_schema.as_ref().and_then(|schema| schema.get::<Form>().ok());
        let fields = form.map(|form| form.properties).unwrap_or_default();
        fields
            .iter()
            .filter_map(|(name, field)| Some((name, field.get::<Field>().ok()?.default?)))
            .collect()
    }

    /// Returns the result of a user who accepts the elicitation. For a form, the result contains the default values;
    /// for a page, it has no content. A handler of the client returns `Ok(question.accept())`.
    ///
    /// ```
    /// use mgp_types::mcp::ElicitParams;
    ///
    /// let question: ElicitParams = serde_json::from_str(
    ///     r#"{"message":"?","requestedSchema":{"type":"object","properties":{"age":{"type":"integer","default":30}}}}"#,
    /// )
    /// .unwrap();
    /// let answer = question.accept();
    /// assert_eq!(serde_json::to_string(&answer).unwrap(), r#"{"action":"accept","content":{"age":30}}"#);
    /// ```
    #[must_use]
    pub fn accept(&self) -> ElicitResult {
        self.filled_in(&Object::new())
    }

    /// Returns the result of a user who accepts the elicitation with these answers, a struct or a map; fields without an
    /// answer get their default values. For a page, the answers are left out.
    ///
    /// ```
    /// use mgp_types::mcp::ElicitParams;
    ///
    /// #[derive(serde::Serialize)]
    /// struct Guest {
    ///     name: String,
    /// }
    ///
    /// let question: ElicitParams = serde_json::from_str(r#"{"message":"Who is the guest?"}"#).unwrap();
    /// let answer = question.accept_with(&Guest { name: "Ann".to_owned() }).unwrap();
    /// assert!(serde_json::to_string(&answer).unwrap().contains(r#"{"name":"Ann"}"#));
    /// ```
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the JSON of the answers is not an object.
    pub fn accept_with(
        &self,
        content: &(impl Serialize + ?Sized),
    ) -> Result<ElicitResult, RpcError> {
        Ok(self.filled_in(&Payload::of(content)?.get().map_err(|error: RpcError| {
            RpcError::internal("the content of a form is an object").because(error)
        })?))
    }

    fn filled_in(&self, content: &Object) -> ElicitResult {
        let mut result = ElicitResult::new(ElicitAction::Accept);
        if !self.is_url() {
            let mut filled = self.defaults();
            for (name, value) in content.iter() {
                filled.insert(name, value.clone());
            }
            result.content = Some(filled);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(question: &str, content: &str, expected: &str) {
        let question: ElicitParams = serde_json::from_str(question).unwrap();
        let answer =
            question.accept_with(&serde_json::from_str::<Object>(content).unwrap()).unwrap();
        assert_eq!(serde_json::to_string(&answer).unwrap(), expected);
    }

    #[test]
    fn fields_keep_their_defaults() {
        let form = r#"{"message":"?","requestedSchema":{"type":"object","properties":{
            "name":{"type":"string","default":"John Doe"},"score":{"type":"number","default":95.50},
            "status":{"type":"string","enum":["active","inactive"],"default":"active"},
            "verified":{"type":"boolean","default":false},"email":{"type":"string"},"odd":7}}}"#;
        check(
            form,
            r#"{"name":"Ann","email":"a@b"}"#,
            r#"{"action":"accept","content":{"name":"Ann","score":95.50,"status":"active","verified":false,"email":"a@b"}}"#,
        );
        check(r#"{"message":"?"}"#, "{}", r#"{"action":"accept","content":{}}"#);
        check(
            r#"{"message":"?","requestedSchema":{"properties":7}}"#,
            "{}",
            r#"{"action":"accept","content":{}}"#,
        );
        let page =
            r#"{"mode":"url","message":"?","elicitationId":"e","url":"https://example.com"}"#;
        check(page, r#"{"name":"Ann"}"#, r#"{"action":"accept"}"#);
    }
}
