//! `mgp events`: shows events of the kernel and its servers (MGP §13).

use std::time::{Duration, SystemTime};

use clap::{Args, value_parser};
use mgp_client_sdk::Client;
use mgp_types::method::KernelEvents;
use mgp_types::mgp::{KernelEventsParams, Severity};
use mgp_types::{Payload, Timestamp};
use serde::{Deserialize, Serialize};

use crate::args::Global;
use crate::exit::CliResult;
use crate::output::{Cell, Color, Output, Render, plural, print, print_note, print_row};
use crate::{control, time_args};

const FOLLOW_INTERVAL: Duration = Duration::from_millis(250);

/// The maximum length of an event's data in the table that `mgp events` prints.
const MAX_DATA: usize = 160;

/// `mgp events`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  mgp events --since 1h\n  mgp events --follow 'tool.*' --severity warning"
)]
pub(crate) struct Events {
    /// Channel or family of channels, e.g. `tool.failed` or `tool.*`
    #[arg(value_name = "PATTERN")]
    pattern: Option<String>,
    /// Keep printing new events; with --json one line each
    #[arg(long, short)]
    follow: bool,
    /// Number of events, at most 1000
    #[arg(long, short = 'n', alias = "limit", value_name = "N", default_value_t = 50, value_parser = value_parser!(u64).range(..=1000))]
    lines: u64,
    /// Lowest severity: info, warning or error
    #[arg(long, value_name = "SEVERITY", value_parser = severity)]
    severity: Option<Severity>,
    /// Only events after this: 1h, 7d, or a timestamp
    #[arg(long, value_name = "TIME", value_parser = time_args::past)]
    since: Option<SystemTime>,
}

/// An event.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct EventRow {
    /// The time.
    timestamp: Timestamp,
    /// The channel of the event.
    channel: String,
    /// The severity that the publisher gave the event.
    severity: Severity,
    /// The data of the event.
    data: Payload,
    /// The server that published the event; absent for an event of the kernel itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server_id: Option<String>,
}

/// Events, oldest first.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct EventTable(Vec<EventRow>);

fn severity(word: &str) -> Result<Severity, String> {
    match Severity::from(word) {
        Severity::Other(_) => Err("use info, warning or error".to_owned()),
        known => Ok(known),
    }
}

impl EventRow {
    fn read(event: &Payload) -> Option<Self> {
        #[derive(Deserialize)]
        struct Origin {
            #[serde(rename = "_mgp")]
            mgp: mgp_types::mgp::NotificationExtension,
        }
        let mut row: Self = event.get().ok()?;
        row.server_id = event.get::<Origin>().ok()?.mgp.server_id;
        Some(row)
    }

    /// Returns the server that published the event. For an event of the kernel, returns the server that the event
    /// concerns.
    fn server(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Subject {
            server_id: String,
        }
        let subject = || Some(self.data.get::<Subject>().ok()?.server_id);
        self.server_id.clone().or_else(subject)
    }

    fn cells(&self) -> [Cell; 5] {
        let color = match self.severity {
            Severity::Error => Color::Red,
            Severity::Warning => Color::Yellow,
            _ => Color::Green,
        };
        [
            (&self.timestamp).into(),
            Cell::from(self.severity.as_str()).color(color),
            self.channel.as_str().into(),
            self.server().into(),
            mgp_types::clip(self.data.as_str(), MAX_DATA).into(),
        ]
    }
}

impl Render for EventTable {
    fn render(&self, out: &mut Output) {
        if self.0.is_empty() {
            return out.line("no matching events since the kernel started");
        }
        let rows = self.0.iter().map(EventRow::cells);
        out.table(["TIME", "SEVERITY", "CHANNEL", "SERVER", "DATA"], rows);
    }
}

pub(crate) async fn run(global: &Global, events: &Events) -> CliResult {
    let client = control::connect(global).await?;
    let mut params = KernelEventsParams::new();
    params.channel.clone_from(&events.pattern);
    params.min_severity.clone_from(&events.severity);
    params.since = events.since.map(Timestamp::from);
    params.limit = Some(events.lines);
    let (mut rows, mut next) = page(global, &client, &params).await?;
    if events.lines == 0 {
        // Drop the event that the kernel returns even for a limit of zero. Only the position after this event is
        // needed.
        rows.clear();
    }
    if !events.follow {
        return print(global, &EventTable(rows));
    }
    print_lines(global, &rows)?;
    params.limit = None;
    loop {
        params.after = Some(next);
        let page = page(global, &client, &params).await;
        let (rows, last) = control::followed(&client, page).await?;
        let is_idle = rows.is_empty();
        print_lines(global, &rows)?;
        next = last;
        if is_idle {
            tokio::time::sleep(FOLLOW_INTERVAL).await;
        }
    }
}

/// Returns a page of events and the position after it. Prints a note if events came too fast to be kept.
async fn page(
    global: &Global,
    client: &Client,
    params: &KernelEventsParams,
) -> CliResult<(Vec<EventRow>, u64)> {
    let page = client.request::<KernelEvents>(params).await.map_err(control::request_failure)?;
    if let Some(dropped) = page.dropped {
        let lost = plural(dropped, "event");
        print_note(global, &format!("mgp: {lost} came too fast to be shown"));
    }
    Ok((page.events.iter().filter_map(EventRow::read).collect(), page.next))
}

fn print_lines(global: &Global, rows: &[EventRow]) -> CliResult {
    rows.iter().try_for_each(|row| print_row(global, row, row.cells()))
}
