-- Removes closed clicks and counts them, each once.
--
-- KEYS: the shard's counters, its sorted set of open clicks, per click its hash. ARGV: per click its
-- id. Returns how many were removed.
--
-- ZREM comes first: a full store lets it pass, and then the rest.

-- include click_names

local counters, open = KEYS[1], KEYS[2]

local removed = 0
for number, id in ipairs(ARGV) do
  if redis.call('ZREM', open, name_of_click(id), id) > 0 then
    redis.call('UNLINK', KEYS[2 + number])
    removed = removed + 1
  end
end

if removed > 0 then
  redis.call('HINCRBY', counters, 'closed', removed)
end
return removed
