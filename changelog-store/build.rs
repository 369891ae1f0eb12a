//! Rebuilds the crate when a migration changes: they are embedded, and cargo does not see it by
//! itself.
fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
