//! Drives a server over its standard input and output.
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
    process::{ChildStdin, ChildStdout},
    sync::mpsc::UnboundedReceiver,
};

/// Runs the warm-up and the measured part.
pub(crate) async fn stdio(o: &Options) -> Res<()> {
    let g = Requests::new(o);
    let (n, depth) = (o.number("n", 10_000), o.number("depth", 1));
    let warm = o.number("warmup", (n / 10).min(2000));
    let t0 = Instant::now();
    let mut ch = tokio::process::Command::new(&o.rest[0])
        .args(&o.rest[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(if o.has("stderr") {
            Stdio::from(std::fs::File::create(o.text("stderr", ""))?)
        } else {
            Stdio::null()
        })
        .kill_on_drop(true)
        .spawn()?;
    let pid = ch.id().unwrap() as i32;
    let mut tx = ch.stdin.take().unwrap();
    let mut rx = ch.stdout.take().unwrap();
    // Bytes received, where the current line starts, and how far it was searched.
    let mut buf: Vec<u8> = Vec::with_capacity(1 << 20);
    let limit = Duration::from_secs(o.number("startup-timeout", 60) as u64);
    let mut start =
        tokio::time::timeout(limit, handshake(&g, &mut tx, &mut rx, &mut buf)).await??;
    let mut scanned = start;
    let start_ms = t0.elapsed().as_secs_f64() * 1e3;
    if !g.modern {
        tx.write_all(INITIALIZED.as_bytes()).await?;
        tx.write_all(b"\n").await?;
    }

    let total = n + warm;
    // When each request was written; one thread, so the lock is never waited for.
    let stamps = Arc::new(Mutex::new(vec![Instant::now(); total + 1]));
    let (ctx, crx) = tokio::sync::mpsc::unbounded_channel::<Vec<u8>>();
    let (gtx, grx) = tokio::sync::mpsc::unbounded_channel::<usize>();
    let g = Arc::new(g);
    let queues = Queues { raw: crx, credit: grx };
    let writer = tokio::spawn(write_requests(tx, queues, g.clone(), stamps.clone(), total));
    let mut st = Figures { latencies: Vec::with_capacity(n), ..Default::default() };
    let mut acct = Account::start(&[pid], o.has("alone"));
    let mut tstart = Instant::now();
    let mut done = 0usize;
    let mut granted = depth.min(if warm > 0 { warm } else { total });
    gtx.send(granted).ok();
    let lim = Duration::from_secs(o.number("timeout", 300) as u64);
    'o: loop {
        if start == buf.len() {
            buf.clear();
            start = 0;
            scanned = 0;
        } else if start > (1 << 19) {
            buf.drain(..start);
            scanned -= start;
            start = 0;
        }
        if buf.capacity() - buf.len() < (1 << 16) {
            buf.reserve(1 << 18);
        }
        let k = tokio::time::timeout(lim, rx.read_buf(&mut buf)).await??;
        if k == 0 {
            return Err(format!("server closed stdout after {done} replies").into());
        }
        let mut credit = 0usize;
        while let Some(p) = memchr::memchr(b'\n', &buf[scanned..]) {
            let line = &buf[start..scanned + p];
            if !line.is_empty() {
                let m: Message = match serde_json::from_slice(line) {
                    Ok(m) => m,
                    Err(e) => {
                        st.bad += 1;
                        st.first_error.get_or_insert(format!(
                            "unparsable: {e}: {}",
                            String::from_utf8_lossy(&line[..line.len().min(200)])
                        ));
                        scanned += p + 1;
                        start = scanned;
                        continue;
                    }
                };
                if m.method.is_some() {
                    if m.id.is_some() || memchr::memmem::find(line, b"\"id\"").is_some() {
                        let v: Value = serde_json::from_slice(line)?;
                        let mut r = serde_json::to_vec(
                            &json!({"jsonrpc":"2.0","id":v["id"],"result":if v["method"]=="roots/list"{json!({"roots":[]})}else{json!({})}}),
                        )?;
                        r.push(b'\n');
                        ctx.send(r).ok();
                    }
                } else if let Some(id) = m.id {
                    let now = Instant::now();
                    done += 1;
                    credit += 1;
                    if done > warm {
                        st.latencies.push(
                            now.duration_since(stamps.lock().unwrap()[id as usize])
                                .as_nanos()
                                .min(u32::MAX as u128) as u32,
                        );
                        st.bytes += line.len() as u64;
                    }
                    match (m.result, m.error) {
                        (Some(r), None) => {
                            if !g.ok(id, r.get().as_bytes())
                                || (done == 1
                                    && memchr::memmem::find(
                                        r.get().as_bytes(),
                                        b"\"isError\":true",
                                    )
                                    .is_some())
                            {
                                st.bad += 1;
                                st.first_error.get_or_insert(format!("bad reply: {}", r.get()));
                            }
                        }
                        (_, e) => {
                            st.errors += 1;
                            st.first_error
                                .get_or_insert(e.map(|e| e.get().to_string()).unwrap_or_default());
                        }
                    }
                    if done == warm {
                        // all warm-up replies in: start the measured part
                        acct = Account::start(&[pid], o.has("alone"));
                        tstart = Instant::now();
                        let k = depth.min(n);
                        granted += k;
                        gtx.send(k).ok();
                        credit = 0;
                    } else if done >= total {
                        break 'o;
                    }
                }
            }
            scanned += p + 1;
            start = scanned;
        }
        scanned = buf.len();
        let cap = if done < warm { warm } else { total };
        let c = credit.min(cap - granted.min(cap));
        if c > 0 {
            granted += c;
            gtx.send(c).ok();
        }
    }
    let wall = tstart.elapsed().as_secs_f64();
    report(o, &g, depth, st, wall, &acct, start_ms, json!({}));
    drop(gtx);
    drop(ctx);
    let _ = writer.await; // closes stdin
    if tokio::time::timeout(Duration::from_secs(o.number("exit-grace", 20) as u64), ch.wait())
        .await
        .is_err()
    {
        ch.start_kill().ok();
        let _ = ch.wait().await;
    }
    Ok(())
}

/// Sends the first request and reads up to its reply; returns where the next line starts.
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

/// What the reader asks of the writer.
struct Queues {
    /// Finished lines: replies to the server's own requests.
    raw: UnboundedReceiver<Vec<u8>>,
    /// How many more requests may be in flight.
    credit: UnboundedReceiver<usize>,
}

/// Writes requests as credit arrives, many in one write.
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
