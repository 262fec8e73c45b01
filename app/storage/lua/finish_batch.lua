-- Takes a batch away that all tables have, once.
--
-- KEYS: log, mark of how far it is folded, the shard's set of logs, its list of damaged blocks.
-- ARGV: name of the log in the set, number of the batch, life of damaged blocks in seconds, damaged
--   blocks. Returns 1, or 0 when another has taken it away.
--
-- LTRIM comes first: a full store lets it pass, and then the rest.

-- include batch_mark

local log, mark, logs, damaged = unpack(KEYS)
local member, batch, life = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local number, pinned = read_mark(mark)
if number ~= batch or pinned == 0 then
  return 0
end

-- A log that somebody has emptied since may have begun anew.
local there = redis.call('LLEN', log) >= pinned
redis.call('LTRIM', log, there and pinned or 0, -1)
redis.call('SET', mark, sealed_mark(mark, number, 0), 'KEEPTTL')
if redis.call('LLEN', log) == 0 then
  redis.call('SREM', logs, member)
end
for argument = 4, #ARGV do
  redis.call('LPUSH', damaged, ARGV[argument])
  redis.call('LTRIM', damaged, 0, 999)
  redis.call('EXPIRE', damaged, life)
end
return 1
