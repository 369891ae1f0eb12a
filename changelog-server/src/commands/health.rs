//! `changelog-server health`

use http::{HeaderMap, Method};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::{Failure, print, print_json};
use crate::config::{Common, Health};
use crate::integrations::http::{ReceiverClient, ReceiverRequest, ReceiverResponse, SendError};

/// Asks the service at an address whether it is ready; the command fails if it is not.
pub(super) async fn run(common: &Common, health: &Health) -> Result<(), Failure> {
    let url = format!("{}/readyz?verbose", health.url());
    let answer = ask(&url).await.map_err(Failure::NotReady)?;
    let text = String::from_utf8_lossy(&answer.body);
    let text = text.trim_end();
    let is_ready = answer.status.is_success();
    if common.json {
        let checks: Vec<&str> = text.lines().collect();
        print_json(&serde_json::json!({ "ready": is_ready, "checks": checks }))?;
    } else {
        print(text)?;
    }
    if is_ready {
        return Ok(());
    }
    let status = answer.status.as_u16();
    Err(Failure::NotReady(format!("{url} answered {status}")))
}

/// Asks a server of the operator, who has given its address: it may be in any network.
pub(super) async fn ask(url: &str) -> Result<ReceiverResponse, String> {
    let everywhere: Vec<IpNet> = vec![Ipv4Net::default().into(), Ipv6Net::default().into()];
    let request = ReceiverRequest {
        method: Method::GET,
        url,
        headers: HeaderMap::new(),
        body: bytes::Bytes::new(),
    };
    let answer = ReceiverClient::new(everywhere).send(request).await;
    answer.map_err(|error| format!("{url} does not answer: {}", reason(&error)))
}

/// Returns why there is no answer, of a server that is no receiver of events.
fn reason(error: &SendError) -> String {
    match error {
        SendError::UnknownHost => "its host name was not found".to_owned(),
        SendError::NoConnection => {
            "no connection could be made; is the service running?".to_owned()
        }
        SendError::ConnectTimeout => "no connection could be made within 5 s".to_owned(),
        SendError::Timeout => "no complete answer arrived within 15 s".to_owned(),
        SendError::Tls(why) => format!("the encrypted connection failed: {why}"),
        SendError::Broken => {
            "the connection was closed early, or the answer was not HTTP".to_owned()
        }
        other => other.to_string(),
    }
}
