//! Answers a server's forms for callers that do not support forms: the party that answers callbacks for such a caller
//! also fills in its forms (MGP §13.4).

use std::fmt::Write as _;
use std::time::Duration;

use mgp_stream::CallbackAnswer;
use mgp_types::mcp::{ElicitAction, ElicitMode, ElicitParams, ElicitResult};
use mgp_types::method::{ElicitationCreate, Request as _};
use mgp_types::mgp::{CallbackRequestParams, CallbackType};
use mgp_types::service::{Context, keep_alive};
use mgp_types::{Object, Payload, RpcError, millis};
use serde::Deserialize;
use tokio::time::timeout;

use super::callbacks::{CallbackHandler, MAX_QUESTION_BYTES};

/// The time limit for answering a form.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Lets the party that answers for callers fill in a form; `None` if the caller itself must be asked.
pub(crate) async fn answer_form(
    handler: Option<&CallbackHandler>,
    cx: &Context,
    method: &str,
    params: &Payload,
) -> Option<Result<Payload, RpcError>> {
    let Some(CallbackHandler::Caller(answers)) = handler else { return None };
    if method != ElicitationCreate::METHOD || cx.caller.accepts.elicitation {
        return None;
    }
    if params.as_str().len() > MAX_QUESTION_BYTES {
        let message = format!("a question has at most {MAX_QUESTION_BYTES} bytes");
        return Some(Err(RpcError::invalid_params(message)));
    }
    let asked: ElicitParams = params.get().ok()?;
    if asked.mode.as_ref().is_some_and(|mode| *mode != ElicitMode::Form) {
        return None;
    }
    let form = Form::read(&asked);
    let waiting = "waiting for the answer to a question of the server";
    let question = form.question(asked.message);
    let answering = timeout(TIMEOUT, (answers.otherwise)(cx.clone(), question.clone()));
    Some(match keep_alive(&cx.outlet, waiting, answering).await {
        Ok(Ok(answer)) => form.result(&question, answer),
        Ok(Err(error)) => Err(error),
        Err(_) => {
            (answers.unanswered)(cx, &question);
            Payload::of(&ElicitResult::new(ElicitAction::Cancel))
        }
    })
}

struct Form {
    fields: Vec<(String, Field)>,
}

/// The part of a field's schema that determines how the question is asked.
#[derive(Default, Deserialize)]
struct Field {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(rename = "enum", default)]
    options: Vec<String>,
    #[serde(rename = "oneOf", default)]
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(rename = "const")]
    value: String,
}

impl Form {
    fn read(asked: &ElicitParams) -> Self {
        let schema = asked.requested_schema.as_ref().and_then(|schema| Payload::of(schema).ok());
        let schema = schema.and_then(|schema| schema.get::<Object>().ok()).unwrap_or_default();
        let properties: Object = schema.decode("properties").ok().flatten().unwrap_or_default();
        let field = |value: &Payload| value.get::<Field>().unwrap_or_default();
        Self {
            fields: properties
                .iter()
                .map(|(name, value)| (name.to_owned(), field(value)))
                .collect(),
        }
    }

    /// Returns the question: a single field is asked directly, several fields are asked as one JSON object.
    fn question(&self, message: String) -> CallbackRequestParams {
        let (kind, options, message) = match &self.fields[..] {
            [] => (CallbackType::Confirmation, Vec::new(), message),
            [(_, field)] => {
                let choices = field.choices.iter().map(|choice| choice.value.clone());
                let options: Vec<_> = field.options.iter().cloned().chain(choices).collect();
                let kind = match field.kind.as_str() {
                    "boolean" => CallbackType::Confirmation,
                    _ if options.is_empty() => CallbackType::Input,
                    _ => CallbackType::Selection,
                };
                (kind, options, message)
            }
            fields => {
                let mut message = message + "\nAnswer with a JSON object with the members";
                for (name, field) in fields {
                    let _ = write!(message, " `{name}` ({})", field.kind);
                }
                (CallbackType::Input, Vec::new(), message)
            }
        };
        let mut question = CallbackRequestParams::new("", kind);
        question.message = Some(message);
        question.options = options.into();
        question.timeout_ms = Some(millis(TIMEOUT));
        question
    }

    /// Converts the answer to the [`question`](Self::question) to the result of the form. An answer to a confirmation
    /// that is not a clear yes counts as a no.
    fn result(
        &self,
        question: &CallbackRequestParams,
        answer: CallbackAnswer,
    ) -> Result<Payload, RpcError> {
        let is_yes = answer.confirms(question);
        let response = match answer {
            CallbackAnswer::Given(response) => response,
            CallbackAnswer::Declined => {
                return Payload::of(&ElicitResult::new(ElicitAction::Decline));
            }
            _ => return Payload::of(&ElicitResult::new(ElicitAction::Cancel)),
        };
        let text = response.get::<String>();
        let mut content = Object::new();
        match &self.fields[..] {
            [] if !is_yes => {
                return Payload::of(&ElicitResult::new(ElicitAction::Decline));
            }
            [] => {}
            [(name, field)] if field.kind == "boolean" && question.options.is_empty() => {
                content.insert(name.as_str(), Payload::of(&is_yes)?);
            }
            [(name, field)] => {
                let is_number = matches!(field.kind.as_str(), "number" | "integer");
                let number = text.as_ref().ok().filter(|_| is_number);
                let value = number.map(|text| Payload::parse(text.trim())).transpose();
                let value = value.map_err(|_| not_a("a number"))?.unwrap_or(response);
                content.insert(name.as_str(), value);
            }
            _ => {
                let object = text.map_or_else(
                    |_| response.get(),
                    |text| serde_json::from_str(&text).map_err(RpcError::invalid_members),
                );
                content = object.map_err(|_| not_a("a JSON object"))?;
            }
        }
        let mut result = ElicitResult::new(ElicitAction::Accept);
        result.content = Some(Payload::of(&content)?.get()?);
        Payload::of(&result)
    }
}

fn not_a(what: &str) -> RpcError {
    RpcError::invalid_params(format!("the operator's answer to the server's form is not {what}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns the result of a form with these fields to which an operator gives this answer.
    fn result(fields: &Value, answer: &str) -> Value {
        let schema = json!({ "type": "object", "properties": fields });
        let asked = Payload::of(&json!({ "message": "?", "requestedSchema": schema })).unwrap();
        let asked: ElicitParams = asked.get().unwrap();
        let form = Form::read(&asked);
        let question = form.question(asked.message);
        form.result(&question, CallbackAnswer::text(answer)).unwrap().get().unwrap()
    }

    #[test]
    fn only_a_clear_yes_accepts_a_form_without_fields_or_sets_its_boolean() {
        let (none, boolean) = (json!({}), json!({ "go": { "type": "boolean" } }));
        for (answer, is_yes) in
            [("yes", true), ("confirm", true), ("NO", false), ("rather not", false)]
        {
            let action = if is_yes { "accept" } else { "decline" };
            assert_eq!(result(&none, answer)["action"], action, "{answer}");
            assert_eq!(result(&boolean, answer)["content"], json!({ "go": is_yes }), "{answer}");
        }
    }
}
