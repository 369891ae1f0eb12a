//! Rebuilds the binary when a migration or a template changes: both are
//! embedded, and cargo sees neither by itself.
fn main() {
    println!("cargo:rerun-if-changed=migrations");
    println!("cargo:rerun-if-changed=templates");
}
