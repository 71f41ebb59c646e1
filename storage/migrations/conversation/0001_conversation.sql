-- One conversation: who it is, what was said, its turns and their checkpoints.
CREATE TABLE conversation (
    agent VARCHAR NOT NULL,
    conversation_id VARCHAR NOT NULL,
    contact VARCHAR,
    created_at TIMESTAMP NOT NULL,
    notes VARCHAR NOT NULL,
    ongoing_task VARCHAR,
    recent_changes VARCHAR NOT NULL,
    epoch BIGINT NOT NULL
);

-- A turn is opened by its user message and ended by its reply, so that each takes one row: the first has
-- `turn_opening`, the second `turn_end`. `tool` has the calls of an assistant message, or the call that a tool
-- message answers. What no query looks into is JSON: an insert pays for every column, also for one that is null.
CREATE TABLE chat_messages (
    seq BIGINT NOT NULL,
    message_id VARCHAR NOT NULL,
    turn_id VARCHAR,
    role VARCHAR NOT NULL,
    speaker VARCHAR,
    content VARCHAR NOT NULL USING COMPRESSION zstd,
    tool VARCHAR,
    tokens INTEGER NOT NULL,
    created_at TIMESTAMP NOT NULL,
    turn_opening VARCHAR,
    turn_end VARCHAR USING COMPRESSION zstd
);

-- The ends of turns that have no reply.
CREATE TABLE unanswered_turns (
    turn_id VARCHAR NOT NULL,
    turn_end VARCHAR NOT NULL USING COMPRESSION zstd
);

-- Every turn that has ended; a turn that is not here is open.
CREATE VIEW turn_ends AS
SELECT turn_id, turn_end FROM chat_messages WHERE turn_end IS NOT NULL
UNION ALL
SELECT turn_id, turn_end FROM unanswered_turns;

-- Append-only while its turn is open; the transaction that ends the turn deletes its rows. Besides what was done
-- there are steps of kind 'attempt', the last of which counts the turn's attempts; its first needs none.
CREATE TABLE turn_checkpoints (
    checkpoint_key VARCHAR NOT NULL,
    step INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    body VARCHAR NOT NULL USING COMPRESSION zstd,
    recorded_at TIMESTAMP NOT NULL
);

-- How far each consumer has been told of the messages; the messages themselves are the rows of the outbox.
CREATE TABLE outbox_cursors (
    kind VARCHAR NOT NULL,
    delivered_seq BIGINT NOT NULL,
    attempts INTEGER NOT NULL
);

-- Messages that a consumer could not take; its cursor is past them.
CREATE TABLE outbox_parked (
    kind VARCHAR NOT NULL,
    seq BIGINT NOT NULL,
    message_id VARCHAR NOT NULL,
    attempts INTEGER NOT NULL,
    error VARCHAR NOT NULL,
    parked_at TIMESTAMP NOT NULL
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
