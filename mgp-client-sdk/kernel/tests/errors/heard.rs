//! What is to be heard of a refusal, word for word: members of `error.data._mgp`, or the plain peer's result.

use mgp_types::mcp::Era;
use mgp_types::service::Stack;
use mgp_types::{ErrorCode, Recovery};
use serde_json::{Value, json};

use crate::page::{Page, Row};
use crate::peer::{PEERS, Peer, Tongue};

/// A refusal of a tool call as each peer must hear it.
#[must_use]
pub(crate) struct Heard {
    code: ErrorCode,
    row: Row,
    recovery: Value,
    says: Vec<&'static str>,
    details: Vec<&'static str>,
    /// Whether the details say that the call began; none where they do not tell.
    started: Option<bool>,
}

impl Heard {
    /// A refusal with the code's own hints and without details.
    pub(crate) fn of(code: ErrorCode) -> Self {
        let row = Page::read().row(code);
        let recovery = serde_json::to_value(Recovery::default_for(code).unwrap()).unwrap();
        Self { code, row, recovery, says: Vec::new(), details: Vec::new(), started: None }
    }

    /// Words that the message must have: what failed, and what to do.
    pub(crate) fn says(mut self, words: impl IntoIterator<Item = &'static str>) -> Self {
        self.says.extend(words);
        self
    }

    /// The members of the details, all of them.
    pub(crate) fn details(mut self, names: impl IntoIterator<Item = &'static str>) -> Self {
        self.details.extend(names);
        self
    }

    /// A hint that is not the code's own.
    pub(crate) fn hint(mut self, name: &str, value: Value) -> Self {
        self.recovery[name] = value;
        self
    }

    /// The details say whether the call began, besides what else they say.
    pub(crate) fn started(mut self, started: bool) -> Self {
        self.started = Some(started);
        self
    }

    /// The same call is not to be made again, though others with this code are.
    pub(crate) fn no_retry(mut self) -> Self {
        let hints = Recovery::default_for(self.code).unwrap().no_retry();
        self.recovery = serde_json::to_value(hints).unwrap();
        self
    }

    /// The same call is to be made again, though others with this code are not.
    pub(crate) fn after_a_second(self) -> Self {
        let (wait, attempts) = (json!(1000), json!(5));
        let strategy = json!("fixed_delay");
        self.hint("retryable", json!(true))
            .hint("retry_after_ms", wait)
            .hint("retry_strategy", strategy)
            .hint("max_retries", attempts)
    }

    /// The hints of a tool that does no harm when it runs twice.
    pub(crate) fn of_repeatable(mut self) -> Self {
        let hints = json!({
            "category": self.recovery["category"], "retryable": true, "retry_after_ms": 1000,
            "retry_strategy": "exponential_backoff", "max_retries": 3,
        });
        self.recovery = hints;
        self
    }

    /// Lets all four peers call a tool of the same server.
    pub(crate) async fn heard_by_all(&self, stack: &Stack, tool: &str) {
        for kind in PEERS {
            let mut peer = Peer::join(stack, kind).await;
            let answer = peer.call(tool).await;
            self.check(&peer, &answer);
        }
    }

    /// Holds an answer against what must be heard, and against the page.
    #[track_caller]
    pub(crate) fn check(&self, peer: &Peer, answer: &Value) {
        match peer.tongue {
            Tongue::Mgp => self.check_mgp(answer),
            Tongue::Plain => self.check_plain(peer, answer),
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
        assert!(!peer.last.contains("_mgp"), "{}", peer.last);
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
        for words in &self.says {
            assert!(message.contains(words), "`{words}` is not in `{message}`");
        }
    }

    /// Members that nobody expects, or that the page does not tell of, are found too.
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
            let told = self.row.tells_of_detail(name);
            assert!(
                told,
                "docs/errors.md does not tell of `{name}` in the details of {}",
                self.code
            );
        }
    }
}
