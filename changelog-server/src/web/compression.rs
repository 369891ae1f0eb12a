//! Compressed responses.
//!
//! Only static content, pages that are marked by [`compressible`] and large JSON
//! ([`BodyPieces`]) are compressed, without secrets. The length of a compressed answer that
//! holds a secret next to something that a request put there would reveal the secret piece
//! by piece (BREACH), to another site that has a browser send requests. Most JSON it cannot
//! even request: browsers do not add API keys by themselves.

use std::io::Write;

use brotli::enc::BrotliEncoderParams;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, header};
use tokio::sync::OnceCell;
use warp::reply::Response;

use super::reply::{BodyPieces, varying};
use crate::blocking_pool;

/// Smaller bodies fit into one packet as they are.
const MIN_BYTES: usize = 1_024;
/// The effort for content that is compressed once per response: on a page of 160 KB,
/// more effort takes several times as long and saves a few percent.
const RESPONSE_EFFORT: u32 = 4;
/// The effort for large JSON, which programs read one page after the other: gzip makes 12 %
/// of 100 changes in 0.1 ms. Twice the effort takes 1.7 times as long for 10 %, and Brotli
/// twice as long for 11 %.
const JSON_EFFORT: u32 = 2;
/// The effort for content that is compressed once.
const ASSET_EFFORT: u32 = 9;
/// The window of Brotli, in bits: 256 KB, more than most pages have. The memory for a larger
/// one is not free.
const BROTLI_WINDOW: i32 = 18;

/// A content encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Brotli,
    Gzip,
}

/// The encodings in the order of what they save, and of the time that they take.
const BY_SIZE: [Encoding; 2] = [Encoding::Brotli, Encoding::Gzip];
const BY_TIME: [Encoding; 2] = [Encoding::Gzip, Encoding::Brotli];

/// The encodings that a client accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted([bool; 2]);

impl Accepted {
    /// Reads the header `Accept-Encoding`.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
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
        Self(BY_SIZE.map(|encoding| accepts(encoding.name())))
    }

    /// Returns the first accepted encoding.
    fn first(self, order: [Encoding; 2]) -> Option<Encoding> {
        let accepts = |encoding: &Encoding| self.0[*encoding as usize];
        order.into_iter().find(accepts)
    }
}

impl Encoding {
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
        let encoding = Accepted::of(headers).first(BY_SIZE);
        let encoding = encoding.filter(|_| self.plain.len() >= MIN_BYTES);
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
pub(crate) async fn compress(mut response: Response, accepted: Accepted) -> Response {
    let extensions = response.extensions();
    let (pieces, order, effort) = if let Some(Compressible(body)) = extensions.get() {
        (vec![body.clone()], BY_SIZE, RESPONSE_EFFORT)
    } else if let Some(BodyPieces(pieces)) = extensions.get() {
        (pieces.clone(), BY_TIME, JSON_EFFORT)
    } else {
        return response;
    };
    let Some(encoding) = accepted.first(order) else {
        return response;
    };
    let size = pieces.iter().map(Bytes::len).sum();
    let work = move || encoding.compress(&pieces.concat(), effort);
    match blocking_pool::run_sized(size, work).await {
        Some(body) => {
            response.extensions_mut().remove::<BodyPieces>();
            encoded(response, encoding, body)
        }
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
            let best = Accepted::of(&headers).first(BY_SIZE);
            assert_eq!(best, expected, "{accepted}");
        }
    }
}
