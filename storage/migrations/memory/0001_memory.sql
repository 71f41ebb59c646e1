-- What agents know: every version of every memory. The text of a version never changes; what is said about it
-- does (confidence, access, what replaced it). `contact_id` is null where a memory is agent-wide. A version is
-- active while `superseded_at` is null: at most one of a key in a scope is.
CREATE TABLE agent_state (
    row_id BIGINT NOT NULL,
    memory_id UUID NOT NULL,
    version INTEGER NOT NULL,
    agent_id VARCHAR NOT NULL,
    contact_id VARCHAR,
    key VARCHAR NOT NULL,
    value VARCHAR NOT NULL,
    fact_type VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    metadata VARCHAR NOT NULL,
    graph_id VARCHAR,
    task_id VARCHAR,
    session_id VARCHAR,
    source VARCHAR NOT NULL,
    provenance VARCHAR NOT NULL,
    confidence DOUBLE NOT NULL,
    verification VARCHAR NOT NULL,
    access_count BIGINT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL,
    accessed_at TIMESTAMP,
    decayed_at TIMESTAMP,
    valid_from TIMESTAMP NOT NULL,
    valid_to TIMESTAMP,
    superseded_at TIMESTAMP,
    superseded_by_id UUID,
    superseded_by_version INTEGER,
    reason VARCHAR
);

-- What each write did, so that a repeat of its id does nothing and is told the same. `write_hash` finds a row: a
-- scan of numbers takes a fraction of one of texts, and no index has to be kept. `digest` is empty where what was
-- written has been erased.
CREATE TABLE memory_writes (
    write_hash BIGINT NOT NULL,
    agent_id VARCHAR NOT NULL,
    write_id VARCHAR NOT NULL,
    digest VARCHAR NOT NULL,
    outcome VARCHAR NOT NULL,
    memory_id UUID NOT NULL,
    version INTEGER NOT NULL,
    superseded VARCHAR NOT NULL,
    written_at TIMESTAMP NOT NULL
);

-- Which vector ids have changed, for each index that is derived from the memories; what they are now is read with
-- them. A row goes when its index has been told.
CREATE TABLE memory_outbox (
    seq BIGINT NOT NULL,
    kind VARCHAR NOT NULL,
    agent_id VARCHAR NOT NULL,
    vector_id VARCHAR NOT NULL,
    changed_at TIMESTAMP NOT NULL
);

CREATE TABLE outbox_cursors (
    kind VARCHAR NOT NULL,
    delivered_seq BIGINT NOT NULL,
    attempts INTEGER NOT NULL
);

-- Changes that an index could not take; its cursor is past them.
CREATE TABLE memory_outbox_parked (
    kind VARCHAR NOT NULL,
    seq BIGINT NOT NULL,
    agent_id VARCHAR NOT NULL,
    vector_id VARCHAR NOT NULL,
    attempts INTEGER NOT NULL,
    error VARCHAR NOT NULL,
    parked_at TIMESTAMP NOT NULL
);

-- What each vector was made of. A row goes with its vector.
CREATE TABLE memory_embeddings (
    vector_id VARCHAR NOT NULL,
    model VARCHAR NOT NULL,
    dimensions INTEGER NOT NULL,
    content_hash VARCHAR NOT NULL,
    chunk_count INTEGER NOT NULL,
    embedded_at TIMESTAMP NOT NULL
);
