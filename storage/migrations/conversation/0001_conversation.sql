-- One conversation: who it is, what was said, its turns and their checkpoints.
CREATE TABLE conversation (
    agent VARCHAR NOT NULL,
    conversation_id VARCHAR NOT NULL,
    contact VARCHAR,
    created_at TIMESTAMP NOT NULL,
    notes VARCHAR NOT NULL,
    ongoing_task VARCHAR,
    recent_changes VARCHAR NOT NULL
);

-- The user message of a turn also opens it: its row has `turn_owner`, `text_digest` and `opened_at`, which are
-- null in every other row. A turn is open as long as `turns` has no row of its `turn_id`.
CREATE TABLE chat_messages (
    seq BIGINT NOT NULL,
    message_id VARCHAR NOT NULL,
    turn_id VARCHAR,
    role VARCHAR NOT NULL,
    speaker VARCHAR,
    content VARCHAR NOT NULL USING COMPRESSION zstd,
    tool_calls VARCHAR,
    call_id VARCHAR,
    tool_name VARCHAR,
    status VARCHAR,
    tokens INTEGER NOT NULL,
    created_at TIMESTAMP NOT NULL,
    turn_owner VARCHAR,
    text_digest VARCHAR,
    opened_at TIMESTAMP
);

-- Turns that have ended; a row is inserted whole with the turn's end and never changed.
CREATE TABLE turns (
    turn_id VARCHAR NOT NULL,
    state VARCHAR NOT NULL,
    owner VARCHAR NOT NULL,
    text_digest VARCHAR NOT NULL,
    user_seq BIGINT NOT NULL,
    opened_at TIMESTAMP NOT NULL,
    attempted_at TIMESTAMP NOT NULL,
    ended_at TIMESTAMP,
    attempts_begun INTEGER NOT NULL,
    attempts_ended INTEGER NOT NULL,
    reply VARCHAR USING COMPRESSION zstd,
    error VARCHAR,
    absorbed_by VARCHAR
);

-- Append-only while its turn is open; the transaction that ends the turn deletes its rows. Besides what was done
-- there are steps of kind 'attempt', the last of which counts the turn's attempts; its first needs none.
CREATE TABLE turn_checkpoints (
    checkpoint_key VARCHAR NOT NULL,
    step INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    body VARCHAR NOT NULL USING COMPRESSION zstd,
    recorded_at TIMESTAMP NOT NULL
);

CREATE TABLE conversation_overlays (
    overlay_id VARCHAR NOT NULL,
    from_seq BIGINT NOT NULL,
    to_seq BIGINT NOT NULL,
    from_created_at TIMESTAMP NOT NULL,
    to_created_at TIMESTAMP NOT NULL,
    message_count INTEGER NOT NULL,
    summary VARCHAR NOT NULL USING COMPRESSION zstd,
    tokens INTEGER NOT NULL,
    created_at TIMESTAMP NOT NULL
);
