//! Impl blocks without tools, or with functions that cannot be tools.

use mgp_server_sdk::prelude::*;

struct Empty;

#[tools]
impl Empty {
    fn nothing(&self) {}
}

struct Counter(u64);

#[tools]
impl Counter {
    /// Is fine.
    #[tool]
    async fn add(&mut self) -> String {
        self.0 += 1;
        self.0.to_string()
    }

    /// Is fine.
    #[tool]
    async fn take(self) -> String {
        self.0.to_string()
    }
}

/// Is fine.
#[tools]
async fn function() -> String {
    String::new()
}

fn main() {}
