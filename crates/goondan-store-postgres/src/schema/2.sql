-- Several nodes at work in a workspace.
ALTER TABLE goondan.nodes ADD COLUMN generation text;
ALTER TABLE goondan.nodes ADD COLUMN running bigint NOT NULL DEFAULT 0;
-- Which nodes work for the one that holds the workspace. A session of a node without a row is refused.
CREATE TABLE goondan.members (
    workspace bigint NOT NULL,
    node text NOT NULL,
    epoch bigint NOT NULL,
    generation text NOT NULL,
    turns bigint NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace, node)
);
-- What nodes say to each other. Whoever has said something keeps it until the other one has it, so that nothing has to survive a
-- crash of the database here.
CREATE UNLOGGED TABLE goondan.packets (
    workspace bigint NOT NULL,
    recipient text NOT NULL,
    sender text NOT NULL,
    number bigint NOT NULL,
    -- The last number that the sender has got from the recipient.
    ack bigint NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (workspace, recipient, sender, number)
)
