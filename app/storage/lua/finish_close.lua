-- Removes closed clicks and counts them, each once.
--
-- KEYS: counters; per click its hash and its shard's sorted set of open clicks. ARGV: number of
-- further counters; their names and what to add; per click its id. Returns how many were removed.
--
-- ZREM comes first: a full store lets it pass, and then the rest.

-- include click_names

local counters, further = KEYS[1], tonumber(ARGV[1])

local removed = 0
for number = 1, (#KEYS - 1) / 2 do
  local id = ARGV[1 + 2 * further + number]
  if redis.call('ZREM', KEYS[2 * number + 1], name_of_click(id), id) > 0 then
    redis.call('UNLINK', KEYS[2 * number])
    removed = removed + 1
  end
end

if removed > 0 then
  redis.call('HINCRBY', counters, 'closed', removed)
  for number = 1, further do
    redis.call('HINCRBY', counters, ARGV[2 * number], ARGV[2 * number + 1])
  end
end
return removed
