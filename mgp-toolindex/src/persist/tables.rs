//! The tables of the index, with all SQL statements.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::{io, mem, thread};

use mgp_types::store::StoreError;
use mgp_types::store::sql::types::ValueRef;
use mgp_types::store::sql::{Connection, OptionalExtension as _, Row, Statement, params};

use super::queue::Change;
use super::rows::{
    LoadedIndex, LoadedServer, LoadedTool, LoadedVector, NewSegments, NewServer, NewTool,
    NewVector, ServerRow, WriteMode,
};
use crate::catalog::{IndexedTool, SecuritySource};

/// The number of stored tools that are passed to the parser thread in one batch.
const BATCH: usize = 256;
/// The maximum number of batches that wait for the parser thread.
const MAX_WAITING_BATCHES: usize = 4;

pub(super) const NAMESPACE: &str = "toolindex";

/// The migrations of the database schema, in order.
///
/// In each table, short columns come first, so that a comparison of hashes does not read the long columns.
pub(super) const STEPS: &[&str] = &[
    "
    CREATE TABLE toolindex_server (
        id TEXT PRIMARY KEY, name TEXT, description TEXT, categories TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE toolindex_tool (
        number INTEGER PRIMARY KEY, server TEXT NOT NULL, name TEXT NOT NULL,
        hash BLOB NOT NULL, place INTEGER NOT NULL, tokens INTEGER,
        categories TEXT NOT NULL, keywords TEXT NOT NULL, security TEXT,
        definition TEXT NOT NULL, UNIQUE (server, name)
    );
    CREATE TABLE toolindex_vector (
        tool INTEGER PRIMARY KEY, hash BLOB NOT NULL, model TEXT NOT NULL, row BLOB NOT NULL
    );
",
    "
    CREATE TABLE toolindex_words (
        number INTEGER PRIMARY KEY, key TEXT NOT NULL, part BLOB NOT NULL
    );
",
];

// === writing ===

/// Writes changes to the database, in order.
pub(super) fn apply(conn: &Connection, changes: &[Change]) -> Result<(), StoreError> {
    let mut tables = Statements::new(conn)?;
    for change in changes {
        match change {
            Change::Put(new) => tables.put(new)?,
            Change::Remove(id) => tables.remove(id)?,
            Change::Vectors(vectors) => {
                vectors.iter().try_for_each(|vector| tables.put_vector(vector))?;
            }
            Change::Counts(tools) => tools.iter().try_for_each(|tool| tables.count(tool))?,
            Change::Segments(words) => put_words(conn, words)?,
        }
    }
    Ok(())
}

/// The prepared statements that write to the tables.
struct Statements<'c> {
    put_server: Statement<'c>,
    known: Statement<'c>,
    number: Statement<'c>,
    put_tool: Statement<'c>,
    move_tool: Statement<'c>,
    count: Statement<'c>,
    put_vector: Statement<'c>,
    remove_tool: [Statement<'c>; 2],
    remove_server: [Statement<'c>; 3],
}

impl<'c> Statements<'c> {
    fn new(conn: &'c Connection) -> Result<Self, StoreError> {
        let vectors_of_server = "DELETE FROM toolindex_vector
            WHERE tool IN (SELECT number FROM toolindex_tool WHERE server = ?1)";
        Ok(Self {
            put_server: conn
                .prepare("INSERT OR REPLACE INTO toolindex_server VALUES (?1, ?2, ?3, ?4)")?,
            known: conn
                .prepare("SELECT name, number, hash FROM toolindex_tool WHERE server = ?1")?,
            number: conn.prepare(
                "SELECT number FROM toolindex_tool WHERE server = ?1 AND name = ?2 AND hash = ?3",
            )?,
            put_tool: conn.prepare(
                "INSERT OR REPLACE INTO toolindex_tool
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?,
            move_tool: conn.prepare(
                "UPDATE toolindex_tool SET place = ?2, tokens = ifnull(?3, tokens)
                 WHERE number = ?1 AND (place <> ?2 OR tokens IS NOT ifnull(?3, tokens))",
            )?,
            count: conn.prepare("UPDATE toolindex_tool SET tokens = ?2 WHERE number = ?1")?,
            put_vector: conn
                .prepare("INSERT OR REPLACE INTO toolindex_vector VALUES (?1, ?2, ?3, ?4)")?,
            remove_tool: [
                conn.prepare("DELETE FROM toolindex_vector WHERE tool = ?1")?,
                conn.prepare("DELETE FROM toolindex_tool WHERE number = ?1")?,
            ],
            remove_server: [
                conn.prepare(vectors_of_server)?,
                conn.prepare("DELETE FROM toolindex_tool WHERE server = ?1")?,
                conn.prepare("DELETE FROM toolindex_server WHERE id = ?1")?,
            ],
        })
    }

    fn put(&mut self, new: &NewServer) -> Result<(), StoreError> {
        let ServerRow { id, name, description, categories } = &new.server;
        self.put_server.execute(params![id, name, description, json(categories)?])?;
        let mut known = self.known(id)?;
        for tool in &new.tools {
            match known.remove(tool.tool.name()) {
                Some((number, hash))
                    if tool.mode == WriteMode::IfChanged && hash == tool.tool.hash() =>
                {
                    self.move_tool.execute(params![number, tool.slot, counted(&tool.tool)])?;
                }
                known => self.put_tool(id, tool, known.map(|(number, _)| number))?,
            }
        }
        for (number, _) in known.into_values() {
            self.remove_tool(number)?;
        }
        Ok(())
    }

    /// Returns the row number and the hash of each stored tool of a server, by name.
    fn known(&mut self, server: &str) -> Result<HashMap<String, (i64, Vec<u8>)>, StoreError> {
        let mut known = HashMap::new();
        let mut unnamed = Vec::new();
        let mut rows = self.known.query([server])?;
        while let Some(row) = rows.next()? {
            let number = row.get(1)?;
            // Remove rows with a damaged name; a tool that still exists is written again.
            let Some(name) = text(row, 0) else {
                unnamed.push(number);
                continue;
            };
            known.insert(name, (number, bytes(row, 2).unwrap_or_default().to_vec()));
        }
        drop(rows);
        unnamed.into_iter().try_for_each(|number| self.remove_tool(number))?;
        Ok(known)
    }

    fn put_tool(
        &mut self,
        server: &str,
        new: &NewTool,
        number: Option<i64>,
    ) -> Result<(), StoreError> {
        let tool = &new.tool;
        let security_source =
            tool.security().filter(|_| tool.0.security_source == SecuritySource::Kernel);
        let security = security_source.map(json).transpose()?;
        self.put_tool.execute(params![
            number,
            server,
            tool.name(),
            &tool.hash()[..],
            new.slot,
            counted(tool),
            json(&new.categories)?,
            json(&new.keywords)?,
            security,
            &**tool.definition(),
        ])?;
        Ok(())
    }

    fn put_vector(&mut self, vector: &NewVector) -> Result<(), StoreError> {
        let Some(number) = self.number(&vector.tool)? else { return Ok(()) };
        let row: Vec<u8> = vector.row.iter().map(|byte| byte.cast_unsigned()).collect();
        let hash = &vector.tool.hash()[..];
        self.put_vector.execute(params![number, hash, &*vector.model, row])?;
        Ok(())
    }

    fn count(&mut self, tool: &IndexedTool) -> Result<(), StoreError> {
        if let Some(number) = self.number(tool)? {
            self.count.execute(params![number, counted(tool)])?;
        }
        Ok(())
    }

    /// Returns the row number of a tool; `None` if the file does not contain it with the same hash.
    fn number(&mut self, tool: &IndexedTool) -> Result<Option<i64>, StoreError> {
        let known = params![tool.server_id(), tool.name(), &tool.hash()[..]];
        Ok(self.number.query_row(known, |row| row.get(0)).optional()?)
    }

    fn remove(&mut self, id: &str) -> Result<(), StoreError> {
        for statement in &mut self.remove_server {
            statement.execute([id])?;
        }
        Ok(())
    }

    fn remove_tool(&mut self, number: i64) -> Result<(), StoreError> {
        for statement in &mut self.remove_tool {
            statement.execute([number])?;
        }
        Ok(())
    }
}

/// Returns the stored form of a tool's exact token count, which includes a checksum of the count and the tool's hash;
/// `None` if the count is not exact.
fn counted(tool: &IndexedTool) -> Option<i64> {
    tool.0.is_counted().then(|| checked(tool.0.tokens(), tool.hash()))
}

fn checked(tokens: u32, hash: &[u8; 16]) -> i64 {
    let [.., a, b, c, d] = *hash;
    let mixed = (tokens ^ u32::from_le_bytes([a, b, c, d])).wrapping_mul(0x9e37_79b1);
    i64::from(mixed >> 1) << 32 | i64::from(tokens)
}

/// Returns a stored token count; `None` if its checksum is wrong, so that the tool is counted again.
fn tokens(kept: i64, hash: &[u8; 16]) -> Option<u32> {
    let tokens = u32::try_from(kept & i64::from(u32::MAX)).ok()?;
    (checked(tokens, hash) == kept).then_some(tokens)
}

/// Replaces the stored segments of the keyword index.
fn put_words(conn: &Connection, words: &NewSegments) -> Result<(), StoreError> {
    conn.execute("DELETE FROM toolindex_words", [])?;
    let mut put = conn.prepare("INSERT INTO toolindex_words (key, part) VALUES (?1, ?2)")?;
    for part in (words.make)() {
        put.execute(params![words.key, part])?;
    }
    Ok(())
}

fn json(value: &(impl serde::Serialize + ?Sized)) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(StoreError::failed)
}

// === reading ===

/// Reads the tables that the first `steps` migrations in [`STEPS`] created (at least one). Counts and skips damaged
/// rows.
pub(super) fn load(conn: &Connection, steps: usize) -> Result<LoadedIndex, StoreError> {
    let words = if steps < 2 { Vec::new() } else { read_words(conn)? };
    let mut opened = LoadedIndex { words, ..LoadedIndex::default() };
    let mut places = HashMap::new();
    let mut asked =
        conn.prepare("SELECT id, name, description, categories FROM toolindex_server")?;
    let mut rows = asked.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(server) = read_server(row) {
            places.insert(server.id.clone(), opened.servers.len());
            opened.servers.push(LoadedServer { server, tools: Vec::new() });
        } else {
            opened.unreadable += 1;
        }
    }
    let mut asked = conn.prepare(
        "SELECT t.server, t.hash, t.place, t.tokens, t.categories, t.keywords,
                t.security, t.definition, v.hash, v.model, v.row
         FROM toolindex_tool t LEFT JOIN toolindex_vector v ON v.tool = t.number",
    )?;
    let mut rows = asked.query([])?;
    let mut models = Models::default();
    // Parse definitions on another thread while further rows are read, because both take about the same time.
    let read = thread::scope(|scope| {
        let (give, given) = sync_channel::<Vec<(usize, LoadedTool)>>(MAX_WAITING_BATCHES);
        let parser = thread::Builder::new().name("mgp-index-parse".to_owned());
        let parser =
            parser.spawn_scoped(scope, move || parse(given)).map_err(StoreError::failed)?;
        let (mut batch, mut unreadable) = (Vec::with_capacity(BATCH), 0);
        while let Some(row) = rows.next()? {
            let place = text(row, 0).and_then(|server| places.get(&server).copied());
            match (place, read_tool(row, &mut models)) {
                (Some(place), Some(tool)) => batch.push((place, tool)),
                _ => unreadable += 1,
            }
            if batch.len() == BATCH && give.send(mem::take(&mut batch)).is_err() {
                break;
            }
        }
        // Ignore an error of sending: the parser has then ended, and joining it below reports its error.
        drop(give.send(batch));
        drop(give);
        let died =
            || StoreError::failed(io::Error::other("the thread that parses definitions panicked"));
        let (tools, damaged) = parser.join().map_err(|_| died())?;
        Ok::<_, StoreError>((tools, unreadable + damaged))
    });
    let (tools, unreadable) = read?;
    opened.unreadable += unreadable;
    for (place, tool) in tools {
        opened.servers[place].tools.push(tool);
    }
    for server in &mut opened.servers {
        server.tools.sort_by_key(|tool| tool.place);
    }
    opened.servers.sort_by_key(|server| server.tools.first().map(|tool| tool.place));
    Ok(opened)
}

/// Reads the segments of the keyword index; damaged segments are skipped.
fn read_words(conn: &Connection) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
    let mut asked = conn.prepare("SELECT key, part FROM toolindex_words ORDER BY number")?;
    let mut rows = asked.query([])?;
    let mut words = Vec::new();
    while let Some(row) = rows.next()? {
        words.extend(text(row, 0).zip(bytes(row, 1).map(<[u8]>::to_vec)));
    }
    Ok(words)
}

/// Parses the definitions of received tools. Returns the tools with valid definitions, and the number of tools with
/// invalid definitions.
fn parse(given: Receiver<Vec<(usize, LoadedTool)>>) -> (Vec<(usize, LoadedTool)>, usize) {
    let (mut tools, mut damaged) = (Vec::new(), 0);
    for (place, mut tool) in given.into_iter().flatten() {
        if tool.parse() {
            tools.push((place, tool));
        } else {
            damaged += 1;
        }
    }
    (tools, damaged)
}

/// The names of the models in the file. Tools share these names, because most vectors belong to the same model.
#[derive(Default)]
struct Models(Vec<Arc<str>>);

impl Models {
    fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.iter().rev().find(|known| ***known == *name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.0.push(Arc::clone(&name));
        // Keep the list short: in a damaged file every row might name another model.
        if self.0.len() > 16 {
            self.0.remove(0);
        }
        name
    }
}

fn read_server(row: &Row<'_>) -> Option<ServerRow> {
    Some(ServerRow {
        id: text(row, 0)?,
        name: optional(row, 1, text)?,
        description: optional(row, 2, text)?,
        categories: words(row, 3)?,
    })
}

fn read_tool(row: &Row<'_>, models: &mut Models) -> Option<LoadedTool> {
    let security = optional(row, 6, text)?;
    let hash = bytes(row, 1)?.try_into().ok()?;
    Some(LoadedTool {
        place: row.get(2).ok()?,
        tokens: row.get(3).ok().and_then(|kept| tokens(kept, &hash)),
        hash,
        categories: words(row, 4)?,
        keywords: words(row, 5)?,
        security: match security {
            Some(security) => Some(serde_json::from_str(&security).ok()?),
            None => None,
        },
        definition: text(row, 7)?,
        parsed: None,
        // Ignore a damaged vector; the tool gets a new vector.
        vector: read_vector(row, models),
    })
}

fn read_vector(row: &Row<'_>, models: &mut Models) -> Option<LoadedVector> {
    let hash = bytes(row, 8)?.try_into().ok()?;
    let model = row.get_ref(9).ok()?.as_str().ok()?;
    let row = bytes(row, 10)?.iter().map(|byte| byte.cast_signed()).collect();
    Some(LoadedVector { model: models.name(model), hash, row })
}

/// Reads a column; returns `Some(None)` if it is null, and `None` if it is damaged.
#[expect(clippy::option_option, reason = "a null is not a damaged value")]
fn optional<T>(
    row: &Row<'_>,
    at: usize,
    read: impl FnOnce(&Row<'_>, usize) -> Option<T>,
) -> Option<Option<T>> {
    match row.get_ref(at).ok()? {
        ValueRef::Null => Some(None),
        _ => read(row, at).map(Some),
    }
}

fn text(row: &Row<'_>, at: usize) -> Option<String> {
    row.get_ref(at).ok()?.as_str().ok().map(str::to_owned)
}

fn bytes<'a>(row: &'a Row<'_>, at: usize) -> Option<&'a [u8]> {
    row.get_ref(at).ok()?.as_blob().ok()
}

fn words(row: &Row<'_>, at: usize) -> Option<Vec<String>> {
    match row.get_ref(at).ok()?.as_str().ok()? {
        "[]" => Some(Vec::new()),
        words => serde_json::from_str(words).ok(),
    }
}
