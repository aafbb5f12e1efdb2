//! The `drydock` command.
fn main() {}
