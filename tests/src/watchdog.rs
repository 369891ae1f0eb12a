//! Ends what a test process leaves behind when it is killed itself.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock};

/// Takes one line a server or folder, and acts when its input ends, whatever
/// ends it: the kernel closes the pipe of a process that is gone. A number may
/// belong to somebody else by then, hence the look at the name.
const WATCH: &str = r#"
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
        changelog-serve) kill -KILL "$what" ;;
        chromedriver) kill -KILL -- "-$what" ;;
        esac ;;
    folder) rm -rf "$what" ;;
    esac
done 2>/dev/null
"#;

/// Has a server killed, or a browser's driver with its whole group, should this process not be there to do it.
pub fn server(pid: u32) {
    tell(&format!("server {pid}"));
}

/// Has a folder removed, should this process not be there to do it.
pub fn folder(path: &Path) {
    tell(&format!("folder {}", path.display()));
}

fn tell(line: &str) {
    static WATCHDOG: OnceLock<Mutex<ChildStdin>> = OnceLock::new();
    let input = WATCHDOG.get_or_init(|| {
        let watchdog = Command::new("sh")
            .args(["-c", WATCH])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        let input = watchdog.expect("sh runs").stdin.take();
        Mutex::new(input.expect("a pipe"))
    });
    let mut input = input.lock().expect("nobody panics with it");
    writeln!(input, "{line}").expect("the watchdog listens");
}
