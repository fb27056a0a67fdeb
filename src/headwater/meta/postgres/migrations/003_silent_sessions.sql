-- A session no longer ends by this server's clock, which may be set: brokers end one that they have
-- not seen renewed for its time to live, each by its own monotonic clock.

ALTER TABLE session ADD COLUMN ttl interval NOT NULL DEFAULT '10 s';
ALTER TABLE session ADD COLUMN renewed timestamptz NOT NULL DEFAULT clock_timestamp();
ALTER TABLE session ALTER expires SET DEFAULT 'infinity';
COMMENT ON TABLE session IS 'Leases of live processes. One that is not renewed for its ttl is ended by brokers, with its keys.';
COMMENT ON COLUMN session.renewed IS 'For people; nothing is decided by it.';
COMMENT ON COLUMN session.expires IS 'Infinity, but for sessions of releases that let them expire by this clock.';

-- Ends those of the named sessions that have not been renewed since they were seen, each with the
-- transaction that wrote it then, and deletes their keys as one revision.
CREATE FUNCTION end_silent_sessions(
  ids text[], seen text[], OUT revision bigint, OUT gone_keys text[]
) LANGUAGE plpgsql AS $$
DECLARE
  silent text[];
BEGIN
  PERFORM 1 FROM head FOR UPDATE;
  SELECT array_agg(found.id) INTO silent FROM (
    SELECT session.id FROM session JOIN unnest(ids, seen) AS named (id, version)
      ON session.id = named.id AND session.xmin::text = named.version
    FOR UPDATE OF session
  ) AS found;
  SELECT ended.revision, ended.gone_keys INTO revision, gone_keys
    FROM end_sessions(coalesce(silent, '{}')) AS ended;
END;
$$;
