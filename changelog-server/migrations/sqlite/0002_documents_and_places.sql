-- A change is kept as the JSON that it is answered with, beside the columns
-- that it is found by. Its place in the list is a number made from its id
-- (the milliseconds and the twenty bits after them), and it is the number of
-- the row: every index ends in the order of the list, and the full-text index
-- reads newest first by itself. ARCHITECTURE.md has the figures.
--
-- What there was before waits in `changes_before` until the service has put it
-- into the new tables, which takes code: see store/carry_over.rs.

DROP TABLE change_tags;
DROP TABLE change_counts;
DROP TABLE change_search;
ALTER TABLE changes RENAME TO changes_before;
DROP INDEX changes_by_service;
DROP INDEX changes_by_host;
DROP INDEX changes_by_risk;
DROP INDEX changes_by_status;

-- What a change shows of its service and its host, as JSON.
ALTER TABLE services ADD COLUMN reference TEXT NOT NULL DEFAULT '';
UPDATE services SET reference = json_object(
    'id', lower(substr(hex(id), 1, 8) || '-' || substr(hex(id), 9, 4) || '-' || substr(hex(id), 13, 4)
        || '-' || substr(hex(id), 17, 4) || '-' || substr(hex(id), 21)),
    'name', name, 'color', color);
ALTER TABLE hosts ADD COLUMN reference TEXT NOT NULL DEFAULT '';
UPDATE hosts SET reference = json_object(
    'id', lower(substr(hex(id), 1, 8) || '-' || substr(hex(id), 9, 4) || '-' || substr(hex(id), 13, 4)
        || '-' || substr(hex(id), 17, 4) || '-' || substr(hex(id), 21)),
    'hostname', hostname, 'environment', environment);

CREATE TABLE changes (
    place           INTEGER PRIMARY KEY,
    organization_id BLOB NOT NULL REFERENCES organizations (id),
    id              BLOB NOT NULL,
    risk_level      TEXT NOT NULL,
    status          TEXT NOT NULL,
    service_id      BLOB,
    host_id         BLOB,
    document        TEXT NOT NULL,
    FOREIGN KEY (organization_id, service_id) REFERENCES services (organization_id, id),
    FOREIGN KEY (organization_id, host_id) REFERENCES hosts (organization_id, id)
) STRICT;
CREATE INDEX changes_by_organization ON changes (organization_id);
CREATE INDEX changes_by_risk ON changes (organization_id, risk_level);
CREATE INDEX changes_by_status ON changes (organization_id, status);
CREATE INDEX changes_by_risk_and_status ON changes (organization_id, risk_level, status);
CREATE INDEX changes_by_service ON changes (organization_id, service_id) WHERE service_id IS NOT NULL;
CREATE INDEX changes_by_host ON changes (organization_id, host_id) WHERE host_id IS NOT NULL;

CREATE TABLE change_tags (
    organization_id BLOB NOT NULL,
    tag             TEXT NOT NULL,
    place           INTEGER NOT NULL,
    PRIMARY KEY (organization_id, tag, place)
) STRICT, WITHOUT ROWID;

-- How many changes there are by scope (`organization`, `service/ID`,
-- `host/ID`, `tag/TAG`), span of time, risk and status. `span` is the length of
-- the span in milliseconds and `start` its number since 1970; span 0 is all
-- time. `slot` spreads the writers of one organization on PostgreSQL; SQLite
-- has one writer and uses slot 0.
CREATE TABLE change_counts (
    organization_id BLOB NOT NULL REFERENCES organizations (id),
    scope           TEXT NOT NULL,
    span            INTEGER NOT NULL,
    start           INTEGER NOT NULL,
    risk_level      TEXT NOT NULL,
    status          TEXT NOT NULL,
    slot            INTEGER NOT NULL,
    n               INTEGER NOT NULL,
    PRIMARY KEY (organization_id, scope, span, start, risk_level, status, slot)
) STRICT, WITHOUT ROWID;

-- The words of the titles, and the marks that changes are filtered by (see
-- store/search.rs), each prefixed with its organization, so that a search costs
-- what the organization's own changes cost. Folding is done by the service; the
-- ascii tokenizer only splits at the spaces.
CREATE VIRTUAL TABLE change_search USING fts5 (
    words, content = '', contentless_delete = 1, detail = none,
    tokenize = 'ascii tokenchars '':'''
);
-- Which words there are.
CREATE VIRTUAL TABLE change_search_words USING fts5vocab (change_search, row);

-- An answer is appended and found by its scope, so that what a hash scatters
-- over the pages is the index only; and there only the answers to keys without
-- a time in them. The hash, of which half tells scopes apart just as well,
-- covers the organization.
ALTER TABLE idempotency RENAME TO idempotency_before;
DROP INDEX idempotency_by_age;
CREATE TABLE idempotency (
    organization_id BLOB NOT NULL,
    scope           BLOB NOT NULL,
    fingerprint     BLOB NOT NULL,
    status          INTEGER NOT NULL,
    location        TEXT,
    body            TEXT NOT NULL,
    created_at      INTEGER NOT NULL
) STRICT;
INSERT INTO idempotency
SELECT organization_id, substr(scope, 1, 16), fingerprint, status, location, body, created_at
FROM idempotency_before ORDER BY created_at;
DROP TABLE idempotency_before;
CREATE UNIQUE INDEX idempotency_by_scope ON idempotency (scope);
CREATE INDEX idempotency_by_age ON idempotency (created_at);

-- What an API key did (the actor is NULL) and what a person did, by the kind of
-- thing; each entry is in one of the two. The last column is so that SQLite sees
-- that the index has all it needs.
DROP INDEX activity_by_actor;
CREATE INDEX activity_by_person ON activity (organization_id, actor_id, resource_type, id)
    WHERE actor_id IS NOT NULL;
CREATE INDEX activity_by_key ON activity (organization_id, resource_type, id, actor_id)
    WHERE actor_id IS NULL;
