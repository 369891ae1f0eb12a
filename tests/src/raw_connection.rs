//! Raw bytes over a socket, for requests that no client library would send.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// A connection that sends and receives bytes.
pub struct RawConnection(TcpStream);

/// The bytes received over a [`RawConnection`].
#[derive(Debug)]
pub struct Received {
    /// Everything up to the end of the connection, or to the deadline.
    pub text: String,
    /// Whether the other side closed the connection.
    pub closed: bool,
}

impl Received {
    /// Returns the status of the first response, if there is one.
    pub fn status(&self) -> Option<u16> {
        self.text.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
    }
}

impl RawConnection {
    /// Connects to an address such as `127.0.0.1:8080`.
    pub async fn connect(address: &str) -> Self {
        Self(
            TcpStream::connect(address)
                .await
                .expect("an accepted connection"),
        )
    }

    /// Connects from another address of this machine.
    pub async fn connect_from(source: &str, address: &str) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        let source: SocketAddr = format!("{source}:0").parse().expect("an address");
        socket.bind(source).expect("the loopback network");
        Self::connect_socket(socket, address).await
    }

    /// Connects with a receive buffer of this many bytes.
    pub async fn connect_with_receive_buffer(address: &str, bytes: u32) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(bytes).expect("a size");
        Self::connect_socket(socket, address).await
    }

    async fn connect_socket(socket: TcpSocket, address: &str) -> Self {
        let address = address.parse().expect("an address");
        let connected = socket.connect(address).await;
        Self(connected.expect("an accepted connection"))
    }

    /// Sends bytes; returns false when the other side has closed the connection.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.0.write_all(bytes.as_ref()).await.is_ok()
    }

    /// Reads until the other side closes the connection, or until `timeout` has passed.
    pub async fn receive(&mut self, timeout: Duration) -> Received {
        let mut bytes = Vec::new();
        let closed = tokio::time::timeout(timeout, self.0.read_to_end(&mut bytes))
            .await
            .is_ok();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Received { text, closed }
    }

    /// Reads until `expected` was received, the other side closes the connection, or
    /// `timeout` has passed.
    pub async fn receive_until(&mut self, expected: &str, timeout: Duration) -> Received {
        let mut bytes = Vec::new();
        let read = async {
            let mut buffer = [0; 4096];
            while !String::from_utf8_lossy(&bytes).contains(expected) {
                match self.0.read(&mut buffer).await {
                    Ok(0) | Err(_) => return true,
                    Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                }
            }
            false
        };
        let closed = tokio::time::timeout(timeout, read).await.unwrap_or(false);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Received { text, closed }
    }
}
