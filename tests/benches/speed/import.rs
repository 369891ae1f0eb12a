//! Imports records over the API.

use std::cell::RefCell;
use std::ops::Range;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use serde::Deserialize;

use crate::history::History;
use crate::http_connection::HttpConnection;
use crate::{Failure, work};

const CREATE_PATH: &str = "/api/changes";
const BULK_PATH: &str = "/api/changes/bulk";
/// The number of changes in a request: the limit of the bulk endpoint.
const BULK_SIZE: u64 = 500;
const BULK_CONNECTIONS: usize = 4;
const SINGLE_CONNECTIONS: usize = 32;
/// The limit on ids that are kept for reading.
const MAX_IDS: u64 = 100_000;

#[derive(Deserialize)]
struct CreatedRecord {
    id: String,
}

#[derive(Deserialize)]
struct CreatedOne {
    data: CreatedRecord,
}

#[derive(Deserialize)]
struct CreatedMany {
    data: Vec<CreatedRecord>,
}

/// Imports many changes per request, or one by one if the service has no bulk endpoint.
pub(crate) struct Importer<'a> {
    address: &'a str,
    in_bulk: bool,
}

/// The result of an import.
#[derive(Default)]
pub(crate) struct Imported {
    /// Ids of the changes, evenly spread.
    pub(crate) ids: Vec<String>,
    pub(crate) time: Duration,
}

impl<'a> Importer<'a> {
    pub(crate) async fn new(address: &'a str, key: &str) -> Result<Self, Failure> {
        let mut http = HttpConnection::connect(address).await?;
        // Any other status means that the endpoint exists.
        let request = work::post(key, BULK_PATH, "", r#"{"changes":[]}"#);
        let answer = http.exchange(&request).await?;
        let in_bulk = !matches!(answer.status, 404 | 405);
        Ok(Self { address, in_bulk })
    }

    /// Returns a description of the method.
    pub(crate) fn method(&self) -> String {
        if self.in_bulk {
            format!("{BULK_SIZE} per request")
        } else {
            "one by one: there is no bulk endpoint".to_owned()
        }
    }

    /// Creates services and returns their ids.
    pub(crate) async fn services(&self, key: &str, count: usize) -> Result<Vec<String>, Failure> {
        let mut ids = Vec::new();
        let requests = (0..count).map(|number| {
            let body = format!(r#"{{"name":"service {number}"}}"#);
            ((), work::post(key, "/api/services", "", &body))
        });
        let on_response = |(), body: &[u8]| {
            ids.push(serde_json::from_slice::<CreatedOne>(body)?.data.id);
            Ok(())
        };
        create_all(self.address, SINGLE_CONNECTIONS, requests, on_response).await?;
        Ok(ids)
    }

    /// Creates a range of the changes of a history.
    pub(crate) async fn changes(
        &self,
        key: &str,
        history: &History,
        some: Range<u64>,
    ) -> Result<Imported, Failure> {
        let (size, connections) = if self.in_bulk {
            (BULK_SIZE, BULK_CONNECTIONS)
        } else {
            (1, SINGLE_CONNECTIONS)
        };
        let mut ids = Vec::new();
        let starts = some.clone().step_by(usize::try_from(size)?);
        let requests = starts.map(|start| {
            let chunk = start..some.end.min(start + size);
            (chunk.clone(), self.request(key, history, chunk))
        });
        let step = (history.count / MAX_IDS).max(1);
        let on_response = |chunk: Range<u64>, body: &[u8]| {
            let created = self.created(body)?;
            let sent = usize::try_from(chunk.end - chunk.start)?;
            if created.len() != sent {
                return Err(
                    format!("{sent} changes were sent, {} were created", created.len()).into(),
                );
            }
            let kept = chunk.zip(created).filter(|(index, _)| index % step == 0);
            ids.extend(kept.map(|(_, created)| created.id));
            Ok(())
        };
        let started = Instant::now();
        create_all(self.address, connections, requests, on_response).await?;
        let time = started.elapsed();
        Ok(Imported { ids, time })
    }

    fn request(&self, key: &str, history: &History, chunk: Range<u64>) -> Vec<u8> {
        let mut body = String::new();
        if self.in_bulk {
            body.push_str(r#"{"changes":["#);
            history.write(chunk, &mut body);
            body.push_str("]}");
            work::post(key, BULK_PATH, "", &body)
        } else {
            history.write(chunk, &mut body);
            work::post(key, CREATE_PATH, "", &body)
        }
    }

    fn created(&self, body: &[u8]) -> Result<Vec<CreatedRecord>, Failure> {
        if self.in_bulk {
            Ok(serde_json::from_slice::<CreatedMany>(body)?.data)
        } else {
            Ok(vec![serde_json::from_slice::<CreatedOne>(body)?.data])
        }
    }
}

/// Sends all requests over several connections. Calls `on_response` with each response,
/// whose status must be 201, and the purpose of its request.
async fn create_all<T>(
    address: &str,
    connections: usize,
    requests: impl Iterator<Item = (T, Vec<u8>)>,
    on_response: impl FnMut(T, &[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let requests = RefCell::new(requests);
    let on_response = RefCell::new(on_response);
    let connection = async || {
        let mut http = HttpConnection::connect(address).await?;
        loop {
            let next = requests.borrow_mut().next();
            let Some((purpose, request)) = next else {
                return Ok::<_, Failure>(());
            };
            let answer = http.exchange(&request).await?;
            answer.is(201, &request)?;
            (*on_response.borrow_mut())(purpose, answer.body)?;
        }
    };
    try_join_all((0..connections).map(|_| connection())).await?;
    Ok(())
}
