//! The objects of a JSON document: one after the other, in an array, or in
//! `{"data": […]}` as the API and `chlog list --json` write them.

use std::ops::Range;

use serde::Deserialize;
use serde_json::Deserializer;
use serde_json::value::RawValue;

/// What the API wraps records in.
#[derive(Deserialize)]
struct Wrapped<'a> {
    #[serde(borrow)]
    data: &'a RawValue,
}

/// Returns whether text that begins with an object is a JSON document, and not one object
/// per line.
pub(super) fn is_document(bytes: &[u8]) -> bool {
    let line = bytes.trim_ascii_start().split(|byte| *byte == b'\n').next();
    let line = line.unwrap_or_default();
    if let Ok(value) = serde_json::from_slice::<&RawValue>(line) {
        return serde_json::from_str::<Wrapped<'_>>(value.get()).is_ok();
    }
    // The first object has several lines, if the text is JSON at all.
    let values = Deserializer::from_slice(bytes).into_iter::<&RawValue>();
    let mut values = values.peekable();
    values.peek().is_some() && values.all(|value| value.is_ok())
}

/// Returns where the objects of a document are, from a position on.
pub(super) fn objects(bytes: &[u8], start: usize) -> serde_json::Result<Vec<Range<usize>>> {
    let mut found = Vec::new();
    for value in Deserializer::from_slice(&bytes[start..]).into_iter::<&RawValue>() {
        let value = value?;
        let data = serde_json::from_str::<Wrapped<'_>>(value.get());
        let value = data.map_or(value, |wrapped| wrapped.data);
        match serde_json::from_str::<Vec<&RawValue>>(value.get()) {
            Ok(items) => found.extend(items.into_iter().map(|item| span(bytes, item))),
            Err(_) => found.push(span(bytes, value)),
        }
    }
    Ok(found)
}

/// Returns where a value is in the bytes from which it was read.
fn span(bytes: &[u8], value: &RawValue) -> Range<usize> {
    let start = value.get().as_ptr().addr() - bytes.as_ptr().addr();
    start..start + value.get().len()
}
