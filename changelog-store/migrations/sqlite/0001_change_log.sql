-- The schema on SQLite. The PostgreSQL migration with the same number creates
-- the same tables and columns. Keys and indexes differ, and so does the search
-- index: see docs/decisions/sort-key.md and docs/decisions/search.md.
--
-- Ids are 16-byte UUIDs, times are milliseconds since 1970 in UTC, lists are
-- JSON. `*_folded` columns hold a name in the form in which names are compared.

-- Changes have events from the first connection or subscription on: `has_receivers` is 1.
CREATE TABLE organizations (
    id            BLOB NOT NULL PRIMARY KEY,
    name          TEXT NOT NULL,
    plan          TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    has_receivers INTEGER NOT NULL DEFAULT 0
) STRICT;

-- User accounts. `vouched_by` is the organization whose invitation created the
-- account and which vouches for the email address; NULL means the operator.
-- `time_zone` is the name of the zone that mails are written for.
-- `password_hash` is empty for an account that was made by a sign-in of an identity
-- provider: it has no password.
-- An address can have one account for each organization that vouches for it, so
-- that no organization can claim an address before the others. There is no
-- foreign key because on PostgreSQL `users` is not distributed by organization.
CREATE TABLE users (
    id            BLOB NOT NULL PRIMARY KEY,
    email         TEXT NOT NULL,
    email_folded  TEXT NOT NULL,
    name          TEXT NOT NULL,
    password_hash TEXT NOT NULL,
    vouched_by    BLOB,
    created_at    INTEGER NOT NULL,
    time_zone     TEXT
) STRICT;
CREATE INDEX users_by_email ON users (email_folded, created_at, id);
CREATE INDEX users_by_voucher ON users (email_folded, vouched_by, id);
CREATE UNIQUE INDEX users_of_operator ON users (email_folded) WHERE vouched_by IS NULL;

-- `emergency_seen_at` is when an owner has marked the uses of the emergency door as seen.
CREATE TABLE memberships (
    organization_id BLOB NOT NULL REFERENCES organizations (id),
    user_id         BLOB NOT NULL REFERENCES users (id),
    role            TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    emergency_seen_at INTEGER,
    PRIMARY KEY (organization_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX memberships_by_user ON memberships (user_id, created_at);

-- Open invitations. Only the SHA-256 of the token in the link is stored. An invitation by the
-- operator has no `inviter_id`.
CREATE TABLE invitations (
    organization_id BLOB NOT NULL REFERENCES organizations (id),
    id              BLOB NOT NULL,
    email           TEXT NOT NULL,
    email_folded    TEXT NOT NULL,
    role            TEXT NOT NULL,
    token_hash      BLOB NOT NULL UNIQUE,
    invited_by      TEXT NOT NULL,
    inviter_id      BLOB,
    created_at      INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, email_folded)
) STRICT;
CREATE INDEX invitations_by_expiry ON invitations (expires_at);

-- `method` is how the person signed in: 'password', 'sso' or 'proxy'. `provider_sid` is the
-- id that the identity provider has given the session, by which it can end it.
CREATE TABLE sessions (
    token_hash      BLOB NOT NULL PRIMARY KEY,
    user_id         BLOB NOT NULL REFERENCES users (id),
    organization_id BLOB NOT NULL,
    user_agent      TEXT,
    created_at      INTEGER NOT NULL,
    last_seen_at    INTEGER NOT NULL,
    method          TEXT NOT NULL DEFAULT 'password',
    provider_sid    TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_by_user ON sessions (user_id, organization_id, method);
CREATE INDEX sessions_of_organization ON sessions (organization_id, method, provider_sid);
CREATE INDEX sessions_by_age ON sessions (last_seen_at);

-- The identity providers by which people sign in (OpenID Connect), one for each organization at
-- most. `client_secret` is encrypted. `group_roles` is a list of groups with their roles in
-- JSON. If `is_required` is 1, passwords do not work in the organization, but for that of the
-- owner `emergency_user_id`, whose last use is the emergency columns. `has_own_redirect`:
-- see `SsoRedirect`. `allows_insecure` is 1 if the operator lets this issuer be http, and in
-- networks that only the server reaches.
CREATE TABLE sso_providers (
    organization_id    BLOB NOT NULL PRIMARY KEY REFERENCES organizations (id),
    issuer             TEXT NOT NULL,
    client_id          TEXT NOT NULL,
    client_secret      BLOB NOT NULL,
    default_role       TEXT,
    groups_claim       TEXT NOT NULL,
    group_roles        TEXT NOT NULL,
    is_required        INTEGER NOT NULL,
    emergency_user_id  BLOB,
    emergency_used_at  INTEGER,
    emergency_used_by  TEXT,
    has_own_redirect   INTEGER NOT NULL,
    allows_insecure    INTEGER NOT NULL,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The people whom identity providers know: the subject that the issuer calls a person by is
-- an account. An organization's provider speaks for this organization only.
CREATE TABLE sso_identities (
    organization_id BLOB NOT NULL REFERENCES organizations (id),
    issuer          TEXT NOT NULL,
    subject         TEXT NOT NULL,
    user_id         BLOB NOT NULL REFERENCES users (id),
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (organization_id, issuer, subject)
) STRICT, WITHOUT ROWID;
CREATE INDEX sso_identities_by_user ON sso_identities (user_id, organization_id);

-- What works only once: the states of sign-ins and the ids of logout tokens, by their
-- SHA-256, until they have expired.
CREATE TABLE sso_used (
    organization_id BLOB NOT NULL REFERENCES organizations (id),
    token_hash      BLOB NOT NULL,
    used_at         INTEGER NOT NULL,
    PRIMARY KEY (organization_id, token_hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX sso_used_by_age ON sso_used (used_at);

-- The addresses of feeds, one for each member at most, by the SHA-256 of their token.
CREATE TABLE feeds (
    organization_id BLOB NOT NULL,
    user_id         BLOB NOT NULL,
    token_hash      BLOB NOT NULL UNIQUE,
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (organization_id, user_id)
) STRICT, WITHOUT ROWID;

-- Who wants to be notified of the changes of a service, and of which at least. `mail` is
-- 'none', 'instant' or 'daily'. Like memberships, with which they are joined, these three
-- tables are not about what an organization records.
CREATE TABLE subscriptions (
    organization_id BLOB NOT NULL,
    service_id      BLOB NOT NULL,
    user_id         BLOB NOT NULL,
    min_risk        TEXT NOT NULL,
    mail            TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (organization_id, user_id, service_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX subscriptions_by_service ON subscriptions (organization_id, service_id, user_id);

-- The last event of a change or an incident that a person is notified of. `level` is the risk
-- of the change or the severity of the incident. `mail` is the mailbox that is to send it, NULL
-- if none is; `mailing` is the attempt that has taken it. Mails list incidents first.
CREATE TABLE notifications (
    organization_id BLOB NOT NULL,
    user_id         BLOB NOT NULL,
    subject_id      BLOB NOT NULL,
    is_incident     INTEGER NOT NULL,
    kind            TEXT NOT NULL,
    title           TEXT NOT NULL,
    level           TEXT NOT NULL,
    status          TEXT NOT NULL,
    services        TEXT NOT NULL,
    actor           TEXT NOT NULL,
    at              INTEGER NOT NULL,
    is_unread       INTEGER NOT NULL,
    mail            TEXT,
    mailing         BLOB,
    PRIMARY KEY (organization_id, user_id, subject_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX notifications_by_person ON notifications (organization_id, user_id, is_unread, at);
CREATE INDEX notifications_to_mail ON notifications (organization_id, user_id, mail, is_incident, at)
    WHERE mail IS NOT NULL;
CREATE INDEX notifications_by_age ON notifications (at);

-- The mails that a person gets, by `mail` as in `subscriptions`. One is due at `due_at`;
-- while a server sends it, that is when its claim ends. `attempts` counts the claims, and
-- is what fences off a server whose claim has ended. `failures` counts those since the last
-- success. `token` is that of the link that unsubscribes, kept as it is because every mail
-- has it: it allows nothing else.
CREATE TABLE mailboxes (
    organization_id BLOB NOT NULL,
    user_id         BLOB NOT NULL,
    mail            TEXT NOT NULL,
    token           TEXT NOT NULL UNIQUE,
    due_at          INTEGER,
    attempts        INTEGER NOT NULL,
    failures        INTEGER NOT NULL,
    sent_at         INTEGER,
    problem         TEXT,
    PRIMARY KEY (organization_id, user_id, mail)
) STRICT, WITHOUT ROWID;
CREATE INDEX mailboxes_due ON mailboxes (due_at) WHERE due_at IS NOT NULL;

-- Failed sign-ins. `bucket` is the SHA-256 of what failures are counted by.
CREATE TABLE sign_in_failures (
    bucket         BLOB NOT NULL PRIMARY KEY,
    failures       INTEGER NOT NULL,
    last_failed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sign_in_failures_by_age ON sign_in_failures (last_failed_at);

-- Browsers that have signed in to an account, by the SHA-256 of their token.
CREATE TABLE known_browsers (
    user_id    BLOB NOT NULL REFERENCES users (id),
    token_hash BLOB NOT NULL,
    used_at    INTEGER NOT NULL,
    PRIMARY KEY (user_id, token_hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX known_browsers_by_token ON known_browsers (token_hash, used_at);
CREATE INDEX known_browsers_by_age ON known_browsers (used_at);

-- `permissions` is JSON: scopes, and the bounds of what the key may record.
CREATE TABLE api_keys (
    id              BLOB NOT NULL PRIMARY KEY,
    organization_id BLOB NOT NULL,
    name            TEXT NOT NULL,
    key_hash        BLOB NOT NULL UNIQUE,
    masked          TEXT NOT NULL,
    permissions     TEXT NOT NULL,
    created_by      TEXT,
    created_at      INTEGER NOT NULL,
    expires_at      INTEGER,
    revoked_at      INTEGER,
    last_used_at    INTEGER
) STRICT;
CREATE INDEX api_keys_by_organization ON api_keys (organization_id, id);
CREATE INDEX api_keys_in_use ON api_keys (organization_id) WHERE revoked_at IS NULL;

-- Which pipelines may act without a key, by tokens of their own system. `lookup` is made of the
-- issuer, the audience and the claim that says whose jobs they are: by it the bindings are found
-- that a token may fit; by `hint_lookup` those whose tokens may be told why they do not fit.
-- `claims` and `permissions` are JSON.
CREATE TABLE workloads (
    id              BLOB NOT NULL PRIMARY KEY,
    organization_id BLOB NOT NULL,
    name            TEXT NOT NULL,
    name_folded     TEXT NOT NULL,
    issuer          TEXT NOT NULL,
    audience        TEXT NOT NULL,
    claims          TEXT NOT NULL,
    is_insecure     INTEGER NOT NULL,
    lookup          BLOB NOT NULL,
    hint_lookup     BLOB NOT NULL,
    permissions     TEXT NOT NULL,
    created_by      TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    last_used_at    INTEGER,
    refused_at      INTEGER,
    refused_reason  TEXT,
    UNIQUE (organization_id, name_folded)
) STRICT;
CREATE INDEX workloads_by_lookup ON workloads (lookup);
CREATE INDEX workloads_by_hint ON workloads (organization_id, hint_lookup, id);

-- `reference` is the JSON that a change shows of its service or host.
CREATE TABLE services (
    organization_id BLOB NOT NULL,
    id              BLOB NOT NULL,
    name            TEXT NOT NULL,
    name_folded     TEXT NOT NULL,
    description     TEXT,
    color           TEXT NOT NULL,
    depends_on      TEXT NOT NULL,
    reference       TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, name_folded)
) STRICT;

-- What `services.depends_on` lists, for looking up both directions. Services may
-- depend on each other in a circle.
CREATE TABLE service_dependencies (
    organization_id BLOB NOT NULL,
    service_id      BLOB NOT NULL,
    depends_on_id   BLOB NOT NULL,
    PRIMARY KEY (organization_id, service_id, depends_on_id),
    FOREIGN KEY (organization_id, service_id) REFERENCES services (organization_id, id),
    FOREIGN KEY (organization_id, depends_on_id) REFERENCES services (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX service_dependencies_by_dependency ON service_dependencies
    (organization_id, depends_on_id, service_id);

CREATE TABLE hosts (
    organization_id BLOB NOT NULL,
    id              BLOB NOT NULL,
    hostname        TEXT NOT NULL,
    hostname_folded TEXT NOT NULL,
    fqdn            TEXT,
    ip_address      TEXT,
    os              TEXT,
    platform        TEXT NOT NULL,
    environment     TEXT,
    roles           TEXT NOT NULL,
    description     TEXT,
    reference       TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, hostname_folded)
) STRICT;

-- The folded words of the names of services and hosts. `kind` is 'service' or 'host',
-- and `id` is of a row of that table.
CREATE TABLE catalog_words (
    organization_id BLOB NOT NULL,
    kind            TEXT NOT NULL,
    word            TEXT NOT NULL,
    id              BLOB NOT NULL,
    PRIMARY KEY (organization_id, kind, word, id)
) STRICT, WITHOUT ROWID;

-- `document` is the change as the API returns it, except for service and host,
-- whose names can change. The other columns are those that changes are found by.
-- `sort_key` is the place in lists: the milliseconds of the effective time (when the
-- change was started, or else for when it was recorded) and twenty bits of the id. It
-- is the 64-bit form of the id unless the change was started at another time than it
-- was recorded for: then `moved_id` is its id. As the row's own number it ends every
-- index in the order of lists, and it is the row number in the full-text index.
-- `undone_at` is when it was rolled back without having failed; `author_key` is the
-- person who recorded it, in the form of `activity_actors.actor_key`;
-- `more_service_ids` are the services after the first, `agent` is the name of the automation.
CREATE TABLE changes (
    sort_key         INTEGER PRIMARY KEY,
    organization_id  BLOB NOT NULL,
    id               BLOB NOT NULL,
    risk_level       TEXT NOT NULL,
    status           TEXT NOT NULL,
    service_id       BLOB,
    host_id          BLOB,
    scheduled_for    INTEGER,
    moved_id         BLOB,
    title            TEXT NOT NULL,
    environment      TEXT,
    ended_at         INTEGER,
    outcome          TEXT,
    undone_at        INTEGER,
    more_service_ids TEXT,
    agent            TEXT,
    author_key       TEXT,
    document         TEXT NOT NULL,
    FOREIGN KEY (organization_id, service_id) REFERENCES services (organization_id, id),
    FOREIGN KEY (organization_id, host_id) REFERENCES hosts (organization_id, id)
) STRICT;
CREATE INDEX changes_by_organization ON changes (organization_id);
CREATE INDEX changes_by_risk ON changes (organization_id, risk_level);
CREATE INDEX changes_by_status ON changes (organization_id, status);
CREATE INDEX changes_by_risk_and_status ON changes (organization_id, risk_level, status);
CREATE INDEX changes_by_service ON changes (organization_id, service_id)
    WHERE service_id IS NOT NULL;
CREATE INDEX changes_by_host ON changes (organization_id, host_id)
    WHERE host_id IS NOT NULL;
CREATE INDEX changes_by_schedule ON changes (organization_id, scheduled_for)
    WHERE scheduled_for IS NOT NULL AND status = 'planned';

-- Finds the changes of a time that were undone.
CREATE INDEX changes_undone ON changes (organization_id, sort_key, undone_at)
    WHERE undone_at IS NOT NULL;

-- Finds the changes whose sort key does not follow from their id.
CREATE UNIQUE INDEX changes_moved ON changes (organization_id, moved_id)
    WHERE moved_id IS NOT NULL;

-- The services of a change after the first, which is in `changes`, with their places.
CREATE TABLE change_services (
    organization_id BLOB NOT NULL,
    service_id      BLOB NOT NULL,
    sort_key        INTEGER NOT NULL,
    place           INTEGER NOT NULL,
    PRIMARY KEY (organization_id, service_id, sort_key),
    FOREIGN KEY (organization_id, service_id) REFERENCES services (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX change_services_by_change ON change_services (organization_id, sort_key, place);

CREATE TABLE change_tags (
    organization_id BLOB NOT NULL,
    tag             TEXT NOT NULL,
    sort_key        INTEGER NOT NULL,
    PRIMARY KEY (organization_id, tag, sort_key)
) STRICT, WITHOUT ROWID;

-- How many changes there are by scope (`organization`, `service/ID`, `host/ID`,
-- `tag/TAG`, `author/ID`), time span, risk, status and environment ('' without one). The scope
-- `all` is the organization with every risk, status and environment together, '' each.
-- `span` is the length of the span in milliseconds and `start` the number of the span since 1970. Span 0 is all
-- time. Days of services and hosts have the span -86400000: if they had that of
-- the organization's days, PostgreSQL, which takes scope and span for
-- independent, would overestimate the organization's days by far. `slot` spreads
-- concurrent writers on PostgreSQL; SQLite has one writer and uses slot 0.
CREATE TABLE change_counts (
    organization_id BLOB NOT NULL,
    scope           TEXT NOT NULL,
    span            INTEGER NOT NULL,
    start           INTEGER NOT NULL,
    risk_level      TEXT NOT NULL,
    status          TEXT NOT NULL,
    environment     TEXT NOT NULL,
    slot            INTEGER NOT NULL,
    n               INTEGER NOT NULL,
    PRIMARY KEY (organization_id, scope, span, start, risk_level, status, environment, slot)
) STRICT, WITHOUT ROWID;
-- The days of all services. With a range of scopes as the condition, SQLite would
-- choose the primary key and read the days of all years.
CREATE INDEX change_counts_by_day ON change_counts (organization_id, span, start, scope)
    WHERE span = -86400000 AND substr(scope, 1, 8) = 'service/';

-- How many changes happened in each hour, by the first service ('00…' for those without one):
-- every change is in one row. `hour` is the number of hours since 1970, `undone` how many of
-- the `n` changes were rolled back, and `slot` is as in `change_counts`.
CREATE TABLE change_hours (
    organization_id BLOB NOT NULL,
    hour            INTEGER NOT NULL,
    service_id      BLOB NOT NULL,
    slot            INTEGER NOT NULL,
    n               INTEGER NOT NULL,
    undone          INTEGER NOT NULL,
    PRIMARY KEY (organization_id, hour, service_id, slot)
) STRICT, WITHOUT ROWID;

-- The words of titles and tags, and the facets that changes are filtered by. Each
-- begins with its organization, so that a search costs what the organization's
-- own changes cost. The service folds the words; the ascii tokenizer only splits
-- at spaces.
CREATE VIRTUAL TABLE change_search USING fts5 (
    words, content = '', contentless_delete = 1, detail = none,
    tokenize = 'ascii tokenchars '':'''
);
-- The distinct words of the index.
CREATE VIRTUAL TABLE change_search_words USING fts5vocab (change_search, row);

-- `actor_id` is the user, NULL for an API key, a source and the operator. `key_id` is
-- the API key or the source, NULL for a user and the operator. `address` is the caller's IP address as
-- text, NULL for the operator. The primary key begins with the type, so that an
-- entry is found by its type without another index: creating a change with an API
-- key writes to none of the indexes below.
CREATE TABLE activity (
    organization_id BLOB NOT NULL,
    id              BLOB NOT NULL,
    actor_id        BLOB,
    key_id          BLOB,
    actor_name      TEXT NOT NULL,
    action          TEXT NOT NULL,
    resource_type   TEXT NOT NULL,
    resource_id     BLOB NOT NULL,
    resource_label  TEXT NOT NULL,
    metadata        TEXT NOT NULL,
    address         TEXT,
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (organization_id, resource_type, id)
) STRICT, WITHOUT ROWID;
-- What people did, and what API keys did except to changes, which are found by the
-- primary key. `actor_id` is the last column of the second index so that SQLite
-- recognizes it as a covering index.
CREATE INDEX activity_by_person ON activity
    (organization_id, actor_id, resource_type, id, action)
    WHERE actor_id IS NOT NULL;
CREATE INDEX activity_by_key ON activity (organization_id, resource_type, id, actor_id)
    WHERE actor_id IS NULL AND resource_type <> 'change';
-- What is rare: deletions, sign-ins, revoked keys and changed roles. Creating or updating
-- a change does not write to this index.
CREATE INDEX activity_by_action ON activity
    (organization_id, action, resource_type, id, actor_id, key_id)
    WHERE action <> 'created' AND action <> 'updated';
-- The history of one resource. Its creation is found by the time in its id, so
-- that creating a change does not write to this index. `action` is the last
-- column so that SQLite recognizes it as a covering index.
CREATE INDEX activity_by_thing ON activity
    (organization_id, resource_id, resource_type, id, action)
    WHERE action <> 'created';

-- The distinct actors of the activity log. `actor_key` is the user's id, or the
-- actor's name for an API key, because a part of a primary key cannot be NULL.
-- `reference` is the JSON by which changes show a person that recorded them.
CREATE TABLE activity_actors (
    organization_id BLOB NOT NULL,
    actor_key       TEXT NOT NULL,
    actor_id        BLOB,
    actor_name      TEXT NOT NULL,
    reference       TEXT,
    PRIMARY KEY (organization_id, actor_key)
) STRICT, WITHOUT ROWID;

-- Filters of the list of changes that were saved under a name. `owner` is the id of the
-- user, '' for a view that the organization shares. `query` is the query string.
CREATE TABLE saved_views (
    organization_id BLOB NOT NULL,
    id              BLOB NOT NULL,
    owner           TEXT NOT NULL,
    name            TEXT NOT NULL,
    name_folded     TEXT NOT NULL,
    query           TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, owner, name_folded)
) STRICT;

-- What happened to changes, written in the transaction of the change, one row however
-- many receivers there are. `sequence` orders the events of one change. `document` is
-- the event as JSON; that of a creation has no names of services and host until it was
-- queued. `is_new` is 1 until the deliveries are queued, then NULL.
CREATE TABLE events (
    sequence        INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id BLOB NOT NULL,
    document        TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    is_new          INTEGER
) STRICT;
CREATE INDEX events_new ON events (organization_id, sequence) WHERE is_new = 1;
CREATE INDEX events_by_age ON events (created_at);

-- Connections to receivers. `target` is where they send, with all secrets, encrypted;
-- `address` is what the dashboard shows of it. `failing_since` is when the first of the
-- failures since the last success was. Before `hold_until` nothing is sent, because the
-- receiver has asked for a pause or takes a limited number a second.
CREATE TABLE connections (
    organization_id BLOB NOT NULL,
    id              BLOB NOT NULL,
    kind            TEXT NOT NULL,
    name            TEXT NOT NULL,
    name_folded     TEXT NOT NULL,
    address         TEXT NOT NULL,
    target          BLOB NOT NULL,
    filter          TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    created_by      TEXT NOT NULL,
    disabled_at     INTEGER,
    disabled_reason TEXT,
    failing_since   INTEGER,
    hold_until      INTEGER,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, name_folded)
) STRICT, WITHOUT ROWID;
-- For public keys and commands, which have only the id.
CREATE INDEX connections_by_id ON connections (id);
-- For finding what is to be sent.
CREATE INDEX connections_enabled ON connections (organization_id, id)
    WHERE disabled_at IS NULL;

-- What is or was sent to each receiver. `subject_id` is what the event is about, whose events
-- are sent in order. `state` is 'pending', 'delivered' or 'dead'.
-- `attempts` counts the attempts, and is what fences off a worker whose claim has
-- expired. A pending delivery is due at `next_at`; if `is_claimed` is 1, a worker sends
-- it, and `next_at` is when its claim expires. If a receiver that fails works again, it is
-- due at `earliest_at`. Deliveries of one `burst` are sent as one message. The last five
-- columns describe the last attempt.
CREATE TABLE deliveries (
    organization_id BLOB NOT NULL,
    connection_id   BLOB NOT NULL,
    sequence        INTEGER NOT NULL,
    subject_id      BLOB NOT NULL,
    service_id      BLOB,
    state           TEXT NOT NULL,
    attempts        INTEGER NOT NULL,
    next_at         INTEGER NOT NULL,
    earliest_at     INTEGER NOT NULL,
    is_claimed      INTEGER NOT NULL,
    burst           TEXT,
    created_at      INTEGER NOT NULL,
    attempted_at    INTEGER,
    duration_ms     INTEGER,
    status          INTEGER,
    answer          TEXT,
    reason          TEXT,
    PRIMARY KEY (organization_id, connection_id, sequence)
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_due ON deliveries (organization_id, connection_id, next_at, sequence)
    WHERE state = 'pending';
CREATE INDEX deliveries_of_subject ON deliveries
    (organization_id, connection_id, subject_id, sequence) WHERE state = 'pending';
CREATE INDEX deliveries_dead ON deliveries (organization_id, connection_id, sequence)
    WHERE state = 'dead';
CREATE INDEX deliveries_by_age ON deliveries (created_at);

-- What receivers call their message about a change or a source, so that later events edit it,
-- and the place of the last event that it shows.
CREATE TABLE receiver_messages (
    organization_id BLOB NOT NULL,
    connection_id   BLOB NOT NULL,
    subject_id      BLOB NOT NULL,
    reference       TEXT NOT NULL,
    sequence        INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    PRIMARY KEY (organization_id, connection_id, subject_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX receiver_messages_by_age ON receiver_messages (updated_at);

-- Where other systems send what changes. The token of the address has the id of the
-- organization, and is stored as its SHA-256; `secret`, by which the sender proves its requests, is encrypted. `settings` is
-- JSON. `refused` counts the requests that did not prove their origin. `confirm_url` is the
-- link by which the sender wants the address to be confirmed. `stored_bytes` is the size of
-- the kept requests that were read.
CREATE TABLE sources (
    organization_id BLOB NOT NULL,
    id              BLOB NOT NULL,
    kind            TEXT NOT NULL,
    name            TEXT NOT NULL,
    name_folded     TEXT NOT NULL,
    token_hash      BLOB NOT NULL,
    secret          BLOB,
    settings        TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    created_by      TEXT NOT NULL,
    disabled_at     INTEGER,
    last_event_at   INTEGER,
    refused         INTEGER NOT NULL DEFAULT 0,
    refused_at      INTEGER,
    refused_reason  TEXT,
    confirm_url     TEXT,
    stored_bytes    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, token_hash),
    UNIQUE (organization_id, name_folded)
) STRICT;
-- For commands, which have only the id.
CREATE INDEX sources_by_id ON sources (id);

-- The requests of sources. `outcome` is 'pending' until the request was read, then
-- 'changed', 'updated', 'ignored', 'duplicate' or 'set_aside'; `reason` says why. The id
-- has the time of arrival. `request_id` is what the sender calls the request. `change_ids`
-- is a JSON list; `incident_id` is for alerts. `headers` has none that prove the origin.
CREATE TABLE source_events (
    organization_id BLOB NOT NULL,
    id              BLOB NOT NULL,
    source_id       BLOB NOT NULL,
    received_at     INTEGER NOT NULL,
    request_id      TEXT,
    headers         TEXT NOT NULL,
    body            BLOB NOT NULL,
    size            INTEGER NOT NULL,
    outcome         TEXT NOT NULL,
    reason          TEXT,
    change_ids      TEXT NOT NULL,
    incident_id     BLOB,
    PRIMARY KEY (organization_id, id)
) STRICT;
CREATE INDEX source_events_pending ON source_events (organization_id, id)
    WHERE outcome = 'pending';
CREATE INDEX source_events_by_source ON source_events (organization_id, source_id, id);
CREATE INDEX source_events_set_aside ON source_events (organization_id, source_id, id)
    WHERE outcome = 'set_aside';
CREATE INDEX source_events_by_request ON source_events
    (organization_id, source_id, request_id, id) WHERE request_id IS NOT NULL;
-- For finding an event by its id alone, as commands do, and the oldest ones.
CREATE INDEX source_events_by_id ON source_events (id);

-- What sources have told of: each operation is one change. `key_hash` is the SHA-256 of what
-- the sender calls the operation, or of a session and its first call; `session` that of the
-- session, NULL if it is none, or if a run explains its calls. `document` is what is known of it,
-- as JSON. `due_at` is when an open session ends unless calls follow, or when a run that
-- explains an ended one is looked for again.
CREATE TABLE source_operations (
    organization_id BLOB NOT NULL,
    source_id       BLOB NOT NULL,
    key_hash        BLOB NOT NULL,
    change_id       BLOB NOT NULL,
    session         BLOB,
    document        TEXT NOT NULL,
    first_at        INTEGER NOT NULL,
    last_at         INTEGER NOT NULL,
    due_at          INTEGER,
    updated_at      INTEGER NOT NULL,
    PRIMARY KEY (organization_id, source_id, key_hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX source_operations_of_session ON source_operations
    (organization_id, source_id, session, last_at) WHERE session IS NOT NULL;
CREATE INDEX source_operations_due ON source_operations (due_at)
    WHERE due_at IS NOT NULL;
CREATE INDEX source_operations_by_age ON source_operations (updated_at);

-- The calls that were counted, by the SHA-256 of what the sender calls them, so that none is
-- counted twice.
CREATE TABLE source_calls (
    organization_id BLOB NOT NULL,
    source_id       BLOB NOT NULL,
    call_hash       BLOB NOT NULL,
    change_id       BLOB NOT NULL,
    seen_at         INTEGER NOT NULL,
    PRIMARY KEY (organization_id, source_id, call_hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX source_calls_by_age ON source_calls (seen_at);

-- What broke. `document` is the incident as the API returns it, except for the name of the
-- service and for `suspects`, which has those that were ranked. `is_open` is 1 or 0. `rank_at`
-- is when the suspects are to be ranked next, NULL if never; `rerank_from` from when on changes
-- that arrive late may lead to that.
CREATE TABLE incidents (
    organization_id BLOB NOT NULL,
    id              BLOB NOT NULL,
    is_open         INTEGER NOT NULL,
    started_at      INTEGER NOT NULL,
    service_id      BLOB,
    cause_change_id BLOB,
    rank_at         INTEGER,
    rerank_from     INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    document        TEXT NOT NULL,
    suspects        TEXT NOT NULL,
    PRIMARY KEY (organization_id, id)
) STRICT;
CREATE INDEX incidents_by_start ON incidents (organization_id, is_open, started_at, id);
CREATE INDEX incidents_by_service ON incidents
    (organization_id, service_id, is_open, started_at, id) WHERE service_id IS NOT NULL;
CREATE INDEX incidents_by_cause ON incidents (organization_id, cause_change_id, id)
    WHERE cause_change_id IS NOT NULL;
CREATE INDEX incidents_to_rank ON incidents (organization_id, rank_at)
    WHERE rank_at IS NOT NULL;
-- For finding the organizations whose incidents are to be ranked.
CREATE INDEX incidents_by_ranking ON incidents (rank_at) WHERE rank_at IS NOT NULL;

-- The alerts of sources, by the SHA-256 of what the sender calls them, with the incident that
-- each has opened last: NULL if it was resolved without having opened one. `severity` is what the
-- sender said last. `last_at` is when the
-- alert came into its present state: a state that is older undoes nothing.
CREATE TABLE incident_alerts (
    organization_id BLOB NOT NULL,
    source_id       BLOB NOT NULL,
    key_hash        BLOB NOT NULL,
    incident_id     BLOB,
    is_firing       INTEGER NOT NULL,
    severity        TEXT,
    last_at         INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    PRIMARY KEY (organization_id, source_id, key_hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX incident_alerts_by_age ON incident_alerts (updated_at);

-- The changes of sources that were deleted because another change has what they had: two
-- sessions that were one, or a run that explains the calls.
CREATE TABLE joined_changes (
    organization_id BLOB NOT NULL,
    change_id       BLOB NOT NULL,
    into_id         BLOB NOT NULL,
    joined_at       INTEGER NOT NULL,
    PRIMARY KEY (organization_id, change_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX joined_changes_by_target ON joined_changes (organization_id, into_id);
CREATE INDEX joined_changes_by_age ON joined_changes (joined_at);

-- When the sources and the API keys that record changes were heard. `rhythm` are the hours
-- of the last eight weeks in which they were, `expected_by` is when they are to be heard again
-- at the latest, NULL while that is learned. `is_missed` is 1 once that was reported. `gaps` are
-- the times without them that have ended, as JSON.
CREATE TABLE rhythms (
    organization_id BLOB NOT NULL,
    id              BLOB NOT NULL,
    is_key          INTEGER NOT NULL,
    last_seen_at    INTEGER NOT NULL,
    rhythm          BLOB NOT NULL,
    expected_by     INTEGER,
    is_missed       INTEGER NOT NULL,
    gaps            TEXT NOT NULL,
    PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX rhythms_by_time ON rhythms (organization_id, is_key, last_seen_at DESC);
CREATE INDEX rhythms_expected ON rhythms (organization_id, expected_by)
    WHERE expected_by IS NOT NULL;
CREATE INDEX rhythms_due ON rhythms (expected_by)
    WHERE is_missed = 0 AND expected_by IS NOT NULL;

-- For how many months organizations keep what they have recorded; one without a row, or with
-- NULL, keeps it for ever. `due_at` is when the next run begins, or during a run when another
-- server may go on with it. `cutoff` is the time before which the run under way deletes, NULL if
-- none is; the last three columns count what it has deleted. What is older than `deleted_until`
-- may be gone.
CREATE TABLE retentions (
    organization_id BLOB NOT NULL PRIMARY KEY,
    months          INTEGER,
    due_at          INTEGER,
    cutoff          INTEGER,
    deleted_until   INTEGER,
    changes         INTEGER NOT NULL DEFAULT 0,
    incidents       INTEGER NOT NULL DEFAULT 0,
    entries         INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX retentions_due ON retentions (due_at) WHERE due_at IS NOT NULL;

-- People whose names are, or were, replaced in what an organization has recorded. `names` are
-- those that are replaced, `[]` when that has ended and `due_at` is NULL. `due_at` is when the run
-- begins, or when another process may go on with it. `stage` is what it goes through, `place` the
-- key of the last row that it has read there, and `replaced` counts the records that had a name.
CREATE TABLE erasures (
    organization_id BLOB NOT NULL,
    user_id         BLOB NOT NULL,
    names           TEXT NOT NULL,
    due_at          INTEGER,
    stage           INTEGER NOT NULL,
    place           TEXT NOT NULL,
    replaced        INTEGER NOT NULL,
    PRIMARY KEY (organization_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX erasures_due ON erasures (due_at) WHERE due_at IS NOT NULL;

-- What requests with an idempotency key created. `scope` is a hash of API key,
-- method, path and idempotency key, after the time in the key if it has one. Rows
-- are appended, so that only the index on the scope is written at random pages,
-- and the oldest rows are those with the lowest rowid.
CREATE TABLE idempotency (
    organization_id BLOB NOT NULL,
    scope           BLOB NOT NULL,
    fingerprint     BLOB NOT NULL,
    outcome         TEXT NOT NULL,
    created_at      INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX idempotency_by_scope ON idempotency (scope);

-- The latest time that a server has seen, in one row, so that nothing expired
-- becomes valid again when the clock is set back while no server runs.
CREATE TABLE latest_time (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    seen_at INTEGER NOT NULL
) STRICT;

-- The token of the link that creates the first organization, in one row, which is
-- deleted with the creation. It is kept as it is, so that each server of an empty
-- database prints the same link.
CREATE TABLE setup_token (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    token TEXT NOT NULL
) STRICT;

-- Entries about keys and members that were not moved to the activity log yet. They
-- are recorded here with what they are about, so that neither waits for the log.
-- The columns are those of `activity`.
CREATE TABLE pending_activity (
    id              BLOB NOT NULL PRIMARY KEY,
    organization_id BLOB NOT NULL,
    actor_id        BLOB,
    key_id          BLOB,
    actor_name      TEXT NOT NULL,
    action          TEXT NOT NULL,
    resource_type   TEXT NOT NULL,
    resource_id     BLOB NOT NULL,
    resource_label  TEXT NOT NULL,
    metadata        TEXT NOT NULL,
    address         TEXT,
    created_at      INTEGER NOT NULL
) STRICT;
