//! Prints the events of a server at a URL as lines of JSON; after a restart, it continues after the last printed event.
//!
//! `cargo run -q -p mgp-client-sdk --features http --example event_subscriber -- URL POSITION_FILE CHANNEL…`

#![expect(clippy::print_stderr, reason = "it is a program for a terminal")]

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use mgp_client_sdk::{Client, Error, EventCursor, EventStream};
use mgp_types::ErrorCode;
use serde_json::Value;

const RETRY_DELAY: Duration = Duration::from_secs(1);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--").collect();
    let [url, file, channels @ ..] = words.as_slice() else {
        eprintln!("usage: event_subscriber URL POSITION_FILE CHANNEL…");
        return ExitCode::from(2);
    };
    loop {
        match print_events(url, Path::new(file), channels).await {
            Ok(()) => {}
            // Stop: the server would refuse the same request again, e.g. because it keeps no events, or because the
            // subscription in the file has other channels.
            Err(error)
                if matches!(
                    error.code(),
                    ErrorCode::INVALID_PARAMS | ErrorCode::METHOD_NOT_FOUND
                ) =>
            {
                eprintln!("{error}; if the channels changed, remove {file}");
                return ExitCode::FAILURE;
            }
            // Try again, because the server might be restarting. It keeps the events of the subscription until this
            // program connects again.
            Err(error) => eprintln!("{error}; trying again"),
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

async fn print_events(url: &str, file: &Path, channels: &[String]) -> Result<(), Error> {
    let client = Client::builder("event_subscriber", "1.0").connect_url(url).await?;
    let subscription = match read_position(file) {
        // If the server no longer knows the subscription, the client requests it again for these channels.
        Some(cursor) => client.events().resume(cursor).channels(channels),
        None => client.events().subscribe(channels),
    };
    let mut events = subscription.durable().await?;
    write_position(file, &events);
    while let Some(event) = events.next().await {
        let channel = Value::from(event.channel);
        let line = format!("{{\"channel\":{channel},\"data\":{}}}\n", event.data.as_str());
        if io::stdout().write_all(line.as_bytes()).is_err() {
            std::process::exit(0);
        }
        // Write the position after the event was printed. After a crash between the two, the restarted program prints
        // the event again, but loses no event.
        write_position(file, &events);
    }
    Ok(())
}

/// Reads a position: the id of the subscription and the sequence number of the last event.
fn read_position(file: &Path) -> Option<EventCursor> {
    let text = std::fs::read_to_string(file).ok()?;
    let (id, seq) = text.trim().split_once(' ')?;
    Some(EventCursor::new(id, seq.parse().ok()?))
}

fn write_position(file: &Path, events: &EventStream) {
    let cursor = events.cursor();
    let text = format!("{} {}\n", cursor.subscription_id, cursor.after_seq);
    if let Err(error) = replace(file, &text) {
        eprintln!("{}: {error}", file.display());
    }
}

/// Replaces a file as a whole: whenever the program is killed, the file has either the old or the new text.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let mut new = file.as_os_str().to_owned();
    new.push(".tmp");
    std::fs::write(&new, text)?;
    std::fs::rename(&new, file)
}
