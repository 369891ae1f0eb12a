//! `--debug`: requests on standard error, without secrets.

use std::fmt;
use std::io::IsTerminal;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// The variable that has the effect of `--debug`, unless it is empty or 0.
const VARIABLE: &str = "CHLOG_DEBUG";

/// Prints requests from now on, if the flag or the environment says so; otherwise, on a
/// terminal, only that a request without a response is tried again.
pub(crate) fn start(flag: bool) {
    let is_set = |value: std::ffi::OsString| !value.is_empty() && value != "0";
    let level = if flag || std::env::var_os(VARIABLE).is_some_and(is_set) {
        Level::DEBUG
    } else if std::io::stderr().is_terminal() {
        Level::INFO
    } else {
        return;
    };
    let lines = tracing_subscriber::fmt::layer()
        .event_format(Line)
        .with_writer(std::io::stderr);
    // Only the client's own events: those of the HTTP library may have headers.
    let own = Targets::new().with_target("changelog_client", level);
    // Fails only if there is a subscriber already.
    let _ = tracing_subscriber::registry()
        .with(own)
        .with(lines)
        .try_init();
}

/// A message on a line.
struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut message = String::new();
        context.format_fields(Writer::new(&mut message), event)?;
        let message = changelog_core::text::printable(&message);
        match *event.metadata().level() {
            Level::DEBUG => writeln!(writer, "debug: {message}"),
            _ => writeln!(writer, "{message}"),
        }
    }
}
