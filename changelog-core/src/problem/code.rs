//! The kinds of problems, and what each means.

use crate::wire_enum::wire_enum;

wire_enum! {
    /// The kind of a problem; each has one HTTP status.
    ProblemCode, "a problem code", example "validation_failed" {
        /// 400: the body is not JSON.
        MalformedBody = "malformed_body",
        /// 400: a query parameter or the query string is malformed.
        MalformedQuery = "malformed_query",
        /// 400: an id in the path is not a UUID.
        MalformedId = "malformed_id",
        /// 400: a header is malformed.
        MalformedHeader = "malformed_header",
        /// 401: no valid key, or no valid session.
        Unauthorized = "unauthorized",
        /// 403: the organization's plan does not include the API.
        PlanRequired = "plan_required",
        /// 403: the key does not have the scope that the request needs.
        ScopeRequired = "scope_required",
        /// 403: the key may not record this change.
        OutOfBounds = "out_of_bounds",
        /// 403: the user's role does not allow this.
        Forbidden = "forbidden",
        /// 403: the organization has reached its quota.
        QuotaExceeded = "quota_exceeded",
        /// 403: a browser sent this from another site.
        CrossSite = "cross_site",
        /// 404: not found in this organization.
        NotFound = "not_found",
        /// 405: the path exists, the method does not.
        MethodNotAllowed = "method_not_allowed",
        /// 408: the body did not arrive in time.
        RequestTimeout = "request_timeout",
        /// 409: the name is taken.
        Conflict = "conflict",
        /// 409: the first request with this idempotency key is still running.
        IdempotencyInProgress = "idempotency_in_progress",
        /// 413: the body is over the limit.
        PayloadTooLarge = "payload_too_large",
        /// 415: the body is not declared as the type that is expected.
        UnsupportedMediaType = "unsupported_media_type",
        /// 422: the body breaks rules; `errors` names each.
        ValidationFailed = "validation_failed",
        /// 422: the idempotency key was used with another body.
        IdempotencyKeyReused = "idempotency_key_reused",
        /// 429: too many requests.
        TooManyRequests = "too_many_requests",
        /// 500: an internal error.
        Internal = "internal",
        /// 501: the body has a transfer encoding that the service does not know.
        NotImplemented = "not_implemented",
        /// 503: the database does not answer, or too much work is waiting.
        Unavailable = "unavailable",
        /// 503: the service could not confirm in time whether the request took effect.
        OutcomeUnknown = "outcome_unknown",
    }
}

/// What a problem code means, for programs and for readers.
struct Meaning {
    status: u16,
    title: &'static str,
    cause: &'static str,
    remedy: &'static str,
}

impl ProblemCode {
    /// Returns the HTTP status that goes with this code.
    pub fn status(&self) -> u16 {
        self.meaning().status
    }

    /// Returns the short summary that is the same for every problem of this kind.
    pub fn title(&self) -> &'static str {
        self.meaning().title
    }

    /// Returns what causes problems of this kind, in one or more sentences.
    pub fn cause(&self) -> &'static str {
        self.meaning().cause
    }

    /// Returns what the caller can do about it, in one or more sentences.
    pub fn remedy(&self) -> &'static str {
        self.meaning().remedy
    }

    /// Everything that is said about the codes; words in backticks are code.
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn meaning(&self) -> Meaning {
        let meaning = |status, title, cause, remedy| Meaning {
            status,
            title,
            cause,
            remedy,
        };
        match self {
            Self::MalformedBody => meaning(
                400,
                "The body is not valid JSON",
                "The body is not JSON in UTF-8: it is empty or cut off, it has something after \
                 its end, or an object has a member twice.",
                "`detail` says what is wrong and where. Let a JSON library write the body; in a \
                 shell, `jq -n` quotes what variables contain.",
            ),
            Self::MalformedQuery => meaning(
                400,
                "The query string is malformed",
                "A parameter is unknown, is given twice, or has a value that it does not take.",
                "`errors` names each parameter and what it takes. Percent-encode values, as \
                 `curl -G --data-urlencode` does: a `+` in a time is otherwise read as a space.",
            ),
            Self::MalformedId => meaning(
                400,
                "The id is malformed",
                "The id in the path is not a UUID with hyphens.",
                "Use the `id` of a record. Names and shortened ids are no ids here: look them up in \
                 the list first.",
            ),
            Self::MalformedHeader => meaning(
                400,
                "A header is malformed",
                "A header has a value that it does not take, such as an `Idempotency-Key` that is \
                 empty or too long, a `Last-Event-ID` that is no position of a stream or too old, \
                 or a second `Host`.",
                "`detail` names the header and what it takes. A stream that cannot be continued \
                 is started again without `Last-Event-ID`.",
            ),
            Self::Unauthorized => meaning(
                401,
                "Authentication is required",
                "The request has no valid API key: `x-api-key` is missing, mistyped, unknown, \
                 expired or revoked, which are not told apart. The activity log takes the \
                 session of a signed-in person instead, and no key.",
                "Send a key that is valid; `chlog doctor` checks yours. Members see the keys, with \
                 their states, in the settings of the dashboard; owners and admins make new ones.",
            ),
            Self::PlanRequired => meaning(
                403,
                "The plan does not include the API",
                "The key is valid, but its organization has a plan without the API.",
                "Ask the operator of the service for the plan `pro`. The dashboard works on every \
                 plan.",
            ),
            Self::ScopeRequired => meaning(
                403,
                "The key does not have the scope",
                "The key is valid, but was made without the scope that this request needs: `read` \
                 for everything that is read, `record` for changes, `admin` for hosts and services.",
                "`detail` names the scope. Use a key that has it: the scopes of a key never change, \
                 so make another one in the settings of the dashboard or with \
                 `changelog-server key create --scope`. `GET /api/key` says what a key may do.",
            ),
            Self::OutOfBounds => meaning(
                403,
                "The key may not record this",
                "The key may record changes and incidents in some environments or of some services \
                 only, and this is not one of them. An update is refused if the change or the \
                 incident is not one of them before or after it.",
                "`detail` says what the key may record and what was given. Correct the environment \
                 and the services, or use another key. `GET /api/key` says what a key \
                 may do.",
            ),
            Self::Forbidden => meaning(
                403,
                "The role does not allow this",
                "The role of the signed-in person does not include this action.",
                "Ask an owner or an admin to do it, or to change your role.",
            ),
            Self::QuotaExceeded => meaning(
                403,
                "The organization has as many as it may have",
                "The organization has reached the number of hosts, services, members or API keys \
                 that the operator allows.",
                "Have the operator raise the limit, with the flag that `detail` names. Before \
                 pipelines create hosts or services, let them look for existing ones.",
            ),
            Self::CrossSite => meaning(
                403,
                "Requests from other sites are refused",
                "A browser sent a form of the dashboard from a page of another site, or from \
                 another address than the public URL of the service.",
                "Open the dashboard at its public URL and send the form there. Programs use the \
                 API with a key.",
            ),
            Self::NotFound => meaning(
                404,
                "Not found",
                "The organization of the key has no record with this id, or the path does not \
                 exist. Records of other organizations are not found either.",
                "Check the id, and that the key is of the right organization: `GET /api/key` names \
                 it. Paths have no version and no trailing slash.",
            ),
            Self::MethodNotAllowed => meaning(
                405,
                "The method is not allowed here",
                "The path exists, but not with this method.",
                "Use one of the methods in the header `Allow`. Records are updated by `PATCH`; \
                 changes are deleted in the dashboard only.",
            ),
            Self::RequestTimeout => meaning(
                408,
                "The body did not arrive in time",
                "The body of the request was not complete within the time that `detail` names.",
                "Send the request again, with the same `Idempotency-Key`. If it repeats, check the \
                 `Content-Length` and what is between you and the service.",
            ),
            Self::Conflict => meaning(
                409,
                "The name is taken",
                "Another host or service of the organization has this name, without regard to the \
                 case of ASCII letters.",
                "Use the existing record, which the list has, or another name.",
            ),
            Self::IdempotencyInProgress => meaning(
                409,
                "The first request with this key is still running",
                "A create with the same `Idempotency-Key` was sent before and is not finished.",
                "Send it again after the seconds in `Retry-After`: the answer is then that of the \
                 first request.",
            ),
            Self::PayloadTooLarge => meaning(
                413,
                "The body is too large",
                "The body of the request is larger than the limit that `detail` names.",
                "Send fewer changes at once, and link to long logs instead of including them.",
            ),
            Self::UnsupportedMediaType => meaning(
                415,
                "The content type is not supported",
                "The body is not declared as `application/json`, or it is compressed.",
                "Send `Content-Type: application/json` and no `Content-Encoding`; `curl -d` alone \
                 declares a form.",
            ),
            Self::ValidationFailed => meaning(
                422,
                "Validation failed",
                "The body is JSON, but breaks rules: a value outside of its limits, an unknown \
                 field, or an id or a name that the organization does not have. Nothing was \
                 recorded.",
                "`errors` has all violations at once: the place (`pointer`), the rule (`code`), the \
                 limit and what was given. Correct all of them, then send the request again.",
            ),
            Self::IdempotencyKeyReused => meaning(
                422,
                "The idempotency key was used for another request",
                "The `Idempotency-Key` was used before, with another body. Nothing was recorded.",
                "Use a new key for each new record, such as the id of the pipeline run with the \
                 name of the step. Repeat a request with exactly the same body.",
            ),
            Self::TooManyRequests => meaning(
                429,
                "Too many requests",
                "The key or the address has sent too many requests, or the organization has too \
                 many of them running, too many open streams, or too many large answers unread. \
                 Nothing was done.",
                "Wait for the seconds in `Retry-After`. The headers `RateLimit-Policy` and \
                 `RateLimit` say how many requests are left. Record many changes with one request \
                 to `/api/changes/bulk`.",
            ),
            Self::Internal | Self::Unknown(_) => meaning(
                500,
                "The service failed",
                "The service has a fault.",
                "Tell the operator the `request_id`: the log of the service has the cause under \
                 it. Repeat a create with the same `Idempotency-Key` only.",
            ),
            Self::NotImplemented => meaning(
                501,
                "The transfer encoding is not supported",
                "The request has a `Transfer-Encoding` other than `chunked`.",
                "Send the body as it is, with a `Content-Length` or in chunks.",
            ),
            Self::Unavailable => meaning(
                503,
                "The service is unavailable",
                "The database does not answer, or too much work is waiting. Nothing was recorded.",
                "Send the request again after the seconds in `Retry-After`, with the same \
                 `Idempotency-Key`. `chlog` keeps a change meanwhile and sends it later. \
                 `GET /api/health` says whether the service works again.",
            ),
            Self::OutcomeUnknown => meaning(
                503,
                "The outcome is unknown",
                "The database did not confirm in time that it has written the request, which may \
                 have been recorded or not.",
                "Send a create again after the seconds in `Retry-After`, with the same \
                 `Idempotency-Key`: it is recorded once. Before you repeat anything else, look \
                 whether it took effect.",
            ),
        }
    }
}
