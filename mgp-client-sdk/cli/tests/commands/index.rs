//! The index of tools, without the kernel that filled it.

use crate::world::Home;

#[test]
fn an_index_that_nobody_filled_says_so() {
    let home = Home::new();
    home.ill(1, &["index", "export"], "the index is empty");
}
