//! Copies stdin to stdout in upper case, for the tests of the stdio channel.
//!
//! It uses the stdio transport of MGP §2, without JSON. It prints the kinds of its file descriptors to stderr, and with
//! `println!` one stray line that must not reach the transport. It exits at the end of its input. After the line
//! `quit`, it exits without dropping its reader first.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "stray prints are what is tested")]

use mgp_transport::{StdioError, take_stdio};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (reader, mut writer) = take_stdio()?;
    eprintln!("stdin={:?} stdout={:?}", reader.kind(), writer.kind());
    println!("stray");
    if !matches!(take_stdio(), Err(StdioError::AlreadyTaken)) {
        return Err("stdin and stdout were taken twice".into());
    }

    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).await? == 0 {
            break;
        }
        line.make_ascii_uppercase();
        writer.write_all(&line).await?;
        writer.flush().await?;
        if line == b"QUIT\n" {
            return Ok(());
        }
    }
    writer.shutdown().await?;
    Ok(())
}
