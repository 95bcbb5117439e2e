//! The log as JSON, one object on each line, for programs that collect logs.

use std::error::Error;
use std::fmt;
use std::iter::successors;

use mgp_types::{Timestamp, clip};
use serde::Serialize;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::Record;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, Scope, SpanRef};

use super::{MAX_PIPE_WRITE, SERVER_TARGET};
use crate::escape::safe_json;
use crate::state_option;

/// The target of lines that do not pass through `tracing`.
const OWN_TARGET: &str = "mgp";

/// A line of the log.
#[derive(Debug, Serialize)]
struct JsonLine<'a> {
    timestamp: Timestamp,
    level: &'static str,
    target: &'a str,
    message: String,
    #[serde(skip_serializing_if = "Map::is_empty")]
    fields: Map<String, Value>,
    /// The spans in which the event occurred, outermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    spans: Vec<JsonSpan>,
    /// `true` if texts are shortened.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

#[derive(Debug, Serialize)]
struct JsonSpan {
    name: &'static str,
    #[serde(skip_serializing_if = "Map::is_empty")]
    fields: Map<String, Value>,
}

/// Returns a line without fields.
pub(super) fn line(level: Level, message: &str) -> String {
    let recorded = RecordedFields { message: message.to_owned(), fields: Map::new() };
    JsonLine::new(level, OWN_TARGET, recorded).into_text()
}

impl<'a> JsonLine<'a> {
    /// Creates a line. Commands of `mgp` in its texts get the option `--state` of this process, unless a server has
    /// written the line.
    fn new(level: Level, target: &'a str, recorded: RecordedFields) -> Self {
        let shown = |text: String| match target {
            SERVER_TARGET => text,
            _ => state_option::add_to(&text).into_owned(),
        };
        let fields = recorded.fields.into_iter().map(|(name, value)| match value {
            Value::String(text) => (name, shown(text).into()),
            other => (name, other),
        });
        Self {
            timestamp: Timestamp::now(),
            level: level.as_str(),
            target,
            fields: fields.collect(),
            message: shown(recorded.message),
            spans: Vec::new(),
            truncated: false,
        }
    }

    /// Returns the line as JSON with a line break. Shortens its texts until one write to a pipe accepts it.
    fn into_text(mut self) -> String {
        let mut max = MAX_PIPE_WRITE / 2;
        loop {
            let json = serde_json::to_string(&self).unwrap_or_default();
            let text = safe_json(&json) + "\n";
            if text.len() <= MAX_PIPE_WRITE || max == 0 {
                return text;
            }
            self.shorten(max);
            max /= 2;
        }
    }

    fn shorten(&mut self, max: usize) {
        self.truncated = true;
        self.message = clip(&self.message, max);
        let of_spans = self.spans.iter_mut().map(|span| &mut span.fields);
        for value in of_spans.chain([&mut self.fields]).flat_map(Map::values_mut) {
            if let Value::String(text) = value {
                *text = clip(text, max / 4);
            }
        }
    }
}

/// The formatter of events.
pub(super) struct JsonEvents;

impl<S, N> FormatEvent<S, N> for JsonEvents
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut recorded = RecordedFields::default();
        event.record(&mut recorded);
        let metadata = event.metadata();
        let mut line = JsonLine::new(*metadata.level(), metadata.target(), recorded);
        let fields = |span: &SpanRef<'_, S>| {
            let extensions = span.extensions();
            let stored = extensions.get::<FormattedFields<N>>();
            stored.map(|stored| parsed(&stored.fields)).unwrap_or_default()
        };
        let spans = context.event_scope().into_iter().flat_map(Scope::from_root);
        line.spans =
            spans.map(|span| JsonSpan { name: span.name(), fields: fields(&span) }).collect();
        writer.write_str(&line.into_text())
    }
}

/// The formatter of the fields of spans, which are stored as JSON.
pub(super) struct JsonFields;

impl<'writer> FormatFields<'writer> for JsonFields {
    fn format_fields<R: RecordFields>(
        &self,
        mut writer: Writer<'writer>,
        fields: R,
    ) -> fmt::Result {
        let mut recorded = RecordedFields::default();
        fields.record(&mut recorded);
        writer.write_str(&recorded.to_json()?)
    }

    fn add_fields(
        &self,
        current: &'writer mut FormattedFields<Self>,
        fields: &Record<'_>,
    ) -> fmt::Result {
        let mut recorded =
            RecordedFields { message: String::new(), fields: parsed(&current.fields) };
        fields.record(&mut recorded);
        current.fields = recorded.to_json()?;
        Ok(())
    }
}

/// Returns the stored fields of a span.
fn parsed(json: &str) -> Map<String, Value> {
    serde_json::from_str(json).unwrap_or_default()
}

/// The message and the other fields of an event or a span.
#[derive(Debug, Default)]
struct RecordedFields {
    message: String,
    fields: Map<String, Value>,
}

impl RecordedFields {
    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        match (field.name(), value.into()) {
            ("message", Value::String(text)) => self.message = text,
            (name, value) => {
                let name = name.strip_prefix("r#").unwrap_or(name);
                self.fields.insert(name.to_owned(), value);
            }
        }
    }

    fn to_json(&self) -> Result<String, fmt::Error> {
        serde_json::to_string(&self.fields).map_err(|_| fmt::Error)
    }
}

impl Visit for RecordedFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value);
    }

    fn record_error(&mut self, field: &Field, error: &(dyn Error + 'static)) {
        self.add(field, error.to_string());
        let sources = successors(error.source(), |&source| source.source());
        let sources: Vec<String> = sources.map(ToString::to_string).collect();
        if !sources.is_empty() {
            self.fields.insert(format!("{}.sources", field.name()), sources.join("; ").into());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::Arc;

    use mgp_types::sync::Mutex;

    use super::*;

    /// A writer that keeps what is written.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(text);
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the lines that are logged while `work` runs.
    fn logged(work: impl FnOnce()) -> Vec<Value> {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .fmt_fields(JsonFields)
            .event_format(JsonEvents)
            .finish();
        tracing::subscriber::with_default(subscriber, work);
        let text = String::from_utf8(written.0.lock().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_line_has_the_fields_of_its_event_and_of_its_spans() {
        let lines = logged(|| {
            let call = tracing::info_span!("call", tool = "a.b", agent = tracing::field::Empty);
            call.record("agent", "ada");
            let _entered = call.entered();
            let name = "\"b\"";
            tracing::info!(target: "x::y", attempt = 2, late = true, why = %"a\nb", "retry {name}");
        });
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["target"], "x::y");
        assert_eq!(line["message"], "retry \"b\"");
        let expected = serde_json::json!({"attempt": 2, "late": true, "why": "a\nb"});
        assert_eq!(line["fields"], expected);
        let span = serde_json::json!({"name": "call", "fields": {"tool": "a.b", "agent": "ada"}});
        assert_eq!(line["spans"], Value::from(vec![span]));
        let time = Timestamp::from(line["timestamp"].as_str().unwrap());
        assert!(time.to_system_time().is_some(), "{line}");
        assert_eq!(line.get("truncated"), None);
    }

    #[test]
    fn a_line_that_is_too_long_for_a_pipe_is_still_json() {
        for text in ["é", "\u{9b}", "\\\"", "\u{1}"].map(|text| text.repeat(MAX_PIPE_WRITE)) {
            let line = line(Level::ERROR, &text);
            assert!(line.len() <= MAX_PIPE_WRITE && line.ends_with("}\n"), "{}", line.len());
            assert_eq!(line.lines().count(), 1);
            let parsed: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(parsed["truncated"], true);
            assert_eq!(parsed["target"], "mgp");
            assert!(!line.contains(|c: char| mgp_types::is_hidden(c) && c != '\n'), "{line}");
        }
    }
}
