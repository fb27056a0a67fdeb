-- Values for people: stored ones are MessagePack maps, shown as JSON.

CREATE FUNCTION msgpack_number(data bytea, place integer, width integer) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE STRICT SET search_path FROM CURRENT AS $$
DECLARE
  number numeric := 0;
BEGIN
  FOR each IN place .. place + width - 1 LOOP
    number := number * 256 + get_byte(data, each);
  END LOOP;
  RETURN number;
END;
$$;

CREATE FUNCTION msgpack_float(bits numeric, exponent_bits integer, fraction_bits integer)
RETURNS jsonb LANGUAGE plpgsql IMMUTABLE STRICT SET search_path FROM CURRENT AS $$
DECLARE
  fraction numeric := mod(bits, 2::numeric ^ fraction_bits);
  exponent integer := mod(div(bits, 2::numeric ^ fraction_bits), 2::numeric ^ exponent_bits);
  sign integer := CASE WHEN bits >= 2::numeric ^ (exponent_bits + fraction_bits) THEN -1 ELSE 1 END;
  bias integer := 2 ^ (exponent_bits - 1) - 1;
BEGIN
  IF exponent = 2 * bias + 1 THEN
    RETURN to_jsonb(CASE WHEN fraction > 0 THEN 'NaN' WHEN sign < 0 THEN '-Infinity' ELSE 'Infinity' END);
  END IF;
  RETURN to_jsonb(
    sign * (fraction::float8 / 2::float8 ^ fraction_bits + least(exponent, 1))
    * 2::float8 ^ (greatest(exponent, 1) - bias)
  );
END;
$$;

CREATE FUNCTION msgpack_item(data bytea, INOUT place integer, OUT item jsonb)
LANGUAGE plpgsql IMMUTABLE STRICT SET search_path FROM CURRENT AS $$
DECLARE
  head integer := get_byte(data, place);
  width integer;
  size integer;
  found record;
  names text[] := '{}';
  items jsonb[] := '{}';
BEGIN
  place := place + 1;
  CASE
    WHEN head < 128 THEN item := to_jsonb(head); RETURN;
    WHEN head >= 224 THEN item := to_jsonb(head - 256); RETURN;
    WHEN head = 192 THEN item := 'null'; RETURN;
    WHEN head IN (194, 195) THEN item := to_jsonb(head = 195); RETURN;
    WHEN head IN (202, 203) THEN
      width := CASE head WHEN 202 THEN 4 ELSE 8 END;
      item := msgpack_float(
        msgpack_number(data, place, width), CASE width WHEN 4 THEN 8 ELSE 11 END,
        CASE width WHEN 4 THEN 23 ELSE 52 END
      );
      place := place + width;
      RETURN;
    WHEN head BETWEEN 204 AND 211 THEN
      width := 1 << ((head - 204) % 4);
      item := to_jsonb(
        msgpack_number(data, place, width)
        - CASE WHEN head >= 208 AND get_byte(data, place) >= 128 THEN 256::numeric ^ width ELSE 0 END
      );
      place := place + width;
      RETURN;
    WHEN head < 144 THEN size := head - 128;
    WHEN head < 160 THEN size := head - 144;
    WHEN head < 192 THEN size := head - 160;
    WHEN head BETWEEN 212 AND 216 THEN size := (1 << (head - 212)) + 1;
    ELSE
      width := CASE
        WHEN head BETWEEN 196 AND 201 THEN 1 << ((head - 196) % 3)
        WHEN head BETWEEN 217 AND 219 THEN 1 << (head - 217)
        ELSE 2 << (head % 2)
      END;
      size := msgpack_number(data, place, width);
      place := place + width;
      IF head BETWEEN 199 AND 201 THEN
        size := size + 1;
      END IF;
  END CASE;

  IF head BETWEEN 160 AND 191 OR head BETWEEN 217 AND 219 THEN
    item := to_jsonb(convert_from(substring(data FROM place + 1 FOR size), 'UTF8'));
    place := place + size;
  ELSIF head BETWEEN 196 AND 201 OR head BETWEEN 212 AND 216 THEN
    item := to_jsonb('\x' || encode(substring(data FROM place + 1 FOR size), 'hex'));
    place := place + size;
  ELSE
    FOR each IN 1 .. size LOOP
      IF head < 144 OR head >= 222 THEN
        SELECT * INTO found FROM msgpack_item(data, place);
        names := names || CASE jsonb_typeof(found.item) WHEN 'string' THEN found.item #>> '{}' ELSE found.item::text END;
        place := found.place;
      END IF;
      SELECT * INTO found FROM msgpack_item(data, place);
      items := items || found.item;
      place := found.place;
    END LOOP;
    IF head < 144 OR head >= 222 THEN
      SELECT coalesce(jsonb_object_agg(pair.name, pair.item), '{}') INTO item
        FROM unnest(names, items) AS pair (name, item);
    ELSE
      item := to_jsonb(items);
    END IF;
  END IF;
END;
$$;

-- A stored value as JSON: a MessagePack map as an object, other values as text, or as
-- hexadecimal digits where they are none.
CREATE FUNCTION as_json(value bytea) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT SET search_path FROM CURRENT AS $$
DECLARE
  found record;
BEGIN
  BEGIN
    IF length(value) > 0 AND (get_byte(value, 0) BETWEEN 128 AND 143 OR get_byte(value, 0) IN (222, 223)) THEN
      SELECT * INTO found FROM msgpack_item(value, 0);
      IF found.place = length(value) THEN
        RETURN found.item;
      END IF;
    END IF;
    RETURN to_jsonb(convert_from(value, 'UTF8'));
  EXCEPTION WHEN data_exception THEN
    RETURN to_jsonb('\x' || encode(value, 'hex'));
  END;
END;
$$;

CREATE VIEW readable_entry AS
  SELECT key, as_json(value) AS value, length(value) AS bytes, revision, session FROM entry;
COMMENT ON VIEW readable_entry IS 'Every key with its value as JSON.';

CREATE VIEW readable_change AS
  SELECT change.revision, change.committed, item.key,
    item.data IS NULL AND NOT item.referenced AS deleted,
    CASE
      WHEN NOT item.referenced THEN as_json(item.data)
      ELSE (
        SELECT as_json(entry.value) FROM entry
        WHERE entry.key = item.key AND entry.revision = change.revision
      )
    END AS value
  FROM change, unnest(change.keys, change.data, change.referenced) AS item (key, data, referenced);
COMMENT ON VIEW readable_change IS 'What the last revisions changed, one row per key; a large value that was replaced since is NULL.';
