-- The whole schema. The SQLite migration of the same number has the same
-- tables and columns; ARCHITECTURE.md says where the two differ and why.
--
-- Every unique constraint and foreign key of an organization's table includes
-- its organization, so that the schema can be distributed by organization.
-- Moments are milliseconds since 1970. Text sorts by code point, as in SQLite.

CREATE TABLE organizations (
    id         uuid NOT NULL PRIMARY KEY,
    name       text COLLATE "C" NOT NULL,
    plan       text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL
);

-- An account. `vouched_by` is the organization whose invitation made it, which
-- answers for the address being that person's; NULL is the operator. An address
-- may have an account for each organization that vouches for it: none of them
-- may take it in advance from the others. There is no foreign key: `users` is
-- not distributed by organization.
CREATE TABLE users (
    id            uuid NOT NULL PRIMARY KEY,
    email         text COLLATE "C" NOT NULL,
    email_folded  text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    password_hash text COLLATE "C" NOT NULL,
    vouched_by    uuid,
    created_at    bigint NOT NULL
);
CREATE INDEX users_by_email ON users (email_folded, created_at, id);
CREATE INDEX users_by_voucher ON users (email_folded, vouched_by, id);
CREATE UNIQUE INDEX users_of_operator ON users (email_folded) WHERE vouched_by IS NULL;

CREATE TABLE memberships (
    organization_id uuid NOT NULL REFERENCES organizations (id),
    user_id         uuid NOT NULL REFERENCES users (id),
    role            text COLLATE "C" NOT NULL,
    created_at      bigint NOT NULL,
    PRIMARY KEY (organization_id, user_id)
);
CREATE INDEX memberships_by_user ON memberships (user_id, created_at);

CREATE TABLE sessions (
    token_hash      bytea NOT NULL PRIMARY KEY,
    user_id         uuid NOT NULL REFERENCES users (id),
    organization_id uuid NOT NULL,
    created_at      bigint NOT NULL,
    last_seen_at    bigint NOT NULL
);
CREATE INDEX sessions_by_user ON sessions (user_id);
CREATE INDEX sessions_by_age ON sessions (last_seen_at);

-- Failed sign-ins. `bucket` is the SHA-256 of what they are counted under: see
-- store/attempts.rs.
CREATE TABLE sign_in_failures (
    bucket         bytea NOT NULL PRIMARY KEY,
    failures       bigint NOT NULL,
    last_failed_at bigint NOT NULL
);
CREATE INDEX sign_in_failures_by_age ON sign_in_failures (last_failed_at);

-- Browsers that have signed in to an account, by the SHA-256 of their token.
CREATE TABLE known_browsers (
    user_id    uuid NOT NULL REFERENCES users (id),
    token_hash bytea NOT NULL,
    used_at    bigint NOT NULL,
    PRIMARY KEY (user_id, token_hash)
);
CREATE INDEX known_browsers_by_token ON known_browsers (token_hash, used_at);
CREATE INDEX known_browsers_by_age ON known_browsers (used_at);

CREATE TABLE api_keys (
    id              uuid NOT NULL PRIMARY KEY,
    organization_id uuid NOT NULL,
    name            text COLLATE "C" NOT NULL,
    key_hash        bytea NOT NULL UNIQUE,
    masked          text COLLATE "C" NOT NULL,
    created_at      bigint NOT NULL,
    expires_at      bigint,
    revoked_at      bigint,
    last_used_at    bigint
);
CREATE INDEX api_keys_by_organization ON api_keys (organization_id, id);
CREATE INDEX api_keys_in_use ON api_keys (organization_id) WHERE revoked_at IS NULL;

CREATE TABLE services (
    organization_id uuid NOT NULL REFERENCES organizations (id),
    id              uuid NOT NULL,
    name            text COLLATE "C" NOT NULL,
    name_folded     text COLLATE "C" NOT NULL,
    description     text COLLATE "C",
    color           text COLLATE "C" NOT NULL,
    created_at      bigint NOT NULL,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, name_folded)
);

CREATE TABLE hosts (
    organization_id uuid NOT NULL REFERENCES organizations (id),
    id              uuid NOT NULL,
    hostname        text COLLATE "C" NOT NULL,
    hostname_folded text COLLATE "C" NOT NULL,
    fqdn            text COLLATE "C",
    ip_address      text COLLATE "C",
    os              text COLLATE "C",
    platform        text COLLATE "C" NOT NULL,
    environment     text COLLATE "C",
    roles           jsonb NOT NULL,
    description     text COLLATE "C",
    created_at      bigint NOT NULL,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, hostname_folded)
);

CREATE TABLE changes (
    organization_id uuid NOT NULL REFERENCES organizations (id),
    id              uuid NOT NULL,
    title           text COLLATE "C" NOT NULL,
    description     text COLLATE "C",
    risk_level      text COLLATE "C" NOT NULL,
    status          text COLLATE "C" NOT NULL,
    impact          text COLLATE "C",
    service_id      uuid,
    host_id         uuid,
    tags            jsonb NOT NULL,
    links           jsonb NOT NULL,
    scheduled_for   bigint,
    occurred_at     bigint NOT NULL,
    created_at      bigint NOT NULL,
    updated_at      bigint NOT NULL,
    PRIMARY KEY (organization_id, id),
    FOREIGN KEY (organization_id, service_id) REFERENCES services (organization_id, id),
    FOREIGN KEY (organization_id, host_id) REFERENCES hosts (organization_id, id)
);
CREATE INDEX changes_by_service ON changes (organization_id, service_id, id) WHERE service_id IS NOT NULL;
CREATE INDEX changes_by_host ON changes (organization_id, host_id, id) WHERE host_id IS NOT NULL;
CREATE INDEX changes_by_risk ON changes (organization_id, risk_level, id);
CREATE INDEX changes_by_status ON changes (organization_id, status, id);

CREATE TABLE change_tags (
    organization_id uuid NOT NULL,
    tag             text COLLATE "C" NOT NULL,
    change_id       uuid NOT NULL,
    PRIMARY KEY (organization_id, tag, change_id),
    FOREIGN KEY (organization_id, change_id) REFERENCES changes (organization_id, id)
);
CREATE INDEX change_tags_by_change ON change_tags (organization_id, change_id);

-- How many changes there are by scope (`organization`, with the zero UUID,
-- `service` or `host`), risk and status. `slot` spreads the writers of one
-- organization on PostgreSQL; SQLite has one writer and uses slot 0.
CREATE TABLE change_counts (
    organization_id uuid NOT NULL REFERENCES organizations (id),
    scope           text COLLATE "C" NOT NULL,
    scope_id        uuid NOT NULL,
    risk_level      text COLLATE "C" NOT NULL,
    status          text COLLATE "C" NOT NULL,
    slot            bigint NOT NULL,
    n               bigint NOT NULL,
    PRIMARY KEY (organization_id, scope, scope_id, risk_level, status, slot)
);

-- The words of the titles, each prefixed with its organization, so that a
-- search costs what the organization's own changes cost. Folding and splitting
-- is done by the service.
CREATE TABLE change_search (
    organization_id uuid NOT NULL,
    change_id       uuid NOT NULL,
    words           tsvector NOT NULL,
    PRIMARY KEY (organization_id, change_id),
    FOREIGN KEY (organization_id, change_id) REFERENCES changes (organization_id, id)
);
CREATE INDEX change_search_by_words ON change_search USING gin (words);

CREATE TABLE activity (
    organization_id uuid NOT NULL REFERENCES organizations (id),
    id              uuid NOT NULL,
    actor_id        uuid,
    actor_name      text COLLATE "C" NOT NULL,
    action          text COLLATE "C" NOT NULL,
    resource_type   text COLLATE "C" NOT NULL,
    resource_id     uuid NOT NULL,
    resource_label  text COLLATE "C" NOT NULL,
    metadata        jsonb NOT NULL,
    created_at      bigint NOT NULL,
    PRIMARY KEY (organization_id, id)
);
CREATE INDEX activity_by_resource ON activity (organization_id, resource_type, id);
CREATE INDEX activity_by_actor ON activity (organization_id, actor_id, id);

-- The distinct actors of the activity log. `actor_key` is the person's id, or
-- the actor's name for an API key, because a NULL cannot be part of a key.
CREATE TABLE activity_actors (
    organization_id uuid NOT NULL REFERENCES organizations (id),
    actor_key       text COLLATE "C" NOT NULL,
    actor_id        uuid,
    actor_name      text COLLATE "C" NOT NULL,
    PRIMARY KEY (organization_id, actor_key)
);

-- Answers to keep for requests that are sent again. `scope` is the hash of API
-- key, method, path and idempotency key.
CREATE TABLE idempotency (
    organization_id uuid NOT NULL,
    scope           bytea NOT NULL,
    fingerprint     bytea NOT NULL,
    status          bigint NOT NULL,
    location        text COLLATE "C",
    body            text COLLATE "C" NOT NULL,
    created_at      bigint NOT NULL,
    PRIMARY KEY (organization_id, scope)
);
CREATE INDEX idempotency_by_age ON idempotency (created_at);
