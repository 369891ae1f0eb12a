//! Exits a test process in which a test hangs, and cleans up after one that was killed.

use std::io::{Write, stderr};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio, exit};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::Duration;

/// How long a test may take: the slowest takes eight minutes on a slow machine.
const TEST_LIMIT: Duration = Duration::from_mins(20);

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
    TEST_ENDS.with(|_| ());
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

thread_local! {
    /// Closed when the thread ends, and with it its test.
    static TEST_ENDS: Sender<()> = limit_test(thread::current().name().unwrap_or_default());
}

/// Exits the process with the name of this thread's test if the test takes too long. Otherwise
/// one test that hangs would block the whole run until CI times out, without a result.
fn limit_test(thread: &str) -> Sender<()> {
    let (running, ends) = channel();
    // Benchmarks run on the main thread, as long as they need.
    if thread.contains("::") {
        let name = thread.to_owned();
        thread::spawn(move || {
            if ends.recv_timeout(TEST_LIMIT) == Err(RecvTimeoutError::Timeout) {
                // Unlike what is printed, this is not captured.
                let minutes = TEST_LIMIT.as_secs() / 60;
                let _ = writeln!(
                    stderr(),
                    "test {name} ... FAILED: it has not ended after {minutes} minutes"
                );
                exit(101);
            }
        });
    }
    running
}
