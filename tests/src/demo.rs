//! `changelog-server demo`.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::{Server, server_command};

/// A running demo, with what it printed.
pub struct Demo {
    /// The service.
    pub server: Server,
    output: String,
}

impl Demo {
    /// Starts the demo with its data in a folder, which may have the data of an earlier
    /// start.
    pub async fn start(folder: &Path) -> Self {
        let stdout = folder.join("stdout");
        let mut command = server_command(folder);
        command
            .args(["demo", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder.join("demo"))
            .stdout(Stdio::from(fs::File::create(&stdout).expect("a file")));
        let server = Server::start(command).await.expect("the demo starts");
        let output = fs::read_to_string(stdout).expect("a file");
        Self { server, output }
    }

    /// Returns everything that it printed.
    pub fn output(&self) -> &str {
        &self.output
    }

    /// Returns the value of an `export` line.
    pub fn export(&self, name: &str) -> String {
        self.after(&format!("export {name}="))
    }

    /// Returns the rest of the line that begins with a label.
    pub fn after(&self, label: &str) -> String {
        let mut lines = self.output.lines();
        let rest = lines.find_map(|line| line.trim().strip_prefix(label));
        let rest = rest.unwrap_or_else(|| panic!("no {label}: {}", self.output));
        rest.trim().to_owned()
    }
}
