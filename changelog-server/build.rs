//! Rebuilds the binary when a template changes: they are embedded, and cargo does not see it by
//! itself.
fn main() {
    println!("cargo:rerun-if-changed=templates");
}
