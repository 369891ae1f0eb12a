//! How many tests run at the same time.

fn main() {
    // Many tests wait for processes more than they compute. Cargo sets this for the programs
    // that it runs, too; `-- --test-threads=N` goes before it.
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    println!("cargo:rustc-env=RUST_TEST_THREADS={}", cores * 2);
    println!("cargo:rerun-if-changed=build.rs");
}
