//! `--cacert` and `CHLOG_CA_FILE`: the certificate of a private authority.

use crate::chlog::ChlogOutput;
use changelog_tests::{TestApp, TlsServer, installed, on_one};

on_one!(certificates_of_a_private_authority_are_trusted_on_request);

async fn certificates_of_a_private_authority_are_trusted_on_request(app: TestApp) {
    if installed::in_path("openssl").is_none() {
        return installed::missing("openssl", "openssl");
    }
    let server = TlsServer::start(app.folder());
    let url = server.url();
    let file = app.folder().join("ca.pem");
    let path = file.to_str().expect("a path");
    let health = |arguments: &[&str], variable: &str| {
        let mut command = app.bare_chlog();
        command.env("CHLOG_CA_FILE", variable);
        ChlogOutput::of(command.args(["health", "--url", &url]).args(arguments))
    };
    let output = health(&[], "");
    assert_ne!(output.code, 0);
    output.says("certificate");
    health(&["--cacert", path], "").succeeds();
    health(&[], path).succeeds();
    // The flag overrides the variable.
    health(&["--cacert", path], "/nowhere/at/all").succeeds();
    for wrong in ["/nowhere/at/all", "server.key"] {
        let wrong = app.folder().join(wrong);
        let wrong = wrong.to_str().expect("a path");
        let output = health(&["--cacert", wrong], path).exits_with(2);
        output.says("certificates");
    }
}
