//! The limits of the API, each once.
//!
//! The rules, the OpenAPI document, the SDK, `chlog` and the dashboard use these
//! constants. Lengths of text are in characters (Unicode scalar values).

use chrono::TimeDelta;

/// The shortest title of a change, in characters.
pub const MIN_TITLE_CHARS: usize = 3;
/// The longest title of a change, in characters.
pub const MAX_TITLE_CHARS: usize = 300;
/// The longest multi-line text (the description or impact of a change, the
/// description of a service), in characters.
pub const MAX_LONG_TEXT_CHARS: usize = 20_000;
/// The longest name, tag, role or label of a link, in characters.
pub const MAX_NAME_CHARS: usize = 100;
/// The longest URL of a link, in characters.
pub const MAX_URL_CHARS: usize = 2_048;
/// The longest id that incidents have of the senders of their alerts, in characters.
pub const MAX_SENDER_ID_CHARS: usize = 500;
/// The most tags of a change, and the most tags in a filter.
pub const MAX_TAGS: usize = 20;
/// The most services of a change.
pub const MAX_SERVICES: usize = 20;
/// The most links of a change.
pub const MAX_LINKS: usize = 10;

/// The longest token of a connection, in characters.
pub const MAX_TOKEN_CHARS: usize = 1_000;
/// The most values of one condition of a connection's filter.
pub const MAX_FILTER_VALUES: usize = 50;
/// The longest URL of an issuer of tokens, in characters.
pub const MAX_ISSUER_CHARS: usize = 512;
/// The longest audience of a token, in characters.
pub const MAX_AUDIENCE_CHARS: usize = 512;
/// The most claims that a workload identity has.
pub const MAX_CLAIMS: usize = 20;
/// The longest claim of a workload identity, in characters.
pub const MAX_CLAIM_CHARS: usize = 512;
/// The most services that a key may be limited to.
pub const MAX_KEY_SERVICES: usize = 50;

/// The shortest name of a service, in characters.
pub const MIN_SERVICE_NAME_CHARS: usize = 2;
/// The most services that a service depends on.
pub const MAX_DEPENDENCIES: usize = 50;
/// The longest fully qualified domain name of a host, in characters.
pub const MAX_FQDN_CHARS: usize = 253;
/// The longest description of a host, in characters.
pub const MAX_HOST_DESCRIPTION_CHARS: usize = 1_000;
/// The most roles of a host.
pub const MAX_ROLES: usize = 50;

/// The shortest email address, in characters.
pub const MIN_EMAIL_CHARS: usize = 3;
/// The longest email address, in characters.
pub const MAX_EMAIL_CHARS: usize = 254;
/// The shortest password, in characters.
pub const MIN_PASSWORD_CHARS: usize = 12;
/// The longest password, in characters.
pub const MAX_PASSWORD_CHARS: usize = 256;

/// The number of changes on a page by default.
pub const DEFAULT_PER_PAGE: u64 = 25;
/// The most changes on a page; a larger `per_page` is reduced to it.
pub const MAX_PER_PAGE: u64 = 100;
/// The most hosts or services on a page of their list; a larger `limit` is reduced to it.
pub const MAX_ITEMS_PER_PAGE: u64 = 1_000;
/// The most different words in a search; each is a lookup in the index. See
/// [`crate::text::query_words`].
pub const MAX_QUERY_WORDS: usize = 16;
/// The fewest digits of an id by which `text` finds changes: those of one minute.
pub const MIN_ID_PREFIX: usize = 8;
/// The number of entries in a list of the activity log by default.
pub const DEFAULT_ACTIVITY_ENTRIES: u64 = 50;
/// The most entries in a list of the activity log; a larger `limit` is reduced
/// to it.
pub const MAX_ACTIVITY_ENTRIES: u64 = 100;
/// The number of annotations by default.
pub const DEFAULT_ANNOTATIONS: u64 = 200;
/// The most annotations; a larger `max` is reduced to it.
pub const MAX_ANNOTATIONS: u64 = 1_000;
/// The most changes that annotations are made of; older ones are only counted.
pub const MAX_ANNOTATED_CHANGES: u64 = 2_000;
/// The number of suspects by default.
pub const DEFAULT_SUSPECTS: u64 = 20;
/// The most suspects; a larger `limit` is reduced to it.
pub const MAX_SUSPECTS: u64 = 100;
/// The periods in which suspects are searched by default, in minutes: a day, and if
/// nothing of weight is in it, 3 days, then 7.
pub const DEFAULT_WINDOWS_MINUTES: [u64; 3] = [24 * 60, 3 * 24 * 60, MAX_WINDOW_MINUTES];
/// The longest period in which suspects are searched, in minutes: 7 days.
pub const MAX_WINDOW_MINUTES: u64 = 7 * 24 * 60;

/// The largest body of a request, in bytes.
pub const MAX_BODY_BYTES: usize = 256 * 1024;
/// The most changes in one bulk request.
pub const MAX_BULK_CHANGES: usize = 500;
/// The most violations in an error body; further ones are only counted.
pub const MAX_VIOLATIONS: usize = 100;
/// The longest idempotency key, in printable ASCII characters.
pub const MAX_IDEMPOTENCY_KEY_CHARS: usize = 255;
/// How long the server remembers an idempotency key.
pub const IDEMPOTENCY_TTL: TimeDelta = TimeDelta::hours(48);
/// How far `occurred_at` may be after the server time, because clocks differ.
pub const MAX_CLOCK_SKEW: TimeDelta = TimeDelta::minutes(5);
