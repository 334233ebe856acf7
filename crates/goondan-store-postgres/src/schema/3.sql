-- Each of these finds rows by the hash alone, which is of no use for anything else: what ends a turn is planned once, and a table
-- that is small at that moment must not lead to an index that reads all of a workspace.
DROP INDEX goondan.pending_by_target;
CREATE INDEX pending_by_target ON goondan.pending (target);
DROP INDEX goondan.handled_by_need;
CREATE INDEX handled_by_need ON goondan.handled (needed_key) WHERE needed_key IS NOT NULL
