//! The mode `stdio`: starts a server and sends calls to it over its standard input and output.
use crate::{
    Res,
    account::Account,
    message::{INITIALIZED, Message, Requests},
    options::Options,
    report::{Figures, report},
};
use serde_json::{Value, json};
use std::{
    process::Stdio,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdin, ChildStdout},
    sync::mpsc::{UnboundedReceiver, UnboundedSender},
};

/// Starts the server, makes the warm-up calls and the measured calls, and prints the report.
pub(crate) async fn stdio(o: &Options) -> Res<()> {
    let g = Requests::new(o);
    let (n, depth) = (o.number("n", 10_000), o.number("depth", 1));
    let warm = o.number("warmup", (n / 10).min(2000));
    let t0 = Instant::now();
    let mut ch = spawn(o, Stdio::piped(), Stdio::piped())?;
    let pid = ch.id().unwrap() as i32;
    let mut tx = ch.stdin.take().unwrap();
    let mut rx = ch.stdout.take().unwrap();
    let mut input = Input { buf: Vec::with_capacity(1 << 20), start: 0, scanned: 0 };
    let limit = Duration::from_secs(o.number("startup-timeout", 60) as u64);
    input.start =
        tokio::time::timeout(limit, handshake(&g, &mut tx, &mut rx, &mut input.buf)).await??;
    input.scanned = input.start;
    let start_ms = t0.elapsed().as_secs_f64() * 1e3;
    if !g.modern {
        tx.write_all(INITIALIZED.as_bytes()).await?;
        tx.write_all(b"\n").await?;
    }

    let total = n + warm;
    // The time at which each request was written. All tasks run on one thread, so no task ever waits for the lock.
    let stamps = Arc::new(Mutex::new(vec![Instant::now(); total + 1]));
    let (raw, raw_queue) = tokio::sync::mpsc::unbounded_channel::<Vec<u8>>();
    let (credit, credit_queue) = tokio::sync::mpsc::unbounded_channel::<usize>();
    let g = Arc::new(g);
    let queues = Queues { raw: raw_queue, credit: credit_queue };
    let writer = tokio::spawn(write_requests(tx, queues, g.clone(), stamps.clone(), total));
    let mut run = Run {
        g: g.clone(),
        stamps,
        raw,
        credit,
        figures: Figures { latencies: Vec::with_capacity(n), ..Default::default() },
        start: (Account::start(&[pid], o.has("alone")), Instant::now()),
        counts: Counts { warm, total, depth, done: 0, granted: 0, earned: 0 },
        measured: (pid, o.has("alone")),
    };
    run.grant(depth.min(if warm > 0 { warm } else { total }));
    let lim = Duration::from_secs(o.number("timeout", 300) as u64);
    while run.counts.done < total {
        input.make_room();
        let k = tokio::time::timeout(lim, rx.read_buf(&mut input.buf)).await??;
        if k == 0 {
            return Err(format!("server closed stdout after {} replies", run.counts.done).into());
        }
        run.take_lines(&mut input)?;
    }
    let Run { figures, start: (acct, since), raw, credit, .. } = run;
    let wall = since.elapsed().as_secs_f64();
    report(o, &g, depth, figures, wall, &acct, start_ms, json!({}));
    drop((raw, credit));
    let _ = writer.await; // the writer ends, and closes the server's standard input
    end(o, &mut ch, 20).await;
    Ok(())
}

/// Starts the server that the command line names, with the given standard input and output.
pub(crate) fn spawn(o: &Options, input: Stdio, output: Stdio) -> Res<Child> {
    let program = o.rest.first().ok_or("a server command is missing")?;
    let mut command = tokio::process::Command::new(program);
    command.args(&o.rest[1..]).stdin(input).stdout(output).stderr(Stdio::null());
    Ok(command.kill_on_drop(true).spawn()?)
}

/// Waits until the server exits. Kills it after `--exit-grace` seconds, or after `grace` seconds without this option.
pub(crate) async fn end(o: &Options, ch: &mut Child, grace: usize) {
    let grace = Duration::from_secs(o.number("exit-grace", grace) as u64);
    if tokio::time::timeout(grace, ch.wait()).await.is_err() {
        ch.start_kill().ok();
        let _ = ch.wait().await;
    }
}

/// The bytes received from the server. The current line begins at `start`; its bytes before `scanned` contain no
/// newline.
struct Input {
    buf: Vec<u8>,
    start: usize,
    scanned: usize,
}

impl Input {
    /// Removes processed lines, and makes room for the next read.
    fn make_room(&mut self) {
        if self.start == self.buf.len() {
            self.buf.clear();
            self.start = 0;
            self.scanned = 0;
        } else if self.start > (1 << 19) {
            self.buf.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
        }
        if self.buf.capacity() - self.buf.len() < (1 << 16) {
            self.buf.reserve(1 << 18);
        }
    }
}

/// The numbers of planned, sent and answered requests of a run.
struct Counts {
    warm: usize,
    total: usize,
    depth: usize,
    /// The number of requests that were answered.
    done: usize,
    /// The number of requests that the writer was allowed to send so far.
    granted: usize,
    /// The number of further requests that the writer is allowed to send: one for each reply in the bytes just read.
    earned: usize,
}

/// The reader of a run. It counts replies, and allows the writer to send new requests.
struct Run {
    g: Arc<Requests>,
    stamps: Arc<Mutex<Vec<Instant>>>,
    raw: UnboundedSender<Vec<u8>>,
    credit: UnboundedSender<usize>,
    figures: Figures,
    /// The counters of the process, and the time, at the beginning of the measured part.
    start: (Account, Instant),
    counts: Counts,
    /// The process id of the server, and whether its child processes are left out of the measurement (`--alone`).
    measured: (i32, bool),
}

impl Run {
    fn grant(&mut self, count: usize) {
        self.counts.granted += count;
        self.credit.send(count).ok();
    }

    /// Processes the complete lines of the input, and allows one new request for each reply among them.
    fn take_lines(&mut self, input: &mut Input) -> Res<()> {
        self.counts.earned = 0;
        while let Some(p) = memchr::memchr(b'\n', &input.buf[input.scanned..]) {
            let line = &input.buf[input.start..input.scanned + p];
            if !line.is_empty() {
                self.take_line(line)?;
                if self.counts.done >= self.counts.total {
                    return Ok(());
                }
            }
            input.scanned += p + 1;
            input.start = input.scanned;
        }
        input.scanned = input.buf.len();
        let Counts { done, warm, total, granted, earned, .. } = self.counts;
        let cap = if done < warm { warm } else { total };
        let count = earned.min(cap - granted.min(cap));
        if count > 0 {
            self.grant(count);
        }
        Ok(())
    }

    fn take_line(&mut self, line: &[u8]) -> Res<()> {
        let m: Message = match serde_json::from_slice(line) {
            Ok(m) => m,
            Err(e) => {
                self.figures.bad += 1;
                let text = String::from_utf8_lossy(&line[..line.len().min(200)]);
                self.figures.first_error.get_or_insert(format!("unparsable: {e}: {text}"));
                return Ok(());
            }
        };
        if m.method.is_some() {
            if m.id.is_some() || memchr::memmem::find(line, b"\"id\"").is_some() {
                self.reply(serde_json::from_slice(line)?)?;
            }
        } else if let Some(id) = m.id {
            self.take_reply(id, &m, line.len());
        }
        Ok(())
    }

    /// Replies to a request of the server, such as `ping` or `roots/list`.
    fn reply(&self, v: Value) -> Res<()> {
        let result = if v["method"] == "roots/list" { json!({"roots": []}) } else { json!({}) };
        let mut r =
            serde_json::to_vec(&json!({"jsonrpc": "2.0", "id": v["id"], "result": result}))?;
        r.push(b'\n');
        self.raw.send(r).ok();
        Ok(())
    }

    fn take_reply(&mut self, id: u64, m: &Message, length: usize) {
        let now = Instant::now();
        let (st, counts) = (&mut self.figures, &mut self.counts);
        counts.done += 1;
        counts.earned += 1;
        if counts.done > counts.warm {
            let took = now.duration_since(self.stamps.lock().unwrap()[id as usize]);
            st.latencies.push(took.as_nanos().min(u32::MAX as u128) as u32);
            st.bytes += length as u64;
        }
        match (m.result, m.error) {
            (Some(r), None) => {
                let bytes = r.get().as_bytes();
                let is_error = || memchr::memmem::find(bytes, b"\"isError\":true").is_some();
                if !self.g.ok(id, bytes) || (counts.done == 1 && is_error()) {
                    st.bad += 1;
                    st.first_error.get_or_insert(format!("bad reply: {}", r.get()));
                }
            }
            (_, e) => {
                st.errors += 1;
                st.first_error.get_or_insert(e.map(|e| e.get().to_string()).unwrap_or_default());
            }
        }
        if counts.done == counts.warm {
            // All warm-up replies have arrived, so the measured part of the run begins.
            let (pid, alone) = self.measured;
            let first = counts.depth.min(counts.total - counts.warm);
            counts.earned = 0;
            self.start = (Account::start(&[pid], alone), Instant::now());
            self.grant(first);
        }
    }
}

/// Sends the first request and reads until its reply; returns the position in `buf` of the line after the reply.
async fn handshake(
    g: &Requests,
    tx: &mut ChildStdin,
    rx: &mut ChildStdout,
    buf: &mut Vec<u8>,
) -> Res<usize> {
    let mut init = g.init(0);
    init.push(b'\n');
    tx.write_all(&init).await?;
    let mut start = 0;
    loop {
        while let Some(p) = memchr::memchr(b'\n', &buf[start..]) {
            let line = &buf[start..start + p];
            start += p + 1;
            if let Ok(Message { id: Some(0), method: None, error, .. }) =
                serde_json::from_slice(line)
            {
                return match error {
                    Some(e) => Err(format!("initialize error {}", e.get()).into()),
                    None => Ok(start),
                };
            }
        }
        if rx.read_buf(buf).await? == 0 {
            return Err("server closed stdout before initialize reply".into());
        }
    }
}

/// The channels from the reader to the writer.
struct Queues {
    /// Lines to write unchanged: replies to the server's own requests.
    raw: UnboundedReceiver<Vec<u8>>,
    /// Numbers of further requests that the writer is allowed to send.
    credit: UnboundedReceiver<usize>,
}

/// Writes requests while the reader allows more. Combines many requests into one write.
async fn write_requests(
    mut tx: ChildStdin,
    mut queues: Queues,
    g: Arc<Requests>,
    stamps: Arc<Mutex<Vec<Instant>>>,
    total: usize,
) {
    let (mut next, mut end) = (1usize, 0usize);
    let mut out: Vec<u8> = Vec::with_capacity(1 << 20);
    loop {
        let mut credit;
        tokio::select! { biased;
            Some(raw) = queues.raw.recv() => {
                if tx.write_all(&raw).await.is_err() { return; }
                continue;
            }
            more = queues.credit.recv() => match more { Some(c) => credit = c, None => return },
        }
        while let Ok(c) = queues.credit.try_recv() {
            credit += c;
        }
        end = (end + credit).min(total);
        while next <= end {
            out.clear();
            while next <= end && out.len() < (1 << 18) {
                g.write(next as u64, &mut out);
                out.push(b'\n');
                stamps.lock().unwrap()[next] = Instant::now();
                next += 1;
            }
            if tx.write_all(&out).await.is_err() {
                return;
            }
        }
    }
}
