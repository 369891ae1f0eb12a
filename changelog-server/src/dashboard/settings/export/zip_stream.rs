//! A ZIP archive that is written while it is sent: nothing of it is kept but what is being
//! compressed.

use std::error::Error;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::stream::{BoxStream, try_unfold};
use futures_util::{Stream, StreamExt};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, ZipWriter};

use crate::blocking_pool;
use crate::store::StoreError;

/// The last file, which says what the others must have.
const MANIFEST: &str = "manifest.json";

/// A part of an archive.
pub(super) enum Piece {
    /// What follows belongs to a file of this name.
    File(&'static str),
    /// Bytes of the file.
    Bytes(Bytes),
}

/// Returns the archive of files, with a list of them at its end.
pub(super) fn archive(
    pieces: BoxStream<'static, Result<Piece, StoreError>>,
    now: DateTime<Utc>,
) -> impl Stream<Item = Result<Bytes, StoreError>> + Send + 'static {
    let start = Some((pieces, Archive::new(now)));
    try_unfold(start, |state| async move {
        let Some((mut pieces, mut archive)) = state else {
            return Ok(None);
        };
        while let Some(piece) = pieces.next().await {
            let piece = piece?;
            archive = blocking_pool::run(move || archive.add(piece)).await?;
            let written = archive.written.take();
            if !written.is_empty() {
                return Ok(Some((written, Some((pieces, archive)))));
            }
        }
        let end = blocking_pool::run(move || archive.finish()).await?;
        Ok(Some((end, None)))
    })
}

/// What has been compressed and was not sent yet.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn take(&self) -> Bytes {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *bytes).into()
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Archive {
    writer: ZipWriter<StreamWriter<Written>>,
    written: Written,
    options: SimpleFileOptions,
    now: DateTime<Utc>,
    /// The files before the one that is being written.
    files: Vec<Value>,
    file: Option<File>,
}

/// The file that is being written.
struct File {
    name: &'static str,
    records: u64,
    digest: Sha256,
}

impl Archive {
    fn new(now: DateTime<Utc>) -> Box<Self> {
        let written = Written::default();
        let mut options =
            SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        // The format has no dates after 2107.
        if let Ok(modified) = now.naive_utc().try_into() {
            options = options.last_modified_time(modified);
        }
        Box::new(Self {
            writer: ZipWriter::new_stream(written.clone()),
            written,
            options,
            now,
            files: Vec::new(),
            file: None,
        })
    }

    fn add(mut self: Box<Self>, piece: Piece) -> Result<Box<Self>, StoreError> {
        match piece {
            Piece::File(name) => self.begin(name)?,
            Piece::Bytes(bytes) => {
                if let Some(file) = &mut self.file {
                    let lines = bytes.split(|byte| *byte == b'\n').count() - 1;
                    file.records += lines as u64;
                    file.digest.update(&bytes);
                }
                self.writer.write_all(&bytes).map_err(broken)?;
            }
        }
        Ok(self)
    }

    fn begin(&mut self, name: &'static str) -> Result<(), StoreError> {
        if let Some(file) = self.file.take() {
            let digest = hex::encode(file.digest.finalize());
            self.files
                .push(json!({ "name": file.name, "lines": file.records, "sha256": digest }));
        }
        // More than 4 GiB have to be announced.
        let options = self.options.large_file(name.ends_with(".ndjson"));
        self.writer.start_file(name, options).map_err(broken)?;
        self.file = Some(File {
            name,
            records: 0,
            digest: Sha256::new(),
        });
        Ok(())
    }

    /// Adds the list of the files, and returns what is left to send.
    fn finish(mut self: Box<Self>) -> Result<Bytes, StoreError> {
        self.begin(MANIFEST)?;
        let exported_at = changelog_core::Timestamp::from(self.now);
        let manifest = json!({
            "exported_at": exported_at,
            "version": env!("CARGO_PKG_VERSION"),
            "files": self.files,
        });
        writeln!(self.writer, "{manifest:#}").map_err(broken)?;
        self.writer.finish().map_err(broken)?;
        Ok(self.written.take())
    }
}

/// Nothing is expected to fail in memory.
fn broken(error: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
    StoreError::Database(Arc::new(sqlx::Error::Io(io::Error::other(error))))
}
