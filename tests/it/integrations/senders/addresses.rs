//! Receivers in the networks around the server get no connection unless the operator
//! allows it.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use changelog_core::{ConnectionKind, EventKind};
use changelog_server::integrations::http::{Lookup, ReceiverClient, SendError};
use changelog_server::integrations::message::Verdict;
use changelog_server::integrations::senders;
use changelog_tests::{Answer, Receiver, TlsServer, installed};
use futures_util::future::BoxFuture;

use super::{change, event, message, send, verdict, webhook_target};

/// Hosts that are 127.0.0.1, or reach it.
const DISGUISES: [&str; 26] = [
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0X7F.0.0.1",
    "017700000001",
    "0177.0.0.1",
    "0177.1",
    "127.0.0.0x1",
    "%31%32%37.0.0.1",
    "127%2e0.0.1",
    "127。0。0。1",
    "１２７.0.0.1",
    "①②⑦.0.0.1",
    "localhost",
    "LOCALHOST",
    "ｌｏｃａｌｈｏｓｔ",
    "%6cocalhost",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:FFFF:7F00:0001]",
    "127.0.0.1?@example.com/#",
    "127.0.0.1#@example.com",
];
/// Hosts that a host's own network stack may take for itself, or that a gateway may
/// translate.
const NEVER: [&str; 11] = [
    "0.0.0.0",
    "0",
    "[::]",
    "[::1]",
    "[::127.0.0.1]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[fe80::1]",
    "[fec0::1]",
];

async fn refusal(client: &ReceiverClient, url: &str) -> Verdict {
    let target = webhook_target(url.to_owned());
    let event = event(EventKind::Created, change());
    let message = message(&target, &event);
    senders::send(client, &ConnectionKind::Webhook, &message)
        .await
        .verdict
}

#[tokio::test]
async fn disguises_of_the_loopback_address_get_no_connection() {
    let receiver = Receiver::start().await;
    let port = receiver.address().port();
    // The same port on ::1, where the machine has IPv6.
    let six = match TcpListener::bind("[::1]:0") {
        Ok(_) => Some(Receiver::start_at(&format!("[::1]:{port}")).await),
        Err(_) => None,
    };
    let client = ReceiverClient::new(Vec::new());
    let refused = Verdict::Retry {
        reason: SendError::RefusedAddress.to_string(),
        after: None,
    };
    for host in DISGUISES.iter().chain(&NEVER) {
        let (host, rest) = match host.find(['?', '#']) {
            Some(end) => host.split_at(end),
            None => (*host, ""),
        };
        for scheme in ["http", "https"] {
            let url = format!("{scheme}://{host}:{port}/receive{rest}");
            assert_eq!(refusal(&client, &url).await, refused, "{url}");
        }
    }
    // Whether the system knows this name differs.
    let url = format!("https://localhost.:{port}/receive");
    assert!(matches!(
        refusal(&client, &url).await,
        Verdict::Retry { .. }
    ));
    for url in [
        format!("https:127.0.0.1:{port}/"),
        format!("https:\\\\127.0.0.1:{port}\\"),
        format!(" https://127.0.0.1:{port}/ "),
        format!("ht\ntps://127.0.0.1:{port}/"),
    ] {
        assert_eq!(refusal(&client, &url).await, refused, "{url}");
    }
    for url in [
        format!("https://user@127.0.0.1:{port}/"),
        format!("https://example.com:password@127.0.0.1:{port}/"),
        format!("ftp://127.0.0.1:{port}/"),
        format!("gopher://127.0.0.1:{port}/"),
        "unix:/run/docker.sock".to_owned(),
        "file:///etc/passwd".to_owned(),
        "https://".to_owned(),
        String::new(),
    ] {
        let reason = SendError::InvalidUrl.to_string();
        let expected = Verdict::Disabled { reason };
        assert_eq!(refusal(&client, &url).await, expected, "{url}");
    }
    assert_eq!(receiver.connections(), 0);
    assert_eq!(six.map_or(0, |six| six.connections()), 0);
}

#[tokio::test]
async fn allowed_networks_are_reached_in_every_disguise() {
    let receiver = Receiver::start().await;
    let port = receiver.address().port();
    for (index, host) in DISGUISES.iter().enumerate() {
        let (host, rest) = match host.find(['?', '#']) {
            Some(end) => host.split_at(end),
            None => (*host, ""),
        };
        let url = format!("http://{host}:{port}/receive{rest}");
        // A client each, so that no connection is used again.
        let verdict = refusal(&super::client(), &url).await;
        assert_eq!(verdict, Verdict::Delivered, "{url}");
        assert_eq!(receiver.connections(), index + 1, "{url}");
    }
    let event = event(EventKind::Created, change());
    let target = webhook_target(format!("http://[::1]:{port}/"));
    let other = send(&ConnectionKind::Webhook, &target, &event, None).await;
    assert_eq!(verdict(&other), "retry", "only 127.0.0.0/8 is allowed");
}

/// Gives another answer each time.
struct Rebinding {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    lookups: Arc<AtomicUsize>,
}

impl Lookup for Rebinding {
    fn addresses(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        let answer = self.answers.lock().expect("no panic").pop_front();
        Box::pin(async move { Ok(answer.unwrap_or_default()) })
    }
}

#[tokio::test]
async fn a_name_that_is_bound_to_another_address_gets_no_connection_there() {
    let private = Receiver::start().await;
    let port = private.address().port();
    // It takes the part of a public address.
    let public = Receiver::start_at(&format!("127.0.0.2:{port}")).await;
    let [inside, outside]: [IpAddr; 2] = [[127, 0, 0, 1].into(), [127, 0, 0, 2].into()];
    let lookups = Arc::new(AtomicUsize::new(0));
    let answers = [vec![outside], vec![inside], vec![inside, outside], vec![]];
    let lookup = Rebinding {
        answers: Mutex::new(answers.into()),
        lookups: Arc::clone(&lookups),
    };
    let allowed = vec!["127.0.0.2/32".parse().expect("a network")];
    let client = ReceiverClient::with_lookup(allowed, lookup);
    let url = format!("http://rebinding.example.com:{port}/");
    // The connection is closed, so that each request needs another one.
    public.answer_with(Answer::ok().header("connection", "close"));
    let refused = |error: SendError| Verdict::Retry {
        reason: error.to_string(),
        after: None,
    };
    for (index, expected) in [
        Verdict::Delivered,
        refused(SendError::RefusedAddress),
        Verdict::Delivered,
        refused(SendError::UnknownHost),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(refusal(&client, &url).await, expected, "{index}");
        assert_eq!(lookups.load(Ordering::SeqCst), index + 1);
    }
    assert_eq!((private.connections(), public.connections()), (0, 2));
}

#[tokio::test]
async fn a_refusal_does_not_reveal_whether_anything_listens() {
    let receiver = Receiver::start().await;
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let closed = free.local_addr().expect("an address").port();
    drop(free);
    let client = ReceiverClient::new(Vec::new());
    let open = refusal(&client, &receiver.url().replace("http:", "https:")).await;
    let closed = refusal(&client, &format!("https://127.0.0.1:{closed}/receive")).await;
    assert_eq!(open, closed);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let (receiver, other) = (Receiver::start().await, Receiver::start().await);
    let target = webhook_target(receiver.url());
    let event = event(EventKind::Created, change());
    for status in [301, 302, 303, 307, 308] {
        receiver.answer_with(Answer::redirect(status, &other.url()));
        let attempt = send(&ConnectionKind::Webhook, &target, &event, None).await;
        assert_eq!((attempt.status, verdict(&attempt)), (Some(status), "retry"));
    }
    assert_eq!((receiver.requests().len(), other.connections()), (5, 0));
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let receiver = Receiver::start().await;
    let client = super::client();
    for _ in 0..3 {
        assert_eq!(refusal(&client, &receiver.url()).await, Verdict::Delivered);
    }
    assert_eq!((receiver.requests().len(), receiver.connections()), (3, 1));
}

#[tokio::test]
async fn certificates_are_verified() {
    if installed::in_path("openssl").is_none() {
        return installed::missing("openssl", "openssl");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let server = TlsServer::start(folder.path());
    let Verdict::Retry { reason, .. } = refusal(&super::client(), &server.url()).await else {
        panic!("a certificate of an unknown authority was accepted");
    };
    let expected = "The encrypted connection to the receiver failed: invalid peer certificate";
    assert!(reason.starts_with(expected), "{reason}");
}
