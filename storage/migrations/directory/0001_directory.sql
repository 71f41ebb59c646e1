-- What a runtime knows of itself: its agents and its conversations.
CREATE TABLE agents (
    name VARCHAR NOT NULL,
    agent_id VARCHAR NOT NULL,
    options VARCHAR NOT NULL,
    version INTEGER NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL
);

CREATE TABLE conversations (
    agent VARCHAR NOT NULL,
    conversation_id VARCHAR NOT NULL,
    contact VARCHAR,
    created_at TIMESTAMP NOT NULL,
    epoch BIGINT NOT NULL,
    has_file BOOLEAN NOT NULL,
    node VARCHAR,
    last_activity TIMESTAMP NOT NULL,
    messages BIGINT NOT NULL,
    open_turns INTEGER NOT NULL,
    outbox_pending BIGINT,
    outbox_parked BIGINT NOT NULL,
    drained_kinds VARCHAR NOT NULL,
    sweeps INTEGER NOT NULL,
    next_sweep_at TIMESTAMP
);

CREATE TABLE contacts (
    contact VARCHAR NOT NULL,
    created_at TIMESTAMP NOT NULL
);

CREATE TABLE job_runs (
    run_id VARCHAR NOT NULL,
    job VARCHAR NOT NULL,
    started_at TIMESTAMP NOT NULL,
    ended_at TIMESTAMP NOT NULL,
    counts VARCHAR NOT NULL,
    error VARCHAR
);
