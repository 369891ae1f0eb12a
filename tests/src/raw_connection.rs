//! Raw bytes over a socket, for what no client library would send.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// One connection, spoken to in bytes.
pub struct RawConnection(TcpStream);

/// What came back over a [`RawConnection`].
#[derive(Debug)]
pub struct Received {
    /// Everything up to the end of the connection, or to the deadline.
    pub text: String,
    /// Whether the other side closed the connection.
    pub closed: bool,
}

impl Received {
    /// The status of the first answer, if there is one.
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
                .expect("the service accepts"),
        )
    }

    /// Connects from another address of this machine.
    pub async fn connect_from(source: &str, address: &str) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        let source: SocketAddr = format!("{source}:0").parse().expect("an address");
        socket.bind(source).expect("the loopback network");
        let address = address.parse().expect("an address");
        Self(socket.connect(address).await.expect("the service accepts"))
    }

    /// Connects with room for so many bytes that came and were not read.
    pub async fn connect_with_room(address: &str, bytes: u32) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(bytes).expect("a size");
        let address = address.parse().expect("an address");
        Self(socket.connect(address).await.expect("the service accepts"))
    }

    /// Sends bytes; false when the other side has closed.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.0.write_all(bytes.as_ref()).await.is_ok()
    }

    /// Reads until the other side closes, or as long as `most`.
    pub async fn hear(&mut self, most: Duration) -> Received {
        let mut bytes = Vec::new();
        let closed = tokio::time::timeout(most, self.0.read_to_end(&mut bytes))
            .await
            .is_ok();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Received { text, closed }
    }

    /// Reads until the text has come, the other side closes, or `most` is over.
    pub async fn hear_until(&mut self, wanted: &str, most: Duration) -> Received {
        let mut bytes = Vec::new();
        let read = async {
            let mut buffer = [0; 4096];
            while !String::from_utf8_lossy(&bytes).contains(wanted) {
                match self.0.read(&mut buffer).await {
                    Ok(0) | Err(_) => return true,
                    Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                }
            }
            false
        };
        let closed = tokio::time::timeout(most, read).await.unwrap_or(false);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Received { text, closed }
    }
}
