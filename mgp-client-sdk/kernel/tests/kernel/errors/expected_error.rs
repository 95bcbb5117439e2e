//! Compares the error of a call with the expected one: MGP peers must get it as `error.data._mgp`, plain peers as the
//! result of the tool.

use mgp_types::mcp::Era;
use mgp_types::service::Stack;
use mgp_types::{ErrorCode, Recovery};
use serde_json::{Value, json};

use super::page::{Page, Row};
use super::peer::{Dialect, PEERS, Peer};

/// The error that each peer must get for a tool call.
#[must_use]
pub(crate) struct ExpectedError {
    code: ErrorCode,
    row: Row,
    recovery: Value,
    texts: Vec<&'static str>,
    details: Vec<&'static str>,
    /// The expected value of the member `started` of the details; `None` if there must be no such member.
    started: Option<bool>,
}

impl ExpectedError {
    /// Expects the default recovery hints of a code, and no details.
    pub(crate) fn new(code: ErrorCode) -> Self {
        let row = Page::read().row(code);
        let recovery = serde_json::to_value(Recovery::default_for(code).unwrap()).unwrap();
        Self { code, row, recovery, texts: Vec::new(), details: Vec::new(), started: None }
    }

    pub(crate) fn message(mut self, texts: impl IntoIterator<Item = &'static str>) -> Self {
        self.texts.extend(texts);
        self
    }

    /// Expects exactly these members in the details.
    pub(crate) fn details(mut self, names: impl IntoIterator<Item = &'static str>) -> Self {
        self.details.extend(names);
        self
    }

    /// Expects a recovery hint that differs from the default of the code.
    pub(crate) fn hint(mut self, name: &str, value: Value) -> Self {
        self.recovery[name] = value;
        self
    }

    /// Expects the error's details to contain the member `started`, in addition to the other members.
    pub(crate) fn started(mut self, started: bool) -> Self {
        self.started = Some(started);
        self
    }

    /// Expects a hint that the call must not be repeated, unlike the default of the code.
    pub(crate) fn no_retry(mut self) -> Self {
        let hints = Recovery::default_for(self.code).unwrap().no_retry();
        self.recovery = serde_json::to_value(hints).unwrap();
        self
    }

    /// Expects a hint that the call may be repeated after a second, unlike the default of the code.
    pub(crate) fn after_a_second(self) -> Self {
        let (wait, attempts) = (json!(1000), json!(5));
        let strategy = json!("fixed_delay");
        self.hint("retryable", json!(true))
            .hint("retry_after_ms", wait)
            .hint("retry_strategy", strategy)
            .hint("max_retries", attempts)
    }

    /// Expects the hints for a tool that may safely run twice.
    pub(crate) fn of_repeatable(mut self) -> Self {
        let hints = json!({
            "category": self.recovery["category"], "retryable": true, "retry_after_ms": 1000,
            "retry_strategy": "exponential_backoff", "max_retries": 3,
        });
        self.recovery = hints;
        self
    }

    /// Calls a tool as each of the four kinds of peers, and compares the answers with this error.
    pub(crate) async fn check_all_peers(&self, stack: &Stack, tool: &str) {
        for kind in PEERS {
            let mut peer = Peer::join(stack, kind).await;
            let answer = peer.call(tool).await;
            self.check(&peer, &answer);
        }
    }

    /// Checks an answer, and that `docs/errors.md` documents the details in it.
    #[track_caller]
    pub(crate) fn check(&self, peer: &Peer, answer: &Value) {
        match peer.dialect {
            Dialect::Mgp => self.check_mgp(answer),
            Dialect::Plain => self.check_plain(peer, answer),
        }
    }

    #[track_caller]
    pub(crate) fn check_mgp(&self, answer: &Value) {
        let error = &answer["error"];
        assert_eq!(error["code"], self.code.0, "{answer}");
        self.check_words(error["message"].as_str().unwrap());
        let mut recovery = error["data"]["_mgp"].clone();
        assert!(recovery.is_object(), "{answer}");
        self.check_details(&recovery["details"]);
        recovery.as_object_mut().unwrap().remove("details");
        assert_eq!(recovery, self.recovery, "{answer}");
    }

    #[track_caller]
    fn check_plain(&self, peer: &Peer, answer: &Value) {
        assert!(!peer.last_line().contains("_mgp"), "{}", peer.last_line());
        assert!(answer.get("error").is_none(), "{answer}");
        let result = &answer["result"];
        assert_eq!(result["isError"], true, "{answer}");
        let kind = (peer.era == Era::Modern).then_some("complete");
        assert_eq!(result["resultType"].as_str(), kind, "{answer}");

        let shown = &result["structuredContent"];
        let reason = shown["reason"].as_str().unwrap();
        self.check_words(reason);
        assert_eq!(result["content"][0]["text"], format!("{reason} ({})", self.code), "{answer}");
        self.check_details(&shown["details"]);
        let mut expected = json!({
            "status": "rejected", "code": self.code.0, "name": self.code.name(), "reason": reason,
            "retryable": self.recovery["retryable"],
        });
        for name in ["details", "data"] {
            if let Some(value) = shown.get(name) {
                expected[name] = value.clone();
            }
        }
        if let Some(wait) = self.recovery.get("retry_after_ms") {
            expected["retry_after_ms"] = wait.clone();
        }
        assert_eq!(*shown, expected, "{answer}");
    }

    #[track_caller]
    fn check_words(&self, message: &str) {
        for text in &self.texts {
            assert!(message.contains(text), "`{text}` is not in `{message}`");
        }
    }

    /// Checks the members of the details; an unexpected or undocumented member fails the test.
    #[track_caller]
    fn check_details(&self, details: &Value) {
        let mut names: Vec<&str> =
            details.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        let mut expected = self.details.clone();
        if let Some(started) = self.started {
            assert_eq!(details["started"], started, "{details}");
            expected.push("started");
        }
        names.sort_unstable();
        expected.sort_unstable();
        assert_eq!(names, expected, "{details}");
        for name in names {
            assert!(
                self.row.documents_detail(name),
                "docs/errors.md does not document `{name}` in the details of {}",
                self.code
            );
        }
    }
}
