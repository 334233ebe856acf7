-- Everything that swarms must not lose. Names of instances, events and records may be of any length and hold any character, so
-- that rows are found by hashes of them; texts are JSON, in which every character has a form that PostgreSQL takes.
CREATE SCHEMA IF NOT EXISTS goondan;
CREATE TABLE goondan.versions (
    version integer PRIMARY KEY,
    made_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE goondan.workspaces (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    -- Grows with each node that takes the workspace over.
    epoch bigint NOT NULL DEFAULT 0,
    holder text
);
CREATE TABLE goondan.nodes (
    id text PRIMARY KEY,
    workspace bigint NOT NULL,
    machine text NOT NULL,
    process bigint NOT NULL,
    state text NOT NULL,
    since timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now()
);
-- Accepted events that are not done.
CREATE TABLE goondan.pending (
    workspace bigint NOT NULL,
    id bytea NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    target bytea NOT NULL,
    asked_by text,
    asked_key bytea,
    event text NOT NULL,
    PRIMARY KEY (workspace, id)
);
CREATE INDEX pending_by_target ON goondan.pending (workspace, target);
-- Events that were handled lately, with what came of them.
CREATE TABLE goondan.handled (
    workspace bigint NOT NULL,
    id bytea NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    event_id text NOT NULL,
    result text NOT NULL,
    needed_by text,
    needed_key bytea,
    PRIMARY KEY (workspace, id)
);
CREATE INDEX handled_by_seq ON goondan.handled (workspace, seq);
CREATE INDEX handled_by_need ON goondan.handled (workspace, needed_key) WHERE needed_key IS NOT NULL;
CREATE SEQUENCE goondan.epochs;
CREATE TABLE goondan.conversations (
    workspace bigint NOT NULL,
    instance bytea NOT NULL,
    epoch bigint NOT NULL,
    last_turn text,
    PRIMARY KEY (workspace, instance)
);
CREATE TABLE goondan.messages (
    workspace bigint NOT NULL,
    instance bytea NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    message text NOT NULL,
    PRIMARY KEY (workspace, instance, seq)
);
-- Message events of running turns.
CREATE TABLE goondan.turn_events (
    workspace bigint NOT NULL,
    instance bytea NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    event text NOT NULL,
    PRIMARY KEY (workspace, instance, seq)
);
-- Effects of running turns; an outcome that is missing is not known.
CREATE TABLE goondan.journal (
    workspace bigint NOT NULL,
    instance bytea NOT NULL,
    effect bytea NOT NULL,
    turn_id text NOT NULL,
    record text NOT NULL,
    PRIMARY KEY (workspace, instance, effect)
);
CREATE TABLE goondan.instances (
    workspace bigint NOT NULL,
    instance bytea NOT NULL,
    meta text NOT NULL,
    PRIMARY KEY (workspace, instance)
);
CREATE TABLE goondan.records (
    workspace bigint NOT NULL,
    instance bytea NOT NULL,
    name_key bytea NOT NULL,
    who text NOT NULL,
    version bigint NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (workspace, instance, name_key)
);
CREATE INDEX records_by_name ON goondan.records (workspace, name_key);
CREATE SEQUENCE goondan.record_versions;
CREATE TABLE goondan.runtime_events (
    workspace bigint NOT NULL,
    instance bytea NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    sequence bigint NOT NULL,
    written_at timestamptz NOT NULL DEFAULT now(),
    event text NOT NULL,
    PRIMARY KEY (workspace, instance, seq)
);
CREATE INDEX runtime_events_by_age ON goondan.runtime_events (workspace, written_at);
-- Inputs that came in elsewhere and are to be handed to the node that holds the workspace.
CREATE TABLE goondan.letters (
    workspace bigint NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    input text NOT NULL,
    -- Why the swarm did not take it.
    refusal text,
    PRIMARY KEY (workspace, seq)
)
