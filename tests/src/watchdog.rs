//! Removes what a test process leaves behind when it is killed.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock};

/// Reads one line per server or folder, and removes them all when its input ends: the
/// kernel closes the pipe of a process that has ended in any way. The script checks the
/// process name because another process may have the id by then.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
list=
while read -r kind what; do
    list="$list$kind $what
"
done
printf '%s' "$list" | while read -r kind what; do
    case $kind in
    server)
        read -r name <"/proc/$what/comm" || name=
        case $name in
        changelog-serve | pgbouncer) kill -KILL "$what" ;;
        chromedriver) kill -KILL -- "-$what" ;;
        esac ;;
    folder) rm -rf "$what" ;;
    esac
done 2>/dev/null
"#;

/// Registers a server, or a browser driver with its process group, to be killed when this
/// process ends without doing so.
pub fn server(pid: u32) {
    register(&format!("server {pid}"));
}

/// Registers a folder to be removed when this process ends without doing so.
pub fn folder(path: &Path) {
    register(&format!("folder {}", path.display()));
}

fn register(line: &str) {
    static WATCHDOG: OnceLock<Mutex<ChildStdin>> = OnceLock::new();
    let input = WATCHDOG.get_or_init(|| {
        let watchdog = Command::new("sh")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        let input = watchdog.expect("sh runs").stdin.take();
        Mutex::new(input.expect("a pipe"))
    });
    let mut input = input.lock().expect("an unpoisoned lock");
    writeln!(input, "{line}").expect("a running watchdog");
}
