//! Compressed responses.
//!
//! Only responses that are marked by [`compressible`] and static content are compressed,
//! without secrets. The length of a compressed answer that holds a secret next to
//! something that a request put there would reveal the secret piece by piece (BREACH).

use std::io::Write;

use brotli::enc::BrotliEncoderParams;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, header};
use tokio::sync::OnceCell;
use warp::reply::Response;

use crate::blocking_pool;

/// Smaller bodies fit into one packet as they are.
const MIN_BYTES: usize = 1_024;
/// The effort for content that is compressed once per response: on a page of 160 KB,
/// more effort takes several times as long and saves a few percent.
const RESPONSE_EFFORT: u32 = 4;
/// The effort for content that is compressed once.
const ASSET_EFFORT: u32 = 9;
/// The window of Brotli, in bits: 256 KB, more than most pages have. The memory for a larger
/// one is not free.
const BROTLI_WINDOW: i32 = 18;

/// A content encoding, the better one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Brotli,
    Gzip,
}

impl Encoding {
    /// Returns the best encoding that a client accepts.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(header::ACCEPT_ENCODING).iter();
        let values = values.filter_map(|value| value.to_str().ok());
        let accepted: Vec<&str> = values
            .flat_map(|value| value.split(','))
            .filter_map(|item| {
                let (name, weight) = item.split_once(';').unwrap_or((item, ""));
                let weight = weight.trim().strip_prefix("q=");
                let is_refused = weight.is_some_and(|weight| weight.parse() == Ok(0.0));
                (!is_refused).then_some(name.trim())
            })
            .collect();
        let accepts = |name: &str| {
            accepted
                .iter()
                .any(|known| known.eq_ignore_ascii_case(name))
        };
        [Self::Brotli, Self::Gzip]
            .into_iter()
            .find(|encoding| accepts(encoding.name()))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    /// Compresses content; `None` if that fails, which memory alone does not.
    fn compress(self, content: &[u8], effort: u32) -> Option<Bytes> {
        let mut compressed = Vec::with_capacity(content.len() / 4);
        match self {
            Self::Brotli => {
                let parameters = BrotliEncoderParams {
                    quality: i32::try_from(effort).ok()?,
                    lgwin: BROTLI_WINDOW,
                    size_hint: content.len(),
                    ..BrotliEncoderParams::default()
                };
                let mut content = content;
                brotli::BrotliCompress(&mut content, &mut compressed, &parameters).ok()?;
            }
            Self::Gzip => {
                let mut encoder = GzEncoder::new(&mut compressed, Compression::new(effort));
                encoder.write_all(content).ok()?;
                encoder.finish().ok()?;
            }
        }
        Some(compressed.into())
    }
}

/// Content that is compressed at most once for each encoding.
pub(crate) struct Compressed {
    plain: Bytes,
    brotli: OnceCell<Option<Bytes>>,
    gzip: OnceCell<Option<Bytes>>,
}

impl Compressed {
    pub(crate) fn new(content: impl Into<Bytes>) -> Self {
        Self {
            plain: content.into(),
            brotli: OnceCell::new(),
            gzip: OnceCell::new(),
        }
    }

    /// Returns a response in the best encoding that the client accepts.
    pub(crate) async fn response(&self, headers: &HeaderMap) -> Response {
        let encoding = Encoding::of(headers).filter(|_| self.plain.len() >= MIN_BYTES);
        let compressed = match encoding {
            None => None,
            Some(encoding) => self.compressed(encoding).await.map(|body| (encoding, body)),
        };
        match compressed {
            Some((encoding, body)) => encoded(Response::default(), encoding, body),
            None => varying(Response::new(self.plain.clone().into())),
        }
    }

    async fn compressed(&self, encoding: Encoding) -> Option<Bytes> {
        let cached = match encoding {
            Encoding::Brotli => &self.brotli,
            Encoding::Gzip => &self.gzip,
        };
        let compress = || {
            let plain = self.plain.clone();
            // This effort takes milliseconds however small the content is.
            blocking_pool::run(move || encoding.compress(&plain, ASSET_EFFORT))
        };
        cached.get_or_init(compress).await.clone()
    }
}

/// Marks a response that may be compressed, with its body.
#[derive(Clone, Debug)]
struct Compressible(Bytes);

/// Returns a response with a body that may be compressed: it must not contain a secret.
pub(crate) fn compressible(body: impl Into<Bytes>) -> Response {
    let body = body.into();
    let mut response = varying(Response::new(body.clone().into()));
    if body.len() >= MIN_BYTES {
        response.extensions_mut().insert(Compressible(body));
    }
    response
}

/// Compresses a response if it may be compressed and the client accepts an encoding.
pub(crate) async fn compress(mut response: Response, encoding: Option<Encoding>) -> Response {
    let (Some(Compressible(body)), Some(encoding)) = (response.extensions_mut().remove(), encoding)
    else {
        return response;
    };
    let size = body.len();
    let work = move || encoding.compress(&body, RESPONSE_EFFORT);
    match blocking_pool::run_sized(size, work).await {
        Some(body) => encoded(response, encoding, body),
        None => response,
    }
}

fn encoded(mut response: Response, encoding: Encoding, body: Bytes) -> Response {
    *response.body_mut() = body.into();
    let name = HeaderValue::from_static(encoding.name());
    response
        .headers_mut()
        .insert(header::CONTENT_ENCODING, name);
    varying(response)
}

/// Says that caches must not answer a client with what another one accepts.
fn varying(mut response: Response) -> Response {
    let vary = HeaderValue::from_static("accept-encoding");
    response.headers_mut().insert(header::VARY, vary);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_accepted_encoding_is_chosen() {
        for (accepted, expected) in [
            ("gzip, deflate, br, zstd", Some(Encoding::Brotli)),
            ("gzip, deflate", Some(Encoding::Gzip)),
            ("GZIP;q=0.5", Some(Encoding::Gzip)),
            ("br;q=0, gzip", Some(Encoding::Gzip)),
            ("br; q=0.0", None),
            ("identity", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted));
            assert_eq!(Encoding::of(&headers), expected, "{accepted}");
        }
    }
}
