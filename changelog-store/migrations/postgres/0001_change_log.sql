-- The schema on PostgreSQL. The SQLite migration with the same number creates
-- the same tables and columns. Keys and indexes differ, and so does the search
-- index: see docs/decisions/sort-key.md and docs/decisions/search.md.
--
-- What organizations record can be distributed by organization: every unique
-- constraint and foreign key of such a table includes the organization, and none
-- refers to a table of another kind (`store/placement.rs` has the list).
-- Times are milliseconds since 1970 in UTC. `*_folded` columns hold a name in the
-- form in which names are compared. Text sorts by code point, as in SQLite.

-- Changes have events from the first connection or subscription on: `has_receivers` is 1.
CREATE TABLE organizations (
    id            uuid NOT NULL PRIMARY KEY,
    name          text COLLATE "C" NOT NULL,
    plan          text COLLATE "C" NOT NULL,
    created_at    bigint NOT NULL,
    has_receivers bigint NOT NULL DEFAULT 0
);

-- User accounts. `vouched_by` is the organization whose invitation created the
-- account and which vouches for the email address; NULL means the operator.
-- `time_zone` is the name of the zone that mails are written for.
-- `password_hash` is empty for an account that was made by a sign-in of an identity
-- provider: it has no password.
-- An address can have one account for each organization that vouches for it, so
-- that no organization can claim an address before the others. There is no
-- foreign key because `users` is not distributed by organization.
CREATE TABLE users (
    id            uuid NOT NULL PRIMARY KEY,
    email         text COLLATE "C" NOT NULL,
    email_folded  text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    password_hash text COLLATE "C" NOT NULL,
    vouched_by    uuid,
    created_at    bigint NOT NULL,
    time_zone     text COLLATE "C"
);
CREATE INDEX users_by_email ON users (email_folded, created_at, id);
CREATE INDEX users_by_voucher ON users (email_folded, vouched_by, id);
CREATE UNIQUE INDEX users_of_operator ON users (email_folded) WHERE vouched_by IS NULL;

-- `emergency_seen_at` is when an owner has marked the uses of the emergency door as seen.
CREATE TABLE memberships (
    organization_id uuid NOT NULL REFERENCES organizations (id),
    user_id         uuid NOT NULL REFERENCES users (id),
    role            text COLLATE "C" NOT NULL,
    created_at      bigint NOT NULL,
    emergency_seen_at bigint,
    PRIMARY KEY (organization_id, user_id)
);
CREATE INDEX memberships_by_user ON memberships (user_id, created_at);

-- Open invitations. Only the SHA-256 of the token in the link is stored. An invitation by the
-- operator has no `inviter_id`.
CREATE TABLE invitations (
    organization_id uuid NOT NULL REFERENCES organizations (id),
    id              uuid NOT NULL,
    email           text COLLATE "C" NOT NULL,
    email_folded    text COLLATE "C" NOT NULL,
    role            text COLLATE "C" NOT NULL,
    token_hash      bytea NOT NULL UNIQUE,
    invited_by      text COLLATE "C" NOT NULL,
    inviter_id      uuid,
    created_at      bigint NOT NULL,
    expires_at      bigint NOT NULL,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, email_folded)
);
CREATE INDEX invitations_by_expiry ON invitations (expires_at);

-- `method` is how the person signed in: 'password', 'sso' or 'proxy'. `provider_sid` is the
-- id that the identity provider has given the session, by which it can end it.
CREATE TABLE sessions (
    token_hash      bytea NOT NULL PRIMARY KEY,
    user_id         uuid NOT NULL REFERENCES users (id),
    organization_id uuid NOT NULL,
    user_agent      text COLLATE "C",
    created_at      bigint NOT NULL,
    last_seen_at    bigint NOT NULL,
    method          text COLLATE "C" NOT NULL DEFAULT 'password',
    provider_sid    text COLLATE "C"
);
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
    organization_id    uuid NOT NULL PRIMARY KEY REFERENCES organizations (id),
    issuer             text COLLATE "C" NOT NULL,
    client_id          text COLLATE "C" NOT NULL,
    client_secret      bytea NOT NULL,
    default_role       text COLLATE "C",
    groups_claim       text COLLATE "C" NOT NULL,
    group_roles        text COLLATE "C" NOT NULL,
    is_required        bigint NOT NULL,
    emergency_user_id  uuid,
    emergency_used_at  bigint,
    emergency_used_by  text COLLATE "C",
    has_own_redirect   bigint NOT NULL,
    allows_insecure    bigint NOT NULL,
    created_at         bigint NOT NULL,
    updated_at         bigint NOT NULL
);

-- The people whom identity providers know: the subject that the issuer calls a person by is
-- an account. An organization's provider speaks for this organization only.
CREATE TABLE sso_identities (
    organization_id uuid NOT NULL REFERENCES organizations (id),
    issuer          text COLLATE "C" NOT NULL,
    subject         text COLLATE "C" NOT NULL,
    user_id         uuid NOT NULL REFERENCES users (id),
    created_at      bigint NOT NULL,
    PRIMARY KEY (organization_id, issuer, subject)
);
CREATE INDEX sso_identities_by_user ON sso_identities (user_id, organization_id);

-- What works only once: the states of sign-ins and the ids of logout tokens, by their
-- SHA-256, until they have expired.
CREATE TABLE sso_used (
    organization_id uuid NOT NULL REFERENCES organizations (id),
    token_hash      bytea NOT NULL,
    used_at         bigint NOT NULL,
    PRIMARY KEY (organization_id, token_hash)
);
CREATE INDEX sso_used_by_age ON sso_used (used_at);

-- The addresses of feeds, one for each member at most, by the SHA-256 of their token.
CREATE TABLE feeds (
    organization_id uuid NOT NULL,
    user_id         uuid NOT NULL,
    token_hash      bytea NOT NULL UNIQUE,
    created_at      bigint NOT NULL,
    PRIMARY KEY (organization_id, user_id)
);

-- Who wants to be notified of the changes of a service, and of which at least. `mail` is
-- 'none', 'instant' or 'daily'. Like memberships, with which they are joined, these three
-- tables are not about what an organization records.
CREATE TABLE subscriptions (
    organization_id uuid NOT NULL,
    service_id      uuid NOT NULL,
    user_id         uuid NOT NULL,
    min_risk        text COLLATE "C" NOT NULL,
    mail            text COLLATE "C" NOT NULL,
    created_at      bigint NOT NULL,
    PRIMARY KEY (organization_id, user_id, service_id)
);
CREATE INDEX subscriptions_by_service ON subscriptions (organization_id, service_id, user_id);

-- The last event of a change or an incident that a person is notified of. `level` is the risk
-- of the change or the severity of the incident. `mail` is the mailbox that is to send it, NULL
-- if none is; `mailing` is the attempt that has taken it. Mails list incidents first.
CREATE TABLE notifications (
    organization_id uuid NOT NULL,
    user_id         uuid NOT NULL,
    subject_id      uuid NOT NULL,
    is_incident     bigint NOT NULL,
    kind            text COLLATE "C" NOT NULL,
    title           text COLLATE "C" NOT NULL,
    level           text COLLATE "C" NOT NULL,
    status          text COLLATE "C" NOT NULL,
    services        text COLLATE "C" NOT NULL,
    actor           text COLLATE "C" NOT NULL,
    at              bigint NOT NULL,
    is_unread       bigint NOT NULL,
    mail            text COLLATE "C",
    mailing         uuid,
    PRIMARY KEY (organization_id, user_id, subject_id)
);
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
    organization_id uuid NOT NULL,
    user_id         uuid NOT NULL,
    mail            text COLLATE "C" NOT NULL,
    token           text COLLATE "C" NOT NULL UNIQUE,
    due_at          bigint,
    attempts        bigint NOT NULL,
    failures        bigint NOT NULL,
    sent_at         bigint,
    problem         text COLLATE "C",
    PRIMARY KEY (organization_id, user_id, mail)
);
CREATE INDEX mailboxes_due ON mailboxes (due_at) WHERE due_at IS NOT NULL;

-- Failed sign-ins. `bucket` is the SHA-256 of what failures are counted by.
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

-- `permissions` is JSON: scopes, and the bounds of what the key may record.
CREATE TABLE api_keys (
    id              uuid NOT NULL PRIMARY KEY,
    organization_id uuid NOT NULL,
    name            text COLLATE "C" NOT NULL,
    key_hash        bytea NOT NULL UNIQUE,
    masked          text COLLATE "C" NOT NULL,
    permissions     jsonb NOT NULL,
    created_by      text COLLATE "C",
    created_at      bigint NOT NULL,
    expires_at      bigint,
    revoked_at      bigint,
    last_used_at    bigint
);
CREATE INDEX api_keys_by_organization ON api_keys (organization_id, id);
CREATE INDEX api_keys_in_use ON api_keys (organization_id) WHERE revoked_at IS NULL;

-- Which pipelines may act without a key, by tokens of their own system. `lookup` is made of the
-- issuer, the audience and the claim that says whose jobs they are: by it the bindings are found
-- that a token may fit; by `hint_lookup` those whose tokens may be told why they do not fit.
-- `claims` and `permissions` are JSON.
CREATE TABLE workloads (
    id              uuid NOT NULL PRIMARY KEY,
    organization_id uuid NOT NULL,
    name            text COLLATE "C" NOT NULL,
    name_folded     text COLLATE "C" NOT NULL,
    issuer          text COLLATE "C" NOT NULL,
    audience        text COLLATE "C" NOT NULL,
    claims          jsonb NOT NULL,
    is_insecure     bigint NOT NULL,
    lookup          uuid NOT NULL,
    hint_lookup     uuid NOT NULL,
    permissions     jsonb NOT NULL,
    created_by      text COLLATE "C" NOT NULL,
    created_at      bigint NOT NULL,
    last_used_at    bigint,
    refused_at      bigint,
    refused_reason  text COLLATE "C",
    UNIQUE (organization_id, name_folded)
);
CREATE INDEX workloads_by_lookup ON workloads (lookup);
CREATE INDEX workloads_by_hint ON workloads (organization_id, hint_lookup, id);

-- `reference` is the JSON that a change shows of its service or host.
CREATE TABLE services (
    organization_id uuid NOT NULL,
    id              uuid NOT NULL,
    name            text COLLATE "C" NOT NULL,
    name_folded     text COLLATE "C" NOT NULL,
    description     text COLLATE "C",
    color           text COLLATE "C" NOT NULL,
    depends_on      jsonb NOT NULL,
    reference       text COLLATE "C" NOT NULL,
    created_at      bigint NOT NULL,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, name_folded)
);

-- What `services.depends_on` lists, for looking up both directions. Services may
-- depend on each other in a circle.
CREATE TABLE service_dependencies (
    organization_id uuid NOT NULL,
    service_id      uuid NOT NULL,
    depends_on_id   uuid NOT NULL,
    PRIMARY KEY (organization_id, service_id, depends_on_id),
    FOREIGN KEY (organization_id, service_id) REFERENCES services (organization_id, id),
    FOREIGN KEY (organization_id, depends_on_id) REFERENCES services (organization_id, id)
);
CREATE INDEX service_dependencies_by_dependency ON service_dependencies
    (organization_id, depends_on_id, service_id);

CREATE TABLE hosts (
    organization_id uuid NOT NULL,
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
    reference       text COLLATE "C" NOT NULL,
    created_at      bigint NOT NULL,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, hostname_folded)
);

-- The folded words of the names of services and hosts. `kind` is 'service' or 'host',
-- and `id` is of a row of that table.
CREATE TABLE catalog_words (
    organization_id uuid NOT NULL,
    kind            text COLLATE "C" NOT NULL,
    word            text COLLATE "C" NOT NULL,
    id              uuid NOT NULL,
    PRIMARY KEY (organization_id, kind, word, id)
);

-- `document` is the change as the API returns it, except for service and host,
-- whose names can change. The other columns are those that changes are found by.
-- `sort_key` is the place in lists: the milliseconds of the effective time (when the
-- change was started, or else for when it was recorded) and twenty bits of the id. It
-- is the 64-bit form of the id unless the change was started at another time than it
-- was recorded for: then `moved_id` is its id. `undone_at` is when it was rolled back
-- without having failed; `author_key` is the person who recorded it, in the form of
-- `activity_actors.actor_key`; `more_service_ids` are the services after the first.
CREATE TABLE changes (
    sort_key         bigint NOT NULL,
    organization_id  uuid NOT NULL,
    id               uuid NOT NULL,
    risk_level       text COLLATE "C" NOT NULL,
    status           text COLLATE "C" NOT NULL,
    service_id       uuid,
    host_id          uuid,
    scheduled_for    bigint,
    moved_id         uuid,
    title            text COLLATE "C" NOT NULL,
    environment      text COLLATE "C",
    ended_at         bigint,
    outcome          text COLLATE "C",
    undone_at        bigint,
    more_service_ids text COLLATE "C",
    agent            text COLLATE "C",
    author_key       text COLLATE "C",
    document         text COLLATE "C" NOT NULL,
    PRIMARY KEY (organization_id, sort_key),
    FOREIGN KEY (organization_id, service_id) REFERENCES services (organization_id, id),
    FOREIGN KEY (organization_id, host_id) REFERENCES hosts (organization_id, id)
);
CREATE INDEX changes_by_risk ON changes (organization_id, risk_level, sort_key);
CREATE INDEX changes_by_status ON changes (organization_id, status, sort_key);
CREATE INDEX changes_by_risk_and_status ON changes (organization_id, risk_level, status, sort_key);
CREATE INDEX changes_by_environment ON changes (organization_id, environment, risk_level, sort_key)
    WHERE environment IS NOT NULL;
CREATE INDEX changes_by_service ON changes (organization_id, service_id, sort_key)
    WHERE service_id IS NOT NULL;
CREATE INDEX changes_by_host ON changes (organization_id, host_id, sort_key)
    WHERE host_id IS NOT NULL;
CREATE INDEX changes_by_schedule ON changes (organization_id, scheduled_for, sort_key)
    WHERE scheduled_for IS NOT NULL AND status = 'planned';

-- Finds the changes of a time that were undone.
CREATE INDEX changes_undone ON changes (organization_id, sort_key, undone_at)
    WHERE undone_at IS NOT NULL;

-- Finds the changes whose sort key does not follow from their id.
CREATE UNIQUE INDEX changes_moved ON changes (organization_id, moved_id)
    WHERE moved_id IS NOT NULL;

-- The services of a change after the first, which is in `changes`, with their places.
CREATE TABLE change_services (
    organization_id uuid NOT NULL,
    service_id      uuid NOT NULL,
    sort_key        bigint NOT NULL,
    place           bigint NOT NULL,
    PRIMARY KEY (organization_id, service_id, sort_key),
    FOREIGN KEY (organization_id, service_id) REFERENCES services (organization_id, id)
);
CREATE INDEX change_services_by_change ON change_services (organization_id, sort_key, place);

CREATE TABLE change_tags (
    organization_id uuid NOT NULL,
    tag             text COLLATE "C" NOT NULL,
    sort_key        bigint NOT NULL,
    PRIMARY KEY (organization_id, tag, sort_key)
);

-- How many changes there are by scope (`organization`, `service/ID`, `host/ID`,
-- `tag/TAG`, `author/ID`), time span, risk, status and environment ('' without one). The scope
-- `all` is the organization with every risk, status and environment together, '' each.
-- `span` is the length of the span in milliseconds and `start` the number of the span since 1970. Span 0 is all
-- time. Days of services and hosts have the span -86400000: if they had that of
-- the organization's days, PostgreSQL, which takes scope and span for
-- independent, would overestimate the organization's days by far. `slot` spreads
-- the concurrent writers of one organization over several rows.
CREATE TABLE change_counts (
    organization_id uuid NOT NULL,
    scope           text COLLATE "C" NOT NULL,
    span            bigint NOT NULL,
    start           bigint NOT NULL,
    risk_level      text COLLATE "C" NOT NULL,
    status          text COLLATE "C" NOT NULL,
    environment     text COLLATE "C" NOT NULL,
    slot            bigint NOT NULL,
    n               bigint NOT NULL,
    PRIMARY KEY (organization_id, scope, span, start, risk_level, status, environment, slot)
);
-- The days of all services. With a range of scopes as the condition, SQLite would
-- choose the primary key and read the days of all years.
CREATE INDEX change_counts_by_day ON change_counts (organization_id, span, start, scope)
    WHERE span = -86400000 AND substr(scope, 1, 8) = 'service/';

-- How many changes happened in each hour, by the first service ('00…' for those without one):
-- every change is in one row. `hour` is the number of hours since 1970, `undone` how many of
-- the `n` changes were rolled back, and `slot` is as in `change_counts`.
CREATE TABLE change_hours (
    organization_id uuid NOT NULL,
    hour            bigint NOT NULL,
    service_id      uuid NOT NULL,
    slot            bigint NOT NULL,
    n               bigint NOT NULL,
    undone          bigint NOT NULL,
    PRIMARY KEY (organization_id, hour, service_id, slot)
);

-- The words of titles and tags, and the facets that changes are filtered by. Each
-- begins with its organization, so that a search costs what the organization's
-- own changes cost. The service folds and splits the titles.
CREATE TABLE change_search (
    organization_id uuid NOT NULL,
    sort_key        bigint NOT NULL,
    words           tsvector NOT NULL,
    PRIMARY KEY (organization_id, sort_key)
);
CREATE INDEX change_search_by_words ON change_search USING gin (words)
    WITH (gin_pending_list_limit = 256);

-- `actor_id` is the user, NULL for an API key, a source and the operator. `key_id` is
-- the API key or the source, NULL for a user and the operator. `address` is the caller's IP address as
-- text, NULL for the operator. The primary key begins with the type, so that an
-- entry is found by its type without another index: creating a change with an API
-- key writes to none of the indexes below.
CREATE TABLE activity (
    organization_id uuid NOT NULL,
    id              uuid NOT NULL,
    actor_id        uuid,
    key_id          uuid,
    actor_name      text COLLATE "C" NOT NULL,
    action          text COLLATE "C" NOT NULL,
    resource_type   text COLLATE "C" NOT NULL,
    resource_id     uuid NOT NULL,
    resource_label  text COLLATE "C" NOT NULL,
    metadata        jsonb NOT NULL,
    address         text COLLATE "C",
    created_at      bigint NOT NULL,
    PRIMARY KEY (organization_id, resource_type, id)
);
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
    organization_id uuid NOT NULL,
    actor_key       text COLLATE "C" NOT NULL,
    actor_id        uuid,
    actor_name      text COLLATE "C" NOT NULL,
    reference       text COLLATE "C",
    PRIMARY KEY (organization_id, actor_key)
);

-- Filters of the list of changes that were saved under a name. `owner` is the id of the
-- user, '' for a view that the organization shares. `query` is the query string.
CREATE TABLE saved_views (
    organization_id uuid NOT NULL,
    id              uuid NOT NULL,
    owner           text COLLATE "C" NOT NULL,
    name            text COLLATE "C" NOT NULL,
    name_folded     text COLLATE "C" NOT NULL,
    query           text COLLATE "C" NOT NULL,
    created_at      bigint NOT NULL,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, owner, name_folded)
);

-- What happened to changes, written in the transaction of the change, one row however
-- many receivers there are. `sequence` orders the events of one change. `document` is
-- the event as JSON; that of a creation has no names of services and host until it was
-- queued. `is_new` is 1 until the deliveries are queued, then NULL.
CREATE SEQUENCE event_places;
CREATE TABLE events (
    organization_id uuid NOT NULL,
    sequence        bigint NOT NULL DEFAULT nextval('event_places'),
    document        text COLLATE "C" NOT NULL,
    created_at      bigint NOT NULL,
    is_new          bigint,
    PRIMARY KEY (organization_id, sequence)
);
CREATE INDEX events_new ON events (organization_id, sequence) WHERE is_new = 1;
CREATE INDEX events_by_age ON events (created_at);

-- Connections to receivers. `target` is where they send, with all secrets, encrypted;
-- `address` is what the dashboard shows of it. `failing_since` is when the first of the
-- failures since the last success was. Before `hold_until` nothing is sent, because the
-- receiver has asked for a pause or takes a limited number a second.
CREATE TABLE connections (
    organization_id uuid NOT NULL,
    id              uuid NOT NULL,
    kind            text COLLATE "C" NOT NULL,
    name            text COLLATE "C" NOT NULL,
    name_folded     text COLLATE "C" NOT NULL,
    address         text COLLATE "C" NOT NULL,
    target          bytea NOT NULL,
    filter          text COLLATE "C" NOT NULL,
    created_at      bigint NOT NULL,
    created_by      text COLLATE "C" NOT NULL,
    disabled_at     bigint,
    disabled_reason text COLLATE "C",
    failing_since   bigint,
    hold_until      bigint,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, name_folded)
);
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
    organization_id uuid NOT NULL,
    connection_id   uuid NOT NULL,
    sequence        bigint NOT NULL,
    subject_id      uuid NOT NULL,
    service_id      uuid,
    state           text COLLATE "C" NOT NULL,
    attempts        bigint NOT NULL,
    next_at         bigint NOT NULL,
    earliest_at     bigint NOT NULL,
    is_claimed      bigint NOT NULL,
    burst           text COLLATE "C",
    created_at      bigint NOT NULL,
    attempted_at    bigint,
    duration_ms     bigint,
    status          bigint,
    answer          text COLLATE "C",
    reason          text COLLATE "C",
    PRIMARY KEY (organization_id, connection_id, sequence)
);
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
    organization_id uuid NOT NULL,
    connection_id   uuid NOT NULL,
    subject_id      uuid NOT NULL,
    reference       text COLLATE "C" NOT NULL,
    sequence        bigint NOT NULL,
    updated_at      bigint NOT NULL,
    PRIMARY KEY (organization_id, connection_id, subject_id)
);
CREATE INDEX receiver_messages_by_age ON receiver_messages (updated_at);

-- Where other systems send what changes. The token of the address has the id of the
-- organization, and is stored as its SHA-256; `secret`, by which the sender proves its requests, is encrypted. `settings` is
-- JSON. `refused` counts the requests that did not prove their origin. `confirm_url` is the
-- link by which the sender wants the address to be confirmed. `stored_bytes` is the size of
-- the kept requests that were read.
CREATE TABLE sources (
    organization_id uuid NOT NULL,
    id              uuid NOT NULL,
    kind            text COLLATE "C" NOT NULL,
    name            text COLLATE "C" NOT NULL,
    name_folded     text COLLATE "C" NOT NULL,
    token_hash      bytea NOT NULL,
    secret          bytea,
    settings        text COLLATE "C" NOT NULL,
    created_at      bigint NOT NULL,
    created_by      text COLLATE "C" NOT NULL,
    disabled_at     bigint,
    last_event_at   bigint,
    refused         bigint NOT NULL DEFAULT 0,
    refused_at      bigint,
    refused_reason  text COLLATE "C",
    confirm_url     text COLLATE "C",
    stored_bytes    bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, token_hash),
    UNIQUE (organization_id, name_folded)
);
-- For commands, which have only the id.
CREATE INDEX sources_by_id ON sources (id);

-- The requests of sources. `outcome` is 'pending' until the request was read, then
-- 'changed', 'updated', 'ignored', 'duplicate' or 'set_aside'; `reason` says why. The id
-- has the time of arrival. `request_id` is what the sender calls the request. `change_ids`
-- is a JSON list; `incident_id` is for alerts. `headers` has none that prove the origin.
CREATE TABLE source_events (
    organization_id uuid NOT NULL,
    id              uuid NOT NULL,
    source_id       uuid NOT NULL,
    received_at     bigint NOT NULL,
    request_id      text COLLATE "C",
    headers         text COLLATE "C" NOT NULL,
    body            bytea NOT NULL,
    size            bigint NOT NULL,
    outcome         text COLLATE "C" NOT NULL,
    reason          text COLLATE "C",
    change_ids      text COLLATE "C" NOT NULL,
    incident_id     uuid,
    PRIMARY KEY (organization_id, id)
);
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
    organization_id uuid NOT NULL,
    source_id       uuid NOT NULL,
    key_hash        bytea NOT NULL,
    change_id       uuid NOT NULL,
    session         bytea,
    document        text COLLATE "C" NOT NULL,
    first_at        bigint NOT NULL,
    last_at         bigint NOT NULL,
    due_at          bigint,
    updated_at      bigint NOT NULL,
    PRIMARY KEY (organization_id, source_id, key_hash)
);
CREATE INDEX source_operations_of_session ON source_operations
    (organization_id, source_id, session, last_at) WHERE session IS NOT NULL;
CREATE INDEX source_operations_due ON source_operations (due_at)
    WHERE due_at IS NOT NULL;
CREATE INDEX source_operations_by_age ON source_operations (updated_at);

-- The calls that were counted, by the SHA-256 of what the sender calls them, so that none is
-- counted twice.
CREATE TABLE source_calls (
    organization_id uuid NOT NULL,
    source_id       uuid NOT NULL,
    call_hash       bytea NOT NULL,
    change_id       uuid NOT NULL,
    seen_at         bigint NOT NULL,
    PRIMARY KEY (organization_id, source_id, call_hash)
);
CREATE INDEX source_calls_by_age ON source_calls (seen_at);

-- What broke. `document` is the incident as the API returns it, except for the name of the
-- service and for `suspects`, which has those that were ranked. `is_open` is 1 or 0. `rank_at`
-- is when the suspects are to be ranked next, NULL if never; `rerank_from` from when on changes
-- that arrive late may lead to that.
CREATE TABLE incidents (
    organization_id uuid NOT NULL,
    id              uuid NOT NULL,
    is_open         bigint NOT NULL,
    started_at      bigint NOT NULL,
    service_id      uuid,
    cause_change_id uuid,
    rank_at         bigint,
    rerank_from     bigint NOT NULL,
    updated_at      bigint NOT NULL,
    document        text COLLATE "C" NOT NULL,
    suspects        text COLLATE "C" NOT NULL,
    PRIMARY KEY (organization_id, id)
);
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
    organization_id uuid NOT NULL,
    source_id       uuid NOT NULL,
    key_hash        bytea NOT NULL,
    incident_id     uuid,
    is_firing       bigint NOT NULL,
    severity        text COLLATE "C",
    last_at         bigint NOT NULL,
    updated_at      bigint NOT NULL,
    PRIMARY KEY (organization_id, source_id, key_hash)
);
CREATE INDEX incident_alerts_by_age ON incident_alerts (updated_at);

-- The changes of sources that were deleted because another change has what they had: two
-- sessions that were one, or a run that explains the calls.
CREATE TABLE joined_changes (
    organization_id uuid NOT NULL,
    change_id       uuid NOT NULL,
    into_id         uuid NOT NULL,
    joined_at       bigint NOT NULL,
    PRIMARY KEY (organization_id, change_id)
);
CREATE INDEX joined_changes_by_target ON joined_changes (organization_id, into_id);
CREATE INDEX joined_changes_by_age ON joined_changes (joined_at);

-- When the sources and the API keys that record changes were heard. `rhythm` are the hours
-- of the last eight weeks in which they were, `expected_by` is when they are to be heard again
-- at the latest, NULL while that is learned. `is_missed` is 1 once that was reported. `gaps` are
-- the times without them that have ended, as JSON.
CREATE TABLE rhythms (
    organization_id uuid NOT NULL,
    id              uuid NOT NULL,
    is_key          bigint NOT NULL,
    last_seen_at    bigint NOT NULL,
    rhythm          bytea NOT NULL,
    expected_by     bigint,
    is_missed       bigint NOT NULL,
    gaps            text NOT NULL,
    PRIMARY KEY (organization_id, id)
);
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
    organization_id uuid NOT NULL PRIMARY KEY,
    months          bigint,
    due_at          bigint,
    cutoff          bigint,
    deleted_until   bigint,
    changes         bigint NOT NULL DEFAULT 0,
    incidents       bigint NOT NULL DEFAULT 0,
    entries         bigint NOT NULL DEFAULT 0
);
CREATE INDEX retentions_due ON retentions (due_at) WHERE due_at IS NOT NULL;

-- People whose names are, or were, replaced in what an organization has recorded. `names` are
-- those that are replaced, `[]` when that has ended and `due_at` is NULL. `due_at` is when the run
-- begins, or when another process may go on with it. `stage` is what it goes through, `place` the
-- key of the last row that it has read there, and `replaced` counts the records that had a name.
CREATE TABLE erasures (
    organization_id uuid NOT NULL,
    user_id         uuid NOT NULL,
    names           jsonb NOT NULL,
    due_at          bigint,
    stage           bigint NOT NULL,
    place           text COLLATE "C" NOT NULL,
    replaced        bigint NOT NULL,
    PRIMARY KEY (organization_id, user_id)
);
CREATE INDEX erasures_due ON erasures (due_at) WHERE due_at IS NOT NULL;

-- What requests with an idempotency key created. `scope` is a hash of API key,
-- method, path and idempotency key, after the time in the key if it has one.
CREATE TABLE idempotency (
    organization_id uuid NOT NULL,
    scope           bytea NOT NULL,
    fingerprint     bytea NOT NULL,
    outcome         text COLLATE "C" NOT NULL,
    created_at      bigint NOT NULL,
    PRIMARY KEY (organization_id, scope)
);
CREATE INDEX idempotency_by_age ON idempotency (created_at);

-- The latest time that a server has seen, in one row, so that nothing expired
-- becomes valid again when the clock is set back while no server runs.
CREATE TABLE latest_time (
    id      integer PRIMARY KEY CHECK (id = 1),
    seen_at bigint NOT NULL
);

-- The token of the link that creates the first organization, in one row, which is
-- deleted with the creation. It is kept as it is, so that each server of an empty
-- database prints the same link.
CREATE TABLE setup_token (
    id    integer PRIMARY KEY CHECK (id = 1),
    token text COLLATE "C" NOT NULL
);

-- Entries about keys and members that were not moved to the activity log yet. They
-- are recorded here with what they are about, so that neither waits for the log;
-- this table must be where `api_keys` and `memberships` are. The columns are those
-- of `activity`.
CREATE TABLE pending_activity (
    id              uuid NOT NULL PRIMARY KEY,
    organization_id uuid NOT NULL,
    actor_id        uuid,
    key_id          uuid,
    actor_name      text COLLATE "C" NOT NULL,
    action          text COLLATE "C" NOT NULL,
    resource_type   text COLLATE "C" NOT NULL,
    resource_id     uuid NOT NULL,
    resource_label  text COLLATE "C" NOT NULL,
    metadata        jsonb NOT NULL,
    address         text COLLATE "C",
    created_at      bigint NOT NULL
);
