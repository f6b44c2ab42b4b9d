-- The highest grant that each resource has accepted. Rows stay for ever: whoever deletes one lets a holder of any age write.
CREATE TABLE IF NOT EXISTS "quorumlock_fence" (
  resource    text COLLATE "C" NOT NULL PRIMARY KEY,
  cluster     text COLLATE "C" NOT NULL,
  lock        text COLLATE "C" NOT NULL,
  token       bigint NOT NULL CHECK (token > 0),
  accepted_at timestamptz NOT NULL DEFAULT now() -- of the last claim, for people
);

-- Nothing may take back what has been accepted, whichever program asks for it.
CREATE OR REPLACE FUNCTION "quorumlock_fence_keep"() RETURNS trigger LANGUAGE plpgsql AS $keep$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF NEW.resource = OLD.resource AND NEW.lock = OLD.lock
      AND (NEW.token > OLD.token OR NEW.token = OLD.token AND NEW.cluster = OLD.cluster) THEN
      RETURN NEW;
    END IF;
    RAISE EXCEPTION 'resource % has accepted token % of lock %', quote_literal(OLD.resource), OLD.token, quote_literal(OLD.lock)
      USING ERRCODE = 'integrity_constraint_violation', HINT = 'This change would let a stale lock holder write.';
  END IF;
  RAISE EXCEPTION '% of accepted grants', TG_OP
    USING ERRCODE = 'integrity_constraint_violation', HINT = 'Without them a stale lock holder could write.';
END
$keep$;

CREATE OR REPLACE TRIGGER quorumlock_keep_grant BEFORE UPDATE ON "quorumlock_fence"
  FOR EACH ROW EXECUTE FUNCTION "quorumlock_fence_keep"();

CREATE OR REPLACE TRIGGER quorumlock_keep_row BEFORE DELETE ON "quorumlock_fence"
  FOR EACH ROW EXECUTE FUNCTION "quorumlock_fence_keep"();

CREATE OR REPLACE TRIGGER quorumlock_keep_rows BEFORE TRUNCATE ON "quorumlock_fence"
  FOR EACH STATEMENT EXECUTE FUNCTION "quorumlock_fence_keep"();

-- Always: where changes arrive by logical replication too.
ALTER TABLE "quorumlock_fence"
  ENABLE ALWAYS TRIGGER quorumlock_keep_grant,
  ENABLE ALWAYS TRIGGER quorumlock_keep_row,
  ENABLE ALWAYS TRIGGER quorumlock_keep_rows;
