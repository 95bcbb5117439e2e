//! Generates a catalogue of servers and tools, and search queries, for machines without the real catalogue.

use serde_json::{Map, Value, json};

use super::catalogue::{Definition, Server};
use super::dice::Dice;
use super::words::{hash, word};

/// The number of generated servers; they have about as many tools in total as the real catalogue.
pub(super) const SERVERS: usize = 1_800;

#[rustfmt::skip]
const VERBS: [&str; 24] = [
    "get", "list", "create", "update", "delete", "search", "send", "read", "write", "export",
    "import", "analyze", "convert", "validate", "fetch", "query", "schedule", "publish", "merge",
    "archive", "translate", "summarize", "compare", "monitor",
];

#[rustfmt::skip]
const OBJECTS: [&str; 40] = [
    "file", "folder", "message", "channel", "issue", "commit", "branch", "event", "calendar",
    "contact", "invoice", "payment", "order", "customer", "product", "ticket", "page", "comment",
    "table", "record", "column", "index", "image", "video", "track", "playlist", "route", "place",
    "forecast", "price", "portfolio", "trade", "document", "template", "report", "dashboard",
    "metric", "alert", "container", "cluster",
];

const PRODUCTS: [&str; 24] = [
    "Orbit", "Harbor", "Lumen", "Quarry", "Beacon", "Mosaic", "Falcon", "Willow", "Cobalt",
    "Ember", "Summit", "Drift", "Anchor", "Prism", "Nimbus", "Saffron", "Tundra", "Vertex",
    "Zephyr", "Cinder", "Delta", "Onyx", "Pioneer", "Relay",
];

const PHRASES: [&str; 16] = [
    "by its unique identifier",
    "that match the given filters",
    "in the current workspace",
    "with optional pagination and sorting",
    "from a remote source over HTTPS",
    "and returns the result as structured JSON",
    "including metadata such as size and creation date",
    "for the authenticated user",
    "between two dates in ISO 8601 format",
    "using natural language",
    "Requires permission to write",
    "Useful when the exact name is not known",
    "Supports regular expressions and wildcards",
    "and notifies everyone who follows it",
    "without changing the original",
    "limited to the first hundred results",
];

const PARAMETERS: [(&str, &str, &str); 14] = [
    ("id", "string", "Unique identifier"),
    ("query", "string", "What to search for"),
    ("limit", "integer", "Maximum number of results to return"),
    ("offset", "integer", "Number of results to skip"),
    ("start_date", "string", "First day of the period, YYYY-MM-DD"),
    ("end_date", "string", "Last day of the period, YYYY-MM-DD"),
    ("format", "string", "Output format: json, csv or markdown"),
    ("path", "string", "Absolute path on the server"),
    ("recursive", "boolean", "Whether to include everything below"),
    ("user_id", "string", "The user on whose behalf this is done"),
    ("tags", "array", "Labels to filter by"),
    ("timeout", "number", "How long to wait, in seconds"),
    ("dryRun", "boolean", "Only say what would be done"),
    ("language", "string", "Language of the answer as an ISO code"),
];

/// The number of different rare words; as in real texts, a few occur in many texts and most in very few.
const RARE: f64 = 12_000.0;

impl Dice {
    fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

/// Generates `count` servers with their tools.
pub(super) fn servers(seed: u64, count: usize) -> Vec<Server> {
    let mut dice = Dice::new(seed ^ 0xb111);
    (0..count)
        .map(|number| {
            let (product, object) = (dice.of(&PRODUCTS), dice.of(&OBJECTS));
            // Most servers have a few tools, some have many.
            let tools = 2 + dice.below(8) + if dice.below(12) == 0 { dice.below(60) } else { 0 };
            Server {
                id: format!("{}-{object}-{number}", product.to_lowercase()),
                name: format!("{product} {object}"),
                description: format!(
                    "Works with every {object} of {product} {}.",
                    phrase(&mut dice)
                ),
                categories: Vec::new(),
                tools: (0..tools).map(|number| definition(&mut dice, product, number)).collect(),
            }
        })
        .collect()
}

/// Generates short and long queries from the words of the generated catalogue.
pub(super) fn queries(seed: u64, count: usize) -> Vec<String> {
    let mut dice = Dice::new(seed ^ 0xa5c);
    (0..count)
        .map(|_| {
            let clauses = 1 + dice.below(3);
            let clause = |dice: &mut Dice| {
                let phrase = if dice.below(2) == 0 { phrase(dice) } else { String::new() };
                format!("{} a {} {phrase}", dice.of(&VERBS), dice.of(&OBJECTS))
            };
            let clauses: Vec<_> = (0..clauses).map(|_| clause(&mut dice)).collect();
            clauses.join(", then ")
        })
        .collect()
}

/// Generates a text of phrases and rare words; one text in ten is long, as in a real catalogue.
fn phrase(dice: &mut Dice) -> String {
    let count = if dice.below(10) == 0 { 8 + dice.below(20) } else { 1 + dice.below(3) };
    let pieces = (0..count).map(|_| match dice.below(3) {
        0 => format!("with {} {}", rare(dice), rare(dice)),
        _ => dice.of(&PHRASES).to_owned(),
    });
    pieces.collect::<Vec<_>>().join(" ")
}

/// Returns a rare word. The words have ranks from 1 to [`RARE`], and words with a low rank are returned much more
/// often.
fn rare(dice: &mut Dice) -> String {
    let even = f64::from(u32::try_from(dice.below(1 << 20)).unwrap_or(0)) / f64::from(1 << 20);
    let rank = RARE.powf(even).to_string();
    // The integer part of the rank selects the word.
    word(hash(1, rank.split('.').next().unwrap_or_default()), 3)
}

fn definition(dice: &mut Dice, product: &str, number: usize) -> Definition {
    let (verb, object) = (dice.of(&VERBS), dice.of(&OBJECTS));
    let parameters = dice.below(5);
    let properties: Map<String, Value> = (0..parameters)
        .map(|_| {
            let (name, kind, about) = PARAMETERS[dice.below(PARAMETERS.len())];
            let name =
                if dice.below(3) == 0 { format!("{name}_{}", rare(dice)) } else { name.to_owned() };
            (name, json!({"type": kind, "description": about}))
        })
        .collect();
    let required: Vec<_> = properties.keys().take(1).cloned().collect();
    Definition {
        name: format!("{verb}_{object}_{number}"),
        description: format!("{verb} a {object} of {product} {}.", phrase(dice)),
        schema: json!({"type": "object", "properties": properties, "required": required}),
    }
}
