//! The programs under test, built from the current sources.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the path of `changelog-server`.
pub fn server() -> PathBuf {
    folder().join("changelog-server")
}

/// Returns the path of `chlog`.
pub fn chlog() -> PathBuf {
    folder().join("chlog")
}

/// Returns the target folder of the profile that this test was built with.
///
/// `cargo test` builds a package's program only for integration tests of that same
/// package, so the programs are built here, once per run, and are never stale. This
/// builds the whole workspace with its tests, because `cargo test --workspace` has just
/// built the same; for a part of it cargo would compile the dependencies again with fewer
/// features.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let test = std::env::current_exe().expect("the test knows its own path");
        let folder = test
            .parent()
            .and_then(Path::parent)
            .expect("tests are in target/<profile>/deps")
            .to_path_buf();
        let Some(cargo) = std::env::var_os("CARGO") else {
            return folder;
        };
        let profile = match folder.file_name().and_then(|name| name.to_str()) {
            None | Some("debug") => "dev",
            Some(other) => other,
        };
        let mut command = Command::new(cargo);
        // Variables that describe the package of this test would make cargo run build
        // scripts again and recompile everything that depends on them: that of `ring`
        // watches `OUT_DIR`.
        for (name, _) in std::env::vars_os() {
            let is_of_package = |name: &str| {
                let prefixes = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_"];
                name == "OUT_DIR" || prefixes.iter().any(|prefix| name.starts_with(prefix))
            };
            if name.to_str().is_some_and(is_of_package) {
                command.env_remove(name);
            }
        }
        command.args(["build", "--quiet", "--workspace", "--bins"]);
        if profile == "dev" {
            // A benchmark has not built the tests.
            command.arg("--tests");
        }
        let status = command
            .args(["--profile", profile])
            .arg("--target-dir")
            .arg(folder.parent().expect("the profile is in target"))
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
            .status()
            .expect("cargo runs");
        assert!(status.success(), "the programs do not build");
        folder
    })
}
