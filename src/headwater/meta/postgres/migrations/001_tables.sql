-- The store itself. An operator may read all of it; only brokers write.

CREATE TABLE head (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  revision bigint NOT NULL,
  written bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO head (revision, written) VALUES (0, 0);
COMMENT ON TABLE head IS 'The last revision. Every commit locks this row first, so that revisions become visible in their order.';
COMMENT ON COLUMN head.written IS 'Bytes of all changes so far, by which old ones are trimmed.';

CREATE TABLE entry (
  key text COLLATE "C" PRIMARY KEY,
  value bytea NOT NULL,
  revision bigint NOT NULL,
  session text
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
-- Records come compressed by their producers: a second attempt costs time and saves nothing.
ALTER TABLE entry ALTER value SET STORAGE EXTERNAL;
CREATE INDEX entry_session ON entry (session) WHERE session IS NOT NULL;
COMMENT ON TABLE entry IS 'Every key with its value and the revision that wrote it; readable_entry shows values as JSON.';
COMMENT ON COLUMN entry.session IS 'The session that the key goes with; none for most.';

CREATE TABLE change (
  revision bigint PRIMARY KEY,
  keys text[] NOT NULL,
  data bytea[] NOT NULL,
  referenced boolean[] NOT NULL,
  written bigint NOT NULL,
  committed timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
ALTER TABLE change ALTER keys SET STORAGE EXTERNAL, ALTER data SET STORAGE EXTERNAL;
COMMENT ON TABLE change IS 'What each of the last revisions changed, for watches; brokers trim it. readable_change shows one row per key.';
COMMENT ON COLUMN change.data IS 'The values, NULL where the key was deleted or the value stands in entry alone.';
COMMENT ON COLUMN change.referenced IS 'Whether the value is large and has to be looked up in entry.';

CREATE TABLE session (
  id text PRIMARY KEY,
  expires timestamptz NOT NULL,
  opened timestamptz NOT NULL DEFAULT clock_timestamp(),
  client inet DEFAULT inet_client_addr()
);
COMMENT ON TABLE session IS 'Leases of live processes, by the clock of this server; their keys go when they expire.';

-- Commits the transactions of a batch, step by step, each as a revision of its own; they touch
-- different keys. Outcome 'conflict': a key is not at the revision that was seen (0: absent).
-- Outcome 'lost': some sessions have ended. Neither writes anything.
-- Each statement of a function sees what was committed before it began, so that what follows
-- the lock sees all that was committed under it.
CREATE FUNCTION commit_batch(
  seen_keys text[], seen_revisions bigint[], steps integer, bytes bigint,
  put_steps integer[], put_keys text[], put_values bytea[], put_sessions text[],
  delete_steps integer[], delete_keys text[],
  range_steps integer[], range_starts text[], range_ends text[], referenced_bytes integer,
  OUT outcome text, OUT base bigint, OUT lost text[], OUT gone_steps integer[], OUT gone_keys text[]
) LANGUAGE plpgsql AS $$
DECLARE
  total bigint;
  ranged_steps integer[];
  ranged_keys text[];
BEGIN
  SELECT head.revision, head.written + bytes INTO base, total FROM head FOR UPDATE;
  gone_steps := '{}';
  gone_keys := '{}';

  PERFORM 1 FROM unnest(seen_keys, seen_revisions) AS seen (key, revision)
    LEFT JOIN entry ON entry.key = seen.key
    WHERE coalesce(entry.revision, 0) <> seen.revision LIMIT 1;
  IF FOUND THEN
    outcome := 'conflict';
    RETURN;
  END IF;

  SELECT array_agg(DISTINCT bound.id) INTO lost FROM unnest(put_sessions) AS bound (id)
    WHERE bound.id IS NOT NULL AND NOT EXISTS (
      SELECT FROM session WHERE session.id = bound.id AND session.expires > clock_timestamp()
    );
  IF lost IS NOT NULL THEN
    outcome := 'lost';
    RETURN;
  END IF;

  IF cardinality(delete_keys) > 0 THEN
    WITH gone AS (
      DELETE FROM entry USING unnest(delete_steps, delete_keys) AS named (step, key)
      WHERE entry.key = named.key RETURNING named.step, entry.key
    )
    SELECT coalesce(array_agg(gone.step), '{}'), coalesce(array_agg(gone.key), '{}')
      INTO gone_steps, gone_keys FROM gone;
  END IF;
  IF cardinality(range_starts) > 0 THEN
    WITH gone AS (
      DELETE FROM entry USING unnest(range_steps, range_starts, range_ends) AS span (step, low, high)
      WHERE entry.key >= span.low AND entry.key < span.high RETURNING span.step, entry.key
    )
    SELECT coalesce(array_agg(gone.step), '{}'), coalesce(array_agg(gone.key), '{}')
      INTO ranged_steps, ranged_keys FROM gone WHERE gone.key <> ALL (put_keys);
    gone_steps := gone_steps || ranged_steps;
    gone_keys := gone_keys || ranged_keys;
  END IF;

  INSERT INTO entry (key, value, revision, session)
    SELECT put.key, put.value, base + put.step, put.session
    FROM unnest(put_steps, put_keys, put_values, put_sessions) AS put (step, key, value, session)
    ON CONFLICT (key) DO UPDATE
    SET value = excluded.value, revision = excluded.revision, session = excluded.session;

  INSERT INTO change (revision, keys, data, referenced, written)
    SELECT base + item.step, array_agg(item.key),
      array_agg(CASE WHEN length(item.value) <= referenced_bytes THEN item.value END),
      array_agg(coalesce(length(item.value) > referenced_bytes, false)), total
    FROM (
      SELECT * FROM unnest(put_steps, put_keys, put_values) AS put (step, key, value)
      UNION ALL
      SELECT gone.step, gone.key, NULL FROM unnest(gone_steps, gone_keys) AS gone (step, key)
    ) AS item
    GROUP BY item.step;
  IF cardinality(delete_keys) + cardinality(range_starts) > 0 THEN
    -- A step that found nothing to delete has its revision all the same: there are no gaps.
    INSERT INTO change (revision, keys, data, referenced, written)
      SELECT base + step, '{}', '{}', '{}', total FROM generate_series(1, steps) AS step
      ON CONFLICT DO NOTHING;
  END IF;

  UPDATE head SET revision = base + steps, written = total;
  outcome := 'done';
END;
$$;

-- Ends the named sessions, or with NULL all that have expired, and deletes their keys as one
-- revision; revision is NULL where there were none.
CREATE FUNCTION end_sessions(ids text[], OUT revision bigint, OUT gone_keys text[])
LANGUAGE plpgsql AS $$
DECLARE
  ended text[];
BEGIN
  PERFORM 1 FROM head FOR UPDATE;
  WITH gone AS (
    DELETE FROM session
    WHERE CASE WHEN ids IS NULL THEN session.expires <= clock_timestamp() ELSE session.id = ANY (ids) END
    RETURNING session.id
  )
  SELECT array_agg(gone.id) INTO ended FROM gone;
  WITH gone AS (
    DELETE FROM entry WHERE entry.session = ANY (ended) RETURNING entry.key
  )
  SELECT array_agg(gone.key ORDER BY gone.key) INTO gone_keys FROM gone;
  IF gone_keys IS NOT NULL THEN
    UPDATE head SET revision = head.revision + 1 RETURNING head.revision INTO revision;
    INSERT INTO change (revision, keys, data, referenced, written)
      SELECT head.revision, gone_keys, array_fill(NULL::bytea, ARRAY[cardinality(gone_keys)]),
        array_fill(false, ARRAY[cardinality(gone_keys)]), head.written
      FROM head;
  END IF;
END;
$$;

-- Deletes the oldest changes beyond both bounds; the last one stays.
CREATE FUNCTION trim_changes(kept_revisions bigint, kept_bytes bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  last head%ROWTYPE;
  first_kept bigint;
  trimmed bigint := 0;
BEGIN
  IF pg_try_advisory_xact_lock(hashtext('headwater trims'), hashtext(current_schema())) THEN
    SELECT * INTO last FROM head;
    SELECT change.revision INTO first_kept FROM change
      WHERE change.written > last.written - kept_bytes ORDER BY change.revision LIMIT 1;
    DELETE FROM change
      WHERE revision < least(last.revision, greatest(first_kept, last.revision - kept_revisions + 1));
    GET DIAGNOSTICS trimmed = ROW_COUNT;
  END IF;
  RETURN trimmed;
END;
$$;
