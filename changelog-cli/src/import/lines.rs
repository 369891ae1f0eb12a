//! Reading NDJSON, JSON and CSV. An invalid line does not stop the others from being
//! read.

use std::ops::Range;

use changelog_core::change::ImportedChange;
use changelog_core::input::{from_json, from_object};
use changelog_core::limits::MAX_BODY_BYTES;
use changelog_core::text::closest;
use changelog_core::{Input, InputError, Invalid, Timestamp, ViolationCode, csv as cells};
use clap::ValueEnum;

use super::{ImportRecord, Rejected, json};
use crate::base::failure::{Failure, Outcome};

/// The largest JSON of the changes in a request, in bytes: the largest body less
/// 1 KiB for what surrounds the changes.
pub(crate) const MAX_CHANGES_JSON: usize = MAX_BODY_BYTES - 1024;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The format of a file of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormat {
    /// One JSON object per line
    #[value(alias = "jsonl")]
    Ndjson,
    /// JSON objects, also in an array or in {"data": […]}, over any number of lines
    Json,
    /// A table with a header
    Csv,
}

impl InputFormat {
    /// Returns the format by a file's extension, or else by its first character.
    pub(crate) fn of(extension: Option<&str>, bytes: &[u8]) -> Self {
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("csv") => return Self::Csv,
            Some("ndjson" | "jsonl") => return Self::Ndjson,
            _ => {}
        }
        let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        match text.trim_ascii_start() {
            [b'[', ..] => Self::Json,
            [b'{', ..] if json::is_document(text) => Self::Json,
            [b'{', ..] | [] => Self::Ndjson,
            _ => Self::Csv,
        }
    }
}

/// The lines of an input.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    pub(crate) records: Vec<ImportRecord>,
    pub(crate) rejected: Vec<Rejected>,
    /// The bytes of the header of a table.
    pub(crate) header: Option<Range<usize>>,
}

impl Lines {
    fn add(&mut self, line: u64, span: Range<usize>, read: Result<ImportedChange, InputError>) {
        let read = read.and_then(|record| {
            let size = serde_json::to_vec(&record.change).map_or(0, |json| json.len());
            if size <= MAX_CHANGES_JSON {
                return Ok(record);
            }
            let message = format!("must have at most {MAX_CHANGES_JSON} bytes as JSON, got {size}");
            Err(Invalid::one("", ViolationCode::TooLong, message).into())
        });
        match read {
            Ok(record) => self.records.push(ImportRecord { line, span, record }),
            Err(error) => self.rejected.push(Rejected {
                line,
                span,
                reasons: reasons(error),
            }),
        }
    }
}

fn reasons(error: InputError) -> Vec<String> {
    match error {
        // The decoder saw a single line; the number in the file is printed.
        InputError::Malformed(message) => {
            let message = message.replace("at line 1 column", "at column");
            vec![format!("not a JSON object: {message}")]
        }
        InputError::Invalid(Invalid { violations, more }) => {
            let more = (more > 0).then(|| format!("and {more} more"));
            let reported = violations.iter().map(ToString::to_string);
            reported.chain(more).collect()
        }
    }
}

/// Reads an input.
pub(crate) fn read(bytes: &[u8], format: InputFormat, now: Timestamp) -> Outcome<Lines> {
    match format {
        InputFormat::Ndjson => Ok(ndjson(bytes, now)),
        InputFormat::Json => json(bytes, now),
        InputFormat::Csv => csv(bytes, now),
    }
}

/// Returns the position after the byte order mark.
fn start(bytes: &[u8]) -> usize {
    if bytes.starts_with(BYTE_ORDER_MARK) {
        BYTE_ORDER_MARK.len()
    } else {
        0
    }
}

fn ndjson(bytes: &[u8], now: Timestamp) -> Lines {
    let mut lines = Lines::default();
    let mut at = start(bytes);
    for (number, line) in (1..).zip(bytes[at..].split_inclusive(|byte| *byte == b'\n')) {
        let span = at..at + line.len();
        at = span.end;
        let line = line.trim_ascii();
        if !line.is_empty() {
            lines.add(number, span, from_json(line, now));
        }
    }
    lines
}

fn json(bytes: &[u8], now: Timestamp) -> Outcome<Lines> {
    let spans = json::objects(bytes, start(bytes))
        .map_err(|error| Failure::usage(format!("cannot read the JSON: {error}")))?;
    let mut lines = Lines::default();
    let (mut line, mut at) = (1, 0);
    for span in spans {
        line += bytes[at..span.start]
            .iter()
            .map(|byte| u64::from(*byte == b'\n'))
            .sum::<u64>();
        at = span.start;
        lines.add(line, span.clone(), from_json(&bytes[span], now));
    }
    Ok(lines)
}

fn csv(bytes: &[u8], now: Timestamp) -> Outcome<Lines> {
    let offset = start(bytes);
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(&bytes[offset..]);
    let mut lines = Lines::default();
    let mut columns: Vec<String> = Vec::new();
    let mut row = csv::ByteRecord::new();
    while reader
        .read_byte_record(&mut row)
        .map_err(|error| unreadable(&error))?
    {
        let begin = row.position().map_or(0, csv::Position::byte);
        let end = reader.position().byte();
        let position = |byte: u64| usize::try_from(byte).unwrap_or(usize::MAX).min(bytes.len());
        let mut span = offset + position(begin)..offset + position(end);
        // The reader skips empty lines before the row; they are not part of it.
        let mut line = row.position().map_or(0, csv::Position::line);
        while let Some(b'\n' | b'\r') = bytes[span.clone()].first() {
            line += u64::from(bytes[span.start] == b'\n');
            span.start += 1;
        }
        // The reader stops between the two characters of CR LF.
        if bytes[..span.end].ends_with(b"\r") && bytes[span.end..].starts_with(b"\n") {
            span.end += 1;
        }
        if columns.is_empty() {
            columns = header(&row)?;
            lines.header = Some(span);
            continue;
        }
        lines.add(line, span, read_row(&columns, &row, now));
    }
    if columns.is_empty() && !bytes[offset..].trim_ascii().is_empty() {
        return Err(Failure::usage("the table has no header"));
    }
    Ok(lines)
}

/// Checks the header once, so that a wrong one is not reported with every line.
fn header(row: &csv::ByteRecord) -> Outcome<Vec<String>> {
    let mut columns: Vec<String> = Vec::new();
    for cell in row {
        let name = String::from_utf8_lossy(cell).trim().to_owned();
        if !ImportedChange::FIELDS.contains(&name.as_str()) {
            let suggestion = closest(&name, ImportedChange::FIELDS.iter().copied())
                .map(|known| format!("; did you mean {known}?"))
                .unwrap_or_default();
            return Err(
                Failure::usage(format!("unknown column {name:?}{suggestion}"))
                    .hint(format!("the columns are {}", cells::COLUMNS.join(", "))),
            );
        }
        if columns.contains(&name) {
            return Err(Failure::usage(format!("duplicate column {name}")));
        }
        columns.push(name);
    }
    for needed in ["title", "occurred_at"] {
        if !columns.iter().any(|column| column == needed) {
            return Err(Failure::usage(format!("missing required column {needed}")));
        }
    }
    Ok(columns)
}

fn read_row(
    columns: &[String],
    row: &csv::ByteRecord,
    now: Timestamp,
) -> Result<ImportedChange, InputError> {
    let invalid =
        |message: String| InputError::from(Invalid::one("", ViolationCode::WrongType, message));
    if row.len() != columns.len() {
        let message = format!("expected {} columns, got {}", columns.len(), row.len());
        return Err(invalid(message));
    }
    let cells: Vec<&str> = row
        .iter()
        .map(std::str::from_utf8)
        .collect::<Result<_, _>>()
        .map_err(|_| invalid("must be UTF-8".to_owned()))?;
    let object = cells::object(columns.iter().map(String::as_str).zip(cells));
    Ok(from_object(object, now)?)
}

fn unreadable(error: &csv::Error) -> Failure {
    Failure::usage(format!("cannot read the table: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Outcome<Lines> {
        let now = "2026-11-21T08:30:00.000Z".parse().unwrap();
        super::read(text.as_bytes(), InputFormat::of(None, text.as_bytes()), now)
    }

    #[test]
    fn formats_are_recognized_by_extension_or_first_character() {
        for (extension, text, expected) in [
            (Some("csv"), "{", InputFormat::Csv),
            (Some("JSONL"), "title", InputFormat::Ndjson),
            (Some("rejected"), "\u{feff} {", InputFormat::Ndjson),
            (None, "\u{feff}title", InputFormat::Csv),
            (None, "", InputFormat::Ndjson),
            (None, "{\"a\": 1}\n{\"a\": 2}", InputFormat::Ndjson),
            (None, "{\n", InputFormat::Ndjson),
            (None, "\n[{}]", InputFormat::Json),
            (Some("json"), "{\n\"a\": 1}\n{\n}", InputFormat::Json),
            (None, "{\"data\": [{}]}", InputFormat::Json),
        ] {
            let found = InputFormat::of(extension, text.as_bytes());
            assert_eq!(found, expected, "{extension:?} {text}");
        }
    }

    #[test]
    fn lines_are_numbered_and_kept_as_they_are() {
        let json =
            "\u{feff}{\"title\": \"one\", \"occurred_at\": \"2026-01-01T00:00:00Z\"}\r\n\n{\n";
        let table = "\u{feff}title,occurred_at\r\none,2026-01-01T00:00:00Z\r\n\r\n\"a\nb\",x\r\n";
        for (text, bad) in [(json, "{\n"), (table, "\"a\nb\",x\r\n")] {
            let lines = read(text).unwrap();
            assert_eq!(lines.records.len(), 1);
            assert_eq!(lines.rejected.len(), 1);
            let rejected = &lines.rejected[0];
            assert_eq!(&text[rejected.span.clone()], bad);
            assert_eq!(rejected.line, if text == json { 3 } else { 4 });
        }
    }

    #[test]
    fn objects_are_found_in_arrays_and_in_data() {
        let change = |title: &str| {
            format!(
                "{{\n  \"title\": \"{title}\",\n  \"occurred_at\": \"2026-01-01T00:00:00Z\"\n}}"
            )
        };
        let (one, bad) = (change("One change"), change("x"));
        for text in [
            format!("[{one},\n{bad}]"),
            format!("\u{feff}{{\"count\": 2, \"data\": [{one},\n{bad}], \"x\": {{}}}}"),
            format!("{one}\n{bad}\n"),
            format!("[{one}]\n{{\"data\": {bad}}}"),
        ] {
            let lines = read(&text).unwrap();
            assert_eq!(lines.records.len(), 1, "{text}");
            assert_eq!(lines.records[0].record.change.title, "One change");
            let rejected = &lines.rejected[0];
            assert_eq!(&text[rejected.span.clone()], bad);
            assert_eq!(rejected.line, 5, "{text}");
        }
        assert!(read("[{}, 1]").unwrap().rejected.len() == 2);
        assert!(read("[{\"title\": \"One\"").is_err());
    }

    #[test]
    fn a_header_is_checked_once() {
        for (text, word) in [
            ("title,risk\n", "risk_level"),
            ("title\n", "occurred_at"),
            ("title,title\n", "duplicate"),
        ] {
            let failure = read(text).unwrap_err();
            assert!(format!("{failure:?}").contains(word), "{text}");
        }
        let lines = read("title,occurred_at\none\n").unwrap();
        assert_eq!(lines.rejected[0].line, 2);
    }
}
