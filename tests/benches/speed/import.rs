//! Getting many records into the service over its API.

use std::cell::RefCell;
use std::ops::Range;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use serde::Deserialize;

use crate::history::History;
use crate::wire::Wire;
use crate::{Failure, work};

const ONE: &str = "/api/changes";
const MANY: &str = "/api/changes/bulk";
/// Changes in one request: what the bulk endpoint takes at most.
const BULK: u64 = 500;
const BULK_CONNECTIONS: usize = 4;
const SINGLE_CONNECTIONS: usize = 32;
/// How many ids are kept to read by.
const IDS: u64 = 100_000;

#[derive(Deserialize)]
struct Made {
    id: String,
}

#[derive(Deserialize)]
struct One {
    data: Made,
}

#[derive(Deserialize)]
struct Many {
    data: Vec<Made>,
}

/// Imports as the service lets it: many changes a request, or one by one.
pub(crate) struct Importer<'a> {
    address: &'a str,
    in_bulk: bool,
}

/// What was imported.
#[derive(Default)]
pub(crate) struct Imported {
    /// Ids of the changes, evenly spread.
    pub(crate) ids: Vec<String>,
    pub(crate) time: Duration,
}

impl<'a> Importer<'a> {
    pub(crate) async fn new(address: &'a str, key: &str) -> Result<Self, Failure> {
        let mut wire = Wire::connect(address).await?;
        // Whatever it thinks of an empty list, it says so only when it is there.
        let request = work::post(key, MANY, "", r#"{"changes":[]}"#);
        let answer = wire.exchange(&request).await?;
        let in_bulk = !matches!(answer.status, 404 | 405);
        Ok(Self { address, in_bulk })
    }

    /// Says how it imports.
    pub(crate) fn how(&self) -> String {
        if self.in_bulk {
            format!("{BULK} a request")
        } else {
            "one by one: there is no bulk endpoint".to_owned()
        }
    }

    /// Makes services and returns their ids.
    pub(crate) async fn services(&self, key: &str, count: usize) -> Result<Vec<String>, Failure> {
        let mut ids = Vec::new();
        let requests = (0..count).map(|number| {
            let body = format!(r#"{{"name":"service {number}"}}"#);
            ((), work::post(key, "/api/services", "", &body))
        });
        let heard = |(), body: &[u8]| {
            ids.push(serde_json::from_slice::<One>(body)?.data.id);
            Ok(())
        };
        create_all(self.address, SINGLE_CONNECTIONS, requests, heard).await?;
        Ok(ids)
    }

    /// Makes some changes of a history.
    pub(crate) async fn changes(
        &self,
        key: &str,
        history: &History,
        some: Range<u64>,
    ) -> Result<Imported, Failure> {
        let (size, connections) = if self.in_bulk {
            (BULK, BULK_CONNECTIONS)
        } else {
            (1, SINGLE_CONNECTIONS)
        };
        let mut ids = Vec::new();
        let starts = some.clone().step_by(usize::try_from(size)?);
        let requests = starts.map(|start| {
            let chunk = start..some.end.min(start + size);
            (chunk.clone(), self.request(key, history, chunk))
        });
        let step = (history.count / IDS).max(1);
        let heard = |chunk: Range<u64>, body: &[u8]| {
            let made = self.made(body)?;
            let sent = usize::try_from(chunk.end - chunk.start)?;
            if made.len() != sent {
                return Err(format!("{sent} changes were sent, {} were made", made.len()).into());
            }
            let kept = chunk.zip(made).filter(|(index, _)| index % step == 0);
            ids.extend(kept.map(|(_, made)| made.id));
            Ok(())
        };
        let begun = Instant::now();
        create_all(self.address, connections, requests, heard).await?;
        let time = begun.elapsed();
        Ok(Imported { ids, time })
    }

    fn request(&self, key: &str, history: &History, chunk: Range<u64>) -> Vec<u8> {
        let mut body = String::new();
        if self.in_bulk {
            body.push_str(r#"{"changes":["#);
            history.write(chunk, &mut body);
            body.push_str("]}");
            work::post(key, MANY, "", &body)
        } else {
            history.write(chunk, &mut body);
            work::post(key, ONE, "", &body)
        }
    }

    fn made(&self, body: &[u8]) -> Result<Vec<Made>, Failure> {
        if self.in_bulk {
            Ok(serde_json::from_slice::<Many>(body)?.data)
        } else {
            Ok(vec![serde_json::from_slice::<One>(body)?.data])
        }
    }
}

/// Sends requests over some connections until there are none left, and hands
/// over each answer, which must be 201, with what its request was for.
async fn create_all<T>(
    address: &str,
    connections: usize,
    requests: impl Iterator<Item = (T, Vec<u8>)>,
    heard: impl FnMut(T, &[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let requests = RefCell::new(requests);
    let heard = RefCell::new(heard);
    let connection = async || {
        let mut wire = Wire::connect(address).await?;
        loop {
            let next = requests.borrow_mut().next();
            let Some((purpose, request)) = next else {
                return Ok::<_, Failure>(());
            };
            let answer = wire.exchange(&request).await?;
            answer.is(201, &request)?;
            (*heard.borrow_mut())(purpose, answer.body)?;
        }
    };
    try_join_all((0..connections).map(|_| connection())).await?;
    Ok(())
}
