-- The whole schema. The PostgreSQL migration of the same number has the same
-- tables and columns; ARCHITECTURE.md says where the two differ and why.
--
-- Ids are 16-byte UUIDs, moments are milliseconds since 1970, lists are JSON.

CREATE TABLE organizations (
    id         BLOB NOT NULL PRIMARY KEY,
    name       TEXT NOT NULL,
    plan       TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

-- An account. `vouched_by` is the organization whose invitation made it, which
-- answers for the address being that person's; NULL is the operator. An address
-- may have an account for each organization that vouches for it: none of them
-- may take it in advance from the others. There is no foreign key: on PostgreSQL
-- `users` is not distributed by organization.
CREATE TABLE users (
    id            BLOB NOT NULL PRIMARY KEY,
    email         TEXT NOT NULL,
    email_folded  TEXT NOT NULL,
    name          TEXT NOT NULL,
    password_hash TEXT NOT NULL,
    vouched_by    BLOB,
    created_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX users_by_email ON users (email_folded, created_at, id);
CREATE INDEX users_by_voucher ON users (email_folded, vouched_by, id);
CREATE UNIQUE INDEX users_of_operator ON users (email_folded) WHERE vouched_by IS NULL;

CREATE TABLE memberships (
    organization_id BLOB NOT NULL REFERENCES organizations (id),
    user_id         BLOB NOT NULL REFERENCES users (id),
    role            TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (organization_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX memberships_by_user ON memberships (user_id, created_at);

CREATE TABLE sessions (
    token_hash      BLOB NOT NULL PRIMARY KEY,
    user_id         BLOB NOT NULL REFERENCES users (id),
    organization_id BLOB NOT NULL,
    created_at      INTEGER NOT NULL,
    last_seen_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_by_user ON sessions (user_id);
CREATE INDEX sessions_by_age ON sessions (last_seen_at);

-- Failed sign-ins. `bucket` is the SHA-256 of what they are counted under: see
-- store/attempts.rs.
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

CREATE TABLE api_keys (
    id              BLOB NOT NULL PRIMARY KEY,
    organization_id BLOB NOT NULL,
    name            TEXT NOT NULL,
    key_hash        BLOB NOT NULL UNIQUE,
    masked          TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    expires_at      INTEGER,
    revoked_at      INTEGER,
    last_used_at    INTEGER
) STRICT;
CREATE INDEX api_keys_by_organization ON api_keys (organization_id, id);
CREATE INDEX api_keys_in_use ON api_keys (organization_id) WHERE revoked_at IS NULL;

CREATE TABLE services (
    organization_id BLOB NOT NULL REFERENCES organizations (id),
    id              BLOB NOT NULL,
    name            TEXT NOT NULL,
    name_folded     TEXT NOT NULL,
    description     TEXT,
    color           TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, name_folded)
) STRICT;

CREATE TABLE hosts (
    organization_id BLOB NOT NULL REFERENCES organizations (id),
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
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, hostname_folded)
) STRICT;

-- `docid` names a row to the search index. It is spelled out because VACUUM,
-- and so a backup, may renumber rows whose number is not a column.
CREATE TABLE changes (
    docid           INTEGER PRIMARY KEY,
    organization_id BLOB NOT NULL REFERENCES organizations (id),
    id              BLOB NOT NULL,
    title           TEXT NOT NULL,
    description     TEXT,
    risk_level      TEXT NOT NULL,
    status          TEXT NOT NULL,
    impact          TEXT,
    service_id      BLOB,
    host_id         BLOB,
    tags            TEXT NOT NULL,
    links           TEXT NOT NULL,
    scheduled_for   INTEGER,
    occurred_at     INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    UNIQUE (organization_id, id),
    FOREIGN KEY (organization_id, service_id) REFERENCES services (organization_id, id),
    FOREIGN KEY (organization_id, host_id) REFERENCES hosts (organization_id, id)
) STRICT;
CREATE INDEX changes_by_service ON changes (organization_id, service_id, id) WHERE service_id IS NOT NULL;
CREATE INDEX changes_by_host ON changes (organization_id, host_id, id) WHERE host_id IS NOT NULL;
CREATE INDEX changes_by_risk ON changes (organization_id, risk_level, id);
CREATE INDEX changes_by_status ON changes (organization_id, status, id);

CREATE TABLE change_tags (
    organization_id BLOB NOT NULL,
    tag             TEXT NOT NULL,
    change_id       BLOB NOT NULL,
    PRIMARY KEY (organization_id, tag, change_id),
    FOREIGN KEY (organization_id, change_id) REFERENCES changes (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX change_tags_by_change ON change_tags (organization_id, change_id);

-- How many changes there are by scope (`organization`, with the zero UUID,
-- `service` or `host`), risk and status. `slot` spreads the writers of one
-- organization on PostgreSQL; SQLite has one writer and uses slot 0.
CREATE TABLE change_counts (
    organization_id BLOB NOT NULL REFERENCES organizations (id),
    scope           TEXT NOT NULL,
    scope_id        BLOB NOT NULL,
    risk_level      TEXT NOT NULL,
    status          TEXT NOT NULL,
    slot            INTEGER NOT NULL,
    n               INTEGER NOT NULL,
    PRIMARY KEY (organization_id, scope, scope_id, risk_level, status, slot)
) STRICT, WITHOUT ROWID;

-- The words of the titles, each prefixed with its organization, so that a
-- search costs what the organization's own changes cost. Folding is done by
-- the service; the ascii tokenizer only splits at the spaces.
CREATE VIRTUAL TABLE change_search USING fts5 (
    words, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
);

CREATE TABLE activity (
    organization_id BLOB NOT NULL REFERENCES organizations (id),
    id              BLOB NOT NULL,
    actor_id        BLOB,
    actor_name      TEXT NOT NULL,
    action          TEXT NOT NULL,
    resource_type   TEXT NOT NULL,
    resource_id     BLOB NOT NULL,
    resource_label  TEXT NOT NULL,
    metadata        TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX activity_by_resource ON activity (organization_id, resource_type, id);
CREATE INDEX activity_by_actor ON activity (organization_id, actor_id, id);

-- The distinct actors of the activity log. `actor_key` is the person's id, or
-- the actor's name for an API key, because a NULL cannot be part of a key.
CREATE TABLE activity_actors (
    organization_id BLOB NOT NULL REFERENCES organizations (id),
    actor_key       TEXT NOT NULL,
    actor_id        BLOB,
    actor_name      TEXT NOT NULL,
    PRIMARY KEY (organization_id, actor_key)
) STRICT, WITHOUT ROWID;

-- Answers to keep for requests that are sent again. `scope` is the hash of API
-- key, method, path and idempotency key.
CREATE TABLE idempotency (
    organization_id BLOB NOT NULL,
    scope           BLOB NOT NULL,
    fingerprint     BLOB NOT NULL,
    status          INTEGER NOT NULL,
    location        TEXT,
    body            TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (organization_id, scope)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_by_age ON idempotency (created_at);
