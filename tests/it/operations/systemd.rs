//! What systemd is told, and the unit in `examples/systemd`.

use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::{Duration, Instant};

use changelog_tests::installed::{in_path, missing};
use changelog_tests::{Server, TestApp, assert_contains, on_both, run};

on_both!(process: systemd_is_told_of_the_start_the_work_and_the_end);

/// Reads what is sent to systemd until it contains a state.
fn wait_for(socket: &UnixDatagram, state: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut buffer = [0; 4096];
    let mut all = String::new();
    while !all.lines().any(|line| line == state) {
        assert!(Instant::now() < deadline, "no {state} in {all}");
        if let Ok(length) = socket.recv(&mut buffer) {
            all.push_str(&String::from_utf8_lossy(&buffer[..length]));
            all.push('\n');
        }
    }
}

async fn systemd_is_told_of_the_start_the_work_and_the_end(mut app: TestApp) {
    let path = app.folder().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    let timeout = Some(Duration::from_millis(200));
    socket.set_read_timeout(timeout).expect("a timeout");
    app.server.kill9();
    let mut command = app.serve_command();
    command.env("NOTIFY_SOCKET", &path);
    command.env("WATCHDOG_USEC", "900000");
    app.server = Server::start(command).await.expect("it starts");
    wait_for(&socket, "READY=1");
    wait_for(&socket, "WATCHDOG=1");
    wait_for(&socket, "WATCHDOG=1");
    app.server.terminate();
    wait_for(&socket, "STOPPING=1");
    let status = app.server.wait_for_exit(Duration::from_secs(30)).await;
    assert_eq!(status.and_then(|status| status.code()), Some(0));
}

#[test]
fn the_unit_is_valid_and_hardened() {
    let Some(analyze) = in_path("systemd-analyze") else {
        missing("systemd", "systemd-analyze");
        return;
    };
    let unit = include_str!("../../../examples/systemd/changelog.service");
    // `verify` looks for the program and the user.
    let unit = unit
        .replace("/usr/bin/changelog-server", "/bin/true")
        .replace("User=changelog", "User=daemon")
        .replace("Group=changelog", "Group=daemon");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("changelog.service");
    std::fs::write(&path, unit).expect("a file");
    let analyzed = |arguments: &[&str]| {
        let mut command = Command::new(&analyze);
        command.args(arguments).arg(&path);
        let output = run(command, "");
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.success(),
            String::from_utf8_lossy(&text).into_owned(),
        )
    };
    let (is_valid, said) = analyzed(&["verify", "--man=no"]);
    assert!(is_valid, "{said}");
    assert!(!said.contains("changelog.service:"), "{said}");
    // In tenths: at most 2.0.
    let (is_hardened, said) = analyzed(&["security", "--offline=true", "--threshold=20"]);
    assert!(is_hardened, "{said}");
    assert_contains(&said, "Overall exposure level");
}
