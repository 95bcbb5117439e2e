//! Proposal 11 (`structured_errors`): errors with a category and advice, and their mapping to the errors of MGP.

use serde_json::Value;

use crate::mcp::CallToolResult;
use crate::record::{Object, open_enum, record};
use crate::{ErrorCode, Payload, Recovery, RpcError};

/// The name of the member of `error.data` and of `structuredContent` that contains the structured error.
const MEMBER: &str = "error";

/// The text that is written in place of a secret.
const REMOVED: &str = "[removed]";

/// The codes whose names in this proposal differ from their names in MGP. All other codes have the names of MGP.
const NAMES: &[(ErrorCode, &str)] = &[
    (ErrorCode::AUTH_REQUIRED, "AUTHENTICATION_REQUIRED"),
    (ErrorCode::AUTH_EXPIRED, "TOKEN_EXPIRED"),
    (ErrorCode::RATE_LIMITED, "RATE_LIMIT_EXCEEDED"),
    (ErrorCode::QUOTA_EXCEEDED, "QUOTA_EXHAUSTED"),
    (ErrorCode::TIMEOUT, "OPERATION_TIMEOUT"),
    (ErrorCode::INVALID_TOOL_ARGS, "INVALID_INPUT"),
];

/// Further names that the proposal defines for codes, each with the code that it means. They are only decoded; when the
/// code is encoded, another name is written. The exception is the first name, which is also written, for a call that
/// was refused because of missing scopes.
const READ_NAMES: &[(&str, ErrorCode)] = &[
    (SCOPE_INSUFFICIENT, ErrorCode::PERMISSION_DENIED),
    ("INVALID_PARAMETERS", ErrorCode::INVALID_PARAMS),
    ("SERVER_ERROR", ErrorCode::INTERNAL_ERROR),
    ("SERVER_UNAVAILABLE", ErrorCode::UPSTREAM_UNAVAILABLE),
    ("PAYLOAD_TOO_LARGE", ErrorCode::RESOURCE_EXHAUSTED),
    ("UNSUPPORTED_OPERATION", ErrorCode::METHOD_NOT_FOUND),
];

/// The name that is written for code 1000 (permission denied) if a call was refused because the caller lacks scopes.
const SCOPE_INSUFFICIENT: &str = "SCOPE_INSUFFICIENT";

/// Parts of names: a member of `details` whose name contains one of them might hold a secret or internal information,
/// so its value is replaced.
#[rustfmt::skip]
const SECRET_NAMES: &[&str] = &[
    "password", "passphrase", "secret", "token", "api_key", "apikey", "authorization", "cookie",
    "private_key", "stack", "traceback",
];

/// The prefixes of secrets: a long word that begins with one of them is replaced.
const SECRET_WORDS: &[&str] =
    &["sk-", "ghp_", "gho_", "github_pat_", "xoxb-", "xoxp-", "AKIA", "eyJ"];

open_enum! {
    /// The category of a structured error. Its member has the same name as the category of MGP (`category`), but other
    /// values.
    pub enum ErrorKind {
        /// A retry might succeed.
        Transient = "transient",
        /// A retry fails again.
        Permanent = "permanent",
        /// The caller must authenticate, or obtain a scope.
        AuthRequired = "auth_required",
        /// The arguments must be corrected.
        InvalidInput = "invalid_input",
        /// The caller must wait before it retries.
        RateLimited = "rate_limited",
    }
}

impl ErrorKind {
    /// Returns whether repeating the same call can succeed; `false` for an unknown category.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Transient | Self::RateLimited)
    }
}

record! {
    /// An error with a category and advice.
    pub struct StructuredError {
        /// The name of the code, e.g. `RATE_LIMIT_EXCEEDED`.
        req code: String,
        /// The error message.
        req message: String,
        /// The category, which shows whether a retry can succeed.
        req category: ErrorKind,
        /// The minimum delay before a retry, in seconds.
        opt retry_after_seconds: Option<u64>,
        /// `true` if the user can do something about the error.
        opt user_actionable: Option<bool>,
        /// The next step that might help.
        opt suggestion: Option<String>,
        /// Details of this error.
        opt details: Option<Object>,
        /// The `https` URL of a page about the error.
        opt documentation_url: Option<String>,
    }
}

impl StructuredError {
    /// Decodes the structured error in the `data` of an error.
    ///
    /// ```
    /// use mgp_types::proposal::{ErrorKind, StructuredError};
    /// use mgp_types::{ErrorCode, RpcError};
    ///
    /// let error = RpcError::new(ErrorCode::SERVER_RESTARTING, "the server restarts");
    /// let error = StructuredError::from(&error).attach(error);
    /// let read = StructuredError::in_error(&error).unwrap();
    /// assert_eq!((read.code.as_str(), read.category), ("SERVER_RESTARTING", ErrorKind::Transient));
    /// assert_eq!(read.retry_after_seconds, Some(1));
    /// ```
    #[must_use]
    pub fn in_error(error: &RpcError) -> Option<Self> {
        let data: Object = error.as_data()?.get().ok()?;
        data.decode::<Self>(MEMBER).ok()?.map(Self::cleaned)
    }

    /// Decodes the structured error in the result of a failed tool: in the member `error` of `structuredContent`, else
    /// in the member `error` of the result itself.
    #[must_use]
    pub fn in_result(result: &CallToolResult) -> Option<Self> {
        let content = result.structured_content.as_ref();
        let content = content.and_then(|content| content.get::<Object>().ok());
        let found = content.and_then(|content| content.decode(MEMBER).ok()?);
        let found = found.or_else(|| result.extra.decode(MEMBER).ok()?);
        found.map(Self::cleaned)
    }

    /// Adds this structured error to the `data` of an error. An error whose data is not an object is returned
    /// unchanged.
    #[must_use]
    pub fn attach(self, error: RpcError) -> RpcError {
        let data = error.as_data().map(Payload::get::<Object>);
        let mut data = match data {
            None => Object::new(),
            Some(Ok(data)) => data,
            // Members cannot be added to data that is not an object, so the error is returned unchanged.
            Some(Err(_)) => return error,
        };
        match data.encode(MEMBER, &self.cleaned()).and_then(|()| Payload::of(&data)) {
            Ok(data) => error.data(data),
            Err(_) => error,
        }
    }

    /// Adds this error to `content`, the structured content of a failed tool, and returns the new content. Returns
    /// `None` if the content is not an object, or already has a member `error`.
    #[must_use]
    pub fn in_content(self, content: Option<&Payload>) -> Option<Payload> {
        let mut content = match content {
            Some(content) => content.get::<Object>().ok()?,
            None => Object::new(),
        };
        if content.get(MEMBER).is_some() {
            return None;
        }
        content.encode(MEMBER, &self.cleaned()).ok()?;
        Payload::of(&content).ok()
    }

    /// Returns the corresponding error of MGP; its data contains the structured error.
    #[must_use]
    pub fn to_error(&self) -> RpcError {
        let code = code_of(&self.code, &self.category);
        let mut hints = Recovery::default_for(code).unwrap_or_default();
        hints = if self.category.is_retryable() {
            hints.retryable = Some(true);
            hints.retry_after_ms = self.retry_after_seconds.map(|time| time.saturating_mul(1000));
            hints
        } else {
            hints.no_retry()
        };
        hints.details.clone_from(&self.details);
        self.clone().attach(RpcError::new(code, self.message.clone()).recovery(hints))
    }

    /// Returns the error with the secrets in its suggestion and details replaced. Its link is removed if it is not an
    /// `https` URL.
    #[must_use]
    fn cleaned(mut self) -> Self {
        self.documentation_url = self.documentation_url.filter(|url| url.starts_with("https://"));
        self.suggestion = self.suggestion.map(|text| clean_text(&text).unwrap_or(text));
        // Collect the members into a new object: finding each one in the old object would take quadratic time, and a
        // peer chooses their number.
        self.details = self.details.map(|details| {
            details.iter().map(|(name, value)| (name, cleaned_member(name, value))).collect()
        });
        self
    }
}

impl From<&RpcError> for StructuredError {
    /// Returns the structured error in the error's data. If there is none, creates one from the error's code and
    /// recovery hints.
    fn from(error: &RpcError) -> Self {
        if let Some(own) = Self::in_error(error) {
            return own;
        }
        let hints = error.as_recovery();
        let details = hints.and_then(|hints| hints.details.clone());
        let lacks_scopes = details.as_ref().is_some_and(|all| all.get("missing_scopes").is_some());
        let code = error.code();
        let is_retryable = hints.is_some_and(Recovery::is_retryable);
        let mut made = Self::new(
            if lacks_scopes { SCOPE_INSUFFICIENT.to_owned() } else { name_of(code) },
            error.message(),
            kind_of(code, is_retryable, lacks_scopes),
        );
        made.retry_after_seconds = hints
            .filter(|hints| hints.is_retryable())
            .and_then(|hints| hints.retry_after_ms)
            .map(|millis| millis.div_ceil(1000));
        let is_for_user = matches!(code.0, 1000..=1003)
            || matches!(code, ErrorCode::QUOTA_EXCEEDED | ErrorCode::TOOL_DISABLED);
        made.user_actionable = Some(is_for_user);
        let fallback = || {
            let tool = hints?.fallback_tool.as_ref()?;
            Some(format!("Call `{}` instead.", crate::clip(tool, 200)))
        };
        let remedy = details.as_ref().and_then(|all| all.decode("remedy").ok()?);
        made.suggestion = remedy.or_else(fallback);
        made.details = details;
        made.cleaned()
    }
}

/// Returns the category for an error with this code; the flags give further properties of the error.
fn kind_of(code: ErrorCode, is_retryable: bool, lacks_scopes: bool) -> ErrorKind {
    match code {
        ErrorCode::RATE_LIMITED if is_retryable => ErrorKind::RateLimited,
        _ if is_retryable => ErrorKind::Transient,
        ErrorCode::AUTH_REQUIRED | ErrorCode::AUTH_EXPIRED => ErrorKind::AuthRequired,
        _ if lacks_scopes => ErrorKind::AuthRequired,
        ErrorCode::PARSE_ERROR
        | ErrorCode::INVALID_REQUEST
        | ErrorCode::INVALID_PARAMS
        | ErrorCode::INVALID_TOOL_ARGS => ErrorKind::InvalidInput,
        _ => ErrorKind::Permanent,
    }
}

fn name_of(code: ErrorCode) -> String {
    let own = NAMES.iter().find(|(own, _)| *own == code).map(|(_, name)| *name);
    match own.or_else(|| code.name()) {
        Some(name) => name.to_owned(),
        None if code.0 < 0 => format!("CODE_MINUS_{}", code.0.unsigned_abs()),
        None => format!("CODE_{}", code.0),
    }
}

/// Returns the code for a name. For an unknown name, returns a code that fits the category.
fn code_of(name: &str, kind: &ErrorKind) -> ErrorCode {
    let own = NAMES.iter().find(|(_, own)| *own == name).map(|(code, _)| *code);
    let read = || READ_NAMES.iter().find(|(read, _)| *read == name).map(|(_, code)| *code);
    let known = || ErrorCode::KNOWN.iter().copied().find(|code| code.name() == Some(name));
    let number = || {
        let digits = name.strip_prefix("CODE_")?;
        let (sign, digits) = digits.strip_prefix("MINUS_").map_or((1, digits), |rest| (-1, rest));
        i32::try_from(sign * i64::from(digits.parse::<u32>().ok()?)).ok().map(ErrorCode)
    };
    own.or_else(read).or_else(known).or_else(number).unwrap_or(match kind {
        ErrorKind::Transient => ErrorCode::UPSTREAM_UNAVAILABLE,
        ErrorKind::AuthRequired => ErrorCode::AUTH_REQUIRED,
        ErrorKind::InvalidInput => ErrorCode::INVALID_TOOL_ARGS,
        ErrorKind::RateLimited => ErrorCode::RATE_LIMITED,
        ErrorKind::Permanent | ErrorKind::Other(_) => ErrorCode::UPSTREAM_ERROR,
    })
}

/// Returns the value of a member with its secrets replaced.
fn cleaned_member(name: &str, member: &Payload) -> Payload {
    let mut value = member.get::<Value>().ok();
    let is_changed = value.as_mut().is_some_and(|value| clean_member(name, value));
    let cleaned = value.filter(|_| is_changed).and_then(|value| Payload::of(&value).ok());
    cleaned.unwrap_or_else(|| member.clone())
}

/// Replaces the secrets in the value of a member; returns whether it contained any.
fn clean_member(name: &str, value: &mut Value) -> bool {
    let name = name.to_ascii_lowercase();
    if SECRET_NAMES.iter().any(|secret| name.contains(secret)) {
        *value = REMOVED.into();
        return true;
    }
    match value {
        Value::String(text) => match clean_text(text) {
            Some(clean) => {
                *text = clean;
                true
            }
            None => false,
        },
        // Clean every item: stopping at the first item with a secret would leave secrets in later items.
        Value::Array(items) => {
            items.iter_mut().filter_map(|item| clean_member("", item).then_some(())).count() > 0
        }
        Value::Object(members) => {
            let cleaned =
                |(name, value): (&String, &mut Value)| clean_member(name, value).then_some(());
            members.iter_mut().filter_map(cleaned).count() > 0
        }
        _ => false,
    }
}

/// Returns a text with its secrets replaced; `None` if it contains no secret.
fn clean_text(text: &str) -> Option<String> {
    let ends_word = |c: char| c.is_whitespace() || "`\"'()[]{}=:,;&?".contains(c);
    // A secret may contain `=` and `:`, e.g. between a key and its signature, so these characters do not end it.
    let ends_secret = |c: char| ends_word(c) && c != '=' && c != ':';
    let (mut clean, mut rest, mut after_bearer) = (String::new(), text, false);
    while !rest.is_empty() {
        let has_prefix = SECRET_WORDS.iter().any(|start| rest.starts_with(start));
        let may_be_secret = has_prefix || after_bearer;
        let end = if may_be_secret { rest.find(ends_secret) } else { rest.find(ends_word) };
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        clean.push_str(if may_be_secret && word.len() > 15 { REMOVED } else { word });
        rest = after.trim_start_matches(ends_word);
        clean.push_str(&after[..after.len() - rest.len()]);
        after_bearer = word.eq_ignore_ascii_case("bearer");
    }
    (clean != text).then_some(clean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RetryStrategy;

    /// Returns the codes of MGP, some unknown codes, and the smallest and the largest possible code.
    fn codes() -> impl Iterator<Item = ErrorCode> {
        let others = [0, 1, -1, 999, 1099, 5999, i32::MIN, i32::MAX, -32099].map(ErrorCode);
        ErrorCode::KNOWN.iter().copied().chain(others).chain((900..5200).map(ErrorCode))
    }

    #[test]
    fn each_error_of_mgp_survives_the_way_there_and_back() {
        for (index, code) in codes().enumerate() {
            let delay = [None, Some(0), Some(1), Some(999), Some(1000), Some(1001), Some(u64::MAX)]
                [index % 7];
            for retryable in [false, true] {
                let hints = Recovery {
                    retryable: Some(retryable),
                    retry_after_ms: delay.filter(|_| retryable),
                    retry_strategy: Some(RetryStrategy::FixedDelay),
                    ..Recovery::default()
                };
                let details = Object::new().with("index", &index);
                let error = RpcError::new(code, format!("error {index}"));
                let error = error.recovery(hints.details(details.clone()));
                let there = StructuredError::from(&error);
                assert_eq!(there.category.is_retryable(), retryable, "{code}");
                let back = there.to_error();
                assert_eq!((back.code(), back.message()), (code, error.message()));
                let hints = back.as_recovery().unwrap();
                assert_eq!((hints.is_retryable(), &hints.details), (retryable, &Some(details)));
                let rounded =
                    delay.filter(|_| retryable).map(|ms| ms.div_ceil(1000).saturating_mul(1000));
                assert_eq!(hints.retry_after_ms, rounded, "{code}");
                assert!(hints.retry_after_ms >= delay.filter(|_| retryable));
                assert_eq!(StructuredError::from(&back), there, "{code}");
            }
        }
    }

    #[test]
    fn each_structured_error_survives_the_way_there_and_back() {
        #[rustfmt::skip]
        let names = [
            "RATE_LIMIT_EXCEEDED", "PERMISSION_DENIED", "RESOURCE_NOT_FOUND", "INVALID_INPUT",
            "QUOTA_EXHAUSTED", "SERVER_UNAVAILABLE", "TRANSACTION_CONFLICT",
            "AUTHENTICATION_REQUIRED", "SCOPE_INSUFFICIENT", "OPERATION_TIMEOUT",
            "PAYLOAD_TOO_LARGE", "IDEMPOTENCY_CONFLICT", "INVALID_PARAMETERS", "TOKEN_EXPIRED",
            "CONFLICT", "SERVER_ERROR", "UPSTREAM_ERROR", "TIMEOUT", "UNSUPPORTED_OPERATION",
            "CODE_", "CODE_x", "CODE_MINUS_-9223372036854775808", "", "ä",
        ];
        for name in names {
            for kind in ErrorKind::KNOWN {
                let mut error = StructuredError::new(name, "m", kind.clone());
                error.retry_after_seconds = kind.is_retryable().then_some(42);
                error.user_actionable = Some(true);
                error.suggestion = Some("Narrow the date range.".to_owned());
                error.documentation_url = Some("https://example.com/errors".to_owned());
                let back = error.to_error();
                assert_eq!(StructuredError::from(&back), error);
                assert_eq!(back.as_recovery().unwrap().is_retryable(), kind.is_retryable());
            }
        }
    }

    #[test]
    fn secrets_and_plain_links_do_not_leave() {
        let text = r#"{"code":"X","message":"m","category":"permanent",
            "suggestion":"Use Bearer abcdefghijklmnopqrst or sk-abcdefghijklmnopqrst here",
            "details":{"api_key":"hunter2","deep":[{"Password":1},"AKIAABCDEFGHIJKLMNOP"],"n":1.50},
            "documentation_url":"http://example.com"}"#;
        let error: StructuredError = serde_json::from_str(text).unwrap();
        let error = error.to_error();
        let read = StructuredError::in_error(&error).unwrap();
        assert_eq!(read.suggestion.as_deref(), Some("Use Bearer [removed] or [removed] here"));
        assert_eq!(read.documentation_url, None);
        let details = serde_json::to_string(&read.details).unwrap();
        assert_eq!(
            details,
            r#"{"api_key":"[removed]","deep":[{"Password":"[removed]"},"[removed]"],"n":1.50}"#
        );
    }

    /// Regression test: the time was quadratic, and a server chooses the number of details.
    #[test]
    fn many_details_are_cleaned_in_linear_time() {
        let details: Vec<_> = (0..200_000).map(|at| format!(r#""{at}":1"#)).collect();
        let text = format!(
            r#"{{"code":"X","message":"m","category":"permanent","details":{{{}}}}}"#,
            details.join(",")
        );
        let error: StructuredError = serde_json::from_str(&text).unwrap();
        assert_eq!(error.clone().cleaned(), error);
    }

    #[test]
    fn a_secret_is_found_on_any_line_and_in_a_url() {
        let secret = "ghp_abcdefghijklmnop";
        let text =
            format!("GET /?key={secret}&n=1\n{secret}\nAuthorization: Bearer\t{secret}, sk-5");
        assert_eq!(clean_text(&text), Some(text.replace(secret, REMOVED)));
        for (text, expected) in [
            ("AKIAABCDEFGHIJKLMNOP:c2lnbmVk= given", "[removed] given"),
            ("(Bearer: id:0123456789abc=)", "(Bearer: [removed])"),
        ] {
            assert_eq!(clean_text(text).as_deref(), Some(expected));
        }
        assert_eq!(clean_text("a sk-5, of the bearer"), None);
    }

    #[test]
    fn a_scope_that_is_missing_has_its_own_code() {
        let details = Object::new().with("missing_scopes", &["write"]);
        let hints = Recovery::default_for(ErrorCode::PERMISSION_DENIED).unwrap();
        let error =
            RpcError::new(ErrorCode::PERMISSION_DENIED, "m").recovery(hints.details(details));
        let made = StructuredError::from(&error);
        assert_eq!(
            (made.code.as_str(), &made.category),
            (SCOPE_INSUFFICIENT, &ErrorKind::AuthRequired)
        );
        assert_eq!(made.to_error().code(), ErrorCode::PERMISSION_DENIED);
    }
}
